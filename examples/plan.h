/* plan.h: which kernel, grid, shared memory and workspace serve a shape. Pure C11: no CUDA, no state, the same answer every time.
 *
 * topkit_make_plan reads the shape and the device's facts and nothing else, so that a plan may be made during stream capture, on a
 * machine without a GPU, and in a test.
 *
 *   topkit_device_facts h200 = {.arch = 90, .sm_count = 132, .shared_per_block = 232448, .shared_per_sm = 233472, .threads_per_sm = 2048};
 *   topkit_plan plan;
 *   int status = topkit_make_plan(4096, 131072, 2048, TOPKIT_ORDER_NONE, TOPKIT_ROUTE_AUTO, &h200, &plan);
 */
#ifndef TOPKIT_PLAN_H
#define TOPKIT_PLAN_H

#include "select.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes at the front of every workspace that are zero between launches: the queue, and counters of split rows. No route leaves anything
 * else there, so that a workspace may go from one route and shape to another. */
#define TOPKIT_WORKSPACE_HEADER 1024

/* The kernels' own numbers, as 05_select.cu asserts: threads, and bytes of shared memory that do not depend on the shape, at most. */
enum {
    TOPKIT_PLAN_MAX_K = 4096,             /* of any route but the one for any k, where a caller asks for it */
    TOPKIT_PLAN_ROW_THREADS = 512,        /* any k too */
    TOPKIT_PLAN_ROW_FIXED_SHARED = 40960, /* refiner, state and sample */
    TOPKIT_PLAN_PIPELINED_THREADS = 928,
    TOPKIT_PLAN_PIPELINED_CAPACITY = 5632,
    TOPKIT_PLAN_PIPELINED_SHARED = 232448,  /* all of it */
    TOPKIT_PLAN_SPLIT_THREADS = 512,        /* or a half of that */
    TOPKIT_PLAN_SPLIT_FIXED_SHARED = 26624, /* refiner, team and state */
    TOPKIT_PLAN_SPLIT_TILES_SHARED = 32768, /* a tile a warp */
    TOPKIT_PLAN_SPLIT_TEAM_ROW = 2048,      /* bytes of workspace: a row's, and of each of its blocks */
    TOPKIT_PLAN_SPLIT_TEAM_PART = 2048,
    TOPKIT_PLAN_DIRECT_THREADS = 512, /* or half of them */
    TOPKIT_PLAN_DIRECT_FIXED_SHARED = 4864,
    TOPKIT_PLAN_ANY_K_FIXED_SHARED = 58112
};

typedef struct topkit_device_facts {
    int arch;             /* compute capability, major * 10 + minor */
    int sm_count;         /* multiprocessors that the launch may fill */
    int shared_per_block; /* bytes a block may opt in to */
    int shared_per_sm;    /* bytes a multiprocessor has, 1 KB of which each resident block loses to the system */
    int threads_per_sm;
} topkit_device_facts;

/* Of parts that are read by tiles: candidates that a block's buffer holds, tiles that a warp fetches ahead, a block's shared memory. */
typedef struct topkit_plan_tiles {
    int capacity, depth, shared_bytes;
} topkit_plan_tiles;

typedef struct topkit_plan {
    int route;              /* TOPKIT_ROUTE_ROW, ...; 0 when there is nothing to do (rows or k is 0) */
    int blocks;             /* grid */
    int threads;            /* a block */
    int capacity;           /* candidates that a block's buffer holds */
    int shared_bytes;       /* dynamic shared memory of a block */
    int shared_limit;       /* .. and the most that a launch on this device may ask for */
    int density, width;     /* sampler: scores for one sample, samples in one vector */
    int parts;              /* split rows: blocks of a row; 1 otherwise */
    int cluster;            /* .. that are a cluster where parts == cluster; else the launch is cooperative, and such clusters would do */
    long long slot;         /* .. bytes of workspace a row, of a cooperative launch; else 0 */
    int depth;              /* .. tiles that a warp fetches ahead; 0: parts lie in shared memory whole */
    topkit_plan_tiles tiles; /* .. of clusters in place of a cooperative launch, whose parts are longer */
    int early_start;        /* 1: the device can start a launch before the kernel ahead of it has ended (select.h) */
    size_t workspace_bytes; /* of the launch */
} topkit_plan;

/* Returns a topkit_status and fills `plan` only when it is TOPKIT_OK. */
int topkit_make_plan(int rows, int max_length, int k, int order, int route, const topkit_device_facts *device, topkit_plan *plan);

/* The same with clusters, where the launch would be cooperative: they need no workspace, and never too many multiprocessors. */
void topkit_plan_clusters(topkit_plan *plan, int rows);

/* Fits a plan to a workspace of `bytes`: with less than it asks for, split rows get clusters, so that a workspace made for many rows serves
 * fewer, which may be split further. Returns a topkit_status; the plan is unchanged where it is not TOPKIT_OK. */
int topkit_plan_within(topkit_plan *plan, int rows, size_t bytes);

/* The route for scores of a type, where *route is the one asked for: 16-bit scores are read by the row kernel alone, which is then what
 * AUTO means. Returns a topkit_status. */
int topkit_score_route(int score_type, int *route);

#ifdef __cplusplus
}
#endif
#endif
