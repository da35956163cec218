/* test_select_edges.cu: the operator where a number of its own begins or ends: a tile or a stage and one more or less, at every alignment;
 * the k at which the plan changes; fewer blocks than rows and more; offsets that overflow 32 bits; plateaus at every special score; special
 * scores mixed around the boundary.
 */
#include "02_pipelined_select.cuh"
#include "select_case.h"

#ifdef TOPKIT_SIMT
#include <sys/mman.h>
#endif

static const uint32_t NAN_BITS = 0x7fc00000u, INFINITE = 0x7f800000u, MINUS = 0x80000000u;

static float ramp(int n, int r, int i) { return (float)permuted(n, r, i) * 0x1p-10f; }

TEST_CASE("Rows of whole tiles and stages, and one score more or less, at every alignment") {
    for (int whole : {TOPKIT_TILE, 2 * TOPKIT_TILE, TOPKIT_PIPELINED_CHUNK, 2 * TOPKIT_PIPELINED_CHUNK}) {
        for (int displaced = 0; displaced < 4; displaced++) {
            matrix m = matrix_of(4, whole + 3, [](int, int) { return 0.0f; });
            m.displaced = displaced;
            m.row_stride = whole + 4; /* a multiple of 4: all rows lie alike */
            m.lengths = {whole - 1, whole, whole + 1, whole + (4 - displaced) % 4}; /* the last: a head and whole vectors */
            m.fill([=](int r, int i) { return ramp(whole + 5, r, i); });
            trial t(m);
            t.check(whole / 3 < 700 ? whole / 3 : 700);
        }
    }
}

/* The row route's buffer is 8192, then three times k in steps of 512, then what fits. */
TEST_CASE("The k at which the plan changes") {
    topkit_plan before, plan;
    std::vector<int> ks;
    const int most = largest_k(TOPKIT_ROUTE_ROW, 20000);
    REQUIRE(plan_here(1, 20000, 1, TOPKIT_ORDER_SCORE, TOPKIT_ROUTE_ROW, &before) == TOPKIT_OK);
    for (int k = 2; k <= most; k++) {
        REQUIRE(plan_here(1, 20000, k, TOPKIT_ORDER_SCORE, TOPKIT_ROUTE_ROW, &plan) == TOPKIT_OK);
        if (plan.capacity != before.capacity || plan.shared_bytes != before.shared_bytes) ks.push_back(k);
        before = plan;
    }
    if (ks.empty()) return; /* a device on which one buffer serves all */
    for (int k : {ks.front() - 1, ks.front(), ks.back() - 1, ks.back(), most - 1, most}) {
        if (k < 1) continue;
        REQUIRE(plan_here(1, 20000, k, TOPKIT_ORDER_SCORE, TOPKIT_ROUTE_ROW, &plan) == TOPKIT_OK);
        const int n = plan.capacity;
        matrix m = matrix_of(5, n + TOPKIT_TILE, [](int, int) { return 0.0f; });
        m.lengths = {n, n + 1, k, k + 1, n + TOPKIT_TILE};
        m.fill([=](int r, int i) { return ramp(n + TOPKIT_TILE, r, i); });
        trial t(m);
        t.check(k);
    }
}

/* Blocks take their first row by number and the others from the queue, in an order where there are lengths. */
TEST_CASE("Rows around the number of blocks") {
    const int n = 700, k = 33;
    topkit_plan plan;
    for (int route : ROUTES) {
        if (plan_here(1 << 20, n, k, TOPKIT_ORDER_NONE, route, &plan) != TOPKIT_OK) continue;
        if (plan.blocks >= 1 << 20) plan.blocks = 5; /* a block a row: any number of rows will do */
        for (int rows : {1, plan.blocks - 1, plan.blocks, plan.blocks + 1, 2 * plan.blocks + 1}) {
            if (rows < 1) continue;
            matrix m = matrix_of(rows, n, [](int r, int i) { return ramp(n, r, i); });
            trial all(m);
            REQUIRE(all.run(k, {route, rows % 2, TOPKIT_ORDER_NONE}));
            for (int r = 0; r < rows; r++) m.lengths.push_back(r % 4 == 3 ? 0 : n - r % 90);
            trial ragged(m);
            REQUIRE(ragged.run(k, {route, rows % 2, TOPKIT_ORDER_INDEX}));
        }
    }
}

#ifdef TOPKIT_SIMT
TEST_CASE("Devices of one, two and three multiprocessors") {
    const int n = 9000;
    matrix m = matrix_of(9, n, [](int, int) { return 0.0f; });
    m.lengths = {n, 0, 1, 512, 513, n - 1, 3, 8191, 8193};
    m.fill([](int r, int i) { return ramp(n, r, i); });
    trial t(m);
    for (int count : {1, 2, 3}) {
        simt_set_sm_count(count);
        t.check(512);
    }
    simt_set_sm_count(4);
}

/* Address space whose pages are made when they are touched. */
struct wide_memory {
    size_t bytes;
    void *base;
    explicit wide_memory(size_t size) : bytes(size) {
        base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        REQUIRE(base != MAP_FAILED);
    }
    ~wide_memory() { munmap(base, bytes); }
    wide_memory(const wide_memory &) = delete;
    wide_memory &operator=(const wide_memory &) = delete;
};

TEST_CASE("Results and windows beyond 2^31 and 2^32 elements") {
    const int n = 3000, k = 100, rows = 4;
    const long long stride = (1ll << 30) + 8; /* row 2 begins behind 2^31 elements, with its bytes behind 2^33 */
    trial t(matrix_of(rows, n, [](int r, int i) { return ramp(n, r, i); }));
    wide_memory results((size_t)(rows - 1) * (size_t)stride * 4 + k * 4), values((size_t)(rows - 1) * (size_t)stride * 4 + k * 4);
    wide_memory scores(((size_t)3 << 32) + ((size_t)1 << 20));
    const std::vector<int> starts = {2147483647, 0, 2147483646, 7};
    const long long row_stride = 357913941; /* a third of 2^30: starts add to it */
    for (int r = 0; r < rows; r++)
        memcpy((float *)scores.base + r * row_stride + starts[(size_t)r], t.m.row(r), (size_t)n * sizeof(float));
    exact<int> device_starts(starts);
    int tried = 0;
    for (int route : ROUTES) {
        for (int order : {TOPKIT_ORDER_NONE, TOPKIT_ORDER_SCORE}) {
            if (!t.prepare(k, {route, TOPKIT_TIES_LOWEST_INDEX, order})) continue;
            topkit_select_params p = t.now;
            p.scores = scores.base;
            p.row_stride = row_stride;
            p.row_starts = device_starts.data;
            p.indices = (int *)results.base;
            p.values = values.base;
            p.index_stride = p.value_stride = stride;
            REQUIRE(topkit_select(&p, nullptr) == TOPKIT_OK);
            settle(nullptr);
            for (int r = 0; r < rows; r++) { /* back together, where the trial looks for them */
                memcpy((int *)t.indices->data + r * k, (int *)results.base + r * stride, k * 4);
                memcpy((int *)t.values->data + r * k, (int *)values.base + r * stride, k * 4);
            }
            t.verify();
            tried++;
        }
    }
    REQUIRE(tried >= 4);
}
#endif

TEST_CASE("All scores are one special score") {
    for (uint32_t all : {INFINITE, INFINITE | MINUS, NAN_BITS, MINUS, 1u, 1u | MINUS, 0x007fffffu, 0x00800000u, 0x7f7fffffu, 0xff7fffffu}) {
        trial t(matrix_of(2, 9500, [=](int, int) { return bits_float(all); }));
        t.answer_is(600, [](int, int i) { return i < 600; });
        t.check(600);
    }
}

/* `above` scores are of one kind and the rest of another, with the boundary one before, at and one behind the change. */
TEST_CASE("Special scores on either side of the boundary") {
    struct kinds {
        uint32_t above, below;
    };
    const bool highest = TOPKIT_NAN == TOPKIT_NAN_HIGHEST;
    std::vector<kinds> pairs = {{INFINITE, 0x7f7fffffu}, {0xff7fffffu, INFINITE | MINUS}, {1u, 0u}, {1u, MINUS}, {0u, MINUS | 1u},
                                {MINUS, MINUS | 1u}, {INFINITE, INFINITE | MINUS}, {0x00800000u, 0x007fffffu}};
    pairs.push_back(highest ? kinds{NAN_BITS, INFINITE} : kinds{INFINITE, NAN_BITS});
    pairs.push_back(highest ? kinds{NAN_BITS | MINUS, INFINITE | MINUS} : kinds{INFINITE | MINUS, NAN_BITS | MINUS});
    for (kinds both : pairs) {
        const int n = 9500, above = 300;
        trial t(matrix_of(1, n, [=](int r, int i) { return bits_float(permuted(n, r, i) < above ? both.above : both.below); }));
        t.answer_is(above, [=](int r, int i) { return permuted(n, r, i) < above; });
        for (int k : {above - 1, above, above + 1}) t.check(k);
    }
}

TEST_CASE("NaNs, infinities and numbers in every proportion") {
    const int n = 9500;
    for (int numbers : {0, 1, 99, 100, 101, 8193}) {
        for (uint32_t most : {NAN_BITS, NAN_BITS | MINUS, INFINITE, INFINITE | MINUS}) {
            trial t(matrix_of(1, n, [=](int r, int i) {
                const int p = permuted(n, r, i);
                return p < numbers ? (float)(p - 50) * 0x1p-140f : bits_float(p % 3 ? most : p % 2 ? INFINITE : NAN_BITS + (uint32_t)i);
            }));
            t.check(100);
        }
    }
}

/* The k best lie side by side: in one tile, across tiles, in the edge. Warps that find something find all of it. */
TEST_CASE("The best scores in one place") {
    const int n = 3 * TOPKIT_PIPELINED_CHUNK + 77;
    for (int at : {0, 1, TOPKIT_TILE - 1, TOPKIT_PIPELINED_CHUNK - 300, n - 600}) {
        for (int block : {1, 600}) {
            matrix m = matrix_of(2, n, [](int, int) { return 0.0f; });
            m.displaced = 1;
            m.row_stride = n + 1;
            m.fill([=](int r, int i) { return ramp(n, r, i) + (i >= at && i < at + block ? 1000.0f : 0.0f); });
            trial t(m);
            for (int k : {block, block + 1}) t.check(k);
        }
    }
}

TEST_CASE("AUTO beyond the routes' own limit of k, split and not") {
    const int n = 33001;
    for (int rows : {1, 5}) {
        for (int kind = 0; kind < 3; kind++) {
            matrix m = matrix_of(rows, n, [](int, int) { return 0.0f; });
            for (int r = 0; r < rows; r++) m.lengths.push_back(r % 3 == 2 ? 8192 + r % 2 : n - r);
            m.fill([&](int r, int i) {
                return kind == 0 ? ramp(n, r, i) : kind == 1 ? (float)(hashed(r, i) % 3) : i % 5 ? bits_float(NAN_BITS) : ramp(n, r, i);
            });
            trial t(m);
            for (int k : {4097, 8192, 8193, 18432, 18433}) {
                if (BRIEF && k != 8193) continue;
                REQUIRE(t.run(k, {TOPKIT_ROUTE_AUTO, (k + kind) % 2, TOPKIT_ORDER_NONE}));
            }
        }
    }
}

TEST_CASE("AUTO beyond the row route's own limit of k, rows of ten times as many scores") {
    const int n = 92000, k = 9200;
#ifdef TOPKIT_SIMT
    const int rows = 2;
    simt_set_sm_count(1);
#else
    const int rows = 300;
#endif
    for (int kind = 0; kind < (BRIEF ? 1 : 2); kind++) {
        matrix m = matrix_of(rows, n, [](int, int) { return 0.0f; });
        m.displaced = 1;
        for (int r = 0; r < rows; r++) m.lengths.push_back(r % 4 == 3 ? k + r % 3 - 1 : n - r);
        m.fill([&](int r, int i) { return kind == 0 ? ramp(n, r, i) : (float)(hashed(r, i) % 3); });
        trial t(m);
        topkit_plan plan;
        REQUIRE(plan_here(rows, n, k, TOPKIT_ORDER_NONE, TOPKIT_ROUTE_AUTO, &plan) == TOPKIT_OK);
        REQUIRE(plan.route == TOPKIT_ROUTE_ROW);
        REQUIRE(t.run(k, {TOPKIT_ROUTE_AUTO, kind, TOPKIT_ORDER_NONE}));
    }
#ifdef TOPKIT_SIMT
    simt_set_sm_count(4);
#endif
}

#ifdef TOPKIT_SIMT
/* On a GPU of 132 multiprocessors test_select_large has such rows. */
TEST_CASE("A row of forty blocks that meet in memory, with a rough gate") {
    const int n = 524288 + 5;
    simt_set_sm_count(40);
    for (int kind = 0; kind < (BRIEF ? 1 : 3); kind++) {
        matrix m = matrix_of(1, n, [](int, int) { return 0.0f; });
        m.displaced = kind + 1;
        m.fill([&](int r, int i) {
            return kind == 0 ? ramp(n, r, i) : kind == 1 ? (float)(hashed(r, i) % 3) : i % 400 ? bits_float(NAN_BITS) : (float)i;
        });
        trial t(m);
        const int k = kind == 1 ? 8192 : 4096;
        topkit_plan plan;
        REQUIRE(plan_here(1, n, k, TOPKIT_ORDER_NONE, TOPKIT_ROUTE_AUTO, &plan) == TOPKIT_OK);
        REQUIRE(plan.parts == 40);
        REQUIRE(t.run(k, {TOPKIT_ROUTE_AUTO, kind % 2, TOPKIT_ORDER_NONE}));
        if (k <= 4096) REQUIRE(t.run(k, {TOPKIT_ROUTE_AUTO, TOPKIT_TIES_LOWEST_INDEX, TOPKIT_ORDER_SCORE}));
    }
    simt_set_sm_count(4);
}
#endif
