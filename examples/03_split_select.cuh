/* 03_split_select.cuh: exact Top-K for few long rows: many blocks work on one row.
 *
 * A row is cut into parts, a block each. The steps are those of 01_row_select.cuh but for the last ones, which no block does alone:
 *
 *     [2] sample     every block fetches the same sample of the whole row, and at once up to 32K scores of its own part
 *     [3] propose    so that all come to the same gate without a word to each other
 *     [4] collect    each block its own part
 *     [5] search     the boundary of the k best among the candidates of all blocks: they exchange histograms           team
 *                    fewer than k: the gate was too high; all blocks collect once more, from everything
 *     [6] emit       each block delivers its own; the few at the boundary are shown to all, and the best of them delivered
 *     [7] order      only where one is asked for: by one block
 *
 *          row  =   part 0    |   part 1    |   part 2    |   part 3
 *                     |             |             |             |           [4]
 *                 candidates <-> histograms <-> candidates <-> ..           [5]
 *                     |             |             |             |
 *                     v             v             v             v           [6]
 *                  indices       indices       indices       indices
 *
 * A row's blocks wait for each other: they are a cluster, which the hardware runs together or not at all, or the launch is a cooperative
 * one, which is refused where its blocks do not all fit.
 *
 * Parts of up to 32K scores lie in shared memory whole: then nothing is collected [4], every thread samples one vector [2], and the search
 * counts the part itself in linear bins [5] (team_resident). That is the second kernel below, of few steps, for launches that are all
 * latency.
 *
 *   k             1 .. 4096 (plan.c); in no order up to 18432, and any where parts lie whole, where AUTO chooses
 *   shared        26 KB, 8 bytes a candidate, and 32 KB for each of the 1 to 4 tiles that travel to a warp at a time, the first of them
 *                 before the gate is known. Parts that lie whole: 26 KB, the part, and 11 bytes for each of k where an order is asked for
 *   workspace     a cluster none of its own; else 2 KB a row and 1 KB a row and block twice, k candidates a row where an order is asked for
 *                 and a counter a row that is zero between launches
 *   reads         the row once, and the sample once a block (from L2)
 */
#ifndef TOPKIT_03_SPLIT_SELECT_CUH
#define TOPKIT_03_SPLIT_SELECT_CUH

#include "select_job.cuh"

#define TOPKIT_SPLIT_THREADS 512 /* at most, or a half of them: whatever all warps do costs less with fewer */
#define TOPKIT_SPLIT_SAMPLE 8192 /* scores at most */
#define TOPKIT_SPLIT_ROUGHLY 32  /* blocks a row, from which on a rough gate does: it admits four times as much, which they share */

typedef struct topkit_split_part {
    topkit_row row;
    int begin; /* its first score is score `begin` of the whole row */
} topkit_split_part;

/* What a block knows of its work lies here as well: registers are short in the scan. */
typedef struct topkit_split_storage {
    topkit_refiner_storage refiner;
    topkit_team_storage team;
    topkit_collector_state collected;
    topkit_row row;
    topkit_split_part own;
} topkit_split_storage;

/* Tiles lie on lines of 128 bytes: copies to places off them fetch the row at 3.6 TB/s instead of 4.1. */
#define TOPKIT_SPLIT_HEADER ((sizeof(topkit_split_storage) + 127) / 128 * 128)

/* Part `part` of `parts` of a row, in whole tiles of the row: a row of its own. reciprocal: 2^32 / parts, rounded up, for a division would
 * take longer than all else here. */
static __device__ __forceinline__ topkit_split_part topkit_split_part_of(topkit_row row, int part, int parts, unsigned reciprocal) {
    const topkit_tiles tiles = topkit_row_tiles(row);
    const unsigned body = (unsigned)(tiles.vectors + TOPKIT_TILE_VECTORS - 1) / TOPKIT_TILE_VECTORS; /* times 512 parts: below 2^32 */
    const int first = tiles.head + (int)__umulhi(body * (unsigned)part, reciprocal) * TOPKIT_TILE;
    const int end = tiles.head + (int)__umulhi(body * (unsigned)(part + 1), reciprocal) * TOPKIT_TILE;
    topkit_split_part own;
    own.begin = part == 0 ? 0 : first < row.length ? first : row.length;
    own.row.scores = row.scores + own.begin;
    own.row.length = (part == parts - 1 || end > row.length ? row.length : end) - own.begin;
    return own;
}

/* [4] The block's part s->own, with its own indices: from the gate on with the first tiles at hand, or, shuffled, everything. */
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
    if (block.thread == 0) topkit_job_count(job, s->row, 0, held, 0, &s->collected);
    return held;
}

/* [5] The gate was too high: everything, in an order that nobody could know. */
template <int TIES>
static __device__ __forceinline__ int topkit_split_again(topkit_group block, const topkit_select_job &job, int r, topkit_collector c,
                                                         topkit_split_storage *s) {
    if (block.thread == 0) topkit_collector_clear(c);
    topkit_group_sync(block);
    return topkit_split_collect<TIES>(block, job, topkit_gate_open(), topkit_job_visit(job, r), c, s);
}

/* To the output, or where an order is asked for to a place of which the first block, or all, know. */
typedef struct topkit_split_sink {
    topkit_sink_pairs out;
    topkit_candidate *place; /* (k) or null */
    bool remote;             /* it lies in the first block's shared memory */
} topkit_split_sink;
TOPKIT_JOB_FN void topkit_sink_put(topkit_split_sink s, int slot, int index, unsigned bits) {
    const topkit_candidate c = {bits, index};
    if (!s.place) topkit_sink_put(s.out, slot, index, bits);
    else if (s.remote) topkit_cluster_write_pair(&s.place[slot], 0, bits, (unsigned)index);
    else s.place[slot] = c;
}

TOPKIT_JOB_FN int *topkit_sink_bare(topkit_split_sink s) { return s.place ? nullptr : topkit_sink_bare(s.out); }

/* [7] The order, by one block. `items` is its own, of k candidates, which a cluster emitted there; what sorting needs beside them may lie
 * where its candidates were. */
static __device__ __forceinline__ void topkit_split_order(topkit_group block, const topkit_select_job &job, int wanted,
                                                          topkit_split_sink sink, topkit_candidate *items, topkit_digit_storage *digit) {
    for (int i = (int)block.thread; !sink.remote && i < wanted; i += (int)block.size) items[i] = sink.place[i];
    topkit_group_sync(block);
    topkit_sort(block, items, wanted, job.order, sink.out, digit);
}

/* This block's place among those of its row. */
static __device__ __forceinline__ topkit_team topkit_split_team(const topkit_select_job &job, int r, int part, topkit_split_storage *s) {
    if (!job.arrivals) return topkit_team_cluster(&s->team, s->own.begin);
    return topkit_team_resident((unsigned)part, (unsigned)job.parts, job.pool + r * job.slot, &job.arrivals[r], s->own.begin);
}

static __device__ __forceinline__ topkit_split_sink topkit_split_sink_of(const topkit_select_job &job, int r, topkit_candidate *items) {
    topkit_split_sink sink = {topkit_job_sink(job, r), nullptr, !job.arrivals};
    if (job.order != TOPKIT_ORDER_NONE)
        sink.place = sink.remote ? items : (topkit_candidate *)(job.pool + r * job.slot + topkit_team_bytes(job.parts));
    return sink;
}

/* [6] [7] Behind the emission, of which this block has `own` members of the boundary to settle. */
template <int TIES>
static __device__ __forceinline__ void topkit_split_finish(topkit_group block, const topkit_select_job &job, topkit_team *team, int wanted,
                                                           topkit_team_boundary boundary, unsigned own, topkit_split_sink sink,
                                                           topkit_candidate *items, topkit_split_storage *s) {
    if (topkit_team_settles<TIES>(boundary)) topkit_team_meet(block, team);
    topkit_team_settle(block, team, own, wanted, boundary, sink, &s->refiner);
    if (team->block == 0) topkit_sink_pad_all(block.thread, block.size, wanted, job.k, sink.out);
    if (!sink.place) topkit_team_leave(block, team);
    else if (topkit_team_last(block, team, &s->team)) topkit_split_order(block, job, wanted, sink, items, &s->refiner.digit);
}

/* [5] [6] [7] of several blocks. `items` (of the order) lie where tiles travelled: none does any more when the blocks have met. */
template <int TIES>
static __device__ __forceinline__ void topkit_split_meet(topkit_group block, const topkit_select_job &job, topkit_proposal gate, int r,
                                                         int part, topkit_collector c, int held, topkit_candidate *items,
                                                         topkit_split_storage *s) {
    const int length = s->row.length, wanted = length < job.k ? length : job.k;
    const topkit_split_sink sink = topkit_split_sink_of(job, r, items);
    topkit_team team = topkit_split_team(job, r, part, s);
    topkit_team_boundary boundary = topkit_team_search<TIES>(block, &team, c.items, held, wanted, gate.key, gate.maximum, length,
                                                             &s->refiner.digit, &s->team);
    const bool again = boundary.region.inside == 0;
    if (again) {
        held = topkit_split_again<TIES>(block, job, r, c, s);
        boundary = topkit_team_search<TIES>(block, &team, c.items, held, wanted, TOPKIT_NO_THRESHOLD, 0xffffffffu, length,
                                            &s->refiner.digit, &s->team);
    }
    topkit_collector_state none = {};
    if (part == 0 && block.thread == 0) topkit_job_count(job, s->row, 1, 0, again, &none);
    const unsigned own = topkit_team_emit<TIES>(block, &team, c.items, held, wanted, boundary, sink, &s->refiner);
    topkit_split_finish<TIES>(block, job, &team, wanted, boundary, own, sink, items, s);
}

/* The number of threads is known to the compiler, as in 04. */
template <int TIES, int THREADS>
static __global__ void __launch_bounds__(THREADS, 1) topkit_split_select_kernel(topkit_select_job job) {
    TOPKIT_SHARED(memory);
    topkit_split_storage *s = (topkit_split_storage *)memory;
    float *stages = (float *)(memory + TOPKIT_SPLIT_HEADER); /* (warps x depth x TOPKIT_TILE) */
    topkit_candidate *items = (topkit_candidate *)(stages + TOPKIT_SPLIT_THREADS / 32 * job.depth * TOPKIT_TILE); /* (capacity) */
    float *sample = (float *)items; /* (at most TOPKIT_SPLIT_SAMPLE) before there are candidates */
    const topkit_group block = {threadIdx.x, THREADS, 0};
    const topkit_collector c = {items, job.capacity, stages + (int)topkit_warp_rank(block) * job.depth * TOPKIT_TILE, &s->collected};
    const int room = 2 * job.capacity < TOPKIT_SPLIT_SAMPLE ? 2 * job.capacity : TOPKIT_SPLIT_SAMPLE;
    const int r = (int)blockIdx.x, part = (int)blockIdx.y;
    const bool alone = job.parts == 1;

    topkit_dependency_wait();
    const topkit_row row = topkit_job_row(job, r);
    if (topkit_job_copies(job, row)) { /* all blocks of the row agree on it: nobody waits for one that left */
        if (part == 0) topkit_sink_identity(block.thread, block.size, row.scores, row.length, job.k, topkit_job_sink(job, r));
        return;
    }
    if (!alone && !job.arrivals) topkit_cluster_enter(); /* [5] waits for it */

    /* [2] Sample and first tiles are under way before anything is waited for; storage is made ready in their shadow. */
    int count = 0;
    if (row.length > job.k && (!alone || topkit_job_samples(job, row))) {
        const topkit_sampling sampling = topkit_job_sampling(job, row, r, room);
        topkit_sample_async(block, sampling, sample);
        count = topkit_sample_count(sampling);
    }
    const topkit_split_part own = topkit_split_part_of(row, part, job.parts, job.reciprocal);
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

    topkit_proposal gate = {TOPKIT_NO_THRESHOLD, TOPKIT_NO_THRESHOLD, 0, 0xffffffffu};
    if (count > 0) { /* [3] */
        const int team = 4 * job.k > job.capacity ? 4 * job.k : job.capacity; /* more fits several buffers, usually */
        const int rank = topkit_job_rank(job, alone ? job.capacity : team, s->row.length, count, false);
        if (job.parts < TOPKIT_SPLIT_ROUGHLY) gate = topkit_propose_from_sample(block, sample, count, rank, 0, &s->refiner.digit);
        else gate = topkit_propose_roughly(block, sample, count, rank - 1, &s->refiner.digit);
    }
    int held = topkit_split_collect<TIES>(block, job, topkit_gate_at(gate.key, TOPKIT_INDEX_LIMIT), TOPKIT_ASCENDING, c, s); /* [4] */
    if (!alone) {
        topkit_split_meet<TIES>(block, job, gate, r, part, c, held, (topkit_candidate *)stages, s);
        return;
    }
    const int wanted = s->row.length < job.k ? s->row.length : job.k;
    const bool again = held < wanted; /* [5] */
    if (again) held = topkit_split_again<TIES>(block, job, r, c, s);
    topkit_bounds known = {gate.key, gate.maximum};
    if (again) known.low = 0;
    topkit_job_deliver<TIES>(block, job, r, s->row, items, held, known, &s->refiner); /* [6] [7] */
    if (block.thread == 0) topkit_job_count(job, s->row, 1, 0, again, &s->collected);
}

/* Where parts are so short that they lie in shared memory whole, nothing is collected: a block's part is what it holds. */
template <int TIES, int THREADS>
static __global__ void __launch_bounds__(THREADS, 1) topkit_split_resident_kernel(topkit_select_job job) {
    TOPKIT_SHARED(memory);
    topkit_split_storage *s = (topkit_split_storage *)memory;
    topkit_candidate *items = (topkit_candidate *)(memory + TOPKIT_SPLIT_HEADER); /* (capacity) of the order */
    float *place = (float *)(items + job.capacity);
    const topkit_group block = {threadIdx.x, THREADS, 0};
    const int r = (int)blockIdx.x, part = (int)blockIdx.y;

    topkit_dependency_wait();
    const topkit_row row = topkit_job_row(job, r);
    if (topkit_job_copies(job, row)) {
        if (part == 0) topkit_sink_identity(block.thread, block.size, row.scores, row.length, job.k, topkit_job_sink(job, r));
        return;
    }
    if (!job.arrivals) topkit_cluster_enter();
    float4 sample; /* [2] */
    const int holders = topkit_sample_vector(block, row, topkit_job_seed(job, r), &sample);
    const topkit_split_part own = topkit_split_part_of(row, part, job.parts, job.reciprocal);
    const topkit_resident resident = topkit_resident_at(own.row, place, topkit_resident_bytes(own.row.length));
    topkit_resident_copy_async(block, own.row, resident);
    topkit_refiner_init(block, &s->refiner);
    if (block.thread == 0) {
        s->row = row;
        s->own = own;
    }
    const int wanted = row.length < job.k ? row.length : job.k;
    topkit_proposal gate = {TOPKIT_NO_THRESHOLD, TOPKIT_NO_THRESHOLD, 0, TOPKIT_NO_THRESHOLD};
    if (wanted < row.length) { /* [3] */
        const float expected = (float)job.k * (float)(4 * holders) / (float)row.length; /* of the k best in the sample */
        const int rank = (int)(expected + 4.5f * sqrtf(expected + 1));
        gate = topkit_propose_from_vectors(block, sample, holders, rank < TOPKIT_JOB_MIN_RANK ? TOPKIT_JOB_MIN_RANK : rank,
                                           &s->refiner.digit);
    }
    topkit_copy_async_wait();
    topkit_group_sync(block);
    const topkit_split_sink sink = topkit_split_sink_of(job, r, items);
    topkit_team team = topkit_split_team(job, r, part, s);
    const topkit_team_resident_boundary boundary =
        topkit_team_resident_search<TIES>(block, &team, resident, wanted, gate, row.length, &s->refiner.digit, &s->team); /* [5] */
    const topkit__region region = boundary.team.region;
    topkit_collector_state none = {};
    if (part == 0 && block.thread == 0)
        topkit_job_count(job, row, 1, wanted - (int)region.need + (int)region.inside, boundary.again, &none);
    const unsigned members = topkit_team_resident_emit<TIES>(block, &team, resident, wanted, boundary, sink, &s->refiner); /* [6] */
    topkit_split_finish<TIES>(block, job, &team, wanted, boundary.team, members, sink, items, s);
}

#endif
