/* 04_direct_select.cuh: exact Top-K for rows that fit in shared memory: each is read from memory once, and looked at there.
 *
 * The steps of 01_row_select.cuh, arranged around a row that stays:
 *
 *     [1] claim      the next row; its sample and its scores travel while this one is refined          scheduler
 *     [2] sample     arrives before the scores do                                                       sampler
 *     [3] propose    two gates that have the k-th best score between them                               threshold
 *     [4] classify   above the upper gate: selected, counted; between the gates: to a buffer            collector
 *     [5] certify    k within what was found, all of it in the buffer; else collect everything
 *     [6] refine     the rest of k from the buffer                                                      refiner, order
 *     [7] deliver    what lies above the upper gate goes straight from the row to the sink              sink
 *
 * The refiner gets what lies between the gates alone; with sorted output there is no upper gate.
 *
 * Each warp copies, classifies and delivers tiles of its own, so it may overwrite them with the next row's as soon as it is done with
 * them: one buffer, no barrier.
 *
 *   k             1 .. 4096 (plan.c)
 *   length        what shared memory holds beside 24 KB and 8 bytes a candidate: 16K scores with two blocks a multiprocessor and
 *                 k <= 2048, 46080 with one
 *   workspace     16 bytes + 4 a row, zeroed once
 *   reads         the row once, and its sample (from L2, where the row follows)
 */
#ifndef TOPKIT_04_DIRECT_SELECT_CUH
#define TOPKIT_04_DIRECT_SELECT_CUH

#include "select_job.cuh"

#define TOPKIT_DIRECT_THREADS 768  /* at most: more would leave each too few registers */
#define TOPKIT_DIRECT_SAMPLE 2048  /* scores at most */
#define TOPKIT_DIRECT_RANK 256     /* of the k-th best in the sample, at most: a finer bracket than threads would need two steps */

typedef struct topkit_direct_storage {
    topkit_refiner_storage refiner;
    topkit_collector_state collected;
    topkit_row rows[2]; /* the present row and the next, by turns */
    topkit_gate lower, upper; /* of the present row: in shared memory, for registers are short */
    unsigned above;           /* scores that reach the upper gate */
    int slots[TOPKIT_DIRECT_THREADS / 32]; /* (warps) the first slot of each warp's */
    int next, builds;
} topkit_direct_storage;

#define TOPKIT_DIRECT_HEADER ((sizeof(topkit_direct_storage) + 15) / 16 * 16)

/* A sample in which the k-th best has a rank of TOPKIT_DIRECT_RANK at most. */
static __device__ __forceinline__ topkit_sampling topkit_direct_sampling(const topkit_select_job &job, topkit_row row, int r) {
    const long long room = (long long)row.length * TOPKIT_DIRECT_RANK / job.k;
    return topkit_job_sampling(job, row, r, room < TOPKIT_DIRECT_SAMPLE ? (int)room : TOPKIT_DIRECT_SAMPLE);
}

/* [1] [2] Row r becomes the next one: sample and scores under way, as two groups of copies. A warp's tiles must be done with by that warp,
 * the sample by all. */
static __device__ __forceinline__ void topkit_direct_begin(topkit_group block, const topkit_select_job &job, int r, topkit_row *slot,
                                                           float *sample, float *scores) {
    if (r >= job.rows) return;
    const topkit_row row = topkit_job_row(job, r);
    if (block.thread == 0) *slot = row;
    if (topkit_job_copies(job, row)) return;
    if (topkit_job_samples(job, row)) topkit_sample_async(block, topkit_direct_sampling(job, row, r), sample);
    const topkit_tiles tiles = topkit_row_tiles(row);
    for (int n = (int)topkit_warp_rank(block); n < tiles.count; n += (int)topkit_warps(block))
        topkit_tile_copy_async(tiles, n, topkit_lane(block), scores + n * TOPKIT_TILE);
    topkit_copy_async_commit();
}

/* [3] The sample's rank of the k-th best, give or take five standard deviations and a few for clustered samples. Ends with a barrier. */
static __device__ __forceinline__ void topkit_direct_gates(topkit_group block, const topkit_select_job &job, topkit_row row, int r,
                                                           const float *sample, topkit_direct_storage *s) {
    topkit_proposal p = {TOPKIT_NO_THRESHOLD, TOPKIT_NO_THRESHOLD, 0};
    bool has_upper = false;
    if (topkit_job_samples(job, row)) {
        const int count = topkit_sample_count(topkit_direct_sampling(job, row, r));
        const int rank = (int)((long long)job.k * count / row.length), margin = (int)(5.0f * sqrtf((float)rank)) + 8;
        has_upper = job.order == TOPKIT_ORDER_NONE && rank > margin;
        p = topkit_propose_from_sample(block, sample, count, has_upper ? rank - margin : rank + margin, rank + margin, &s->refiner.digit);
    }
    if (block.thread == 0) {
        s->lower = topkit_gate_at(p.second, TOPKIT_INDEX_LIMIT);
        s->upper = has_upper && p.key > p.second ? topkit_gate_at(p.key, TOPKIT_INDEX_LIMIT) : topkit_gate_at(0xffffffffu, 0); /* nothing */
    }
    topkit_group_sync(block);
}

/* [4] The warp's tiles: counts what reaches the upper gate, appends what lies between the gates. Neither gate asks for indices, whatever
 * the tie policy is. */
static __device__ __forceinline__ int topkit_direct_classify(topkit_group block, topkit_row row, const float *scores, topkit_gate lower,
                                                             topkit_gate upper, topkit_collector c) {
    const topkit_tiles tiles = topkit_row_tiles(row);
    unsigned above = 0;
    for (int n = (int)topkit_warp_rank(block); n < tiles.count; n += (int)topkit_warps(block)) {
        topkit_tile tile;
        topkit_tile_load_copied(tiles, n, topkit_lane(block), scores + n * TOPKIT_TILE, &tile);
        const unsigned passed = topkit_gate_mask<TOPKIT_ANY>(block, lower, &tile);
        const unsigned selected = passed & topkit_gate_mask<TOPKIT_ANY>(block, upper, &tile), between = passed & ~selected;
        above += (unsigned)__popc(selected);
        if (__any_sync(TOPKIT_FULL_MASK, between != 0) &&
            !topkit_collect_staged(block, c, scores + n * TOPKIT_TILE, tile.first, between))
            break; /* overfilled: what was classified does not count */
    }
    return (int)__reduce_add_sync(TOPKIT_FULL_MASK, above);
}

/* [7] The warp's tiles once more: what reaches the upper gate goes to the sink, from slot `base` on. */
static __device__ __forceinline__ void topkit_direct_emit(topkit_group block, topkit_row row, const float *scores, topkit_gate upper,
                                                          int base, topkit_sink_pairs sink) {
    const topkit_tiles tiles = topkit_row_tiles(row);
    for (int n = (int)topkit_warp_rank(block); n < tiles.count; n += (int)topkit_warps(block)) {
        topkit_tile tile;
        unsigned total;
        topkit_tile_load_copied(tiles, n, topkit_lane(block), scores + n * TOPKIT_TILE, &tile);
        unsigned selected = topkit_gate_mask<TOPKIT_ANY>(block, upper, &tile);
        int slot = base + (int)topkit_warp_exclusive_sum(block, (unsigned)__popc(selected), &total);
        for (; selected; selected &= selected - 1) {
            const int bit = __ffs((int)selected) - 1, offset = (int)topkit_lane(block) * 4 + (bit >> 2) * 128 + (bit & 3);
            topkit_sink_put(sink, slot++, tile.first + offset, __float_as_uint(scores[n * TOPKIT_TILE + offset]));
        }
        base += (int)total;
    }
}

template <int TIES>
static __global__ void __launch_bounds__(TOPKIT_DIRECT_THREADS, 1) topkit_direct_select_kernel(topkit_select_job job) {
    TOPKIT_SHARED(memory);
    topkit_direct_storage *s = (topkit_direct_storage *)memory;
    float *sample = (float *)(memory + TOPKIT_DIRECT_HEADER);                     /* (TOPKIT_DIRECT_SAMPLE) */
    topkit_candidate *items = (topkit_candidate *)(sample + TOPKIT_DIRECT_SAMPLE); /* (capacity) */
    float *scores = (float *)(items + job.capacity); /* (tiles x TOPKIT_TILE), and at least a tile a warp, for recoveries */
    const topkit_group block = topkit_group_block();
    const topkit_collector c = {items, job.capacity, scores + topkit_warp_rank(block) * TOPKIT_TILE, &s->collected};
    const int workers = (int)gridDim.x;

    const bool ordered = job.lengths && job.rows > workers;
    topkit_refiner_init(block, &s->refiner);
    topkit_dependency_wait();
    if (block.thread == 0) {
        topkit_collector_clear(c);
        s->collected.dropped = s->collected.compactions = s->above = 0;
        s->builds = ordered && topkit_order_begin(job.queue);
    }
    int r = (int)blockIdx.x, turn = 0;
    topkit_direct_begin(block, job, r, &s->rows[0], sample, scores);
    topkit_group_sync(block);
    if (s->builds) {
        topkit_order_build(block, job.lengths, job.max_length, workers, job.rows, job.row_order, &s->refiner.digit);
        if (block.thread == 0) topkit_order_publish(job.queue);
    }

    while (r < job.rows) {
        int claim = 0; /* [1] looked at below, so that the atomic's way to memory and back costs nothing */
        if (block.thread == 0) claim = topkit_queue_claim(job.queue, workers);
        topkit_copy_async_wait_left<1>();
        topkit_group_sync(block);

        const topkit_row &row = s->rows[turn]; /* stays in shared memory */
        const int wanted = row.length < job.k ? row.length : job.k;
        const bool copied = topkit_job_copies(job, row);
        if (!copied) {
            topkit_direct_gates(block, job, row, r, sample, s); /* [3] */
            topkit_copy_async_wait();
            __syncwarp(); /* the warp's own tiles are here */
            const int mine = topkit_direct_classify(block, row, scores, s->lower, s->upper, c); /* [4] */
            if (topkit_lane(block) == 0 && mine > 0) s->slots[topkit_warp_rank(block)] = (int)atomicAdd(&s->above, (unsigned)mine);
        }
        if (block.thread == 0) {
            if (ordered && claim < job.rows) {
                topkit_order_wait(job.queue);
                claim = job.row_order[claim - workers];
            }
            s->next = claim;
        }
        topkit_group_sync(block);

        int above = 0, held = 0, recoveries = 0;
        if (!copied) {
            above = (int)s->above;
            held = topkit_collector_held(c);
            if (topkit_collector_overflowed(c) || above > wanted || above + held < wanted) { /* [5] */
                topkit_group_sync(block);
                if (block.thread == 0) {
                    s->collected.dropped += (unsigned)(above + held);
                    topkit_collector_clear(c);
                }
                topkit_group_sync(block);
                above = 0;
                recoveries = 1;
                held = topkit_scan<TIES>(block, row, wanted, topkit_gate_at(TOPKIT_NO_THRESHOLD, TOPKIT_INDEX_LIMIT), TOPKIT_SHUFFLED, c,
                                         &s->refiner);
            } else if (above > 0) {
                topkit_direct_emit(block, row, scores, s->upper, s->slots[topkit_warp_rank(block)],
                                         topkit_job_sink(job, r)); /* [7] */
                __syncwarp(); /* the warp's lanes have read its tiles */
            }
        }
        if (block.thread == 0) topkit_job_count(job, row, 1, held + above, recoveries, &s->collected);
        topkit_direct_begin(block, job, s->next, &s->rows[turn ^ 1], sample, scores);

        if (copied) topkit_sink_identity(block.thread, block.size, row.scores, row.length, job.k, topkit_job_sink(job, r));
        else topkit_job_deliver<TIES>(block, job, r, row, items, held, above, &s->refiner); /* [6] [7] */
        if (block.thread == 0) {
            topkit_collector_clear(c);
            s->above = 0;
        }
        r = s->next;
        turn ^= 1;
        topkit_group_sync(block); /* the buffer is empty, and `next` may be written again */
    }
    if (block.thread == 0) topkit_queue_leave(job.queue, workers);
}

#endif
