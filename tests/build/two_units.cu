/* two_units.cu (D01): the same library in two translation units. Compiled twice, with EVERY_CALL_UNIT unit_a and unit_b, and linked.
 *
 * Each unit has every kernel of every_call.cu and runs a selection of its own. TWO_UNITS_RUN is the name of the C function that does:
 * 0 where the answer is exact, 77 where there is no device, 1 otherwise. With TWO_UNITS_MAIN the unit has main as well, and calls both.
 */
#include "every_call.cu"

#include <cstdio>

enum { COUNT = 100, K = 30 };

namespace EVERY_CALL_UNIT {
__global__ void select(const topkit_candidate *items, int *out) {
    __shared__ topkit_refiner_storage storage;
    const topkit_group g = topkit_group_block();
    const topkit_sink_indices sink = {out, 0};
    topkit_refiner_init(g, &storage);
    topkit_group_sync(g);
    topkit_refine<TOPKIT_LOWEST_INDEX>(g, items, COUNT, K, sink, &storage);
}
}

/* Scores are the indices times 7 modulo COUNT: the K best are those whose score is COUNT - K or more. */
extern "C" int TWO_UNITS_RUN(void) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return 77;
    topkit_candidate host[COUNT];
    for (int i = 0; i < COUNT; i++) {
        const float score = (float)(i * 7 % COUNT);
        memcpy(&host[i].bits, &score, sizeof score);
        host[i].index = i;
    }
    topkit_candidate *items = nullptr;
    int *out = nullptr, found[K], hits = 0;
    if (cudaMalloc((void **)&items, sizeof host) != cudaSuccess || cudaMalloc((void **)&out, sizeof found) != cudaSuccess) return 1;
    cudaMemcpy(items, host, sizeof host, cudaMemcpyHostToDevice);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(128);
    if (cudaLaunchKernelEx(&config, EVERY_CALL_UNIT::select, (const topkit_candidate *)items, out) != cudaSuccess) return 1;
    if (cudaMemcpy(found, out, sizeof found, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    bool seen[COUNT] = {};
    for (int i = 0; i < K; i++) {
        if (found[i] < 0 || found[i] >= COUNT || seen[found[i]]) return 1;
        seen[found[i]] = true;
        hits += found[i] * 7 % COUNT >= COUNT - K;
    }
    cudaFree(items);
    cudaFree(out);
    return hits == K ? 0 : 1;
}

#ifdef TWO_UNITS_MAIN
extern "C" int run_b(void);

int main() {
    const int a = run_a(), b = run_b();
    if (a == 77 && b == 77) return 77;
    std::printf("unit a: %s, unit b: %s\n", a ? "wrong" : "exact", b ? "wrong" : "exact");
    return a || b ? 1 : 0;
}
#endif
