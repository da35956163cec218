/* test_nan_highest.cu: the tests of all blocks that order scores, built with the other NaN policy. */
#define TOPKIT_NAN 1 /* TOPKIT_NAN_HIGHEST */

#include "test_key.cu"
#include "test_threshold.cu"
#include "test_refiner.cu"
#include "test_candidate.cu"
#include "test_collector.cu"
#include "test_resident.cu"
#include "test_half.cu"
#include "test_order.cu"
#include "test_team.cu"

TEST_CASE("nan: this program's policy is highest") { REQUIRE(TOPKIT_NAN == TOPKIT_NAN_HIGHEST); }
