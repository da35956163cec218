/* topkit/ptx.cuh: every line of inline PTX in the library, each with a portable counterpart.
 *
 * The counterpart serves the CPU executor, which hands in the few operations that C++ can not express (simt_*). Everything else in the
 * library is CUDA C++ without assembly. PTX is used where the compiler can not be told what is meant: named barriers, asynchronous
 * copies, cache hints, acquire and release, and a float compare that no compiler flag may turn into a flushing one; and where it takes
 * fewer instructions, in counting.
 */
#ifndef TOPKIT_PTX_CUH
#define TOPKIT_PTX_CUH

#include "topkit/config.cuh"

#if defined(__CUDA_ARCH__) && !defined(TOPKIT_SIMT)
#define TOPKIT_PTX 1
#else
#define TOPKIT_PTX 0
#endif

/* The copy engine's bulk copies and blocking mbarrier waits came with compute capability 9.0. */
#if !TOPKIT_PTX || __CUDA_ARCH__ >= 900
#define TOPKIT_HAS_BULK_COPY 1
#else
#define TOPKIT_HAS_BULK_COPY 0
#endif

#if TOPKIT_PTX
TOPKIT_FN unsigned topkit_shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
#endif

/* Named barrier `id` (0..15; 0 is __syncthreads's and topkit_group_block's) among `threads` threads, whole warps; orders their memory
 * accesses. */
TOPKIT_FN void topkit_bar_sync(unsigned id, unsigned threads) {
#if TOPKIT_PTX
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#elif defined(TOPKIT_SIMT)
    simt_bar_sync(id, threads);
#endif
}

/* Arrives without waiting; some other warps bar_sync on the same id and count. */
TOPKIT_FN void topkit_bar_arrive(unsigned id, unsigned threads) {
#if TOPKIT_PTX
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
#elif defined(TOPKIT_SIMT)
    simt_bar_arrive(id, threads);
#endif
}

/* A pointer that is computed here and once: the compiler would rather multiply anew for each store than keep it. */
template <typename T>
TOPKIT_FN T *topkit_once(T *p) {
#if TOPKIT_PTX
    asm volatile("" : "+l"(p));
#endif
    return p;
}

/* x + 0: +0 for -0 and x for all others, denormals too under any compiler flag (--use_fast_math would flush them). */
TOPKIT_FN float topkit_add_zero(float x) {
#if TOPKIT_PTX
    float y;
    asm("add.rn.f32 %0, %1, 0f00000000;" : "=f"(y) : "f"(x));
    return y;
#else
    return x + 0.0f;
#endif
}

/* x >= t without flushing denormals under any compiler flag (--use_fast_math turns a C++ compare into setp.ge.ftz). NaN gives 0. */
TOPKIT_FN bool topkit_ge(float x, float t) {
#if TOPKIT_PTX
    int r;
    asm("{ .reg .pred p; setp.ge.f32 p, %1, %2; selp.s32 %0, 1, 0, p; }" : "=r"(r) : "f"(x), "f"(t));
    return r != 0;
#else
    return x >= t;
#endif
}

/* !(x < t), likewise: NaN gives 1. */
TOPKIT_FN bool topkit_not_lt(float x, float t) {
#if TOPKIT_PTX
    int r;
    asm("{ .reg .pred p; setp.geu.f32 p, %1, %2; selp.s32 %0, 1, 0, p; }" : "=r"(r) : "f"(x), "f"(t));
    return r != 0;
#else
    return !(x < t);
#endif
}

/* x - y, denormals kept under any compiler flag; a NaN has no sign. */
TOPKIT_FN float topkit_subtract(float x, float y) {
#if TOPKIT_PTX
    float r;
    asm("sub.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
    return r;
#else
    const float r = x - y;
    return r != r ? __uint_as_float(0x7fffffffu) : r;
#endif
}

/* counters[n] counts one more: of counters in shared memory that others count in as well. It is no memory clobber, so that loads may be
 * moved across it: between it and what else uses the counters must be a barrier. */
TOPKIT_FN void topkit_count_at(unsigned *counters, unsigned n) {
#if TOPKIT_PTX
    asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(topkit_shared_address(counters) + n * 4));
#else
    atomicAdd(&counters[n], 1u);
#endif
}

/* 2^23 and a whole number below it as a float have that number in their last bits: a bin without a conversion. And counters[n] counts one
 * more, for y = TOPKIT_COUNT_FROM + n: two instructions, of which a multiply-add finds the address. */
#define TOPKIT_COUNT_FROM 8388608.0f
TOPKIT_FN void topkit_count_at(unsigned *counters, float y) {
#if TOPKIT_PTX
    const unsigned origin = topkit_shared_address(counters) - 4 * 0x4b000000u;
    asm volatile("{ .reg .b32 a; mad.lo.u32 a, %1, 4, %0; red.shared.add.u32 [a], 1; }" ::"r"(origin), "r"(__float_as_uint(y)));
#else
    atomicAdd(&counters[__float_as_uint(y) - 0x4b000000u], 1u);
#endif
}

/* The greater and the lesser of two scores in the library's order, where a NaN ranks as TOPKIT_NAN says; of two zeros or two NaNs either.
 * Denormals are kept under any compiler flag. */
TOPKIT_FN float topkit_greater(float x, float y) {
#if TOPKIT_PTX && TOPKIT_NAN == TOPKIT_NAN_LOWEST
    float r;
    asm("max.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
    return r;
#elif TOPKIT_PTX
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
    return r;
#else
    if (x != x || y != y) return (x != x) == (TOPKIT_NAN == TOPKIT_NAN_LOWEST) ? y : x;
    return x > y ? x : y;
#endif
}

TOPKIT_FN float topkit_lesser(float x, float y) {
#if TOPKIT_PTX && TOPKIT_NAN == TOPKIT_NAN_LOWEST
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
    return r;
#elif TOPKIT_PTX
    float r;
    asm("min.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
    return r;
#else
    if (x != x || y != y) return (x != x) == (TOPKIT_NAN == TOPKIT_NAN_LOWEST) ? x : y;
    return x < y ? x : y;
#endif
}

#if !TOPKIT_PTX
/* The fp16 compare of the low halves, by sign and magnitude; `nan` is the answer where one is a NaN. */
TOPKIT_FN unsigned topkit__f16_compare(unsigned x, unsigned t, unsigned nan) {
    const int a = (int)(x & 0x7fffu), b = (int)(t & 0x7fffu);
    if (a > 0x7c00 || b > 0x7c00) return nan;
    return ((x & 0x8000u) ? -a : a) >= ((t & 0x8000u) ? -b : b) ? 0xffffu : 0u;
}
#endif

/* x >= t for two 16-bit scores a register, each half against the same half of t: 0xffff where it holds, else 0. Denormals count, NaNs give
 * 0. bfloat16 is compared by pairs from compute capability 9.0 on. */
TOPKIT_FN unsigned topkit_f16x2_ge(unsigned x, unsigned t) {
#if TOPKIT_PTX
    unsigned r;
    asm("set.ge.u32.f16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(t));
    return r;
#else
    return topkit__f16_compare(x, t, 0u) | topkit__f16_compare(x >> 16, t >> 16, 0u) << 16;
#endif
}

TOPKIT_FN unsigned topkit_bf16x2_ge(unsigned x, unsigned t) {
#if TOPKIT_PTX && __CUDA_ARCH__ >= 900
    unsigned r;
    asm("set.ge.u32.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(t));
    return r;
#else
    const bool low = topkit_ge(__uint_as_float(x << 16), __uint_as_float(t << 16));
    const bool high = topkit_ge(__uint_as_float(x & 0xffff0000u), __uint_as_float(t & 0xffff0000u));
    return (low ? 0xffffu : 0u) | (high ? 0xffff0000u : 0u);
#endif
}

/* !(x < t), likewise: NaNs give 0xffff. */
TOPKIT_FN unsigned topkit_f16x2_not_lt(unsigned x, unsigned t) {
#if TOPKIT_PTX
    unsigned r;
    asm("set.geu.u32.f16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(t));
    return r;
#else
    return topkit__f16_compare(x, t, 0xffffu) | topkit__f16_compare(x >> 16, t >> 16, 0xffffu) << 16;
#endif
}

TOPKIT_FN unsigned topkit_bf16x2_not_lt(unsigned x, unsigned t) {
#if TOPKIT_PTX && __CUDA_ARCH__ >= 900
    unsigned r;
    asm("set.geu.u32.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(t));
    return r;
#else
    const bool low = topkit_not_lt(__uint_as_float(x << 16), __uint_as_float(t << 16));
    const bool high = topkit_not_lt(__uint_as_float(x & 0xffff0000u), __uint_as_float(t & 0xffff0000u));
    return (low ? 0xffffu : 0u) | (high ? 0xffff0000u : 0u);
#endif
}

/* 16 bytes that are read once: do not displace what L1 holds. */
TOPKIT_FN float4 topkit_load_stream(const float4 *p) {
#if TOPKIT_PTX
    float4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p));
    return v;
#else
    return *p;
#endif
}

/* Asynchronous copies of 4 or 16 bytes from global to shared memory; complete for the issuing thread after topkit_copy_async_wait. */
TOPKIT_FN void topkit_copy_async_4(float *shared, const float *global) {
#if TOPKIT_PTX
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(topkit_shared_address(shared)), "l"(global) : "memory");
#elif defined(TOPKIT_SIMT)
    simt_cp_async(shared, global, 4);
#endif
}

TOPKIT_FN void topkit_copy_async_16(float *shared, const float *global) {
#if TOPKIT_PTX
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(topkit_shared_address(shared)), "l"(global) : "memory");
#elif defined(TOPKIT_SIMT)
    simt_cp_async(shared, global, 16);
#endif
}

TOPKIT_FN void topkit_copy_async_commit(void) {
#if TOPKIT_PTX
    asm volatile("cp.async.commit_group;" ::: "memory");
#elif defined(TOPKIT_SIMT)
    simt_cp_async_commit();
#endif
}

/* Waits until all copies of the calling thread are complete. */
TOPKIT_FN void topkit_copy_async_wait(void) {
#if TOPKIT_PTX
    asm volatile("cp.async.wait_all;" ::: "memory");
#elif defined(TOPKIT_SIMT)
    simt_cp_async_commit();
    simt_cp_async_wait(0);
#endif
}

/* Arrives at an mbarrier (as one of the arrivals that it counts) once all copies that the calling thread has begun are complete, and does
 * not wait for them. */
TOPKIT_FN void topkit_copy_async_arrive(unsigned long long *bar) {
#if TOPKIT_PTX
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(topkit_shared_address(bar)) : "memory");
#elif defined(TOPKIT_SIMT)
    simt_cp_async_commit();
    simt_cp_async_wait(0);
    simt_mbarrier_arrive(bar);
#endif
}

/* Waits until no more than the LEFT latest commits of the calling thread are under way: the copies of those before them are complete. */
template <int LEFT>
TOPKIT_FN void topkit_copy_async_wait_left(void) {
#if TOPKIT_PTX
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#elif defined(TOPKIT_SIMT)
    simt_cp_async_wait(LEFT);
#endif
}

/* A word that others change meanwhile, read afresh and without order: for polling. */
TOPKIT_FN unsigned topkit_peek(const unsigned *p) {
#ifdef TOPKIT_SIMT
    simt_preempt();
    return __atomic_load_n(p, __ATOMIC_RELAXED);
#else
    return *(const volatile unsigned *)p;
#endif
}

/* The same for 8 bytes that change together: a gate's key and bound in one word. */
TOPKIT_FN unsigned long long topkit_peek_pair(const unsigned long long *p) {
#ifdef TOPKIT_SIMT
    simt_preempt();
    return __atomic_load_n(p, __ATOMIC_RELAXED);
#else
    return *(const volatile unsigned long long *)p;
#endif
}

/* Orders the calling thread's memory accesses before and behind it, as its block sees them: around relaxed atomics it makes a release or an
 * acquire of them. Cheaper than __threadfence_block(), which also orders stores before later loads. */
TOPKIT_FN void topkit_fence_block(void) {
#if TOPKIT_PTX
    asm volatile("fence.acq_rel.cta;" ::: "memory");
#elif defined(TOPKIT_SIMT)
    simt_fence();
#endif
}

/* Device-wide acquire load, release store and acquire-release add: how blocks of one launch hand data to each other. */
TOPKIT_FN unsigned topkit_load_acquire(const unsigned *p) {
#if TOPKIT_PTX
    unsigned v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
#elif defined(TOPKIT_SIMT)
    simt_preempt();
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
#else
    return *p;
#endif
}

TOPKIT_FN void topkit_store_release(unsigned *p, unsigned v) {
#if TOPKIT_PTX
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
#elif defined(TOPKIT_SIMT)
    simt_preempt();
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
#else
    *p = v;
#endif
}

TOPKIT_FN unsigned topkit_add_acq_rel(unsigned *p, unsigned v) {
#if TOPKIT_PTX
    unsigned old;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
#elif defined(TOPKIT_SIMT)
    simt_preempt();
    return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL);
#else
    return (*p += v) - v;
#endif
}

/* An mbarrier: 8 bytes of shared memory that count arrivals (and copied bytes) and flip a phase when all have come. */
TOPKIT_FN void topkit_mbarrier_init(unsigned long long *bar, unsigned count) {
#if TOPKIT_PTX
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(topkit_shared_address(bar)), "r"(count) : "memory");
#if __CUDA_ARCH__ >= 900 /* the copy engine must see it initialised */
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
#elif defined(TOPKIT_SIMT)
    simt_mbarrier_init(bar, count);
#endif
}

TOPKIT_FN void topkit_mbarrier_arrive(unsigned long long *bar) {
#if TOPKIT_PTX
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(topkit_shared_address(bar)) : "memory");
#elif defined(TOPKIT_SIMT)
    simt_mbarrier_arrive(bar);
#endif
}

/* True when the phase of this parity is complete; acquires what its arrivals released. Never blocks. */
TOPKIT_FN bool topkit_mbarrier_test(unsigned long long *bar, unsigned parity) {
#if TOPKIT_PTX
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(topkit_shared_address(bar)), "r"(parity) : "memory");
    return done != 0;
#elif defined(TOPKIT_SIMT)
    return simt_mbarrier_test(bar, parity);
#else
    return true;
#endif
}

/* The same, but may suspend the thread for about `nanoseconds` before it says no (where the hardware can): for loops that also watch
 * something else. A test that never blocks would steal issue slots there, one that blocks as long as it likes would see the rest late. */
TOPKIT_FN bool topkit_mbarrier_test_for(unsigned long long *bar, unsigned parity, unsigned nanoseconds) {
#if TOPKIT_PTX && __CUDA_ARCH__ >= 900
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2, %3; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(topkit_shared_address(bar)), "r"(parity), "r"(nanoseconds) : "memory");
    return done != 0;
#else
    (void)nanoseconds;
    return topkit_mbarrier_test(bar, parity);
#endif
}

/* Inside a loop that polls: lets others run where threads do not run by themselves. */
TOPKIT_FN void topkit_relax(void) {
#ifdef TOPKIT_SIMT
    __nanosleep(1);
#endif
}

TOPKIT_FN void topkit_mbarrier_wait(unsigned long long *bar, unsigned parity) {
#ifdef TOPKIT_SIMT
    simt_mbarrier_wait(bar, parity);
#else
    while (!topkit_mbarrier_test_for(bar, parity, 1000000)) {
    }
#endif
}

/* A cluster of blocks: co-resident, with barriers of its own and access to each other's shared memory. Before compute capability 9.0 a
 * block is a cluster by itself. */
TOPKIT_FN unsigned topkit_cluster_block(void) {
#if TOPKIT_PTX && __CUDA_ARCH__ >= 900
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
#elif defined(TOPKIT_SIMT)
    return simt_cluster_rank();
#else
    return 0;
#endif
}

TOPKIT_FN unsigned topkit_cluster_blocks(void) {
#if TOPKIT_PTX && __CUDA_ARCH__ >= 900
    unsigned blocks;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return blocks;
#elif defined(TOPKIT_SIMT)
    return simt_cluster_size();
#else
    return 1;
#endif
}

/* The cluster's barrier, of all threads of all its blocks, in two halves: arrive does not wait. It orders their accesses to global memory
 * and to each other's shared memory; a thread waits once for each time that it arrives. */
TOPKIT_FN void topkit_cluster_arrive(void) {
#if TOPKIT_PTX && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#elif defined(TOPKIT_SIMT)
    simt_cluster_arrive();
#endif
}

/* Arrives where there is nothing to be ordered yet: a thread that begins says no more than that it runs. With an order to keep, the start
 * of a split row took 600 cycles more on an H200. */
TOPKIT_FN void topkit_cluster_enter(void) {
#if TOPKIT_PTX && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#else
    topkit_cluster_arrive();
#endif
}

TOPKIT_FN void topkit_cluster_wait(void) {
#if TOPKIT_PTX && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#elif defined(TOPKIT_SIMT)
    simt_cluster_wait();
#else
    topkit_bar_sync(0, blockDim.x);
#endif
}

TOPKIT_FN void topkit_cluster_sync(void) {
    topkit_cluster_arrive();
    topkit_cluster_wait();
}

/* Writes the pair of words that lies in another block's shared memory where `shared` lies in the caller's. */
TOPKIT_FN void topkit_cluster_write_pair(void *shared, unsigned block, unsigned low, unsigned high) {
#if TOPKIT_PTX && __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .b32 a; mapa.shared::cluster.u32 a, %0, %1; st.shared::cluster.v2.u32 [a], {%2, %3}; }" ::"r"(
                     topkit_shared_address(shared)), "r"(block), "r"(low), "r"(high) : "memory");
#elif defined(TOPKIT_SIMT)
    unsigned *pair = (unsigned *)simt_cluster_map_shared_rank(shared, block);
    pair[0] = low;
    pair[1] = high;
#else
    (void)block;
    ((unsigned *)shared)[0] = low;
    ((unsigned *)shared)[1] = high;
#endif
}

/* The word that lies in another block's shared memory where `shared` lies in the caller's. */
TOPKIT_FN unsigned topkit_cluster_read(const unsigned *shared, unsigned block) {
#if TOPKIT_PTX && __CUDA_ARCH__ >= 900
    unsigned word;
    asm volatile("{ .reg .b32 a; mapa.shared::cluster.u32 a, %1, %2; ld.shared::cluster.u32 %0, [a]; }"
                 : "=r"(word) : "r"(topkit_shared_address(shared)), "r"(block) : "memory");
    return word;
#elif defined(TOPKIT_SIMT)
    return *(const unsigned *)simt_cluster_map_shared_rank(shared, block);
#else
    (void)block;
    return *shared;
#endif
}

/* For launches with programmatic stream serialization, which may begin before the kernel ahead of them on the stream has ended: waits for
 * that end, and lets the kernel behind begin likewise. Without the attribute, and before compute capability 9.0, they do nothing. */
TOPKIT_FN void topkit_dependency_wait(void) {
#if TOPKIT_PTX && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#endif
}

#if TOPKIT_HAS_BULK_COPY
/* Arrives and announces `bytes` that bulk copies will deliver in this phase. */
TOPKIT_FN void topkit_mbarrier_arrive_expect(unsigned long long *bar, unsigned bytes) {
#if TOPKIT_PTX
    asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared.b64 s, [%0], %1; }" ::"r"(topkit_shared_address(bar)), "r"(bytes)
                 : "memory");
#elif defined(TOPKIT_SIMT)
    simt_mbarrier_arrive_expect_tx(bar, bytes);
#endif
}

/* One thread copies `bytes` (a multiple of 16, both sides 16-byte aligned) from global to shared memory through the copy engine. What is
 * read once asks L2 to drop it first: it leaves room there for what will be read again, such as sampled sectors. */
TOPKIT_FN void topkit_bulk_copy(void *shared, const void *global, unsigned bytes, unsigned long long *bar) {
#if TOPKIT_PTX
    asm volatile("{ .reg .b64 once; createpolicy.fractional.L2::evict_first.b64 once, 1.0;"
                 " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], once; }" ::"r"(
                     topkit_shared_address(shared)), "l"(global), "r"(bytes), "r"(topkit_shared_address(bar)) : "memory");
#elif defined(TOPKIT_SIMT)
    simt_bulk_copy(shared, global, bytes, bar);
#endif
}
#endif

#endif
