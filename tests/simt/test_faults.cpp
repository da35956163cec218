/* test_faults.cpp: kernels that are wrong on purpose, each of which the executor must report; and the miniature CUDA runtime.
 *
 * Data races need TSan and have a program of their own, race.cu.
 */
#include "test_simt.h"

#include <vector>

static const unsigned ALL = 0xffffffffu;

/* Under ASan these two would end the program at the bad access, which is the better report. */
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif

#ifdef UNDER_ASAN
#include <sanitizer/asan_interface.h>

static __global__ void look_below(unsigned *poisoned, unsigned bytes)
{
    char here;
    volatile uintptr_t low = (uintptr_t)&here - bytes; /* volatile, lest the compiler sees an address outside `here` */
    if (__asan_region_is_poisoned((void *)low, bytes - 256)) atomicAdd(poisoned, 1u);
}

/* Threads end without returning from their last frames. In CI such a record once lay where a launch of more threads had mapped its stacks,
 * and a frame of the executor was reported as a stack-buffer-underflow: in half of the runs, as the addresses fell. */
TEST_CASE("nothing is left of earlier threads on a thread's stack")
{
    defaults();
    unsigned poisoned = 0;
    for (size_t kib = 64; kib < 320; kib += 12) {
        simt_set_stack_bytes(kib << 10);
        for (int i = 0; i < 2; ++i) REQUIRE(launch(look_below, 2, 64, 0, &poisoned, (unsigned)(kib << 10) - 16384) == cudaSuccess);
    }
    simt_set_stack_bytes(0);
    CHECK(poisoned == 0);
}
#endif

/* ---- warps ---- */

static __global__ void not_in_own_mask() { __ballot_sync(0xfffffffeu, 1); }
static __global__ void lane_exits_first()
{
    if (threadIdx.x == 9) return;
    __syncwarp();
}
static __global__ void mask_of_a_partial_warp() { __any_sync(ALL, 1); }
static __global__ void divergent_operations()
{
    if (threadIdx.x & 1) __ballot_sync(ALL, 1);
    else __any_sync(ALL, 1);
}
static __global__ void divergent_lines()
{
    if (threadIdx.x & 1) __ballot_sync(ALL, 1);
    else
        __ballot_sync(ALL, 0);
}
static __global__ void shuffle_from_outside(unsigned *out)
{
    if (threadIdx.x < 8) out[threadIdx.x] = __shfl_sync(0xffu, threadIdx.x, 8);
}
static __global__ void half_a_warp_at_a_vote_and_half_at_a_barrier()
{
    if (threadIdx.x < 40) __syncthreads();
    else __ballot_sync(ALL, 1);
}

TEST_CASE("wrong masks are reported")
{
    for (int schedule = SIMT_FORWARD; schedule <= SIMT_RANDOM; ++schedule) {
        defaults(schedule, 3);
        unsigned out[32];
        REQUIRE_REPORT(launch(not_in_own_mask, 1, 32, 0), "not in its own mask 0xfffffffe");
        REQUIRE_REPORT(launch(lane_exits_first, 1, 32, 0), "exited");
        REQUIRE_REPORT(launch(mask_of_a_partial_warp, 1, 20, 0), "do not exist");
        REQUIRE_REPORT(launch(divergent_operations, 1, 32, 0), "of the same mask 0xffffffff is in");
        REQUIRE_REPORT(launch(divergent_lines, 1, 32, 0), "divergent code");
        REQUIRE_REPORT(launch(shuffle_from_outside, 1, 32, 0, out), "reads lane 8, which is not in the mask 0x000000ff");
        REQUIRE_REPORT(launch(half_a_warp_at_a_vote_and_half_at_a_barrier, 1, 64, 0), "deadlock");
    }
    defaults();
}

/* ---- barriers ---- */

static __global__ void part_of_the_block(int *sink)
{
    if (threadIdx.x < 32) __syncthreads();
    else simt_bar_sync(1, 64);
    *sink = 0;
}
static __global__ void barrier_in_two_branches()
{
    if (threadIdx.x < 32) __syncthreads();
    else
        __syncthreads();
}
static __global__ void different_counts() { simt_bar_sync(3, threadIdx.x < 32 ? 64 : 96); }
static __global__ void arrive_twice()
{
    simt_bar_arrive(1, 64);
    simt_bar_arrive(1, 64);
}
static __global__ void barrier_by_half_warps()
{
    if (threadIdx.x % 32 < 16) simt_bar_sync(1, 32);
    simt_bar_sync(2, 64);
}
static __global__ void odd_count() { simt_bar_sync(1, 33); }
static __global__ void cluster_wait_alone() { simt_cluster_wait(); }

TEST_CASE("wrong barriers are reported")
{
    int sink;
    for (int schedule = SIMT_FORWARD; schedule <= SIMT_RANDOM; ++schedule) {
        defaults(schedule, 4);
        REQUIRE_REPORT(launch(part_of_the_block, 1, 64, 0, &sink), "at barrier 1, 32 of 64 arrived");
        REQUIRE_REPORT(launch(barrier_in_two_branches, 1, 64, 0), "divergent code");
        REQUIRE_REPORT(launch(different_counts, 1, 96, 0), "has arrived at it for");
        REQUIRE_REPORT(launch(arrive_twice, 1, 64, 0), "second time in one phase");
        REQUIRE_REPORT(launch(barrier_by_half_warps, 1, 64, 0), "whole warps");
        REQUIRE_REPORT(launch(odd_count, 1, 64, 0), "not a multiple of 32");
        REQUIRE_REPORT(launch(cluster_wait_alone, 1, 32, 0), "without having arrived");
    }
    defaults();
}

/* ---- spins, traps ---- */

static __global__ void spin_on_an_atomic(unsigned *flag)
{
    while (atomicAdd(flag, 0u) == 0) {}
}
static __global__ void spin_on_a_volatile(volatile unsigned *flag)
{
    while (*flag == 0) __nanosleep(20);
}
static __global__ void trap() { __trap(); }
static __global__ void failing_assertion() { assert(threadIdx.x < 5); }
TEST_CASE("spins, traps and assertions are reported")
{
    defaults();
    simt_set_spin_limit(200);
    unsigned flag = 0;
    REQUIRE_REPORT(launch(spin_on_an_atomic, 1, 32, 0, &flag), "livelock");
    REQUIRE_REPORT(launch(spin_on_a_volatile, 1, 64, 0, &flag), "livelock");
    REQUIRE_REPORT(launch(trap, 1, 1, 0), "__trap");
    REQUIRE_REPORT(launch(failing_assertion, 1, 32, 0), "threadIdx.x < 5");
    defaults();
}

/* ---- memory ---- */

static __global__ void write_at(unsigned offset)
{
    if (threadIdx.x == 3) ((char *)simt_dynamic_shared())[(int)offset] = 1;
}
static __global__ void write_static()
{
    __shared__ unsigned fixed;
    atomicExch(&fixed, threadIdx.x);
}
static __global__ void read_unwritten(unsigned *out)
{
    __shared__ unsigned fixed;
    unsigned *shared = (unsigned *)simt_dynamic_shared();
    out[0] = shared[threadIdx.x];
    out[1] = fixed;
    shared[threadIdx.x] = fixed = 1;
}

TEST_CASE("shared memory is poisoned for each block, and guarded")
{
    defaults();
#ifndef UNDER_ASAN
    REQUIRE_REPORT(launch(write_at, 3, 32, 100, 100u), "wrote past its 100 bytes of dynamic shared memory, at offset 100");
    REQUIRE_REPORT(launch(write_at, 3, 32, 100, (unsigned)-1), "before its dynamic shared memory");
#endif
    REQUIRE(launch(write_at, 3, 32, 100, 99u) == cudaSuccess);
    unsigned out[2];
    for (int i = 0; i < 3; ++i) {
        REQUIRE(launch(read_unwritten, 2, 1, 4, out) == cudaSuccess);
        REQUIRE((out[0] == 0xa5a5a5a5u && out[1] == 0xa5a5a5a5u));
    }
    simt_set_resident_blocks(2);
    REQUIRE_REPORT(launch(write_static, 2, 32, 0), "static __shared__");
    defaults();
}

static __global__ void no_such_mbarrier() { simt_mbarrier_arrive((unsigned long long *)simt_dynamic_shared()); }
static __global__ void too_many_arrivals(const int *)
{
    unsigned long long *bar = (unsigned long long *)simt_dynamic_shared();
    if (threadIdx.x == 0) {
        simt_mbarrier_init(bar, 2);
        simt_mbarrier_arrive_expect_tx(bar, 16);
        simt_mbarrier_arrive(bar);
        simt_mbarrier_arrive(bar);
    }
}
static __global__ void bytes_never_come()
{
    unsigned long long *bar = (unsigned long long *)simt_dynamic_shared();
    if (threadIdx.x == 0) {
        simt_mbarrier_init(bar, 1);
        simt_mbarrier_arrive_expect_tx(bar, 32);
    }
    __syncthreads();
    simt_mbarrier_wait(bar, 0);
}
static __global__ void copy(const int *in, int *out, int shift, bool wait)
{
    unsigned long long *bar = (unsigned long long *)simt_dynamic_shared();
    int *buffer = (int *)(bar + 2);
    simt_mbarrier_init(bar, 1);
    simt_mbarrier_arrive_expect_tx(bar, 64);
    simt_bulk_copy(buffer, in + shift, 64, bar);
    out[0] = buffer[0];
    if (wait) simt_mbarrier_wait(bar, 0);
    out[1] = buffer[0];
}

TEST_CASE("wrong mbarriers and copies are reported")
{
    defaults();
    int *in, out[2];
    cudaMalloc(&in, 256);
    cudaMemset(in, 1, 256);
    REQUIRE_REPORT(launch(no_such_mbarrier, 1, 1, 16), "not an mbarrier: the word at this address is 0xa5a5a5a5a5a5a5a5");
    REQUIRE_REPORT(launch(too_many_arrivals, 1, 32, 16, (const int *)in), "more than 2 arrivals");
    REQUIRE_REPORT(launch(bytes_never_come, 1, 32, 16), "0 arrivals and 32 bytes missing");
    REQUIRE_REPORT(launch(copy, 1, 1, 80, (const int *)in, (int *)out, 1, true), "must be multiples of 16");
    REQUIRE_REPORT(launch(copy, 1, 1, 80, (const int *)in, (int *)out, 0, false), "in flight");
    REQUIRE(launch(copy, 1, 1, 80, (const int *)in, (int *)out, 4, true) == cudaSuccess);
    REQUIRE((out[0] == (int)0xa5a5a5a5u && out[1] == 0x01010101));
    cudaFree(in);
}

/* ---- missing synchronisation shows in the result under some schedule, even without TSan ---- */

static __global__ void without_syncwarp(unsigned *out)
{
    volatile unsigned *shared = (unsigned *)simt_dynamic_shared();
    shared[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = shared[(threadIdx.x + 1) % 32];
}

TEST_CASE("a missing __syncwarp gives wrong results")
{
    for (int schedule = SIMT_FORWARD; schedule <= SIMT_RANDOM; ++schedule) {
        defaults(schedule, 5);
        unsigned out[32], wrong = 0;
        REQUIRE(launch(without_syncwarp, 1, 32, 128, (unsigned *)out) == cudaSuccess);
        for (unsigned i = 0; i < 32; ++i) wrong += out[i] != (i + 1) % 32;
        REQUIRE(wrong > 0);
    }
    defaults();
}

/* ---- runtime ---- */

static __global__ void add_one(int *value) { atomicAdd(value, 1); }

TEST_CASE("launches that a GPU refuses are refused")
{
    defaults();
    int value = 0;
    REQUIRE(launch(add_one, 1, 1025, 0, &value) == cudaErrorInvalidConfiguration);
    REQUIRE(launch(add_one, 0, 32, 0, &value) == cudaErrorInvalidConfiguration);
    REQUIRE(launch(add_one, 1, 32, 50000, &value) == cudaErrorInvalidValue);
    REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
    REQUIRE(cudaFuncSetAttribute(add_one, cudaFuncAttributeMaxDynamicSharedMemorySize, 232449) == cudaErrorInvalidValue);
    REQUIRE(cudaFuncSetAttribute(add_one, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448) == cudaSuccess);
    REQUIRE(launch(add_one, 1, 32, 232448, &value) == cudaSuccess);
    REQUIRE(value == 32);
    int blocks;
    REQUIRE(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add_one, 512, 60000) == cudaSuccess);
    REQUIRE(blocks == 3);
    REQUIRE(cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess);
    REQUIRE(blocks == 4);
    cudaGetLastError();
}

TEST_CASE("graphs record and replay; illegal calls end a capture")
{
    defaults();
    int value = 0, seen = 0, *memory = nullptr;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    cudaLaunchConfig_t config = {};
    config.gridDim = 2;
    config.blockDim = 32;
    config.stream = stream;
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    REQUIRE(cudaMemsetAsync(&value, 0, 4, stream) == cudaSuccess);
    REQUIRE(cudaLaunchKernelEx(&config, add_one, &value) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(&seen, &value, 4, cudaMemcpyDefault, stream) == cudaSuccess);
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    REQUIRE(value == 0);
    REQUIRE(cudaGraphInstantiate(&exec, graph) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
    for (int i = 0; i < 2; ++i) {
        value = 5, seen = 0;
        REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
        REQUIRE(seen == 64);
    }
    REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);

    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    REQUIRE(cudaMalloc(&memory, 16) == cudaErrorStreamCaptureUnsupported);
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
    REQUIRE(cudaMalloc(&memory, 16) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
    REQUIRE(cudaFree(memory) == cudaSuccess);
    REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
    cudaGetLastError();
}

TEST_CASE("bit intrinsics at their edges")
{
    REQUIRE((__clz(0) == 32 && __clzll(1) == 63 && __ffs(0) == 0 && __ffs(8) == 4 && __popcll(~0ull) == 64));
    REQUIRE((__brev(1u) == 0x80000000u && __brev(0x12345678u) == 0x1e6a2c48u && __brevll(2ull) == 1ull << 62));
    REQUIRE((__byte_perm(0x33221100u, 0x77665544u, 0x7410u) == 0x77441100u && __byte_perm(0x80u, 0, 0x0008u) == 0x808080ffu));
    REQUIRE((__funnelshift_l(0x80000000u, 1u, 1) == 3u && __funnelshift_r(2u, 1u, 1) == 0x80000001u && __funnelshift_lc(7u, 9u, 32) == 7u));
    REQUIRE((__fns(0xf0u, 0, 2) == 5u && __fns(0xf0u, 31, -1) == 7u && __fns(0xf0u, 0, 5) == 0xffffffffu && __fns(0xf0u, 4, 0) == 4u));
    REQUIRE((min(3, 4u) == 3u && max(-1, 1u) == 0xffffffffu && min(1.0f, NAN) == 1.0f && __umulhi(1u << 31, 6u) == 3u));
    REQUIRE((__uint_as_float(0x3f800000u) == 1.0f && __float_as_int(-0.0f) == INT_MIN));
}
