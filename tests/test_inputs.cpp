/* test_inputs.cpp: the score generators of bench/inputs.h against values worked out apart from it, in 64-bit integers and doubles, and
 * against what each distribution must look like. */
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "inputs.h"

static const uint32_t columns = 1u << 20;

static std::vector<float> row_of(int input, uint32_t row, uint32_t count) {
    std::vector<float> scores;
    for (uint32_t c = 0; c < count; ++c) scores.push_back(bench_score(input, BENCH_SEED, row, c, count));
    return scores;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

TEST_CASE("mix64 is splitmix64's first output, and the hash follows from it") {
    CHECK(bench_mix64(0) == 0xE220A8397B1DCDAFull);
    CHECK(bench_hash(BENCH_SEED, 0, 0) == 0xEDECFD83F97334EBull);
    CHECK(bench_hash(BENCH_SEED, 5, 77) == 0x939DC16C9C2B0FE4ull);
    CHECK(bench_hash(BENCH_SEED, 8191, 1048575) == 0x35F8D088FBD6FA83ull);
}

TEST_CASE("scores at three places of a matrix, a million columns wide") {
    struct known {
        uint32_t row, column;
        double normal, dsa, uniform, heavy;
        uint32_t denorm, narrow;
        bool neginf;
    } places[] = {{0, 0, 0.20564164924623743, 31.326427384639274, 0.9744141399860382, 12.414046550975891, 0x807334EB, 0x3F8004EB, true},
                  {5, 77, -0.8812055469669884, 27.674329325688518, 0.6100320518016815, 0.3601359024347408, 0x802B0FE4, 0x3F800FE4, true},
                  {8191, 1048575, 0.044105651069853535, 31.7440140841212, 0.9837490618228912, 19.570148942499515, 0x0056FA83, 0x3F800A83,
                   false}};
    for (const known &p : places) {
        auto score = [&](int input) { return bench_score(input, BENCH_SEED, p.row, p.column, columns); };
        CHECK(score(BENCH_NORMAL) == Approx(p.normal).epsilon(1e-5));
        CHECK(score(BENCH_DSA) == Approx(p.dsa).epsilon(1e-6));
        CHECK(score(BENCH_UNIFORM) == Approx(p.uniform).epsilon(1e-6));
        CHECK(score(BENCH_HEAVY) == Approx(p.heavy).epsilon(1e-5));
        CHECK(bits_of(score(BENCH_DENORM)) == p.denorm);
        CHECK(bits_of(score(BENCH_NARROW)) == p.narrow);
        CHECK(std::isinf(score(BENCH_NEGINF)) == p.neginf);
        CHECK(score(BENCH_SORTED_ASC) == (float)p.column);
        CHECK(score(BENCH_SORTED_DESC) == -(float)p.column);
        CHECK(score(BENCH_EQUAL) == 1.0f);
    }
    CHECK(bench_score(BENCH_PERIOD128, BENCH_SEED, 2, 256, columns) == Approx(-4.636672765016556).epsilon(1e-6));
    CHECK(bench_score(BENCH_PERIOD128, BENCH_SEED, 2, 257, columns) == Approx(8.880748146441839).epsilon(1e-6));
    CHECK(bench_score(BENCH_DSA, BENCH_SEED, 3, 2, 4096) == Approx(35.70929046113968).epsilon(1e-6)); /* one of the long tail */
}

TEST_CASE("the ends of the uniform numbers") {
    CHECK(bench_u01(0) == std::ldexp(1.0f, -25));
    CHECK(bench_u01(0xFFFFFFFFu) == 1.0f);
    CHECK(bench_u01_centred(0) == std::ldexp(1.0f, -25) - 0.5f);
    CHECK(bench_u01_centred(0xFFFFFFFFu) == 0.5f - std::ldexp(1.0f, -25));
    CHECK(std::isfinite(bench_tan_half_turns(bench_u01_centred(0xFFFFFFFFu))));
}

TEST_CASE("normal scores have mean 0, variance 1 and both tails") {
    std::vector<float> s = row_of(BENCH_NORMAL, 9, 1u << 18);
    double sum = 0, squares = 0;
    for (float x : s) sum += x, squares += (double)x * x;
    CHECK(std::abs(sum / s.size()) < 0.01);
    CHECK(squares / s.size() == Approx(1.0).epsilon(0.02));
    CHECK(std::count_if(s.begin(), s.end(), [](float x) { return x > 2.0f; }) / (double)s.size() == Approx(0.02275).epsilon(0.06));
    CHECK(std::count_if(s.begin(), s.end(), [](float x) { return x < -2.0f; }) / (double)s.size() == Approx(0.02275).epsilon(0.06));
}

TEST_CASE("dsa scores lie in a narrow band, drift along the row and have a long upper tail") {
    const uint32_t n = 1u << 18;
    std::vector<float> s = row_of(BENCH_DSA, 4, n);
    double mean = 0, pieces[32] = {0};
    for (uint32_t c = 0; c < n; ++c) mean += s[c] / n, pieces[c / (n / 32)] += s[c] / (n / 32);
    CHECK(mean == Approx(30.4).margin(0.4));
    CHECK(*std::max_element(pieces, pieces + 32) - *std::min_element(pieces, pieces + 32) > 1.5);
    long above = std::count_if(s.begin(), s.end(), [](float x) { return x > 39.0f; });
    long below = std::count_if(s.begin(), s.end(), [](float x) { return x < 21.8f; });
    CHECK(above > 3 * below);
}

TEST_CASE("the other inputs are what they are called") {
    const uint32_t n = 1u << 17;
    auto share = [&](int input, bool (*holds)(float)) {
        std::vector<float> s = row_of(input, 1, n);
        return std::count_if(s.begin(), s.end(), holds) / (double)n;
    };
    CHECK(share(BENCH_TWOVAL, [](float x) { return x == 1.0f; }) == Approx(0.01).epsilon(0.15));
    CHECK(share(BENCH_TWOVAL, [](float x) { return x == 0.0f || x == 1.0f; }) == 1.0);
    CHECK(share(BENCH_NEGINF, [](float x) { return x == -INFINITY; }) == Approx(0.5).epsilon(0.02));
    CHECK(share(BENCH_HEAVY, [](float x) { return std::fabs(x) < 1.0f; }) == Approx(0.5).epsilon(0.02));
    CHECK(share(BENCH_DENORM, [](float x) { return std::fpclassify(x) == FP_SUBNORMAL; }) == 1.0);
    CHECK(share(BENCH_DENORM, [](float x) { return std::signbit(x); }) == Approx(0.5).epsilon(0.02));
    CHECK(share(BENCH_NARROW, [](float x) { return bits_of(x) >> 12 == 0x3F800u; }) == 1.0);
    CHECK(share(BENCH_UNIFORM, [](float x) { return x < 0.25f; }) == Approx(0.25).epsilon(0.03));
    CHECK(share(BENCH_PERIOD128, [](float x) { return x < -4.0f + 1e-6f; }) == 1.0 / 128);
}

TEST_CASE("the worst inputs: rising above a half of each stratum, alike by sixteen, huge ones above a narrow band") {
    for (uint32_t n : {40000u, 131072u, 1u << 20}) {
        const std::vector<float> rising = row_of(BENCH_WORST_RISING, 7, n), alike = row_of(BENCH_WORST_ALIKE, 7, n);
        std::vector<float> low, high, band;
        for (uint32_t i = 0; i < n; i++) {
            (i / 512 % 2 ? high : low).push_back(rising[i]);
            CHECK(alike[i] == alike[i / 16 * 16]);
        }
        CHECK(std::is_sorted(low.begin(), low.end()));
        CHECK(std::is_sorted(high.begin(), high.end()));
        CHECK(low.back() < high.front());
        uint32_t groups = 0;
        for (uint32_t i = 16; i < n; i += 16) groups += alike[i] != alike[i - 1];
        CHECK(groups > n / 16 - 20);
        for (float x : row_of(BENCH_WORST_HUGE, 7, n)) {
            if (x < 1e38f) band.push_back(x);
        }
        CHECK((double)band.size() / n == Approx(0.99).epsilon(0.003));
        CHECK(std::is_sorted(band.begin(), band.end()));
        CHECK(bits_of(band.back()) - bits_of(band.front()) < n);
    }
}

TEST_CASE("lengths: full, causal and mixed; -inf behind them") {
    CHECK(bench_length(BENCH_FULL, BENCH_SEED, 3, 1000, 0) == 1000);
    CHECK(bench_length(BENCH_CAUSAL, BENCH_SEED, 0, 131072, 131072 - 512) == 131072 - 511);
    CHECK(bench_length(BENCH_CAUSAL, BENCH_SEED, 511, 131072, 131072 - 512) == 131072);
    CHECK(bench_length(BENCH_CAUSAL, BENCH_SEED, 0, 4, -8) == 0);
    CHECK(bench_length(BENCH_CAUSAL, BENCH_SEED, 20, 4, -8) == 4);
    const int known[] = {86252, 29701, 39907};
    for (int r = 0; r < 3; ++r) CHECK(bench_length(BENCH_MIXED, BENCH_SEED, r, 131072, 0) == known[r]);
    double sum = 0;
    for (int r = 0; r < 10000; ++r) {
        int n = bench_length(BENCH_MIXED, BENCH_SEED, r, 100, 0);
        REQUIRE((n >= 1 && n <= 100));
        sum += n;
    }
    CHECK(sum / 10000 == Approx(50.5).epsilon(0.03));
    CHECK(bench_score_or_pad(BENCH_EQUAL, BENCH_SEED, 0, 6, 10, 7) == 1.0f);
    CHECK(bench_score_or_pad(BENCH_EQUAL, BENCH_SEED, 0, 7, 10, 7) == -INFINITY);
}

TEST_CASE("names go there and back") {
    for (int i = 0; i <= BENCH_CAPTURE; ++i) CHECK(bench_find_input(bench_input_name(i)) == i);
    for (int i = 0; i <= BENCH_MIXED; ++i) CHECK(bench_find_lengths(bench_lengths_name(i)) == i);
    CHECK(bench_find_input("norm") == -1);
    CHECK(bench_find_lengths("") == -1);
}
