/* test_select_shapes.cu: the operator on sizes: its capacities and the sizes around them, k from 0 past its limit, short and empty rows. */
#include "01_row_select.cuh"
#include "select_case.h"

static float ramp(int n, int r, int i) { return (float)permuted(n, r, i) * 0x1p-10f; }

/* Whatever holds a bounded number of something: candidates, boundary ties, a tile, samples, bins. */
static std::vector<int> capacities() {
    topkit_plan plan;
    REQUIRE(plan_here(1, 131072, 2048, TOPKIT_ORDER_NONE, TOPKIT_ROUTE_AUTO, &plan) == TOPKIT_OK);
    std::vector<int> all = {TOPKIT_BOUNDARY, TOPKIT_TILE, TOPKIT_DIGIT_BINS, TOPKIT_ROW_SAMPLE, TOPKIT_ROW_THREADS * 16, plan.threads};
    for (int route : ROUTES) {
        for (int k : {512, 1024, 2048}) {
            if (plan_here(1, 131072, k, TOPKIT_ORDER_NONE, route, &plan) == TOPKIT_OK && plan.capacity > 0) all.push_back(plan.capacity);
        }
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

TEST_CASE("A02 rows as long as a capacity, in one narrow band") {
    for (int c : capacities()) {
        for (int n : {c - 1, c, c + 1, 2 * c, 2 * c + 1}) {
            for (int rows : {1, test_size(33, 3), test_size(150, 9)}) {
                if ((rows == 9 && n > 3000) || (rows == 1 && test_size(0, 1) && n != c + 1) || (BRIEF && rows != 3)) continue; /* time */
                trial t(matrix_of(rows, n, [n](int r, int i) { return bits_float(0x3f800000u + (uint32_t)permuted(n, r, i)); }));
                for (int k : {2048, 1024, 512}) {
                    if (k >= n || (BRIEF && k != 1024)) continue;
                    t.answer_is(k, [=](int r, int i) { return permuted(n, r, i) >= n - k; });
                    t.check(k);
                }
            }
        }
    }
}

TEST_CASE("A02 a tie group as large as a capacity at the boundary") {
    for (int c : capacities()) {
        if (c > test_size(1 << 20, 2048)) continue;
        for (int group : {c - 1, c, c + 1}) {
            const int n = 2 * c + 1, above = c / 2; /* above winners, then `group` equals, then the rest */
            trial t(matrix_of(test_size(33, 2), n, [=](int r, int i) {
                const int p = permuted(n, r, i);
                return p < above ? 2.0f + (float)p * 0x1p-10f : p < above + group ? 1.0f : 0.5f - (float)p * 0x1p-20f;
            }));
            for (int k : {above, above + 1, above + group / 2, above + group - 1, above + group, above + group + 1}) {
                if (k <= largest_k(TOPKIT_ROUTE_AUTO, n)) t.check(k);
            }
        }
    }
}

TEST_CASE("A08 lengths around k") {
    for (int k : {1, 2, 31, 32, 33, 511, 512, 705, 1024, 2047, 2048}) {
        for (int n : {k - 1, k, k + 1}) {
            trial t(matrix_of(test_size(17, 2), n, [n](int r, int i) { return ramp(n, r, i); }));
            if (n == k + 1) t.answer_is(k, [n](int r, int i) { return permuted(n, r, i) != 0; });
            t.check(k);
        }
    }
}

TEST_CASE("A09 every kind of k") {
    const int n = 20011, most = largest_k(TOPKIT_ROUTE_ROW, n);
    REQUIRE(most >= 4096);
    trial t(matrix_of(test_size(235, 1), n, [](int r, int i) { return ramp(n, r, i); }));
    for (int k : {most, most - 1, 2048, 2047, 1025, 1023, 1000, 705, 513, 511, 257, 255, 129, 127, 65, 63, 33, 31, 7, 5, 3, 2, 1}) {
        t.answer_is(k, [k](int r, int i) { return permuted(n, r, i) >= n - k; });
        t.check(k);
    }
}

TEST_CASE("A10 k above the limit is an error and nothing happens") {
    const int n = 20011;
    trial t(matrix_of(2, n, [](int r, int i) { return ramp(n, r, i); }));
    for (int route : ROUTES) {
        const int most = largest_k(route, n);
        if (most == 0 || most >= n) continue; /* not in this build, or without a limit */
        const mode how = {route, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE};
        REQUIRE(t.prepare(most, how));
        t.now.k = most + 1;
        REQUIRE(topkit_select_workspace(&t.now, &t.now.workspace_bytes) == TOPKIT_ERROR_K);
        REQUIRE(topkit_select(&t.now, nullptr) == TOPKIT_ERROR_K);
        settle(nullptr);
        REQUIRE(t.untouched());
        REQUIRE(t.run(most, how));
    }
}

TEST_CASE("A11 nothing to do is success, and nothing is written") {
    const int n = 5000;
    for (int rows : {0, 3}) {
        for (int k : {0, 512}) {
            if (rows && k) continue;
            trial t(matrix_of(3, n, [](int r, int i) { return ramp(n, r, i); }));
            for (int route : ROUTES) {
                if (!t.prepare(512, {route, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE})) continue;
                t.now.rows = rows;
                t.now.k = k;
                size_t need = 1;
                REQUIRE(topkit_select_workspace(&t.now, &need) == TOPKIT_OK);
                REQUIRE(need == 0);
                REQUIRE(topkit_select(&t.now, nullptr) == TOPKIT_OK);
                t.now.scores = t.now.workspace = nullptr; /* not even needed */
                t.now.indices = nullptr;
                REQUIRE(topkit_select(&t.now, nullptr) == TOPKIT_OK);
                settle(nullptr);
                REQUIRE(t.untouched());
            }
        }
    }
}

TEST_CASE("A12 k larger than the rows, and than the matrix") {
    matrix m = matrix_of(test_size(99, 9), 64, [](int, int) { return 0.0f; });
    for (int r = 0; r < m.rows; r++) m.lengths.push_back(r % 3 == 0 ? 1 : r % 3 == 1 ? 3 : 64);
    m.fill([](int r, int i) { return ramp(64, r, i); });
    trial t(m);
    t.check(2048);
    t.check(64);
    t.check(65);
}

TEST_CASE("A13 empty rows, whose memory is never read") {
    matrix m = matrix_of(test_size(97, 31), 2000, [](int, int) { return 0.0f; });
    for (int r = 0; r < m.rows; r++) {
        m.lengths.push_back(r % 3 == 0 ? r % 2 ? 0 : -5 : 1000 + r);
        m.starts.push_back(r % 3 == 0 ? TOPKIT_MAX_LENGTH : r % 7); /* an empty row may begin anywhere */
    }
    m.fill([](int r, int i) { return ramp(1000 + r, r, i); });
    trial t(m);
    t.check(512);
    t.check(2048);
    for (int &length : t.m.lengths) length = 0;
    t.m.max_length = 0;
    t.m.scores.clear();
    trial none(t.m); /* not a single score: even the matrix may be null */
    none.check(512);
}

TEST_CASE("Lengths above the stated maximum are cut to it, those below 0 to nothing") {
    matrix m = matrix_of(6, 700, [](int, int) { return 0.0f; });
    m.lengths = {701, 2147483647, 700, -1, -2147483647 - 1, 699};
    m.fill([](int r, int i) { return ramp(700, r, i); });
    trial t(m);
    t.check(512);
    t.check(699);
    t.check(1000);
}

/* The pipelined kernel copies no chunk of such a row, so that its ring does not hold the producer back. It once had more rows under way
 * than room for verdicts on them, mistook one for another, and hung. */
TEST_CASE("Many rows without a single whole vector") {
#ifdef TOPKIT_SIMT
    simt_set_sm_count(1);
#endif
    for (int turn = 0; turn < test_size(1, 6); turn++) {
        trial t(matrix_of(test_size(20000, 60), 3, [turn](int r, int i) { return (float)((r * 7 + i * 5 + turn) % 11); }));
        t.check(1);
        t.check(8);
    }
#ifdef TOPKIT_SIMT
    simt_set_sm_count(4);
#endif
}
