/* exact.h: is a result exact? Decided on the device, for every row, by code that shares nothing with the library.
 *
 *   bench_oracle_ranks(ranks, &matrix, k)                            once a matrix: each row's k-th key, by radix select
 *   bench_oracle_check(&verdict, ranks, &matrix, indices, ...)       after each selection that is to be judged
 *   bench_oracle_sort(&verdict, &matrix, indices, k, sample)         the same question to CUB's device sort, for a few rows
 *
 * A row's result is exact when it is min(k, length) distinct indices below the row's length and then -1 up to k, when it holds as many
 * scores above the k-th as the row does, and when all others equal the k-th. With lowest-index ties, no score equal to the k-th that was
 * left out may lie before one that was taken; with an order, neighbours must be in that order.
 * NaN counts as the lowest of all and -0 equals +0. 16-bit scores are compared as the floats that they are.
 * Any k. Cost: four reads of the matrix for the ranks; k reads a row for the check, and a bit for each score, 64 MB of them at a time.
 * Every function returns 0, or has printed one line to stderr; a wrong result is no error but a verdict.
 */
#ifndef TOPKIT_BENCH_EXACT_H
#define TOPKIT_BENCH_EXACT_H

#include "matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_rank {
    unsigned key; /* of the min(k, length)-th largest score */
    int above;    /* scores of the row with a larger key, below k */
} bench_rank;

enum bench_fault {
    BENCH_FAULT_NONE = 0,
    BENCH_FAULT_RANGE,     /* an index outside of the row */
    BENCH_FAULT_PAD,       /* something other than -1 behind the prefix */
    BENCH_FAULT_REPEATED,  /* an index twice */
    BENCH_FAULT_LOW,       /* a score below the k-th */
    BENCH_FAULT_MISSING,   /* fewer scores above the k-th than the row has */
    BENCH_FAULT_TIES,      /* not the lowest indices among equals */
    BENCH_FAULT_ORDER,     /* neighbours in the wrong order */
    BENCH_FAULT_SORT       /* not the values that sorting gives */
};

typedef struct bench_verdict {
    int bad_rows;
    int row;   /* one of them */
    int fault; /* and what is wrong with it */
} bench_verdict;

/* `ranks` (rows) and `indices` (rows x k) are on the device; ties and order are select.h's. */
int bench_oracle_ranks(bench_rank *ranks, const bench_matrix *m, int k);
int bench_oracle_check(bench_verdict *verdict, const bench_rank *ranks, const bench_matrix *m, const int *indices, int k, int ties,
                       int order);
int bench_oracle_sort(bench_verdict *verdict, const bench_matrix *m, const int *indices, int k, int sample);
const char *bench_fault_text(int fault);

#ifdef __cplusplus
}
#endif
#endif
