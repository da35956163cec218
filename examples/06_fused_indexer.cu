/* 06_fused_indexer.cu: runs the fused indexer (fused.h) on a causal chunk of queries and checks every query against the host.
 *
 *   06_fused_indexer [queries] [positions] [heads] [k]          defaults: 16 4096 64 256
 *
 * Entries are -1, 0 and 1 and weights 1, 2 and 4, so that every score is an integer whatever the order of summation, and many are equal.
 * Query t sees the positions below positions - queries + t + 1. Prints the time of one call. Exit code 0: every query is exact; 1: some
 * query is not; 77: there is no device of compute capability 9.0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fused.h"
#include "launch.h"

static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "06_fused_indexer: %s\n", what);
    exit(1);
}

static void *on_device(const void *host, size_t bytes) {
    void *device;
    require(cudaMalloc(&device, bytes) == cudaSuccess, "no device memory");
    if (host) require(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice) == cudaSuccess, "copy to the device");
    return device;
}

static int larger_first(const void *a, const void *b) { return *(const int *)b - *(const int *)a; }

int main(int argc, char **argv) {
    const int queries = argc > 1 ? atoi(argv[1]) : 16, positions = argc > 2 ? atoi(argv[2]) : 4096;
    const int heads = argc > 3 ? atoi(argv[3]) : 64, k = argc > 4 ? atoi(argv[4]) : 256;
    topkit_fused_params p;
    memset(&p, 0, sizeof p);
    p.tokens = queries;
    p.heads = heads;
    p.positions = positions;
    p.k = k;
    int devices = 0, status;
    require(queries > 0 && positions >= queries && k > 0, "queries, positions (at least as many) and k must be positive");
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0 ||
        topkit_fused_workspace(&p, &p.workspace_bytes) == TOPKIT_ERROR_DEVICE) {
        puts("06_fused_indexer: skipped, there is no CUDA device of compute capability 9.0");
        return 77;
    }
    status = topkit_fused_workspace(&p, &p.workspace_bytes);
    require(status == TOPKIT_OK, topkit_status_text(status));

    const size_t query_bytes = (size_t)queries * (size_t)heads * 128, key_bytes = (size_t)positions * 128;
    unsigned char *q = (unsigned char *)malloc(query_bytes), *key = (unsigned char *)malloc(key_bytes);
    float *weights = (float *)malloc((size_t)queries * (size_t)heads * sizeof(float));
    int *ends = (int *)malloc((size_t)queries * sizeof(int)), *indices = (int *)malloc((size_t)queries * (size_t)k * sizeof(int));
    int *scores = (int *)malloc((size_t)positions * sizeof(int)), *chosen = (int *)malloc((size_t)k * sizeof(int));
    unsigned char *seen = (unsigned char *)malloc((size_t)positions);
    require(q && key && weights && ends && indices && scores && chosen && seen, "no memory");
    static const unsigned char code[3] = {0xb8, 0x00, 0x38}; /* -1, 0, 1 in e4m3 */
    unsigned state = 1;
    for (size_t i = 0; i < query_bytes; i++) q[i] = code[((state = state * 1664525u + 1013904223u) >> 16) % 3];
    for (size_t i = 0; i < key_bytes; i++) key[i] = code[((state = state * 1664525u + 1013904223u) >> 16) % 3];
    for (int i = 0; i < queries * heads; i++) weights[i] = (float)(1 << ((state = state * 1664525u + 1013904223u) >> 16) % 3);
    for (int t = 0; t < queries; t++) ends[t] = positions - queries + t + 1;

    p.queries = on_device(q, query_bytes);
    p.keys = on_device(key, key_bytes);
    p.weights = (const float *)on_device(weights, (size_t)queries * (size_t)heads * sizeof(float));
    p.ends = (const int *)on_device(ends, (size_t)queries * sizeof(int));
    p.indices = (int *)on_device(nullptr, (size_t)queries * (size_t)k * sizeof(int));
    p.workspace = on_device(nullptr, p.workspace_bytes);
    require(cudaMemset(p.workspace, 0, p.workspace_bytes) == cudaSuccess, "workspace"); /* once: every call leaves it zeroed */

    cudaEvent_t start, stop;
    float milliseconds = 0;
    require(cudaEventCreate(&start) == cudaSuccess && cudaEventCreate(&stop) == cudaSuccess, "events");
    for (int round = 0; round < 2; round++) { /* the first round loads the kernel */
        require(cudaEventRecord(start, 0) == cudaSuccess, "event");
        status = topkit_fused(&p, nullptr);
        require(status == TOPKIT_OK, topkit_status_text(status));
        require(cudaEventRecord(stop, 0) == cudaSuccess && cudaEventSynchronize(stop) == cudaSuccess, "kernel");
        require(cudaEventElapsedTime(&milliseconds, start, stop) == cudaSuccess, "event");
    }
    require(cudaMemcpy(indices, p.indices, (size_t)queries * (size_t)k * sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess, "indices");

    int wrong = 0;
    for (int t = 0; t < queries; t++) {
        const int length = ends[t], wanted = length < k ? length : k;
        bool exact = true;
        for (int s = 0; s < length; s++) {
            scores[s] = 0;
            for (int h = 0; h < heads; h++) {
                const unsigned char *a = q + ((size_t)t * (size_t)heads + (size_t)h) * 128, *b = key + (size_t)s * 128;
                int dot = 0;
                for (int i = 0; i < 128; i++) dot += a[i] && b[i] ? (a[i] == b[i] ? 1 : -1) : 0;
                scores[s] += dot > 0 ? dot * (int)weights[t * heads + h] : 0;
            }
        }
        memset(seen, 0, (size_t)positions);
        for (int j = 0; j < k && exact; j++) {
            const int index = indices[(size_t)t * (size_t)k + (size_t)j];
            exact = j >= wanted ? index == -1 : index >= 0 && index < length && !seen[index];
            if (exact && j < wanted) {
                seen[index] = 1;
                chosen[j] = scores[index];
            }
        }
        qsort(scores, (size_t)length, sizeof(int), larger_first);
        if (exact) qsort(chosen, (size_t)wanted, sizeof(int), larger_first);
        wrong += !exact || memcmp(scores, chosen, (size_t)wanted * sizeof(int)) != 0;
    }
    printf("06_fused_indexer: %d queries of %d heads, %d positions, k %d: %.1f us, %d queries wrong\n", queries, heads, positions, k,
           milliseconds * 1e3f, wrong);
    puts(wrong ? "NOT EXACT" : "exact");
    return wrong ? 1 : 0;
}
