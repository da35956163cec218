/* test_select_any_k.cu: k without a limit: the route that counts before it writes, on what could mislead its sample, its digits and its
 * last step. Everything that the other tests try runs this route too, with k up to 4096.
 */
#include "10_any_k_select.cuh"
#include "sampled.h"
#include "select_case.h"

enum { RAMP, RISING, FALLING, EQUAL, TWO_VALUES, PLATEAUS, NANS, DENORMALS, HALF_INFINITE, WIDE, KINDS };

static float value_of(int kind, int n, int r, int i) {
    const uint64_t h = hashed(r, i);
    switch (kind) {
        case RISING: return (float)i;
        case FALLING: return (float)-i;
        case EQUAL: return 1.0f;
        case TWO_VALUES: return h & 1 ? 1.0f : -1.0f;
        case PLATEAUS: return (float)(h % 5) * (h & 64 ? -1.0f : 1.0f);
        case NANS: return h % 3 ? bits_float(0x7fc00000u | (uint32_t)h) : (float)permuted(n, r, i) - (float)(n / 2);
        case DENORMALS: return bits_float((uint32_t)h & 0x807fffffu);
        case HALF_INFINITE: return h & 1 ? (float)permuted(n, r, i) : h & 2 ? -INFINITY : INFINITY;
        case WIDE: return bits_float((uint32_t)h); /* every kind of float, NaNs among them */
        default: return (float)permuted(n, r, i) * 0x1p-10f;
    }
}

/* Both ways to the route and both tie policies, in the orders that it takes for this k: the executor takes one order, by turns. */
static void check_any_k(trial *t, int k) {
    static int turn;
    turn++;
    for (int ties : {TOPKIT_TIES_ANY, TOPKIT_TIES_LOWEST_INDEX}) {
        for (int order : {TOPKIT_ORDER_NONE, TOPKIT_ORDER_INDEX}) {
            if (test_size(0, 1) && order != (turn + ties) % 2) continue;
            const int route = k > 4096 && turn % 3 == 0 ? TOPKIT_ROUTE_AUTO : TOPKIT_ROUTE_ANY_K;
            REQUIRE(t->run(k, {route, ties, order}));
        }
        if (!t->run(k, {TOPKIT_ROUTE_ANY_K, ties, TOPKIT_ORDER_SCORE})) REQUIRE(k > 4096);
    }
}

TEST_CASE("Any k of any kind of values") {
    const int n = test_size(100003, 21001);
    for (int kind = 0; kind < KINDS; kind += BRIEF ? 3 : 1) {
        matrix m = matrix_of(test_size(10, 2), n, [](int, int) { return 0.0f; });
        m.row_stride = n + 1; /* every alignment */
        for (int r = 0; r < m.rows; r++) m.lengths.push_back(r % 5 == 4 ? n / 3 : n - r);
        m.fill([=](int r, int i) { return value_of(kind, n, r, i); });
        trial t(m);
        INFO("kind " << kind);
        for (int k : {4097, 10000, n / 2, n - 1, n, n + 5}) {
            if (!BRIEF || k % 2) check_any_k(&t, k);
        }
    }
}

TEST_CASE("Every power of two and its neighbours, with no k left out") {
    const int n = test_size(70001, 17003);
    trial t(matrix_of(1, n, [n](int r, int i) { return value_of(RAMP, n, r, i); }));
    for (int power = 1; power <= n; power *= BRIEF ? 8 : 2) {
        for (int k : {power - 1, power, power + 1}) {
            if (k == 0) continue;
            t.answer_is(k, [=](int r, int i) { return permuted(n, r, i) >= n - k; });
            check_any_k(&t, k);
        }
    }
}

/* The plateau is larger than the buffer, or just as large, or fits; k ends in front of it, in it and behind it. */
TEST_CASE("A boundary in a plateau around the buffer's capacity") {
    topkit_plan plan;
    REQUIRE(plan_here(1, 1 << 20, 5000, TOPKIT_ORDER_NONE, TOPKIT_ROUTE_ANY_K, &plan) == TOPKIT_OK);
    for (int plateau : {300, plan.capacity - 1, plan.capacity, plan.capacity + 1, 2 * plan.capacity}) {
        if (BRIEF && plateau != 300 && plateau != plan.capacity + 1) continue;
        const int above = 3000, n = 2 * plan.capacity + plateau;
        trial t(matrix_of(1, n, [=](int r, int i) {
            const int p = permuted(n, r, i);
            return p < above ? 2.0f + (float)p : p < above + plateau ? 1.0f : 0.5f - (float)p * 0x1p-20f;
        }));
        for (int k : {above, above + 1, above + plateau / 2, above + plateau - 1, above + plateau, above + plateau + 1}) check_any_k(&t, k);
    }
}

/* What the any-k route samples of row 0, of n scores, when called with this seed. */
static std::vector<bool> sampled_by(uint32_t seed, int n, int k) {
    topkit_plan plan;
    REQUIRE(plan_here(1, n, k, TOPKIT_ORDER_NONE, TOPKIT_ROUTE_ANY_K, &plan) == TOPKIT_OK);
    return sampled_scores(n, plan.density, plan.width, plan.parts > 1 ? TOPKIT_ANY_K_FEW : TOPKIT_ROW_SAMPLE, seed, 0);
}

/* All scores that are sampled lie far above (or below) all others: the boundary is not where the sample says, and the digits have to find
 * it among keys of which all but the last bits are alike. */
TEST_CASE("A sample that misses the boundary changes nothing but the speed") {
    const int n = 24576;
    const unsigned seeds = BRIEF ? 2 : 8;
    for (bool best : {true, false}) {
        guarded stats(sizeof(topkit_select_stats));
        trial t(matrix_of(1, n, [](int, int) { return 0.0f; }));
        stats.fill(0);
        for (unsigned seed = 1; seed <= seeds; seed++) {
            const std::vector<bool> sampled = sampled_by(seed, n, n / 2);
            t.seed = seed;
            t.m.fill([&](int r, int i) {
                if (sampled[(size_t)i]) return (best ? 1e30f : -1e30f) * (1.0f + (float)(hashed(r, i) & 0xff));
                return bits_float(0x3f800000u + (uint32_t)permuted(n, r, i) % 5000u);
            });
            t.rewrite(nullptr);
            const int order = seed / 2 % 2 ? TOPKIT_ORDER_INDEX : TOPKIT_ORDER_NONE;
            REQUIRE(t.prepare(n / 2, {TOPKIT_ROUTE_ANY_K, (int)seed & 1, order}));
            t.now.stats = (topkit_select_stats *)stats.data;
            REQUIRE(topkit_select(&t.now, nullptr) == TOPKIT_OK);
            settle(nullptr);
            t.verify();
        }
        std::vector<topkit_select_stats> sum;
        REQUIRE(stats.read(&sum));
        REQUIRE(sum[0].rows == seeds);
        REQUIRE(sum[0].admitted >= (unsigned long long)seeds * (unsigned long long)(n / 2));
        REQUIRE(sum[0].recoveries == seeds);
    }
}

/* Now the sample sees nothing but a plateau, or a narrow band, and the boundary lies close above or below it, among scores
 * that the buffer holds or nearly holds: k up to the last of them and into the band. */
TEST_CASE("A sample of a plateau beside the boundary") {
    const int n = 24576, others = 5600;
    const unsigned seeds = BRIEF ? 2 : 8;
    for (int kind = 0; kind < 4; kind += BRIEF ? 3 : 1) {
        const bool better = kind & 1;
        const uint32_t band = kind & 2 ? 1023 : 0;
        guarded stats(sizeof(topkit_select_stats));
        trial t(matrix_of(1, n, [](int, int) { return 0.0f; }));
        INFO("better " << better << ", band " << band);
        stats.fill(0);
        for (unsigned seed = 1; seed <= seeds; seed++) {
            const std::vector<bool> sampled = sampled_by(seed, n, n / 2);
            int count = 0;
            t.seed = seed;
            t.m.fill([&](int r, int i) {
                if (sampled[(size_t)i] || permuted(n, r, i) >= others) return bits_float(0x3f800000u + ((uint32_t)hashed(r, i) & band));
                count++;
                return better ? 2.0f + (float)permuted(n, r, i) : 0.5f - (float)permuted(n, r, i);
            });
            t.rewrite(nullptr);
            for (int off : {-1, 0, 1}) {
                const int order = off + 1 == (int)seed % 3 ? TOPKIT_ORDER_INDEX : TOPKIT_ORDER_NONE;
                REQUIRE(t.prepare((better ? count : n - count) + off, {TOPKIT_ROUTE_ANY_K, (int)seed & 1, order}));
                t.now.stats = (topkit_select_stats *)stats.data;
                REQUIRE(topkit_select(&t.now, nullptr) == TOPKIT_OK);
                settle(nullptr);
                t.verify();
            }
        }
        std::vector<topkit_select_stats> sum;
        REQUIRE(stats.read(&sum));
        REQUIRE(sum[0].rows == 3 * seeds);
        REQUIRE(sum[0].recoveries >= 1);
    }
}

/* The keys that decide lie at the far ends of their range, where an end of the region is the last key that there is. */
TEST_CASE("A boundary at the first and at the last key") {
    const int n = test_size(100000, 20000);
    for (int share : {1, 50, 99}) { /* percent of the best */
        if (BRIEF && share != 50) continue;
        for (uint32_t high : {0x7f800000u, 0x7fc00000u}) {
            for (uint32_t low : {0xff800000u, 0x7fc00000u}) {
                trial t(matrix_of(1, n, [=](int r, int i) { return bits_float((int)(hashed(r, i) % 100) < share ? high : low); }));
                for (int k : {n / 200, n / 2 - 1000, n / 2 + 1000, n - n / 200}) {
                    if (!BRIEF || k > n / 3) check_any_k(&t, k);
                }
            }
        }
    }
}

TEST_CASE("Ragged rows, more of them than blocks, and wider than long") {
    matrix m = matrix_of(test_size(1500, 25), test_size(60000, 15000), [](int, int) { return 0.0f; });
    for (int r = 0; r < m.rows; r++) {
        m.lengths.push_back(r % 6 == 0 ? r % 4 - 1 : r % 6 == 1 ? 8192 + r % 3 - 1 : (int)(hashed(r, 7) % (uint64_t)m.max_length));
        m.starts.push_back(r % 11);
    }
    m.fill([&](int r, int i) { return value_of(r % KINDS, m.max_length, r, i); });
    trial t(m);
    t.index_stride = 9001;
    t.value_stride = 9011;
    for (int k : {1, 500, 4096, 5000, 8191, 9000}) {
        if (!BRIEF || k % 1000 == 0) check_any_k(&t, k);
    }
}

TEST_CASE("Order by score ends with the k that the sorter holds") {
    const int n = 20011;
    topkit_plan plan;
    trial t(matrix_of(2, n, [n](int r, int i) { return value_of(PLATEAUS, n, r, i); }));
    int most = 16384; /* less on a device with less shared memory */
    while (plan_here(1, n, most, TOPKIT_ORDER_SCORE, TOPKIT_ROUTE_ANY_K, &plan) == TOPKIT_ERROR_DEVICE) most--;
    for (int ties : {TOPKIT_TIES_ANY, TOPKIT_TIES_LOWEST_INDEX}) {
        const mode how = {TOPKIT_ROUTE_ANY_K, ties, TOPKIT_ORDER_SCORE};
        REQUIRE(t.run(most, how));
        REQUIRE(t.run(most - 1, how));
        REQUIRE(t.prepare(most, how));
        t.now.k = 16385;
        REQUIRE(topkit_select(&t.now, nullptr) == TOPKIT_ERROR_K);
        settle(nullptr);
        REQUIRE(t.untouched());
    }
}
