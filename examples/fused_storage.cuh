/* fused_storage.cuh: the fused indexer's block: its warps, what they share, and the order of passes that all of them follow.
 *
 * Slots, buffers and signals are reused by parity: run r has announcement slot r mod 4 and half r mod 2 of queries, samples, candidates and
 * gates. A slot is free once run r - 3 is settled, a half once run r - 2 is scanned.
 */
#ifndef TOPKIT_FUSED_STORAGE_CUH
#define TOPKIT_FUSED_STORAGE_CUH

#include "fused_job.cuh"

#define TOPKIT_FUSED_CONSUMER_WARPS (4 * TOPKIT_FUSED_TEAMS)
#define TOPKIT_FUSED_SERVICE_WARPS 2
#define TOPKIT_FUSED_THREADS ((TOPKIT_FUSED_CONSUMER_WARPS + 2 + TOPKIT_FUSED_SERVICE_WARPS) * 32)
#define TOPKIT_FUSED_STAGES 4 /* of two tiles each; the second one of a pass's last stage may be missing */
#define TOPKIT_FUSED_HITS 12  /* scores above the gate that a lane keeps back before its warp appends them */
#define TOPKIT_FUSED_SLOTS 4 /* runs that are announced and not settled */
/* At the kernel's entry each thread has 128 registers: 65536 / 512. */
#define TOPKIT_FUSED_CONSUMER_REGISTERS 144
#define TOPKIT_FUSED_SERVICE_REGISTERS 80

#define TOPKIT_FUSED_TILE_BYTES (TOPKIT_FUSED_TILE * TOPKIT_FUSED_ROW)
#define TOPKIT_FUSED_STAGE_BYTES (2 * TOPKIT_FUSED_TILE_BYTES)
#define TOPKIT_FUSED_QUERY_BYTES (TOPKIT_FUSED_COLUMNS * TOPKIT_FUSED_ROW)

static_assert(TOPKIT_FUSED_STAGES >= 2, "a team waits for its next stage before it gives the present one back");

/* What the producer has claimed; zero in the beginning. */
typedef struct topkit_fused_feed {
    int next, end; /* queries of the present item that are still to be run */
    int split;
    unsigned idle; /* runs in a row that have nothing to do */
    bool dry;      /* the queue has no more items */
} topkit_fused_feed;

typedef struct topkit_fused_storage {
    __align__(16) float weights[2][TOPKIT_FUSED_TEAMS][TOPKIT_FUSED_WEIGHTS]; /* by run and team */
    topkit_candidate hits[TOPKIT_FUSED_CONSUMER_WARPS * TOPKIT_FUSED_HITS * 32]; /* by warp, number and lane */
    float scales[TOPKIT_FUSED_STAGES][2][TOPKIT_FUSED_TILE];
    topkit_refiner_storage refiner;
    topkit_fused_run runs[TOPKIT_FUSED_SLOTS];
    topkit_fused_feed feed;
    unsigned served; /* steps that the service has gone through */
    unsigned failed[TOPKIT_FUSED_SLOTS]; /* the verdict: queries of the run whose gate was too high */
    /* By run and query: */
    unsigned long long gate[2][TOPKIT_FUSED_QUERIES]; /* key and bound */
    topkit_collector_state collected[2][TOPKIT_FUSED_QUERIES];
    unsigned committed[2][TOPKIT_FUSED_QUERIES]; /* candidates that have been written */
    unsigned epoch[2][TOPKIT_FUSED_QUERIES];     /* compactions, as those see them who wait for one */
    unsigned asked;                              /* compactions asked for: bit b * TOPKIT_FUSED_QUERIES + q */
    unsigned event;                              /* of the service: what its thread 0 has seen */
    topkit_signal landed[TOPKIT_FUSED_STAGES], full[TOPKIT_FUSED_STAGES], empty[TOPKIT_FUSED_STAGES];
    topkit_signal announced[TOPKIT_FUSED_SLOTS], settled[TOPKIT_FUSED_SLOTS];
    topkit_signal sampled[2], ready[2], scanned[2];
} topkit_fused_storage;

/* Dynamic shared memory: the ring, the queries of two runs, the rest. */
#define TOPKIT_FUSED_SHARED (TOPKIT_FUSED_STAGES * TOPKIT_FUSED_STAGE_BYTES + 2 * TOPKIT_FUSED_QUERY_BYTES + sizeof(topkit_fused_storage))

/* Stages that a pass of so many tiles goes through. */
TOPKIT_JOB_FN int topkit_fused_stages(int tiles) { return (tiles + 1) / 2; }

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

#endif
