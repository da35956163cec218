/* exact.cu: see exact.h. Plain and slow on purpose: one block a row, one pass for each of a key's four bytes. */
#include "exact.h"
#include "gpu.h"
#include "launch.h"
#include "select.h"

enum { ORACLE_THREADS = 512, ORACLE_SLOTS = 2 * BENCH_ORACLE_MAX_K };

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

static __device__ int row_length(const int *lengths, int row, int columns)
{
    int n = lengths[row];
    return n < 0 ? 0 : n > columns ? columns : n;
}

__global__ void __launch_bounds__(ORACLE_THREADS)
    rank_kernel(bench_rank *ranks, const float *scores, const int *lengths, int columns, int k)
{
    __shared__ unsigned histogram[256];
    __shared__ unsigned prefix, mask, wanted;
    const float *row = scores + (size_t)blockIdx.x * (size_t)columns;
    const int length = row_length(lengths, (int)blockIdx.x, columns);
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
            unsigned key = oracle_key(row[i]);
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

/* Puts `index` into the block's hash set; false when it was there already. */
static __device__ bool insert(int *set, int index)
{
    unsigned slot = ((unsigned)index * 2654435761u) % ORACLE_SLOTS;
    for (;;) {
        int found = atomicCAS(&set[slot], -1, index);
        if (found == -1)
            return true;
        if (found == index)
            return false;
        slot = (slot + 1u) % ORACLE_SLOTS;
    }
}

static __device__ bool in_order(int order, const float *row, int before, int after)
{
    if (order == TOPKIT_ORDER_INDEX)
        return before < after;
    unsigned a = oracle_key(row[before]), b = oracle_key(row[after]);
    return a > b || (a == b && before < after);
}

__global__ void __launch_bounds__(ORACLE_THREADS)
    check_kernel(bench_verdict *verdict, const bench_rank *ranks, const float *scores, const int *lengths, const int *indices, int columns,
                 int k, int ties, int order)
{
    TOPKIT_SHARED(shared);
    __shared__ int fault, above, last_equal, equal_before;
    int *set = (int *)shared;
    const int r = (int)blockIdx.x;
    const float *row = scores + (size_t)r * (size_t)columns;
    const int *result = indices + (size_t)r * (size_t)k;
    const int length = row_length(lengths, r, columns);
    const int taken = length < k ? length : k;
    const bench_rank rank = ranks[r];
    for (int i = (int)threadIdx.x; i < ORACLE_SLOTS; i += ORACLE_THREADS)
        set[i] = -1;
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
        if (!insert(set, index))
            fault = BENCH_FAULT_REPEATED;
        unsigned key = oracle_key(row[index]);
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
            if (oracle_key(row[i]) == rank.key)
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

static cudaLaunchConfig_t launch(int blocks, size_t shared)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3(ORACLE_THREADS);
    config.dynamicSmemBytes = shared;
    config.stream = (cudaStream_t)bench_gpu_stream();
    return config;
}

extern "C" int bench_oracle_ranks(bench_rank *ranks, const float *scores, const int *lengths, int rows, int columns, int k)
{
    cudaLaunchConfig_t config = launch(rows, 0);
    return bench_gpu_failed(cudaLaunchKernelEx(&config, rank_kernel, ranks, scores, lengths, columns, k), "oracle ranks") ||
           bench_gpu_sync("oracle ranks");
}

extern "C" int bench_oracle_check(bench_verdict *verdict, const bench_rank *ranks, const float *scores, const int *lengths,
                                  const int *indices, int rows, int columns, int k, int ties, int order)
{
    const int shared = ORACLE_SLOTS * (int)sizeof(int);
    bench_verdict *device = (bench_verdict *)bench_gpu_alloc(sizeof *device);
    *verdict = {0, -1, BENCH_FAULT_NONE};
    int bad = !device || bench_gpu_upload(device, verdict, sizeof *verdict);
    cudaLaunchConfig_t config = launch(rows, (size_t)shared);
    bad = bad ||
          bench_gpu_failed(cudaFuncSetAttribute(check_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), "oracle check") ||
          bench_gpu_failed(cudaLaunchKernelEx(&config, check_kernel, device, ranks, scores, lengths, indices, columns, k, ties, order),
                           "oracle check") ||
          bench_gpu_sync("oracle check") || bench_gpu_download(verdict, device, sizeof *verdict);
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
