/* topkit/cluster.cuh: the candidates of all blocks of a cluster, brought together in its first block.
 *
 * A thread-block cluster is co-resident by the hardware's guarantee, so its blocks may wait for each other without any chance to hang.
 * Each block holds the candidates of its part of a row; the merge pushes them into block 0's buffer through distributed shared memory:
 * stores that nobody waits for, between two cluster barriers. Where they do not all fit, each block first cuts its own back to its k best,
 * and the blocks merge in pairs, cutting back again each time: the k best of all are never lost.
 *
 *   scope         cluster: all threads of all its blocks; a block acts as a whole. Before compute capability 9.0 a cluster is one block
 *   storage       topkit_cluster_storage (12 bytes shared), and the collector's buffer, both at the same place in every block
 *   sync          called after a scan; at the end block 0's buffer is synced, and nobody else's is needed any more. 2 cluster barriers
 *                 and 1 of the block; where the candidates do not fit, 1 of each, 3 cluster barriers for each doubling, and those of the
 *                 compactions
 *   determinism   as the collector's: the set is right under both tie policies, given indices of the whole row; its order is open
 *   cost          one remote store of 8 bytes a candidate
 *
 * Worked numbers: blocks that hold 30, 40 and 0 candidates with room for 100: block 0 then holds 70, and all know that. With room for 64
 * and k = 8: 8 of each are kept, 16 meet in block 0, of which 8 are kept: all know that there were 70 and block 0 holds 8.
 */
#ifndef TOPKIT_CLUSTER_CUH
#define TOPKIT_CLUSTER_CUH

#include "topkit/collector.cuh"

#define TOPKIT_CLUSTER_MAX 16 /* blocks; more than 8 need cudaFuncAttributeNonPortableClusterSizeAllowed */

typedef struct topkit_cluster_storage {
    unsigned held;        /* candidates of this block, for the others to read */
    unsigned all, before; /* candidates of all blocks, and of those before this one */
} topkit_cluster_storage;

/* Sends items[0 .. count) to block `to`, where they lie from slot `first` on. */
TOPKIT_FN void topkit_cluster_push(topkit_group g, topkit_candidate *items, int count, unsigned to, int first) {
    for (int i = (int)g.thread; i < count; i += (int)g.size)
        topkit_cluster_write_pair(&items[first + i], to, items[i].bits, (unsigned)items[i].index);
}

/* `held` candidates in each block's buffer to block 0. k: how many may be wanted of them, at least 1; capacity >= 2 * k. Returns how many
 * block 0 holds, to block 0 alone; *total: how many all blocks held, to all. */
template <int TIES>
TOPKIT_FN int topkit_cluster_merge(topkit_group block, topkit_collector c, int held, int k, topkit_cluster_storage *s,
                                   topkit_refiner_storage *r, int *total) {
    const unsigned rank = topkit_cluster_block(), blocks = topkit_cluster_blocks(), lane = topkit_lane(block);
    TOPKIT_ASSERT(block.size == blockDim.x && blocks <= TOPKIT_CLUSTER_MAX && k >= 1 && c.capacity >= 2 * k);
    if (block.thread == 0) s->held = (unsigned)held;
    topkit_cluster_sync();
    if (topkit_warp_rank(block) == 0) { /* one warp: all warps of 16 blocks at once would queue up for 2000 cycles */
        const unsigned others = lane < blocks ? topkit_cluster_read(&s->held, lane) : 0u;
        const unsigned sum = __reduce_add_sync(TOPKIT_FULL_MASK, others);
        const unsigned below = __reduce_add_sync(TOPKIT_FULL_MASK, lane < rank ? others : 0u);
        if (lane == 0) {
            s->all = sum;
            s->before = below;
        }
    }
    topkit_group_sync(block);
    const int all = (int)s->all, before = (int)s->before;
    *total = all;
    if (all <= c.capacity) {
        if (rank > 0) topkit_cluster_push(block, c.items, held, 0, before);
        topkit_cluster_sync();
        return all;
    }
    for (unsigned distance = 1;; distance *= 2) {
        held = topkit_collector_trim<TIES>(block, c, held, k, r);
        if (distance >= blocks) return held;
        topkit_cluster_sync(); /* the counts of the step before have been read by all */
        if (block.thread == 0) s->held = (unsigned)held;
        topkit_cluster_sync();
        const bool sends = rank % (2 * distance) == distance, receives = rank % (2 * distance) == 0 && rank + distance < blocks;
        const unsigned partner = sends ? rank - distance : receives ? rank + distance : rank;
        const int partners = (int)topkit_cluster_read(&s->held, partner);
        if (sends) topkit_cluster_push(block, c.items, held, partner, partners);
        topkit_cluster_sync();
        if (receives) held += partners;
    }
}

#endif
