/* callee.h: the selectors that the driver can call, ours and its peers, behind one pair of functions.
 *
 *   const bench_callee *callee = bench_find_callee("topkit");    or "cub", "flashinfer"; null for what is unknown or not built in
 *   callee->workspace(&call, &bytes);  ... allocate, zero ...  callee->enqueue(&call, stream);
 *
 * `workspace` reads the shape alone, and refuses shapes that the callee does not take: with a line on stderr and 1.
 */
#ifndef TOPKIT_BENCH_CALLEE_H
#define TOPKIT_BENCH_CALLEE_H

#include "cases.h"
#include "select.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_call {
    const bench_case *shape;
    const void *scores; /* row stride = columns */
    const int *lengths;
    int *indices; /* row stride = k */
    void *workspace;
    size_t workspace_bytes;
    topkit_select_stats *stats; /* may be null */
} bench_call;

typedef struct bench_callee {
    const char *name;
    int writes_padding; /* 0: leaves the places behind a row's prefix alone, so that they have to hold -1 before the call */
    int (*workspace)(const bench_call *call, size_t *bytes);
    int (*enqueue)(const bench_call *call, void *stream);
} bench_callee;

const bench_callee *bench_find_callee(const char *name);

int bench_cub_available(void); /* 1 when built with a CUB that has a batched Top-K (cub_topk.cu) */
int bench_cub_workspace(const bench_call *call, size_t *bytes);
int bench_cub_enqueue(const bench_call *call, void *stream);

int bench_flashinfer_available(void); /* 1 when built with FlashInfer's headers (flashinfer_topk.cu) */
int bench_flashinfer_workspace(const bench_call *call, size_t *bytes);
int bench_flashinfer_enqueue(const bench_call *call, void *stream);

#ifdef __cplusplus
}
#endif
#endif
