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
    int type = TOPKIT_SCORE_F32, rows = 3, columns = 700, k = 40, ties = TOPKIT_TIES_ANY, order = TOPKIT_ORDER_NONE;
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
    std::vector<unsigned char> raw(p.scores.size() * bench_type_bytes(p.type));
    for (size_t i = 0; i < p.scores.size(); ++i) bench_store(raw.data(), p.type, i, p.scores[i]);
    int *lengths = to_device(p.lengths), *answer = to_device(p.answer);
    const bench_matrix matrix = {to_device(raw), p.type, lengths, p.rows, p.columns};
    bench_rank *ranks = (bench_rank *)bench_gpu_alloc(p.rows * sizeof(bench_rank));
    bench_verdict verdict = {-1, -1, -1};
    CHECK(bench_oracle_ranks(ranks, &matrix, p.k) == 0);
    CHECK(bench_oracle_check(&verdict, ranks, &matrix, answer, p.k, p.ties, p.order) == 0);
    bench_gpu_free(ranks);
    bench_gpu_free(answer);
    bench_gpu_free(lengths);
    bench_gpu_free(matrix.scores);
    return verdict;
}

/* Scores made on the device, the answer by a stable sort: score order, lowest indices among equals. */
static problem solved(int input, int type = TOPKIT_SCORE_F32, int k = 40) {
    static bool open = false;
    static bench_machine machine;
    if (!open) REQUIRE(bench_gpu_open(&machine) == 0);
    open = true;
    problem p;
    p.type = type;
    p.k = k;
    p.scores.resize((size_t)p.rows * p.columns);
    std::vector<unsigned char> raw(p.scores.size() * bench_type_bytes(type));
    int *lengths = to_device(p.lengths);
    const bench_matrix matrix = {to_device(raw), type, lengths, p.rows, p.columns};
    REQUIRE(bench_fill(&matrix, input, BENCH_SEED, 0) == 0);
    REQUIRE(bench_gpu_download(raw.data(), matrix.scores, raw.size()) == 0);
    for (size_t i = 0; i < p.scores.size(); ++i) p.scores[i] = bench_load(raw.data(), type, i);
    bench_gpu_free(lengths);
    bench_gpu_free(matrix.scores);
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

TEST_CASE("right answers are accepted, for every input and type of score, with either policy on ties and in score order") {
    for (int type : {TOPKIT_SCORE_F32, TOPKIT_SCORE_BF16, TOPKIT_SCORE_F16}) {
        for (int input = 0; input < BENCH_INPUTS; ++input) {
            INFO(bench_type_name(type) << " " << bench_input_name(input));
            problem p = solved(input, type);
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
}

TEST_CASE("k up to the row's length and beyond it") {
    for (int k : {1, 333, 334, 699, 700, 900}) {
        INFO(k);
        problem p = solved(BENCH_NORMAL, TOPKIT_SCORE_F32, k);
        p.order = TOPKIT_ORDER_SCORE;
        CHECK(verdict_of(p).bad_rows == 0);
        if (k > 1) {
            std::swap(p.answer[0], p.answer[1]);
            check_fault(p, 0, BENCH_FAULT_ORDER);
            p.answer[0] = p.answer[1];
            p.order = TOPKIT_ORDER_NONE;
            check_fault(p, 0, BENCH_FAULT_REPEATED);
        }
    }
}

TEST_CASE("more rows than are checked together") {
    problem p;
    p.rows = 1030;
    p.columns = 5;
    p.k = 2;
    p.lengths.assign(p.rows, 5);
    for (int r = 0; r < p.rows; ++r) {
        for (int c = 0; c < p.columns; ++c) p.scores.push_back((float)((c + r) % 5));
        p.answer.push_back((9 - r % 5) % 5); /* where the 4 is, and before it the 3 */
        p.answer.push_back((8 - r % 5) % 5);
    }
    CHECK(verdict_of(p).bad_rows == 0);
    std::swap(p.answer[2 * 1027], p.answer[2 * 1027 + 1]);
    p.order = TOPKIT_ORDER_SCORE;
    check_fault(p, 1027, BENCH_FAULT_ORDER);
    p.answer[2 * 1027] = p.answer[2 * 1027 + 1];
    p.order = TOPKIT_ORDER_NONE;
    check_fault(p, 1027, BENCH_FAULT_REPEATED);
}

TEST_CASE("rounded scores are judged as what they are: what two of them lost makes them equal") {
    for (int type : {TOPKIT_SCORE_BF16, TOPKIT_SCORE_F16}) {
        problem p = solved(BENCH_NORMAL, type);
        std::fill(p.scores.begin(), p.scores.begin() + p.columns, 1.0f);
        p.scores[600] = 1.0001f; /* rounds to 1 */
        p.scores[650] = 1.01f;
        for (int j = 0; j < p.k; ++j) p.answer[j] = j;
        check_fault(p, 0, BENCH_FAULT_MISSING);
        p.answer[0] = 650;
        CHECK(verdict_of(p).bad_rows == 0);
        p.type = TOPKIT_SCORE_F32;
        check_fault(p, 0, BENCH_FAULT_MISSING);
    }
}

TEST_CASE("conversions: every 16-bit score survives, and floats between two go to the nearer one, halves to the even one") {
    for (int type : {TOPKIT_SCORE_BF16, TOPKIT_SCORE_F16}) {
        const unsigned infinity = type == TOPKIT_SCORE_BF16 ? 0x7F80u : 0x7C00u;
        for (unsigned bits = 0; bits < 0x10000u; ++bits) {
            const uint16_t half = (uint16_t)bits;
            uint16_t back, up, down, even;
            const float x = bench_load(&half, type, 0);
            if ((bits & 0x7FFFu) > infinity) {
                bench_store(&back, type, 0, x);
                REQUIRE(std::isnan(x));
                REQUIRE((back & 0x7FFFu) > infinity);
                continue;
            }
            bench_store(&back, type, 0, x);
            REQUIRE(back == half);
            if ((bits & 0x7FFFu) >= infinity - 1) continue; /* what follows is infinite, and half-way to it too */
            const uint16_t next = (uint16_t)(bits + 1);
            const float y = bench_load(&next, type, 0), middle = (float)(((double)x + (double)y) / 2);
            bench_store(&down, type, 0, std::nextafter(middle, x));
            bench_store(&even, type, 0, middle);
            bench_store(&up, type, 0, std::nextafter(middle, y));
            REQUIRE(down == half);
            REQUIRE(up == next);
            REQUIRE(even == (bits % 2 ? next : half));
        }
        uint16_t most, over;
        bench_store(&most, TOPKIT_SCORE_F16, 0, std::nextafter(65520.0f, 0.0f));
        bench_store(&over, TOPKIT_SCORE_F16, 0, 65520.0f);
        CHECK(most == 0x7BFFu);
        CHECK(over == 0x7C00u);
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
