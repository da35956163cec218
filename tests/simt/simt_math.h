/* simt_math.h: intrinsics of one thread: bits, reinterpretation, cached loads and stores, min and max, address spaces.
 *
 * Included by simt_device.h. Results at the edges are the hardware's (a count of leading zeros of 0 is 32, __ffs of 0 is 0 ...).
 */
#ifndef SIMT_MATH_H
#define SIMT_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- bits ---- */

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }

static inline unsigned __brev(unsigned x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
static inline unsigned long long __brevll(unsigned long long x)
{
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}

/* Selector nibble i picks byte i of the result from the 8 bytes y:x; its top bit repeats that byte's sign instead. */
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
    unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        unsigned nibble = selector >> (4 * i) & 15u;
        unsigned byte = (unsigned)(bytes >> (8 * (nibble & 7u))) & 255u;
        if (nibble & 8u) byte = byte & 128u ? 255u : 0u;
        result |= byte << (8 * i);
    }
    return result;
}

static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)((((uint64_t)high << 32 | low) << (shift & 31u)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31u));
}
static inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift)
{
    return shift >= 32u ? low : __funnelshift_l(low, high, shift);
}
static inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift)
{
    return shift >= 32u ? high : __funnelshift_r(low, high, shift);
}

/* Position of the offset-th set bit at or above base (offset > 0), at or below it (offset < 0), base itself (0); ~0 if there is none. */
static inline unsigned __fns(unsigned mask, unsigned base, int offset)
{
    if (offset == 0) return base < 32u && (mask >> base & 1u) ? base : 0xffffffffu;
    int step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
    for (int bit = (int)base; bit >= 0 && bit < 32; bit += step) {
        if ((mask >> bit & 1u) && --left == 0) return (unsigned)bit;
    }
    return 0xffffffffu;
}

static inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)(((uint64_t)x * y) >> 32); }
static inline int __mulhi(int x, int y) { return (int)(((int64_t)x * y) >> 32); }
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y)
{
    __extension__ typedef unsigned __int128 wide;
    return (unsigned long long)((wide)x * y >> 64);
}

/* ---- reinterpretation and rounding ---- */

#define SIMT_REINTERPRET(name, from, to)                                                                         \
    static inline to name(from value)                                                                            \
    {                                                                                                            \
        to result;                                                                                               \
        memcpy(&result, &value, sizeof result);                                                                  \
        return result;                                                                                           \
    }
SIMT_REINTERPRET(__float_as_uint, float, unsigned)
SIMT_REINTERPRET(__float_as_int, float, int)
SIMT_REINTERPRET(__uint_as_float, unsigned, float)
SIMT_REINTERPRET(__int_as_float, int, float)
SIMT_REINTERPRET(__double_as_longlong, double, long long)
SIMT_REINTERPRET(__longlong_as_double, long long, double)
#undef SIMT_REINTERPRET

static inline int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
static inline int __double2loint(double x) { return (int)__double_as_longlong(x); }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __uint2float_rn(unsigned x) { return (float)x; }
static inline float __int2float_rn(int x) { return (float)x; }
static inline int __float2int_rn(float x) { return (int)rintf(x); }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

/* ---- loads and stores with a cache hint ---- */

#define SIMT_LOAD(name) template <class T> static inline T name(const T *address) { return *address; }
#define SIMT_STORE(name) template <class T> static inline void name(T *address, T value) { *address = value; }
SIMT_LOAD(__ldg)
SIMT_LOAD(__ldca)
SIMT_LOAD(__ldcg)
SIMT_LOAD(__ldcs)
SIMT_LOAD(__ldlu)
SIMT_STORE(__stcg)
SIMT_STORE(__stcs)
SIMT_STORE(__stwb)
SIMT_STORE(__stwt)
#undef SIMT_LOAD
#undef SIMT_STORE

/* ---- address spaces: one flat space here, so that a "shared address" is a pointer as a number ---- */

unsigned simt_is_shared(const void *address);
static inline unsigned __isShared(const void *address) { return simt_is_shared(address); }
static inline unsigned __isGlobal(const void *address) { return !simt_is_shared(address); }
static inline size_t __cvta_generic_to_shared(const void *address) { return (size_t)address; }
static inline size_t __cvta_generic_to_global(const void *address) { return (size_t)address; }
static inline void *__cvta_shared_to_generic(size_t address) { return (void *)address; }

/* ---- min and max: CUDA's overloads, in which an unsigned operand makes the result unsigned ---- */

#define SIMT_MIN_MAX(a, b, type)                                                                                 \
    static inline type min(a x, b y) { return (type)x < (type)y ? (type)x : (type)y; }                           \
    static inline type max(a x, b y) { return (type)x > (type)y ? (type)x : (type)y; }
SIMT_MIN_MAX(int, int, int)
SIMT_MIN_MAX(unsigned, unsigned, unsigned)
SIMT_MIN_MAX(int, unsigned, unsigned)
SIMT_MIN_MAX(unsigned, int, unsigned)
SIMT_MIN_MAX(long, long, long)
SIMT_MIN_MAX(unsigned long, unsigned long, unsigned long)
SIMT_MIN_MAX(long, unsigned long, unsigned long)
SIMT_MIN_MAX(unsigned long, long, unsigned long)
SIMT_MIN_MAX(long long, long long, long long)
SIMT_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
SIMT_MIN_MAX(long long, unsigned long long, unsigned long long)
SIMT_MIN_MAX(unsigned long long, long long, unsigned long long)
#undef SIMT_MIN_MAX
#define SIMT_MIN_MAX(a, b, type)                                                                                 \
    static inline type min(a x, b y) { return fmin((type)x, (type)y); }                                          \
    static inline type max(a x, b y) { return fmax((type)x, (type)y); }
SIMT_MIN_MAX(double, double, double)
SIMT_MIN_MAX(float, double, double)
SIMT_MIN_MAX(double, float, double)
#undef SIMT_MIN_MAX
static inline float min(float x, float y) { return fminf(x, y); }
static inline float max(float x, float y) { return fmaxf(x, y); }

#endif
