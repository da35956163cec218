/* testing.h: what the tests of the blocks share: shapes of groups, schedules, guarded device memory, launches, inputs, an oracle.
 *
 * A test source is plain CUDA C++ and runs on a GPU and on the CPU executor (TOPKIT_SIMT). Assertions are made on the host alone: a kernel
 * leaves what it found in memory. Every collective is run by a whole block, by warps 16 to 19 of a block of 20 and by one warp of a block
 * of three; the warps outside the group meanwhile form groups of their own and sync those. A kernel of that kind begins
 *
 *   static __global__ void some_kernel(test_shape shape, unsigned *others, ...) {
 *       topkit_group g;
 *       if (!test_enter(shape, others, &g)) return;
 *
 * and is launched by test_run inside everywhere([&](test_shape shape) { .. }), which repeats the body for every shape and, on the executor,
 * for every schedule: forward, reverse, and random ones, with and without preemption at atomics (two of the five in a brief program).
 * Catch2's --rng-seed moves the seeds; a failure prints the one that it happened under.
 *
 * The oracle shares nothing with the library: scores are compared as floats, never by sort keys.
 */
#ifndef TOPKIT_TESTING_H
#define TOPKIT_TESTING_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include "launch.h"
#include "topkit/candidate.cuh"
#include "topkit/group.cuh"
#ifdef TOPKIT_SIMT
#include "simt.h"
#endif

/* ---- groups ---- */

struct test_shape {
    unsigned first, warps; /* the group: these warps .. */
    unsigned block_warps;  /* .. of a block of so many */
};

static const test_shape test_shapes[] = {{0, 4, 4}, {16, 4, 20}, {1, 1, 3}};

/* Counts to 3 * size in *total; what anybody sees behind a barrier that does not hold the group together goes to *errors. */
TOPKIT_FN void test_meanwhile(topkit_group g, unsigned *total, unsigned *errors) {
    for (unsigned round = 1; round <= 3; round++) {
        atomicAdd(total, 1u);
        topkit_group_sync(g);
        if (atomicAdd(total, 0u) != round * g.size) atomicAdd(errors, 1u);
        topkit_group_sync(g);
    }
}

/* True for the threads of the shape's group. others: (4 * blocks), zero. */
TOPKIT_FN bool test_enter(test_shape shape, unsigned *others, topkit_group *g) {
    const unsigned warp = threadIdx.x / TOPKIT_WARP, behind = shape.first + shape.warps;
    others += blockIdx.x * 4;
    if (shape.warps == shape.block_warps) {
        *g = topkit_group_block();
        return true;
    }
    if (warp >= shape.first && warp < behind) {
        *g = shape.warps == 1 ? topkit_group_warp() : topkit_group_warps(shape.first, shape.warps, 1);
        return true;
    }
    if (warp < shape.first) test_meanwhile(topkit_group_warps(0, shape.first, 2), others, others + 2);
    else test_meanwhile(topkit_group_warps(behind, shape.block_warps - behind, 3), others + 1, others + 2);
    return false;
}

/* ---- schedules ---- */

template <class BODY> static inline void under_all_schedules(BODY body) {
#ifdef TOPKIT_SIMT
    static const struct {
        int schedule;
        double preempt;
    } runs[] = {{SIMT_REVERSE, 0}, {SIMT_RANDOM, 0.3},
#ifndef TOPKIT_TEST_BRIEF /* as in select_case.h */
                {SIMT_FORWARD, 0}, {SIMT_FORWARD, 0.3}, {SIMT_RANDOM, 0},
#endif
    };
    unsigned long long seed = Catch::rngSeed();
    for (auto run : runs) {
        simt_set_schedule(run.schedule, ++seed);
        simt_set_preempt(run.preempt);
        simt_clear_failures();
        INFO("schedule " << run.schedule << " (0 forward, 1 reverse, 2 random), seed " << seed << ", preemption " << run.preempt);
        body();
        REQUIRE(simt_failures() == 0);
    }
    simt_set_schedule(SIMT_FORWARD, 1);
    simt_set_preempt(0);
#else
    body();
#endif
}

template <class BODY> static inline void everywhere(BODY body) {
    for (test_shape shape : test_shapes) {
        INFO("warps " << shape.first << " to " << shape.first + shape.warps - 1 << " of " << shape.block_warps);
        under_all_schedules([&] { body(shape); });
    }
}

/* A block of every number of warps that divides nothing much, and of a few that do. */
template <class BODY> static inline void every_size(BODY body) {
#ifdef TOPKIT_TEST_BRIEF
    for (unsigned warps : {3u, 7u}) {
#else
    for (unsigned warps : {1u, 2u, 3u, 5u, 6u, 7u, 12u, 15u, 24u}) {
#endif
        const test_shape shape = {0, warps, warps};
        INFO(warps << " warps");
        body(shape);
    }
}

/* ---- memory ---- */

/* `count` elements of device memory between 64 guard words on either side. An exact one ends where its allocation ends: the address
 * sanitizer and compute-sanitizer then see a read behind it. `shift` elements move it off its alignment. */
template <class T> class device_buffer {
public:
    T *data;

    explicit device_buffer(size_t size, int fill_byte = 0x7f) { allocate(std::vector<T>(size), 0, false, fill_byte); }
    explicit device_buffer(const std::vector<T> &values, int shift = 0, bool exact = false) { allocate(values, shift, exact, -1); }
    device_buffer(const device_buffer &) = delete;
    device_buffer &operator=(const device_buffer &) = delete;
    ~device_buffer() { cudaFree(base); }

    std::vector<T> read() const {
        std::vector<unsigned char> all(bytes);
        REQUIRE(cudaMemcpy(all.data(), base, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
        const unsigned char *guards = all.data(), *behind = guards + front + count * sizeof(T);
        const auto spoiled = [](unsigned char byte) { return byte != GUARD; };
        REQUIRE(std::none_of(guards, guards + front, spoiled));
        REQUIRE(std::none_of(behind, guards + bytes, spoiled));
        std::vector<T> values(count);
        if (count) std::memcpy((void *)values.data(), guards + front, count * sizeof(T));
        return values;
    }

private:
    static constexpr unsigned char GUARD = 0xc3;
    unsigned char *base;
    size_t count, front, bytes;

    void allocate(const std::vector<T> &values, int shift, bool exact, int fill_byte) {
        count = values.size();
        front = 256 + shift * sizeof(T);
        bytes = front + count * sizeof(T) + (exact ? 0 : 256);
        std::vector<unsigned char> all(bytes, GUARD);
        if (fill_byte >= 0) std::memset(all.data() + front, fill_byte, count * sizeof(T));
        else if (count) std::memcpy(all.data() + front, (const void *)values.data(), count * sizeof(T));
        REQUIRE(cudaMalloc((void **)&base, bytes) == cudaSuccess);
        REQUIRE(cudaMemcpy(base, all.data(), bytes, cudaMemcpyHostToDevice) == cudaSuccess);
        data = (T *)(base + front);
    }
};

/* ---- launches ---- */

/* Blocks of a cluster that this device has at the most. */
static inline int test_cluster_blocks() {
    int major = 0;
    REQUIRE(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess);
    return major >= 9 ? 16 : 1;
}

/* Clusters of so many blocks, along y where the grid has any; 0: a cooperative launch, whose blocks are all resident together. */
template <class... P, class... A>
static inline void test_launch_clusters(int cluster, dim3 blocks, unsigned threads, size_t shared, void (*kernel)(P...),
                                        A... arguments) {
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};
    if (cluster == 0) {
        attribute.id = cudaLaunchAttributeCooperative;
        attribute.val.cooperative = 1;
    } else {
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = blocks.y > 1 ? 1 : (unsigned)cluster;
        attribute.val.clusterDim.y = blocks.y > 1 ? (unsigned)cluster : 1;
        attribute.val.clusterDim.z = 1;
    }
    config.gridDim = blocks;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.attrs = &attribute;
    config.numAttrs = cluster != 1;
    if (shared > 48 * 1024)
        REQUIRE(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared) == cudaSuccess);
    if (cluster > 8)
        REQUIRE(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) == cudaSuccess);
    REQUIRE(cudaLaunchKernelEx(&config, kernel, (P)arguments...) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
}

template <class... P, class... A>
static inline void test_launch(unsigned blocks, unsigned threads, size_t shared, void (*kernel)(P...), A... arguments) {
    test_launch_clusters(1, dim3(blocks), threads, shared, kernel, arguments...);
}

template <class... P, class... A>
static inline void test_run(test_shape shape, unsigned blocks, size_t shared, void (*kernel)(test_shape, unsigned *, P...),
                            A... arguments) {
    const unsigned above = shape.block_warps - shape.first - shape.warps;
    device_buffer<unsigned> others(4 * blocks, 0);
    test_launch(blocks, shape.block_warps * TOPKIT_WARP, shared, kernel, shape, others.data, arguments...);
    std::vector<unsigned> expected(4 * blocks, 0);
    for (unsigned b = 0; b < blocks; b++) {
        expected[4 * b] = shape.first * TOPKIT_WARP * 3;
        expected[4 * b + 1] = above * TOPKIT_WARP * 3;
    }
    REQUIRE(others.read() == expected);
}

/* ---- inputs ---- */

typedef std::vector<uint32_t> score_bits; /* a row, as bits: a NaN keeps its payload */

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

static inline bool is_nan_bits(uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }

/* A permutation of 0 .. n-1, another one for each row. */
static inline int permuted(int n, int i, int r = 0) {
    const long long a = n % 4099 ? 4099 : 4111;
    return (int)((a * i + 17 + r) % n);
}

static inline uint64_t hashed(uint32_t r, uint32_t i) {
    uint64_t z = (uint64_t)r << 32 | i;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static inline float uniform(uint32_t r, uint32_t i) { return (float)(hashed(r, i) >> 40) * 0x1p-24f; }

/* Every kind of float, both signs. */
static inline score_bits special_scores() {
    score_bits all;
    for (uint32_t magnitude : {0x00000000u, 0x00000001u, 0x00000002u, 0x007fffffu, 0x00800000u, 0x00800001u, 0x3f7fffffu, 0x3f800000u,
                               0x3f800001u, 0x40000000u, 0x7f7ffffeu, 0x7f7fffffu, 0x7f800000u, 0x7f800001u, 0x7fc00000u, 0x7fffffffu}) {
        all.push_back(magnitude);
        all.push_back(magnitude | 0x80000000u);
    }
    return all;
}

template <class F> static inline score_bits row_of(int n, F score) {
    score_bits row;
    for (int i = 0; i < n; i++) row.push_back(bits_of(score(i)));
    return row;
}

/* ---- oracle ---- */

/* Below 0: a ranks below b; 0: alike. */
static inline int compare_scores(uint32_t a, uint32_t b) {
    const int nan = (int)is_nan_bits(a) - (int)is_nan_bits(b);
    if (is_nan_bits(a) || is_nan_bits(b)) return TOPKIT_NAN == TOPKIT_NAN_HIGHEST ? nan : -nan;
    return (float_of(a) > float_of(b)) - (float_of(a) < float_of(b));
}

/* The sort key by arithmetic: how many floats lie below. */
static inline uint32_t expected_key(uint32_t bits) {
    if (is_nan_bits(bits)) return TOPKIT_NAN == TOPKIT_NAN_HIGHEST ? 0xffffffffu : 0;
    if (float_of(bits) == 0) return 0x80000000u;
    return float_of(bits) > 0 ? 0x80000000u + bits : 0x7fffffffu - (bits - 0x80000000u);
}

/* One pattern for scores that compare alike. */
static inline uint32_t canonical(uint32_t bits) { return is_nan_bits(bits) ? 0x7fc00000u : bits == 0x80000000u ? 0 : bits; }

/* All indices, best first, the lower of two alike first. */
static inline std::vector<int> ranking(const score_bits &scores) {
    std::vector<int> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return compare_scores(scores[a], scores[b]) > 0; });
    return order;
}

/* The k slots hold the exact answer: distinct indices of the row whose scores are the k best, -1 behind them, and under lowest-index ties
 * this very set; where values are given they are those scores' own bits. */
static inline void check_exact(const score_bits &scores, int k, const std::vector<int> &indices, int ties,
                               const score_bits *values = nullptr) {
    const int n = (int)scores.size(), m = std::min(k, n);
    std::vector<int> best = ranking(scores), got(indices.begin(), indices.begin() + m);
    best.resize(m);
    std::sort(best.begin(), best.end());
    std::sort(got.begin(), got.end());
    REQUIRE((int)indices.size() >= k);
    REQUIRE((m == 0 || (got.front() >= 0 && got.back() < n)));
    REQUIRE(std::adjacent_find(got.begin(), got.end()) == got.end());
    REQUIRE(std::count(indices.begin() + m, indices.begin() + k, -1) == k - m);
    score_bits best_scores, got_scores, slot_scores;
    for (int i = 0; i < m; i++) {
        best_scores.push_back(canonical(scores[best[i]]));
        got_scores.push_back(canonical(scores[got[i]]));
        slot_scores.push_back(scores[indices[i]]);
    }
    std::sort(best_scores.begin(), best_scores.end());
    std::sort(got_scores.begin(), got_scores.end());
    REQUIRE(got_scores == best_scores);
    if (ties == TOPKIT_LOWEST_INDEX) REQUIRE(got == best);
    if (values) REQUIRE(score_bits(values->begin(), values->begin() + m) == slot_scores);
}

#endif
