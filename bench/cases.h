/* cases.h: what is measured: a list of cases for each sub-suite. Pure C11, no CUDA.
 *
 *   bench_case_list list = {0};
 *   bench_add_suite(&list, "matrix", &options);      0, or one line on stderr
 *   ... list.cases[0 .. list.count) ...
 *   bench_free_cases(&list);
 *
 * Suites (K = 2048 unless --k says otherwise):
 *   matrix  rows 512 to 8192 x 128K to 1M columns, causal; normal, dsa, and capture when a file is given
 *   width   rows 512 and 4096 x 16K to 64K by 8K, causal; normal, dsa
 *   decode  rows 1 to 128 x 8K to 1M, full rows, scores warm in the L2 cache; normal, dsa
 *   hard    1024 x 128K, lengths uniform in [1, columns]; every input
 *   mixed   rows 1024 and 4096 x 128K to 1M, causal beside mixed lengths; normal, dsa
 *   trace   prompts of 245K and 430K tokens as the calls of their steps; normal, dsa
 *   one     the shape of the options
 *
 * Cases of one list that follow one another share a rotation as far as memory allows.
 */
#ifndef TOPKIT_BENCH_CASES_H
#define TOPKIT_BENCH_CASES_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_case {
    const char *suite;
    int input;     /* inputs.h */
    int lengths;
    int rows;
    int columns;
    int k;
    int first;     /* causal length of row 0, less one */
    int first_row; /* the matrix's first row in the formulas */
    int warm;      /* 1: the scores stay in the L2 cache from call to call */
    int prompt;    /* tokens of the trace that this call belongs to, else 0 */
    int calls;     /* of that trace */
} bench_case;

typedef struct bench_case_list {
    bench_case *cases;
    int count;
    int capacity;
} bench_case_list;

typedef struct bench_shape_options {
    int k;
    int rows;      /* `one` alone; elsewhere 0 means all, and another number keeps the cases that have it */
    int columns;   /* likewise */
    int input;     /* likewise; -1 means all */
    int lengths;   /* `one` alone */
    int capture;   /* 1 when there is a captured file */
} bench_shape_options;

int bench_add_suite(bench_case_list *list, const char *suite, const bench_shape_options *options);
void bench_free_cases(bench_case_list *list);

#ifdef __cplusplus
}
#endif
#endif
