/* test_select_worst.cu: the operator on rows made to cost most, and bounds on what it may do for them.
 *
 * Whoever knows the seed can lay any scores where the sampler looks, and the rest in the order of the visits. The answer stays exact, a
 * row is read twice at most, and each compaction drops what makes room for an append: there can not be more of them than that allows.
 * Whoever does not know it can do far less: tests/adversary.cu searches for such rows, bench/inputs.h has the worst of them.
 */
#include "../bench/inputs.h"
#include "02_pipelined_select.cuh"
#include "01_row_select.cuh"
#include "sampled.h"
#include "select_case.h"

struct measured {
    bool offered;
    topkit_plan plan;
    topkit_select_stats stats;
};

/* One launch with statistics, checked against the oracle. */
static measured measure(trial *t, int k, mode how) {
    measured got = {};
    INFO("route " << how.route << ", ties " << how.ties << ", k " << k << ", schedule " << next_schedule());
    if (!t->prepare(k, how)) return got;
    REQUIRE(plan_here(t->m.rows, t->m.max_length, k, how.order, how.route, &got.plan) == TOPKIT_OK);
    guarded stats(sizeof(topkit_select_stats));
    stats.fill(0);
    t->now.stats = (topkit_select_stats *)stats.data;
    REQUIRE(topkit_select(&t->now, nullptr) == TOPKIT_OK);
    settle(nullptr);
    t->verify();
    std::vector<topkit_select_stats> sum;
    REQUIRE(stats.read(&sum));
    got.offered = true;
    got.stats = sum[0];
    return got;
}

static measured check_bounds(trial *t, int k, mode how) {
    const measured m = measure(t, k, how);
    if (!m.offered) return m;
    const unsigned long long rows = (unsigned long long)t->m.rows, n = (unsigned long long)t->m.max_length;
    INFO("route " << m.plan.route << ": " << m.stats.recoveries << " recoveries, " << m.stats.compactions << " compactions, "
                  << m.stats.admitted << " admitted");
    REQUIRE(m.stats.rows == rows);
    REQUIRE(m.stats.recoveries <= rows);
    const unsigned long long reads = rows + m.stats.recoveries;
    REQUIRE(m.stats.admitted <= reads * n);
    if (m.plan.route != TOPKIT_ROUTE_ROW && m.plan.route != TOPKIT_ROUTE_PIPELINED) return m; /* other routes, other buffers */
    /* an append of so many scores found no room: all but that many candidates were held, and k are kept */
    const int append = m.plan.route == TOPKIT_ROUTE_PIPELINED ? TOPKIT_PIPELINED_SHARE : TOPKIT_TILE;
    const int dropped = m.plan.capacity - append + 1 - k;
    REQUIRE(dropped > 0);
    REQUIRE(m.stats.compactions <= reads * (n / (unsigned long long)dropped + 1));
    return m;
}

/* ---- what an adversary makes who knows the kernels, and one who knows the seed as well ---- */

enum { KNOWN_RISING = BENCH_INPUTS, KNOWN_VISITS, WORST_INPUTS };

/* Row r of the matrix, as it is worst for a route that is called with `seed`: what the sampler sees is below all others, which rise; or
 * above all others, so that the row is read again, and the others rise in the order in which it will be. */
static std::vector<float> known_row(int input, const topkit_plan *plan, uint32_t seed, int n, int r) {
    const bool pipelined = plan->route == TOPKIT_ROUTE_PIPELINED;
    const std::vector<bool> sampled =
        sampled_scores(n, plan->density, pipelined ? TOPKIT_PIPELINED_NARROW : plan->width,
                       pipelined ? TOPKIT_PIPELINED_SAMPLE : TOPKIT_ROW_SAMPLE, seed, r);
    const int piece = pipelined ? TOPKIT_PIPELINED_CHUNK : TOPKIT_TILE, pieces = (n + piece - 1) / piece;
    std::vector<int> turn((size_t)pieces);
    for (int i = 0; i < pieces; i++) turn[(size_t)visited(i, pieces, sampled_hash(~((uint32_t)r ^ seed)) | 1)] = i;
    std::vector<float> row((size_t)n);
    for (int i = 0; i < n; i++) {
        const float place = (float)(input == KNOWN_RISING ? i : turn[(size_t)(i / piece)] * piece + i % piece);
        row[(size_t)i] = !sampled[(size_t)i] ? place : input == KNOWN_RISING ? -1.0f : 1e9f + 64.0f * (float)(n - i);
    }
    return row;
}

TEST_CASE("The worst inputs stay exact and within their bounds") {
    const int n = test_size(131072, 24000), rows = test_size(16, 2);
    for (int input : {(int)BENCH_WORST_RISING, (int)BENCH_WORST_ALIKE, (int)BENCH_WORST_HUGE, (int)KNOWN_RISING, (int)KNOWN_VISITS,
                      (int)BENCH_SORTED_ASC, (int)BENCH_PERIOD128}) {
        INFO("input " << input);
        for (int k : {1, 2048, 4096}) {
            trial t(matrix_of(rows, n, [=](int r, int i) {
                return input < BENCH_INPUTS ? bench_score(input, BENCH_SEED, (uint32_t)r, (uint32_t)i, (uint32_t)n) : 0.0f;
            }));
            for (int route : ROUTES) {
                topkit_plan plan;
                if (input >= BENCH_INPUTS) {
                    if (route != TOPKIT_ROUTE_ROW && route != TOPKIT_ROUTE_PIPELINED) continue;
                    if (plan_here(rows, n, k, TOPKIT_ORDER_NONE, route, &plan) != TOPKIT_OK) continue;
                    std::vector<std::vector<float>> known;
                    for (int r = 0; r < rows; r++) known.push_back(known_row(input, &plan, t.seed, n, r));
                    t.m.fill([&](int r, int i) { return known[(size_t)r][(size_t)i]; });
                    t.rewrite(nullptr);
                }
                const measured m = check_bounds(&t, k, {route, (input + k) % 2, TOPKIT_ORDER_NONE});
                /* a pipelined block samples its later rows in wide vectors where they are not alike, but its first in narrow ones */
                if (input == KNOWN_VISITS && k > 1) REQUIRE(m.stats.recoveries > 0);
                if (input == KNOWN_RISING && n > plan.capacity) REQUIRE(m.stats.compactions > 0);
            }
        }
    }
}

/* The mean over seeds of what an input costs, in times of what a uniform row costs: reads, compactions and candidates, as adversary.cu
 * counts them. */
static double cost_of(trial *t, int k, int route, int seeds) {
    double cost = 0;
    for (int seed = 1; seed <= seeds; seed++) {
        t->seed = (unsigned)seed;
        const measured m = measure(t, k, {route, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE});
        if (!m.offered) return 0;
        const double n = (double)t->m.max_length * t->m.rows;
        const double reads = (double)t->m.max_length * (double)((unsigned long long)t->m.rows + m.stats.recoveries);
        cost += (reads + 4.0 * m.plan.capacity * (double)m.stats.compactions + 3.0 * (double)m.stats.admitted) / n;
    }
    return cost / seeds;
}

TEST_CASE("Who does not know the seed can not make a row cost four times the usual") {
    const int n = test_size(65536, 24000), rows = test_size(8, 1), k = 2048, seeds = test_size(20, 10);
    const auto row_of = [=](int input) {
        return matrix_of(rows, n, [=](int r, int i) { return bench_score(input, BENCH_SEED, (uint32_t)r, (uint32_t)i, (uint32_t)n); });
    };
    for (int route : {TOPKIT_ROUTE_ROW, TOPKIT_ROUTE_PIPELINED, TOPKIT_ROUTE_SPLIT}) {
        trial usual(row_of(BENCH_UNIFORM));
        const double unit = cost_of(&usual, k, route, seeds);
        for (int input : {BENCH_WORST_RISING, BENCH_WORST_ALIKE, BENCH_WORST_HUGE, BENCH_SORTED_ASC, BENCH_PERIOD128}) {
            trial t(row_of(input));
            const double cost = cost_of(&t, k, route, seeds);
            INFO("route " << route << ", input " << input << ": " << cost << " against " << unit);
            REQUIRE(cost <= 4.0 * unit);
        }
    }
}

/* Launches of all routes under seeds that were given and seeds that were drawn: under lowest-index ties and an order of indices there is
 * one right sequence, and every one of them must be it. */
TEST_CASE("No seed changes an answer") {
    const int n = test_size(50000, 13000), k = 1000;
    trial t(matrix_of(test_size(40, 2), n, [n](int r, int i) { return (float)(permuted(n, r, i) / 700) + (i > n / 2 ? 0.5f : 0.0f); }));
    for (int route : ROUTES) {
        for (int ties : {TOPKIT_TIES_ANY, TOPKIT_TIES_LOWEST_INDEX}) {
            for (unsigned seed : {0u, 0u, 1u, 2u, 3u, 0x80000000u, 0xffffffffu}) {
                t.seed = seed;
                INFO("seed " << seed);
                if (!t.run(k, {route, ties, TOPKIT_ORDER_INDEX})) break;
            }
        }
    }
    REQUIRE(t.runs >= 2 * 7 * 2);
}

/* Where every sample is the same score, that is the threshold. How many scores reach it is then ours to say. */
TEST_CASE("A threshold that admits one score too few, just enough, and one too many") {
    const int n = test_size(49152, 20000), k = 2048; /* of which fewer than k are sampled */
    topkit_plan plan;
    for (int route : {TOPKIT_ROUTE_ROW, TOPKIT_ROUTE_PIPELINED}) {
        if (plan_here(1, n, k, TOPKIT_ORDER_NONE, route, &plan) != TOPKIT_OK) continue;
        const uint32_t seed = 3;
        const bool row = route == TOPKIT_ROUTE_ROW;
        const int room = row ? TOPKIT_ROW_SAMPLE : TOPKIT_PIPELINED_SAMPLE, width = row ? plan.width : TOPKIT_PIPELINED_NARROW;
        const std::vector<bool> sampled = sampled_scores(n, plan.density, width, room, seed, 0);
        for (int admitted : {k - 1, k, k + 1, plan.capacity, plan.capacity + 1}) {
            for (int ties : {TOPKIT_TIES_ANY, TOPKIT_TIES_LOWEST_INDEX}) {
                int left = admitted - (int)std::count(sampled.begin(), sampled.end(), true);
                REQUIRE(left > 0);
                trial t(matrix_of(1, n, [&](int, int i) {
                    if (sampled[(size_t)i]) return 2.0f;
                    return left-- > 0 ? 2.5f : (float)permuted(n, 0, i) * 0x1p-20f;
                }));
                t.seed = seed;
                const measured m = measure(&t, k, {route, ties, TOPKIT_ORDER_NONE});
                REQUIRE(m.offered);
                INFO("route " << route << ", " << admitted << " scores reach the threshold");
                REQUIRE(m.stats.recoveries == (admitted < k ? 1u : 0u));
                REQUIRE(m.stats.compactions >= (admitted > plan.capacity ? 1u : 0u));
                if (admitted >= k && admitted <= plan.capacity) REQUIRE(m.stats.admitted == (unsigned long long)admitted);
            }
        }
    }
}
