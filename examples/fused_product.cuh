/* fused_product.cuh: the matrix product of one tile: 64 keys by 128 columns, d = 128, FP8 e4m3. All PTX of the fused indexer is here.
 *
 * A column is one head of one query. Keys and columns lie in shared memory as rows of 128 bytes in the 128-byte swizzle: 16-byte piece c of
 * row r is at r * 128 + ((c ^ (r & 7)) * 16), and the tile begins at a multiple of 1024 bytes. That is one swizzle atom a row, so a step of
 * 32 elements along the depth is 32 bytes further in the descriptor's address.
 *
 *   topkit_fused_product_begin(d, keys, columns)    four warps together, aligned to four; returns at once, d belongs to the tensor cores
 *   topkit_fused_product_wait(d)                    until it is d's again
 *
 * One product at a time is under way for a warpgroup: the compiler orders all others behind it where accumulators of one are read while
 * two are in flight (it says so: C7514). Several warpgroups by turns keep the tensor cores busy.
 *
 * Keys are the rows of the product (M) and heads its columns (N): thread t of the four warps then holds, for two keys, a quarter of the
 * columns side by side in registers. (With heads as rows a thread would hold two heads of many keys, and every score would be summed across
 * 8 lanes and 4 warps.)
 *
 *   d[4 j + 2 r + e], j = 0 .. 15, of thread t: key 16 (t / 32) + (t % 32) / 4 + 8 r, column 8 j + 2 (t % 4) + e
 *
 * Only sm_90a has these instructions. TOPKIT_HAS_WGMMA says whether they may be used; on the CPU executor scalar code takes their place.
 */
#ifndef TOPKIT_FUSED_PRODUCT_CUH
#define TOPKIT_FUSED_PRODUCT_CUH

#include "launch.h"
#include "topkit/ptx.cuh"

#if !TOPKIT_PTX || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TOPKIT_HAS_WGMMA 1
#else
#define TOPKIT_HAS_WGMMA 0
#endif

#define TOPKIT_FUSED_ROW 128   /* bytes of a key, and of a head of a query */
#define TOPKIT_FUSED_TILE 64   /* keys of a product */
#define TOPKIT_FUSED_HALF 128  /* columns of a product */
#define TOPKIT_FUSED_SUMS 64   /* accumulators of a thread */

#define TOPKIT_PRODUCT_FN static __device__ __forceinline__ __attribute__((unused))

/* Where 16-byte piece `piece` of row `row` lies in its tile. */
TOPKIT_PRODUCT_FN unsigned topkit_fused_swizzle(unsigned row, unsigned piece) {
    return row * TOPKIT_FUSED_ROW + ((piece ^ (row & 7)) << 4);
}

/* Makes what the calling thread has written or copied to shared memory visible to the tensor cores, before it tells anybody. */
TOPKIT_PRODUCT_FN void topkit_fused_publish(void) {
#if TOPKIT_PTX && TOPKIT_HAS_WGMMA
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* Registers from the service warps to those that hold accumulators; each called once by all warps of a warpgroup. */
template <int REGISTERS>
TOPKIT_PRODUCT_FN void topkit_fused_more_registers(void) {
#if TOPKIT_PTX && TOPKIT_HAS_WGMMA
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}
template <int REGISTERS>
TOPKIT_PRODUCT_FN void topkit_fused_fewer_registers(void) {
#if TOPKIT_PTX && TOPKIT_HAS_WGMMA
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}

#ifdef TOPKIT_SIMT
/* The float of an e4m3 code: 4 bits of exponent (bias 7), 3 of fraction, no infinities, 0x7f and 0xff NaN. */
struct topkit_e4m3_table {
    float value[256];
};
static constexpr topkit_e4m3_table topkit_e4m3_make(void) {
    topkit_e4m3_table table = {};
    for (int code = 0; code < 256; code++) {
        const int exponent = code >> 3 & 15, fraction = code & 7;
        float value = (float)(exponent == 0 ? fraction : 8 + fraction) * 0x1p-9f;
        for (int e = 1; e < exponent; e++) value *= 2.0f;
        if ((code & 0x7f) == 0x7f) value = __builtin_nanf("");
        table.value[code] = code & 0x80 ? -value : value;
    }
    return table;
}
static constexpr topkit_e4m3_table topkit_e4m3 = topkit_e4m3_make();

/* Adds to the scalar products of two rows of keys with two pairs of columns what 16 bytes of depth give. A vector holds what a thread does:
 * both columns of a pair for the first row, then for the second. No sanitizer: this is nearly all of what the tests of the fused indexer
 * compute, and it touches nothing but its caller's copies. */
typedef float topkit_fused_four __attribute__((vector_size(16)));
__attribute__((no_sanitize("address", "undefined", "thread"))) static inline void topkit_fused_add(
    topkit_fused_four (&sums)[2], const topkit_fused_four *keys, const unsigned char (&bytes)[4][16]) {
    const float *value = topkit_e4m3.value;
    topkit_fused_four first = sums[0], second = sums[1];
    for (unsigned i = 0; i < 16; i++) {
        const float a = value[bytes[0][i]], b = value[bytes[1][i]], c = value[bytes[2][i]], d = value[bytes[3][i]];
        first += keys[i] * topkit_fused_four{a, b, a, b};
        second += keys[i] * topkit_fused_four{c, d, c, d};
    }
    sums[0] = first;
    sums[1] = second;
}
#elif TOPKIT_PTX && TOPKIT_HAS_WGMMA
/* The descriptor of a tile: address and, between groups of 8 rows, 1024 bytes (both in units of 16); bit 62: 128-byte swizzle. The leading
 * offset has no meaning here, since a row is one swizzle atom wide. */
TOPKIT_PRODUCT_FN unsigned long long topkit_fused_descriptor(const unsigned char *tile) {
    const unsigned long long address = (topkit_shared_address(tile) & 0x3ffffu) >> 4;
    return address | 1ull << 16 | (unsigned long long)(8 * TOPKIT_FUSED_ROW >> 4) << 32 | 1ull << 62;
}

/* d = (ADDS ? d : 0) + 32 elements of depth. */
template <int ADDS>
TOPKIT_PRODUCT_FN void topkit_fused_step(float (&d)[TOPKIT_FUSED_SUMS], unsigned long long a, unsigned long long b) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3"
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63},"
        " %64, %65, p, 1, 1; }"
        :
        "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "n"(ADDS));
}
#endif

/* max(dot, 0) / 2^25, exactly, and 0 for a NaN: no dot product of 128 pairs of e4m3 exceeds 448 * 448 * 128 < 2^25. What saturates goes
 * through the multipliers, which have time left; max does not. */
TOPKIT_PRODUCT_FN float topkit_fused_part(float dot) {
#if TOPKIT_PTX
    float x;
    asm("mul.rn.sat.f32 %0, %1, 0f33000000;" : "=f"(x) : "f"(dot));
    return x;
#else
    return dot > 0.0f ? dot * 0x1p-25f : 0.0f;
#endif
}

TOPKIT_PRODUCT_FN void topkit_fused_product_begin(float (&d)[TOPKIT_FUSED_SUMS], const unsigned char *keys, const unsigned char *columns) {
#ifdef TOPKIT_SIMT
    const unsigned lane = threadIdx.x & 31, row = (threadIdx.x >> 5 & 3) * 16 + (lane >> 2), column = (lane & 3) * 2;
    topkit_fused_four both[TOPKIT_FUSED_ROW];
    for (unsigned i = 0; i < TOPKIT_FUSED_ROW; i++) {
        const float upper = topkit_e4m3.value[keys[topkit_fused_swizzle(row, i >> 4) + (i & 15)]];
        const float lower = topkit_e4m3.value[keys[topkit_fused_swizzle(row + 8, i >> 4) + (i & 15)]];
        both[i] = topkit_fused_four{upper, upper, lower, lower};
    }
    for (unsigned j = 0; j < 16; j += 2) { /* every sum in FP32, in ascending order of the depth */
        topkit_fused_four sums[2] = {};
        for (unsigned piece = 0; piece < 8; piece++) {
            unsigned char bytes[4][16];
            for (unsigned c = 0; c < 4; c++)
                memcpy(bytes[c], columns + topkit_fused_swizzle(8 * (j + (c >> 1)) + column + (c & 1), piece), sizeof bytes[c]);
            topkit_fused_add(sums, both + piece * 16, bytes);
        }
        memcpy(d + 4 * j, sums, sizeof sums);
    }
#elif TOPKIT_PTX && TOPKIT_HAS_WGMMA
    const unsigned long long a = topkit_fused_descriptor(keys), b = topkit_fused_descriptor(columns);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); /* d was last touched by this thread */
    topkit_fused_step<0>(d, a, b);
    topkit_fused_step<1>(d, a + 2, b + 2);
    topkit_fused_step<1>(d, a + 4, b + 4);
    topkit_fused_step<1>(d, a + 6, b + 6);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

TOPKIT_PRODUCT_FN void topkit_fused_product_wait(float (&d)[TOPKIT_FUSED_SUMS]) {
#if TOPKIT_PTX && TOPKIT_HAS_WGMMA
    /* d is named so that the compiler reads none of it before this line. */
    asm volatile("wgmma.wait_group.sync.aligned 0;"
        :
        "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        :
        : "memory");
#else
    (void)d;
#endif
}

#endif
