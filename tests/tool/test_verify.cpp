/* test_verify.cpp: the oracle accepts what is exact and finds every planted fault (examples/tool/verify.h).
 *
 * Rows are small enough to be right by eye. Each fault is planted into a result that has just been accepted.
 */
#include "../half_formats.h"
#include "select.h"
#include "verify.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

static const float inf = std::numeric_limits<float>::infinity();
static const float nan_ = std::numeric_limits<float>::quiet_NaN();

/* Two rows of seven columns, the second five long; k = 4. */
struct fixture {
    std::vector<float> scores{1, 5, 3, 5, 2, 5, 0, /* row 0 */ -1, -0.0f, 0.0f, nan_, -inf, 99, 99 /* row 1 */};
    std::vector<int> lengths{7, 5};
    std::vector<int> indices{1, 3, 5, 2, /* row 0 */ 2, 1, 0, 4 /* row 1 */};
    std::vector<float> values;
    verify_job job{};
    verify_report report{};

    fixture() {
        for (int j = 0; j < 8; j++) {
            values.push_back(scores[static_cast<size_t>(j / 4 * 7 + indices[static_cast<size_t>(j)])]);
        }
    }
    int run() {
        job.scores = scores.data();
        job.row_stride = 7;
        job.lengths = lengths.data();
        job.rows = 2;
        job.max_length = 7;
        job.k = 4;
        job.indices = indices.data();
        job.values = values.empty() ? nullptr : values.data();
        return verify(&job, &report);
    }
};

static void finds(const char *words, const std::function<void(fixture &)> &plant) {
    fixture f;
    REQUIRE(f.run() == 0);
    plant(f);
    INFO(words);
    CHECK(f.run() == 1);
    CHECK(f.report.wrong_rows == 1);
    CHECK(f.report.indices == 4);
    INFO(f.report.text);
    CHECK(std::strstr(f.report.text, words) != nullptr);
}

TEST_CASE("verify: an exact result", "[verify]") {
    fixture f;
    CHECK(f.run() == 0);
    CHECK(f.report.indices == 8);
    CHECK(f.report.wrong_rows == 0);
    CHECK(f.report.text[0] == '\0');
    f.values.clear();
    CHECK(f.run() == 0);
    f.indices = {5, 2, 1, 3, 4, 0, 1, 2};
    CHECK(f.run() == 0);
}

TEST_CASE("verify: planted faults", "[verify]") {
    finds("row 0: slot 3 holds index 5 a second time", [](fixture &f) { f.indices[3] = 5; });
    finds("row 0: slot 2 holds index 7, outside the row's 7 scores", [](fixture &f) { f.indices[2] = 7; });
    finds("row 1: slot 0 holds index 5, outside the row's 5 scores", [](fixture &f) { f.indices[4] = 5; });
    finds("row 1: slot 3 holds index -1, outside", [](fixture &f) { f.indices[7] = -1; });
    finds("row 0: slot 0 holds index 2139062143, outside", [](fixture &f) { f.indices[0] = 0x7f7f7f7f; });
    finds("row 0: slot 0 holds index -2147483648, outside", [](fixture &f) { f.indices[0] = -2147483647 - 1; });
    finds("row 0: rank 3 is score 3 at index 2, but 2 at index 4 was selected", [](fixture &f) {
        f.indices[3] = 4;
        f.values[3] = 2;
    });
    finds("row 1: rank 3 is score -inf at index 4, but nan at index 3 was selected", [](fixture &f) {
        f.indices[7] = 3;
        f.values[7] = nan_;
    });
    finds("row 0: slot 1 holds value 5.00000048, but score 3 is 5", [](fixture &f) { f.values[1] = std::nextafter(5.0f, 6.0f); });
    finds("row 1: slot 0 holds value -0, but score 2 is 0", [](fixture &f) { f.values[4] = -0.0f; });
    finds("row 1: rank 0 is score 1 at index 3", [](fixture &f) { f.scores[10] = 1; });
}

TEST_CASE("verify: the smallest difference counts", "[verify]") {
    fixture f;
    f.values.clear();
    f.scores[4] = std::nextafter(3.0f, 4.0f); /* now index 4 is the fourth best, by one unit in the last place */
    CHECK(f.run() == 1);
    f.indices[3] = 4;
    CHECK(f.run() == 0);
    f.scores = {0, 1e-45f, 0, 3e-45f, 0, 4e-45f, 6e-45f, -1, -0.0f, 0.0f, nan_, -inf, 99, 99}; /* denormals are not zeros */
    f.indices = {6, 5, 3, 0, 2, 1, 0, 4};
    CHECK(f.run() == 1);
    f.indices[3] = 1;
    CHECK(f.run() == 0);
}

TEST_CASE("verify: padding", "[verify]") {
    fixture f;
    f.lengths = {7, 2};
    f.indices = {1, 3, 5, 2, 1, 0, -1, -1};
    f.values = {5, 5, 5, 3, -0.0f, -1, -inf, -inf};
    CHECK(f.run() == 0);
    CHECK(f.report.indices == 6);
    f.indices[7] = 0;
    CHECK(f.run() == 1);
    CHECK(std::string(f.report.text) == "row 1: slot 3 holds 0, but behind the row's 2 results all is -1");
    f.indices[7] = 0x7f7f7f7f;
    CHECK(f.run() == 1);
    f.indices[7] = -1;
    f.values[6] = 0;
    CHECK(f.run() == 1);
    CHECK(std::string(f.report.text) == "row 1: slot 2 holds value 0, but behind the row's 2 results all is -inf");
    f.values[6] = -inf;
    f.indices = {1, 3, 5, 2, -1, 1, 0, -1}; /* not a prefix */
    CHECK(f.run() == 1);
    f.lengths = {0, 0};
    f.indices.assign(8, -1);
    f.values.assign(8, -inf);
    CHECK(f.run() == 0);
    CHECK(f.report.indices == 0);
}

TEST_CASE("verify: ties", "[verify]") {
    fixture f;
    f.values.clear();
    f.scores = {1, 5, 3, 3, 2, 3, 0, -0.0f, -0.0f, 0.0f, nan_, 0.0f, 99, 99};
    f.indices = {5, 1, 3, 4, 4, 2, 1, 0};
    CHECK(f.run() == 1); /* 4 has score 2 */
    f.indices[3] = 2;
    CHECK(f.run() == 0);
    f.job.ties = TOPKIT_TIES_LOWEST_INDEX;
    CHECK(f.run() == 0);
    f.scores[6] = 3;
    f.indices[0] = 6; /* 6 and 5 have the same score */
    CHECK(f.run() == 1);
    CHECK(std::string(f.report.text) == "row 0: rank 3 is index 5, the lowest with score 3, but index 6 was selected");
    f.job.ties = TOPKIT_TIES_ANY;
    CHECK(f.run() == 0);
    f.scores = {nan_, -nan_, nan_, nan_, nan_, nan_, nan_, -1, -1, -1, -1, -1, 99, 99};
    f.indices = {6, 5, 4, 3, 0, 1, 2, 4};
    CHECK(f.run() == 0); /* all NaNs are equal */
    f.job.ties = TOPKIT_TIES_LOWEST_INDEX;
    CHECK(f.run() == 1);
    CHECK(f.report.wrong_rows == 2);
    f.indices = {0, 1, 2, 3, 0, 1, 2, 3};
    CHECK(f.run() == 0);
}

TEST_CASE("verify: order", "[verify]") {
    fixture f;
    f.values.clear();
    f.job.order = TOPKIT_ORDER_INDEX;
    CHECK(f.run() == 1);
    CHECK(std::string(f.report.text) == "row 0: slots 2 and 3 are not in ascending order of index");
    f.indices = {1, 2, 3, 5, 0, 1, 2, 4};
    CHECK(f.run() == 0);
    f.job.order = TOPKIT_ORDER_SCORE;
    CHECK(f.run() == 1);
    f.indices = {1, 3, 5, 2, 1, 2, 0, 4}; /* -0 at 1 and +0 at 2 are equal, so by index */
    CHECK(f.run() == 0);
    f.indices = {1, 3, 5, 2, 2, 1, 0, 4};
    CHECK(f.run() == 1);
    CHECK(std::string(f.report.text) == "row 1: slots 0 and 1 are not in descending order of score, equal ones by index");
    f.indices = {3, 1, 5, 2, 1, 2, 0, 4};
    CHECK(f.run() == 1);
}

TEST_CASE("verify: NaN highest", "[verify]") {
    fixture f;
    f.values.clear();
    f.job.nan_highest = 1;
    CHECK(f.run() == 1);
    CHECK(std::string(f.report.text) == "row 1: rank 0 is score nan at index 3, but -0 at index 1 was selected");
    f.indices[7] = 3;
    CHECK(f.run() == 0);
    f.job.order = TOPKIT_ORDER_SCORE;
    f.indices = {1, 3, 5, 2, 3, 1, 2, 0};
    CHECK(f.run() == 0);
}

TEST_CASE("verify: a row of every length against a count of what is above", "[verify]") {
    unsigned state = 1;
    for (int n = 0; n < 70; n++) {
        std::vector<float> scores;
        for (int i = 0; i < n; i++) {
            state = state * 1664525u + 1013904223u;
            scores.push_back(static_cast<float>(state >> 28));
        }
        int k = n / 2;
        std::vector<int> chosen;
        for (int i = 0; i < n; i++) { /* by definition: fewer than k rank above it, equal ones before it included */
            int above = 0;
            for (int j = 0; j < n; j++) {
                above += scores[static_cast<size_t>(j)] > scores[static_cast<size_t>(i)] ||
                         (scores[static_cast<size_t>(j)] == scores[static_cast<size_t>(i)] && j < i);
            }
            if (above < k) {
                chosen.push_back(i);
            }
        }
        verify_job job{};
        job.scores = scores.data();
        job.row_stride = n;
        job.rows = 1;
        job.max_length = n;
        job.k = k;
        job.ties = TOPKIT_TIES_LOWEST_INDEX;
        job.order = TOPKIT_ORDER_INDEX;
        job.indices = chosen.data();
        verify_report report;
        CHECK(verify(&job, &report) == 0);
        CHECK(report.indices == k);
    }
}

TEST_CASE("verify: halves are widened to the floats that they stand for", "[verify]") {
    std::vector<unsigned short> halves;
    for (unsigned h = 0; h < 65536; h++) {
        halves.push_back(static_cast<unsigned short>(h));
    }
    float *wide = verify_widen(halves.data(), halves.size());
    REQUIRE(wide != nullptr);
    int wrong = 0;
    for (unsigned h = 0; h < 65536; h++) {
        uint32_t bits;
        memcpy(&bits, &wide[h], sizeof bits);
        wrong += bits != half_widened(half_f16, h);
    }
    free(wide);
    CHECK(wrong == 0);
}
