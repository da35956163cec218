/* flood.h: something else for a GPU to do while the operator runs.
 *
 *   exact<unsigned> memory(std::vector<unsigned>(FLOOD_WORDS, 1u));
 *   flood(memory.data, FLOOD_WORDS, other_stream);
 */
#ifndef TOPKIT_TESTS_FLOOD_H
#define TOPKIT_TESTS_FLOOD_H

#include "launch.h"
#include "select_case.h"

static const int FLOOD_WORDS = test_size(1 << 24, 64);

/* Keeps memory and schedulers busy. */
static __global__ void flood_kernel(unsigned *words, int count) {
    const int threads = (int)(gridDim.x * blockDim.x);
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += threads) words[i] = words[i] * 1664525u + 1013904223u;
}

static inline void flood(unsigned *words, int count, cudaStream_t stream) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)test_size(64, 1));
    config.blockDim = dim3((unsigned)test_size(256, 32));
    config.stream = stream;
    CUDA_OK(cudaLaunchKernelEx(&config, flood_kernel, words, count));
}

#endif
