/* test_select_worst.cu: the operator on rows made to cost most, and bounds on what it may do for them.
 *
 * Whoever knows the sampler's hash can lay any scores where it looks, and the rest in the order of the visits: tests/adversary.cu searches
 * for such rows, bench/inputs.h has the worst of them. The answer stays exact, a row is read twice at most, and each compaction drops
 * what makes room for an append: there can not be more of them than that allows.
 */
#include "../bench/inputs.h"
#include "02_pipelined_select.cuh"
#include "01_row_select.cuh"
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

static void check_bounds(trial *t, int k, mode how) {
    const measured m = measure(t, k, how);
    if (!m.offered) return;
    const unsigned long long rows = (unsigned long long)t->m.rows, n = (unsigned long long)t->m.max_length;
    INFO("route " << m.plan.route << ": " << m.stats.recoveries << " recoveries, " << m.stats.compactions << " compactions, "
                  << m.stats.admitted << " admitted");
    REQUIRE(m.stats.rows == rows);
    REQUIRE(m.stats.recoveries <= rows);
    const unsigned long long reads = rows + m.stats.recoveries;
    REQUIRE(m.stats.admitted <= reads * n);
    if (m.plan.route != TOPKIT_ROUTE_ROW && m.plan.route != TOPKIT_ROUTE_PIPELINED) return; /* other routes, other buffers */
    /* an append of so many scores found no room: all but that many candidates were held, and k are kept */
    const int append = m.plan.route == TOPKIT_ROUTE_PIPELINED ? TOPKIT_PIPELINED_SHARE : TOPKIT_TILE;
    const int dropped = m.plan.capacity - append + 1 - k;
    REQUIRE(dropped > 0);
    REQUIRE(m.stats.compactions <= reads * (n / (unsigned long long)dropped + 1));
}

TEST_CASE("The worst inputs stay exact and within their bounds") {
    const int n = test_size(131072, 24000);
    for (int input : {BENCH_WORST_RISING, BENCH_WORST_TILES, BENCH_WORST_STAGES, BENCH_SORTED_ASC, BENCH_PERIOD128}) {
        for (int k : {1, 2048, 4096}) {
            trial t(matrix_of(test_size(16, 2), n, [=](int r, int i) {
                return bench_score(input, BENCH_SEED, (uint32_t)r, (uint32_t)i, (uint32_t)n);
            }));
            for (int route : ROUTES) check_bounds(&t, k, {route, (input + k) % 2, TOPKIT_ORDER_NONE});
        }
    }
}

/* Where every sample is the same score, that is the threshold. How many scores reach it is then ours to say. */
TEST_CASE("A threshold that admits one score too few, just enough, and one too many") {
    const int n = test_size(65536, 20000), k = 2048;
    topkit_plan plan;
    for (int route : {TOPKIT_ROUTE_ROW, TOPKIT_ROUTE_PIPELINED}) {
        if (plan_here(1, n, k, TOPKIT_ORDER_NONE, route, &plan) != TOPKIT_OK) continue;
        const uint32_t density = (uint32_t)plan.density, width = (uint32_t)plan.width;
        const uint32_t room = route == TOPKIT_ROUTE_ROW ? TOPKIT_ROW_SAMPLE : TOPKIT_PIPELINED_SAMPLE;
        for (int admitted : {k - 1, k, k + 1, plan.capacity, plan.capacity + 1}) {
            for (int ties : {TOPKIT_TIES_ANY, TOPKIT_TIES_LOWEST_INDEX}) {
                int left = admitted;
                for (int i = 0; i < n; i++) left -= bench_is_sampled(0, (uint32_t)i, (uint32_t)n, density, width, room);
                REQUIRE(left > 0);
                trial t(matrix_of(1, n, [&](int, int i) {
                    if (bench_is_sampled(0, (uint32_t)i, (uint32_t)n, density, width, room)) return 2.0f;
                    return left-- > 0 ? 2.5f : (float)permuted(n, 0, i) * 0x1p-20f;
                }));
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
