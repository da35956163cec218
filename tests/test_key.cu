/* test_key.cu: sort keys of floats, of half-precision scores, of pairs; compares that no compiler flag may flush.
 *
 * Compiled once for each NaN policy (test_nan_highest.cu).
 */
#include "testing.h"
#include "topkit/key.cuh"

static __global__ void key_of(const unsigned *bits, unsigned *keys, unsigned *back, int count) {
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
        keys[i] = topkit_key(bits[i]);
        back[i] = topkit_key_bits(keys[i]);
    }
}

static std::vector<unsigned> keys_of(const score_bits &bits, std::vector<unsigned> *back = nullptr) {
    device_buffer<unsigned> in(bits), keys(bits.size()), again(bits.size());
    test_launch(1, 96, 0, key_of, in.data, keys.data, again.data, bits.size());
    if (back) *back = again.read();
    return keys.read();
}

static score_bits special_and_random(int count) {
    score_bits all = special_scores();
    for (int i = 0; i < count; i++) all.push_back((uint32_t)hashed(3, i));
    return all;
}

TEST_CASE("key: worked numbers") {
    const std::vector<unsigned> nan = keys_of({0x7fc00000u, 0xffffffffu, 0x7f800001u});
    const unsigned expected = TOPKIT_NAN == TOPKIT_NAN_LOWEST ? 0x00000000u : 0xffffffffu;
    REQUIRE(nan == std::vector<unsigned>{expected, expected, expected});
    REQUIRE(TOPKIT_KEY_NAN == expected);
    const score_bits numbers = {0xff800000u, bits_of(-1.0f), bits_of(-0.0f), bits_of(0.0f), bits_of(1.0f), 0x7f800000u};
    REQUIRE(keys_of(numbers) == std::vector<unsigned>{0x007fffffu, 0x407fffffu, 0x80000000u, 0x80000000u, 0xbf800000u, 0xff800000u});
    REQUIRE(TOPKIT_KEY_NEG_INF == 0x007fffffu);
    REQUIRE(TOPKIT_KEY_POS_INF == 0xff800000u);
}

TEST_CASE("key: order of keys is the order of scores") {
    const score_bits bits = special_and_random(200);
    const std::vector<unsigned> keys = keys_of(bits);
    for (size_t a = 0; a < bits.size(); a++) {
        REQUIRE(keys[a] == expected_key(bits[a]));
        bool same = true;
        for (size_t b = 0; b < bits.size(); b++)
            same = same && compare_scores(bits[a], bits[b]) == (keys[a] > keys[b]) - (keys[a] < keys[b]);
        REQUIRE(same);
    }
}

TEST_CASE("key: the way back") {
    const score_bits bits = special_and_random(2000);
    std::vector<unsigned> back;
    keys_of(bits, &back);
    bool same = true;
    for (size_t i = 0; i < bits.size(); i++) {
        const uint32_t expected = !is_nan_bits(bits[i])                ? canonical(bits[i])
                                  : TOPKIT_NAN == TOPKIT_NAN_LOWEST ? 0xff800000u  /* below -inf */
                                                                     : 0x7f800000u; /* above +inf */
        same = same && back[i] == expected;
    }
    REQUIRE(same);
}

/* what key_bits says of keys that no score has, and the order of pairs */
static __global__ void key_odds(const unsigned *keys, unsigned *bits, int count, const int *indices, unsigned long long *pairs) {
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
        bits[i] = topkit_key_bits(keys[i]);
        for (int j = 0; j < 4; j++) pairs[i * 4 + j] = topkit_pair_key(keys[i], indices[j]);
    }
}

TEST_CASE("key: keys outside the scores, pairs") {
    const std::vector<unsigned> keys = {0, 1, 0x007ffffeu, 0x007fffffu, 0x00800000u, 0xff7fffffu, 0xff800000u, 0xff800001u, 0xffffffffu};
    const std::vector<int> indices = {0x7fffffff, 70, 1, 0}; /* by ascending pair */
    device_buffer<unsigned> in(keys), bits(keys.size());
    device_buffer<int> where(indices);
    device_buffer<unsigned long long> pairs(keys.size() * 4);
    test_launch(1, 32, 0, key_odds, in.data, bits.data, keys.size(), where.data, pairs.data);
    const unsigned above = TOPKIT_NAN == TOPKIT_NAN_LOWEST ? 0x7fc00000u : 0x7f800000u, low = 0xff800000u;
    REQUIRE(bits.read() == std::vector<unsigned>{low, low, low, low, 0xff7fffffu, 0x7f7fffffu, 0x7f800000u, above, above});
    const std::vector<unsigned long long> order = pairs.read();
    for (size_t i = 1; i < order.size(); i++) REQUIRE(order[i - 1] < order[i]);
}

struct half_record {
    unsigned f16, bf16;
};

static __global__ void key_halves(half_record *out) {
    for (unsigned h = blockIdx.x * blockDim.x + threadIdx.x; h < 65536; h += gridDim.x * blockDim.x) {
        const unsigned short bits = (unsigned short)h;
        const half_record record = {topkit_f16_bits(bits), topkit_bf16_bits(bits)};
        out[h] = record;
    }
}

/* A half of so many mantissa bits by its definition: sign, 2^(exponent - bias), mantissa. */
static double half_value(unsigned h, int mantissa_bits) {
    const int exponents = 15 - mantissa_bits, exponent = (int)(h & 0x7fff) >> mantissa_bits, bias = (1 << (exponents - 1)) - 1;
    const int mantissa = (int)h & ((1 << mantissa_bits) - 1), special = (1 << exponents) - 1;
    double value = exponent ? std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits)
                            : std::ldexp(mantissa, 1 - bias - mantissa_bits);
    if (exponent == special) value = mantissa ? std::nan("") : HUGE_VAL;
    return h & 0x8000 ? -value : value;
}

TEST_CASE("key: half-precision scores widen exactly, all 65536 of both kinds") {
    device_buffer<half_record> out(65536);
    test_launch(4, 128, 0, key_halves, out.data);
    const std::vector<half_record> got = out.read();
    for (int mantissa_bits : {10, 7}) {
        bool exact = true;
        for (unsigned h = 0; h < 65536; h++) {
            const unsigned wide = mantissa_bits == 10 ? got[h].f16 : got[h].bf16;
            const double value = half_value(h, mantissa_bits);
            if (std::isnan(value)) exact = exact && is_nan_bits(wide);
            else exact = exact && (double)float_of(wide) == value && (wide >> 31) == h >> 15;
        }
        REQUIRE(exact);
    }
}

static __global__ void key_compares(const unsigned *bits, unsigned *out, int count) {
    for (int i = (int)threadIdx.x; i < count * count; i += (int)blockDim.x) {
        const float a = __uint_as_float(bits[i / count]), b = __uint_as_float(bits[i % count]);
        out[i] = (topkit_ge(a, b) ? 1u : 0u) | (topkit_not_lt(a, b) ? 2u : 0u);
    }
}

TEST_CASE("key: compares tell denormals apart, and NaN from everything") {
    const score_bits bits = special_scores();
    std::vector<unsigned> expected;
    for (uint32_t a : bits)
        for (uint32_t b : bits) {
            const bool nan = is_nan_bits(a) || is_nan_bits(b), ge = !nan && expected_key(a) >= expected_key(b);
            expected.push_back((ge ? 1u : 0u) | (nan || ge ? 2u : 0u));
        }
    device_buffer<unsigned> in(bits), out(expected.size());
    test_launch(1, 64, 0, key_compares, in.data, out.data, bits.size());
    REQUIRE(out.read() == expected);
}
