/* test_exact.cu: the benchmark's exactness check (bench/exact.cu) must accept every right answer and name what is wrong with each kind of
 * wrong one. Right answers come from sorting on the host. */
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "fill.h"
#include "gpu.h"
#include "inputs.h"
#include "exact.h"
#include "select.h"

struct problem {
    int rows = 3, columns = 700, k = 40, ties = TOPKIT_TIES_ANY, order = TOPKIT_ORDER_NONE;
    std::vector<int> lengths = {700, 30, 333};
    std::vector<float> scores;
    std::vector<int> answer;
};

template <class T> static T *to_device(const std::vector<T> &host) {
    T *device = (T *)bench_gpu_alloc(host.size() * sizeof(T));
    REQUIRE(device != nullptr);
    REQUIRE(bench_gpu_upload(device, host.data(), host.size() * sizeof(T)) == 0);
    return device;
}

static bench_verdict verdict_of(const problem &p) {
    float *scores = to_device(p.scores);
    int *lengths = to_device(p.lengths), *answer = to_device(p.answer);
    bench_rank *ranks = (bench_rank *)bench_gpu_alloc(p.rows * sizeof(bench_rank));
    bench_verdict verdict = {-1, -1, -1};
    CHECK(bench_oracle_ranks(ranks, scores, lengths, p.rows, p.columns, p.k) == 0);
    CHECK(bench_oracle_check(&verdict, ranks, scores, lengths, answer, p.rows, p.columns, p.k, p.ties, p.order) == 0);
    bench_gpu_free(ranks);
    bench_gpu_free(answer);
    bench_gpu_free(lengths);
    bench_gpu_free(scores);
    return verdict;
}

/* Scores made on the device, the answer by a stable sort: score order, lowest indices among equals. */
static problem solved(int input) {
    static bool open = false;
    static bench_machine machine;
    if (!open) REQUIRE(bench_gpu_open(&machine) == 0);
    open = true;
    problem p;
    p.scores.resize((size_t)p.rows * p.columns);
    float *scores = to_device(p.scores);
    int *lengths = to_device(p.lengths);
    REQUIRE(bench_fill(scores, lengths, input, BENCH_SEED, p.rows, p.columns, 0) == 0);
    REQUIRE(bench_gpu_download(p.scores.data(), scores, p.scores.size() * sizeof(float)) == 0);
    bench_gpu_free(lengths);
    bench_gpu_free(scores);
    for (int r = 0; r < p.rows; ++r) {
        const float *row = p.scores.data() + (size_t)r * p.columns;
        std::vector<int> best(p.lengths[r]);
        for (int i = 0; i < p.lengths[r]; ++i) best[i] = i;
        std::stable_sort(best.begin(), best.end(), [row](int a, int b) { return row[a] > row[b]; });
        best.resize(p.k, -1);
        p.answer.insert(p.answer.end(), best.begin(), best.end());
    }
    return p;
}

static void check_fault(const problem &p, int row, int fault) {
    bench_verdict v = verdict_of(p);
    CHECK(v.bad_rows == 1);
    CHECK(v.row == row);
    INFO(bench_fault_text(v.fault));
    CHECK(v.fault == fault);
}

TEST_CASE("right answers are accepted, for every input, with either policy on ties and in score order") {
    for (int input = 0; input < BENCH_INPUTS; ++input) {
        INFO(bench_input_name(input));
        problem p = solved(input);
        p.ties = TOPKIT_TIES_LOWEST_INDEX;
        p.order = TOPKIT_ORDER_SCORE;
        CHECK(verdict_of(p).bad_rows == 0);
        p.ties = TOPKIT_TIES_ANY;
        p.order = TOPKIT_ORDER_INDEX;
        for (int r = 0; r < p.rows; ++r)
            std::sort(p.answer.begin() + r * p.k, p.answer.begin() + r * p.k + std::min(p.k, p.lengths[r]));
        CHECK(verdict_of(p).bad_rows == 0);
    }
}

TEST_CASE("each wrong answer gets its own name") {
    problem p = solved(BENCH_NORMAL);
    SECTION("an index outside of the row") {
        p.answer[2 * p.k + 5] = p.lengths[2];
        check_fault(p, 2, BENCH_FAULT_RANGE);
    }
    SECTION("-1 where an index belongs") {
        p.answer[7] = -1;
        check_fault(p, 0, BENCH_FAULT_RANGE);
    }
    SECTION("an index behind the prefix of a short row") {
        p.answer[1 * p.k + 35] = 3;
        check_fault(p, 1, BENCH_FAULT_PAD);
    }
    SECTION("an index twice") {
        p.answer[p.k + 3] = p.answer[p.k + 4];
        check_fault(p, 1, BENCH_FAULT_REPEATED);
    }
    SECTION("a score below the k-th") {
        int worst = (int)(std::min_element(p.scores.begin(), p.scores.begin() + p.columns) - p.scores.begin());
        p.answer[11] = worst;
        check_fault(p, 0, BENCH_FAULT_LOW);
    }
    SECTION("neighbours out of order") {
        p.order = TOPKIT_ORDER_SCORE;
        std::swap(p.answer[20], p.answer[21]);
        check_fault(p, 0, BENCH_FAULT_ORDER);
    }
    SECTION("every row wrong") {
        std::fill(p.answer.begin(), p.answer.end(), 0x7F7F7F7F);
        CHECK(verdict_of(p).bad_rows == 3);
    }
}

TEST_CASE("ties: a larger score left out, and a higher index taken before a lower one") {
    problem p = solved(BENCH_NORMAL);
    for (int c = 0; c < p.columns; ++c) p.scores[c] = c % 100 == 99 ? 2.0f : c % 2 ? -0.0f : 0.0f;
    for (int j = 0; j < p.k; ++j) p.answer[j] = j < 7 ? 100 * j + 99 : j - 7; /* seven of 2, and the first 33 of the zeros */
    p.ties = TOPKIT_TIES_LOWEST_INDEX;
    CHECK(verdict_of(p).bad_rows == 0);
    SECTION("missing") {
        p.answer[6] = 50;
        check_fault(p, 0, BENCH_FAULT_MISSING);
    }
    SECTION("not the lowest") {
        p.answer[7] = 50;
        check_fault(p, 0, BENCH_FAULT_TIES);
        p.ties = TOPKIT_TIES_ANY;
        CHECK(verdict_of(p).bad_rows == 0);
    }
}

TEST_CASE("NaN ranks below -inf, whatever its sign, and rows of no scores are right when they are empty") {
    problem p = solved(BENCH_NORMAL);
    p.lengths = {50, 0, 333};
    for (int c = 0; c < 50; ++c) p.scores[c] = c < 11 ? std::copysign(NAN, c % 2 ? -1.0f : 1.0f) : -INFINITY;
    for (int j = 0; j < p.k; ++j) p.answer[j] = j < 39 ? 11 + j : 0;
    std::fill(p.answer.begin() + p.k, p.answer.begin() + 2 * p.k, -1);
    CHECK(verdict_of(p).bad_rows == 0);
    p.answer[0] = 1; /* a NaN in place of an -inf */
    check_fault(p, 0, BENCH_FAULT_MISSING);
}
