/* test_select_large.cu: the operator on shapes that only a GPU can do in a test's time, against CUB's device-wide radix sort.
 *
 * Scores are made on the device from (row, index) alone. The oracle sorts 64-bit numbers (ordinal, ~index), descending, by
 * cub::DeviceRadixSort, and the host checks each row with the k best of them and the row's scores (oracle.h). Off the GPU these cases are
 * one that says so.
 */
#include "select_case.h"

#ifdef TOPKIT_SIMT

TEST_CASE("Large shapes are for the GPU") { SUCCEED("the executor runs the same cases at smaller sizes in the other files"); }

#else

#include <cub/device/device_radix_sort.cuh>

enum { UNIFORM, NARROW_BAND, FEW_VALUES, DRIFT, KINDS };

static __device__ __forceinline__ unsigned mix32(unsigned x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

static __global__ void make_scores(float *scores, long long stride, int rows, int n, int kind) {
    const long long threads = (long long)gridDim.x * blockDim.x, all = (long long)rows * n;
    for (long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x; at < all; at += threads) {
        const int r = (int)(at / n), i = (int)(at % n);
        const unsigned h = mix32(mix32((unsigned)r * 0x9e3779b9u + 1u) ^ (unsigned)i);
        const float u = (float)(h >> 8) * 0x1p-24f;
        float x = u;
        if (kind == NARROW_BAND) x = __uint_as_float(0x3f800000u + (h & 0xffffu));
        if (kind == FEW_VALUES) x = (float)(h % 100u);
        if (kind == DRIFT) x = (float)i * 0x1p-20f + u * 0.01f;
        scores[r * stride + i] = x;
    }
}

/* The oracle's pairs of a row, by its own rule once more: sign and magnitude. No NaN is made here. */
static __global__ void make_pairs(const float *scores, unsigned long long *pairs, int n) {
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += (int)(gridDim.x * blockDim.x)) {
        const unsigned bits = __float_as_uint(scores[i]);
        const long long magnitude = (long long)(bits & 0x7fffffffu);
        pairs[i] = (unsigned long long)((bits >> 31 ? -magnitude : magnitude) + 0x80000000ll) << 32 | (unsigned)~i;
    }
}

struct large_matrix {
    int rows, n;
    long long stride;
    float *scores = nullptr;
    unsigned long long *pairs = nullptr, *sorted = nullptr;
    void *scratch = nullptr;
    size_t scratch_bytes = 0;

    large_matrix(int rows_, int n_, long long stride_) : rows(rows_), n(n_), stride(stride_) {
        CUDA_OK(cudaMalloc(&scores, ((size_t)(rows - 1) * (size_t)stride + (size_t)n) * sizeof(float)));
        CUDA_OK(cudaMalloc(&pairs, (size_t)n * 8));
        CUDA_OK(cudaMalloc(&sorted, (size_t)n * 8));
        CUDA_OK(cub::DeviceRadixSort::SortKeysDescending(nullptr, scratch_bytes, pairs, sorted, n));
        CUDA_OK(cudaMalloc(&scratch, scratch_bytes));
    }
    ~large_matrix() {
        for (void *memory : {(void *)scores, (void *)pairs, (void *)sorted, scratch}) cudaFree(memory);
    }
    large_matrix(const large_matrix &) = delete;
    large_matrix &operator=(const large_matrix &) = delete;

    template <class... P, class... A> void launch(void (*kernel)(P...), A... arguments) {
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(1024);
        config.blockDim = dim3(256);
        CUDA_OK(cudaLaunchKernelEx(&config, kernel, (P)arguments...));
    }
    void make(int kind) { launch(make_scores, scores, stride, rows, n, kind); }

    std::vector<uint64_t> best(int r, int k) {
        std::vector<uint64_t> top((size_t)(k < n ? k : n));
        launch(make_pairs, scores + r * stride, pairs, n);
        CUDA_OK(cub::DeviceRadixSort::SortKeysDescending(scratch, scratch_bytes, pairs, sorted, n));
        CUDA_OK(cudaMemcpy(top.data(), sorted, top.size() * 8, cudaMemcpyDeviceToHost));
        return top;
    }
};

/* Every route, both tie policies, on one kind of scores; `checked_rows` of the rows are compared with the oracle, spread over all. */
static void check_large(large_matrix *m, int k, int kind, int checked_rows) {
    const int step = (m->rows + checked_rows - 1) / checked_rows;
    std::vector<std::vector<uint64_t>> best;
    std::vector<std::vector<float>> row_scores;
    m->make(kind);
    for (int r = 0; r < m->rows; r += step) {
        best.push_back(m->best(r, k));
        row_scores.emplace_back((size_t)m->n);
        CUDA_OK(cudaMemcpy(row_scores.back().data(), m->scores + r * m->stride, (size_t)m->n * 4, cudaMemcpyDeviceToHost));
    }
    int offered = 0;
    for (int route : ROUTES) {
        for (int ties : {TOPKIT_TIES_ANY, TOPKIT_TIES_LOWEST_INDEX}) {
            INFO("rows " << m->rows << ", length " << m->n << ", k " << k << ", kind " << kind << ", route " << route << ", ties " << ties);
            topkit_select_params p = {};
            p.scores = m->scores;
            p.row_stride = m->stride;
            p.rows = m->rows;
            p.max_length = m->n;
            p.k = k;
            p.ties = ties;
            p.order = ties ? TOPKIT_ORDER_SCORE : TOPKIT_ORDER_NONE;
            p.route = route;
            if (topkit_select_workspace(&p, &p.workspace_bytes) != TOPKIT_OK) {
                REQUIRE(route > TOPKIT_ROUTE_ROW);
                continue;
            }
            guarded indices((size_t)m->rows * (size_t)k * 4), values((size_t)m->rows * (size_t)k * 4), workspace(p.workspace_bytes);
            indices.fill(PREFILL_BYTE);
            values.fill(PREFILL_BYTE);
            workspace.fill(0);
            p.indices = (int *)indices.data;
            p.values = values.data;
            p.workspace = workspace.data;
            REQUIRE(topkit_select(&p, nullptr) == TOPKIT_OK);
            settle(nullptr);
            std::vector<int> got;
            std::vector<uint32_t> bits;
            std::vector<unsigned char> rest;
            REQUIRE(indices.read(&got));
            REQUIRE(values.read(&bits));
            REQUIRE(workspace.read(&rest));
            for (size_t j = 0; j < best.size(); j++) {
                const size_t at = j * (size_t)step * (size_t)k;
                const std::string fault = oracle_fault(row_scores[j].data(), m->n, best[j], k, &got[at], &bits[at],
                                                       ties == TOPKIT_TIES_LOWEST_INDEX, p.order);
                if (!fault.empty()) FAIL("row " << j * (size_t)step << ": " << fault);
            }
            offered++;
        }
    }
    REQUIRE(offered >= 4);
}

TEST_CASE("C05 many long rows, more of them than blocks") {
    large_matrix m(512, 131072, 131072);
    for (int kind = 0; kind < KINDS; kind++) check_large(&m, 2048, kind, 64);
}

TEST_CASE("C06 one very long row") {
    for (int bits : {20, 22, 24}) {
        large_matrix m(1, 1 << bits, 1 << bits);
        for (int kind = 0; kind < KINDS; kind++) {
            check_large(&m, 2048, kind, 1);
            check_large(&m, 1, kind, 1);
            check_large(&m, 4096, kind, 1);
        }
    }
}

TEST_CASE("A row length that is no multiple of anything, at an odd stride") {
    large_matrix m(40, 1000003, 1000005);
    for (int kind = 0; kind < KINDS; kind++) check_large(&m, 2048, kind, 8);
}

TEST_CASE("The host's sort and CUB's agree") {
    large_matrix m(3, 100003, 100004);
    for (int kind = 0; kind < KINDS; kind++) {
        m.make(kind);
        for (int r = 0; r < 3; r++) {
            std::vector<float> scores((size_t)m.n);
            const std::vector<uint64_t> best = m.best(r, 2048);
            CUDA_OK(cudaMemcpy(scores.data(), m.scores + r * m.stride, scores.size() * 4, cudaMemcpyDeviceToHost));
            REQUIRE(best == oracle_best(scores.data(), m.n, 2048));
        }
    }
}

#endif
