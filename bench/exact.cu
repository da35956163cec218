/* exact.cu: see exact.h. Plain and slow on purpose: one block a row, one pass for each of a key's four bytes. */
#include "exact.h"
#include "gpu.h"
#include "launch.h"

enum { ORACLE_THREADS = 512, ORACLE_ROWS = 1024 }; /* rows that are checked together, at most */
static const size_t SEEN_BYTES = 64u << 20;       /* of bits for their scores, at most */

/* Larger scores have larger keys; both zeros have one key; NaN has the lowest. */
static __device__ unsigned oracle_key(float score)
{
    unsigned bits = __float_as_uint(score);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return 0u;
    if (bits == 0x80000000u)
        bits = 0u;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static __device__ int row_length(bench_matrix m, int row)
{
    int n = m.lengths[row];
    return n < 0 ? 0 : n > m.columns ? m.columns : n;
}

/* One row: its scores as floats. */
typedef struct oracle_row {
    const void *scores;
    int type;
    size_t first;
} oracle_row;

static __device__ oracle_row row_of(bench_matrix m, int row)
{
    return {m.scores, m.type, (size_t)row * (size_t)m.columns};
}

static __device__ unsigned key_at(oracle_row row, int index)
{
    return oracle_key(bench_load(row.scores, row.type, row.first + (size_t)index));
}

__global__ void __launch_bounds__(ORACLE_THREADS) rank_kernel(bench_rank *ranks, bench_matrix m, int k)
{
    __shared__ unsigned histogram[256];
    __shared__ unsigned prefix, mask, wanted;
    const oracle_row row = row_of(m, (int)blockIdx.x);
    const int length = row_length(m, (int)blockIdx.x);
    const unsigned taken = (unsigned)(length < k ? length : k);
    if (threadIdx.x == 0) {
        prefix = mask = 0u;
        wanted = taken;
    }
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int bin = (int)threadIdx.x; bin < 256; bin += ORACLE_THREADS)
            histogram[bin] = 0u;
        __syncthreads();
        const unsigned my_prefix = prefix, my_mask = mask;
        for (int i = (int)threadIdx.x; i < length; i += ORACLE_THREADS) {
            unsigned key = key_at(row, i);
            if ((key & my_mask) == my_prefix)
                atomicAdd(&histogram[key >> shift & 255u], 1u);
        }
        __syncthreads();
        if (threadIdx.x == 0 && taken > 0u) {
            int bin = 255;
            while (histogram[bin] < wanted)
                wanted -= histogram[bin--];
            prefix |= (unsigned)bin << shift;
            mask |= 255u << shift;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0)
        ranks[blockIdx.x] = {prefix, (int)(taken - wanted)};
}

static __device__ bool in_order(int order, oracle_row row, int before, int after)
{
    if (order == TOPKIT_ORDER_INDEX)
        return before < after;
    unsigned a = key_at(row, before), b = key_at(row, after);
    return a > b || (a == b && before < after);
}

/* A block for each row from `first_row` on. `seen` has a bit, zero at first, for each of their scores. */
__global__ void __launch_bounds__(ORACLE_THREADS)
    check_kernel(bench_verdict *verdict, const bench_rank *ranks, bench_matrix m, const int *indices, int first_row, unsigned *seen, int k,
                 int ties, int order)
{
    __shared__ int fault, above, last_equal, equal_before;
    const int r = first_row + (int)blockIdx.x;
    const oracle_row row = row_of(m, r);
    const int *result = indices + (size_t)r * (size_t)k;
    const int length = row_length(m, r);
    const int taken = length < k ? length : k;
    const bench_rank rank = ranks[r];
    seen += (size_t)blockIdx.x * (size_t)((m.columns + 31) / 32);
    if (threadIdx.x == 0)
        fault = above = equal_before = 0, last_equal = -1;
    __syncthreads();
    for (int j = (int)threadIdx.x; j < k; j += ORACLE_THREADS) {
        int index = result[j];
        if (j >= taken) {
            if (index != -1)
                fault = BENCH_FAULT_PAD;
            continue;
        }
        if (index < 0 || index >= length) {
            fault = BENCH_FAULT_RANGE;
            continue;
        }
        if (atomicOr(&seen[index / 32], 1u << index % 32) >> index % 32 & 1u)
            fault = BENCH_FAULT_REPEATED;
        unsigned key = key_at(row, index);
        if (key < rank.key)
            fault = BENCH_FAULT_LOW;
        else if (key > rank.key)
            atomicAdd(&above, 1);
        else
            atomicMax(&last_equal, index);
        int next = j + 1 < taken ? result[j + 1] : -1;
        if (order != TOPKIT_ORDER_NONE && next >= 0 && next < length && !in_order(order, row, index, next))
            fault = BENCH_FAULT_ORDER;
    }
    __syncthreads();
    if (ties == TOPKIT_TIES_LOWEST_INDEX && last_equal >= 0) {
        for (int i = (int)threadIdx.x; i <= last_equal; i += ORACLE_THREADS)
            if (key_at(row, i) == rank.key)
                atomicAdd(&equal_before, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (fault == BENCH_FAULT_NONE && above != rank.above)
            fault = BENCH_FAULT_MISSING;
        if (fault == BENCH_FAULT_NONE && equal_before > taken - above)
            fault = BENCH_FAULT_TIES;
        if (fault != BENCH_FAULT_NONE && atomicAdd(&verdict->bad_rows, 1) == 0) {
            verdict->row = r;
            verdict->fault = fault;
        }
    }
}

static cudaLaunchConfig_t launch(int blocks)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3(ORACLE_THREADS);
    config.stream = (cudaStream_t)bench_gpu_stream();
    return config;
}

extern "C" int bench_oracle_ranks(bench_rank *ranks, const bench_matrix *m, int k)
{
    cudaLaunchConfig_t config = launch(m->rows);
    return bench_gpu_failed(cudaLaunchKernelEx(&config, rank_kernel, ranks, *m, k), "oracle ranks") || bench_gpu_sync("oracle ranks");
}

extern "C" int bench_oracle_check(bench_verdict *verdict, const bench_rank *ranks, const bench_matrix *m, const int *indices, int k,
                                  int ties, int order)
{
    const size_t row_bytes = ((size_t)m->columns + 31) / 32 * sizeof(unsigned);
    const int fit = row_bytes < SEEN_BYTES / ORACLE_ROWS ? ORACLE_ROWS : row_bytes < SEEN_BYTES ? (int)(SEEN_BYTES / row_bytes) : 1;
    const int together = fit < m->rows ? fit : m->rows;
    bench_verdict *device = (bench_verdict *)bench_gpu_alloc(sizeof *device);
    unsigned *seen = (unsigned *)bench_gpu_alloc(together * row_bytes);
    *verdict = {0, -1, BENCH_FAULT_NONE};
    int bad = !device || !seen || bench_gpu_upload(device, verdict, sizeof *verdict);
    for (int first = 0; first < m->rows && !bad; first += together) {
        cudaLaunchConfig_t config = launch(first + together < m->rows ? together : m->rows - first);
        bad = bench_gpu_set(seen, 0, together * row_bytes) ||
              bench_gpu_failed(cudaLaunchKernelEx(&config, check_kernel, device, ranks, *m, indices, first, seen, k, ties, order),
                               "oracle check") ||
              bench_gpu_sync("oracle check");
    }
    bad = bad || bench_gpu_download(verdict, device, sizeof *verdict);
    bench_gpu_free(seen);
    bench_gpu_free(device);
    return bad;
}

extern "C" const char *bench_fault_text(int fault)
{
    static const char *const texts[] = {"exact",
                                        "an index outside of the row",
                                        "no -1 behind the prefix",
                                        "an index twice",
                                        "a score below the k-th",
                                        "a score above the k-th is missing",
                                        "not the lowest indices among equals",
                                        "not in order",
                                        "not the values that sorting gives"};
    return fault >= 0 && fault <= BENCH_FAULT_SORT ? texts[fault] : "unknown";
}
