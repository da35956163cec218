/* 05_select.cu: the operator. Checks its arguments, makes a plan and launches the kernel that the plan names (select.h has the contract).
 *
 * k, ties and order are run-time fields: they choose among the instantiations below. The NaN policy is fixed when this file is compiled.
 */
#include "01_row_select.cuh"
#include "02_pipelined_select.cuh"
#include "03_split_select.cuh"
#include "04_direct_select.cuh"
#include "10_any_k_select.cuh"
#include "host.h"

static int make_plan(const topkit_select_params *p, topkit_plan *plan) {
    topkit_device_facts facts;
    int route = p->route, status = topkit_score_route(p->score_type, &route);
    if (status == TOPKIT_OK) status = topkit_host_facts(&facts);
    if (status != TOPKIT_OK) return status;
    return topkit_make_plan(p->rows, p->max_length, p->k, p->order, route, &facts, plan);
}

/* Everything that can be said about the arguments without a device. */
static int check(const topkit_select_params *p) {
    if (p->rows < 0 || p->rows > TOPKIT_MAX_ROWS || p->max_length < 0 || p->max_length > TOPKIT_MAX_LENGTH) return TOPKIT_ERROR_SHAPE;
    if (p->k < 0) return TOPKIT_ERROR_K;
    if (p->score_type < TOPKIT_SCORE_F32 || p->score_type > TOPKIT_SCORE_F16) return TOPKIT_ERROR_SCORE_TYPE;
    if (p->ties != TOPKIT_TIES_ANY && p->ties != TOPKIT_TIES_LOWEST_INDEX) return TOPKIT_ERROR_OPTION;
    if (p->row_stride < 0 || (p->column_stride != 0 && p->column_stride != 1)) return TOPKIT_ERROR_STRIDE;
    if ((p->index_stride != 0 && p->index_stride < p->k) || (p->values && p->value_stride != 0 && p->value_stride < p->k))
        return TOPKIT_ERROR_STRIDE;
    if (p->rows == 0 || p->k == 0) return TOPKIT_OK;
    if ((!p->scores && p->max_length > 0) || !p->indices) return TOPKIT_ERROR_POINTER;
    const size_t score_bytes = p->score_type == TOPKIT_SCORE_F32 ? 4 : 2;
    if (!topkit_host_aligned(p->scores, score_bytes) || !topkit_host_aligned(p->values, score_bytes) ||
        !topkit_host_aligned(p->indices, 4) || !topkit_host_aligned(p->row_starts, 4) || !topkit_host_aligned(p->lengths, 4) ||
        !topkit_host_aligned(p->stats, 8))
        return TOPKIT_ERROR_POINTER;
    return TOPKIT_OK;
}

static topkit_select_job make_job(const topkit_select_params *p, const topkit_plan *plan) {
    topkit_select_job job;
    job.scores = (const float *)p->scores;
    job.row_stride = p->row_stride;
    job.starts = p->row_starts;
    job.lengths = p->lengths;
    job.rows = p->rows;
    job.max_length = p->max_length;
    job.k = p->k;
    job.order = p->order;
    job.capacity = plan->capacity;
    job.density = plan->density;
    job.width = plan->width;
    job.salt = topkit_host_seed(p->seed);
    job.indices = p->indices;
    job.index_stride = p->index_stride ? p->index_stride : p->k;
    job.values = (float *)p->values;
    job.value_stride = p->value_stride ? p->value_stride : p->k;
    job.stats = p->stats;
    /* The workspace: a header that is zero between launches (queue, counters of split rows), then what needs no zeroing. */
    job.queue = (topkit_queue *)p->workspace;
    job.row_order = (int *)((char *)p->workspace + TOPKIT_WORKSPACE_HEADER);
    job.parts = plan->parts;
    job.reciprocal = 0xffffffffu / (unsigned)plan->parts + 1;
    job.depth = plan->depth;
    job.arrivals = plan->parts != plan->cluster ? (unsigned *)(job.queue + 1) : nullptr;
    job.pool = (unsigned char *)p->workspace + TOPKIT_WORKSPACE_HEADER;
    job.slot = plan->slot;
    return job;
}

static cudaError_t launch_as(void (*kernel)(topkit_select_job), const topkit_select_params *p, const topkit_plan *plan,
                             cudaStream_t stream) {
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attributes[2] = {};
    const bool meets = plan->parts != plan->cluster; /* in memory: resident together, or not launched at all */
    config.attrs = attributes;
    if (meets) {
        attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
        attributes[config.numAttrs].val.cooperative = 1;
        config.numAttrs++;
    } else if (plan->cluster > 1) {
        attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
        attributes[config.numAttrs].val.clusterDim.y = (unsigned)plan->cluster;
        attributes[config.numAttrs].val.clusterDim.x = attributes[config.numAttrs].val.clusterDim.z = 1;
        config.numAttrs++;
    }
    if (p->early_start && plan->early_start && !meets) {
        attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[config.numAttrs].val.programmaticStreamSerializationAllowed = 1;
        config.numAttrs++;
    }
    config.gridDim = dim3((unsigned)(plan->blocks / plan->parts), (unsigned)plan->parts);
    config.blockDim = dim3((unsigned)plan->threads);
    config.dynamicSmemBytes = (size_t)plan->shared_bytes;
    config.stream = stream;
    /* Always the same limit: with the launch's own, a thread could lower what another has just asked for and not yet launched. */
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, plan->shared_limit);
    if (error == cudaSuccess && plan->cluster > 8) error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (error == cudaSuccess) error = cudaLaunchKernelEx(&config, kernel, make_job(p, plan));
    if (error != cudaSuccess) cudaGetLastError(); /* reported as our status: must not surface again in the caller's next check */
    return error;
}

static int launch(void (*kernel)(topkit_select_job), const topkit_select_params *p, const topkit_plan *plan, cudaStream_t stream) {
    return launch_as(kernel, p, plan, stream) == cudaSuccess ? TOPKIT_OK : TOPKIT_ERROR_LAUNCH;
}

/* The plan and the kernels must agree on what a launch is given. */
static_assert(TOPKIT_PLAN_ROW_THREADS == TOPKIT_ROW_THREADS && TOPKIT_PLAN_PIPELINED_THREADS == TOPKIT_PIPELINED_THREADS &&
                  TOPKIT_PLAN_SPLIT_THREADS == TOPKIT_SPLIT_THREADS && TOPKIT_PLAN_DIRECT_THREADS == TOPKIT_DIRECT_THREADS,
              "plan.h");
static_assert(TOPKIT_ROW_HEADER + TOPKIT_ROW_SAMPLE * sizeof(float) <= TOPKIT_PLAN_ROW_FIXED_SHARED, "plan.h");
static_assert(TOPKIT_PIPELINED_RING + 2 * TOPKIT_PIPELINED_ITEMS + TOPKIT_PIPELINED_SCRATCH + sizeof(topkit_pipelined_storage) <=
                  TOPKIT_PLAN_PIPELINED_SHARED,
              "plan.h");
static_assert(TOPKIT_PLAN_PIPELINED_CAPACITY == TOPKIT_PIPELINED_CAPACITY, "plan.h");
static_assert(TOPKIT_PIPELINED_CAPACITY >= TOPKIT_PLAN_MAX_K + TOPKIT_PIPELINED_SHARE, "a compaction must make room for an append");
static_assert(TOPKIT_SPLIT_HEADER <= TOPKIT_PLAN_SPLIT_FIXED_SHARED, "plan.h");
static_assert(TOPKIT_SPLIT_THREADS / 32 * TOPKIT_TILE * sizeof(float) == TOPKIT_PLAN_SPLIT_TILES_SHARED, "plan.h");
static_assert(TOPKIT_BOUNDARY * sizeof(topkit_candidate) == TOPKIT_PLAN_SPLIT_TEAM_ROW, "plan.h");
static_assert(2 * TOPKIT_TEAM_BINS * 2 == TOPKIT_PLAN_SPLIT_TEAM_PART, "plan.h");
static_assert(TOPKIT_DIRECT_HEADER <= TOPKIT_PLAN_DIRECT_FIXED_SHARED, "plan.h");
static_assert(TOPKIT_ANY_K_HEADER + TOPKIT_ROW_THREADS / 32 * TOPKIT_EMIT_STAGE * sizeof(float) <= TOPKIT_PLAN_ANY_K_FIXED_SHARED,
              "plan.h");
static_assert(sizeof(topkit_queue) == 16, "plan.c's counters lie behind it");

template <typename SCORE>
static int launch_row(const topkit_select_params *p, const topkit_plan *plan, cudaStream_t stream) {
    const bool any = p->ties == TOPKIT_TIES_ANY;
    return launch(any ? topkit_row_select_kernel<TOPKIT_ANY, SCORE> : topkit_row_select_kernel<TOPKIT_LOWEST_INDEX, SCORE>, p, plan,
                  stream);
}

template <int TIES>
static cudaError_t launch_split_as(const topkit_select_params *p, const topkit_plan *plan, cudaStream_t stream) {
    const bool all = plan->threads == TOPKIT_SPLIT_THREADS, whole = plan->depth == 0; /* parts that lie in shared memory */
    if (whole && all) return launch_as(topkit_split_resident_kernel<TIES, TOPKIT_SPLIT_THREADS>, p, plan, stream);
    if (whole) return launch_as(topkit_split_resident_kernel<TIES, TOPKIT_SPLIT_THREADS / 2>, p, plan, stream);
    if (all) return launch_as(topkit_split_select_kernel<TIES, TOPKIT_SPLIT_THREADS>, p, plan, stream);
    return launch_as(topkit_split_select_kernel<TIES, TOPKIT_SPLIT_THREADS / 2>, p, plan, stream);
}

template <int TIES>
static int launch_split(const topkit_select_params *p, const topkit_plan *plan, cudaStream_t stream) {
    cudaError_t error = launch_split_as<TIES>(p, plan, stream);
    if (error == cudaErrorCooperativeLaunchTooLarge) { /* a device shared with others, which have some of its multiprocessors */
        topkit_plan fewer = *plan;
        topkit_plan_clusters(&fewer, p->rows);
        error = launch_split_as<TIES>(p, &fewer, stream);
    }
    return error == cudaSuccess ? TOPKIT_OK : TOPKIT_ERROR_LAUNCH;
}

template <int TIES>
static int launch_direct(const topkit_select_params *p, const topkit_plan *plan, cudaStream_t stream) {
    if (plan->threads == TOPKIT_DIRECT_THREADS) return launch(topkit_direct_select_kernel<TIES, TOPKIT_DIRECT_THREADS>, p, plan, stream);
    return launch(topkit_direct_select_kernel<TIES, TOPKIT_DIRECT_THREADS / 2>, p, plan, stream);
}

static int launch_route(const topkit_select_params *p, const topkit_plan *plan, cudaStream_t stream) {
    const bool any = p->ties == TOPKIT_TIES_ANY;
    switch (plan->route) {
        case TOPKIT_ROUTE_ANY_K: /* by score the row kernel serves, with the buffer that this plan gives it */
            if (p->order != TOPKIT_ORDER_SCORE)
                return launch(any ? topkit_any_k_select_kernel<TOPKIT_ANY> : topkit_any_k_select_kernel<TOPKIT_LOWEST_INDEX>, p, plan,
                              stream);
            return launch_row<float>(p, plan, stream);
        case TOPKIT_ROUTE_ROW:
            if (p->score_type == TOPKIT_SCORE_BF16) return launch_row<topkit_bf16>(p, plan, stream);
            if (p->score_type == TOPKIT_SCORE_F16) return launch_row<topkit_f16>(p, plan, stream);
            return launch_row<float>(p, plan, stream);
        case TOPKIT_ROUTE_PIPELINED:
            return launch(any ? topkit_pipelined_select_kernel<TOPKIT_ANY> : topkit_pipelined_select_kernel<TOPKIT_LOWEST_INDEX>, p, plan,
                          stream);
        case TOPKIT_ROUTE_SPLIT:
            return any ? launch_split<TOPKIT_ANY>(p, plan, stream) : launch_split<TOPKIT_LOWEST_INDEX>(p, plan, stream);
        case TOPKIT_ROUTE_DIRECT:
            return any ? launch_direct<TOPKIT_ANY>(p, plan, stream) : launch_direct<TOPKIT_LOWEST_INDEX>(p, plan, stream);
        default: return TOPKIT_ERROR_OPTION;
    }
}

extern "C" int topkit_select_workspace(const topkit_select_params *params, size_t *bytes) {
    topkit_plan plan;
    if (!params || !bytes) return TOPKIT_ERROR_POINTER;
    const int status = make_plan(params, &plan);
    if (status == TOPKIT_OK) *bytes = plan.workspace_bytes;
    return status;
}

extern "C" int topkit_select(const topkit_select_params *params, void *stream) {
    topkit_plan plan;
    if (!params) return TOPKIT_ERROR_POINTER;
    int status = check(params);
    if (status == TOPKIT_OK) status = make_plan(params, &plan);
    if (status != TOPKIT_OK || plan.route == 0) return status;
    if (!params->workspace || !topkit_host_aligned(params->workspace, 16)) return TOPKIT_ERROR_WORKSPACE;
    status = topkit_plan_within(&plan, params->rows, params->workspace_bytes);
    if (status != TOPKIT_OK) return status;
    return launch_route(params, &plan, (cudaStream_t)stream);
}
