/* 02_pipelined_select.cuh: exact Top-K for many long rows: the steps of 01_row_select.cuh, each by warps of its own, so that memory never
 * waits.
 *
 * One persistent block a multiprocessor, four kinds of warps:
 *
 *     producer (1 warp)    [1] claims rows; its copies fill a ring of stages with the scores, row after row without a gap
 *     proposer (4 warps)   [2] [3] samples the next row and proposes its threshold while the present one is scanned
 *     scan (12 warps)      [4] compares the row in the ring with its gate; what passes goes to one of two candidate buffers
 *     refiner (12 warps)   [5] [6] [7] certifies, refines and delivers the row before
 *
 *          memory ==copies==> ring ==tiles==> scan --candidates--> buffer 0 or 1 --> refiner --> indices
 *             ^                                 ^                                    |    |
 *          producer --row--> proposer --gate----|------------------------------------+    |
 *             ^                                 +----------- buffer ready ----------------+
 *             +---------------- rows to repeat ------------------------------------------+
 *
 * The producer runs ahead of the scan by the whole ring, also into the next row: a load needs no threshold. Rows that have nothing
 * to scan (at most k scores) are copied by the proposer.
 *
 * The proposer takes its samples in narrow vectors, which move more sectors of memory, until it has seen that they do not crowd together.
 *
 * A buffer that fills up is compacted by the scan warps themselves. A row whose gate was too high goes round once more, between other rows,
 * with an open gate and its chunks shuffled: nobody waits for it.
 *
 *   k             1 .. 4096 (plan.c); the buffers are meant for 2048
 *   shared        227 KB, one block a multiprocessor; compute capability 9.0 (bulk copies)
 *   workspace     1 KB + 4 bytes a row, zeroed once
 *   reads         the row once; the sample's sectors stay in L2 until the stream comes by (docs/performance.md)
 */
#ifndef TOPKIT_02_PIPELINED_SELECT_CUH
#define TOPKIT_02_PIPELINED_SELECT_CUH

#include "select_job.cuh"

#define TOPKIT_PIPELINED_CAPACITY 5632
#define TOPKIT_PIPELINED_SCAN_WARPS 12
#define TOPKIT_PIPELINED_REFINER_WARPS 12
#define TOPKIT_PIPELINED_PROPOSER_WARPS 4
#define TOPKIT_PIPELINED_THREADS ((TOPKIT_PIPELINED_SCAN_WARPS + TOPKIT_PIPELINED_REFINER_WARPS + TOPKIT_PIPELINED_PROPOSER_WARPS + 1) * 32)
#define TOPKIT_PIPELINED_STAGES 4
#define TOPKIT_PIPELINED_CHUNK 6144 /* scores a stage: 24 KB copies; 16 KB ones cost 2 to 5 % */
#define TOPKIT_PIPELINED_SHARE 1024 /* scores of a stage that a warp appends at once: two tiles for one vote, one scan and one atomic */
#define TOPKIT_PIPELINED_READERS (TOPKIT_PIPELINED_CHUNK / TOPKIT_PIPELINED_SHARE)
#define TOPKIT_PIPELINED_TEAMS (TOPKIT_PIPELINED_SCAN_WARPS / TOPKIT_PIPELINED_READERS) /* stages being scanned at a time */
#define TOPKIT_PIPELINED_AHEAD 16    /* chunks before a row's end at which the next one is claimed */
#define TOPKIT_PIPELINED_SAMPLE 4096 /* scores of a sample at most */
#define TOPKIT_PIPELINED_NARROW 4    /* scores of a vector of it until the samples were seen not to crowd */
#define TOPKIT_PIPELINED_VERDICTS 16 /* more than passes can be under way: 4 claimed, 4 gated, and those that proposer and refiner hold */

typedef struct topkit_pipelined_row {
    topkit_row row;
    int r;          /* -1: no more rows */
    unsigned visit; /* TOPKIT_ASCENDING, or of a repeated row the salt of the order in which its chunks are streamed */
} topkit_pipelined_row;

/* A row with its gate: what the proposer tells the refiner, and the refiner the scan. */
typedef struct topkit_pipelined_pass {
    topkit_gate gate;
    unsigned maximum; /* the largest sample's key */
    topkit_pipelined_row at;
} topkit_pipelined_pass;

typedef struct topkit_pipelined_storage {
    topkit_refiner_storage refine, compact; /* of the refiner and of the scan warps */
    topkit_digit_storage propose;
    topkit_collector_state collected[2]; /* of buffer 0 and 1 */
    topkit_pipelined_row claimed[4];     /* producer to proposer */
    topkit_pipelined_pass gated[4];      /* proposer to refiner */
    topkit_pipelined_pass present[2];    /* refiner to scan, by buffer */
    topkit_signal claim_full[4], claim_empty[4], gate_full[4], gate_empty[4];
    topkit_signal stage_full[TOPKIT_PIPELINED_STAGES], stage_empty[TOPKIT_PIPELINED_STAGES];
    topkit_signal ready[2], scanned[2];               /* of buffer 0 and 1 */
    topkit_signal settled[TOPKIT_PIPELINED_VERDICTS]; /* by turns of the passes: the refiner has a verdict */
    int repeat[TOPKIT_PIPELINED_VERDICTS];            /* the verdict: the row to stream once more, or -1 */
    int builds;
} topkit_pipelined_storage;

/* Dynamic shared memory: the ring, two candidate buffers, the sample, the stage of a row's edge, the rest. */
#define TOPKIT_PIPELINED_STAGE_BYTES (TOPKIT_PIPELINED_CHUNK * 4)
#define TOPKIT_PIPELINED_RING (TOPKIT_PIPELINED_STAGES * TOPKIT_PIPELINED_STAGE_BYTES)
#define TOPKIT_PIPELINED_ITEMS (TOPKIT_PIPELINED_CAPACITY * 8)
#define TOPKIT_PIPELINED_SCRATCH ((TOPKIT_PIPELINED_SAMPLE + TOPKIT_TILE) * 4)

/* Each stage is one team's for ever. A warp that saw only every other use of a stage could mistake one for the next but one: parities. */
static_assert(TOPKIT_PIPELINED_STAGES % TOPKIT_PIPELINED_TEAMS == 0, "stages are dealt out to the teams");

static __device__ __forceinline__ int topkit_pipelined_chunks(topkit_tiles tiles) {
    const int vectors = TOPKIT_PIPELINED_CHUNK / 4;
    return (tiles.vectors + vectors - 1) / vectors;
}

#if TOPKIT_HAS_BULK_COPY
/* A chunk's place in the ring: chunks are counted over all rows of the block. */
typedef struct topkit_pipelined_place {
    unsigned stage, use;
} topkit_pipelined_place;
static __device__ __forceinline__ topkit_pipelined_place topkit_pipelined_at(unsigned chunk) {
    topkit_pipelined_place at = {chunk % TOPKIT_PIPELINED_STAGES, chunk / TOPKIT_PIPELINED_STAGES};
    return at;
}

/* What the producer knows between two rows. */
typedef struct topkit_pipelined_feed {
    unsigned announced, passes, settled; /* rows announced; those of them that are streamed; passes whose verdict was read */
    bool ordered, dry;                   /* an order is in use; the queue has no more rows */
} topkit_pipelined_feed;

#define TOPKIT_PIPELINED_END (-1)
#define TOPKIT_PIPELINED_UNKNOWN (-2) /* announced as such, it asks the refiner to settle what it has: no row will come before that */

/* The next row: one that has to be repeated, or the queue's next, or the end once the queue is dry and every pass is settled. With `waits`
 * unset it may also be unknown yet: the present row must be streamed to its end before its own verdict can be waited for. */
static __device__ topkit_pipelined_row topkit_pipelined_claim(const topkit_select_job &job, topkit_pipelined_storage *s,
                                                              topkit_pipelined_feed *feed, bool waits) {
    const int workers = (int)gridDim.x;
    topkit_pipelined_row next = {{job.scores, 0}, TOPKIT_PIPELINED_END, 0};
    for (;;) {
        while (feed->settled < feed->passes) {
            topkit_signal *settled = &s->settled[feed->settled % TOPKIT_PIPELINED_VERDICTS];
            if (feed->dry && waits) topkit_signal_wait(settled, feed->settled / TOPKIT_PIPELINED_VERDICTS);
            else if (!topkit_signal_test(settled, feed->settled / TOPKIT_PIPELINED_VERDICTS)) break;
            next.r = s->repeat[feed->settled++ % TOPKIT_PIPELINED_VERDICTS];
            if (next.r >= 0) {
                next.row = topkit_job_row(job, next.r);
                next.visit = topkit_job_visit(job, next.r);
                return next;
            }
        }
        if (feed->dry) {
            next.r = feed->settled < feed->passes ? TOPKIT_PIPELINED_UNKNOWN : TOPKIT_PIPELINED_END;
            return next;
        }
        int r = (int)blockIdx.x;
        if (feed->announced > 0) {
            r = topkit_queue_claim(job.queue, workers);
            if (feed->ordered && r < job.rows) {
                topkit_order_wait(job.queue);
                r = job.row_order[r - workers];
            }
        }
        if (r < job.rows) {
            next.r = r;
            next.row = topkit_job_row(job, r);
            return next;
        }
        feed->dry = true;
    }
}

static __device__ void topkit_pipelined_tell(topkit_pipelined_storage *s, topkit_pipelined_feed *feed, topkit_pipelined_row row) {
    const unsigned slot = feed->announced % 4;
    if (feed->announced >= 4) topkit_signal_wait(&s->claim_empty[slot], feed->announced / 4 - 1);
    s->claimed[slot] = row;
    topkit_signal_arrive(&s->claim_full[slot]);
    feed->announced++;
}

/* [1] One thread: hands the next row to the proposer, where it is known. */
static __device__ topkit_pipelined_row topkit_pipelined_announce(const topkit_select_job &job, topkit_pipelined_storage *s,
                                                                 topkit_pipelined_feed *feed, bool waits) {
    topkit_pipelined_row row = topkit_pipelined_claim(job, s, feed, false);
    if (row.r == TOPKIT_PIPELINED_UNKNOWN) {
        if (!waits) return row;
        topkit_pipelined_tell(s, feed, row);
        row = topkit_pipelined_claim(job, s, feed, true);
    }
    if (row.r >= 0 && !topkit_job_copies(job, row.row)) feed->passes++;
    topkit_pipelined_tell(s, feed, row);
    return row;
}

/* [1] One thread: streams row after row through the ring. A row's successor is announced in time for its sample, and not sooner, so that
 * no block sits on a row that another could begin. */
static __device__ void topkit_pipelined_produce(const topkit_select_job &job, topkit_pipelined_storage *s, unsigned char *ring,
                                                bool ordered) {
    topkit_pipelined_feed feed = {0, 0, 0, ordered, false};
    unsigned sent = 0;
    topkit_pipelined_row next = topkit_pipelined_announce(job, s, &feed, true);
    while (next.r >= 0) {
        const topkit_tiles tiles = topkit_row_tiles(next.row);
        const int chunks = topkit_job_copies(job, next.row) ? 0 : topkit_pipelined_chunks(tiles);
        const unsigned visit = next.visit;
        const float *body = tiles.scores + tiles.head;
        next.r = TOPKIT_PIPELINED_UNKNOWN;
        for (int c = 0; c < chunks || next.r == TOPKIT_PIPELINED_UNKNOWN; c++) {
            if (next.r == TOPKIT_PIPELINED_UNKNOWN && chunks - c <= TOPKIT_PIPELINED_AHEAD)
                next = topkit_pipelined_announce(job, s, &feed, c >= chunks);
            if (c < chunks) {
                const topkit_pipelined_place at = topkit_pipelined_at(sent++);
                const int chunk = topkit_visit(c, chunks, visit);
                const long long left = (long long)tiles.vectors * 16 - (long long)chunk * TOPKIT_PIPELINED_STAGE_BYTES;
                const unsigned bytes = (unsigned)(left < TOPKIT_PIPELINED_STAGE_BYTES ? left : TOPKIT_PIPELINED_STAGE_BYTES);
                if (at.use > 0) topkit_signal_wait(&s->stage_empty[at.stage], at.use - 1);
                topkit_mbarrier_arrive_expect(&s->stage_full[at.stage].bits, bytes);
                topkit_bulk_copy(ring + at.stage * TOPKIT_PIPELINED_STAGE_BYTES, body + (long long)chunk * TOPKIT_PIPELINED_CHUNK, bytes,
                                 &s->stage_full[at.stage].bits);
            }
        }
    }
}

static __device__ __forceinline__ topkit_collector topkit_pipelined_buffer(topkit_pipelined_storage *s, topkit_candidate *items,
                                                                           float *stage, unsigned b) {
    topkit_collector c = {items + b * TOPKIT_PIPELINED_CAPACITY, TOPKIT_PIPELINED_CAPACITY, stage, &s->collected[b]};
    return c;
}

/* Waits for a stage. False: the buffer is full and the other scan warps wait for this one to compact; a warp that only waited for its
 * stage would wait for ever, since the stages that they hold are what the producer waits for. */
static __device__ __forceinline__ bool topkit_pipelined_wait(topkit_signal *full, unsigned use, topkit_collector c) {
    /* By vote: lanes of a warp may see the stage, or the count, at different times, and must not part over it. */
    while (!__all_sync(TOPKIT_FULL_MASK, topkit_signal_test_for(full, use, 500))) {
        if (__any_sync(TOPKIT_FULL_MASK, topkit_peek(&c.state->count) > (unsigned)c.capacity)) return false;
        topkit_relax();
    }
    return true;
}

/* [4] The scan warps. */
template <int TIES>
static __device__ __forceinline__ void topkit_pipelined_scan(const topkit_select_job &job, topkit_pipelined_storage *s, unsigned char *ring,
                                                             topkit_candidate *items) {
    const topkit_group scan = topkit_group_warps(0, TOPKIT_PIPELINED_SCAN_WARPS, 1);
    const unsigned lane = topkit_lane(scan);
    const unsigned team = topkit_warp_rank(scan) / TOPKIT_PIPELINED_READERS, reader = topkit_warp_rank(scan) % TOPKIT_PIPELINED_READERS;
    unsigned begin = 0; /* the row's first chunk */
    for (unsigned pass = 0;; pass++) {
        const unsigned b = pass & 1;
        topkit_signal_wait(&s->ready[b], pass / 2);
        if (s->present[b].at.r == TOPKIT_PIPELINED_END) return;
        const topkit_tiles tiles = topkit_row_tiles(s->present[b].at.row);
        const topkit_collector c = topkit_pipelined_buffer(s, items, nullptr, b); /* the stage is the ring's own */
        const int chunks = topkit_pipelined_chunks(tiles);
        const unsigned end = begin + (unsigned)chunks;
        topkit_gate gate = s->present[b].gate;
        unsigned chunk = begin + (TOPKIT_PIPELINED_TEAMS + team - begin % TOPKIT_PIPELINED_TEAMS) % TOPKIT_PIPELINED_TEAMS;
        for (;;) {
            for (; chunk < end; chunk += TOPKIT_PIPELINED_TEAMS) {
                const topkit_pipelined_place at = topkit_pipelined_at(chunk);
                if (!topkit_pipelined_wait(&s->stage_full[at.stage], at.use, c)) break;
                const float *share = (const float *)(ring + at.stage * TOPKIT_PIPELINED_STAGE_BYTES) + reader * TOPKIT_PIPELINED_SHARE;
                const int visited = topkit_visit((int)(chunk - begin), chunks, s->present[b].at.visit);
                const int first = visited * TOPKIT_PIPELINED_CHUNK + (int)reader * TOPKIT_PIPELINED_SHARE;
                unsigned mask = 0;
#pragma unroll
                for (int t = 0; t < TOPKIT_PIPELINED_SHARE / TOPKIT_TILE; t++) {
                    topkit_tile tile;
                    topkit_tile_load_from((const float4 *)(share + t * TOPKIT_TILE), tiles.vectors - (first + t * TOPKIT_TILE) / 4,
                                          tiles.head + first + t * TOPKIT_TILE, false, lane, &tile);
                    mask |= topkit_gate_mask<TIES>(scan, gate, &tile) << (16 * t);
                }
                if (__any_sync(TOPKIT_FULL_MASK, mask != 0) && !topkit_collect_staged(scan, c, share, tiles.head + first, mask)) break;
                __syncwarp(); /* all lanes have read the stage */
                if (lane == 0) topkit_signal_arrive(&s->stage_empty[at.stage]);
            }
            topkit_group_sync(scan);
            if (!topkit_collector_overflowed(c)) break;
            gate = topkit_compact<TIES>(scan, c, job.k, &s->compact);
        }
        __syncwarp(); /* all lanes have read the count, which the refiner may clear from here on */
        if (lane == 0) topkit_signal_arrive(&s->scanned[b]);
        begin = end;
    }
}

/* [2] [3] The proposer warps: a gate for each row; rows that are their own answer are copied here. */
static __device__ __forceinline__ void topkit_pipelined_propose(const topkit_select_job &job, topkit_pipelined_storage *s, float *sample,
                                                                bool ordered) {
    const topkit_group proposer =
        topkit_group_warps(TOPKIT_PIPELINED_SCAN_WARPS + TOPKIT_PIPELINED_REFINER_WARPS, TOPKIT_PIPELINED_PROPOSER_WARPS, 3);
    unsigned told = 0;
    int width = TOPKIT_PIPELINED_NARROW; /* scores of neighbours may be alike in this batch: the first row tells */
    bool crowded = true, looks = true;
    if (ordered) {
        if (proposer.thread == 0) s->builds = topkit_order_begin(job.queue);
        topkit_group_sync(proposer);
        if (s->builds) topkit_job_order(proposer, job, &s->propose);
    }
    for (unsigned taken = 0;; taken++) {
        topkit_signal_wait(&s->claim_full[taken % 4], taken / 4);
        const topkit_pipelined_row at = s->claimed[taken % 4];
        topkit_group_sync(proposer);
        if (proposer.thread == 0) topkit_signal_arrive(&s->claim_empty[taken % 4]);
        if (at.r >= 0 && topkit_job_copies(job, at.row)) {
            topkit_sink_identity(proposer.thread, proposer.size, at.row.scores, at.row.length, job.k, topkit_job_sink(job, at.r));
            continue;
        }
        topkit_gate gate = topkit_gate_open();
        unsigned maximum = 0;
        topkit_sampling sampling = {sample, 0, 0, 0, 0};
        if (at.r >= 0 && at.visit == TOPKIT_ASCENDING && topkit_job_samples(job, at.row)) { /* a repeated row is collected whole */
            sampling = topkit_job_sampling(job, width, at.row, at.r, TOPKIT_PIPELINED_SAMPLE);
            topkit_sample_async(proposer, sampling, sample);
            topkit_copy_async_wait();
            topkit_group_sync(proposer);
            const int count = topkit_sample_count(sampling), rank = topkit_job_rank(job, job.capacity, at.row.length, count, crowded);
            const topkit_proposal p = topkit_propose_from_sample(proposer, sample, count, rank, 0, &s->propose);
            gate = topkit_gate_at(p.key, TOPKIT_INDEX_LIMIT);
            maximum = p.maximum;
        }
        if (proposer.thread == 0) {
            if (told >= 4) topkit_signal_wait(&s->gate_empty[told % 4], told / 4 - 1);
            s->gated[told % 4].gate = gate;
            s->gated[told % 4].maximum = maximum;
            s->gated[told % 4].at = at;
            topkit_signal_arrive(&s->gate_full[told % 4]);
        }
        told++;
        if (sampling.vectors > 0 && looks) { /* now that nobody waits; whoever has seen them crowd stays with that */
            crowded = topkit_sample_crowds(proposer, sample, topkit_sample_count(sampling), width, gate.key, &s->propose);
            width = crowded ? TOPKIT_PIPELINED_NARROW : job.width;
            looks = !crowded;
        }
        if (at.r == TOPKIT_PIPELINED_END) break;
    }
    /* Here and not in the producer: a block whose producer is done may not even have asked yet who builds the order. */
    if (proposer.thread == 0) topkit_queue_leave(job.queue, (int)gridDim.x);
}

/* The empty buffer gets the edge of its row, which no copy brings, and the scan may begin. */
template <int TIES>
static __device__ __forceinline__ void topkit_pipelined_open(topkit_group refiner, topkit_pipelined_storage *s, topkit_pipelined_pass pass,
                                                             topkit_collector c, unsigned b) {
    if (refiner.thread == 0) {
        s->present[b] = pass;
        topkit_collector_clear(c);
    }
    if (pass.at.r >= 0 && topkit_warp_rank(refiner) == 0) {
        const topkit_tiles tiles = topkit_row_tiles(pass.at.row);
        if (topkit_tiles_have_edge(tiles)) {
            topkit_tile edge;
            __syncwarp();
            topkit_tile_load_edge(tiles, topkit_lane(refiner), &edge);
            topkit_collect_tile<TIES>(refiner, c, pass.gate, &edge);
        }
    }
    topkit_group_sync(refiner);
    if (refiner.thread == 0) topkit_signal_arrive(&s->ready[b]);
}

/* [5] [6] [7] The verdict on a pass: -1, or the row that has to go round again. */
template <int TIES>
static __device__ __forceinline__ int topkit_pipelined_finish(topkit_group refiner, const topkit_select_job &job,
                                                              topkit_pipelined_storage *s, topkit_pipelined_row at, topkit_bounds known,
                                                              topkit_collector c) {
    const int wanted = at.row.length < job.k ? at.row.length : job.k, held = topkit_collector_held(c);
    if (held >= wanted) topkit_job_deliver<TIES>(refiner, job, at.r, at.row, c.items, held, known, &s->refine);
    if (refiner.thread == 0) topkit_job_count(job, at.row, held >= wanted, held, held < wanted, c.state);
    return held >= wanted ? -1 : at.r;
}

/* [5] [6] [7] The refiner warps: opens a buffer for the next row, then finishes the row in the other one. */
template <int TIES>
static __device__ __forceinline__ void topkit_pipelined_refine(const topkit_select_job &job, topkit_pipelined_storage *s,
                                                               topkit_candidate *items, float *edge) {
    const topkit_group refiner = topkit_group_warps(TOPKIT_PIPELINED_SCAN_WARPS, TOPKIT_PIPELINED_REFINER_WARPS, 2);
    topkit_pipelined_row before = {{job.scores, 0}, TOPKIT_PIPELINED_UNKNOWN, 0};
    unsigned pass = 0;
    for (unsigned taken = 0;; taken++) {
        topkit_signal_wait(&s->gate_full[taken % 4], taken / 4);
        const topkit_pipelined_pass next = s->gated[taken % 4];
        topkit_group_sync(refiner);
        if (refiner.thread == 0) topkit_signal_arrive(&s->gate_empty[taken % 4]);
        const unsigned b = pass & 1;
        if (next.at.r != TOPKIT_PIPELINED_UNKNOWN)
            topkit_pipelined_open<TIES>(refiner, s, next, topkit_pipelined_buffer(s, items, edge, b), b);
        if (before.r >= 0) {
            topkit_signal_wait(&s->scanned[b ^ 1], (pass - 1) / 2);
            const topkit_collector c = topkit_pipelined_buffer(s, items, edge, b ^ 1);
            const topkit_bounds known = {s->present[b ^ 1].gate.key, s->present[b ^ 1].maximum};
            const int repeat = topkit_pipelined_finish<TIES>(refiner, job, s, before, known, c);
            if (refiner.thread == 0) {
                s->repeat[(pass - 1) % TOPKIT_PIPELINED_VERDICTS] = repeat;
                topkit_signal_arrive(&s->settled[(pass - 1) % TOPKIT_PIPELINED_VERDICTS]);
            }
        }
        if (next.at.r == TOPKIT_PIPELINED_END) return;
        before = next.at;
        pass += next.at.r >= 0;
    }
}
#endif

template <int TIES>
static __global__ void __launch_bounds__(TOPKIT_PIPELINED_THREADS, 1) topkit_pipelined_select_kernel(topkit_select_job job) {
#if TOPKIT_HAS_BULK_COPY
    TOPKIT_SHARED(memory);
    unsigned char *ring = memory;
    topkit_candidate *items = (topkit_candidate *)(ring + TOPKIT_PIPELINED_RING); /* (2 x capacity) */
    float *sample = (float *)(items + 2 * TOPKIT_PIPELINED_CAPACITY), *edge = sample + TOPKIT_PIPELINED_SAMPLE;
    topkit_pipelined_storage *s = (topkit_pipelined_storage *)(edge + TOPKIT_TILE);
    const topkit_group block = topkit_group_block();
    const bool ordered = job.lengths && job.rows > (int)gridDim.x;

    topkit_refiner_init(block, &s->refine);
    topkit_refiner_init(block, &s->compact);
    topkit_digit_init(block, &s->propose);
    if (block.thread == 0) {
        for (int i = 0; i < 4; i++) {
            topkit_signal_init(&s->claim_full[i], 1);
            topkit_signal_init(&s->claim_empty[i], 1);
            topkit_signal_init(&s->gate_full[i], 1);
            topkit_signal_init(&s->gate_empty[i], 1);
        }
        for (int i = 0; i < TOPKIT_PIPELINED_STAGES; i++) {
            topkit_signal_init(&s->stage_full[i], 1);
            topkit_signal_init(&s->stage_empty[i], TOPKIT_PIPELINED_READERS);
        }
        for (int i = 0; i < TOPKIT_PIPELINED_VERDICTS; i++) topkit_signal_init(&s->settled[i], 1);
        for (int b = 0; b < 2; b++) {
            topkit_signal_init(&s->ready[b], 1);
            topkit_signal_init(&s->scanned[b], TOPKIT_PIPELINED_SCAN_WARPS);
            s->collected[b].dropped = s->collected[b].compactions = 0;
        }
    }
    topkit_dependency_wait();
    topkit_group_sync(block);
    const int warp = (int)topkit_warp_rank(block);
    if (warp < TOPKIT_PIPELINED_SCAN_WARPS) topkit_pipelined_scan<TIES>(job, s, ring, items);
    else if (warp < TOPKIT_PIPELINED_SCAN_WARPS + TOPKIT_PIPELINED_REFINER_WARPS) topkit_pipelined_refine<TIES>(job, s, items, edge);
    else if (warp < TOPKIT_PIPELINED_SCAN_WARPS + TOPKIT_PIPELINED_REFINER_WARPS + TOPKIT_PIPELINED_PROPOSER_WARPS)
        topkit_pipelined_propose(job, s, sample, ordered);
    else if (topkit_lane(block) == 0) topkit_pipelined_produce(job, s, ring, ordered);
#endif
}

#endif
