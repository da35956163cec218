/* fused.h: a C-callable indexer that keeps the exact k best keys of every query and never writes scores (06_fused_indexer.cuh).
 *
 *   score[t][p] = scale[p] * sum over heads h of weight[t][h] * max(0, query[t][h] . key[p])        p in [starts[t], ends[t])
 *
 *   topkit_fused_params p = {.queries = d_q, .weights = d_w, .keys = d_k, .key_scales = d_s, .tokens = m, .heads = 64, .positions = n,
 *                            .ends = d_ends, .k = 2048, .indices = d_indices};
 *   topkit_fused_workspace(&p, &p.workspace_bytes);           pure, as in select.h
 *   cudaMalloc(&p.workspace, p.workspace_bytes);              once a stream, then cudaMemset(p.workspace, 0, ...) once
 *   int status = topkit_fused(&p, stream);                    checks everything before the launch; capturable in a graph
 *
 * Queries and keys are FP8 e4m3 vectors of 128 elements. Keys are contiguous, or paged: position p of a query's request is slot p mod 64 of
 * page page_table[tables[t]][p / 64]. No key outside a query's range influences its result. A result is min(k, range) distinct indices
 * relative to the start of the range, as a prefix, then -1 up to k. It is the exact Top-K of the scores as the kernel computes them: a dot
 * product as the tensor cores give it, the sum over heads in FP32 in a fixed order (fused_score.cuh). topkit_fused_scores writes those very
 * scores to a matrix, for those who want to compare or to use another selector.
 *
 * Errors: topkit_status of select.h. Nothing is launched and nothing is written unless it is TOPKIT_OK.
 *   TOPKIT_ERROR_SHAPE   tokens negative or above TOPKIT_MAX_ROWS / TOPKIT_FUSED_MAX_SPLITS, positions out of range, heads not 32 or 64
 *   TOPKIT_ERROR_K       k below 0 or above TOPKIT_FUSED_MAX_K
 *   TOPKIT_ERROR_STRIDE  index_stride or value_stride below k; matrix_stride negative, or below positions where no ranges are given; page
 *                        strides too small or not a multiple of 16 bytes
 *   TOPKIT_ERROR_OPTION  ties or order is not one of the listed values, splits is negative or above TOPKIT_FUSED_MAX_SPLITS, or
 *                        above 1 with more than TOPKIT_FUSED_SPLIT_TOKENS tokens or with k above 2048
 *   TOPKIT_ERROR_DEVICE  no device of compute capability 9.0 (the kernel's matrix instructions exist nowhere else)
 */
#ifndef TOPKIT_FUSED_H
#define TOPKIT_FUSED_H

#include "select.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TOPKIT_FUSED_DEPTH = 128, TOPKIT_FUSED_PAGE = 64, TOPKIT_FUSED_MAX_K = 4096 };
enum { TOPKIT_FUSED_MAX_SPLITS = 128, TOPKIT_FUSED_SPLIT_TOKENS = 2048 };

/* All pointers are device pointers. Fields that are zero take the default named behind them. */
typedef struct topkit_fused_params {
    const void *queries;       /* (tokens x heads x 128) e4m3, 16-byte aligned */
    const float *weights;      /* (tokens x heads) */
    const void *keys;          /* (positions x 128) e4m3, or (pages x 64 x 128) where page_table is set; 16-byte aligned */
    const float *key_scales;   /* (positions), or (pages x 64) where page_table is set; null: 1 */
    const int *page_table;     /* (tables x table_stride) page numbers; null: keys are contiguous */
    long long table_stride;    /* entries from one request's table to the next */
    const int *tables;         /* (tokens) the table of each query; null: 0 */
    long long page_bytes;      /* from one page's keys to the next's, a multiple of 16; 0: 64 * 128 */
    long long scale_stride;    /* floats from one page's scales to the next's; 0: 64 */
    int tokens, heads;         /* queries; 32 or 64 heads each */
    int positions;             /* no range ends behind it: ends above it are cut to it */
    const int *starts, *ends;  /* (tokens) range of each query; null: 0, and positions; a negative start is 0. Empty where the
                                  end is not above the start */
    int k;
    int ties;                  /* TOPKIT_TIES_ANY or TOPKIT_TIES_LOWEST_INDEX */
    int order;                 /* TOPKIT_ORDER_NONE, TOPKIT_ORDER_INDEX or TOPKIT_ORDER_SCORE */
    int splits;                /* blocks that share a range; 0: by shape */
    unsigned seed;             /* 0: drawn anew for every call; anything else: itself. As in select.h: never changes the answer */
    int *indices;              /* (tokens x index_stride) */
    long long index_stride;    /* >= k; 0: k */
    float *values;             /* optional (tokens x value_stride): the scores; -inf behind the prefix */
    long long value_stride;    /* >= k; 0: k */
    topkit_select_stats *stats; /* optional */
    void *workspace;           /* 16-byte aligned, zeroed once before its first use, one a stream */
    size_t workspace_bytes;
} topkit_fused_params;

/* Bytes of workspace that both functions below need on the current device: 16 KB, and at most 64 KB for each query (and split) in flight;
 * nothing grows with the positions. Reads tokens, heads, positions, k and splits only. A larger workspace serves as well, and one that is
 * large enough for several shapes serves them all, without being zeroed again. */
int topkit_fused_workspace(const topkit_fused_params *params, size_t *bytes);

/* Enqueues the selection on `stream` (a cudaStream_t). */
int topkit_fused(const topkit_fused_params *params, void *stream);

/* Enqueues the scores alone: matrix[t * matrix_stride + i] is the score of position starts[t] + i. Nothing else of the matrix is written.
 * k, ties, order, splits and the outputs are not looked at. */
int topkit_fused_scores(const topkit_fused_params *params, float *matrix, long long matrix_stride, void *stream);

#ifdef __cplusplus
}
#endif
#endif
