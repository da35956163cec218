/* 03_split_select.cuh: exact Top-K for few long rows: many blocks work on one row.
 *
 * A row is cut into parts, a block each; the blocks of a cluster are a team, and a very long row has several teams. The steps are those of
 * 01_row_select.cuh, with two more:
 *
 *     [2] sample     every block fetches the same sample of the whole row, and at once up to 32K scores of its own part
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
 *   shared        8 KB, 8 bytes a candidate, and 32 KB for each of the 1 to 4 tiles that travel to a warp at a time, the first of them
 *                 before the gate is known: one block a multiprocessor
 *   workspace     several teams: 16 k + 4 bytes a row and team, and a ticket a row that is zero between launches; else none of its own
 *   reads         the row once, and the sample once a block (from L2)
 */
#ifndef TOPKIT_03_SPLIT_SELECT_CUH
#define TOPKIT_03_SPLIT_SELECT_CUH

#include "select_job.cuh"

#define TOPKIT_SPLIT_THREADS 512
#define TOPKIT_SPLIT_SAMPLE 8192 /* scores at most */

typedef struct topkit_split_part {
    topkit_row row;
    int begin; /* its first score is score `begin` of the whole row */
} topkit_split_part;

/* What a block knows of its work lies here as well: registers are short in the scan. */
typedef struct topkit_split_storage {
    topkit_refiner_storage refiner;
    topkit_collector_state collected;
    topkit_cluster_storage cluster;
    topkit_row row;
    topkit_split_part own;
    unsigned last;    /* block 0: its team is the row's last */
    unsigned verdict; /* of block 0, for its team */
} topkit_split_storage;

#define TOPKIT_SPLIT_HEADER ((sizeof(topkit_split_storage) + 15) / 16 * 16)

enum { TOPKIT_SPLIT_LEAVE = 0, TOPKIT_SPLIT_DELIVER = 1, TOPKIT_SPLIT_REPEAT = 2 }; /* verdicts */

/* Part `part` of `parts` of a row, in whole tiles of the row: a row of its own. */
static __device__ __forceinline__ topkit_split_part topkit_split_part_of(topkit_row row, int part, int parts) {
    const topkit_tiles tiles = topkit_row_tiles(row);
    const unsigned body = (unsigned)(tiles.vectors + TOPKIT_TILE_VECTORS - 1) / TOPKIT_TILE_VECTORS; /* times 512 parts: below 2^32 */
    const int first = tiles.head + (int)(body * (unsigned)part / (unsigned)parts) * TOPKIT_TILE;
    const int end = tiles.head + (int)(body * (unsigned)(part + 1) / (unsigned)parts) * TOPKIT_TILE;
    topkit_split_part own;
    own.begin = part == 0 ? 0 : first < row.length ? first : row.length;
    own.row.scores = row.scores + own.begin;
    own.row.length = (part == parts - 1 || end > row.length ? row.length : end) - own.begin;
    return own;
}

/* [4] The block's part s->own, with indices of the whole row: from the gate on with the first tiles at hand, or, shuffled, everything. Ends
 * with the whole block's stores not yet synced. */
template <int TIES>
static __device__ __forceinline__ int topkit_split_collect(topkit_group block, const topkit_select_job &job, topkit_gate gate,
                                                           unsigned visit, topkit_collector c, topkit_split_storage *s) {
    const topkit_row own = s->own.row;
    const int wanted = own.length < job.k ? own.length : job.k;
    int held = 0;
    if (own.length > 0) {
        if (visit == TOPKIT_ASCENDING) held = topkit_scan_begun<TIES>(block, own, wanted, gate, job.depth, c, &s->refiner);
        else held = topkit_scan<TIES>(block, own, wanted, gate, visit, c, &s->refiner);
    }
    for (int i = (int)block.thread; i < held; i += (int)block.size) c.items[i].index += s->own.begin;
    return held;
}

/* [b] The team's candidates, in its first block, to the workspace. The last team of the row gets those of all teams back in its own buffer,
 * and how many; the others get -1. */
template <int TIES>
static __device__ __forceinline__ int topkit_split_publish(topkit_group block, const topkit_select_job &job, int r, int team,
                                                           topkit_collector c, int held, topkit_split_storage *s) {
    topkit_candidate *pool = job.pool + (long long)r * job.teams * job.slot;
    int *published = job.published + (long long)r * job.teams;
    const int lane = (int)topkit_lane(block);
    if (held > job.slot) held = topkit_collector_trim<TIES>(block, c, held, job.k, &s->refiner);
    for (int i = (int)block.thread; i < held; i += (int)block.size) pool[(long long)team * job.slot + i] = c.items[i];
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
    const int count = lane < job.teams ? published[lane] : 0; /* of all teams at once: at most 32 */
    unsigned all;
    const int before = (int)topkit_warp_exclusive_sum(block, (unsigned)count, &all);
    if ((int)all <= c.capacity) { /* a warp a team, so that nothing waits for the one before it */
        for (int t = (int)topkit_warp_rank(block); t < job.teams; t += (int)topkit_warps(block)) {
            const int n = __shfl_sync(TOPKIT_FULL_MASK, count, t), at = __shfl_sync(TOPKIT_FULL_MASK, before, t);
#pragma unroll 4
            for (int i = lane; i < n; i += TOPKIT_WARP) c.items[at + i] = pool[(long long)t * job.slot + i];
        }
        held = (int)all;
    } else {
        held = 0;
        for (int t = 0; t < job.teams; t++) {
            const int n = __shfl_sync(TOPKIT_FULL_MASK, count, t);
            if (held + n > c.capacity) held = topkit_collector_trim<TIES>(block, c, held, job.k, &s->refiner);
            for (int i = (int)block.thread; i < n; i += (int)block.size) c.items[held + i] = pool[(long long)t * job.slot + i];
            held += n;
        }
    }
    topkit_group_sync(block);
    return held;
}

template <int TIES>
static __global__ void __launch_bounds__(TOPKIT_SPLIT_THREADS, 1) topkit_split_select_kernel(topkit_select_job job) {
    TOPKIT_SHARED(memory);
    topkit_split_storage *s = (topkit_split_storage *)memory;
    float *stages = (float *)(memory + TOPKIT_SPLIT_HEADER); /* (warps x depth x TOPKIT_TILE) */
    topkit_candidate *items = (topkit_candidate *)(stages + TOPKIT_SPLIT_THREADS / 32 * job.depth * TOPKIT_TILE); /* (capacity) */
    float *sample = (float *)items; /* (at most TOPKIT_SPLIT_SAMPLE) before there are candidates */
    const topkit_group block = topkit_group_block();
    const topkit_collector c = {items, job.capacity, stages + (int)topkit_warp_rank(block) * job.depth * TOPKIT_TILE, &s->collected};
    const int room = 2 * job.capacity < TOPKIT_SPLIT_SAMPLE ? 2 * job.capacity : TOPKIT_SPLIT_SAMPLE;
    const int parts = job.teams * (int)topkit_cluster_blocks(), r = (int)(blockIdx.x / (unsigned)parts);
    const int part = (int)(blockIdx.x % (unsigned)parts);

    topkit_dependency_wait();
    const topkit_row row = topkit_job_row(job, r);
    if (topkit_job_copies(job, row)) { /* all blocks of the row agree on it: nobody waits for one that left */
        if (part == 0) topkit_sink_identity(block.thread, block.size, row.scores, row.length, job.k, topkit_job_sink(job, r));
        return;
    }

    /* [2] Sample and first tiles are under way before anything is waited for; storage is made ready in their shadow. */
    int count = 0;
    if (topkit_job_samples(job, row)) {
        const topkit_sampling sampling = topkit_job_sampling(job, row, r, room);
        topkit_sample_async(block, sampling, sample);
        count = topkit_sample_count(sampling);
    }
    const topkit_split_part own = topkit_split_part_of(row, part, parts);
    topkit_scan_begin(block, own.row, job.depth, c.stage);
    topkit_refiner_init(block, &s->refiner);
    if (block.thread == 0) {
        s->row = row;
        s->own = own;
        topkit_collector_clear(c);
        s->collected.dropped = s->collected.compactions = 0;
    }
    topkit_copy_async_wait_left<TOPKIT_AHEAD>(); /* the sample */
    topkit_group_sync(block);

    topkit_gate gate = topkit_gate_at(TOPKIT_NO_THRESHOLD, TOPKIT_INDEX_LIMIT);
    if (count > 0) { /* [3] */
        const int sought = topkit_job_rank(job, s->row.length, count);
        gate = topkit_gate_at(topkit_propose_from_sample(block, sample, count, sought, 0, &s->refiner.digit).key, TOPKIT_INDEX_LIMIT);
    }
    int total, held = topkit_split_collect<TIES>(block, job, gate, TOPKIT_ASCENDING, c, s);
    if (block.thread == 0) topkit_job_count(job, s->row, 0, held, 0, &s->collected);
    held = topkit_cluster_merge<TIES>(block, c, held, job.k, &s->cluster, &s->refiner, &total); /* [a] */

    const int wanted = s->row.length < job.k ? s->row.length : job.k;
    unsigned verdict = total < wanted ? TOPKIT_SPLIT_REPEAT : TOPKIT_SPLIT_DELIVER; /* [5] of one team: all its blocks know the total */
    if (job.teams > 1) {
        if (topkit_cluster_block() == 0) {
            held = topkit_split_publish<TIES>(block, job, r, part / (int)topkit_cluster_blocks(), c, held, s);
            if (block.thread == 0) s->verdict = held < 0 ? TOPKIT_SPLIT_LEAVE : held < wanted ? TOPKIT_SPLIT_REPEAT : TOPKIT_SPLIT_DELIVER;
        }
        topkit_cluster_sync();
        verdict = topkit_cluster_read(&s->verdict, 0);
        topkit_cluster_sync(); /* nobody leaves while others read */
    }
    if (verdict == TOPKIT_SPLIT_REPEAT) { /* by this team alone, the whole row */
        if (block.thread == 0) {
            topkit_collector_clear(c);
            s->own = topkit_split_part_of(s->row, (int)topkit_cluster_block(), (int)topkit_cluster_blocks());
        }
        topkit_group_sync(block);
        gate = topkit_gate_at(TOPKIT_NO_THRESHOLD, TOPKIT_INDEX_LIMIT);
        held = topkit_split_collect<TIES>(block, job, gate, topkit_job_visit(job, r), c, s);
        if (block.thread == 0) topkit_job_count(job, s->row, 0, held, topkit_cluster_block() == 0, &s->collected);
        held = topkit_cluster_merge<TIES>(block, c, held, job.k, &s->cluster, &s->refiner, &total);
    }
    if (topkit_cluster_block() > 0 || verdict == TOPKIT_SPLIT_LEAVE) return;
    topkit_job_deliver<TIES>(block, job, r, s->row, items, held, 0, &s->refiner); /* [6] [7] */
    if (block.thread == 0) {
        s->collected.dropped = 0; /* what merges dropped had been counted by those who collected it */
        topkit_job_count(job, s->row, 1, 0, 0, &s->collected);
    }
}

#endif
