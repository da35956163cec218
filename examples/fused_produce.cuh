/* fused_produce.cuh: the producer warp of the fused indexer: claims runs, and copies their queries and key tiles.
 *
 * Copies are asynchronous, 16 bytes each, and tell a signal when they have landed; the producer waits for nothing but free stages. What has
 * been copied must be made visible to the tensor cores before they read it, and the fence that does so waits for every access that its
 * thread has under way. So another warp that has none, the relay, waits for a tile, fences it and passes it on.
 */
#ifndef TOPKIT_FUSED_PRODUCE_CUH
#define TOPKIT_FUSED_PRODUCE_CUH

#include "fused_storage.cuh"

#if TOPKIT_HAS_WGMMA
static __device__ __forceinline__ void topkit_fused_copy_16(unsigned char *to, const unsigned char *from) {
    topkit_copy_async_16((float *)to, (const float *)from);
}

/* Where a pass's tiles come from. All of it in registers: the producer is one warp, and a tile must take it less time than consumers. */
typedef struct topkit_fused_source {
    int low, high, stride; /* positions from low on and below high are read; rows of a tile are `stride` positions apart */
    const int *table;      /* pages of the run's keys; null: in order */
} topkit_fused_source;

/* Pages of a tile's rows `lane` and `lane` + 32, which each lane looks up. */
typedef struct topkit_fused_pages {
    int page[2];
} topkit_fused_pages;
static __device__ __forceinline__ topkit_fused_pages topkit_fused_look_up(topkit_fused_source from, int first) {
    topkit_fused_pages pages;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int position = first + ((int)(threadIdx.x & 31) + 32 * i) * from.stride;
        pages.page[i] = position / TOPKIT_FUSED_PAGE;
        if (from.table) pages.page[i] = position >= from.low && position < from.high ? from.table[pages.page[i]] : 0;
    }
    return pages;
}

/* One tile that is a whole page. */
static __device__ __forceinline__ void topkit_fused_copy_page(const topkit_fused_job &job, int page, unsigned char *stage, float *scales) {
    const unsigned lane = threadIdx.x & 31;
    const unsigned char *from = job.keys + page * job.page_bytes + lane * 16;
    unsigned char *const even = stage + topkit_fused_swizzle(lane >> 3, lane & 7);
    unsigned char *const odd = stage + topkit_fused_swizzle((lane >> 3) + 4, lane & 7);
#pragma unroll
    for (int i = 0; i < TOPKIT_FUSED_TILE / 4; i++) /* 4 rows each; the swizzle repeats after 8 */
        topkit_fused_copy_16((i % 2 ? odd : even) + i / 2 * (8 * TOPKIT_FUSED_ROW), from + i * (4 * TOPKIT_FUSED_ROW));
    if (job.scales) {
        const float *scale = job.scales + page * job.scale_stride + lane;
        topkit_copy_async_4(scales + lane, scale);
        topkit_copy_async_4(scales + lane + 32, scale + 32);
    }
}

/* Any other tile. Positions outside the run's are not read: their rows hold what was there, and no query looks at them. */
static __device__ __forceinline__ void topkit_fused_copy_rows(const topkit_fused_job &job, topkit_fused_source from, int first,
                                                              topkit_fused_pages pages, unsigned char *stage, float *scales) {
    const unsigned lane = threadIdx.x & 31, row = lane >> 3, piece = lane & 7;
    unsigned char *const even = stage + topkit_fused_swizzle(row, piece), *const odd = stage + topkit_fused_swizzle(row + 4, piece);
    long long at[2]; /* bytes from the first key's, of rows lane and lane + 32; below 0: not read */
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int position = first + ((int)lane + 32 * i) * from.stride, slot = position % TOPKIT_FUSED_PAGE;
        const bool there = position >= from.low && position < from.high;
        at[i] = there ? pages.page[i] * job.page_bytes + slot * TOPKIT_FUSED_ROW : -1;
        if (there && job.scales) topkit_copy_async_4(scales + lane + 32 * i, job.scales + pages.page[i] * job.scale_stride + slot);
    }
#pragma unroll
    for (unsigned i = 0; i < TOPKIT_FUSED_TILE / 4; i++) {
        const long long key = __shfl_sync(TOPKIT_FULL_MASK, at[i / 8], (int)(row + 4 * (i % 8)));
        if (key >= 0) topkit_fused_copy_16((i % 2 ? odd : even) + i / 2 * (8 * TOPKIT_FUSED_ROW), job.keys + key + piece * 16);
    }
}

/* All tiles of a pass. A tile's pages are looked up one tile ahead: their numbers' way from memory costs nothing then. */
static __device__ __forceinline__ void topkit_fused_stream(const topkit_fused_job &job, topkit_fused_storage *s, unsigned char *ring,
                                                           const topkit_fused_run &run, bool sample, unsigned *sent) {
    const int tiles = sample ? run.samples : run.tiles;
    if (tiles == 0) return; /* nothing else is said of such a pass */
    const int origin = topkit_fused_first(run, sample), step = sample || run.step == 0 ? 1 : run.step;
    const topkit_fused_source from = {run.low, run.high, topkit_fused_stride(run, sample),
                                      job.page_table ? job.page_table + run.table * job.table_stride : nullptr};
    int first = origin, tile = 0;
    topkit_fused_pages pages = topkit_fused_look_up(from, first);
    for (int n = 0; n < tiles;) {
        const unsigned stage = *sent % TOPKIT_FUSED_STAGES, use = *sent / TOPKIT_FUSED_STAGES;
        if (use > 0) topkit_signal_wait(&s->empty[stage], use - 1);
        for (int half = 0; half < 2 && n < tiles; half++, n++) {
            unsigned char *const keys = ring + stage * TOPKIT_FUSED_STAGE_BYTES + half * TOPKIT_FUSED_TILE_BYTES;
            const bool inside = first >= from.low && first + TOPKIT_FUSED_TILE <= from.high;
            const bool whole = inside && from.stride == 1 && first % TOPKIT_FUSED_PAGE == 0;
            tile = tile + step < tiles ? tile + step : tile + step - tiles; /* the first tile's, behind the last one */
            const int next = origin + tile * TOPKIT_FUSED_TILE * from.stride;
            const topkit_fused_pages ahead = topkit_fused_look_up(from, next);
            if (whole) topkit_fused_copy_page(job, pages.page[0], keys, s->scales[stage][half]);
            else topkit_fused_copy_rows(job, from, first, pages, keys, s->scales[stage][half]);
            first = next;
            pages = ahead;
        }
        topkit_copy_async_arrive(&s->landed[stage].bits);
        ++*sent;
    }
}

/* The next run, written to its slot by one thread: one whose gates were too high, or the next of the item at hand, or of the queue's next
 * item, or nothing while verdicts are still to come, or the end. Long ranges first: in a causal batch the last queries have them. */
static __device__ __forceinline__ void topkit_fused_claim(const topkit_fused_job &job, topkit_fused_storage *s, unsigned r) {
    topkit_fused_feed *feed = &s->feed;
    topkit_fused_run *run = &s->runs[r % TOPKIT_FUSED_SLOTS];
    const int each = job.together;
    if (r >= 3) {
        const unsigned before = (r - 3) % TOPKIT_FUSED_SLOTS, failed = s->failed[before];
        if (failed) {
            topkit_fused_repeat_run(job, &s->runs[before], failed, run);
            feed->idle = 0;
            return;
        }
    }
    if (feed->next >= feed->end && !feed->dry) {
        const int item = r == 0 ? (int)blockIdx.x : topkit_queue_claim(job.out.queue, (int)gridDim.x);
        feed->dry = item >= job.pieces * job.splits;
        if (!feed->dry) {
            feed->next = (job.pieces - 1 - item / job.splits) * each;
            feed->end = feed->next + each < job.tokens ? feed->next + each : job.tokens;
            feed->split = item % job.splits;
        }
    }
    if (feed->next < feed->end) {
        topkit_fused_next_run(job, feed->next, feed->end, feed->split, run);
        feed->next += run->count;
        feed->idle = 0;
    } else {
        run->first = feed->idle < 2 ? 0 : TOPKIT_FUSED_END; /* two idle runs after the last one its verdict is known */
        run->low = run->high = run->count = run->samples = run->tiles = 0;
        run->wanted = 0;
        run->step = 0;
        feed->idle++;
    }
}

/* Queries and weights of a run, to its half of the shared memory. */
template <int HEADS>
static __device__ __forceinline__ void topkit_fused_copy_queries(const topkit_fused_job &job, topkit_fused_storage *s,
                                                                 const topkit_fused_run &run, unsigned char *queries, unsigned b) {
    const int lane = (int)(threadIdx.x & 31), columns = run.count * HEADS;
    const unsigned char *from = job.queries + (long long)run.first * HEADS * TOPKIT_FUSED_ROW;
    const float *weights = job.weights + (long long)run.first * HEADS;
    queries += b * TOPKIT_FUSED_QUERY_BYTES;
    for (int p = lane; p < columns * 8; p += 32) {
        const unsigned head = (unsigned)p >> 3, team = head / TOPKIT_FUSED_HALF, column = topkit_fused_column(head % TOPKIT_FUSED_HALF);
        topkit_fused_copy_16(queries + topkit_fused_swizzle(team * TOPKIT_FUSED_HALF + column, (unsigned)p & 7), from + p * 16);
    }
    topkit_copy_async_commit();
    for (int c = lane; c < columns; c += 32)
        s->weights[b][c / TOPKIT_FUSED_HALF][topkit_fused_weight_at((unsigned)c % TOPKIT_FUSED_HALF)] = weights[c];
    topkit_copy_async_wait();
    topkit_fused_publish();
}

template <int HEADS>
static __device__ __forceinline__ void topkit_fused_produce(const topkit_fused_job &job, topkit_fused_storage *s, unsigned char *ring,
                                                            unsigned char *queries) {
    const unsigned lane = threadIdx.x & 31;
    unsigned sent = 0; /* stages, over all passes */
    for (unsigned step = 0;; step++) {
        const topkit_fused_pass pass = topkit_fused_pass_of(step);
        const unsigned r = pass.run;
        topkit_fused_run *run = &s->runs[r % TOPKIT_FUSED_SLOTS];
        if (pass.sample) {
            if (r >= 3) topkit_signal_wait(&s->settled[(r - 3) % TOPKIT_FUSED_SLOTS], (r - 3) / TOPKIT_FUSED_SLOTS);
            if (r >= 2) topkit_signal_wait(&s->scanned[r & 1], (r - 2) / 2); /* its queries' half is free */
            if (lane == 0) topkit_fused_claim(job, s, r);
            __syncwarp();
            if (run->count > 0) topkit_fused_copy_queries<HEADS>(job, s, *run, queries, r & 1);
            __syncwarp();
            if (lane == 0) topkit_signal_arrive(&s->announced[r % TOPKIT_FUSED_SLOTS]);
            if (run->first == TOPKIT_FUSED_END) break;
        }
        topkit_fused_stream(job, s, ring, *run, pass.sample, &sent);
    }
    if (lane == 0) topkit_queue_leave(job.out.queue, (int)gridDim.x);
}

/* The relay warp: passes each stage on to the consumers once it has landed. It counts among those who have scanned a run: passes without
 * tiles hold nobody else up, and their slots could be announced anew before the relay has looked at them. */
static __device__ __forceinline__ void topkit_fused_relay(topkit_fused_storage *s) {
    if ((threadIdx.x & 31) != 0) return;
    unsigned number = 0;
    for (unsigned step = 0;; step++) {
        const topkit_fused_pass pass = topkit_fused_pass_of(step);
        const topkit_fused_run *run = &s->runs[pass.run % TOPKIT_FUSED_SLOTS];
        if (pass.sample) topkit_signal_wait(&s->announced[pass.run % TOPKIT_FUSED_SLOTS], pass.run / TOPKIT_FUSED_SLOTS);
        if (run->first == TOPKIT_FUSED_END) return;
        for (int left = topkit_fused_stages(pass.sample ? run->samples : run->tiles); left > 0; left--, number++) {
            const unsigned stage = number % TOPKIT_FUSED_STAGES;
            topkit_signal_wait(&s->landed[stage], number / TOPKIT_FUSED_STAGES);
            topkit_fused_publish();
            topkit_signal_arrive(&s->full[stage]);
        }
        if (!pass.sample) topkit_signal_arrive(&s->scanned[pass.run & 1]);
    }
}
#endif

#endif
