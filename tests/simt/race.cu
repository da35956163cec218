/* race.cu: kernels with and without a data race, one by its number on the command line. Under TSan a race ends the program with 66.
 *
 * race.sh builds it and knows which numbers must be reported: the even ones are right, the odd ones lack one synchronisation.
 */
#include "simt.h"

static const unsigned ALL = 0xffffffffu;

static __global__ void through_barrier(unsigned *out, bool wrong)
{
    unsigned *shared = (unsigned *)simt_dynamic_shared();
    shared[threadIdx.x] = threadIdx.x;
    if (!wrong) __syncthreads();
    out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

static __global__ void through_warp(unsigned *out, bool wrong) /* a ballot is no barrier */
{
    unsigned *shared = (unsigned *)simt_dynamic_shared();
    shared[threadIdx.x] = threadIdx.x;
    unsigned all = __ballot_sync(ALL, 1);
    if (!wrong) __syncwarp();
    out[threadIdx.x] = shared[threadIdx.x ^ 1u] + all;
}

static __global__ void through_named_barrier(unsigned *out, bool wrong)
{
    unsigned *shared = (unsigned *)simt_dynamic_shared();
    if (threadIdx.x < 32) {
        shared[threadIdx.x] = 1;
        simt_bar_arrive(1, 64);
        if (wrong) shared[threadIdx.x] = 2;
    } else {
        simt_bar_sync(1, 64);
        out[threadIdx.x] = shared[threadIdx.x - 32];
    }
}

static __global__ void through_fence(unsigned *out, bool wrong) /* between blocks, by a flag */
{
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        out[0] = 7;
        if (!wrong) __threadfence();
        atomicExch(&out[1], 1u);
    }
    if (blockIdx.x == 1 && threadIdx.x == 0) {
        while (atomicAdd(&out[1], 0u) == 0) __nanosleep(10);
        if (!wrong) __threadfence();
        out[2] = out[0];
    }
}

static __global__ void ring(const unsigned *in, unsigned *out, bool wrong) /* wrong: a buffer is filled again before it was read by all */
{
    unsigned *buffer = (unsigned *)simt_dynamic_shared();
    unsigned long long *full = (unsigned long long *)(buffer + 64), *empty = full + 1;
    if (threadIdx.x == 0) {
        simt_mbarrier_init(full, 1);
        simt_mbarrier_init(empty, wrong ? 31 : 32);
    }
    __syncthreads();
    for (unsigned i = 0; i < 4; ++i) {
        if (threadIdx.x == 32) {
            if (i) simt_mbarrier_wait(empty, (i - 1) & 1);
            simt_mbarrier_arrive_expect_tx(full, 128);
            simt_bulk_copy(buffer, in + i * 32, 128, full);
        } else if (threadIdx.x < 32) {
            simt_mbarrier_wait(full, i & 1);
            out[i * 32 + threadIdx.x] = buffer[threadIdx.x];
            if (!wrong || threadIdx.x) simt_mbarrier_arrive(empty);
        }
    }
}

static __global__ void clusterwide(unsigned *out, bool wrong)
{
    unsigned *shared = (unsigned *)simt_dynamic_shared();
    shared[threadIdx.x] = threadIdx.x;
    simt_cluster_arrive();
    if (wrong) shared[threadIdx.x] = 3;
    simt_cluster_wait();
    const unsigned *other = (const unsigned *)simt_cluster_map_shared_rank(shared, simt_cluster_rank() ^ 1u);
    out[blockIdx.x * blockDim.x + threadIdx.x] = other[threadIdx.x];
    simt_cluster_sync();
}

int main(int argc, char **argv)
{
    int number = argc > 1 ? atoi(argv[1]) : 0;
    bool wrong = number & 1;
    unsigned *in, *out;
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = 2;
    config.blockDim = 64;
    config.dynamicSmemBytes = 1024;
    config.attrs = &attribute;
    cudaMalloc(&in, 4096);
    cudaMalloc(&out, 4096);
    cudaMemset(in, 0, 4096);
    cudaMemset(out, 0, 4096);
    for (int schedule = SIMT_FORWARD; schedule <= SIMT_RANDOM; ++schedule) {
        simt_set_schedule(schedule, 11);
        simt_set_resident_blocks(number / 2 == 3 ? 2 : 1);
        attribute.val.clusterDim = {2, 1, 1};
        config.numAttrs = number / 2 == 5;
        attribute.id = cudaLaunchAttributeClusterDimension;
        if (number / 2 < 3) config.gridDim = 1; /* these write the same words from each block */
        if (number / 2 == 4) config.gridDim = 1;
        switch (number / 2) {
        case 0: cudaLaunchKernelEx(&config, through_barrier, out, wrong); break;
        case 1: cudaLaunchKernelEx(&config, through_warp, out, wrong); break;
        case 2: cudaLaunchKernelEx(&config, through_named_barrier, out, wrong); break;
        case 3: cudaMemset(out, 0, 4096), cudaLaunchKernelEx(&config, through_fence, out, wrong); break;
        case 4: cudaLaunchKernelEx(&config, ring, (const unsigned *)in, out, wrong); break;
        default: cudaLaunchKernelEx(&config, clusterwide, out, wrong); break;
        }
    }
    cudaFree(in);
    cudaFree(out);
    return simt_failures() != 0;
}
