/* exact_sort.cu: a few rows of a result against CUB's device radix sort; see exact.h. Sorts a whole row, as floats, and what was selected
 * from it, and compares the values. CUB sorts NaN by its sign, so that rows with NaN must not come here; no generated input has any. */
#include "exact.h"
#include "gpu.h"

#include <stdio.h>

#include <cub/device/device_radix_sort.cuh>
#include <cuda_runtime.h>

__global__ void load_kernel(float *row, bench_matrix m, size_t first, int length)
{
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < length; i += (int)(gridDim.x * blockDim.x))
        row[i] = bench_load(m.scores, m.type, first + (size_t)i);
}

__global__ void gather_kernel(float *values, const float *row, const int *indices, int count, int length, int *wrong)
{
    int j = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (j >= count)
        return;
    if (indices[j] < 0 || indices[j] >= length)
        *wrong = 1;
    else
        values[j] = row[indices[j]];
}

__global__ void compare_kernel(const float *sorted, const float *selected, int count, int *wrong)
{
    int j = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (j < count && !(sorted[j] == selected[j]))
        *wrong = 1;
}

typedef struct sort_space {
    float *row;      /* (columns) */
    float *sorted;   /* (columns) */
    float *selected; /* (k) as selected */
    float *ranked;   /* (k) sorted */
    int *wrong;
    void *scratch;
    size_t scratch_bytes;
} sort_space;

static int sort_row(const sort_space *s, const bench_matrix *m, int r, int length, const int *indices, int count, int *wrong)
{
    cudaStream_t stream = (cudaStream_t)bench_gpu_stream();
    unsigned blocks = (unsigned)(count + 255) / 256u;
    size_t bytes = s->scratch_bytes;
    if (bench_gpu_set(s->wrong, 0, sizeof(int)))
        return 1;
    load_kernel<<<256, 256, 0, stream>>>(s->row, *m, (size_t)r * (size_t)m->columns, length);
    gather_kernel<<<blocks, 256, 0, stream>>>(s->selected, s->row, indices, count, length, s->wrong);
    cudaError_t error = cub::DeviceRadixSort::SortKeysDescending(s->scratch, bytes, s->row, s->sorted, length, 0, 32, stream);
    if (error == cudaSuccess)
        error = cub::DeviceRadixSort::SortKeysDescending(s->scratch, bytes, s->selected, s->ranked, count, 0, 32, stream);
    compare_kernel<<<blocks, 256, 0, stream>>>(s->sorted, s->ranked, count, s->wrong);
    if (error != cudaSuccess || cudaGetLastError() != cudaSuccess) {
        fprintf(stderr, "topkit-bench: oracle sort: %s\n", cudaGetErrorString(error));
        return 1;
    }
    return bench_gpu_sync("oracle sort") || bench_gpu_download(wrong, s->wrong, sizeof *wrong);
}

extern "C" int bench_oracle_sort(bench_verdict *verdict, const bench_matrix *m, const int *indices, int k, int sample)
{
    sort_space s = {};
    *verdict = {0, -1, BENCH_FAULT_NONE};
    float *none = NULL;
    size_t row_bytes = 0, result_bytes = 0;
    cub::DeviceRadixSort::SortKeysDescending(NULL, row_bytes, none, none, m->columns);
    cub::DeviceRadixSort::SortKeysDescending(NULL, result_bytes, none, none, k);
    s.scratch_bytes = row_bytes > result_bytes ? row_bytes : result_bytes;
    s.row = (float *)bench_gpu_alloc((size_t)m->columns * sizeof(float));
    s.sorted = (float *)bench_gpu_alloc((size_t)m->columns * sizeof(float));
    s.selected = (float *)bench_gpu_alloc((size_t)k * sizeof(float));
    s.ranked = (float *)bench_gpu_alloc((size_t)k * sizeof(float));
    s.wrong = (int *)bench_gpu_alloc(sizeof(int));
    s.scratch = bench_gpu_alloc(s.scratch_bytes);
    int bad = !s.row || !s.sorted || !s.selected || !s.ranked || !s.wrong || !s.scratch;
    if (bad)
        fprintf(stderr, "topkit-bench: no memory for the oracle's sort\n");
    for (int i = 0; i < sample && i < m->rows && !bad; ++i) {
        int r = sample < m->rows ? (int)((long long)i * (m->rows - 1) / (sample > 1 ? sample - 1 : 1)) : i;
        int length = 0, wrong = 0;
        bad = bench_gpu_download(&length, m->lengths + r, sizeof length);
        length = length < 0 ? 0 : length > m->columns ? m->columns : length;
        int count = length < k ? length : k;
        if (bad || count == 0)
            continue;
        bad = sort_row(&s, m, r, length, indices + (size_t)r * (size_t)k, count, &wrong);
        if (wrong) {
            ++verdict->bad_rows;
            verdict->row = r;
            verdict->fault = BENCH_FAULT_SORT;
        }
    }
    bench_gpu_free(s.scratch);
    bench_gpu_free(s.wrong);
    bench_gpu_free(s.ranked);
    bench_gpu_free(s.selected);
    bench_gpu_free(s.sorted);
    bench_gpu_free(s.row);
    return bad;
}
