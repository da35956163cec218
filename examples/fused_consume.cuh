/* fused_consume.cuh: the consumer warps of the fused indexer: products, scores, and what becomes of the scores.
 *
 * A team has one half of the columns, and every tile: its queries' weights stay in registers for a whole pass. A score that reaches its
 * query's gate costs its lane one store to shared memory; the warp appends what its lanes have kept back once one of them has no more room.
 *
 * A warp waits for nobody but the producer (a tile), the service (a run's gates; room in a buffer that was full) and its tensor cores.
 */
#ifndef TOPKIT_FUSED_CONSUME_CUH
#define TOPKIT_FUSED_CONSUME_CUH

#include "fused_storage.cuh"

#if TOPKIT_HAS_WGMMA
/* What a lane needs to know: its query, and the scores above the gate that it has kept back. */
typedef struct topkit_fused_mine {
    int q, start, length;
    float gate_value;
    topkit_candidate *hits; /* every 32nd one is this lane's */
    int held;
} topkit_fused_mine;

/* Those of the hits in `pending` that the gate admits, both as bits. */
static __device__ __forceinline__ unsigned topkit_fused_admitted(topkit_gate gate, const topkit_candidate *hits, unsigned pending) {
    unsigned admitted = 0;
    for (unsigned rest = pending; rest; rest &= rest - 1) {
        const int i = __ffs((int)rest) - 1;
        const topkit_candidate hit = hits[i * 32];
        if (topkit_gate_admits(gate, hit.bits, hit.index)) admitted |= 1u << i;
    }
    return admitted;
}

/* Appends what the lanes of a warp have kept back to their queries' candidates: each is in, or refused by a gate that has risen meanwhile.
 * The whole warp; c is the collector of the lane's query. */
template <int HEADS>
static __device__ __forceinline__ void topkit_fused_append(topkit_fused_storage *s, unsigned b, topkit_collector c,
                                                           topkit_fused_mine *mine) {
    const topkit_group warp = topkit_group_warp();
    const unsigned mates = topkit_fused_mates<HEADS>(topkit_lane(warp));
    const bool leader = (int)topkit_lane(warp) == __ffs((int)mates) - 1;
    const int q = mine->q;
    unsigned pending = (1u << mine->held) - 1;
    do {
        const unsigned seen = topkit_peek(&s->epoch[b][q]); /* before the gate and the attempt: no compaction can be missed */
        const unsigned long long word = topkit_peek_pair(&s->gate[b][q]);
        const topkit_gate gate = topkit_gate_at((unsigned)(word >> 32), (int)(unsigned)word);
        mine->gate_value = gate.value;
        pending = topkit_fused_admitted(gate, mine->hits, pending);
        topkit_candidate *slot;
        const int room = topkit_collect_lanes(warp, c, mates, (unsigned)__popc(pending), &slot);
        if (room >= 0) {
            topkit_fence_block(); /* behind whoever has made the room */
            for (; pending; pending &= pending - 1) *slot++ = mine->hits[(__ffs((int)pending) - 1) * 32];
        }
        __syncwarp(); /* the leader speaks for its mates' stores */
        if (leader && room > 0) {
            topkit_fence_block();
            atomicAdd(&s->committed[b][q], (unsigned)room);
        }
        if (leader && room < 0) atomicOr(&s->asked, 1u << (b * TOPKIT_FUSED_QUERIES + (unsigned)q));
        while (pending && topkit_peek(&s->epoch[b][q]) == seen) topkit_relax();
    } while (__any_sync(TOPKIT_FULL_MASK, pending != 0));
    mine->held = 0;
}

/* Where a team is in a pass. Positions, rows and numbers are of the tile whose product is under way. */
typedef struct topkit_fused_at {
    int n, tiles;        /* of the pass */
    int tile, tile_step; /* which one that is, and how far on the next one is, modulo the tiles */
    unsigned number;     /* of the ring's */
} topkit_fused_at;

/* Scores of a tile: past the gate, or to the sample, or to the matrix. `last`: nothing must be kept back any longer. */
template <int HEADS>
static __device__ __forceinline__ void topkit_fused_use(const topkit_fused_job &job, topkit_fused_storage *s, const topkit_fused_run &run,
                                                        topkit_fused_pass pass, const topkit_fused_scores_of<HEADS> &sums,
                                                        const int (&position)[64 / HEADS], const float (&scale)[64 / HEADS], int n, bool last,
                                                        topkit_fused_mine *mine) {
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3, b = pass.run & 1;
    const int each = TOPKIT_FUSED_COLUMNS / HEADS;
#pragma unroll
    for (int i = 0; i < 64 / HEADS; i++) {
        const float score = sums.score[i] * scale[i];
        const int index = position[i] - mine->start;
        const bool inside = (unsigned)index < (unsigned)mine->length;
        if (!pass.sample) {
            if (inside && topkit_not_lt(score, mine->gate_value)) { /* a NaN comes through here and meets the exact compare */
                const topkit_candidate hit = {__float_as_uint(score), index};
                mine->hits[mine->held++ * 32] = hit;
            }
        } else if (job.matrix) {
            if (inside) job.matrix[(run.first + mine->q) * job.matrix_stride + index] = score;
        } else if (mine->q < run.count) {
            topkit_fused_sample(job, each, b, mine->q)[n * TOPKIT_FUSED_TILE + topkit_fused_row<HEADS>(warp, lane, i)] =
                inside ? score : __uint_as_float(0xff800000u);
        }
    }
    if (__any_sync(TOPKIT_FULL_MASK, mine->held > (last ? 0 : TOPKIT_FUSED_HITS - 64 / HEADS))) {
        const topkit_collector c = {topkit_fused_items(job, each, b, mine->q), job.out.capacity, nullptr, &s->collected[b][mine->q]};
        topkit_fused_append<HEADS>(s, b, c, mine);
    }
}

/* One tile: its product, in d, becomes scores, while the next one's goes on in `other`. Returns whether there is a next one. */
template <int HEADS>
static __device__ __forceinline__ bool topkit_fused_turn(const topkit_fused_job &job, topkit_fused_storage *s, const unsigned char *ring,
                                                         const unsigned char *columns, const topkit_fused_run &run, topkit_fused_pass pass,
                                                         const topkit_fused_weights &weights, float (&d)[TOPKIT_FUSED_SUMS],
                                                         float (&other)[TOPKIT_FUSED_SUMS], topkit_fused_at *at, topkit_fused_mine *mine) {
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3, stage = at->number % TOPKIT_FUSED_STAGES;
    const int first = topkit_fused_first(run, pass.sample), stride = topkit_fused_stride(run, pass.sample), n = at->n;
    const bool more = n + 1 < at->tiles; /* else the product of this tile is made once more, and not looked at */
    int position[64 / HEADS];
    float scale[64 / HEADS];
#pragma unroll
    for (int i = 0; i < 64 / HEADS; i++) {
        const int row = topkit_fused_row<HEADS>(warp, lane, i);
        position[i] = first + (at->tile * TOPKIT_FUSED_TILE + row) * stride;
        scale[i] = s->scales[stage][row];
    }
    if (more) {
        at->n++;
        at->number++;
        at->tile += at->tile_step;
        if (at->tile >= at->tiles) at->tile -= at->tiles;
        topkit_signal_wait(&s->full[at->number % TOPKIT_FUSED_STAGES], at->number / TOPKIT_FUSED_STAGES);
    }
    topkit_fused_product_wait(d);
    topkit_fused_product_begin(other, ring + at->number % TOPKIT_FUSED_STAGES * TOPKIT_FUSED_STAGE_BYTES, columns);
    __syncwarp();
    if (more && lane == 0) topkit_signal_arrive(&s->empty[stage]);
    topkit_fused_use<HEADS>(job, s, run, pass, topkit_fused_sum<HEADS>(lane, d, weights), position, scale, n, !more, mine);
    return more;
}

/* A team's half of a pass; its first tile is number `begin` of the ring's. Accumulators go through the epilogue by turns. */
template <int HEADS>
static __device__ __forceinline__ void topkit_fused_consume(const topkit_fused_job &job, topkit_fused_storage *s, const unsigned char *ring,
                                                            const unsigned char *queries, const topkit_fused_run &run,
                                                            topkit_fused_pass pass, unsigned team, unsigned begin, int tiles) {
    const unsigned lane = threadIdx.x & 31, b = pass.run & 1;
    const int each = TOPKIT_FUSED_COLUMNS / HEADS;
    const unsigned char *columns = queries + b * TOPKIT_FUSED_QUERY_BYTES + team * (TOPKIT_FUSED_HALF * TOPKIT_FUSED_ROW);
    const topkit_fused_weights weights = topkit_fused_weights_of(lane, s->weights[b][team]);
    topkit_fused_at at = {0, tiles, 0, run.step == 0 || pass.sample ? 1 : run.step, begin};
    topkit_fused_mine mine;
    mine.q = (int)team * (each / 2) + topkit_fused_query<HEADS>(lane);
    mine.start = mine.q < run.count ? run.start[mine.q] : 0;
    mine.length = mine.q < run.count ? run.length[mine.q] : 0;
    const unsigned long long word = topkit_peek_pair(&s->gate[b][mine.q]);
    mine.gate_value = topkit_gate_at((unsigned)(word >> 32), (int)(unsigned)word).value;
    mine.hits = &s->hits[threadIdx.x / 32][0][lane];
    mine.held = 0;
    float d0[TOPKIT_FUSED_SUMS], d1[TOPKIT_FUSED_SUMS];
#pragma unroll
    for (int i = 0; i < TOPKIT_FUSED_SUMS; i++) d0[i] = d1[i] = 0.0f;

    topkit_signal_wait(&s->full[begin % TOPKIT_FUSED_STAGES], begin / TOPKIT_FUSED_STAGES);
    topkit_fused_product_begin(d0, ring + begin % TOPKIT_FUSED_STAGES * TOPKIT_FUSED_STAGE_BYTES, columns);
    for (;;) {
        if (!topkit_fused_turn<HEADS>(job, s, ring, columns, run, pass, weights, d0, d1, &at, &mine)) break;
        if (!topkit_fused_turn<HEADS>(job, s, ring, columns, run, pass, weights, d1, d0, &at, &mine)) break;
    }
    topkit_fused_product_wait(d0);
    topkit_fused_product_wait(d1);
    __syncwarp();
    if (lane == 0) topkit_signal_arrive(&s->empty[at.number % TOPKIT_FUSED_STAGES]);
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
        if (tiles > 0) topkit_fused_consume<HEADS>(job, s, ring, queries, run, pass, team, begin, tiles);
        begin += (unsigned)tiles;
        __syncwarp();
        if (lane == 0) topkit_signal_arrive(pass.sample ? &s->sampled[r & 1] : &s->scanned[r & 1]);
    }
}
#endif

#endif
