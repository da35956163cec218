/* 01_row_select.cu: runs the row kernel of 01_row_select.cuh on ragged random rows and checks every row against a sort.
 *
 *   01_row_select [rows] [columns] [k]          defaults: 64 16384 512
 *
 * Prints the time of one launch. Exit code 0: every row is exact; 1: some row is not; 2: no plan for such a shape;
 * 77: there is no device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "01_row_select.cuh"
#include "plan.h"

static int larger_first(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* A row is right when its indices are distinct and inside, padded with -1, and their scores are the k largest of the row. */
static bool row_is_exact(const float *scores, int length, const int *indices, int k, float *sorted, float *chosen, unsigned char *seen) {
    const int wanted = length < k ? length : k;
    memset(seen, 0, (size_t)length + 1);
    for (int j = 0; j < k; j++) {
        if (j >= wanted) {
            if (indices[j] != -1) return false;
            continue;
        }
        if (indices[j] < 0 || indices[j] >= length || seen[indices[j]]) return false;
        seen[indices[j]] = 1;
        chosen[j] = scores[indices[j]];
    }
    memcpy(sorted, scores, (size_t)length * sizeof(float));
    qsort(sorted, (size_t)length, sizeof(float), larger_first);
    qsort(chosen, (size_t)wanted, sizeof(float), larger_first);
    for (int j = 0; j < wanted; j++) {
        if (sorted[j] != chosen[j]) return false;
    }
    return true;
}

static void require(cudaError_t status, const char *what) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "01_row_select: %s: %s\n", what, cudaGetErrorString(status));
    exit(1);
}

int main(int argc, char **argv) {
    const int rows = argc > 1 ? atoi(argv[1]) : 64, columns = argc > 2 ? atoi(argv[2]) : 16384, k = argc > 3 ? atoi(argv[3]) : 512;
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        puts("01_row_select: skipped, there is no CUDA device");
        return 77;
    }
    topkit_device_facts facts = {90, 1, 0, 0, 0};
    topkit_plan plan;
    require(cudaDeviceGetAttribute(&facts.sm_count, cudaDevAttrMultiProcessorCount, 0), "device");
    require(cudaDeviceGetAttribute(&facts.shared_per_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), "device");
    require(cudaDeviceGetAttribute(&facts.shared_per_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0), "device");
    require(cudaDeviceGetAttribute(&facts.threads_per_sm, cudaDevAttrMaxThreadsPerMultiProcessor, 0), "device");
    const int status = topkit_make_plan(rows, columns, k, TOPKIT_ORDER_NONE, TOPKIT_ROUTE_ROW, &facts, &plan);
    if (status != TOPKIT_OK || plan.route == 0) {
        fprintf(stderr, "01_row_select: %s\n", status == TOPKIT_OK ? "nothing to do" : topkit_status_text(status));
        return 2;
    }

    const size_t elements = (size_t)rows * (size_t)columns;
    float *scores = (float *)malloc(elements * sizeof(float));
    int *lengths = (int *)malloc((size_t)rows * sizeof(int)), *indices = (int *)malloc((size_t)rows * (size_t)k * sizeof(int));
    float *sorted = (float *)malloc((size_t)columns * sizeof(float)), *chosen = (float *)malloc((size_t)k * sizeof(float));
    unsigned char *seen = (unsigned char *)malloc((size_t)columns + 1);
    if (!scores || !lengths || !indices || !sorted || !chosen || !seen) return 1;
    unsigned state = 1;
    for (size_t i = 0; i < elements; i++) {
        state = state * 1664525u + 1013904223u;
        scores[i] = (float)(state >> 8) * 0x1p-24f;
    }
    for (int r = 0; r < rows; r++) lengths[r] = columns - (int)((long long)columns * r / (2 * rows)); /* from columns down to half of it */

    topkit_select_job a;
    memset(&a, 0, sizeof a);
    float *d_scores;
    int *d_lengths;
    void *workspace;
    require(cudaMalloc((void **)&d_scores, elements * sizeof(float)), "memory for the scores");
    require(cudaMalloc((void **)&d_lengths, (size_t)rows * sizeof(int)), "memory for the lengths");
    require(cudaMalloc((void **)&a.indices, (size_t)rows * (size_t)k * sizeof(int)), "memory for the indices");
    require(cudaMalloc(&workspace, plan.workspace_bytes), "workspace");
    require(cudaMemset(workspace, 0, plan.workspace_bytes), "workspace"); /* once: the kernel leaves it zeroed */
    require(cudaMemcpy(d_scores, scores, elements * sizeof(float), cudaMemcpyHostToDevice), "scores");
    require(cudaMemcpy(d_lengths, lengths, (size_t)rows * sizeof(int), cudaMemcpyHostToDevice), "lengths");
    a.scores = d_scores;
    a.row_stride = columns;
    a.lengths = d_lengths;
    a.rows = rows;
    a.max_length = columns;
    a.k = k;
    a.order = TOPKIT_ORDER_NONE;
    a.capacity = plan.capacity;
    a.density = 128;
    a.width = 4;
    a.salt = 1; /* scores that are random: nobody who might know it means harm */
    a.index_stride = k;
    a.queue = (topkit_queue *)workspace;
    a.row_order = (int *)(a.queue + 1);

    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)plan.blocks);
    config.blockDim = dim3((unsigned)plan.threads);
    config.dynamicSmemBytes = (size_t)plan.shared_bytes;
    auto kernel = topkit_row_select_kernel<TOPKIT_ANY>;
    require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, plan.shared_bytes), "shared memory");
    cudaEvent_t start, stop;
    require(cudaEventCreate(&start), "event");
    require(cudaEventCreate(&stop), "event");
    float milliseconds = 0;
    for (int round = 0; round < 2; round++) { /* the first round loads the kernel */
        require(cudaEventRecord(start, 0), "event");
        require(cudaLaunchKernelEx(&config, kernel, a), "launch");
        require(cudaEventRecord(stop, 0), "event");
        require(cudaEventSynchronize(stop), "kernel");
        require(cudaEventElapsedTime(&milliseconds, start, stop), "event");
    }
    require(cudaMemcpy(indices, a.indices, (size_t)rows * (size_t)k * sizeof(int), cudaMemcpyDeviceToHost), "indices");

    int wrong = 0;
    for (int r = 0; r < rows; r++)
        wrong += !row_is_exact(scores + (size_t)r * (size_t)columns, lengths[r], indices + (size_t)r * (size_t)k, k, sorted, chosen, seen);
    printf("01_row_select: %d rows of up to %d scores, k %d, %d blocks: %.1f us, %d rows wrong\n", rows, columns, k, plan.blocks,
           milliseconds * 1e3f, wrong);
    puts(wrong ? "NOT EXACT" : "exact");
    return wrong ? 1 : 0;
}
