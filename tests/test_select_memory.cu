/* test_select_memory.cu: the operator on memory: what lies outside the rows, alignments, strides, windows, offsets, exact allocations. */
#include "select_case.h"

#ifdef TOPKIT_SIMT
#include <sys/mman.h>
#endif

static float ramp(int n, int r, int i) { return (float)permuted(n, r, i) * 0x1p-10f; }

TEST_CASE("B01 what lies behind a row never matters") {
    const int stride = test_size(131072, 16384), n = test_size(100003, 12003), k = 2048;
    matrix m = matrix_of(test_size(16, 3), n, [](int, int) { return 0.0f; });
    m.row_stride = stride;
    for (float poison : {bits_float(0x7f800000u), bits_float(0x7fc00000u), bits_float(0x7f7fffffu)}) {
        m.fill([=](int r, int i) {
            const int p = permuted(n, r, i);
            if (p >= n - 1000) return 2.0f + (float)p * 0x1p-10f;
            return p < n - 3000 ? bits_float(0x3f800000u + (uint32_t)p) : -1.0f - (float)p * 0x1p-10f;
        }, poison);
        m.scores.resize((size_t)m.rows * (size_t)stride, poison);
        trial t(m);
        t.check(k);
        t.check(1000);
    }
}

TEST_CASE("B02 the last row ends with its allocation") {
    for (int n : {1, 2, 3, 5, 1021, 4093, 8195, 16387}) {
        for (int displaced : {0, 1, 3}) {
            matrix m = matrix_of(2, n, [n](int r, int i) { return ramp(n, r, i); });
            m.displaced = displaced;
            trial t(m);
            REQUIRE((long long)m.scores.size() == m.begin(1) + n);
            for (int k : {1, n / 2, n, 600}) {
                if (k >= 1 && k <= 4096) t.check(k);
            }
        }
    }
}

static void check_captured(trial *t, int k) {
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreate(&stream));
    for (int route : ROUTES) {
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        if (!t->prepare(k, {route, TOPKIT_TIES_LOWEST_INDEX, TOPKIT_ORDER_INDEX})) continue;
        CUDA_OK(cudaDeviceSynchronize());
        CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        const int status = topkit_select(&t->now, stream);
        CUDA_OK(cudaStreamEndCapture(stream, &graph));
        REQUIRE(status == TOPKIT_OK);
        REQUIRE(t->untouched());
        CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
        CUDA_OK(cudaGraphLaunch(exec, stream));
        settle(stream);
        t->verify();
        CUDA_OK(cudaGraphExecDestroy(exec));
        CUDA_OK(cudaGraphDestroy(graph));
    }
    CUDA_OK(cudaStreamDestroy(stream));
}

TEST_CASE("B03 bases at any element") {
    const int n = 10007, k = 512;
    for (int displaced : {1, 2, 3}) {
        matrix m = matrix_of(test_size(17, 3), n, [](int r, int i) { return ramp(n, r, i); });
        m.displaced = displaced;
        trial t(m);
        t.check(k);
        check_captured(&t, k);
    }
}

TEST_CASE("B04 odd row strides") {
    for (int n : {4095, 4096, 4097, test_size(20001, 9001)}) {
        for (int extra : {1, 2, 3}) {
            matrix m = matrix_of(test_size(17, 5), n, [n](int r, int i) { return ramp(n, r, i); });
            m.row_stride = n + extra;
            m.fill([n](int r, int i) { return ramp(n, r, i); });
            trial t(m);
            t.check(512);
        }
    }
}

TEST_CASE("B05 every third row of a matrix, rows that overlap, and the same row many times") {
    const int n = test_size(20000, 6000);
    for (long long stride : {3ll * n, 1ll, 7ll, 0ll}) {
        matrix m = matrix_of(test_size(17, 4), n, [](int, int) { return 0.0f; });
        m.row_stride = stride;
        m.fill([n](int r, int i) { return ramp(n, r, i); });
        trial t(m);
        t.check(512);
    }
}

TEST_CASE("B06 strided outputs are honoured, strided columns refused") {
    const int n = test_size(20000, 9000);
    trial t(matrix_of(test_size(17, 3), n, [n](int r, int i) { return ramp(n, r, i); }));
    for (int k : {1, 512}) {
        t.index_stride = 3 * k;
        t.value_stride = 2 * k + 1;
        t.check(k);
    }
    t.wants_values = false;
    t.check(512);
    REQUIRE(t.prepare(512, {TOPKIT_ROUTE_AUTO, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE}));
    for (long long columns : {2ll, -1ll, 3ll}) {
        t.now.column_stride = columns;
        REQUIRE(topkit_select(&t.now, nullptr) == TOPKIT_ERROR_STRIDE);
        settle(nullptr);
        REQUIRE(t.untouched());
    }
    t.now.column_stride = 1;
    REQUIRE(topkit_select(&t.now, nullptr) == TOPKIT_OK);
    settle(nullptr);
    t.verify();
}

TEST_CASE("B07 row windows: indices are relative to the window's start") {
    const int n = 9000;
    for (int start : {1, 2, 3, 5, 31, 4097}) {
        matrix m = matrix_of(test_size(17, 2), n, [](int, int) { return 0.0f; });
        m.row_stride = n + start;
        m.starts.assign((size_t)m.rows, start);
        m.fill([](int r, int i) { return ramp(n, r, i); });
        m.lengths.assign((size_t)m.rows, n);
        m.lengths[0] = 300; /* a row shorter than k: the same index base */
        trial t(m);
        t.check(512);
    }
    matrix ragged = matrix_of(test_size(99, 9), n, [](int, int) { return 0.0f; });
    ragged.row_stride = 2 * n;
    for (int r = 0; r < ragged.rows; r++) {
        ragged.starts.push_back((int)(hashed(1, r) % (unsigned)n));
        ragged.lengths.push_back((int)(hashed(2, r) % (unsigned)n));
    }
    ragged.fill([](int r, int i) { return ramp(n, r, i); });
    trial t(ragged);
    t.check(512);
}

/* Memory for three rows 4 GiB apart: real on the GPU, and on the executor address space whose pages are made when they are touched. */
TEST_CASE("B08 offsets beyond 2^31 elements") {
    const int n = 4096, k = 512, rows = 3;
    const long long stride = (1ll << 30) + 4;
    const size_t bytes = (size_t)(2 * stride + n) * 4;
    float *wide = nullptr;
#ifdef TOPKIT_SIMT
    void *reserved = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(reserved != MAP_FAILED);
    wide = (float *)reserved;
#else
    size_t free_bytes = 0, total = 0;
    CUDA_OK(cudaMemGetInfo(&free_bytes, &total));
    if (free_bytes < bytes + (256u << 20)) {
        WARN("not enough memory for offsets beyond 2^31: " << free_bytes << " bytes free");
        return;
    }
    CUDA_OK(cudaMalloc(&wide, bytes));
#endif
    matrix m = matrix_of(rows, n, [](int r, int i) { return ramp(n, r, i); });
    for (int r = 0; r < rows; r++) CUDA_OK(cudaMemcpy(wide + r * stride, m.row(r), n * sizeof(float), cudaMemcpyHostToDevice));
    trial t(m); /* the oracle reads the same rows close together */
    int tried = 0;
    for (int route : ROUTES) {
        if (!t.prepare(k, {route, TOPKIT_TIES_LOWEST_INDEX, TOPKIT_ORDER_NONE})) continue;
        t.now.scores = wide;
        t.now.row_stride = stride;
        REQUIRE(topkit_select(&t.now, nullptr) == TOPKIT_OK);
        settle(nullptr);
        t.verify();
        tried++;
    }
    REQUIRE(tried >= 2);
#ifdef TOPKIT_SIMT
    munmap(reserved, bytes);
#else
    CUDA_OK(cudaFree(wide));
#endif
}

TEST_CASE("B09 many rows") {
    for (int rows : {65535, 65536, 65537, 70001}) {
        const int few = test_size(rows, rows / (BRIEF ? 1024 : 512));
        trial t(matrix_of(few, 64, [](int r, int i) { return (float)((i * 37 + r) % 64); }));
        t.answer_is(8, [](int r, int i) { return (i * 37 + r) % 64 >= 56; });
        t.check(8);
        if (test_size(0, 1) && rows != 65535) break;
    }
}

TEST_CASE("B10 no slot is left unwritten") { /* trial prefills every output: lengths on both sides of k, of nothing, of everything */
    for (int k : {1, 33, 512, 2048}) {
        matrix m = matrix_of(test_size(64, 12), 2 * k + 700, [](int, int) { return 0.0f; });
        for (int r = 0; r < m.rows; r++) {
            const int around[] = {0, k - 1, k, k + 1, 2 * k + 700, k / 2};
            m.lengths.push_back(around[r % 6]);
        }
        m.fill([](int r, int i) { return r % 5 == 4 ? bits_float(0xff800000u) : (float)(hashed(r, i) & 0xffff); });
        trial t(m);
        t.check(k);
    }
}

TEST_CASE("No scores at all, and the largest strides of one row") {
    for (int route : ROUTES) {
        for (int order = 0; order < 3; order++) {
            matrix m;
            m.rows = 7;
            trial none(m), one(matrix_of(1, 3000, [](int r, int i) { return ramp(3000, r, i); }));
            if (!none.prepare(33, {route, order & 1, order})) continue;
            none.now.scores = nullptr;
            REQUIRE(topkit_select(&none.now, nullptr) == TOPKIT_OK);
            settle(nullptr);
            none.verify();
            REQUIRE(one.prepare(33, {route, order & 1, order}));
            one.now.row_stride = one.now.index_stride = one.now.value_stride = 0x7fffffffffffffffll;
            REQUIRE(topkit_select(&one.now, nullptr) == TOPKIT_OK);
            settle(nullptr);
            one.verify();
        }
    }
}
