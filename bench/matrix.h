/* matrix.h: a matrix of scores on the device, and its three types of score, for the host and for the device.
 *
 *   bench_matrix m = {.scores = scores, .type = TOPKIT_SCORE_BF16, .lengths = lengths, .rows = rows, .columns = columns};
 *   bench_store(m.scores, m.type, i, 1.25f);      rounds to the nearest value of the type, halves to even
 *   float x = bench_load(m.scores, m.type, i);    exact: every 16-bit score is a float
 *
 * Rows are contiguous: row stride = columns. The conversions are integer arithmetic of their own and share nothing with the library, whose
 * reading of 16-bit scores they help to judge. Plain C11, C++ and CUDA.
 */
#ifndef TOPKIT_BENCH_MATRIX_H
#define TOPKIT_BENCH_MATRIX_H

#include "inputs.h"
#include "select.h"

typedef struct bench_matrix {
    void *scores;       /* rows x columns */
    int type;           /* TOPKIT_SCORE_F32, _BF16 or _F16 */
    const int *lengths; /* (rows) */
    int rows;
    int columns;
} bench_matrix;

static inline size_t bench_type_bytes(int type)
{
    return type == TOPKIT_SCORE_F32 ? 4 : 2;
}

static inline const char *bench_type_name(int type)
{
    static const char *const names[] = {"f32", "bf16", "fp16"};
    return type >= 0 && type <= TOPKIT_SCORE_F16 ? names[type] : "unknown";
}

BENCH_FN uint32_t bench_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

BENCH_FN uint16_t bench_to_bf16(float value)
{
    uint32_t bits = bench_to_bits(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) /* a NaN stays one, whatever its lower half was */
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

BENCH_FN uint16_t bench_to_fp16(float value)
{
    uint32_t bits = bench_to_bits(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7FFFFFFFu;
    if (size > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00u);
    if (size >= 0x477FF000u) /* 65520: half-way from the largest to what would be the next */
        return (uint16_t)(sign | 0x7C00u);
    if (size < 0x38800000u) /* below 2^-14: multiples of 2^-24 */
        return (uint16_t)(sign | (uint32_t)rintf(bench_from_bits(size) * 16777216.0f));
    return (uint16_t)(sign | (size - 0x38000000u + 0xFFFu + (size >> 13 & 1u)) >> 13);
}

BENCH_FN float bench_of_fp16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 0x3FFu;
    if (exponent == 0u)
        return bench_from_bits(sign | bench_to_bits((float)fraction * (1.0f / 16777216.0f)));
    return bench_from_bits(sign | (exponent == 31u ? 255u : exponent + 112u) << 23 | fraction << 13);
}

BENCH_FN void bench_store(void *scores, int type, size_t i, float value)
{
    if (type == TOPKIT_SCORE_F32)
        ((float *)scores)[i] = value;
    else
        ((uint16_t *)scores)[i] = type == TOPKIT_SCORE_BF16 ? bench_to_bf16(value) : bench_to_fp16(value);
}

BENCH_FN float bench_load(const void *scores, int type, size_t i)
{
    if (type == TOPKIT_SCORE_F32)
        return ((const float *)scores)[i];
    uint16_t half = ((const uint16_t *)scores)[i];
    return type == TOPKIT_SCORE_BF16 ? bench_from_bits((uint32_t)half << 16) : bench_of_fp16(half);
}

#endif
