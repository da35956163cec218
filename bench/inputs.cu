/* inputs.cu: the kernels of fill.h. A block takes a piece of a row, so that a matrix of any shape fills the device. */
#include "fill.h"
#include "gpu.h"
#include "launch.h"

enum { FILL_THREADS = 256, FILL_PIECE = 8192, FILL_GRID_ROWS = 32768 };

__global__ void __launch_bounds__(FILL_THREADS) fill_kernel(bench_matrix m, int input, uint64_t seed, int first_row)
{
    int begin = (int)blockIdx.x * FILL_PIECE;
    int end = begin + FILL_PIECE < m.columns ? begin + FILL_PIECE : m.columns;
    for (int r = (int)blockIdx.y; r < m.rows; r += (int)gridDim.y) {
        size_t row = (size_t)r * (size_t)m.columns;
        unsigned length = (unsigned)m.lengths[r];
        for (int c = begin + (int)threadIdx.x; c < end; c += FILL_THREADS)
            bench_store(m.scores, m.type, row + (size_t)c,
                        bench_score_or_pad(input, seed, (uint32_t)(first_row + r), (uint32_t)c, (uint32_t)m.columns, length));
    }
}

__global__ void __launch_bounds__(FILL_THREADS) fill_blocks_kernel(bench_matrix m, const float *pool, const int *order, int tiles)
{
    int tile = (int)blockIdx.x;
    int begin = tile * BENCH_CAPTURE_BLOCK;
    for (int r = (int)blockIdx.y; r < m.rows; r += (int)gridDim.y) {
        const float *block = pool + (size_t)order[(size_t)r * (size_t)tiles + tile] * BENCH_CAPTURE_BLOCK;
        size_t row = (size_t)r * (size_t)m.columns;
        for (int i = (int)threadIdx.x; i < BENCH_CAPTURE_BLOCK && begin + i < m.columns; i += FILL_THREADS)
            bench_store(m.scores, m.type, row + (size_t)(begin + i), begin + i < m.lengths[r] ? block[i] : -INFINITY);
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

static unsigned grid_rows(const bench_matrix *m)
{
    return (unsigned)(m->rows < FILL_GRID_ROWS ? m->rows : FILL_GRID_ROWS);
}

extern "C" int bench_fill(const bench_matrix *m, int input, uint64_t seed, int first_row)
{
    dim3 grid((unsigned)((m->columns + FILL_PIECE - 1) / FILL_PIECE), grid_rows(m));
    cudaLaunchConfig_t config = launch(grid, FILL_THREADS);
    return bench_gpu_failed(cudaLaunchKernelEx(&config, fill_kernel, *m, input, seed, first_row), "fill") || bench_gpu_sync("fill");
}

extern "C" int bench_fill_blocks(const bench_matrix *m, const float *pool, const int *order, int tiles)
{
    cudaLaunchConfig_t config = launch(dim3((unsigned)tiles, grid_rows(m)), FILL_THREADS);
    return bench_gpu_failed(cudaLaunchKernelEx(&config, fill_blocks_kernel, *m, pool, order, tiles), "fill") ||
           bench_gpu_sync("fill from the capture");
}
