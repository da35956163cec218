/* fused_consume.cuh: the consumer warps of the fused indexer: products, scores, and what becomes of the scores.
 *
 * A team has the columns of one product, and every tile: its queries' weights stay in registers for a whole pass. A score that reaches its
 * query's gate costs its lane one store to shared memory; the warp appends what its lanes have kept back once one of them has no more room.
 *
 * A warp waits for nobody but the relay (a tile), the service (a run's gates; room in a buffer that was full) and its team's products.
 */
#ifndef TOPKIT_FUSED_CONSUME_CUH
#define TOPKIT_FUSED_CONSUME_CUH

#include "fused_storage.cuh"

#if TOPKIT_HAS_WGMMA
/* What a lane needs to know: its query, and the scores above the gate that it has kept back. */
template <int HEADS>
struct topkit_fused_mine {
    int q, length;
    int index[64 / HEADS]; /* of its rows in the pass's first tile, from the start of its query's range */
    float gate_value;
    unsigned hits, end; /* s->hits[hits], [hits + 32], .. below `end` are its scores */
};

/* Appends what the lanes of a warp have kept back to their queries' candidates: each is in, or refused by a gate that has risen meanwhile.
 * The whole warp; c is the collector of the lane's query. */
template <int HEADS>
static __device__ __forceinline__ void topkit_fused_append(topkit_fused_storage *s, unsigned b, topkit_collector c,
                                                           topkit_fused_mine<HEADS> *mine) {
    const topkit_group warp = topkit_group_warp();
    const unsigned mates = topkit_fused_mates<HEADS>(topkit_lane(warp));
    const bool leader = (int)topkit_lane(warp) == __ffs((int)mates) - 1;
    const int q = mine->q;
    const topkit_candidate *hits = s->hits + mine->hits;
    unsigned pending = (1u << (mine->end - mine->hits) / 32) - 1; /* a bit for each hit */
    mine->end = mine->hits;
    do {
        const unsigned seen = topkit_peek(&s->epoch[b][q]); /* before the gate and the attempt: no compaction can be missed */
        const unsigned long long word = topkit_peek_pair(&s->gate[b][q]);
        const topkit_gate gate = topkit_gate_at((unsigned)(word >> 32), (int)(unsigned)word);
        mine->gate_value = gate.value;
#pragma unroll
        for (int i = 0; i < TOPKIT_FUSED_HITS; i++) {
            const topkit_candidate hit = hits[i * 32];
            if (!topkit_gate_admits(gate, hit.bits, hit.index)) pending &= ~(1u << i);
        }
        topkit_candidate *slot;
        const int room = topkit_collect_lanes(warp, c, mates, (unsigned)__popc(pending), &slot);
        if (room >= 0) {
            topkit_fence_block(); /* behind whoever has made the room */
#pragma unroll
            for (int i = 0; i < TOPKIT_FUSED_HITS; i++) {
                const topkit_candidate hit = hits[i * 32];
                if (pending >> i & 1) *slot++ = hit;
            }
            pending = 0;
        }
        __syncwarp(); /* the leader speaks for its mates' stores */
        if (leader && room > 0) {
            topkit_fence_block();
            atomicAdd(&s->committed[b][q], (unsigned)room);
        }
        if (leader && room < 0) atomicOr(&s->asked, 1u << (b * TOPKIT_FUSED_QUERIES + (unsigned)q));
        while (pending && topkit_peek(&s->epoch[b][q]) == seen) topkit_relax();
    } while (__any_sync(TOPKIT_FULL_MASK, pending != 0));
}

/* A pass, as one team sees it. */
typedef struct topkit_fused_work {
    int tiles, step, reach; /* the next tile is `step` tiles on, modulo all of them; neighbours are `reach` positions apart */
    unsigned b, team;
    topkit_fused_weights weights;
} topkit_fused_work;

/* Scores of tile n of the pass, which is the tile-th from its first one, if it is there: scanned, they go past the gate; else to the sample
 * or the matrix. */
template <int HEADS, bool SCAN>
static __device__ __forceinline__ void topkit_fused_use(const topkit_fused_job &job, topkit_fused_storage *s, const topkit_fused_run &run,
                                                        const topkit_fused_work &work, const topkit_fused_shares &shares,
                                                        const float (&scale)[64 / HEADS], int n, int tile, bool there,
                                                        topkit_fused_mine<HEADS> *mine) {
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    const topkit_fused_scores_of<HEADS> sums = topkit_fused_sum<HEADS>(lane, shares);
    const unsigned length = there ? (unsigned)mine->length : 0;
#pragma unroll
    for (int i = 0; i < 64 / HEADS; i++) {
        const float score = sums.score[i] * scale[i];
        const int index = mine->index[i] + tile * work.reach;
        const bool inside = (unsigned)index < length;
        if (SCAN) {
            if (inside && topkit_not_lt(score, mine->gate_value)) { /* a NaN comes through here and meets the exact compare */
                const topkit_candidate hit = {__float_as_uint(score), index};
                s->hits[mine->end] = hit;
                mine->end += 32;
            }
        } else if (job.matrix) {
            if (inside) job.matrix[(run.first + mine->q) * job.matrix_stride + index] = score;
        } else if (mine->q < run.count && there) {
            topkit_fused_sample(job, TOPKIT_FUSED_COLUMNS / HEADS, work.b, mine->q)[n * TOPKIT_FUSED_TILE +
                                                                                    topkit_fused_row<HEADS>(warp, lane, i)] =
                inside ? score : __uint_as_float(0xff800000u);
        }
    }
}

/* A team's part of a pass; its first stage is number `number` of the ring's. A tile's shares are summed while the other teams' products go
 * on, and become scores while its own next one does. */
template <int HEADS, bool SCAN>
static __device__ __forceinline__ void topkit_fused_consume(const topkit_fused_job &job, topkit_fused_storage *s, const unsigned char *ring,
                                                            const unsigned char *columns, const topkit_fused_run &run,
                                                            const topkit_fused_work &work, unsigned number,
                                                            topkit_fused_mine<HEADS> *mine) {
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    const int each = TOPKIT_FUSED_COLUMNS / HEADS;
    float d[TOPKIT_FUSED_SUMS];
#pragma unroll
    for (int i = 0; i < TOPKIT_FUSED_SUMS; i++) d[i] = 0.0f;
    unsigned stage = number % TOPKIT_FUSED_STAGES;
    topkit_signal_wait(&s->full[stage], number / TOPKIT_FUSED_STAGES);
    topkit_fused_product_begin(d, ring + stage * TOPKIT_FUSED_STAGE_BYTES, columns);
    for (int n = 0, tile = 0;;) {
        const unsigned char *keys = ring + stage * TOPKIT_FUSED_STAGE_BYTES;
        const bool more = n + 2 < work.tiles; /* else the pass's last product is made once more, and not looked at */
        float scale[2][64 / HEADS];
#pragma unroll
        for (int i = 0; i < 64 / HEADS; i++) {
            scale[0][i] = s->scales[stage][0][topkit_fused_row<HEADS>(warp, lane, i)];
            scale[1][i] = s->scales[stage][1][topkit_fused_row<HEADS>(warp, lane, i)];
        }
        topkit_fused_product_wait(d);
        topkit_fused_shares shares = topkit_fused_share_of(d, work.weights);
        topkit_fused_product_begin(d, keys + TOPKIT_FUSED_TILE_BYTES, columns);
        topkit_fused_use<HEADS, SCAN>(job, s, run, work, shares, scale[0], n, tile, true, mine);
        tile = tile + work.step < work.tiles ? tile + work.step : tile + work.step - work.tiles;

        const unsigned before = stage;
        if (more) {
            stage = ++number % TOPKIT_FUSED_STAGES;
            topkit_signal_wait(&s->full[stage], number / TOPKIT_FUSED_STAGES);
        }
        topkit_fused_product_wait(d);
        shares = topkit_fused_share_of(d, work.weights);
        topkit_fused_product_begin(d, ring + stage * TOPKIT_FUSED_STAGE_BYTES, columns);
        __syncwarp();
        if (more && lane == 0) topkit_signal_arrive(&s->empty[before]);
        topkit_fused_use<HEADS, SCAN>(job, s, run, work, shares, scale[1], n + 1, tile, n + 1 < work.tiles, mine);
        tile = tile + work.step < work.tiles ? tile + work.step : tile + work.step - work.tiles;

        /* Room for the next two tiles' hits; at the end nothing is kept back any longer. */
        const unsigned most = more ? (TOPKIT_FUSED_HITS - 2 * (64 / HEADS)) * 32 : 0;
        if (SCAN && __any_sync(TOPKIT_FULL_MASK, mine->end - mine->hits > most)) {
            const topkit_collector c = {topkit_fused_items(job, each, work.b, mine->q), job.out.capacity, nullptr,
                                        &s->collected[work.b][mine->q]};
            topkit_fused_append<HEADS>(s, work.b, c, mine);
        }
        if (!more) break;
        n += 2;
    }
    topkit_fused_product_wait(d);
    __syncwarp();
    if (lane == 0) topkit_signal_arrive(&s->empty[stage]);
}

/* What a team and its lanes must know for a pass. */
template <int HEADS>
static __device__ __forceinline__ void topkit_fused_pass_begin(topkit_fused_storage *s, const topkit_fused_run &run, bool sample,
                                                               topkit_fused_work *work, topkit_fused_mine<HEADS> *mine) {
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    /* From lane 0: the compiler then knows that they, and what follows from them, are the warp's. */
    const int stride = __shfl_sync(TOPKIT_FULL_MASK, topkit_fused_stride(run, sample), 0);
    work->step = __shfl_sync(TOPKIT_FULL_MASK, run.step == 0 || sample ? 1 : run.step, 0);
    work->reach = TOPKIT_FUSED_TILE * stride;
    work->weights = topkit_fused_weights_of(lane, s->weights[work->b][work->team]);
    mine->q = (int)work->team * (TOPKIT_FUSED_HALF / HEADS) + topkit_fused_query<HEADS>(lane);
    const int start = mine->q < run.count ? run.start[mine->q] : 0;
#pragma unroll
    for (int i = 0; i < 64 / HEADS; i++)
        mine->index[i] = topkit_fused_first(run, sample) - start + topkit_fused_row<HEADS>(warp, lane, i) * stride;
    mine->length = mine->q < run.count ? run.length[mine->q] : 0;
    const unsigned long long word = topkit_peek_pair(&s->gate[work->b][mine->q]);
    mine->gate_value = topkit_gate_at((unsigned)(word >> 32), (int)(unsigned)word).value;
    mine->hits = mine->end = threadIdx.x / 32 * (TOPKIT_FUSED_HITS * 32) + lane;
}

template <int HEADS>
static __device__ __forceinline__ void topkit_fused_consumers(const topkit_fused_job &job, topkit_fused_storage *s,
                                                              const unsigned char *ring, const unsigned char *queries) {
    const unsigned lane = threadIdx.x & 31;
    topkit_fused_work work;
    topkit_fused_mine<HEADS> mine;
    work.team = __shfl_sync(TOPKIT_FULL_MASK, threadIdx.x / 128, 0); /* from lane 0, as above */
    unsigned number = 0; /* the pass's first stage, counted over all passes */
    for (unsigned step = 0;; step++) {
        const topkit_fused_pass pass = topkit_fused_pass_of(step);
        const unsigned r = pass.run;
        if (pass.sample) topkit_signal_wait(&s->announced[r % TOPKIT_FUSED_SLOTS], r / TOPKIT_FUSED_SLOTS);
        else topkit_signal_wait(&s->ready[r & 1], r / 2);
        const topkit_fused_run &run = s->runs[r % TOPKIT_FUSED_SLOTS];
        if (run.first == TOPKIT_FUSED_END) return;
        work.b = r & 1;
        work.tiles = __shfl_sync(TOPKIT_FULL_MASK, pass.sample ? run.samples : run.tiles, 0);
        if (work.tiles > 0) {
            const unsigned char *columns = queries + work.b * TOPKIT_FUSED_QUERY_BYTES + work.team * (TOPKIT_FUSED_HALF * TOPKIT_FUSED_ROW);
            topkit_fused_pass_begin<HEADS>(s, run, pass.sample, &work, &mine);
            if (pass.sample) topkit_fused_consume<HEADS, false>(job, s, ring, columns, run, work, number, &mine);
            else topkit_fused_consume<HEADS, true>(job, s, ring, columns, run, work, number, &mine);
            number += (unsigned)topkit_fused_stages(work.tiles);
        }
        __syncwarp();
        if (lane == 0) topkit_signal_arrive(pass.sample ? &s->sampled[r & 1] : &s->scanned[r & 1]);
    }
}
#endif

#endif
