/* test_select_values.cu: the operator on value patterns that break selections: narrow bands, plateaus, bin edges, signs, infinities, NaNs.
 *
 * Built for both NaN policies. Where a case has one right set, its formula is compared with the oracle's opinion too.
 */
#include "01_row_select.cuh"
#include "sampled.h"
#include "select_case.h"
#include "topkit/topkit.cuh"

static float ramp(int n, int r, int i) { return (float)permuted(n, r, i) * 0x1p-10f; }

static void check_all(trial *t, std::initializer_list<int> ks) {
    for (int k : ks) t->check(k);
}

TEST_CASE("A01 keys differ in their low bits only") {
    const int n = 8192, k = 2048;
    trial t(matrix_of(test_size(33, 3), n, [](int r, int i) { return bits_float(0x3f900000u + (uint32_t)(permuted(n, r, i) >> 3)); }));
    t.answer_is(k, [](int r, int i) { return permuted(n, r, i) >= 6144; });
    t.check(k);
}

TEST_CASE("A03 a plateau of zeros and few winners") {
    trial t(matrix_of(test_size(33, 3), 8320, [](int, int i) { return i % 83 == 0 && i < 8300 ? 1.0f + (float)(i / 83) : 0.0f; }));
    t.answer_is(2048, [](int, int i) { return i < 1972 || (i % 83 == 0 && i < 8300); });
    check_all(&t, {2048, 100, 101, 99});
}

TEST_CASE("A04 all scores are equal") {
    for (float all : {0.0f, bits_float(0x3f800000u), -1.0f}) {
        trial t(matrix_of(test_size(33, 2), test_size(131072, 20000), [all](int, int) { return all; }));
        t.answer_is(2048, [](int, int i) { return i < 2048; });
        check_all(&t, {2048, 512, 1});
    }
}

TEST_CASE("A05 sorted rows") {
    for (int n : {4096, 16384, 16448, 32768, 131072}) {
        if (n > test_size(131072, 32768)) continue;
        trial up(matrix_of(test_size(8, 1), n, [](int, int i) { return (float)i * 0x1p-10f; }));
        up.answer_is(2048, [n](int, int i) { return i >= n - 2048; });
        up.check(2048);
        trial down(matrix_of(test_size(8, 1), n, [n](int, int i) { return (float)(n - i) * 0x1p-10f; }));
        down.answer_is(2048, [](int, int i) { return i < 2048; });
        down.check(2048);
    }
}

TEST_CASE("A06 a dense coarse bin") {
    const int n = 131072, k = 2048;
    trial t(matrix_of(test_size(16, 1), n, [](int r, int i) {
        const int p = permuted(n, r, i);
        if (p >= n - 1000) return 2.0f + (float)(p - (n - 1000)) * 0x1p-10f;
        return p < 100000 ? bits_float(0x3f800000u + (uint32_t)p) : -1.0f - (float)p * 0x1p-10f;
    }));
    t.answer_is(k, [](int r, int i) {
        const int p = permuted(n, r, i);
        return p >= n - 1000 || (p >= 98952 && p < 100000);
    });
    t.check(k);
}

TEST_CASE("A07 the boundary falls between bins") {
    const int n = 4096;
    trial t(matrix_of(test_size(16, 3), n, [](int r, int i) {
        const int p = permuted(n, r, i);
        return p >= n - 512 ? 2.0f + (float)p * 0x1p-12f : -2.0f - (float)p * 0x1p-12f;
    }));
    t.answer_is(512, [](int r, int i) { return permuted(n, r, i) >= 3584; });
    check_all(&t, {512, 511, 513});
}

TEST_CASE("A14 all scores are -inf") {
    for (int n : {15, 16, 17, 5000}) {
        trial t(matrix_of(test_size(16, 3), n, [](int, int) { return bits_float(0xff800000u); }));
        check_all(&t, {16, 2048});
    }
}

TEST_CASE("A15 fewer finite scores than k") {
    const int n = 5000;
    trial t(matrix_of(test_size(16, 3), n, [](int r, int i) { return i % 50 ? bits_float(0xff800000u) : ramp(n, r, i); }));
    check_all(&t, {2048, 100, 101, 99});
    trial large(matrix_of(test_size(16, 2), 20000, [](int r, int i) { return i % 50 ? bits_float(0xff800000u) : ramp(20000, r, i); }));
    check_all(&large, {2048, 400});
}

TEST_CASE("A16 a few +inf") {
    const int n = 4096;
    trial t(matrix_of(test_size(16, 3), n, [](int r, int i) {
        return i == 0 || i == 1 || i == 31 || i == 2047 || i == 4095 ? bits_float(0x7f800000u) : ramp(n, r, i);
    }));
    check_all(&t, {64, 5, 4, 6});
}

TEST_CASE("A17 signed zeros at the boundary") {
    const int n = 4096;
    trial t(matrix_of(test_size(16, 3), n, [](int, int i) { return i < 10 ? 1.0f + (float)i : i & 1 ? -0.0f : 0.0f; }));
    t.answer_is(1000, [](int, int i) { return i < 1000; });
    check_all(&t, {1000, 10, 11});
    /* beyond the candidate buffer: the threshold itself is a zero */
    trial large(matrix_of(2, 20000, [](int, int i) { return i < 10 ? 1.0f + (float)i : i & 1 ? -0.0f : 0.0f; }));
    check_all(&large, {1000, 2048});
}

TEST_CASE("A18 denormals") {
    const int n = 32768, k = 2048;
    trial t(matrix_of(test_size(16, 2), n, [](int r, int i) { return bits_float((uint32_t)permuted(n, r, i)); }));
    t.answer_is(k, [](int r, int i) { return permuted(n, r, i) >= n - k; });
    t.check(k);
    trial below(matrix_of(2, n, [](int r, int i) { return bits_float(0x80000000u + (uint32_t)permuted(n, r, i)); }));
    below.check(k);
}

TEST_CASE("A19 negative scores only, and both signs") {
    const int n = 8192;
    trial negative(matrix_of(test_size(16, 2), n, [](int r, int i) { return -(1.0f + ramp(n, r, i)); }));
    trial both(matrix_of(test_size(16, 2), n, [](int r, int i) { return (float)(permuted(n, r, i) - n / 2) * 0x1p-10f; }));
    const int most = largest_k(TOPKIT_ROUTE_AUTO, n), third = most < 5000 ? most : 5000;
    for (int k : {third, 2048, 512}) {
        negative.answer_is(k, [k](int r, int i) { return permuted(n, r, i) < k; });
        both.answer_is(k, [k](int r, int i) { return permuted(n, r, i) >= n - k; });
        negative.check(k);
        both.check(k);
    }
}

TEST_CASE("A20 NaNs") {
    for (int n : {4096, test_size(65536, 20000)}) {
        for (int at : {0, 31, 32, 2048, 4095}) {
            for (uint32_t nan : {0x7fc00000u, 0xffc00000u, 0x7f800001u}) {
                if (nan != 0x7fc00000u && at != 32) continue;
                trial t(matrix_of(2, n, [=](int r, int i) { return i == at ? bits_float(nan) : ramp(n, r, i); }));
                t.answer_is(1, [=](int r, int i) {
                    return TOPKIT_NAN == TOPKIT_NAN_HIGHEST ? i == at : i != at && permuted(n, r, i) >= n - 2;
                });
                t.check(512);
            }
        }
    }
}

TEST_CASE("A20 rows with fewer numbers than k are filled with NaNs") {
    for (int n : {3000, test_size(65536, 20000)}) {
        trial t(matrix_of(2, n, [=](int r, int i) { return i % 64 == 5 ? ramp(n, r, i) : bits_float(i & 1 ? 0x7fc00000u : 0xffc01234u); }));
        check_all(&t, {2048, 512, 20});
        trial all(matrix_of(2, n, [](int, int i) { return bits_float(0x7f800001u + (uint32_t)i); }));
        check_all(&all, {2048, 33});
        const uint32_t in_turn[] = {0x7fc00000u, 0x7f800000u, 0xff800000u};
        trial infinite(matrix_of(2, n, [=](int, int i) { return bits_float(in_turn[i % 3]); }));
        check_all(&infinite, {2048, n / 3 < 2048 ? n / 3 : 2047});
    }
}

TEST_CASE("A21 every value many times") {
    trial t(matrix_of(test_size(16, 2), test_size(65536, 20000), [](int r, int i) { return (float)(hashed(r, i) & 63); }));
    check_all(&t, {1000, 2048});
}

TEST_CASE("A22 a boundary tie group larger than any buffer") {
    const int n = test_size(131072, 40000), ties = n - n / 13, k = 2048;
    trial t(matrix_of(test_size(16, 2), n, [=](int r, int i) {
        const int p = permuted(n, r, i);
        return p < 1000 ? 2.0f + (float)p * 0x1p-10f : p < ties ? 1.0f : 0.5f;
    }));
    t.answer_is(k, [=](int r, int i) { return permuted(n, r, i) < ties; });
    check_all(&t, {k, 1000, 1001});
}

/* A full buffer asks for strictly better scores: what comes last is one step of the floats better: a denormal, a zero, an infinity. */
TEST_CASE("A plateau wider than any buffer, and behind it the next float") {
    const int n = test_size(131072, 20000);
    struct step {
        uint32_t plateau, next;
    };
    std::vector<step> steps = {{0x3f800000u, 0x3f800001u}, {0xbf800000u, 0xbf7fffffu}, {0x80000000u, 0x00000001u},
                               {0x00000000u, 0x00000001u}, {0x80000001u, 0x00000000u}, {0x80000001u, 0x80000000u},
                               {0x007fffffu, 0x00800000u}, {0x7f7fffffu, 0x7f800000u}, {0xff800000u, 0xff7fffffu}};
    steps.push_back(TOPKIT_NAN == TOPKIT_NAN_HIGHEST ? step{0x7f800000u, 0xffc00000u} : step{0x7fc00000u, 0xff800000u});
    for (step s : steps) {
        trial t(matrix_of(test_size(8, 1), n, [=](int, int i) { return bits_float(i < n - 700 ? s.plateau : s.next); }));
        t.answer_is(2048, [n](int, int i) { return i >= n - 700 || i < 1348; });
        check_all(&t, {2048, 701, 700, 512});
    }
}

/* All scores where one seed's sample looks are far above (or below) all others: that is all that the sampler sees. */
TEST_CASE("A sample that sees only the best, or only the worst, changes nothing but the speed") {
    const int n = test_size(65536, 20000), k = 2048;
    topkit_plan plan;
    REQUIRE(plan_here(1, n, k, TOPKIT_ORDER_NONE, TOPKIT_ROUTE_ROW, &plan) == TOPKIT_OK);
    for (bool best : {true, false}) {
        for (unsigned seed : {1u, 2u, 0xffffffffu}) {
            const std::vector<bool> sampled = sampled_scores(n, plan.density, plan.width, TOPKIT_ROW_SAMPLE, seed, 0);
            trial t(matrix_of(1, n, [&](int r, int i) {
                return (!sampled[(size_t)i] ? 1.0f : best ? 2.0f : 0.25f) + (float)permuted(n, r, i) * 0x1p-20f;
            }));
            t.seed = seed;
            for (int ties : {TOPKIT_TIES_ANY, TOPKIT_TIES_LOWEST_INDEX}) {
                guarded stats(sizeof(topkit_select_stats));
                stats.fill(0);
                REQUIRE(t.prepare(k, {TOPKIT_ROUTE_ROW, ties, TOPKIT_ORDER_NONE}));
                t.now.stats = (topkit_select_stats *)stats.data;
                REQUIRE(topkit_select(&t.now, nullptr) == TOPKIT_OK);
                settle(nullptr);
                t.verify();
                std::vector<topkit_select_stats> sum;
                REQUIRE(stats.read(&sum));
                REQUIRE(sum[0].rows == 1);
                REQUIRE(sum[0].recoveries == (best ? 1u : 0u));
                REQUIRE(sum[0].compactions >= 1);
            }
        }
    }
}
