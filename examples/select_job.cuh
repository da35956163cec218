/* select_job.cuh: what the reference kernels share: one launch's arguments, and how a row of it is found, sampled, delivered and counted.
 *
 * A job is passed to the kernel by value. Functions are called by whoever needs the answer; those for a whole group say so.
 */
#ifndef TOPKIT_SELECT_JOB_CUH
#define TOPKIT_SELECT_JOB_CUH

#include "launch.h"
#include "select.h"
#include "topkit/topkit.cuh"

#define TOPKIT_JOB_FN static __device__ __forceinline__ __attribute__((unused))

#define TOPKIT_JOB_MIN_RANK 24 /* fewer samples above the threshold would make it a gamble */

typedef struct topkit_select_job {
    const float *scores; /* or of the 16-bit type that the kernel reads, as are the values */
    long long row_stride;
    const int *starts, *lengths; /* (rows) or null */
    int rows, max_length, k, order;
    int capacity;       /* candidates that a buffer holds */
    int density, width; /* sampler: scores for one sample, where there is room for so many; samples in one vector */
    unsigned salt;      /* what nobody knows who makes rows: where they are sampled, and the order in which a repeated one is read */
    int *indices;
    long long index_stride;
    float *values; /* or null */
    long long value_stride;
    topkit_select_stats *stats; /* or null */
    topkit_queue *queue;        /* zero before the first launch, and after every one */
    int *row_order;             /* (rows) */
    int parts, depth;           /* of a row that is split (03): its blocks; tiles that travel to a warp at a time */
    unsigned reciprocal;        /* .. 2^32 / parts, rounded up */
    unsigned *arrivals;         /* (rows) zero before the first launch, and after every one; null: a row's blocks are a cluster */
    unsigned char *pool;        /* (rows x slot) with arrivals: what a row's blocks tell each other, */
    long long slot;             /* .. bytes: a team's, and k candidates where an order is asked for */
} topkit_select_job;

template <typename SCORE = float>
TOPKIT_JOB_FN topkit_row_of<SCORE> topkit_job_row(const topkit_select_job &job, int r) {
    return topkit_row_at((const SCORE *)job.scores, job.row_stride, job.starts, job.lengths, job.max_length, r);
}

/* A row that fits the buffer is collected whole: there is nothing to guess. */
template <typename SCORE>
TOPKIT_JOB_FN bool topkit_job_samples(const topkit_select_job &job, topkit_row_of<SCORE> row) {
    return row.length > job.k && row.length > job.capacity;
}

/* Row r's own number, the same in all blocks, for the sampler; and the order in which it is read once more, never TOPKIT_ASCENDING. */
TOPKIT_JOB_FN unsigned topkit_job_seed(const topkit_select_job &job, int r) { return (unsigned)r ^ job.salt; }
TOPKIT_JOB_FN unsigned topkit_job_visit(const topkit_select_job &job, int r) { return topkit_hash(~topkit_job_seed(job, r)) | 1; }

/* One score in `density`, or as many as `room` samples allow, in vectors of `width`. */
TOPKIT_JOB_FN topkit_sampling topkit_job_sampling(const topkit_select_job &job, int width, topkit_row row, int r, int room) {
    const int shift = 31 - __clz(width), vectors = room >> shift;
    int stride = job.density << shift;
    if (row.length >= (long long)vectors * stride) stride = (int)(((unsigned)row.length / (unsigned)vectors >> shift) + 1) << shift;
    return topkit_sample_plan(row, stride, width, topkit_job_seed(job, r));
}
TOPKIT_JOB_FN topkit_sampling topkit_job_sampling(const topkit_select_job &job, topkit_row row, int r, int room) {
    return topkit_job_sampling(job, job.width, row, r, room);
}

/* Of 16-bit scores: the same sectors of memory, and room for twice as many floats when they are widened. */
template <typename SCORE>
TOPKIT_JOB_FN topkit_sampling topkit_job_sampling(const topkit_select_job &job, topkit_row_of<SCORE> row, int r, int room) {
    return topkit_job_sampling(job, topkit_half_words(row), r, room / 2);
}

/* Makes floats of a sample that has arrived and is synced, and returns how many there are. The whole group. */
TOPKIT_JOB_FN int topkit_job_sampled(topkit_group, topkit_row, topkit_sampling s, float *) { return topkit_sample_count(s); }
template <typename SCORE>
TOPKIT_JOB_FN int topkit_job_sampled(topkit_group g, topkit_row_of<SCORE>, topkit_sampling s, float *sample) {
    topkit_half_widen<SCORE>(g, sample, topkit_sample_count(s));
    return 2 * topkit_sample_count(s);
}

/* The rank to ask a sample of `count` for. Of the k best it holds `expected`, give or take a square root of that: so many more that a row
 * in ten thousand or less has fewer than k scores above the threshold; or, where that is less, three quarters of the way from k to the
 * capacity: overfull buffers are compacted, which costs less than a row that is read again. Where scores of neighbours are alike
 * (crowded) a sample is worth less. */
TOPKIT_JOB_FN int topkit_job_rank(const topkit_select_job &job, int capacity, int length, int count, bool crowded) {
    const int expected = (int)((unsigned)job.k * (unsigned)count / (unsigned)length); /* k below 2^15, and below 2^14 samples */
    const int most = (int)((unsigned)(job.k + 3 * capacity) / 4 * (unsigned)count / (unsigned)length);
    const int safe = expected + (int)((crowded ? 6.4f : 4.5f) * sqrtf((float)(expected + 1)));
    const int rank = (safe < most ? safe : most) + 1;
    return rank < TOPKIT_JOB_MIN_RANK ? TOPKIT_JOB_MIN_RANK : rank;
}

template <typename SCORE = float>
TOPKIT_JOB_FN topkit_sink_pairs_of<SCORE> topkit_job_sink(const topkit_select_job &job, int r) {
    SCORE *values = job.values ? (SCORE *)job.values + r * job.value_stride : nullptr;
    topkit_sink_pairs_of<SCORE> sink = {topkit_once(job.indices + r * job.index_stride), topkit_once(values), 0};
    return sink;
}

/* The slots behind those that are filled. */
template <typename SCORE>
TOPKIT_JOB_FN topkit_sink_pairs_of<SCORE> topkit_job_behind(topkit_sink_pairs_of<SCORE> sink, int filled) {
    sink.indices += filled;
    if (sink.values) sink.values += filled;
    return sink;
}

/* Sorts the rows that no block begins with by length, for the queue: by the group whose thread topkit_order_begin has chosen. */
TOPKIT_JOB_FN void topkit_job_order(topkit_group g, const topkit_select_job &job, topkit_digit_storage *s) {
    topkit_order_build(g, job.lengths, job.max_length, (int)gridDim.x, job.rows, job.row_order, s);
    if (g.thread == 0) topkit_order_publish(job.queue);
}

/* A row of at most k scores is its own answer, unless it has to be sorted by score. */
template <typename SCORE>
TOPKIT_JOB_FN bool topkit_job_copies(const topkit_select_job &job, topkit_row_of<SCORE> row) {
    return row.length <= job.k && (job.order != TOPKIT_ORDER_SCORE || row.length <= 1);
}

/* Refines items[0 .. held), of which the row needs one at the least, to the row's answer and writes it in the order asked for (items must
 * have topkit_sort_room(k) where there is one). `known`: bounds of their keys, the gate's and the largest sample's. The whole group; ends
 * with a barrier. */
template <int TIES, typename SCORE>
TOPKIT_JOB_FN void topkit_job_deliver(topkit_group g, const topkit_select_job &job, int r, topkit_row_of<SCORE> row,
                                      topkit_candidate *items, int held, topkit_bounds known, topkit_refiner_storage *s) {
    const topkit_sink_pairs_of<SCORE> sink = topkit_job_sink<SCORE>(job, r);
    const int wanted = row.length < job.k ? row.length : job.k;
    static_assert((int)TOPKIT_ORDER_INDEX == (int)TOPKIT_BY_INDEX && (int)TOPKIT_ORDER_SCORE == (int)TOPKIT_BY_SCORE, "select.h");
    if (job.order == TOPKIT_ORDER_NONE) {
        topkit_refine<TIES>(g, items, held, wanted, sink, s, known);
    } else {
        topkit_refine_keep(g, items, held, topkit_refine_cut<TIES>(g, items, held, wanted, s, known), s);
        topkit_sort(g, items, wanted, job.order, sink, &s->digit);
    }
    topkit_sink_pad_all(g.thread, g.size, wanted, job.k, sink);
}

/* Adds a pass over a row to the statistics, and the row where it is done with it; zeroes the collector's own. One thread. */
template <typename SCORE>
TOPKIT_JOB_FN void topkit_job_count(const topkit_select_job &job, topkit_row_of<SCORE> row, int finished, int held, int recoveries,
                                    topkit_collector_state *state) {
    if (job.stats && row.length > job.k) {
        atomicAdd(&job.stats->rows, (unsigned long long)finished);
        atomicAdd(&job.stats->admitted, (unsigned long long)((unsigned)held + state->dropped));
        atomicAdd(&job.stats->compactions, (unsigned long long)state->compactions);
        atomicAdd(&job.stats->recoveries, (unsigned long long)recoveries);
    }
    state->dropped = state->compactions = 0;
}

#endif
