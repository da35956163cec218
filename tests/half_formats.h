/* half_formats.h: bfloat16 and fp16 by their definitions, for tests. Shares nothing with the library.
 *
 *   half_widened(half_f16, 0x3c00)                the bits of the float with the same value: 0x3f800000. A NaN's payload goes to the top
 *   half_rounded_up(half_bf16, bits)              the smallest 16-bit score that is not below a float that is no NaN; zeros are +0
 *   half_narrowed(half_bf16, bits)                the way back from half_widened
 */
#ifndef TOPKIT_TESTS_HALF_FORMATS_H
#define TOPKIT_TESTS_HALF_FORMATS_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

struct half_format {
    const char *name;
    int score_type; /* TOPKIT_SCORE_... */
    int mantissa;   /* bits of it */
    int bias;       /* of the exponent */
};

static const half_format half_bf16 = {"bfloat16", 1, 7, 127}, half_f16 = {"fp16", 2, 10, 15};

static inline uint32_t half_infinity(const half_format &f) { return (0x7fffu >> f.mantissa) << f.mantissa; }

static inline uint32_t half_widened(const half_format &f, uint32_t h) {
    const uint32_t sign = (h & 0x8000u) << 16, payload = h & ((1u << f.mantissa) - 1), exponent = (h & 0x7fffu) >> f.mantissa;
    if ((h & 0x7fffu) >= half_infinity(f)) return sign | 0x7f800000u | payload << (23 - f.mantissa);
    const float value = ldexpf((float)(payload + (exponent ? 1u << f.mantissa : 0u)), (int)(exponent ? exponent : 1) - f.bias - f.mantissa);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return sign | bits;
}

/* The widened bits of every magnitude, found once: bisections over them are much of what some tests do. */
static inline const uint32_t *half_magnitudes(const half_format &f) {
    const auto all = [](const half_format &format) {
        std::vector<uint32_t> bits;
        for (uint32_t h = 0; h < 0x8000u; h++) bits.push_back(half_widened(format, h));
        return bits;
    };
    static const std::vector<uint32_t> bf16 = all(half_bf16), f16 = all(half_f16);
    return f.mantissa == half_bf16.mantissa ? bf16.data() : f16.data();
}

/* By bisection over the magnitudes, which are in the order of their values. */
static inline uint32_t half_rounded_up(const half_format &f, uint32_t bits) {
    const uint32_t *widened = half_magnitudes(f), magnitude = bits & 0x7fffffffu, sign = bits >> 31;
    uint32_t low = 0, high = half_infinity(f); /* positive: the first that is not below; negative: the last that is not above */
    while (low < high) {
        const uint32_t middle = (low + high + sign) / 2;
        if (sign ? widened[middle] <= magnitude : widened[middle] >= magnitude) (sign ? low : high) = middle;
        else if (sign) high = middle - 1;
        else low = middle + 1;
    }
    return low == 0 ? 0 : sign << 15 | low;
}

static inline uint16_t half_narrowed(const half_format &f, uint32_t bits) {
    const uint32_t sign = bits >> 16 & 0x8000u;
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(sign | half_infinity(f) | (bits & 0x7fffffu) >> (23 - f.mantissa));
    return (uint16_t)(sign | half_rounded_up(f, bits & 0x7fffffffu));
}

#endif
