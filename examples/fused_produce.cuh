/* fused_produce.cuh: the producer warp of the fused indexer: claims runs, and copies their queries and key tiles.
 *
 * Copies are asynchronous, 16 bytes each; the warp waits for the oldest of several tiles that are under way, makes it visible to the tensor
 * cores and says so. It never waits for a stage while a tile that frees it is unannounced (the assertion in fused_storage.cuh).
 */
#ifndef TOPKIT_FUSED_PRODUCE_CUH
#define TOPKIT_FUSED_PRODUCE_CUH

#include "fused_storage.cuh"

#if TOPKIT_HAS_WGMMA
typedef struct topkit_fused_feed {
    unsigned sent, told; /* tiles copied, and announced; over all passes */
    int next, end;       /* queries of the present item that are still to be run */
    int split;
    unsigned idle;       /* runs in a row that have nothing to do */
    bool dry;            /* the queue has no more items */
} topkit_fused_feed;

/* Announces the oldest tile that is not yet announced, once it is there: at most LEFT later ones may still be under way. */
template <int LEFT>
static __device__ __forceinline__ void topkit_fused_tell(topkit_fused_storage *s, topkit_fused_feed *feed) {
    topkit_copy_async_wait_left<LEFT>();
    topkit_fused_publish();
    __syncwarp();
    if ((threadIdx.x & 31) == 0) topkit_signal_arrive(&s->full[feed->told % TOPKIT_FUSED_STAGES]);
    feed->told++;
}

static __device__ __forceinline__ void topkit_fused_copy_16(unsigned char *to, const unsigned char *from) {
    topkit_copy_async_16((float *)to, (const float *)from);
}

/* Pages of a tile's rows: each lane looks up those of rows `lane` and `lane` + 32. */
typedef struct topkit_fused_pages {
    int page[2];
} topkit_fused_pages;
static __device__ __forceinline__ topkit_fused_pages topkit_fused_look_up(const topkit_fused_job &job, const topkit_fused_run &run,
                                                                          int first, int stride) {
    topkit_fused_pages pages;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int position = first + ((int)(threadIdx.x & 31) + 32 * i) * stride;
        pages.page[i] = position >= run.low && position < run.high ? topkit_fused_page(job, run.table, position) : 0;
    }
    return pages;
}

/* One tile of keys. Positions outside the run's are not read: their rows hold what was there, and no query looks at them. */
static __device__ __forceinline__ void topkit_fused_copy_tile(const topkit_fused_job &job, const topkit_fused_run &run, int first,
                                                              int stride, topkit_fused_pages pages, unsigned char *stage, float *scales) {
    const int lane = (int)(threadIdx.x & 31), row = lane >> 3, piece = lane & 7;
    if (stride == 1 && first % TOPKIT_FUSED_PAGE == 0 && first >= run.low && first + TOPKIT_FUSED_TILE <= run.high) { /* a whole page */
        const int page = __shfl_sync(TOPKIT_FULL_MASK, pages.page[0], 0);
        const unsigned char *from = job.keys + page * job.page_bytes + row * TOPKIT_FUSED_ROW + piece * 16;
#pragma unroll
        for (int i = 0; i < TOPKIT_FUSED_TILE / 4; i++)
            topkit_fused_copy_16(stage + topkit_fused_swizzle((unsigned)(row + 4 * i), (unsigned)piece), from + i * 4 * TOPKIT_FUSED_ROW);
    } else {
#pragma unroll
        for (int i = 0; i < TOPKIT_FUSED_TILE / 4; i++) {
            const int r = row + 4 * i, position = first + r * stride;
            const long long page = __shfl_sync(TOPKIT_FULL_MASK, pages.page[i / 8], r & 31);
            if (position >= run.low && position < run.high)
                topkit_fused_copy_16(stage + topkit_fused_swizzle((unsigned)r, (unsigned)piece),
                                     job.keys + page * job.page_bytes + position % TOPKIT_FUSED_PAGE * TOPKIT_FUSED_ROW + piece * 16);
        }
    }
    if (job.scales) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int position = first + (lane + 32 * i) * stride;
            if (position >= run.low && position < run.high)
                topkit_copy_async_4(scales + lane + 32 * i,
                                    job.scales + pages.page[i] * job.scale_stride + position % TOPKIT_FUSED_PAGE);
        }
    }
    topkit_copy_async_commit();
}

/* All tiles of a pass. A tile's pages are looked up one tile ahead: their numbers' way from memory costs nothing then. */
static __device__ __forceinline__ void topkit_fused_stream(const topkit_fused_job &job, topkit_fused_storage *s, unsigned char *ring,
                                                           const topkit_fused_run &run, bool sample, topkit_fused_feed *feed) {
    const int tiles = sample ? run.samples : run.tiles, stride = topkit_fused_stride(run, sample);
    if (tiles == 0) return;
    int first = topkit_fused_first(run, sample, 0);
    topkit_fused_pages pages = topkit_fused_look_up(job, run, first, stride);
    for (int n = 0; n < tiles; n++) {
        const unsigned stage = feed->sent % TOPKIT_FUSED_STAGES, use = feed->sent / TOPKIT_FUSED_STAGES;
        const int next = topkit_fused_first(run, sample, n + 1 < tiles ? n + 1 : n);
        const topkit_fused_pages ahead = topkit_fused_look_up(job, run, next, stride);
        if (use > 0) topkit_signal_wait(&s->empty[stage], use - 1);
        topkit_fused_copy_tile(job, run, first, stride, pages, ring + stage * TOPKIT_FUSED_STAGE_BYTES, s->scales[stage]);
        first = next;
        pages = ahead;
        feed->sent++;
        if (feed->sent - feed->told > TOPKIT_FUSED_LAG) topkit_fused_tell<TOPKIT_FUSED_LAG>(s, feed);
    }
    while (feed->told != feed->sent) topkit_fused_tell<0>(s, feed);
}

/* The next run, written to its slot by one thread: one whose gates were too high, or the next of the item at hand, or of the queue's next
 * item, or nothing while verdicts are still to come, or the end. Long ranges first: in a causal batch the last queries have them. */
template <int HEADS>
static __device__ __forceinline__ void topkit_fused_claim(const topkit_fused_job &job, topkit_fused_storage *s, unsigned r,
                                                          topkit_fused_feed *feed) {
    topkit_fused_run *run = &s->runs[r % TOPKIT_FUSED_SLOTS];
    const int each = TOPKIT_FUSED_COLUMNS / HEADS, pieces = (job.tokens + each - 1) / each, items = pieces * job.splits;
    if (r >= 3) {
        const unsigned before = (r - 3) % TOPKIT_FUSED_SLOTS, failed = s->failed[before];
        if (failed) {
            topkit_fused_repeat_run(&s->runs[before], failed, run);
            feed->idle = 0;
            return;
        }
    }
    if (feed->next >= feed->end && !feed->dry) {
        const int item = r == 0 ? (int)blockIdx.x : topkit_queue_claim(job.out.queue, (int)gridDim.x);
        feed->dry = item >= items;
        if (!feed->dry) {
            feed->next = (pieces - 1 - item / job.splits) * each;
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
    for (int p = lane; p < columns * 8; p += 32)
        topkit_fused_copy_16(queries + topkit_fused_swizzle((unsigned)p >> 3, (unsigned)p & 7), from + p * 16);
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
    topkit_fused_feed feed = {0, 0, 0, 0, 0, 0, false};
    for (unsigned step = 0;; step++) {
        const topkit_fused_pass pass = topkit_fused_pass_of(step);
        const unsigned r = pass.run;
        topkit_fused_run *run = &s->runs[r % TOPKIT_FUSED_SLOTS];
        if (pass.sample) {
            if (r >= 3) topkit_signal_wait(&s->settled[(r - 3) % TOPKIT_FUSED_SLOTS], (r - 3) / TOPKIT_FUSED_SLOTS);
            if (r >= 2) topkit_signal_wait(&s->scanned[r & 1], (r - 2) / 2); /* its queries' half is free */
            if (lane == 0) topkit_fused_claim<HEADS>(job, s, r, &feed);
            __syncwarp();
            if (run->count > 0) topkit_fused_copy_queries<HEADS>(job, s, *run, queries, r & 1);
            __syncwarp();
            if (lane == 0) topkit_signal_arrive(&s->announced[r % TOPKIT_FUSED_SLOTS]);
            if (run->first == TOPKIT_FUSED_END) break;
        }
        topkit_fused_stream(job, s, ring, *run, pass.sample, &feed);
    }
    if (lane == 0) topkit_queue_leave(job.out.queue, (int)gridDim.x);
}
#endif

#endif
