/* inputs.cu: the kernels of fill.h. A block takes a piece of a row, so that a matrix of any shape fills the device. */
#include "fill.h"
#include "gpu.h"
#include "launch.h"
#include "inputs.h"

enum { FILL_THREADS = 256, FILL_PIECE = 8192, FILL_GRID_ROWS = 32768 };

__global__ void __launch_bounds__(FILL_THREADS) fill_kernel(float *scores, const int *lengths, int input, uint64_t seed, int rows,
                                                            int columns, int first_row)
{
    int begin = (int)blockIdx.x * FILL_PIECE;
    int end = begin + FILL_PIECE < columns ? begin + FILL_PIECE : columns;
    for (int r = (int)blockIdx.y; r < rows; r += (int)gridDim.y) {
        float *row = scores + (size_t)r * (size_t)columns;
        unsigned length = (unsigned)lengths[r];
        for (int c = begin + (int)threadIdx.x; c < end; c += FILL_THREADS)
            row[c] = bench_score_or_pad(input, seed, (uint32_t)(first_row + r), (uint32_t)c, (uint32_t)columns, length);
    }
}

__global__ void __launch_bounds__(FILL_THREADS) fill_blocks_kernel(float *scores, const int *lengths, const float *pool, const int *order,
                                                                   int rows, int columns, int tiles)
{
    int tile = (int)blockIdx.x;
    int begin = tile * BENCH_CAPTURE_BLOCK;
    for (int r = (int)blockIdx.y; r < rows; r += (int)gridDim.y) {
        const float *block = pool + (size_t)order[(size_t)r * (size_t)tiles + tile] * BENCH_CAPTURE_BLOCK;
        float *row = scores + (size_t)r * (size_t)columns;
        for (int i = (int)threadIdx.x; i < BENCH_CAPTURE_BLOCK && begin + i < columns; i += FILL_THREADS)
            row[begin + i] = begin + i < lengths[r] ? block[i] : -INFINITY;
    }
}

static cudaLaunchConfig_t launch(dim3 grid, int threads)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3((unsigned)threads);
    config.stream = (cudaStream_t)bench_gpu_stream();
    return config;
}

extern "C" int bench_fill(float *scores, const int *lengths, int input, uint64_t seed, int rows, int columns, int first_row)
{
    dim3 grid((unsigned)((columns + FILL_PIECE - 1) / FILL_PIECE), (unsigned)(rows < FILL_GRID_ROWS ? rows : FILL_GRID_ROWS));
    cudaLaunchConfig_t config = launch(grid, FILL_THREADS);
    return bench_gpu_failed(cudaLaunchKernelEx(&config, fill_kernel, scores, lengths, input, seed, rows, columns, first_row), "fill") ||
           bench_gpu_sync("fill");
}

extern "C" int bench_fill_blocks(float *scores, const int *lengths, const float *pool, const int *order, int rows, int columns, int tiles)
{
    dim3 grid((unsigned)tiles, (unsigned)(rows < FILL_GRID_ROWS ? rows : FILL_GRID_ROWS));
    cudaLaunchConfig_t config = launch(grid, FILL_THREADS);
    return bench_gpu_failed(cudaLaunchKernelEx(&config, fill_blocks_kernel, scores, lengths, pool, order, rows, columns, tiles), "fill") ||
           bench_gpu_sync("fill from the capture");
}
