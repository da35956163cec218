/* select.h: the operator, a C-callable exact Top-K over ragged rows of scores (examples/05_select.cu).
 *
 *   topkit_select_params p = {.scores = d_scores, .row_stride = n, .rows = m, .max_length = n, .lengths = d_lengths,
 *                             .k = 2048, .indices = d_indices};
 *   topkit_select_workspace(&p, &p.workspace_bytes);          pure: no allocation, no launch, legal during stream capture
 *   cudaMalloc(&p.workspace, p.workspace_bytes);              once a stream, then cudaMemset(p.workspace, 0, ...) once
 *   int status = topkit_select(&p, stream);                   checks everything before the launch; capturable in a graph
 *
 * A row r is the `lengths[r]` scores from `scores + r * row_stride + row_starts[r]`. Its result is min(k, length) distinct indices,
 * relative to the row's start, as a prefix of `indices + r * index_stride`, then -1 up to k. The answer is exact, always.
 * docs/contract.md states the whole contract.
 *
 * Errors: every function returns a topkit_status. Nothing is launched and nothing is written unless it is TOPKIT_OK.
 */
#ifndef TOPKIT_SELECT_H
#define TOPKIT_SELECT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum topkit_status {
    TOPKIT_OK = 0,
    TOPKIT_ERROR_POINTER = 1,    /* a required pointer is null, or not aligned to its elements */
    TOPKIT_ERROR_SHAPE = 2,      /* rows or max_length negative, or above TOPKIT_MAX_ROWS or TOPKIT_MAX_LENGTH */
    TOPKIT_ERROR_K = 3,          /* k negative, or above what the route supports in this order */
    TOPKIT_ERROR_STRIDE = 4,     /* row_stride negative, index_stride or value_stride below k, column_stride other than 1 */
    TOPKIT_ERROR_SCORE_TYPE = 5, /* not one of the listed score types, or one that the route does not read */
    TOPKIT_ERROR_OPTION = 6,     /* ties, order or route is not one of the listed values, or the route does not take rows so long */
    TOPKIT_ERROR_WORKSPACE = 7,  /* workspace null, misaligned, or smaller than needed: topkit_select_workspace */
    TOPKIT_ERROR_DEVICE = 8,     /* no device, or one that is older than compute capability 8.0 or lacks shared memory */
    TOPKIT_ERROR_LAUNCH = 9      /* the CUDA runtime refused the launch; cudaGetLastError has been consumed */
} topkit_status;

enum { TOPKIT_SCORE_F32 = 0, TOPKIT_SCORE_BF16 = 1, TOPKIT_SCORE_F16 = 2 };                   /* score_type */
enum { TOPKIT_TIES_ANY = 0, TOPKIT_TIES_LOWEST_INDEX = 1 };                                   /* ties */
enum { TOPKIT_ORDER_NONE = 0, TOPKIT_ORDER_INDEX = 1, TOPKIT_ORDER_SCORE = 2 };               /* order */
enum { TOPKIT_ROUTE_AUTO = 0, TOPKIT_ROUTE_ROW = 1, TOPKIT_ROUTE_PIPELINED = 2, TOPKIT_ROUTE_SPLIT = 3, TOPKIT_ROUTE_DIRECT = 4,
       TOPKIT_ROUTE_ANY_K = 5 };

#define TOPKIT_MAX_LENGTH 2147418112 /* 2^31 - 2^16: room for a tile's overshoot in 32-bit index arithmetic */
#define TOPKIT_MAX_ROWS 2147418112   /* likewise: every block claims one row too many */

/* Counters of one or more calls, added to with atomics: zero them before the first call. */
typedef struct topkit_select_stats {
    unsigned long long rows;        /* rows longer than k, the ones that needed a selection */
    unsigned long long admitted;    /* scores that passed the threshold of the moment and were collected, recoveries included */
    unsigned long long compactions; /* times that a full candidate buffer was cut back to its k best */
    unsigned long long recoveries;  /* rows whose threshold let fewer than k scores pass, and which were read a second time */
} topkit_select_stats;

/* All pointers are device pointers. Fields that are zero take the default named behind them. */
typedef struct topkit_select_params {
    const void *scores;        /* rows x row_stride elements of score_type, any element alignment */
    int score_type;            /* TOPKIT_SCORE_F32; BF16 and F16 are read by the row route, which AUTO then takes */
    long long row_stride;      /* elements from one row to the next, >= 0; rows may overlap */
    long long column_stride;   /* elements from one score to the next: 1, or 0 which means 1; anything else is refused */
    const int *row_starts;     /* (rows) first column of each row, >= 0; null: 0 */
    const int *lengths;        /* (rows) scores in each row; below 0 counts as 0, above max_length as max_length; null: max_length */
    int rows;
    int max_length;
    int k;
    int ties;                  /* TOPKIT_TIES_ANY; TOPKIT_TIES_LOWEST_INDEX makes the selected set deterministic */
    int order;                 /* TOPKIT_ORDER_NONE: order is unspecified; INDEX: ascending; SCORE: descending, equal scores by index */
    int route;                 /* TOPKIT_ROUTE_AUTO: by shape; a kernel of examples/ otherwise */
    int early_start;           /* 1: programmatic dependent launch. The kernel may be brought up while the one ahead of it on the stream
                                  ends, and waits for that end before it reads anything. It makes no difference before 9.0, and where
                                  the blocks of a long row meet in memory: that launch is cooperative */
    unsigned seed;             /* 0: drawn anew for every call by the host; anything else: itself. It chooses where rows are sampled and in
                                  which order repeated rows are read: it changes the time of rows that were made to cost most, never the
                                  answer. Under graph replay a call keeps its seed */
    int *indices;              /* (rows x index_stride) */
    long long index_stride;    /* elements from one row's result to the next, >= k; 0: k */
    void *values;              /* optional (rows x value_stride) of score_type: the input's own bits; -inf behind the prefix */
    long long value_stride;    /* >= k; 0: k */
    topkit_select_stats *stats; /* optional */
    void *workspace;           /* 16-byte aligned, zeroed once before its first use, one a stream; may be null where the query says 0 */
    size_t workspace_bytes;
} topkit_select_params;

/* Bytes of workspace that topkit_select makes use of for this shape on the current device. Where the blocks of a long row meet in memory it
 * does with less, 1024 + 4 * rows, by leaving the row to a cluster. Reads score_type, rows, max_length, k, order and route only. */
int topkit_select_workspace(const topkit_select_params *params, size_t *bytes);

/* Enqueues the selection on `stream` (a cudaStream_t; null is the legacy default stream). */
int topkit_select(const topkit_select_params *params, void *stream);

/* One line of English for a status, never null. */
const char *topkit_status_text(int status);

#ifdef __cplusplus
}
#endif
#endif
