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
 *   types   rows 1024 and 4096 x 128K to 1M, causal, by the row route in each type of score, so that the types compare; normal, dsa
 *   any_k   rows 256, 16 and 1 (the last two warm) x 512K, full: the any-k route at k of 4096 to 256K, at powers of two and one above, and
 *           AUTO at 4096, the last k that it gives to another route; normal, dsa
 *   order   4096 x 128K, 1024 x 512K and 1024 x 128K (pipelined), 4096 x 16K (direct), causal, and 64 x 128K (split), full and warm: in
 *           no order, with the lowest indices of equals, in the order of indices and in that of scores; normal, dsa
 *   peers   a few shapes of matrix, all of decode, some of width: for --kernel topkit,cub,flashinfer
 *   one     the shape of the options
 *
 * Each case is repeated for every kernel named by --kernel, and these share a rotation. Cases of one list that follow one another share one
 * as far as memory and BENCH_GROUP allow.
 */
#ifndef TOPKIT_BENCH_CASES_H
#define TOPKIT_BENCH_CASES_H

#ifdef __cplusplus
extern "C" {
#endif

enum { BENCH_KERNELS = 4 };

typedef struct bench_case {
    const char *suite;
    const char *kernel; /* callee.h */
    int mate;      /* 1: the shape of the case before, by another kernel: to be measured beside it */
    int type;      /* select.h, as are the next three, which are for topkit alone */
    int route;
    int ties;
    int order;
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
    const char *kernels[BENCH_KERNELS];
    int kernel_count;
    int type;      /* -1 means all in `types` and FP32 elsewhere */
    int route, ties, order;
    int k;         /* 0 means all in `any_k` and 2048 elsewhere */
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
