/* test_simt.cpp: the executor's own tests: right kernels give right results under all schedules.
 *
 * Built as a kernel source (simt_cuda.h force-included), into one program with test_faults.cpp, which has the wrong kernels.
 */
#include <catch2/catch.hpp>

#include <vector>

#include "test_simt.h"

static const unsigned ALL = 0xffffffffu;

/* ---- indices, warp collectives ---- */

static __global__ void write_indices(unsigned *out)
{
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}

TEST_CASE("every thread of every block runs once, with its indices")
{
    under_all_schedules([] {
        for (int resident = 1; resident < 4; ++resident) {
            simt_set_resident_blocks(resident);
            std::vector<unsigned> out(24 * 60, ~0u);
            REQUIRE(launch(write_indices, dim3(2, 3, 4), dim3(5, 6, 2), 0, out.data()) == cudaSuccess);
            for (unsigned i = 0; i < out.size(); ++i) REQUIRE(out[i] == i / 60 * 1000 + i % 60);
        }
    });
}

struct collective_results {
    unsigned shfl, up, down, exclusive_or, narrow, ballot, any, all, match, match_all, add, smallest, biggest, bits;
    int signed_smallest;
    unsigned long long wide;
};

static __global__ void use_collectives(collective_results *out)
{
    unsigned lane = threadIdx.x & 31;
    collective_results r;
    int predicate;
    r.shfl = __shfl_sync(ALL, lane * 10, 7);
    r.up = __shfl_up_sync(ALL, lane, 3);
    r.down = __shfl_down_sync(ALL, lane, 3);
    r.exclusive_or = __shfl_xor_sync(ALL, lane, 5);
    r.narrow = __shfl_sync(ALL, lane, 9, 8);
    r.ballot = __ballot_sync(ALL, lane % 3 == 0);
    r.any = (unsigned)__any_sync(ALL, lane == 9);
    r.all = (unsigned)__all_sync(ALL, lane != 9);
    r.match = __match_any_sync(ALL, lane % 4);
    r.match_all = __match_all_sync(ALL, 1.5f, &predicate) + (unsigned)predicate;
    r.add = __reduce_add_sync(ALL, lane);
    r.smallest = __reduce_min_sync(ALL, lane + 4);
    r.biggest = __reduce_max_sync(ALL, lane + 4);
    r.signed_smallest = __reduce_min_sync(ALL, (int)lane - 20);
    r.bits = __reduce_or_sync(ALL, 1u << (lane & 15)) ^ __reduce_and_sync(ALL, lane | 256u) ^ __reduce_xor_sync(ALL, lane);
    r.wide = __shfl_sync(ALL, 0x123456789abcull + lane, 31);
    out[threadIdx.x] = r;
}

TEST_CASE("warp collectives compute what CUDA says")
{
    under_all_schedules([] {
        std::vector<collective_results> out(64);
        REQUIRE(launch(use_collectives, 1, 64, 0, out.data()) == cudaSuccess);
        for (unsigned t = 0; t < 64; ++t) {
            unsigned lane = t & 31;
            const collective_results &r = out[t];
            REQUIRE(r.shfl == 70);
            REQUIRE(r.up == (lane < 3 ? lane : lane - 3));
            REQUIRE(r.down == (lane > 28 ? lane : lane + 3));
            REQUIRE(r.exclusive_or == (lane ^ 5));
            REQUIRE(r.narrow == (lane & 24) + 1);
            REQUIRE(r.ballot == 0x49249249u);
            REQUIRE(r.any == 1);
            REQUIRE(r.all == 0);
            REQUIRE(r.match == 0x11111111u << (lane % 4));
            REQUIRE(r.match_all == 0); /* ~0u + 1 */
            REQUIRE(r.add == 496);
            REQUIRE(r.smallest == 4);
            REQUIRE(r.biggest == 35);
            REQUIRE(r.signed_smallest == -20);
            REQUIRE(r.bits == (0xffffu ^ 256u));
            REQUIRE(r.wide == 0x123456789abcull + 31);
        }
    });
}

static __global__ void halves(unsigned *out) /* two masks of one warp, in different code */
{
    unsigned lane = threadIdx.x;
    if (lane < 16) {
        out[lane] = __reduce_add_sync(0xffffu, lane);
        __syncwarp(0xffffu);
        out[lane] += __ballot_sync(0xffffu, lane < 8);
    } else {
        out[lane] = __ballot_sync(0xffff0000u, lane & 1);
    }
    __syncwarp();
}

TEST_CASE("parts of a warp go their own ways")
{
    under_all_schedules([] {
        std::vector<unsigned> out(32);
        REQUIRE(launch(halves, 1, 32, 0, out.data()) == cudaSuccess);
        for (unsigned i = 0; i < 32; ++i) REQUIRE(out[i] == (i < 16 ? 120u + 255u : 0xaaaa0000u));
    });
}

/* ---- barriers, atomics, shared memory ---- */

static __global__ void reverse_block(const int *in, int *out, int *count)
{
    int *shared = (int *)simt_dynamic_shared();
    __shared__ int fixed[1];
    shared[threadIdx.x] = in[threadIdx.x];
    if (threadIdx.x == 0) fixed[0] = 5;
    int odd = __syncthreads_count(in[threadIdx.x] & 1);
    out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x] + fixed[0];
    if (threadIdx.x == 0) *count = odd + 1000 * __popc(threadIdx.x);
    if (threadIdx.x >= 40) return; /* those who have exited no longer count */
    int all = __syncthreads_and(1), one = __syncthreads_or(threadIdx.x == 3);
    if (threadIdx.x == 5) *count += 10000 * (all + one);
}

TEST_CASE("block barriers and shared memory")
{
    under_all_schedules([] {
        std::vector<int> in(100), out(100);
        int count = 0;
        for (int i = 0; i < 100; ++i) in[(size_t)i] = i * i;
        REQUIRE(launch(reverse_block, 1, 100, 400, (const int *)in.data(), out.data(), &count) == cudaSuccess);
        for (int i = 0; i < 100; ++i) REQUIRE(out[(size_t)i] == (99 - i) * (99 - i) + 5);
        REQUIRE(count == 50 + 20000);
    });
}

static __global__ void pass_on(int *out, int items) /* warp 0 produces, warp 1 consumes, over two named barriers */
{
    volatile int *slot = (int *)simt_dynamic_shared();
    for (int i = 0; i < items; ++i) {
        if (threadIdx.x < 32) {
            if (i > 0) simt_bar_sync(2, 64);
            slot[threadIdx.x] = i * 100 + (int)threadIdx.x;
            simt_bar_arrive(1, 64);
        } else {
            simt_bar_sync(1, 64);
            out[i * 32 + (int)threadIdx.x - 32] = slot[threadIdx.x - 32];
            if (i + 1 < items) simt_bar_arrive(2, 64);
        }
    }
}

TEST_CASE("named barriers")
{
    under_all_schedules([] {
        std::vector<int> out(32 * 9);
        REQUIRE(launch(pass_on, 1, 64, 128, out.data(), 9) == cudaSuccess);
        for (int i = 0; i < 32 * 9; ++i) REQUIRE(out[(size_t)i] == i / 32 * 100 + i % 32);
    });
}

static __global__ void claim(unsigned *counter, unsigned *owner, float *sum, unsigned *most)
{
    unsigned place = atomicAdd(counter, 1u);
    owner[place] = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(sum, 0.5f);
    atomicMax(most, threadIdx.x);
    unsigned long long word = 3;
    atomicCAS(&word, 3ull, 9ull);
    assert(word == 9);
}

TEST_CASE("atomics, with preemption and several resident blocks")
{
    under_all_schedules([] {
        simt_set_resident_blocks(3);
        unsigned counter = 0, most = 0;
        float sum = 0;
        std::vector<unsigned> owner(64 * 7), seen(64 * 7);
        REQUIRE(launch(claim, 7, 64, 0, &counter, owner.data(), &sum, &most) == cudaSuccess);
        for (unsigned o : owner) ++seen.at(o);
        REQUIRE(seen == std::vector<unsigned>(64 * 7, 1));
        REQUIRE((counter == 448 && sum == 224.0f && most == 63));
    });
}

/* ---- asynchronous copies, clusters, co-resident grids ---- */

static __global__ void pipeline(const int *in, int *out, int tiles)
{
    char *shared = (char *)simt_dynamic_shared();
    unsigned long long *full = (unsigned long long *)shared, *empty = full + 2;
    int *buffer = (int *)(shared + 64);
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; ++s) {
            simt_mbarrier_init(&full[s], 1);
            simt_mbarrier_init(&empty[s], 32);
        }
    }
    __syncthreads();
    if (threadIdx.x == 32) {
        for (int i = 0; i < tiles; ++i) {
            if (i >= 2) simt_mbarrier_wait(&empty[i & 1], (unsigned)(i / 2 - 1) & 1);
            simt_mbarrier_arrive_expect_tx(&full[i & 1], 256);
            simt_bulk_copy(buffer + (i & 1) * 64, in + i * 64, 128, &full[i & 1]);
            simt_bulk_copy(buffer + (i & 1) * 64 + 32, in + i * 64 + 32, 128, &full[i & 1]);
        }
    }
    if (threadIdx.x < 32) {
        for (int i = 0; i < tiles; ++i) {
            if (i & 1) while (!simt_mbarrier_test(&full[1], (unsigned)(i / 2) & 1)) {}
            else simt_mbarrier_wait(&full[0], (unsigned)(i / 2) & 1);
            for (unsigned j = threadIdx.x; j < 64; j += 32) out[i * 64 + (int)j] = buffer[(i & 1) * 64 + (int)j] + 1;
            simt_mbarrier_arrive(&empty[i & 1]);
        }
    }
}

TEST_CASE("bulk copies through a ring of mbarriers")
{
    under_all_schedules([] {
        int *in, *out;
        cudaMalloc(&in, 640 * 4);
        cudaMalloc(&out, 640 * 4);
        for (int i = 0; i < 640; ++i) in[i] = i * 3;
        for (int repeat = 0; repeat < 3; ++repeat) REQUIRE(launch(pipeline, 2, 64, 64 + 512, (const int *)in, out, 10) == cudaSuccess);
        for (int i = 0; i < 640; ++i) REQUIRE(out[i] == i * 3 + 1);
        cudaFree(in);
        cudaFree(out);
    });
}

static __global__ void copy_groups(const int4 *in, int *out)
{
    int4 *shared = (int4 *)simt_dynamic_shared();
    unsigned t = threadIdx.x;
    simt_cp_async(&shared[t], &in[t], 16);
    simt_cp_async_commit();
    simt_cp_async(&shared[32 + t], &in[32 + t], 16);
    simt_cp_async_commit();
    simt_cp_async_wait(1);
    out[t] = shared[t].x;
    out[32 + t] = shared[32 + t].x;
    simt_cp_async_wait(0);
    out[64 + t] = shared[32 + t].x;
}

TEST_CASE("cp.async: a group is there after its wait, not before")
{
    under_all_schedules([] {
        std::vector<int4> in(64);
        std::vector<int> out(96);
        for (int i = 0; i < 64; ++i) in[(size_t)i] = make_int4(i, 0, 0, 0);
        REQUIRE(launch(copy_groups, 1, 32, 1024, (const int4 *)in.data(), out.data()) == cudaSuccess);
        for (int i = 0; i < 96; ++i) REQUIRE(out[(size_t)i] == (i < 32 ? i : i < 64 ? (int)0xa5a5a5a5u : i - 32));
    });
}

static __global__ void ring_of_blocks(unsigned *out)
{
    unsigned *mine = (unsigned *)simt_dynamic_shared();
    unsigned rank = simt_cluster_rank(), size = simt_cluster_size();
    mine[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
    simt_cluster_sync();
    const unsigned *next = (const unsigned *)simt_cluster_map_shared_rank(mine, (rank + 1) % size);
    out[blockIdx.x * blockDim.x + threadIdx.x] = next[threadIdx.x];
    simt_cluster_arrive();
    simt_cluster_wait();
}

/* No block knows yet that the others run. */
static __global__ void write_too_early(unsigned *)
{
    unsigned *mine = (unsigned *)simt_dynamic_shared();
    *(unsigned *)simt_cluster_map_shared_rank(mine, (simt_cluster_rank() + 1) % simt_cluster_size()) = 1;
    simt_cluster_sync();
}

static cudaError_t launch_clusters(unsigned *out, unsigned grid, unsigned size, void (*kernel)(unsigned *) = ring_of_blocks)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {size, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = 40;
    config.dynamicSmemBytes = 160;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, out);
}

TEST_CASE("clusters read each other's shared memory")
{
    under_all_schedules([] {
        std::vector<unsigned> out(12 * 40);
        REQUIRE(launch_clusters(out.data(), 12, 4) == cudaSuccess);
        for (unsigned i = 0; i < 12 * 40; ++i) REQUIRE(out[i] == ((i / 160 * 4 + (i / 40 + 1) % 4) * 100 + i % 40));
    });
    REQUIRE(launch_clusters(nullptr, 10, 4) == cudaErrorInvalidConfiguration);
    REQUIRE(launch_clusters(nullptr, 16, 16) == cudaErrorInvalidConfiguration);
    cudaGetLastError();
    for (int schedule = SIMT_FORWARD; schedule <= SIMT_RANDOM; ++schedule) {
        defaults(schedule);
        REQUIRE_REPORT(launch_clusters(nullptr, 4, 4, write_too_early), "which may not run yet");
    }
    defaults();
}

static __global__ void meet(unsigned *arrived)
{
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1u);
        while (atomicAdd(arrived, 0u) < gridDim.x) __nanosleep(100);
    }
    __syncthreads();
}

static cudaError_t launch_meeting(unsigned blocks, bool cooperative)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = cooperative;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = 1024;
    config.attrs = &attribute;
    config.numAttrs = 1;
    unsigned arrived = 0;
    return cudaLaunchKernelEx(&config, meet, &arrived);
}

TEST_CASE("a cooperative grid is resident as a whole, any other is not")
{
    under_all_schedules([] { REQUIRE(launch_meeting(8, true) == cudaSuccess); });
    REQUIRE(launch_meeting(9, true) == cudaErrorCooperativeLaunchTooLarge);
    simt_set_cooperative_blocks(3);
    REQUIRE(launch_meeting(4, true) == cudaErrorCooperativeLaunchTooLarge);
    cudaGetLastError();
    REQUIRE(launch_meeting(3, true) == cudaSuccess);
    simt_set_cooperative_blocks(0);
    simt_set_spin_limit(100);
    REQUIRE_REPORT(launch_meeting(2, false), "livelock");
    defaults();
}
