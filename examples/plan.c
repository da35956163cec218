/* plan.c: see plan.h. */
#include "plan.h"

#include <stdbool.h>

/* The row kernel's numbers, which 05_select.cu asserts against the kernel's own. */
enum {
    ROW_MAX_K = 4096,
    ROW_THREADS = 512,
    ROW_BLOCKS_PER_SM = 2,    /* what its registers allow */
    ROW_FIXED_SHARED = 40960, /* refiner, state and sample, at most */
    ROW_MIN_CAPACITY = 8192,  /* four times a k of 2048: a proposal for 2k scores overfills it once in a million rows */
    PIPELINED_MAX_K = 4096,
    PIPELINED_THREADS = 928,
    PIPELINED_CAPACITY = 5632,
    PIPELINED_SHARED = 232448,
    PIPELINED_MIN_LENGTH = 49152,
    QUEUE_BYTES = 16,
    SYSTEM_SHARED = 1024 /* of each resident block */
};

static int at_most(int a, int b) { return a < b ? a : b; }

/* What the row kernel's buffer must hold at the least: k and a tile (of 16-bit scores, the larger one), so that a compaction makes room,
 * and the sorter's power of two. */
static int row_least_capacity(int k) {
    int room = 1;
    while (room < k) room *= 2;
    return room > k + 1024 ? room : k + 1024;
}

int topkit_make_plan(int rows, int max_length, int k, int order, int route, const topkit_device_facts *device, topkit_plan *plan) {
    topkit_plan p = {0};
    if (!device || !plan) return TOPKIT_ERROR_POINTER;
    if (rows < 0 || rows > TOPKIT_MAX_ROWS || max_length < 0 || max_length > TOPKIT_MAX_LENGTH) return TOPKIT_ERROR_SHAPE;
    if (k < 0 || k > ROW_MAX_K) return TOPKIT_ERROR_K;
    if (order < TOPKIT_ORDER_NONE || order > TOPKIT_ORDER_SCORE) return TOPKIT_ERROR_OPTION;
    if (route != TOPKIT_ROUTE_AUTO && route != TOPKIT_ROUTE_ROW && route != TOPKIT_ROUTE_PIPELINED) return TOPKIT_ERROR_OPTION;
    if (rows == 0 || k == 0) {
        *plan = p;
        return TOPKIT_OK;
    }
    if (device->arch < 80 || device->sm_count < 1) return TOPKIT_ERROR_DEVICE;
    p.density = 128;
    p.width = 4;
    p.workspace_bytes = QUEUE_BYTES + (size_t)rows * 4;
    const bool can_pipeline = device->arch >= 90 && device->shared_per_block >= PIPELINED_SHARED &&
                              device->shared_per_sm >= PIPELINED_SHARED + SYSTEM_SHARED && device->threads_per_sm >= PIPELINED_THREADS &&
                              k <= PIPELINED_MAX_K;
    if (route == TOPKIT_ROUTE_PIPELINED && !can_pipeline) return TOPKIT_ERROR_DEVICE;
    if (route == TOPKIT_ROUTE_PIPELINED ||
        (route == TOPKIT_ROUTE_AUTO && can_pipeline && max_length >= PIPELINED_MIN_LENGTH && rows > 2 * device->sm_count)) {
        p.route = TOPKIT_ROUTE_PIPELINED;
        p.threads = PIPELINED_THREADS;
        p.capacity = PIPELINED_CAPACITY;
        p.shared_bytes = PIPELINED_SHARED;
        p.blocks = at_most(rows, device->sm_count);
        p.density = 64;
        p.width = 16;
        *plan = p;
        return TOPKIT_OK;
    }
    p.route = TOPKIT_ROUTE_ROW;
    p.threads = ROW_THREADS;
    p.capacity = 3 * k > ROW_MIN_CAPACITY ? (3 * k + 511) / 512 * 512 : ROW_MIN_CAPACITY;
    const int fits = device->shared_per_block > ROW_FIXED_SHARED ? (device->shared_per_block - ROW_FIXED_SHARED) / 8 / 512 * 512 : 0;
    if (p.capacity > fits) p.capacity = fits; /* a smaller buffer is compacted more often: slower, never wrong */
    if (p.capacity < row_least_capacity(k)) return TOPKIT_ERROR_DEVICE;
    p.shared_bytes = ROW_FIXED_SHARED + p.capacity * 8;
    const int resident =
        at_most(at_most(device->shared_per_sm / (p.shared_bytes + SYSTEM_SHARED), device->threads_per_sm / ROW_THREADS), ROW_BLOCKS_PER_SM);
    if (resident < 1) return TOPKIT_ERROR_DEVICE;
    p.blocks = at_most(rows, device->sm_count * resident);
    *plan = p;
    return TOPKIT_OK;
}

int topkit_score_route(int score_type, int *route) {
    if (score_type < TOPKIT_SCORE_F32 || score_type > TOPKIT_SCORE_F16) return TOPKIT_ERROR_SCORE_TYPE;
    if (score_type == TOPKIT_SCORE_F32) return TOPKIT_OK;
    if (*route == TOPKIT_ROUTE_AUTO) *route = TOPKIT_ROUTE_ROW;
    return *route == TOPKIT_ROUTE_ROW ? TOPKIT_OK : TOPKIT_ERROR_SCORE_TYPE;
}

const char *topkit_status_text(int status) {
    switch (status) {
        case TOPKIT_OK: return "success";
        case TOPKIT_ERROR_POINTER: return "a required pointer is null or not aligned to its elements";
        case TOPKIT_ERROR_SHAPE: return "rows or max_length is negative or above TOPKIT_MAX_ROWS or TOPKIT_MAX_LENGTH";
        case TOPKIT_ERROR_K: return "k is negative or above 4096, the most that the routes of this version support";
        case TOPKIT_ERROR_STRIDE: return "row_stride is negative, index_stride or value_stride is below k, or column_stride is not 1";
        case TOPKIT_ERROR_SCORE_TYPE: return "scores of that type are not read, or not by that route";
        case TOPKIT_ERROR_OPTION: return "ties, order or route is not one of the supported values";
        case TOPKIT_ERROR_WORKSPACE:
            return "the workspace is null, not aligned to 16 bytes or smaller than topkit_select_workspace asks for";
        case TOPKIT_ERROR_DEVICE: return "no CUDA device, or one that is older than compute capability 8.0 or has too little shared memory";
        case TOPKIT_ERROR_LAUNCH: return "the CUDA runtime refused the launch";
        default: return "unknown status";
    }
}
