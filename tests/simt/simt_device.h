/* simt_device.h: device intrinsics of the executor: indices, warp collectives, barriers, asynchronous copies, atomics.
 *
 * Each function that can wait takes its call site as a defaulted argument, so that a report names the line of the kernel. A wrapper that
 * wants its caller's line in reports takes SIMT_SITE as its last parameters and passes SIMT_HERE on.
 * Bit tricks, loads, min/max and the like are in simt_math.h.
 */
#ifndef SIMT_DEVICE_H
#define SIMT_DEVICE_H

#include <stdint.h>
#include <string.h>

#include "simt_types.h"

#define SIMT_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define SIMT_HERE file, line

/* ---- indices ---- */

struct simt_position {
    uint3 thread_idx, block_idx;
};
extern const simt_position *simt_self; /* of the running thread; null on the host */
extern dim3 simt_block_dim, simt_grid_dim;

#define threadIdx (simt_self->thread_idx)
#define blockIdx (simt_self->block_idx)
#define blockDim simt_block_dim
#define gridDim simt_grid_dim
static const int warpSize = 32;

/* ---- warp collectives ---- */

enum simt_op {
    SIMT_SYNCWARP, SIMT_SHFL, SIMT_SHFL_UP, SIMT_SHFL_DOWN, SIMT_SHFL_XOR, SIMT_BALLOT, SIMT_ANY, SIMT_ALL, SIMT_MATCH_ANY, SIMT_MATCH_ALL,
    SIMT_REDUCE_ADD, SIMT_REDUCE_MIN, SIMT_REDUCE_MAX, SIMT_REDUCE_MIN_SIGNED, SIMT_REDUCE_MAX_SIGNED, SIMT_REDUCE_AND, SIMT_REDUCE_OR,
    SIMT_REDUCE_XOR
};
uint64_t simt_collective(simt_op op, unsigned mask, uint64_t value, int argument, int width, const char *file, int line);

static inline void __syncwarp(unsigned mask = 0xffffffffu, SIMT_SITE) { simt_collective(SIMT_SYNCWARP, mask, 0, 0, 32, SIMT_HERE); }
static inline unsigned __ballot_sync(unsigned mask, int predicate, SIMT_SITE)
{
    return (unsigned)simt_collective(SIMT_BALLOT, mask, predicate != 0, 0, 32, SIMT_HERE);
}
static inline int __any_sync(unsigned mask, int predicate, SIMT_SITE)
{
    return (int)simt_collective(SIMT_ANY, mask, predicate != 0, 0, 32, SIMT_HERE);
}
static inline int __all_sync(unsigned mask, int predicate, SIMT_SITE)
{
    return (int)simt_collective(SIMT_ALL, mask, predicate != 0, 0, 32, SIMT_HERE);
}

template <class T> static inline uint64_t simt_pack(T value)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "warp collectives move 4-byte and 8-byte values");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}
template <class T> static inline T simt_unpack(uint64_t bits)
{
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

template <class T> static inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, SIMT_SITE)
{
    return simt_unpack<T>(simt_collective(SIMT_SHFL, mask, simt_pack(value), lane, width, SIMT_HERE));
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_SITE)
{
    return simt_unpack<T>(simt_collective(SIMT_SHFL_UP, mask, simt_pack(value), (int)delta, width, SIMT_HERE));
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_SITE)
{
    return simt_unpack<T>(simt_collective(SIMT_SHFL_DOWN, mask, simt_pack(value), (int)delta, width, SIMT_HERE));
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, SIMT_SITE)
{
    return simt_unpack<T>(simt_collective(SIMT_SHFL_XOR, mask, simt_pack(value), lanes, width, SIMT_HERE));
}
template <class T> static inline unsigned __match_any_sync(unsigned mask, T value, SIMT_SITE)
{
    return (unsigned)simt_collective(SIMT_MATCH_ANY, mask, simt_pack(value), 0, 32, SIMT_HERE);
}
template <class T> static inline unsigned __match_all_sync(unsigned mask, T value, int *predicate, SIMT_SITE)
{
    unsigned all = (unsigned)simt_collective(SIMT_MATCH_ALL, mask, simt_pack(value), 0, 32, SIMT_HERE);
    *predicate = all != 0;
    return all;
}

#define SIMT_REDUCE(name, op, type)                                                                              \
    static inline type __reduce_##name##_sync(unsigned mask, type value, SIMT_SITE)                              \
    {                                                                                                            \
        return (type)simt_collective(op, mask, (unsigned)value, 0, 32, SIMT_HERE);                               \
    }
SIMT_REDUCE(add, SIMT_REDUCE_ADD, int)
SIMT_REDUCE(add, SIMT_REDUCE_ADD, unsigned)
SIMT_REDUCE(min, SIMT_REDUCE_MIN_SIGNED, int)
SIMT_REDUCE(min, SIMT_REDUCE_MIN, unsigned)
SIMT_REDUCE(max, SIMT_REDUCE_MAX_SIGNED, int)
SIMT_REDUCE(max, SIMT_REDUCE_MAX, unsigned)
SIMT_REDUCE(and, SIMT_REDUCE_AND, unsigned)
SIMT_REDUCE(or, SIMT_REDUCE_OR, unsigned)
SIMT_REDUCE(xor, SIMT_REDUCE_XOR, unsigned)
#undef SIMT_REDUCE

unsigned simt_active_mask(void); /* a legal answer that is of least help: the caller alone, or a random set of running lanes with it */
static inline unsigned __activemask(void) { return simt_active_mask(); }

/* ---- block, named and cluster barriers ---- */

enum simt_barrier_kind { SIMT_BARRIER_SYNC, SIMT_BARRIER_COUNT, SIMT_BARRIER_AND, SIMT_BARRIER_OR };
int simt_block_barrier(simt_barrier_kind kind, int predicate, const char *file, int line);

static inline void __syncthreads(SIMT_SITE) { simt_block_barrier(SIMT_BARRIER_SYNC, 0, SIMT_HERE); }
static inline int __syncthreads_count(int predicate, SIMT_SITE) { return simt_block_barrier(SIMT_BARRIER_COUNT, predicate, SIMT_HERE); }
static inline int __syncthreads_and(int predicate, SIMT_SITE) { return simt_block_barrier(SIMT_BARRIER_AND, predicate, SIMT_HERE); }
static inline int __syncthreads_or(int predicate, SIMT_SITE) { return simt_block_barrier(SIMT_BARRIER_OR, predicate, SIMT_HERE); }

void simt_bar_sync(unsigned id, unsigned threads, SIMT_SITE);   /* bar.sync: id 0..15, threads a multiple of 32 */
void simt_bar_arrive(unsigned id, unsigned threads, SIMT_SITE); /* bar.arrive */

unsigned simt_cluster_rank(void);
unsigned simt_cluster_size(void);
void simt_cluster_arrive(SIMT_SITE);
void simt_cluster_wait(SIMT_SITE);
static inline void simt_cluster_sync(SIMT_SITE)
{
    simt_cluster_arrive(SIMT_HERE);
    simt_cluster_wait(SIMT_HERE);
}
void *simt_cluster_map_shared_rank(const void *shared, unsigned rank, SIMT_SITE); /* mapa: the same place in another block's arena */

/* ---- shared memory, mbarriers, asynchronous copies ---- */

void *simt_dynamic_shared(void); /* 1024-byte aligned, filled with 0xA5, as many bytes as the launch asked for */

void simt_mbarrier_init(unsigned long long *bar, unsigned count, SIMT_SITE);
void simt_mbarrier_inval(unsigned long long *bar, SIMT_SITE);
void simt_mbarrier_arrive(unsigned long long *bar, SIMT_SITE);
void simt_mbarrier_arrive_expect_tx(unsigned long long *bar, unsigned bytes, SIMT_SITE);
void simt_mbarrier_wait(unsigned long long *bar, unsigned parity, SIMT_SITE); /* until the phase of that parity has completed */
bool simt_mbarrier_test(unsigned long long *bar, unsigned parity, SIMT_SITE);

/* cp.async.bulk from global to shared memory: the destination is poisoned at once and delivered at a moment that the schedule chooses. */
void simt_bulk_copy(void *shared_dst, const void *src, unsigned bytes, unsigned long long *bar, SIMT_SITE);

/* cp.async of 4, 8 or 16 bytes: the destination is poisoned until the issuing thread waits for the copy's group. */
void simt_cp_async(void *shared_dst, const void *src, unsigned bytes, SIMT_SITE);
void simt_cp_async_commit(void);
void simt_cp_async_wait(unsigned groups_left);

/* ---- fences, yields, traps ---- */

void simt_preempt(void);    /* place before each access that other threads may race with by design: atomics, volatile, acquire loads */
void simt_yield(SIMT_SITE); /* lets every other thread run first; a spin loop must contain one, or atomics */
void simt_progress(void);   /* tells the livelock detector that memory has changed */
void simt_fence(void);
[[noreturn]] void simt_trap(const char *what, const char *file, int line);
long long simt_clock(void); /* deterministic, ascending */

static inline void __threadfence(void) { simt_fence(); }
static inline void __threadfence_block(void) { simt_fence(); }
static inline void __threadfence_system(void) { simt_fence(); }
static inline void __nanosleep(unsigned, SIMT_SITE) { simt_yield(SIMT_HERE); }
[[noreturn]] static inline void __trap(SIMT_SITE) { simt_trap("__trap()", SIMT_HERE); }
static inline long long clock64(void) { return simt_clock(); }
static inline void cudaGridDependencySynchronize(void) {}
static inline void cudaTriggerProgrammaticLaunchCompletion(void) {}

/* ---- atomics: relaxed, as on the GPU; the *_block and *_system forms are the same here ---- */

template <class T, class F> static inline T simt_atomic(T *address, F change)
{
    simt_preempt();
    T old = __atomic_load_n(address, __ATOMIC_RELAXED);
    T next = (T)change(old);
    while (!__atomic_compare_exchange_n(address, &old, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) next = (T)change(old);
    if (old != next) simt_progress();
    return old;
}

#define SIMT_ATOMIC_TYPE(name, type, expression)                                                                 \
    static inline type name(type *address, type value)                                                          \
    {                                                                                                            \
        return simt_atomic(address, [value](type old) -> type { (void)old; return expression; });                \
    }                                                                                                            \
    static inline type name##_block(type *address, type value) { return name(address, value); }                 \
    static inline type name##_system(type *address, type value) { return name(address, value); }
#define SIMT_ATOMIC(name, expression)                                                                            \
    SIMT_ATOMIC_TYPE(name, int, expression)                                                                      \
    SIMT_ATOMIC_TYPE(name, unsigned, expression)                                                                 \
    SIMT_ATOMIC_TYPE(name, long long, expression)                                                                \
    SIMT_ATOMIC_TYPE(name, unsigned long long, expression)

SIMT_ATOMIC(atomicMin, old < value ? old : value)
SIMT_ATOMIC(atomicMax, old > value ? old : value)
SIMT_ATOMIC(atomicAnd, old & value)
SIMT_ATOMIC(atomicOr, old | value)
SIMT_ATOMIC(atomicXor, old ^ value)
SIMT_ATOMIC(atomicExch, value)
SIMT_ATOMIC_TYPE(atomicAdd, unsigned, old + value)
SIMT_ATOMIC_TYPE(atomicAdd, unsigned long long, old + value)
SIMT_ATOMIC_TYPE(atomicAdd, int, (int)((unsigned)old + (unsigned)value)) /* wraps, as the hardware does */
SIMT_ATOMIC_TYPE(atomicSub, unsigned, old - value)
SIMT_ATOMIC_TYPE(atomicSub, int, (int)((unsigned)old - (unsigned)value))
SIMT_ATOMIC_TYPE(atomicInc, unsigned, old >= value ? 0u : old + 1u)
SIMT_ATOMIC_TYPE(atomicDec, unsigned, old == 0u || old > value ? value : old - 1u)
#undef SIMT_ATOMIC
#undef SIMT_ATOMIC_TYPE

typedef uint32_t __attribute__((may_alias)) simt_float_bits;
static inline float simt_atomic_float(float *address, float value, bool add)
{
    float old;
    uint32_t bits = simt_atomic((simt_float_bits *)address, [value, add](uint32_t was) -> uint32_t {
        float x;
        memcpy(&x, &was, 4);
        x = add ? x + value : value;
        memcpy(&was, &x, 4);
        return was;
    });
    memcpy(&old, &bits, 4);
    return old;
}
static inline float atomicAdd(float *address, float value) { return simt_atomic_float(address, value, true); }
static inline float atomicExch(float *address, float value) { return simt_atomic_float(address, value, false); }

#define SIMT_CAS(type)                                                                                           \
    static inline type atomicCAS(type *address, type expected, type value)                                       \
    {                                                                                                            \
        return simt_atomic(address, [expected, value](type old) { return old == expected ? value : old; });      \
    }                                                                                                            \
    static inline type atomicCAS_block(type *address, type expected, type value) { return atomicCAS(address, expected, value); } \
    static inline type atomicCAS_system(type *address, type expected, type value) { return atomicCAS(address, expected, value); }
SIMT_CAS(int)
SIMT_CAS(unsigned)
SIMT_CAS(unsigned short)
SIMT_CAS(unsigned long long)
#undef SIMT_CAS

#include "simt_math.h"

#endif
