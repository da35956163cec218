/* fused.cu: the host side of the fused indexer: checks the arguments, shares out blocks and workspace, launches (fused.h has the contract).
 *
 * One block a multiprocessor. Where there are fewer runs of queries than multiprocessors, the ranges are split among several blocks; a
 * block then collects its share of what passes a gate that all splits of a query propose alike, and the last to finish refines.
 */
#include "06_fused_indexer.cuh"
#include "host.h"

enum {
    CAPACITY = 6144,       /* with its sample of 16 KB: 64 KB a query */
    SPLIT_CAPACITY = 4096, /* and 16 KB of merged pairs */
    SPLIT_MAX_K = 2048,
    SPLIT_MIN_POSITIONS = 2048 /* of a split: about what its sample costs at k = 2048 */
};
static_assert(CAPACITY * 8 + TOPKIT_FUSED_SAMPLE * 4 <= 65536, "fused.h: 64 KB a query");
static_assert(SPLIT_CAPACITY * 8 + TOPKIT_FUSED_SAMPLE * 4 + SPLIT_MAX_K * 8 <= 65536, "fused.h: 64 KB a query and split");
enum { APPEND = 16 * TOPKIT_FUSED_HITS }; /* most candidates that a warp appends to a query's */
static_assert(CAPACITY >= TOPKIT_FUSED_MAX_K + APPEND && SPLIT_CAPACITY >= SPLIT_MAX_K + APPEND, "a compacted buffer has room for one");

typedef struct fused_plan {
    int blocks, splits, capacity, together, pieces;
    size_t merged_at, bytes;
} fused_plan;

/* What lies at the front of a workspace, whatever the shape: all that must be zero before a launch, and is again behind it. The rest may
 * hold what an earlier launch of another shape has left. */
typedef struct fused_front {
    topkit_queue queue;
    topkit_fused_merge merges[TOPKIT_FUSED_SPLIT_TOKENS];
} fused_front;
static_assert(sizeof(fused_front) % 16 == 0, "the buffers behind it are aligned");

static int at_most(int a, int b) { return a < b ? a : b; }

/* Everything that can be said without a device and without looking at the outputs. */
static int check_shape(const topkit_fused_params *p) {
    if (p->tokens < 0 || p->tokens > TOPKIT_MAX_ROWS / TOPKIT_FUSED_MAX_SPLITS || p->positions < 0 || p->positions > TOPKIT_MAX_LENGTH)
        return TOPKIT_ERROR_SHAPE;
    if (p->heads != 32 && p->heads != 64) return TOPKIT_ERROR_SHAPE;
    if (p->k < 0 || p->k > TOPKIT_FUSED_MAX_K) return TOPKIT_ERROR_K;
    if (p->splits < 0 || p->splits > TOPKIT_FUSED_MAX_SPLITS) return TOPKIT_ERROR_OPTION;
    if (p->splits > 1 && (p->k > SPLIT_MAX_K || p->tokens > TOPKIT_FUSED_SPLIT_TOKENS)) return TOPKIT_ERROR_OPTION;
    return TOPKIT_OK;
}

static int check_inputs(const topkit_fused_params *p) {
    if (p->page_bytes % 16 || (p->page_bytes && p->page_bytes < TOPKIT_FUSED_PAGE * TOPKIT_FUSED_ROW) ||
        (p->scale_stride && p->scale_stride < TOPKIT_FUSED_PAGE) || p->table_stride < 0)
        return TOPKIT_ERROR_STRIDE;
    if (p->tokens == 0) return TOPKIT_OK;
    if (!p->queries || !p->weights || (!p->keys && p->positions > 0)) return TOPKIT_ERROR_POINTER;
    if (!topkit_host_aligned(p->queries, 16) || !topkit_host_aligned(p->keys, 16) || !topkit_host_aligned(p->weights, 4) ||
        !topkit_host_aligned(p->key_scales, 4) || !topkit_host_aligned(p->page_table, 4) || !topkit_host_aligned(p->tables, 4) ||
        !topkit_host_aligned(p->starts, 4) || !topkit_host_aligned(p->ends, 4))
        return TOPKIT_ERROR_POINTER;
    return TOPKIT_OK;
}

static int check_outputs(const topkit_fused_params *p) {
    if (p->ties != TOPKIT_TIES_ANY && p->ties != TOPKIT_TIES_LOWEST_INDEX) return TOPKIT_ERROR_OPTION;
    if (p->order < TOPKIT_ORDER_NONE || p->order > TOPKIT_ORDER_SCORE) return TOPKIT_ERROR_OPTION;
    if ((p->index_stride != 0 && p->index_stride < p->k) || (p->values && p->value_stride != 0 && p->value_stride < p->k))
        return TOPKIT_ERROR_STRIDE;
    if (p->tokens == 0 || p->k == 0) return TOPKIT_OK;
    if (!p->indices || !topkit_host_aligned(p->indices, 4) || !topkit_host_aligned(p->values, 4) || !topkit_host_aligned(p->stats, 8))
        return TOPKIT_ERROR_POINTER;
    return TOPKIT_OK;
}

/* Queries that make a run. A block answers them one after another, about 28 us each, but scans their keys once: 0.4 us a tile. Where blocks
 * are many and keys are few, the former counts more; `most` where the caller has said how to split. */
static int queries_together(const topkit_fused_params *p, int most, int blocks) {
    const double work = (double)p->tokens * p->positions / 64.0 * 0.4 / blocks; /* us of each block, if runs were of one query */
    int together = p->splits > 0 ? most : at_most(most, (p->tokens + blocks - 1) / blocks);
    while (together < most && together * together * 28.0 < work) together++;
    return together > 0 ? together : 1;
}

static int make_plan(const topkit_fused_params *p, fused_plan *plan) {
    topkit_device_facts facts;
    const int status = topkit_host_facts(&facts);
    if (status != TOPKIT_OK) return status;
    if (facts.arch != 90 || facts.shared_per_block < (int)TOPKIT_FUSED_SHARED) return TOPKIT_ERROR_DEVICE;
    const int each = TOPKIT_FUSED_COLUMNS / p->heads;
    plan->together = queries_together(p, each, facts.sm_count);
    plan->pieces = (p->tokens + plan->together - 1) / plan->together;
    plan->splits = p->splits;
    if (plan->splits == 0) {
        plan->splits = plan->pieces > 0 ? at_most(facts.sm_count / plan->pieces, p->positions / SPLIT_MIN_POSITIONS) : 1;
        plan->splits = at_most(plan->splits, TOPKIT_FUSED_MAX_SPLITS);
        if (plan->splits < 1 || p->k > SPLIT_MAX_K || p->tokens > TOPKIT_FUSED_SPLIT_TOKENS) plan->splits = 1;
    }
    plan->capacity = plan->splits > 1 ? SPLIT_CAPACITY : CAPACITY;
    plan->blocks = at_most(plan->pieces * plan->splits, facts.sm_count);
    const size_t buffer = (size_t)plan->capacity * sizeof(topkit_candidate) + TOPKIT_FUSED_SAMPLE * sizeof(float);
    const size_t merges = plan->splits > 1 ? (size_t)p->tokens : 0;
    plan->merged_at = sizeof(fused_front) + (size_t)plan->blocks * 2 * (size_t)each * buffer;
    plan->bytes = plan->merged_at + merges * (size_t)plan->splits * (size_t)p->k * sizeof(topkit_candidate);
    return TOPKIT_OK;
}

static topkit_fused_job make_job(const topkit_fused_params *p, const fused_plan *plan) {
    topkit_fused_job job = {};
    fused_front *front = (fused_front *)p->workspace;
    job.out.k = p->k;
    job.out.order = p->order;
    job.out.capacity = plan->capacity;
    job.out.salt = topkit_host_seed(p->seed);
    job.out.indices = p->indices;
    job.out.index_stride = p->index_stride ? p->index_stride : p->k;
    job.out.values = p->values;
    job.out.value_stride = p->value_stride ? p->value_stride : p->k;
    job.out.stats = p->stats;
    job.out.queue = &front->queue;
    job.queries = (const unsigned char *)p->queries;
    job.keys = (const unsigned char *)p->keys;
    job.weights = p->weights;
    job.scales = p->key_scales;
    job.page_table = p->page_table;
    job.table_stride = p->table_stride;
    job.page_bytes = p->page_table && p->page_bytes ? p->page_bytes : TOPKIT_FUSED_PAGE * TOPKIT_FUSED_ROW;
    job.scale_stride = p->page_table && p->scale_stride ? p->scale_stride : (long long)TOPKIT_FUSED_PAGE;
    job.tables = p->tables;
    job.starts = p->starts;
    job.ends = p->ends;
    job.tokens = p->tokens;
    job.positions = p->positions;
    job.splits = plan->splits;
    job.together = plan->together;
    job.pieces = plan->pieces;
    job.merges = front->merges;
    job.buffers = (unsigned char *)(front + 1);
    job.merged = (topkit_candidate *)((unsigned char *)p->workspace + plan->merged_at);
    return job;
}

static int launch(const topkit_fused_params *p, const fused_plan *plan, const topkit_fused_job *job, cudaStream_t stream) {
    const bool any = p->ties == TOPKIT_TIES_ANY;
    void (*const wide)(topkit_fused_job) = any ? topkit_fused_kernel<TOPKIT_ANY, 64> : topkit_fused_kernel<TOPKIT_LOWEST_INDEX, 64>;
    void (*const narrow)(topkit_fused_job) = any ? topkit_fused_kernel<TOPKIT_ANY, 32> : topkit_fused_kernel<TOPKIT_LOWEST_INDEX, 32>;
    void (*const kernel)(topkit_fused_job) = p->heads == 64 ? wide : narrow;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)plan->blocks);
    config.blockDim = dim3(TOPKIT_FUSED_THREADS);
    config.dynamicSmemBytes = TOPKIT_FUSED_SHARED;
    config.stream = stream;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)TOPKIT_FUSED_SHARED) != cudaSuccess ||
        cudaLaunchKernelEx(&config, kernel, *job) != cudaSuccess) {
        cudaGetLastError(); /* reported as our status: must not surface again in the caller's next check */
        return TOPKIT_ERROR_LAUNCH;
    }
    return TOPKIT_OK;
}

static int check_workspace(const topkit_fused_params *p, const fused_plan *plan) {
    return !p->workspace || !topkit_host_aligned(p->workspace, 16) || p->workspace_bytes < plan->bytes ? TOPKIT_ERROR_WORKSPACE : TOPKIT_OK;
}

extern "C" int topkit_fused_workspace(const topkit_fused_params *params, size_t *bytes) {
    fused_plan plan;
    if (!params || !bytes) return TOPKIT_ERROR_POINTER;
    int status = check_shape(params);
    if (status == TOPKIT_OK) status = make_plan(params, &plan);
    if (status == TOPKIT_OK) *bytes = plan.bytes;
    return status;
}

extern "C" int topkit_fused(const topkit_fused_params *params, void *stream) {
    fused_plan plan;
    if (!params) return TOPKIT_ERROR_POINTER;
    int status = check_shape(params);
    if (status == TOPKIT_OK) status = check_inputs(params);
    if (status == TOPKIT_OK) status = check_outputs(params);
    if (status == TOPKIT_OK) status = make_plan(params, &plan);
    if (status != TOPKIT_OK || params->tokens == 0 || params->k == 0) return status;
    status = check_workspace(params, &plan);
    if (status != TOPKIT_OK) return status;
    const topkit_fused_job job = make_job(params, &plan);
    return launch(params, &plan, &job, (cudaStream_t)stream);
}

extern "C" int topkit_fused_scores(const topkit_fused_params *params, float *matrix, long long matrix_stride, void *stream) {
    fused_plan plan;
    if (!params) return TOPKIT_ERROR_POINTER;
    topkit_fused_params p = *params;
    p.k = 0;
    p.ties = TOPKIT_TIES_ANY;
    p.splits = 1;
    int status = check_shape(&p);
    if (status == TOPKIT_OK) status = check_inputs(&p);
    if (status == TOPKIT_OK && (!matrix || !topkit_host_aligned(matrix, 4))) status = TOPKIT_ERROR_POINTER;
    const int longest = p.starts || p.ends || p.tokens < 2 ? 0 : p.positions; /* ranges that are on the device are the caller's care */
    if (status == TOPKIT_OK && matrix_stride < longest) status = TOPKIT_ERROR_STRIDE;
    if (status == TOPKIT_OK) status = make_plan(&p, &plan);
    if (status != TOPKIT_OK || p.tokens == 0) return status;
    plan.bytes = sizeof(fused_front); /* nothing is collected */
    status = check_workspace(&p, &plan);
    if (status != TOPKIT_OK) return status;
    topkit_fused_job job = make_job(&p, &plan);
    job.matrix = matrix;
    job.matrix_stride = matrix_stride;
    return launch(&p, &plan, &job, (cudaStream_t)stream);
}
