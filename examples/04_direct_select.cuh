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
 *     [7] settle     the best of the few                                                              resident, sink, order
 *
 * Several blocks share a multiprocessor where rows are short enough, so that one copies while another searches. Where there is a block for
 * each row nothing is claimed at all.
 *
 *   k             1 .. 4096 (plan.c)
 *   length        what shared memory holds beside 5 KB, 2 bytes for each of k and, for sorted output, 11 more for each. Of k = 2048,
 *                 unsorted: 12093 scores with four blocks a multiprocessor, 16957 with three, 26685 with two, 55869 with one
 *   workspace     1 KB + 4 bytes a row, zeroed once
 *   reads         the row once
 */
#ifndef TOPKIT_04_DIRECT_SELECT_CUH
#define TOPKIT_04_DIRECT_SELECT_CUH

#include "select_job.cuh"

#define TOPKIT_DIRECT_THREADS 1024 /* at most; or a half or a quarter of them */

typedef struct topkit_direct_storage {
    topkit_resident_storage resident;
    topkit_row row; /* the next one */
    int next;       /* its number */
    int builds;
} topkit_direct_storage;

#define TOPKIT_DIRECT_HEADER ((sizeof(topkit_direct_storage) + 127) / 128 * 128)

/* To the output, or where it shall be ordered to candidates that can be sorted. */
typedef struct topkit_direct_sink {
    topkit_sink_pairs out;
    topkit_candidate *items; /* or null */
} topkit_direct_sink;
TOPKIT_JOB_FN void topkit_sink_put(topkit_direct_sink s, int slot, int index, unsigned bits) {
    const topkit_candidate c = {bits, index};
    if (s.items) s.items[slot] = c;
    else topkit_sink_put(s.out, slot, index, bits);
}

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
static __global__ void __launch_bounds__(THREADS, TOPKIT_DIRECT_THREADS / THREADS) topkit_direct_select_kernel(topkit_select_job job) {
    TOPKIT_SHARED(memory);
    topkit_direct_storage *s = (topkit_direct_storage *)memory;
    topkit_candidate *items = (topkit_candidate *)(memory + TOPKIT_DIRECT_HEADER); /* (topkit_sort_room(k), where an order is asked for) */
    const bool sorts = job.order != TOPKIT_ORDER_NONE;
    float *place = (float *)(items + (sorts ? (topkit_sort_room(job.k) + 15) / 16 * 16 : 0)); /* on a line of 128 bytes: see 03 */
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
    if (queued) {
        if (block.thread == 0) s->builds = job.lengths && topkit_order_begin(job.queue);
        topkit_group_sync(block);
        if (s->builds) topkit_job_order(block, job, &s->resident.digit);
    }

    for (;;) {
        const int wanted = row.length < job.k ? row.length : job.k;
        const topkit_sink_pairs out = topkit_job_sink(job, r);
        const topkit_direct_sink sink = {out, sorts ? items : nullptr};
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
        topkit_resident_region region = {0, 0, 0, 0, 0, false};
        if (!copied) {
            topkit_copy_async_wait();
            const topkit_resident_bracket bracket = topkit_resident_bound(block, resident, wanted, &s->resident); /* [3] */
            if (claims) topkit_direct_look_up(job, &claim);
            topkit_resident_list(block, bracket, wanted, &resident, &s->resident); /* [4] */
            if (claims) topkit_direct_measure(job, &claim);
            region = topkit_resident_search<TIES>(block, resident, bracket, wanted, &s->resident); /* [5] */
            if (claims) {
                s->next = claim.next;
                s->row = claim.row;
            }
            topkit_resident_emit<TIES>(block, resident, region, sink, &s->resident); /* [6] */
            if (block.thread == 0) {
                topkit_collector_state none = {};
                topkit_job_count(job, row, 1, topkit_resident_seen(resident, &s->resident), 0, &none);
            }
        }
        const int next = queued ? s->next : job.rows;
        const bool settles = !copied;
        if (next < job.rows) {
            row = s->row;
            resident = topkit_resident_at(row, place, bytes);
            copied = topkit_job_copies(job, row);
            if (!copied) topkit_resident_copy_async(block, row, resident); /* [2] */
        }
        if (settles) {
            topkit_resident_settle(block, region, wanted, sink, &s->resident); /* [7] */
            if (sorts) {
                topkit_resident_clear(block, &s->resident);
                topkit_group_sync(block);
                topkit_sort(block, items, wanted, job.order, out, &s->resident.digit);
            }
            topkit_sink_pad_all(block.thread, block.size, wanted, job.k, out);
        }
        if (next >= job.rows) break;
        if (settles && !sorts) topkit_resident_clear(block, &s->resident);
        r = next;
    }
    if (claims) topkit_queue_leave(job.queue, workers);
}

#endif
