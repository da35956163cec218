/* test_select_soak.cu: the operator for as long as is asked for: random problems against the oracle while other kernels run beside, and the
 * same question many times over.
 *
 *   TOPKIT_SOAK_SECONDS=n   how long the random problems go on (2)
 *   TOPKIT_SOAK_RUNS=n      how often the same question is asked of each route (1000; on the executor 6)
 *   TOPKIT_TEST_SEED=n      another sequence of problems (1); each wrong row is printed with what test_select_random needs to repeat it
 *
 * Prints how many problems and rows were checked and how many rows were wrong. sh tests/device.sh soak runs it on a GPU.
 */
#include "flood.h"
#include "select_problem.h"

#include <chrono>

static cudaStream_t free_running(void) {
    cudaStream_t stream = nullptr;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

TEST_CASE("Soak: random problems under load") {
    const uint64_t seed = (uint64_t)setting("TOPKIT_TEST_SEED", 1);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(setting("TOPKIT_SOAK_SECONDS", 2));
    exact<unsigned> memory(std::vector<unsigned>((size_t)FLOOD_WORDS, 1u));
    cudaStream_t stream = free_running(), other = free_running();
    long long rows = 0, scores = 0, wrong = 0;
    int number = 0;
    for (; std::chrono::steady_clock::now() < end; number++) {
        problem p = problem_of(seed + 1000003u, number); /* others than those of the random test */
        trial t(p.m);
        std::string first;
        t.index_stride = p.index_stride;
        t.value_stride = p.value_stride;
        t.wants_values = p.wants_values;
        const std::string schedule = next_schedule();
        if (!t.prepare(p.k, p.how)) {
            p.how.route = TOPKIT_ROUTE_AUTO;
            REQUIRE(t.prepare(p.k, p.how));
        }
        CUDA_OK(cudaDeviceSynchronize());
        flood(memory.data, FLOOD_WORDS, other);
        REQUIRE(topkit_select(&t.now, stream) == TOPKIT_OK);
        settle(stream);
        const int wrong_here = t.wrong_rows(&first);
        if (wrong_here)
            WARN("TOPKIT_TEST_SEED=" << seed + 1000003u << " TOPKIT_TEST_FIRST=" << number << " TOPKIT_TEST_CASES=1, schedule " << schedule
                                     << ": " << first);
        wrong += wrong_here;
        rows += p.m.rows;
        for (int r = 0; r < p.m.rows; r++) scores += p.m.length(r);
        REQUIRE(t.scores.still(t.m.scores));
    }
    settle(other);
    printf("soak: %d problems, %lld rows, %lld scores checked, %lld rows wrong\n", number, rows, scores, wrong);
    REQUIRE(number > 0);
    REQUIRE(wrong == 0);
    CUDA_OK(cudaStreamDestroy(stream));
    CUDA_OK(cudaStreamDestroy(other));
}

TEST_CASE("Soak: lowest-index ties in index order give the same bits every time, on every route") {
    const int n = test_size(70001, 9001), k = 2048, runs = (int)setting("TOPKIT_SOAK_RUNS", test_size(1000, 6));
    exact<unsigned> memory(std::vector<unsigned>((size_t)FLOOD_WORDS, 1u));
    cudaStream_t stream = free_running(), other = free_running();
    for (int values : {1, 3, 1000}) { /* one plateau, ties far wider than the boundary, ties at the boundary alone */
        trial t(matrix_of(test_size(300, 3), n, [=](int r, int i) { return (float)(hashed(r, i) % (unsigned)values); }));
        std::vector<int> promised;
        std::vector<uint32_t> promised_bits;
        for (int route : ROUTES) {
            if (!t.prepare(k, {route, TOPKIT_TIES_LOWEST_INDEX, TOPKIT_ORDER_INDEX})) continue;
            for (int run = 0; run < runs; run++) {
                INFO("run " << run << ", route " << route << ", schedule " << next_schedule());
                t.indices->fill(PREFILL_BYTE);
                t.values->fill(PREFILL_BYTE);
                flood(memory.data, FLOOD_WORDS, other);
                REQUIRE(topkit_select(&t.now, stream) == TOPKIT_OK);
                settle(stream);
                std::vector<int> got;
                std::vector<uint32_t> bits;
                REQUIRE(t.indices->read(&got));
                REQUIRE(t.values->read(&bits));
                if (promised.empty()) {
                    t.verify();
                    promised = got;
                    promised_bits = bits;
                }
                REQUIRE(got == promised);
                REQUIRE(bits == promised_bits);
            }
        }
        REQUIRE(!promised.empty());
    }
    settle(other);
    CUDA_OK(cudaStreamDestroy(stream));
    CUDA_OK(cudaStreamDestroy(other));
}
