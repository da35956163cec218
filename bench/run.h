/* run.h: measures a group of cases that are resident together.
 *
 *   int n = bench_group_size(cases, count, memory_bytes);
 *   bench_run_group(cases, n, &options, results);
 *
 * Protocol. What a kernel refuses is said and left out. Each case's matrix is filled on the device; matrices below 256 MB are made
 * several times over, and replays cycle through the copies, so that no score is still in the L2 cache when it is read again (cases marked
 * warm have one copy and untimed launches ahead of each sample). Every call is made once, then captured in a graph. All rows of all copies
 * are checked, and a few rows sorted by CUB; one call with statistics; warm-ups; then rounds, each of which takes one sample of every case
 * and one each of a plain read of the same buffers and of a read that writes an answer's bytes as it goes, beginning with another case
 * every time. Last, what the last timed replay left is checked again.
 */
#ifndef TOPKIT_BENCH_RUN_H
#define TOPKIT_BENCH_RUN_H

#include "callee.h"
#include "fill.h"
#include "gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { BENCH_GROUP = 24 };

typedef struct bench_run_options {
    const bench_capture *capture; /* null: no case has BENCH_CAPTURE */
    int rounds;
    int warm_up;
    double deadline; /* in bench_seconds(): after it, rounds stop as soon as 5 are done */
} bench_run_options;

typedef struct bench_result {
    bench_case shape;
    int measured; /* 0: refused or failed; nothing else is set */
    int exact;
    int rounds;
    double us; /* median; a call */
    double p95_us;
    double p99_us;
    double read_us;    /* median of a plain read of the same buffer, all columns */
    double ceiling_us; /* the valid scores at that rate */
    double both_us;    /* median of a plain loop that reads the valid scores and writes k indices a row */
    double valid_bytes; /* of scores, in their type */
    double admitted_per_row; /* of the rows longer than k */
    unsigned long long compactions;
    unsigned long long recoveries;
    size_t workspace_bytes;
    int calls; /* 1; more after trace calls have been added up */
} bench_result;

/* How many of the first cases to measure together: as fit into `memory` bytes of scores, at most about BENCH_GROUP, at least 1; a shape's
 * kernels stay together. */
int bench_group_size(const bench_case *cases, int count, size_t memory);

/* Returns 0 when every case was measured or refused; 1 when the device failed, so that nothing more can be run. */
int bench_run_group(const bench_case *cases, int count, const bench_run_options *options, bench_result *results);

#ifdef __cplusplus
}
#endif
#endif
