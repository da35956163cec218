/* test_simt.h: what the executor's tests share: a launch in one line, all schedules, and the demand for a report. */
#ifndef TEST_SIMT_H
#define TEST_SIMT_H

#include <catch2/catch.hpp>

#include "simt.h"

template <class... P, class... A>
static cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 threads, size_t shared, A... arguments)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared;
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

static void defaults(int schedule = SIMT_FORWARD, unsigned long long seed = 1)
{
    simt_set_schedule(schedule, seed);
    simt_set_preempt(0);
    simt_set_resident_blocks(1);
    simt_set_sm_count(4);
    simt_set_spin_limit(10000);
    simt_clear_failures();
    cudaGetLastError();
}

/* Runs `body` under forward, reverse and eight random schedules, and demands that nothing is reported. */
template <class F> static void under_all_schedules(F body)
{
    for (int i = 0; i < 10; ++i) {
        defaults(i < 2 ? i : SIMT_RANDOM, (unsigned long long)i);
        simt_set_preempt(i % 3 == 2 ? 0.2 : 0);
        INFO("schedule " << i);
        body();
        REQUIRE(simt_failures() == 0);
    }
    defaults();
}

/* Launches a wrong kernel and demands one report with the given words in it. */
#define REQUIRE_REPORT(call, words)                                                                  \
    do {                                                                                             \
        REQUIRE((call) == cudaErrorLaunchFailure);                                                   \
        REQUIRE(simt_failures() == 1);                                                               \
        CHECK_THAT(simt_failure(0), Catch::Contains(words));                                         \
        REQUIRE(cudaGetLastError() == cudaErrorLaunchFailure);                                       \
        REQUIRE(cudaGetLastError() == cudaSuccess);                                                  \
        simt_clear_failures();                                                                       \
    } while (0)

#endif
