/* 03_split_select.cuh: exact Top-K for few long rows: many blocks work on one row.
 *
 * A row is cut into parts, a block each; the blocks of a cluster are a team, and a very long row has several teams. The steps are those of
 * 01_row_select.cuh, with two more:
 *
 *     [2] sample     every block fetches the same sample of the whole row, and its own part's first tiles at once
 *     [3] propose    so that all come to the same gate without a word to each other
 *     [4] collect    each block its own part
 *     [a] merge      a team's candidates meet in its first block, through distributed shared memory               cluster
 *     [b] publish    several teams: each team's to the workspace; the last team to do so takes them all in
 *     [5] certify    fewer than k: the gate was too high; the team collects once more, from everything
 *     [6] [7]        the first block refines and delivers
 *
 *          row  = part 0 | part 1 | part 2 | part 3 || part 4 | part 5 | part 6 | part 7
 *                    |        |        |        |         |        |        |        |          [4]
 *                    v <------+--------+--------+         v <------+--------+--------+          [a] team 0, team 1
 *                 block 0 ------> workspace <---------- block 4                                 [b] whichever comes last
 *
 * Blocks of a cluster wait for each other: the hardware runs them together or not at all. Teams never wait: who is not the last leaves.
 *
 *   k             1 .. 4096 (plan.c)
 *   shared        40 KB and 8 bytes a candidate, as 01
 *   workspace     several teams: 8 k + 4 bytes a row and team, and a ticket a row that is zero between launches; else none of its own
 *   reads         the row once, and the sample once a block (from L2)
 */
#ifndef TOPKIT_03_SPLIT_SELECT_CUH
#define TOPKIT_03_SPLIT_SELECT_CUH

#include "select_job.cuh"

#define TOPKIT_SPLIT_THREADS 512
#define TOPKIT_SPLIT_SAMPLE (TOPKIT_SPLIT_THREADS / 32 * TOPKIT_TILE) /* samples at most: they lie where the stages lie later */

typedef struct topkit_split_storage {
    topkit_refiner_storage refiner;
    topkit_collector_state collected;
    topkit_cluster_storage cluster;
    unsigned last;    /* block 0: its team is the row's last */
    unsigned verdict; /* of block 0, for its team */
} topkit_split_storage;

#define TOPKIT_SPLIT_HEADER ((sizeof(topkit_split_storage) + 15) / 16 * 16)

enum { TOPKIT_SPLIT_LEAVE = 0, TOPKIT_SPLIT_DELIVER = 1, TOPKIT_SPLIT_REPEAT = 2 }; /* verdicts */

/* Part `part` of `parts` of a row, in whole tiles of the row: a row of its own, whose first score is score *begin of the whole. */
static __device__ __forceinline__ topkit_row topkit_split_part(topkit_row row, int part, int parts, int *begin) {
    const topkit_tiles tiles = topkit_row_tiles(row);
    const long long body = (tiles.vectors + TOPKIT_TILE_VECTORS - 1) / TOPKIT_TILE_VECTORS;
    const int first = tiles.head + (int)(body * part / parts) * TOPKIT_TILE, end = tiles.head + (int)(body * (part + 1) / parts) * TOPKIT_TILE;
    topkit_row own;
    *begin = part == 0 ? 0 : first < row.length ? first : row.length;
    own.scores = row.scores + *begin;
    own.length = (part == parts - 1 || end > row.length ? row.length : end) - *begin;
    return own;
}

/* [4] A block's part of the row, with indices of the whole row. `held_tile`: each warp's first tile; null: collect everything, shuffled. */
template <int TIES>
static __device__ __forceinline__ int topkit_split_collect(topkit_group block, const topkit_select_job &job, topkit_row row, int part,
                                                           int parts, topkit_gate gate, const topkit_tile *held_tile,
                                                           topkit_collector c, topkit_split_storage *s) {
    int begin, held = 0;
    const topkit_row own = topkit_split_part(row, part, parts, &begin);
    const int wanted = own.length < job.k ? own.length : job.k;
    if (own.length > 0) {
        if (held_tile) held = topkit_scan_begun<TIES>(block, own, wanted, gate, held_tile, c, &s->refiner);
        else held = topkit_scan<TIES>(block, own, wanted, gate, TOPKIT_SHUFFLED, c, &s->refiner);
    }
    if (block.thread == 0) topkit_job_count(job, row, 0, held, held_tile ? 0 : part == 0, &s->collected);
    for (int i = (int)block.thread; i < held; i += (int)block.size) c.items[i].index += begin;
    return held;
}

/* [b] The team's candidates, in its first block, to the workspace. The last team of the row gets those of all teams back in its own buffer,
 * and how many; the others get -1. */
template <int TIES>
static __device__ __forceinline__ int topkit_split_publish(topkit_group block, const topkit_select_job &job, int r, int team,
                                                           topkit_collector c, int held, topkit_split_storage *s) {
    topkit_candidate *pool = job.pool + (long long)r * job.teams * job.k;
    int *published = job.published + (long long)r * job.teams;
    if (held > job.k) held = topkit_collector_trim<TIES>(block, c, held, job.k, &s->refiner);
    for (int i = (int)block.thread; i < held; i += (int)block.size) pool[(long long)team * job.k + i] = c.items[i];
    if (block.thread == 0) published[team] = held;
    topkit_group_sync(block);
    if (block.thread == 0) {
        __threadfence(); /* the whole block's stores, which the barrier ordered before it */
        const bool last = topkit_add_acq_rel(&job.tickets[r], 1u) == (unsigned)job.teams - 1;
        if (last) job.tickets[r] = 0; /* for the next launch */
        s->last = last;
    }
    topkit_group_sync(block);
    if (!s->last) return -1;
    held = 0;
    const int counts = (int)topkit_lane(block) < job.teams ? published[topkit_lane(block)] : 0; /* of all teams at once: at most 32 */
    for (int t = 0; t < job.teams; t++) {
        const int count = __shfl_sync(TOPKIT_FULL_MASK, counts, t);
        if (held + count > c.capacity) held = topkit_collector_trim<TIES>(block, c, held, job.k, &s->refiner);
        for (int i = (int)block.thread; i < count; i += (int)block.size) c.items[held + i] = pool[(long long)t * job.k + i];
        held += count;
    }
    topkit_group_sync(block);
    return held;
}

template <int TIES>
static __global__ void __launch_bounds__(TOPKIT_SPLIT_THREADS, 2) topkit_split_select_kernel(topkit_select_job job) {
    TOPKIT_SHARED(memory);
    topkit_split_storage *s = (topkit_split_storage *)memory;
    float *sample = (float *)(memory + TOPKIT_SPLIT_HEADER); /* (TOPKIT_SPLIT_SAMPLE) the stages' memory while no scan runs */
    topkit_candidate *items = (topkit_candidate *)(sample + TOPKIT_SPLIT_SAMPLE); /* (capacity) */
    const topkit_group block = topkit_group_block();
    const topkit_collector c = {items, job.capacity, sample + topkit_warp_rank(block) * TOPKIT_TILE, &s->collected};
    const int rank = (int)topkit_cluster_block(), blocks = (int)topkit_cluster_blocks(), parts = job.teams * blocks;
    const int r = (int)(blockIdx.x / (unsigned)parts), part = (int)(blockIdx.x % (unsigned)parts), team = part / blocks;

    topkit_dependency_wait();
    const topkit_row row = topkit_job_row(job, r);
    const int wanted = row.length < job.k ? row.length : job.k;
    if (topkit_job_copies(job, row)) { /* all blocks of the row agree on it: nobody waits for one that left */
        if (part == 0) topkit_sink_identity(block.thread, block.size, row.scores, row.length, job.k, topkit_job_sink(job, r));
        return;
    }

    /* [2] Sample and first tiles are under way before anything is waited for; storage is made ready in their shadow. */
    const topkit_sampling sampling = topkit_job_sampling(job, row, r, TOPKIT_SPLIT_SAMPLE);
    const bool samples = topkit_job_samples(job, row);
    if (samples) topkit_sample_async(block, sampling, sample);
    int begin;
    const topkit_tiles own = topkit_row_tiles(topkit_split_part(row, part, parts, &begin));
    topkit_tile first;
    if ((int)topkit_warp_rank(block) < own.count) topkit_tile_load(own, (int)topkit_warp_rank(block), topkit_lane(block), &first);
    topkit_refiner_init(block, &s->refiner);
    if (block.thread == 0) {
        topkit_collector_clear(c);
        s->collected.dropped = s->collected.compactions = 0;
    }
    topkit_copy_async_wait();
    topkit_group_sync(block);

    topkit_gate gate = topkit_gate_at(TOPKIT_NO_THRESHOLD, TOPKIT_INDEX_LIMIT);
    if (samples) { /* [3] */
        const int count = topkit_sample_count(sampling), sought = topkit_job_rank(job, row.length, count);
        gate = topkit_gate_at(topkit_propose_from_sample(block, sample, count, sought, 0, &s->refiner.digit).key, TOPKIT_INDEX_LIMIT);
    }
    int held = topkit_split_collect<TIES>(block, job, row, part, parts, gate, &first, c, s), total;
    held = topkit_cluster_merge<TIES>(block, c, held, job.k, &s->cluster, &s->refiner, &total); /* [a] */

    unsigned verdict = total < wanted ? TOPKIT_SPLIT_REPEAT : TOPKIT_SPLIT_DELIVER; /* [5] of one team: all its blocks know the total */
    if (job.teams > 1) {
        if (rank == 0) {
            held = topkit_split_publish<TIES>(block, job, r, team, c, held, s);
            if (block.thread == 0) s->verdict = held < 0 ? TOPKIT_SPLIT_LEAVE : held < wanted ? TOPKIT_SPLIT_REPEAT : TOPKIT_SPLIT_DELIVER;
        }
        topkit_cluster_sync();
        verdict = topkit_cluster_read(&s->verdict, 0);
        topkit_cluster_sync(); /* nobody leaves while others read */
    }
    if (verdict == TOPKIT_SPLIT_REPEAT) { /* by this team alone, from the whole row */
        if (block.thread == 0) topkit_collector_clear(c);
        topkit_group_sync(block);
        gate = topkit_gate_at(TOPKIT_NO_THRESHOLD, TOPKIT_INDEX_LIMIT);
        held = topkit_split_collect<TIES>(block, job, row, rank, blocks, gate, nullptr, c, s);
        held = topkit_cluster_merge<TIES>(block, c, held, job.k, &s->cluster, &s->refiner, &total);
    }
    if (rank > 0 || verdict == TOPKIT_SPLIT_LEAVE) return;
    topkit_job_deliver<TIES>(block, job, r, row, items, held, 0, &s->refiner); /* [6] [7] */
    if (block.thread == 0) {
        s->collected.dropped = 0; /* what merges dropped had been counted by those who collected it */
        topkit_job_count(job, row, 1, 0, 0, &s->collected);
    }
}

#endif
