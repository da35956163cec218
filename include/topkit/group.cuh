/* topkit/group.cuh: the threads that act together.
 *
 * Every collective of the library takes a group first. A group is a whole block, one warp, or a run of whole warps of a block that
 * synchronises on a named barrier of its own. No block of the library ever calls __syncthreads(): it syncs its group, which is what
 * lets a selection live inside a warp-specialised kernel while other warps do something else.
 *
 *   scope         any; blocks are one-dimensional
 *   storage       none (a group is three registers, and folds to constants where the sizes are constants)
 *   sync          topkit_group_sync: called by all threads of the group, converged a warp; orders their memory accesses
 *   determinism   yes
 *   cost          one barrier a sync; bar.sync for several warps, __syncwarp for one
 *
 *   topkit_group all = topkit_group_block();                 // 640 threads: thread 0..639
 *   topkit_group service = topkit_group_warps(16, 4, 1);     // warps 16..19 on barrier 1: thread 0..127; call only from these warps
 *
 * Worked numbers: in a block of 640 threads, threadIdx.x = 545 is thread 33, warp 1, lane 1 of topkit_group_warps(16, 4, 1).
 */
#ifndef TOPKIT_GROUP_CUH
#define TOPKIT_GROUP_CUH

#include "topkit/ptx.cuh"

typedef struct topkit_group {
    unsigned thread;  /* index in the group, 0 .. size-1 */
    unsigned size;    /* threads, a multiple of 32 */
    unsigned barrier; /* named barrier, 0 .. 15; 0 is __syncthreads' own */
} topkit_group;

TOPKIT_FN topkit_group topkit_group_block(void) {
    topkit_group g = {threadIdx.x, blockDim.x, 0};
    TOPKIT_ASSERT(blockDim.x % TOPKIT_WARP == 0 && blockDim.y == 1 && blockDim.z == 1);
    return g;
}

/* Warps first .. first+warps-1 of the block. `barrier` must be used by no other group at the same time. */
TOPKIT_FN topkit_group topkit_group_warps(unsigned first, unsigned warps, unsigned barrier) {
    topkit_group g = {threadIdx.x - first * TOPKIT_WARP, warps * TOPKIT_WARP, barrier};
    TOPKIT_ASSERT(g.thread < g.size && barrier < 16);
    return g;
}

/* The calling warp alone. */
TOPKIT_FN topkit_group topkit_group_warp(void) {
    topkit_group g = {threadIdx.x & (TOPKIT_WARP - 1), TOPKIT_WARP, 0};
    return g;
}

TOPKIT_FN unsigned topkit_lane(topkit_group g) { return g.thread & (TOPKIT_WARP - 1); }
TOPKIT_FN unsigned topkit_warp_rank(topkit_group g) { return g.thread / TOPKIT_WARP; }
TOPKIT_FN unsigned topkit_warps(topkit_group g) { return g.size / TOPKIT_WARP; }

TOPKIT_FN void topkit_group_sync(topkit_group g) {
    if (g.size == TOPKIT_WARP) __syncwarp();
    else topkit_bar_sync(g.barrier, g.size);
}

/* Lanes below the caller's, as a mask. */
TOPKIT_FN unsigned topkit_lanes_below(topkit_group g) { return (1u << topkit_lane(g)) - 1; }

/* Sum of `value` over the lanes below the caller's; *total: over the whole warp. Called by all 32 lanes. */
TOPKIT_FN unsigned topkit_warp_exclusive_sum(topkit_group g, unsigned value, unsigned *total) {
    const unsigned lane = topkit_lane(g);
    unsigned sum = value;
#pragma unroll
    for (unsigned offset = 1; offset < TOPKIT_WARP; offset *= 2) {
        const unsigned below = __shfl_up_sync(TOPKIT_FULL_MASK, sum, offset);
        if (lane >= offset) sum += below;
    }
    *total = __shfl_sync(TOPKIT_FULL_MASK, sum, TOPKIT_WARP - 1);
    return sum - value;
}

/* One atomic for a warp: reserves a slot of *counter for each lane whose `wanted` is set and returns it (undefined for the others). */
TOPKIT_FN unsigned topkit_warp_reserve(topkit_group g, bool wanted, unsigned *counter) {
    const unsigned mask = __ballot_sync(TOPKIT_FULL_MASK, wanted);
    if (mask == 0) return 0;
    unsigned base = 0;
    if (topkit_lane(g) == 0) base = atomicAdd(counter, (unsigned)__popc(mask));
    return __shfl_sync(TOPKIT_FULL_MASK, base, 0) + (unsigned)__popc(mask & topkit_lanes_below(g));
}

#endif
