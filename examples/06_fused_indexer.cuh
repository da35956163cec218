/* 06_fused_indexer.cuh: scores that never reach memory: FP8 query-key products on the tensor cores, with exact Top-K in their epilogue.
 *
 * One persistent block a multiprocessor takes runs of queries from a queue (fused_job.cuh) and streams their keys past them, once:
 *
 *     producer (1 warp)        [1] claims runs; copies queries, and key tiles into a ring of stages
 *     consumers (2 x 4 warps)  [2] products of a tile while the epilogue of the one before runs: ReLU, weights, sum over heads;
 *                              [4] in the scan pass, scores that reach their query's gate go to that query's candidates
 *     service (3 warps)        [3] proposes a gate for each query from its sample; [5] certifies, refines and delivers; compacts on demand
 *
 *       keys ==copies==> ring ==wgmma==> accumulators --epilogue--> scores --gate--> candidates --> service --> indices
 *                                                                     |                ^              |
 *                                                                     +---- sample ----|--- gates <---+
 *
 * Passes are interleaved so that nobody waits: sample of run 0, sample of 1, scan of 0, sample of 2, scan of 1, .. While run r is scanned,
 * the service proposes for run r + 1 and refines run r - 1. Queries, candidates and samples therefore exist twice.
 *
 * Candidates lie in the workspace (they stay in L2: a few thousand a query are written, once), their counters in shared memory. Consumers
 * never meet: a warp that finds a query's buffer full asks the service to compact it, waits for that query's gate to rise and offers its
 * scores again, while warps that need no room go on. Nothing is ever dropped, and a run whose gates were too high goes round once more.
 *
 *   heads         32 or 64, d = 128; k 1 .. 4096
 *   device        sm_90a (fused_product.cuh); elsewhere the kernel traps, and topkit_fused refuses
 *   shared        about 150 KB, one block a multiprocessor
 *   workspace     16 KB, 64 KB for each query in flight (two runs a block), and of split queries k pairs for each split
 *   reads         each key once a run, that is once for 256 / heads queries, and a sample of them once more
 *   determinism   as select.h: the set under lowest-index ties
 *
 * Keys come by 16-byte asynchronous copies of one warp, which writes the swizzle itself. That serves contiguous and paged keys, single
 * keys of a sample and ragged ends alike, needs no tensor map from the driver, and costs about 30 instructions a tile. A plain bulk copy
 * can not swizzle.
 */
#ifndef TOPKIT_06_FUSED_INDEXER_CUH
#define TOPKIT_06_FUSED_INDEXER_CUH

#include "fused_job.cuh"

#define TOPKIT_FUSED_TEAMS 2 /* warpgroups of consumers; tile n of the ring is team n mod 2's */
#define TOPKIT_FUSED_CONSUMER_WARPS (4 * TOPKIT_FUSED_TEAMS)
#define TOPKIT_FUSED_SERVICE_WARPS 3
#define TOPKIT_FUSED_THREADS ((TOPKIT_FUSED_CONSUMER_WARPS + 1 + TOPKIT_FUSED_SERVICE_WARPS) * 32)
#define TOPKIT_FUSED_STAGES 8
#define TOPKIT_FUSED_LAG 4 /* tiles under way before the producer waits for the oldest; see topkit_fused_produce */
#define TOPKIT_FUSED_SLOTS 4 /* runs that are announced and not settled */
/* At the kernel's entry each thread has 168 registers: 65536 / 384. */
#define TOPKIT_FUSED_CONSUMER_REGISTERS 200
#define TOPKIT_FUSED_SERVICE_REGISTERS 104

#define TOPKIT_FUSED_STAGE_BYTES (TOPKIT_FUSED_TILE * TOPKIT_FUSED_ROW)
#define TOPKIT_FUSED_QUERY_BYTES (TOPKIT_FUSED_COLUMNS * TOPKIT_FUSED_ROW)

static_assert(TOPKIT_FUSED_STAGES % TOPKIT_FUSED_TEAMS == 0, "a stage is one team's for ever: its uses are told apart by parity");
/* A team waits for its next tile before it gives the present one back, and the producer for a stage before it announces the latest LAG. */
static_assert(TOPKIT_FUSED_LAG + TOPKIT_FUSED_TEAMS < TOPKIT_FUSED_STAGES, "else producer and consumers could wait for each other");

typedef struct topkit_fused_storage {
    __align__(16) float weights[2][2][TOPKIT_FUSED_WEIGHTS]; /* by run and half of the columns */
    float scales[TOPKIT_FUSED_STAGES][TOPKIT_FUSED_TILE];
    topkit_refiner_storage refiner;
    topkit_fused_run runs[TOPKIT_FUSED_SLOTS];
    unsigned failed[TOPKIT_FUSED_SLOTS]; /* the verdict: queries of the run whose gate was too high */
    /* By run and query: */
    unsigned long long gate[2][TOPKIT_FUSED_QUERIES]; /* key and bound */
    topkit_collector_state collected[2][TOPKIT_FUSED_QUERIES];
    unsigned committed[2][TOPKIT_FUSED_QUERIES]; /* candidates that have been written */
    unsigned epoch[2][TOPKIT_FUSED_QUERIES];     /* compactions, as those see them who wait for one */
    unsigned asked;                              /* compactions asked for: bit b * 8 + q */
    unsigned event;                              /* of the service: what its thread 0 has seen */
    topkit_signal full[TOPKIT_FUSED_STAGES], empty[TOPKIT_FUSED_STAGES];
    topkit_signal announced[TOPKIT_FUSED_SLOTS], settled[TOPKIT_FUSED_SLOTS];
    topkit_signal sampled[2], ready[2], scanned[2];
} topkit_fused_storage;

/* Dynamic shared memory: the ring, the queries of two runs, the rest. */
#define TOPKIT_FUSED_SHARED (TOPKIT_FUSED_STAGES * TOPKIT_FUSED_STAGE_BYTES + 2 * TOPKIT_FUSED_QUERY_BYTES + sizeof(topkit_fused_storage))

/* Step 0, 1, 2, .. of every role: sample of run 0, then by turns the sample of run m + 1 and the scan of run m. */
typedef struct topkit_fused_pass {
    unsigned run;
    bool sample;
} topkit_fused_pass;
TOPKIT_JOB_FN topkit_fused_pass topkit_fused_pass_of(unsigned step) {
    topkit_fused_pass p = {step / 2, true};
    if (step & 1) p.run++;
    else if (step > 0) p = {step / 2 - 1, false};
    return p;
}

#if TOPKIT_HAS_WGMMA
/* ---- [1] the producer ---------------------------------------------------------------------------------------------------------------- */

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

/* ---- [2] [4] the consumers ----------------------------------------------------------------------------------------------------------- */

/* Offers a score of each lane where `pending` to its query's candidates, until each is in or refused by a gate that has risen meanwhile.
 * The whole warp; every lane names the query of its own scores. */
template <int HEADS>
static __device__ __forceinline__ void topkit_fused_offer(topkit_fused_storage *s, unsigned b, int q, topkit_collector c, bool pending,
                                                          float score, int index, float *gate_value) {
    const topkit_group warp = topkit_group_warp();
    const unsigned mates = topkit_fused_mates<HEADS>(topkit_lane(warp)), bits = __float_as_uint(score);
    const bool leader = (int)topkit_lane(warp) == __ffs((int)mates) - 1;
    do {
        const unsigned seen = topkit_peek(&s->epoch[b][q]); /* before the gate and the attempt: no compaction can be missed */
        const unsigned long long word = topkit_peek_pair(&s->gate[b][q]);
        const topkit_gate gate = topkit_gate_at((unsigned)(word >> 32), (int)(unsigned)word);
        *gate_value = gate.value;
        pending = pending && topkit_gate_admits(gate, bits, index);
        const int stored = topkit_collect_lanes(warp, c, mates, pending, bits, index);
        __syncwarp(); /* the leader speaks for its mates' stores */
        if (leader && stored > 0) {
            topkit_fence_block();
            atomicAdd(&s->committed[b][q], (unsigned)stored);
        }
        if (stored >= 0) pending = false;
        else if (leader) atomicOr(&s->asked, 1u << (b * TOPKIT_FUSED_QUERIES + (unsigned)q));
        while (pending && topkit_peek(&s->epoch[b][q]) == seen) topkit_relax();
    } while (__any_sync(TOPKIT_FULL_MASK, pending));
}

/* What a lane needs to know of the query that its scores of one half of the columns belong to. */
typedef struct topkit_fused_mine {
    int q, start, length;
    float gate_value;
} topkit_fused_mine;

/* Scores of one half of a tile: to the sample, to the matrix, or past the gate. */
template <int HEADS>
static __device__ __forceinline__ void topkit_fused_use(const topkit_fused_job &job, topkit_fused_storage *s, const topkit_fused_run &run,
                                                        topkit_fused_pass pass, unsigned half, const float (&d)[TOPKIT_FUSED_SUMS],
                                                        const int (&position)[64 / HEADS], const float (&scale)[64 / HEADS], int slot,
                                                        topkit_fused_mine *mine) {
    const unsigned lane = threadIdx.x & 31, b = pass.run & 1;
    const int each = TOPKIT_FUSED_COLUMNS / HEADS;
    const topkit_fused_scores_of<HEADS> sums = topkit_fused_sum<HEADS>(lane, d, s->weights[b][half]);
#pragma unroll
    for (int i = 0; i < 64 / HEADS; i++) {
        const float score = sums.score[i] * scale[i];
        const int index = position[i] - mine->start;
        const bool inside = (unsigned)index < (unsigned)mine->length;
        if (!pass.sample) {
            const bool hit = inside && topkit_not_lt(score, mine->gate_value); /* a NaN comes through here and meets the exact compare */
            if (__any_sync(TOPKIT_FULL_MASK, hit)) {
                const topkit_collector c = {topkit_fused_items(job, each, b, mine->q), job.out.capacity, nullptr,
                                            &s->collected[b][mine->q]};
                topkit_fused_offer<HEADS>(s, b, mine->q, c, hit, score, index, &mine->gate_value);
            }
        } else if (job.matrix) {
            if (inside) job.matrix[(run.first + mine->q) * job.matrix_stride + index] = score;
        } else if (mine->q < run.count) {
            topkit_fused_sample(job, each, b, mine->q)[slot + topkit_fused_row<HEADS>(threadIdx.x >> 5 & 3, lane, i)] =
                inside ? score : __uint_as_float(0xff800000u);
        }
    }
}

/* One team's tiles of a pass: `n`, n + 2, .. of `tiles`; tile 0 is number `begin` of the ring's. While the accumulators of one half go
 * through the epilogue, the tensor cores fill those of the other. */
template <int HEADS>
static __device__ __forceinline__ void topkit_fused_consume(const topkit_fused_job &job, topkit_fused_storage *s, const unsigned char *ring,
                                                            const unsigned char *queries, const topkit_fused_run &run,
                                                            topkit_fused_pass pass, unsigned begin, int n, int tiles) {
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3, b = pass.run & 1;
    const int stride = topkit_fused_stride(run, pass.sample), each = TOPKIT_FUSED_COLUMNS / HEADS;
    const int first = topkit_fused_first(run, pass.sample, 0), step = pass.sample ? 0 : run.step;
    const unsigned char *left = queries + b * TOPKIT_FUSED_QUERY_BYTES, *right = left + TOPKIT_FUSED_HALF * TOPKIT_FUSED_ROW;
    topkit_fused_mine mine[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        mine[h].q = h * (each / 2) + topkit_fused_query<HEADS>(lane);
        const bool there = mine[h].q < run.count;
        mine[h].start = there ? run.start[mine[h].q] : 0;
        mine[h].length = there ? run.length[mine[h].q] : 0;
        const unsigned long long word = topkit_peek_pair(&s->gate[b][mine[h].q]);
        mine[h].gate_value = topkit_gate_at((unsigned)(word >> 32), (int)(unsigned)word).value;
    }
    float d0[TOPKIT_FUSED_SUMS], d1[TOPKIT_FUSED_SUMS];
#pragma unroll
    for (int i = 0; i < TOPKIT_FUSED_SUMS; i++) d0[i] = d1[i] = 0.0f;

    unsigned stage = (begin + (unsigned)n) % TOPKIT_FUSED_STAGES;
    topkit_signal_wait(&s->full[stage], (begin + (unsigned)n) / TOPKIT_FUSED_STAGES);
    topkit_fused_product_begin(d0, ring + stage * TOPKIT_FUSED_STAGE_BYTES, left);
    for (;;) {
        const int tile = step == 0 ? n : topkit_fused_tile(run, n), slot = n * TOPKIT_FUSED_TILE;
        int position[64 / HEADS];
        float scale[64 / HEADS];
#pragma unroll
        for (int i = 0; i < 64 / HEADS; i++) { /* now: once both products are done the stage is given back */
            const int row = topkit_fused_row<HEADS>(warp, lane, i);
            position[i] = first + (tile * TOPKIT_FUSED_TILE + row) * stride;
            scale[i] = s->scales[stage][row];
        }
        topkit_fused_product_wait(d0);
        topkit_fused_product_begin(d1, ring + stage * TOPKIT_FUSED_STAGE_BYTES, right);
        topkit_fused_use<HEADS>(job, s, run, pass, 0, d0, position, scale, slot, &mine[0]);

        const int next = n + TOPKIT_FUSED_TEAMS;
        const bool more = next < tiles; /* else the product of this tile is made once more, and not looked at */
        const unsigned number = begin + (unsigned)(more ? next : n), after = number % TOPKIT_FUSED_STAGES;
        if (more) topkit_signal_wait(&s->full[after], number / TOPKIT_FUSED_STAGES);
        topkit_fused_product_wait(d1);
        topkit_fused_product_begin(d0, ring + after * TOPKIT_FUSED_STAGE_BYTES, left);
        __syncwarp();
        if (more && lane == 0) topkit_signal_arrive(&s->empty[stage]);
        topkit_fused_use<HEADS>(job, s, run, pass, 1, d1, position, scale, slot, &mine[1]);
        if (!more) break;
        n = next;
        stage = after;
    }
    topkit_fused_product_wait(d0);
    __syncwarp();
    if (lane == 0) topkit_signal_arrive(&s->empty[stage]);
}

template <int HEADS>
static __device__ __forceinline__ void topkit_fused_consumers(const topkit_fused_job &job, topkit_fused_storage *s,
                                                              const unsigned char *ring, const unsigned char *queries) {
    const unsigned lane = threadIdx.x & 31;
    /* From lane 0, like the number of tiles below: the compiler then knows that they, and what follows from them, are the warp's. */
    const unsigned team = __shfl_sync(TOPKIT_FULL_MASK, threadIdx.x / 128, 0);
    unsigned begin = 0; /* the pass's first tile, counted over all passes */
    for (unsigned step = 0;; step++) {
        const topkit_fused_pass pass = topkit_fused_pass_of(step);
        const unsigned r = pass.run;
        if (pass.sample) topkit_signal_wait(&s->announced[r % TOPKIT_FUSED_SLOTS], r / TOPKIT_FUSED_SLOTS);
        else topkit_signal_wait(&s->ready[r & 1], r / 2);
        const topkit_fused_run &run = s->runs[r % TOPKIT_FUSED_SLOTS];
        if (run.first == TOPKIT_FUSED_END) return;
        const int tiles = __shfl_sync(TOPKIT_FULL_MASK, pass.sample ? run.samples : run.tiles, 0);
        const int mine = (int)((TOPKIT_FUSED_TEAMS + team - begin % TOPKIT_FUSED_TEAMS) % TOPKIT_FUSED_TEAMS);
        if (mine < tiles) topkit_fused_consume<HEADS>(job, s, ring, queries, run, pass, begin, mine, tiles);
        begin += (unsigned)tiles;
        __syncwarp();
        if (lane == 0) topkit_signal_arrive(pass.sample ? &s->sampled[r & 1] : &s->scanned[r & 1]);
    }
}

/* ---- [3] [5] the service ------------------------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ topkit_group topkit_fused_service(void) {
    return topkit_group_warps(TOPKIT_FUSED_CONSUMER_WARPS + 1, TOPKIT_FUSED_SERVICE_WARPS, 1);
}

/* Thread 0's number, to the whole service. */
static __device__ __forceinline__ unsigned topkit_fused_share(topkit_group g, topkit_fused_storage *s, unsigned number) {
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
    held = topkit_fused_share(g, s, held);
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
        asked = topkit_fused_share(g, s, asked);
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
    base = topkit_fused_share(g, s, base);
    for (int i = (int)g.thread; i < held; i += (int)g.size) merged[base + (unsigned)i] = items[i];
    topkit_group_sync(g);
    if (g.thread == 0) {
        __threadfence(); /* the whole service's stores, which the barrier ordered before it */
        arrived = topkit_add_acq_rel(&merge->arrived, 1u);
    }
    arrived = topkit_fused_share(g, s, arrived);
    if (arrived != (unsigned)job.splits - 1) return false;
    unsigned all = 0;
    if (g.thread == 0) {
        all = atomicExch(&merge->held, 0u); /* for the next launch */
        atomicExch(&merge->arrived, 0u);
    }
    *total = (int)topkit_fused_share(g, s, all);
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
        else if (answers && enough) topkit_job_deliver<TIES>(g, job.out, t, row, items, held, &s->refiner);
        if (answers && !enough) failed |= 1u << q;
        if (g.thread == 0) topkit_job_count(job.out, row, answers && enough, collected, answers && !enough, c.state);
    }
    return failed;
}

template <int TIES, int HEADS>
static __device__ __forceinline__ void topkit_fused_serve(const topkit_fused_job &job, topkit_fused_storage *s) {
    const topkit_group g = topkit_fused_service();
    for (unsigned step = 0;; step++) {
        const topkit_fused_pass pass = topkit_fused_pass_of(step);
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
    }
}
#endif

template <int TIES, int HEADS>
static __global__ void __launch_bounds__(TOPKIT_FUSED_THREADS, 1) topkit_fused_kernel(const __grid_constant__ topkit_fused_job job) {
#if TOPKIT_HAS_WGMMA
    TOPKIT_SHARED(memory);
    unsigned char *ring = memory, *queries = ring + TOPKIT_FUSED_STAGES * TOPKIT_FUSED_STAGE_BYTES;
    topkit_fused_storage *s = (topkit_fused_storage *)(queries + 2 * TOPKIT_FUSED_QUERY_BYTES);
    const topkit_group block = topkit_group_block();
    topkit_refiner_init(block, &s->refiner);
    for (unsigned i = block.thread; i < TOPKIT_FUSED_STAGES * TOPKIT_FUSED_TILE; i += block.size) (&s->scales[0][0])[i] = 1.0f;
    for (unsigned i = block.thread; i < 2 * TOPKIT_FUSED_QUERIES; i += block.size) {
        (&s->gate[0][0])[i] = 0;
        (&s->epoch[0][0])[i] = 0;
        s->collected[i / TOPKIT_FUSED_QUERIES][i % TOPKIT_FUSED_QUERIES].dropped = 0;
        s->collected[i / TOPKIT_FUSED_QUERIES][i % TOPKIT_FUSED_QUERIES].compactions = 0;
    }
    if (block.thread == 0) {
        s->asked = 0;
        for (int i = 0; i < TOPKIT_FUSED_STAGES; i++) {
            topkit_signal_init(&s->full[i], 1);
            topkit_signal_init(&s->empty[i], TOPKIT_FUSED_CONSUMER_WARPS / TOPKIT_FUSED_TEAMS);
        }
        for (int i = 0; i < TOPKIT_FUSED_SLOTS; i++) {
            topkit_signal_init(&s->announced[i], 1);
            topkit_signal_init(&s->settled[i], 1);
        }
        for (int b = 0; b < 2; b++) {
            topkit_signal_init(&s->sampled[b], TOPKIT_FUSED_CONSUMER_WARPS);
            topkit_signal_init(&s->ready[b], 1);
            topkit_signal_init(&s->scanned[b], TOPKIT_FUSED_CONSUMER_WARPS);
        }
    }
    topkit_group_sync(block);
    const unsigned warp = topkit_warp_rank(block);
    if (warp < TOPKIT_FUSED_CONSUMER_WARPS) {
        topkit_fused_more_registers<TOPKIT_FUSED_CONSUMER_REGISTERS>();
        topkit_fused_consumers<HEADS>(job, s, ring, queries);
    } else {
        topkit_fused_fewer_registers<TOPKIT_FUSED_SERVICE_REGISTERS>();
        if (warp == TOPKIT_FUSED_CONSUMER_WARPS) topkit_fused_produce<HEADS>(job, s, ring, queries);
        else topkit_fused_serve<TIES, HEADS>(job, s);
    }
#else
    __trap(); /* compiled for another device; topkit_fused does not get here */
#endif
}

#endif
