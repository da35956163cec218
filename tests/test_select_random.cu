/* test_select_random.cu: random problems (select_problem.h) against the oracle.
 *
 *   TOPKIT_TEST_SEED=n     another sequence of problems (1 by default); printed with each failure
 *   TOPKIT_TEST_CASES=n    how many
 *   TOPKIT_TEST_FIRST=n    begins with problem n: a failing one alone is FIRST=n CASES=1
 *
 * A problem is a pure function of (seed, number). On the executor each is run under all schedules; under a sanitizer they take turns.
 */
#include "select_problem.h"

TEST_CASE("Random problems") {
    const uint64_t seed = (uint64_t)setting("TOPKIT_TEST_SEED", 1);
    const int schedules = test_size(1, BRIEF ? 1 : 4);
    const int first = (int)setting("TOPKIT_TEST_FIRST", 0), cases = (int)setting("TOPKIT_TEST_CASES", test_size(4000, 400));
    int checked = 0;
    for (int number = first; number < first + cases; number++) {
        problem p = problem_of(seed, number);
        INFO("TOPKIT_TEST_SEED=" << seed << " TOPKIT_TEST_FIRST=" << number << " TOPKIT_TEST_CASES=1: kind of values " << p.kind);
        trial t(p.m);
        t.index_stride = p.index_stride;
        t.value_stride = p.value_stride;
        t.wants_values = p.wants_values;
        for (int schedule = 0; schedule < schedules; schedule++) {
            if (!t.run(p.k, p.how)) {
                p.how.route = TOPKIT_ROUTE_AUTO; /* not this route: another way with the same problem */
                REQUIRE(t.run(p.k, p.how));
            }
            checked++;
        }
        REQUIRE(t.scores.still(t.m.scores));
        REQUIRE(t.lengths.still(t.m.lengths));
        REQUIRE(t.starts.still(t.m.starts));
    }
    REQUIRE(checked == cases * schedules);
}
