/* 04_direct_select.cuh: exact Top-K for rows that fit in shared memory: each is read from memory once, and looked at there.
 *
 * Nothing is sampled:
 *
 *     [1] claim      the next row, while this one is looked at                                        scheduler
 *     [2] copy       the row, to stay                                                                 resident
 *     [3] bound      a histogram of the row: two numbers with the k-th best score between them        resident
 *     [4] list       positions of what exceeds the upper one; the few scores between them             resident
 *     [5] search     only where that fails: the boundary by radix steps over the row                  resident
 *     [6] emit       what is listed goes to the sink; from here on the next row may be copied         resident, sink
 *     [7] settle     the best of the few                                                              resident, sink
 *     [8] order      what is wanted in order goes to the sink only now                                order
 *
 * Several blocks share a multiprocessor where rows are short enough, so that one copies while another searches. Where there is a block for
 * each row nothing is claimed at all.
 *
 *   k             1 .. 4096 (plan.c)
 *   length        what shared memory holds beside 5 KB, 2 bytes for each of k and, for output by score, 11 more for each, or by index a bit
 *                 for each score. Of k = 2048, unsorted: 12093 scores with four blocks a multiprocessor, 16957 with three, 26685 with two,
 *                 55869 with one
 *   workspace     1 KB + 4 bytes a row, zeroed once
 *   reads         the row once
 */
#ifndef TOPKIT_04_DIRECT_SELECT_CUH
#define TOPKIT_04_DIRECT_SELECT_CUH

#include "select_job.cuh"

#define TOPKIT_DIRECT_THREADS 512 /* or half of them */

typedef struct topkit_direct_storage {
    topkit_resident_storage resident;
    topkit_row row; /* the next one */
    int next;       /* its number */
    int builds;
} topkit_direct_storage;

#define TOPKIT_DIRECT_HEADER ((sizeof(topkit_direct_storage) + 127) / 128 * 128)

/* To the output, or where it shall be ordered to candidates that can be sorted by score, or to a mask, which has them by index. */
typedef struct topkit_direct_sink {
    topkit_sink_pairs out;
    topkit_candidate *items; /* or null */
    topkit_sink_mask mask;   /* of no words otherwise */
} topkit_direct_sink;
TOPKIT_JOB_FN void topkit_sink_put(topkit_direct_sink s, int slot, int index, unsigned bits) {
    const topkit_candidate c = {bits, index};
    if (s.items) s.items[slot] = c;
    else if (s.mask.words) topkit_sink_put(s.mask, slot, index, bits);
    else topkit_sink_put(s.out, slot, index, bits);
}
TOPKIT_JOB_FN int *topkit_sink_bare(topkit_direct_sink s) { return s.items || s.mask.words ? nullptr : topkit_sink_bare(s.out); }

/* [1] Finds the next row in steps, for each of which memory is asked once and answers while the block does something else. One thread. */
typedef struct topkit_direct_claim {
    int next;
    topkit_row row;
} topkit_direct_claim;

static __device__ __forceinline__ void topkit_direct_look_up(const topkit_select_job &job, topkit_direct_claim *c) {
    const int workers = (int)gridDim.x;
    if (!job.lengths || c->next >= job.rows) return;
    topkit_order_wait(job.queue);
    c->next = job.row_order[c->next - workers];
}

static __device__ __forceinline__ void topkit_direct_measure(const topkit_select_job &job, topkit_direct_claim *c) {
    const topkit_row none = {nullptr, 0};
    c->row = c->next < job.rows ? topkit_job_row(job, c->next) : none;
}

/* The number of threads is known to the compiler, which halves the code: a launch of few rows runs most of it once, from memory. */
template <int TIES, int THREADS>
static __global__ void __launch_bounds__(THREADS, 2 * TOPKIT_DIRECT_THREADS / THREADS) topkit_direct_select_kernel(topkit_select_job job) {
    TOPKIT_SHARED(memory);
    topkit_direct_storage *s = (topkit_direct_storage *)memory;
    const bool by_score = job.order == TOPKIT_ORDER_SCORE, by_index = job.order == TOPKIT_ORDER_INDEX;
    unsigned char *ordered = memory + TOPKIT_DIRECT_HEADER; /* by score topkit_sort_room(k) candidates, by index a bit for each score */
    const int room = by_score ? topkit_sort_room(job.k) * (int)sizeof(topkit_candidate) : by_index ? (job.max_length + 31) / 32 * 4 : 0;
    float *place = (float *)(ordered + (room + 127) / 128 * 128); /* on a line of 128 bytes: see 03 */
    const int bytes = topkit_resident_bytes(job.max_length) + job.capacity * 2; /* the row, and a list of `capacity` positions */
    const topkit_group block = {threadIdx.x, THREADS, 0};
    const int workers = (int)gridDim.x;
    const bool queued = job.rows > workers, claims = queued && block.thread == 0;

    topkit_dependency_wait();
    int r = (int)blockIdx.x;
    topkit_row row = topkit_job_row(job, r);
    topkit_resident resident = topkit_resident_at(row, place, bytes);
    bool copied = topkit_job_copies(job, row);
    if (!copied) topkit_resident_copy_async(block, row, resident); /* [2] */
    topkit_resident_init(block, &s->resident);
    for (int i = (int)block.thread; by_index && i < room / 4; i += THREADS) ((unsigned *)ordered)[i] = 0;
    if (queued) {
        if (block.thread == 0) s->builds = job.lengths && topkit_order_begin(job.queue);
        topkit_group_sync(block);
        if (s->builds) topkit_job_order(block, job, &s->resident.digit);
    }

    for (;;) {
        const int wanted = row.length < job.k ? row.length : job.k;
        const topkit_sink_pairs out = topkit_job_sink(job, r);
        const topkit_direct_sink sink = {out, by_score ? (topkit_candidate *)ordered : nullptr, {by_index ? (unsigned *)ordered : nullptr}};
        topkit_direct_claim claim = {job.rows, {nullptr, 0}};
        if (claims) claim.next = topkit_queue_claim(job.queue, workers); /* [1] */
        if (copied) {
            topkit_group_sync(block); /* all have read the last claim */
            if (claims) {
                topkit_direct_look_up(job, &claim);
                topkit_direct_measure(job, &claim);
                s->next = claim.next;
                s->row = claim.row;
            }
            topkit_sink_identity(block.thread, block.size, row.scores, row.length, job.k, out);
            topkit_group_sync(block);
        }
        if (!copied) {
            topkit_copy_async_wait();
            const topkit_resident_bracket bracket = topkit_resident_bound(block, resident, wanted, &s->resident); /* [3] */
            if (claims) topkit_direct_look_up(job, &claim);
            topkit_resident_list(block, bracket, wanted, &resident, &s->resident); /* [4] */
            if (claims) topkit_direct_measure(job, &claim);
            if (block.thread == 0) {
                topkit_collector_state none = {};
                topkit_job_count(job, row, 1, topkit_resident_seen(resident, &s->resident), 0, &none);
            }
            topkit_resident_search<TIES>(block, bracket, wanted, &resident, &s->resident); /* [5] */
            if (claims) {
                s->next = claim.next;
                s->row = claim.row;
            }
            topkit_resident_emit(block, resident, sink); /* [6] */
            if (by_index) { /* while the row is there */
                topkit_resident_settle(block, resident.listed, wanted, sink, &s->resident); /* [7] */
                topkit_group_sync(block);
                topkit_sort_mask(block, sink.mask.words, row.length, resident.scores + resident.lead, out, &s->resident.digit); /* [8] */
            }
        }
        const int listed = resident.listed;
        const int next = queued ? s->next : job.rows;
        const bool settles = !copied;
        if (next < job.rows) {
            row = s->row;
            resident = topkit_resident_at(row, place, bytes);
            copied = topkit_job_copies(job, row);
            if (!copied) topkit_resident_copy_async(block, row, resident); /* [2] */
        }
        if (settles) {
            if (!by_index) topkit_resident_settle(block, listed, wanted, sink, &s->resident); /* [7] */
            if (by_score) {
                topkit_resident_clear(block, &s->resident);
                topkit_group_sync(block);
                topkit_sort(block, sink.items, wanted, TOPKIT_BY_SCORE, out, &s->resident.digit); /* [8] */
            }
            topkit_sink_pad_all(block.thread, block.size, wanted, job.k, out);
        }
        if (next >= job.rows) break;
        if (settles && !by_score) topkit_resident_clear(block, &s->resident);
        r = next;
    }
    if (claims) topkit_queue_leave(job.queue, workers);
}

#endif
