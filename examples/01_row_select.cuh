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
 *   k             1 .. TOPKIT_ROW_MAX_K
 *   shared        topkit_row_select_shared(capacity): 107 KB for k <= 2048, two blocks a multiprocessor
 *   workspace     16 bytes + 4 a row, zeroed once
 *   reads         the row once, plus one 32-byte sector in 2 KB for the sample
 */
#ifndef TOPKIT_01_ROW_SELECT_CUH
#define TOPKIT_01_ROW_SELECT_CUH

#include "launch.h"
#include "select.h"
#include "topkit/topkit.cuh"

#define TOPKIT_ROW_THREADS 512
#define TOPKIT_ROW_SAMPLE (TOPKIT_ROW_THREADS / 32 * TOPKIT_TILE) /* samples at most: they lie where the stages lie later */
#define TOPKIT_ROW_DENSITY 128                                    /* scores for one sample */
#define TOPKIT_ROW_VECTOR 4                                       /* samples in one vector */
#define TOPKIT_ROW_MIN_RANK 24                                    /* fewer samples above the threshold would make it a gamble */

typedef struct topkit_row_select_args {
    const float *scores;
    long long row_stride;
    const int *starts, *lengths; /* (rows) or null */
    int rows, max_length, k, order, capacity;
    int *indices;
    long long index_stride;
    float *values; /* or null */
    long long value_stride;
    topkit_select_stats *stats; /* or null */
    topkit_queue *queue;        /* zero before the first launch, and after every one */
    int *row_order;             /* (rows) */
} topkit_row_select_args;

typedef struct topkit_row_select_storage {
    topkit_refiner_storage refiner;
    topkit_collector_state collected;
    topkit_row rows[2]; /* the present row and the next, by turns: in shared memory, for registers are short in the scan */
    int next, builds;
} topkit_row_select_storage;

#define TOPKIT_ROW_HEADER ((sizeof(topkit_row_select_storage) + 15) / 16 * 16)

static inline size_t topkit_row_select_shared(int capacity) {
    return TOPKIT_ROW_HEADER + TOPKIT_ROW_SAMPLE * sizeof(float) + (size_t)capacity * sizeof(topkit_candidate);
}

/* [2] How a row is sampled: one score in TOPKIT_ROW_DENSITY, or as many as there is room for. */
static __device__ __forceinline__ topkit_sampling topkit_row_sampling(topkit_row row, int r) {
    const int room = TOPKIT_ROW_SAMPLE / TOPKIT_ROW_VECTOR;
    int stride = TOPKIT_ROW_DENSITY * TOPKIT_ROW_VECTOR;
    if (row.length / stride >= room) stride = (row.length / room / TOPKIT_ROW_VECTOR + 1) * TOPKIT_ROW_VECTOR;
    return topkit_sample_plan(row, stride, TOPKIT_ROW_VECTOR, (unsigned)r);
}

/* A row that fits the buffer is collected whole: there is nothing to guess. */
static __device__ __forceinline__ bool topkit_row_is_sampled(const topkit_row_select_args &a, topkit_row row) {
    return row.length > a.k && row.length > a.capacity;
}

/* [3] The sample's rank to ask for: 2k scores, or half-way to the capacity where that is less, as seen by a sample of `count`. */
static __device__ __forceinline__ int topkit_row_rank(const topkit_row_select_args &a, int length, int count) {
    const int middle = (a.k + a.capacity) / 2, target = 2 * a.k < middle ? 2 * a.k : middle;
    const int rank = (int)((long long)target * count / length) + 1;
    return rank < TOPKIT_ROW_MIN_RANK ? TOPKIT_ROW_MIN_RANK : rank;
}

/* Row r becomes the next one: where it lies, and its sample under way. */
static __device__ __forceinline__ void topkit_row_begin(topkit_group block, const topkit_row_select_args &a, int r, topkit_row *slot, float *sample) {
    if (r >= a.rows) return;
    const topkit_row row = topkit_row_at(a.scores, a.row_stride, a.starts, a.lengths, a.max_length, r);
    if (topkit_row_is_sampled(a, row)) topkit_sample_async(block, topkit_row_sampling(row, r), sample);
    if (block.thread == 0) *slot = row;
}

template <int TIES>
static __global__ void __launch_bounds__(TOPKIT_ROW_THREADS, 2) topkit_row_select_kernel(topkit_row_select_args a) {
    TOPKIT_SHARED(memory);
    topkit_row_select_storage *s = (topkit_row_select_storage *)memory;
    float *sample = (float *)(memory + TOPKIT_ROW_HEADER); /* (TOPKIT_ROW_SAMPLE) the stages' memory while no scan runs */
    topkit_candidate *items = (topkit_candidate *)(sample + TOPKIT_ROW_SAMPLE); /* (capacity) */
    const topkit_group block = topkit_group_block();
    const topkit_collector collector = {items, a.capacity, sample + topkit_warp_rank(block) * TOPKIT_TILE, &s->collected};
    const int workers = (int)gridDim.x;
    const bool ordered = a.lengths && a.rows > workers; /* more rows than blocks: let the long ones come first */

    topkit_refiner_init(block, &s->refiner);
    if (block.thread == 0) {
        topkit_collector_clear(collector);
        s->collected.dropped = s->collected.compactions = 0;
        s->builds = ordered && topkit_order_begin(a.queue);
    }
    topkit_group_sync(block);
    if (s->builds) {
        topkit_order_build(block, a.lengths, a.max_length, workers, a.rows, a.row_order, &s->refiner.digit);
        if (block.thread == 0) topkit_order_publish(a.queue);
    }

    int r = (int)blockIdx.x, turn = 0;
    topkit_row_begin(block, a, r, &s->rows[0], sample);
    while (r < a.rows) {
        /* [1] Claimed now and looked at after the scan, so that the atomic's way to memory and back costs nothing. */
        int claim = 0;
        if (block.thread == 0) claim = topkit_queue_claim(a.queue, workers);
        topkit_copy_async_wait();
        topkit_group_sync(block);

        const topkit_row row = s->rows[turn];
        const int wanted = row.length < a.k ? row.length : a.k;
        const bool copied = row.length <= a.k && (a.order != TOPKIT_ORDER_SCORE || row.length <= 1);
        int held = 0, recoveries = 0;
        if (!copied) {
            topkit_gate gate = topkit_gate_at(TOPKIT_NO_THRESHOLD, TOPKIT_INDEX_LIMIT);
            if (topkit_row_is_sampled(a, row)) {
                const int count = topkit_sample_count(topkit_row_sampling(row, r)); /* [2] */
                const int rank = topkit_row_rank(a, row.length, count);
                gate = topkit_gate_at(topkit_propose_from_sample(block, sample, count, rank, 0, &s->refiner.digit).key, TOPKIT_INDEX_LIMIT); /* [3] */
            }
            held = topkit_scan<TIES>(block, row, wanted, gate, TOPKIT_ASCENDING, collector, &s->refiner); /* [4] */
            if (held < wanted) { /* [5] */
                recoveries = 1;
                if (block.thread == 0) {
                    s->collected.dropped += (unsigned)held;
                    topkit_collector_clear(collector);
                }
                topkit_group_sync(block);
                gate = topkit_gate_at(TOPKIT_NO_THRESHOLD, TOPKIT_INDEX_LIMIT);
                held = topkit_scan<TIES>(block, row, wanted, gate, TOPKIT_SHUFFLED, collector, &s->refiner);
            }
        }

        /* [1] continued: the next row is known now; its sample travels while this row is refined. */
        if (block.thread == 0) {
            if (ordered && claim < a.rows) {
                topkit_order_wait(a.queue);
                claim = a.row_order[claim - workers];
            }
            s->next = claim;
        }
        topkit_group_sync(block);
        topkit_row_begin(block, a, s->next, &s->rows[turn ^ 1], sample);

        /* [6] [7] */
        const topkit_sink_pairs sink = {a.indices + r * a.index_stride, a.values ? a.values + r * a.value_stride : nullptr, 0};
        if (copied) {
            topkit_sink_identity(block.thread, block.size, row.scores, row.length, a.k, sink);
        } else {
            const topkit_cut cut = topkit_refine_cut<TIES>(block, items, held, wanted, &s->refiner);
            if (a.order == TOPKIT_ORDER_NONE) {
                topkit_refine_emit(block, items, held, cut, sink, &s->refiner);
            } else {
                topkit_refine_keep(block, items, held, cut, &s->refiner);
                topkit_sort(block, items, wanted, a.order == TOPKIT_ORDER_SCORE ? TOPKIT_BY_SCORE : TOPKIT_BY_INDEX);
                for (int slot = (int)block.thread; slot < wanted; slot += (int)block.size)
                    topkit_sink_put(sink, slot, items[slot].index, items[slot].bits);
            }
            topkit_sink_pad_all(block.thread, block.size, wanted, a.k, sink);
        }
        if (block.thread == 0) {
            if (a.stats && row.length > a.k) {
                atomicAdd(&a.stats->rows, 1ull);
                atomicAdd(&a.stats->admitted, (unsigned long long)((unsigned)held + s->collected.dropped));
                atomicAdd(&a.stats->compactions, (unsigned long long)s->collected.compactions);
                atomicAdd(&a.stats->recoveries, (unsigned long long)recoveries);
            }
            s->collected.dropped = s->collected.compactions = 0;
            topkit_collector_clear(collector);
        }
        r = s->next;
        turn ^= 1;
        topkit_group_sync(block); /* the buffer is empty, and `next` may be written again */
    }
    if (block.thread == 0) topkit_queue_leave(a.queue, workers);
}

#endif
