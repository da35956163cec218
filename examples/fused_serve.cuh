/* fused_serve.cuh: the service warps of the fused indexer: they propose gates, compact full buffers on demand, certify, refine and deliver.
 *
 * Whatever the service waits for, it compacts meanwhile: a consumer that waits for room never waits for more than the work at hand.
 */
#ifndef TOPKIT_FUSED_SERVE_CUH
#define TOPKIT_FUSED_SERVE_CUH

#include "fused_storage.cuh"

#if TOPKIT_HAS_WGMMA
static __device__ __forceinline__ topkit_group topkit_fused_service(void) {
    return topkit_group_warps(TOPKIT_FUSED_CONSUMER_WARPS + 2, TOPKIT_FUSED_SERVICE_WARPS, 1);
}

/* Thread 0's number, to the whole service. */
static __device__ __forceinline__ unsigned topkit_fused_tell(topkit_group g, topkit_fused_storage *s, unsigned number) {
    if (g.thread == 0) s->event = number;
    topkit_group_sync(g);
    const unsigned shared = s->event;
    topkit_group_sync(g);
    return shared;
}

static __device__ __forceinline__ void topkit_fused_set_gate(topkit_fused_storage *s, unsigned b, int q, topkit_gate gate) {
    atomicExch(&s->gate[b][q], (unsigned long long)gate.key << 32 | (unsigned)gate.bound);
}

/* Cuts a full buffer back to its k best and raises the gate, while consumers go on. Every later append fails until the count is put back;
 * those before it fill exactly 0 .. stored-1, and have all been written once as many are committed. */
template <int TIES>
static __device__ __forceinline__ void topkit_fused_compact(const topkit_fused_job &job, topkit_fused_storage *s, topkit_candidate *items,
                                                            unsigned b, int q) {
    const topkit_group g = topkit_fused_service();
    topkit_collector_state *state = &s->collected[b][q];
    unsigned held = 0;
    if (g.thread == 0) {
        atomicAnd(&s->asked, ~(1u << (b * TOPKIT_FUSED_QUERIES + (unsigned)q))); /* first: whoever asks behind this line is heard again */
        if (topkit_peek(&state->count) > (unsigned)job.out.capacity) {
            while (topkit_peek(&s->committed[b][q]) != topkit_peek(&state->stored)) topkit_relax();
            topkit_fence_block();
            held = topkit_peek(&state->stored);
        }
    }
    held = topkit_fused_tell(g, s, held);
    if (held == 0) return; /* it has been seen to already */
    const topkit_cut cut = topkit_refine_cut<TIES>(g, items, (int)held, job.out.k, &s->refiner);
    const int kept = topkit_refine_keep(g, items, (int)held, cut, &s->refiner);
    if (g.thread == 0) {
        state->dropped += held - (unsigned)kept;
        state->compactions++;
        topkit_fused_set_gate(s, b, q, topkit_gate_at(cut.key, TIES == TOPKIT_LOWEST_INDEX ? cut.bound : 0));
        atomicExch(&s->committed[b][q], (unsigned)kept);
        atomicExch(&state->stored, (unsigned)job.out.capacity);
        topkit_fence_block(); /* all of it before there is room */
        atomicExch(&state->count, (unsigned)kept);
        topkit_fence_block();
        atomicAdd(&s->epoch[b][q], 1u);
    }
    topkit_group_sync(g);
}

/* Waits for a signal and compacts meanwhile what is asked for. */
template <int TIES, int HEADS>
static __device__ __forceinline__ void topkit_fused_await(const topkit_fused_job &job, topkit_fused_storage *s, topkit_signal *signal,
                                                          unsigned use) {
    const topkit_group g = topkit_fused_service();
    for (;;) {
        unsigned asked = 0;
        if (g.thread == 0) {
            while (!topkit_signal_test_for(signal, use, 500) && (asked = topkit_peek(&s->asked)) == 0) topkit_relax();
        }
        asked = topkit_fused_tell(g, s, asked);
        if (asked == 0) return;
        const unsigned n = (unsigned)__ffs((int)asked) - 1, b = n / TOPKIT_FUSED_QUERIES;
        const int q = (int)(n % TOPKIT_FUSED_QUERIES);
        topkit_fused_compact<TIES>(job, s, topkit_fused_items(job, TOPKIT_FUSED_COLUMNS / HEADS, b, q), b, q);
    }
}

/* [3] A gate for each query of a run, and an empty buffer. A range that fits the buffer is collected whole, and so is a repeated run's. */
template <int HEADS>
static __device__ __forceinline__ void topkit_fused_propose(const topkit_fused_job &job, topkit_fused_storage *s,
                                                            const topkit_fused_run &run, unsigned b) {
    const topkit_group g = topkit_fused_service();
    for (int q = 0; q < run.count; q++) {
        unsigned from = TOPKIT_NO_THRESHOLD;
        if (run.samples > 0 && !job.matrix && run.length[q] > job.out.capacity) {
            const int count = run.samples * TOPKIT_FUSED_TILE;
            from = topkit_propose_from_sample(g, topkit_fused_sample(job, TOPKIT_FUSED_COLUMNS / HEADS, b, q), count,
                                              topkit_fused_rank(job, count, run.high - run.low), 0, &s->refiner.digit).key;
        }
        if (g.thread == 0) {
            const topkit_collector c = {nullptr, job.out.capacity, nullptr, &s->collected[b][q]};
            topkit_collector_clear(c);
            s->committed[b][q] = 0;
            topkit_fused_set_gate(s, b, q, topkit_gate_at(from, TOPKIT_INDEX_LIMIT));
        }
    }
    topkit_group_sync(g);
}

/* Adds this split's candidates, its k best at most, to those of the others. True for the last split, which then has all of them. */
template <int TIES>
static __device__ __forceinline__ bool topkit_fused_part(const topkit_fused_job &job, topkit_fused_storage *s, int t,
                                                         topkit_candidate *items, int held, topkit_candidate *merged, int *total) {
    const topkit_group g = topkit_fused_service();
    topkit_fused_merge *merge = &job.merges[t];
    unsigned base = 0, arrived = 0;
    if (held > job.out.k) {
        const topkit_cut cut = topkit_refine_cut<TIES>(g, items, held, job.out.k, &s->refiner);
        held = topkit_refine_keep(g, items, held, cut, &s->refiner);
    }
    if (g.thread == 0) base = atomicAdd(&merge->held, (unsigned)held);
    base = topkit_fused_tell(g, s, base);
    for (int i = (int)g.thread; i < held; i += (int)g.size) merged[base + (unsigned)i] = items[i];
    topkit_group_sync(g);
    if (g.thread == 0) {
        __threadfence(); /* the whole service's stores, which the barrier ordered before it */
        arrived = topkit_add_acq_rel(&merge->arrived, 1u);
    }
    arrived = topkit_fused_tell(g, s, arrived);
    if (arrived != (unsigned)job.splits - 1) return false;
    unsigned all = 0;
    if (g.thread == 0) {
        all = atomicExch(&merge->held, 0u); /* for the next launch */
        atomicExch(&merge->arrived, 0u);
    }
    *total = (int)topkit_fused_tell(g, s, all);
    return true;
}

/* [5] The answers of a run; returns the queries whose gate was too high. */
template <int TIES, int HEADS>
static __device__ __forceinline__ unsigned topkit_fused_finish(const topkit_fused_job &job, topkit_fused_storage *s,
                                                               const topkit_fused_run &run, unsigned b) {
    const topkit_group g = topkit_fused_service();
    unsigned failed = 0;
    for (int q = 0; q < run.count; q++) {
        if (!(run.wanted >> q & 1)) continue;
        const int t = run.first + q;
        const topkit_row row = {nullptr, run.length[q]};
        const topkit_collector c = {topkit_fused_items(job, TOPKIT_FUSED_COLUMNS / HEADS, b, q), job.out.capacity, nullptr,
                                    &s->collected[b][q]};
        topkit_candidate *items = c.items;
        const int wanted = row.length < job.out.k ? row.length : job.out.k, collected = topkit_collector_held(c);
        int held = collected;
        bool answers = run.whole;
        if (!answers) {
            items = job.merged + (long long)t * job.splits * job.out.k;
            answers = topkit_fused_part<TIES>(job, s, t, c.items, collected, items, &held);
        }
        const bool enough = held >= wanted;
        if (answers && wanted == 0) topkit_sink_pad_all(g.thread, g.size, 0, job.out.k, topkit_job_sink(job.out, t));
        else if (answers && enough) topkit_job_deliver<TIES>(g, job.out, t, row, items, held, {0, 0}, &s->refiner);
        if (answers && !enough) failed |= 1u << q;
        if (g.thread == 0) topkit_job_count(job.out, row, answers && enough, collected, answers && !enough, c.state);
    }
    return failed;
}

template <int TIES, int HEADS>
static __device__ __forceinline__ void topkit_fused_serve(const topkit_fused_job &job, topkit_fused_storage *s) {
    const topkit_group g = topkit_fused_service();
    for (;;) {
        const topkit_fused_pass pass = topkit_fused_pass_of(s->served); /* kept there: registers are scarce here */
        const unsigned r = pass.run, slot = r % TOPKIT_FUSED_SLOTS;
        const topkit_fused_run &run = s->runs[slot];
        if (pass.sample) {
            topkit_fused_await<TIES, HEADS>(job, s, &s->announced[slot], r / TOPKIT_FUSED_SLOTS);
            if (run.first == TOPKIT_FUSED_END) return;
            topkit_fused_await<TIES, HEADS>(job, s, &s->sampled[r & 1], r / 2);
            topkit_fused_propose<HEADS>(job, s, run, r & 1);
            if (g.thread == 0) topkit_signal_arrive(&s->ready[r & 1]);
        } else {
            topkit_fused_await<TIES, HEADS>(job, s, &s->scanned[r & 1], r / 2);
            const unsigned failed = topkit_fused_finish<TIES, HEADS>(job, s, run, r & 1);
            topkit_group_sync(g);
            if (g.thread == 0) {
                s->failed[slot] = failed;
                topkit_signal_arrive(&s->settled[slot]);
            }
        }
        topkit_group_sync(g);
        if (g.thread == 0) s->served++;
        topkit_group_sync(g);
    }
}
#endif

#endif
