/* 01_row_select.cuh: exact Top-K, one block a row, in block-wide phases. The tutorial: read this kernel first.
 *
 * Persistent blocks take rows from a queue, long ones first. For each row the whole block goes through the same steps:
 *
 *     [1] claim      which row comes next                                             scheduler
 *     [2] sample     one vector in 512 scores, fetched while the row before is refined sampler
 *     [3] propose    the score from which about 2k of the row's scores lie            threshold
 *     [4] collect    read the row once; what reaches the threshold goes to a buffer   row, collector
 *     [5] certify    fewer than k in the buffer: the proposal was too high; collect again, from everything
 *     [6] refine     the exact k of the buffer                                        refiner, order
 *     [7] deliver    indices, values, padding                                         sink
 *
 * The threshold is a guess, the buffer is bounded, and still the answer is exact: a guess that is too low fills the buffer, which is then
 * cut back to its k best (inside [4]); one that is too high is found in [5] before any output is written.
 *
 * Rows of at most k scores are copied out; rows that fit the buffer skip [2] and [3] and collect everything.
 *
 *   scores        float, or 16-bit ones (SCORE is topkit_bf16 or topkit_f16): the same steps over half the bytes, by half.cuh
 *   k             1 .. 4096 (plan.c); up to 16384 where AUTO chooses, and by score for any k: with a larger buffer
 *   shared        40 KB and 8 bytes a candidate: 104 KB for k <= 2048, two blocks a multiprocessor
 *   workspace     1 KB + 4 bytes a row, zeroed once
 *   reads         the row once, plus one 32-byte sector in 2 KB for the sample
 */
#ifndef TOPKIT_01_ROW_SELECT_CUH
#define TOPKIT_01_ROW_SELECT_CUH

#include "select_job.cuh"

#define TOPKIT_ROW_THREADS 512
#define TOPKIT_ROW_SAMPLE (TOPKIT_ROW_THREADS / 32 * TOPKIT_TILE) /* samples at most: they lie where the stages lie later */

template <typename SCORE>
struct topkit_row_select_storage {
    topkit_refiner_storage refiner;
    topkit_collector_state collected;
    topkit_row_of<SCORE> rows[2]; /* the present row and the next, by turns: in shared memory, for registers are short in the scan */
    topkit_bounds known; /* of the present row's candidates */
    int next, builds;
};

#define TOPKIT_ROW_HEADER ((sizeof(topkit_row_select_storage<float>) + 127) / 128 * 128)

/* Row r becomes the next one: where it lies, and its sample, of `room` scores at most, under way. */
template <typename SCORE>
static __device__ __forceinline__ void topkit_row_begin(topkit_group block, const topkit_select_job &job, int r, int room,
                                                        topkit_row_of<SCORE> *slot, float *sample) {
    if (r >= job.rows) return;
    const topkit_row_of<SCORE> row = topkit_job_row<SCORE>(job, r);
    if (topkit_job_samples(job, row)) topkit_sample_async(block, topkit_job_sampling(job, row, r, room), sample);
    if (block.thread == 0) *slot = row;
}

template <int TIES, typename SCORE = float>
static __global__ void __launch_bounds__(TOPKIT_ROW_THREADS, 2) topkit_row_select_kernel(topkit_select_job job) {
    TOPKIT_SHARED(memory);
    topkit_row_select_storage<SCORE> *s = (topkit_row_select_storage<SCORE> *)memory;
    float *sample = (float *)(memory + TOPKIT_ROW_HEADER); /* (TOPKIT_ROW_SAMPLE) the stages' memory while no scan runs */
    topkit_candidate *items = (topkit_candidate *)(sample + TOPKIT_ROW_SAMPLE); /* (capacity) */
    const topkit_group block = topkit_group_block();
    const topkit_collector collector = {items, job.capacity, sample + topkit_warp_rank(block) * TOPKIT_TILE, &s->collected};
    const int workers = (int)gridDim.x;
    const bool ordered = job.lengths && job.rows > workers; /* more rows than blocks: let the long ones come first */

    topkit_refiner_init(block, &s->refiner);
    topkit_dependency_wait();
    if (block.thread == 0) {
        topkit_collector_clear(collector);
        s->collected.dropped = s->collected.compactions = 0;
        s->builds = ordered && topkit_order_begin(job.queue);
    }
    topkit_group_sync(block);
    if (s->builds) topkit_job_order(block, job, &s->refiner.digit);

    int r = (int)blockIdx.x, turn = 0;
    topkit_row_begin(block, job, r, TOPKIT_ROW_SAMPLE, &s->rows[0], sample);
    while (r < job.rows) {
        /* [1] Claimed now and looked at after the scan, so that the atomic's way to memory and back costs nothing. */
        int claim = 0;
        if (block.thread == 0) claim = topkit_queue_claim(job.queue, workers);
        topkit_copy_async_wait();
        topkit_group_sync(block);

        const topkit_row_of<SCORE> row = s->rows[turn];
        const int wanted = row.length < job.k ? row.length : job.k;
        const bool copied = topkit_job_copies(job, row);
        int held = 0, recoveries = 0;
        if (!copied) {
            topkit_gate gate = topkit_gate_open();
            if (block.thread == 0) s->known = {0, 0};
            if (topkit_job_samples(job, row)) {
                const int count = topkit_job_sampled(block, row, topkit_job_sampling(job, row, r, TOPKIT_ROW_SAMPLE), sample); /* [2] */
                const int rank = topkit_job_rank(job, job.capacity, row.length, count, false);
                const topkit_proposal p = topkit_propose_from_sample(block, sample, count, rank, 0, &s->refiner.digit); /* [3] */
                gate = topkit_gate_at(p.key, TOPKIT_INDEX_LIMIT);
                if (block.thread == 0) s->known = {p.key, p.maximum};
            }
            held = topkit_scan<TIES>(block, row, wanted, gate, TOPKIT_ASCENDING, collector, &s->refiner); /* [4] */
            if (held < wanted) {                                                                          /* [5] */
                recoveries = 1;
                if (block.thread == 0) {
                    s->collected.dropped += (unsigned)held;
                    s->known = {0, 0};
                    topkit_collector_clear(collector);
                }
                topkit_group_sync(block);
                gate = topkit_gate_open();
                held = topkit_scan<TIES>(block, row, wanted, gate, topkit_job_visit(job, r), collector, &s->refiner);
            }
        }

        /* [1] continued: the next row is known now; its sample travels while this row is refined. */
        if (block.thread == 0) {
            if (ordered && claim < job.rows) {
                topkit_order_wait(job.queue);
                claim = job.row_order[claim - workers];
            }
            s->next = claim;
        }
        topkit_group_sync(block);
        topkit_row_begin(block, job, s->next, TOPKIT_ROW_SAMPLE, &s->rows[turn ^ 1], sample);

        /* [6] [7] */
        if (copied) topkit_sink_identity(block.thread, block.size, row.scores, row.length, job.k, topkit_job_sink<SCORE>(job, r));
        else topkit_job_deliver<TIES>(block, job, r, row, items, held, s->known, &s->refiner);
        if (block.thread == 0) {
            topkit_job_count(job, row, 1, held, recoveries, &s->collected);
            topkit_collector_clear(collector);
        }
        r = s->next;
        turn ^= 1;
        topkit_group_sync(block); /* the buffer is empty, and `next` may be written again */
    }
    if (block.thread == 0) topkit_queue_leave(job.queue, workers);
}

#endif
