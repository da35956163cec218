/* fused_job.cuh: one launch of the fused indexer: its arguments, which queries share a stream of keys, and where its tiles lie.
 *
 * A run is up to 384 / heads consecutive queries whose ranges overlap and whose keys lie in the same pages: they see the same stream of key
 * tiles, each with a range of its own. A run has two passes over the block's ring of tiles:
 *
 *     sample   64 keys a tile, strided over the whole of the run's positions: their scores propose the thresholds
 *     scan     tiles of 64 neighbouring positions, from a multiple of 64 below the lowest position on; of a split, its share of them
 *
 * A run whose thresholds let too few pass is scanned once more: everything, with open gates, in a shuffled order.
 */
#ifndef TOPKIT_FUSED_JOB_CUH
#define TOPKIT_FUSED_JOB_CUH

#include "fused.h"
#include "fused_score.cuh"
#include "select_job.cuh"

#define TOPKIT_FUSED_TEAMS 3 /* warpgroups of consumers; each has the columns of one product, and every tile */
#define TOPKIT_FUSED_COLUMNS (TOPKIT_FUSED_TEAMS * TOPKIT_FUSED_HALF) /* heads of all queries of a run */
#define TOPKIT_FUSED_QUERIES (TOPKIT_FUSED_COLUMNS / 32) /* queries of a run at most */
#define TOPKIT_FUSED_SAMPLE 4096                     /* scores of a query's sample at most */
#define TOPKIT_FUSED_MIN_RANK 32                     /* samples that a proposal rests on, where there is room for so many */

/* Splits of one query: what they have delivered. Zero between launches. */
typedef struct topkit_fused_merge {
    unsigned held, arrived;
} topkit_fused_merge;

typedef struct topkit_fused_job {
    topkit_select_job out; /* k, order, capacity, outputs, statistics, queue; the rest of it is not used */
    const unsigned char *queries, *keys;
    const float *weights, *scales; /* scales: null for 1 */
    const int *page_table;         /* null: contiguous */
    long long table_stride, page_bytes, scale_stride; /* of contiguous keys: 64 * 128 bytes and 64 scales a page */
    const int *tables, *starts, *ends; /* (tokens) or null */
    int tokens, positions, splits;
    int together, pieces; /* queries of a run at most: as many as there are columns for, or fewer; and how many such pieces there are */
    float *matrix; /* null, or scores are written there and nothing is selected */
    long long matrix_stride;
    topkit_fused_merge *merges; /* (tokens) where there are splits */
    topkit_candidate *merged;   /* (tokens x splits x k) */
    unsigned char *buffers;     /* (blocks x 2 x queries of a run) candidates and sample of each */
} topkit_fused_job;

typedef struct topkit_fused_run {
    int first, count;      /* queries; first < 0: no more runs. A count of 0 goes through all stages and does nothing */
    unsigned wanted;       /* which of them are to be answered, as bits */
    int table;             /* row of the page table */
    int low, high;         /* positions of all ranges together; low == high: none */
    int samples;           /* tiles of the sample pass */
    int sample_first, sample_stride;
    int tile, tiles;       /* the scan pass: its first tile and how many; of all */
    int step;              /* 0: ascending; or tile n of the pass is tile (n * step) mod tiles */
    bool whole;            /* this block scans all of it, and answers alone */
    int start[TOPKIT_FUSED_QUERIES], length[TOPKIT_FUSED_QUERIES]; /* each query's range; length 0 where it is not to be answered */
} topkit_fused_run;

#define TOPKIT_FUSED_END (-1)

/* Candidates and sample of one query. */
TOPKIT_JOB_FN size_t topkit_fused_buffer_bytes(int capacity) {
    return (size_t)capacity * sizeof(topkit_candidate) + TOPKIT_FUSED_SAMPLE * sizeof(float);
}

TOPKIT_JOB_FN topkit_candidate *topkit_fused_items(const topkit_fused_job &job, int queries, unsigned b, int q) {
    return (topkit_candidate *)(job.buffers + (((size_t)blockIdx.x * 2 + b) * (size_t)queries + (size_t)q) *
                                                  topkit_fused_buffer_bytes(job.out.capacity));
}
TOPKIT_JOB_FN float *topkit_fused_sample(const topkit_fused_job &job, int queries, unsigned b, int q) {
    return (float *)(topkit_fused_items(job, queries, b, q) + job.out.capacity);
}

TOPKIT_JOB_FN int topkit_fused_origin(const topkit_fused_run &run) { return run.low & ~(TOPKIT_FUSED_TILE - 1); }
TOPKIT_JOB_FN int topkit_fused_tiles(const topkit_fused_run &run) {
    return run.high > run.low ? (run.high - topkit_fused_origin(run) + TOPKIT_FUSED_TILE - 1) / TOPKIT_FUSED_TILE : 0;
}

/* The first position of a pass's first tile; its rows are `stride` positions apart. A shuffle begins there as well: tile n is the
 * (n * step mod tiles)-th from there on. */
TOPKIT_JOB_FN int topkit_fused_first(const topkit_fused_run &run, bool sample) {
    return sample ? run.sample_first : topkit_fused_origin(run) + run.tile * TOPKIT_FUSED_TILE;
}
TOPKIT_JOB_FN int topkit_fused_stride(const topkit_fused_run &run, bool sample) { return sample ? run.sample_stride : 1; }

/* The range of query t: its start, and how many positions from there on. Both ends are made positions before one is subtracted from the
 * other: of `end > start ? end - start : 0` the compiler made the greater of the difference and 0, and a range from 100 to -2^31 became one
 * of 2^31 - 100 positions, which the kernel looked for without end. */
TOPKIT_JOB_FN int topkit_fused_range(const topkit_fused_job &job, int t, int *length) {
    const int given = job.starts ? job.starts[t] : 0, start = given < 0 ? 0 : given;
    const int stated = job.ends ? job.ends[t] : job.positions, end = stated < 0 ? 0 : stated < job.positions ? stated : job.positions;
    *length = end > start ? end - start : 0;
    return start;
}

/* From how many of the scores at hand, of `positions`, a proposal shall admit 2k; a run that is split shares them. */
TOPKIT_JOB_FN int topkit_fused_rank(const topkit_fused_job &job, int samples, int positions) {
    const int rank = (int)(2LL * job.out.k * samples / positions) + 1;
    return rank < TOPKIT_JOB_MIN_RANK ? TOPKIT_JOB_MIN_RANK : rank;
}

/* How the sample pass looks: one position in so many that the rank is TOPKIT_FUSED_MIN_RANK, as far as there is room. */
TOPKIT_JOB_FN void topkit_fused_plan_sample(const topkit_fused_job &job, topkit_fused_run *run) {
    const int positions = run->high - run->low, most = positions < TOPKIT_FUSED_SAMPLE ? positions : TOPKIT_FUSED_SAMPLE;
    const long long wanted = ((long long)positions * TOPKIT_FUSED_MIN_RANK / (2 * job.out.k) + TOPKIT_FUSED_TILE) / TOPKIT_FUSED_TILE;
    run->samples = wanted < most / TOPKIT_FUSED_TILE ? (int)wanted : most / TOPKIT_FUSED_TILE;
    run->sample_stride = positions / (run->samples * TOPKIT_FUSED_TILE);
    run->sample_first = run->low + (int)(topkit_hash(topkit_job_seed(job.out, run->first)) % (unsigned)run->sample_stride);
}

/* The queries from `first` on, before `end`, that make one run, with its passes for split `split`. */
TOPKIT_JOB_FN void topkit_fused_next_run(const topkit_fused_job &job, int first, int end, int split, topkit_fused_run *run) {
    int low = 0, high = 0, longest = 0, count = 0;
    run->first = first;
    run->table = job.tables ? job.tables[first] : 0;
    for (int t = first; t < end; t++) {
        int length;
        const int start = topkit_fused_range(job, t, &length);
        if (t > first && job.page_table && job.tables && job.tables[t] != run->table) break;
        if (length > 0 && high > low && (start >= high || start + length <= low)) break;
        if (length > 0) {
            const bool none = high == low;
            low = none || start < low ? start : low;
            high = none || start + length > high ? start + length : high;
        }
        longest = length > longest ? length : longest;
        run->start[count] = start;
        run->length[count] = length;
        count++;
    }
    run->low = low;
    run->high = high;
    run->count = count;
    run->wanted = (1u << count) - 1;
    run->step = run->samples = run->sample_first = run->sample_stride = 0;
    run->whole = job.splits == 1;
    const int tiles = topkit_fused_tiles(*run);
    run->tile = (int)((long long)tiles * split / job.splits);
    run->tiles = (int)((long long)tiles * (split + 1) / job.splits) - run->tile;
    if (job.matrix) { /* the first pass writes all scores, and that is all */
        run->wanted = 0;
        run->samples = tiles;
        run->sample_first = topkit_fused_origin(*run);
        run->sample_stride = 1;
        run->tiles = 0;
    } else if (longest > job.out.capacity) {
        topkit_fused_plan_sample(job, run);
    }
}

/* A step that is prime to `count`, so that every tile is visited, from the middle third of it, so that a run that rises along its positions
 * is not read as it lies. Which one, the salt says. */
TOPKIT_JOB_FN int topkit_fused_step(int count, unsigned salt) {
    int step = count / 3 + (int)__umulhi(salt, (unsigned)count / 3 + 1);
    if (step < 1) return 1;
    for (;; step++) {
        int a = count, b = step;
        while (b) {
            const int rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) return step;
    }
}

/* The same run once more, for those of its queries whose bits are set in `failed`. */
TOPKIT_JOB_FN void topkit_fused_repeat_run(const topkit_fused_job &job, const topkit_fused_run *before, unsigned failed,
                                           topkit_fused_run *run) {
    TOPKIT_ASSERT(before->step == 0); /* with open gates nothing fails */
    *run = *before;
    run->wanted = failed;
    run->samples = 0;
    run->tile = 0;
    run->tiles = topkit_fused_tiles(*run);
    run->step = topkit_fused_step(run->tiles, topkit_job_visit(job.out, run->first));
    run->whole = true;
    for (int q = 0; q < run->count; q++) {
        if (!(failed >> q & 1)) run->length[q] = 0;
    }
}

#endif
