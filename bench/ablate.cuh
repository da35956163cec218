/* ablate.cuh: a row kernel whose sampling and thresholds are run-time numbers, with clocks between its steps; for ablate.cu.
 *
 * Composed as examples/01 is, from the same blocks: persistent blocks take rows from a queue, sample, propose, scan, refine. Three things
 * are different. The sample is not fetched ahead, so that it counts among the steps (with the proposal), and it may be as large as stages
 * and buffer together, which are free while it is looked at: a dense sample then fits. No rank is too small to be asked for. And a scan
 * that finds fewer than k can be repaired in two ways:
 *
 *     no secondary threshold   all is collected once more, behind an open gate, as in 01
 *     a secondary threshold    the same sample proposed a second, lower key: what is held stays, and the row is read once more for what
 *                              lies between the two (the band). Where that does not suffice either, all is collected, behind an open gate
 *
 * Cycles are those of one thread between barriers, so that they hold the waiting for the others, and for the other block of the
 * multiprocessor. Nothing is counted unless `counts` is given; the clock is read in any case.
 */
#ifndef TOPKIT_BENCH_ABLATE_CUH
#define TOPKIT_BENCH_ABLATE_CUH

#include "launch.h"
#include "topkit/topkit.cuh"

enum { ABLATE_THREADS = 512, ABLATE_CAPACITY = 8192, ABLATE_WIDTH = 4, ABLATE_STAGES = ABLATE_THREADS / 32 * TOPKIT_TILE };
enum { ABLATE_ROOM = ABLATE_STAGES + 2 * ABLATE_CAPACITY }; /* samples at most */
enum { ABLATE_PROPOSE = 0, ABLATE_SCAN, ABLATE_RECOVER, ABLATE_REFINE, ABLATE_STEPS };

/* Sums over the rows that were longer than k. */
typedef struct ablate_counts {
    unsigned long long rows, samples, admitted, compactions;
    unsigned long long recoveries; /* rows that were read again */
    unsigned long long opened;     /* of these, with an open gate */
    unsigned long long cycles[ABLATE_STEPS];
} ablate_counts;

typedef struct ablate_job {
    const float *scores;
    const int *lengths;
    int rows, columns, k;
    int stride;              /* scores for one sample, where the room suffices */
    float target, secondary; /* candidates to expect, as multiples of k; secondary 0: none */
    int *indices;            /* (rows x k) */
    topkit_queue *queue;
    ablate_counts *counts;   /* or null */
} ablate_job;

typedef struct ablate_storage {
    topkit_refiner_storage refiner;
    topkit_collector_state collected;
    topkit_row row; /* in shared memory, like what follows, for registers are short in the scan */
    topkit_proposal proposal;
    long long marks[ABLATE_STEPS + 1]; /* the clock at the beginning, and after each step */
    int next;
} ablate_storage;

enum { ABLATE_HEADER = (sizeof(ablate_storage) + 15) / 16 * 16 };
enum { ABLATE_SHARED = ABLATE_HEADER + ABLATE_ROOM * 4 };

static __device__ __forceinline__ topkit_sampling ablate_sampling(const ablate_job &job, topkit_row row, int r)
{
    const int vectors = ABLATE_ROOM / ABLATE_WIDTH, least = (row.length / vectors / ABLATE_WIDTH + 1) * ABLATE_WIDTH;
    const int stride = job.stride * ABLATE_WIDTH;
    return topkit_sample_plan(row, stride > least ? stride : least, ABLATE_WIDTH, (unsigned)r);
}

/* The rank in a sample of `count` that about `multiple` times k scores of the row reach; 0 for multiple 0. */
static __device__ __forceinline__ int ablate_rank(const ablate_job &job, float multiple, int count, int length)
{
    return multiple > 0.0f ? (int)(multiple * (float)job.k * (float)count / (float)length) + 1 : 0;
}

/* Reads the row for the scores between the two proposed keys; those above are held already. Returns how many are held then. */
static __device__ __forceinline__ int ablate_band(topkit_group block, ablate_storage *s, int k, topkit_collector c)
{
    const topkit_tiles tiles = topkit_row_tiles(s->row);
    const topkit_gate high = topkit_gate_at(s->proposal.key, TOPKIT_INDEX_LIMIT);
    topkit_gate low = topkit_gate_at(s->proposal.second, TOPKIT_INDEX_LIMIT);
    int n = (int)topkit_warp_rank(block);
    for (;;) {
        for (; n < tiles.count; n += (int)topkit_warps(block)) {
            topkit_tile tile;
            topkit_tile_load(tiles, n, topkit_lane(block), &tile);
            const unsigned mask = topkit_gate_mask<TOPKIT_ANY>(block, low, &tile) & ~topkit_gate_mask<TOPKIT_ANY>(block, high, &tile);
            if (!__any_sync(TOPKIT_FULL_MASK, mask != 0))
                continue;
            for (int u = 0; u < 4; u++) /* a lane reads back only what it wrote */
                ((float4 *)c.stage)[u * 32 + (int)topkit_lane(block)] = tile.v[u];
            if (!topkit_collect_staged(block, c, c.stage, tile.first, mask))
                break;
        }
        topkit_group_sync(block);
        if (!topkit_collector_overflowed(c))
            break;
        low = topkit_compact<TOPKIT_ANY>(block, c, k, &s->refiner);
    }
    const int held = topkit_collector_held(c);
    topkit_group_sync(block);
    return held;
}

static __device__ __forceinline__ void ablate_mark(topkit_group block, ablate_storage *s, int step)
{
    if (block.thread == 0)
        s->marks[step] = clock64();
}

static __device__ void ablate_count(ablate_counts *c, const ablate_storage *s, int samples, int admitted, int recovered, int opened)
{
    atomicAdd(&c->rows, 1ull);
    atomicAdd(&c->samples, (unsigned long long)samples);
    atomicAdd(&c->admitted, (unsigned long long)((unsigned)admitted + s->collected.dropped));
    atomicAdd(&c->compactions, (unsigned long long)s->collected.compactions);
    atomicAdd(&c->recoveries, (unsigned long long)recovered);
    atomicAdd(&c->opened, (unsigned long long)opened);
    for (int i = 0; i < ABLATE_STEPS; ++i)
        atomicAdd(&c->cycles[i], (unsigned long long)(s->marks[i + 1] - s->marks[i]));
}

/* The answer of s->row, row r, which has more than k scores. */
static __device__ __forceinline__ void ablate_row(topkit_group block, const ablate_job &job, int r, ablate_storage *s, float *sample)
{
    topkit_candidate *items = (topkit_candidate *)(sample + ABLATE_STAGES);
    const topkit_collector collector = {items, ABLATE_CAPACITY, sample + topkit_warp_rank(block) * TOPKIT_TILE, &s->collected};
    ablate_mark(block, s, 0);

    const int count = topkit_sample_count(ablate_sampling(job, s->row, r)), length = s->row.length;
    topkit_sample_async(block, ablate_sampling(job, s->row, r), sample);
    topkit_copy_async_wait();
    topkit_group_sync(block);
    const topkit_proposal proposal = topkit_propose_from_sample(block, sample, count, ablate_rank(job, job.target, count, length),
                                                                ablate_rank(job, job.secondary, count, length), &s->refiner.digit);
    if (block.thread == 0) {
        s->proposal = proposal;
        topkit_collector_clear(collector);
        s->collected.dropped = s->collected.compactions = 0;
    }
    topkit_group_sync(block);
    ablate_mark(block, s, ABLATE_PROPOSE + 1);

    int held = topkit_scan<TOPKIT_ANY>(block, s->row, job.k, topkit_gate_at(s->proposal.key, TOPKIT_INDEX_LIMIT), TOPKIT_ASCENDING,
                                       collector, &s->refiner);
    ablate_mark(block, s, ABLATE_SCAN + 1);

    int recovered = 0, opened = 0, lost = 0;
    if (held < job.k) {
        recovered = 1;
        if (job.secondary > 0.0f)
            held = ablate_band(block, s, job.k, collector);
    }
    if (held < job.k) {
        opened = 1;
        lost = held;
        if (block.thread == 0)
            topkit_collector_clear(collector);
        topkit_group_sync(block);
        held = topkit_scan<TOPKIT_ANY>(block, s->row, job.k, topkit_gate_open(), topkit_hash((unsigned)r) | 1,
                                       collector, &s->refiner);
    }
    ablate_mark(block, s, ABLATE_RECOVER + 1);

    const topkit_sink_indices sink = {job.indices + (size_t)r * (size_t)job.k, 0};
    topkit_refine<TOPKIT_ANY>(block, items, held, job.k, sink, &s->refiner);
    ablate_mark(block, s, ABLATE_REFINE + 1);
    if (block.thread == 0 && job.counts)
        ablate_count(job.counts, s, count, held + lost, recovered, opened);
}

static __global__ void __launch_bounds__(ABLATE_THREADS, 2) ablate_kernel(ablate_job job)
{
    TOPKIT_SHARED(memory);
    ablate_storage *s = (ablate_storage *)memory;
    float *sample = (float *)(memory + ABLATE_HEADER); /* (ABLATE_ROOM) the stages and behind them the buffer, once it has been looked at */
    const topkit_group block = topkit_group_warps(0, ABLATE_THREADS / 32, 0); /* all of it; a number that folds saves registers */
    topkit_refiner_init(block, &s->refiner);
    for (int r = (int)blockIdx.x; r < job.rows; r = s->next) {
        topkit_group_sync(block); /* `next` has been read by all */
        if (block.thread == 0) {
            s->next = topkit_queue_claim(job.queue, (int)gridDim.x);
            s->row = topkit_row_at(job.scores, job.columns, nullptr, job.lengths, job.columns, r);
        }
        topkit_group_sync(block);
        if (s->row.length > job.k) {
            ablate_row(block, job, r, s, sample);
        } else {
            const topkit_sink_indices sink = {job.indices + (size_t)r * (size_t)job.k, 0};
            topkit_sink_identity(block.thread, block.size, s->row.scores, s->row.length, job.k, sink);
        }
        topkit_group_sync(block);
    }
    if (block.thread == 0)
        topkit_queue_leave(job.queue, (int)gridDim.x);
}

#endif
