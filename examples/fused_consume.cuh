/* fused_consume.cuh: the consumer warps of the fused indexer: products, scores, and what becomes of the scores.
 *
 * A warp waits for nobody but the producer (a tile), the service (a run's gates; room in a buffer that was full) and its tensor cores.
 */
#ifndef TOPKIT_FUSED_CONSUME_CUH
#define TOPKIT_FUSED_CONSUME_CUH

#include "fused_storage.cuh"

#if TOPKIT_HAS_WGMMA
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
#endif

#endif
