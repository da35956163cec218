/* inputs.h: the score generators of the benchmark and of the tests, one formula each, for the host and for the device.
 *
 *   float s = bench_score(BENCH_DSA, 1234, row, column, columns);       one score, a pure function of its arguments
 *   int n = bench_length(BENCH_CAUSAL, 1234, row, columns, first);       how many of a row's columns are valid
 *
 * Scores at or past a row's length are -inf (bench_score_or_pad). Everything follows from mix64, splitmix64's finaliser, of
 * (seed, row, column), so that any part of a matrix can be made anywhere, in any order, with the same result.
 * The worst_* are what tests/adversary.cu found: they know what the kernels do, but not the seeds, and make them do most of it.
 * The host and the device may differ in the last bits of logf, sinpi and tanpi, never in which formula is used:
 * whoever needs the same bits on both generates on one and copies.
 *
 * Plain C11, C++ and CUDA; includes nothing of the project. Cost: 2 to 5 mix64 and at most four transcendental functions a score.
 */
#ifndef TOPKIT_BENCH_INPUTS_H
#define TOPKIT_BENCH_INPUTS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define BENCH_FN static __host__ __device__ __forceinline__
#else
#define BENCH_FN static inline
#endif

enum bench_input {
    BENCH_NORMAL = 0,
    BENCH_DSA,         /* a narrow band with a long upper tail that drifts along the row, as sparse-attention indexers give */
    BENCH_UNIFORM,
    BENCH_SORTED_ASC,
    BENCH_SORTED_DESC,
    BENCH_EQUAL,
    BENCH_TWOVAL,      /* one score in a hundred is 1, the others 0 */
    BENCH_PERIOD128,   /* the smallest scores sit exactly where a sample of stride 128 looks */
    BENCH_HEAVY,       /* Cauchy */
    BENCH_NEGINF,      /* every other score is -inf */
    BENCH_DENORM,
    BENCH_NARROW,      /* 4096 values that share their upper 20 bits */
    BENCH_WORST_RISING, /* rises along the row; half of every stratum of the pipelined route's sampler lies below all the rest */
    BENCH_WORST_ALIKE,  /* uniform, but 16 neighbours are alike, so that a sample of wide vectors is worth a sixteenth */
    BENCH_WORST_HUGE,   /* rises by one float a score, below one score in a hundred that is huge: for the bins of a histogram of keys */
    BENCH_INPUTS,
    BENCH_CAPTURE = BENCH_INPUTS /* rows from a file: not a formula, see fill.h */
};

enum bench_lengths {
    BENCH_FULL = 0, /* every row has all columns */
    BENCH_CAUSAL,   /* row r ends at column first + r, and the last row at the last column when first is columns - rows */
    BENCH_MIXED     /* uniform in [1, columns] */
};

#define BENCH_SEED 1234u

/* splitmix64: one step of its counter, then its finaliser. */
BENCH_FN uint64_t bench_mix64(uint64_t x)
{
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

BENCH_FN uint64_t bench_hash(uint64_t seed, uint32_t row, uint32_t column)
{
    return bench_mix64(bench_mix64(seed ^ ((uint64_t)row << 32 | column)) + 0x51ED27ull);
}

BENCH_FN uint32_t bench_low(uint64_t h)
{
    return (uint32_t)h;
}

BENCH_FN uint32_t bench_high(uint64_t h)
{
    return (uint32_t)(h >> 32);
}

/* ((b >> 8) + 0.5) / 2^24, never 0; the largest of all rounds to 1. */
BENCH_FN float bench_u01(uint32_t bits)
{
    return (float)(2u * (bits >> 8) + 1u) * (1.0f / 33554432.0f);
}

/* u01 - 0.5 without the rounding of u01: the numerator has 24 bits, so that 0.5 itself, where a tangent has its pole, never comes. */
BENCH_FN float bench_u01_centred(uint32_t bits)
{
    return (float)((int32_t)(2u * (bits >> 8) + 1u) - 16777216) * (1.0f / 33554432.0f);
}

/* cos, sin and tan of a number of turns: exact range reduction on both sides. */
BENCH_FN float bench_cos_turns(float turns)
{
#if defined(__CUDA_ARCH__)
    return cospif(2.0f * turns);
#else
    return (float)cos(6.283185307179586 * (double)turns);
#endif
}

BENCH_FN float bench_sin_turns(float turns)
{
#if defined(__CUDA_ARCH__)
    return sinpif(2.0f * turns);
#else
    return (float)sin(6.283185307179586 * (double)turns);
#endif
}

BENCH_FN float bench_tan_half_turns(float half_turns)
{
#if defined(__CUDA_ARCH__)
    float sine, cosine;
    sincospif(half_turns, &sine, &cosine);
    return sine / cosine;
#else
    return (float)tan(3.141592653589793 * (double)half_turns);
#endif
}

BENCH_FN float bench_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Box-Muller: radius from the low half of h, angle from the high half. */
BENCH_FN float bench_normal(uint64_t h)
{
    return sqrtf(-2.0f * logf(bench_u01(bench_low(h)))) * bench_cos_turns(bench_u01(bench_high(h)));
}

BENCH_FN float bench_dsa(uint64_t h, uint64_t seed, uint32_t row, uint32_t column, uint32_t columns)
{
    float p = (float)column / (float)columns;
    float phase = bench_u01(bench_low(bench_mix64(seed + 991ull * row))); /* in turns */
    float score = 30.0f + 2.0f * bench_normal(h) + bench_sin_turns(2.5f * p + phase) + 0.8f * p;
    uint64_t h2 = bench_mix64(h ^ 0x7777ull);
    if (bench_u01(bench_low(h2)) < 0.02f)
        score -= 1.2f * logf(bench_u01(bench_high(h2)));
    return score;
}

/* Made to cost most by whoever knows the kernels, but not the seed that a call draws. */
BENCH_FN float bench_worst(int input, uint64_t h, uint64_t alike, uint32_t column, uint32_t columns)
{
    if (input == BENCH_WORST_RISING)
        return (float)column - (column % 1024u < 512u ? (float)columns : 0.0f);
    if (input == BENCH_WORST_ALIKE)
        return bench_u01(bench_low(alike));
    return h % 100u == 0 ? 3e38f : bench_from_bits(0x3F900000u + column);
}

/* Column `column` of row `row`, of a row that is `columns` wide. */
BENCH_FN float bench_score(int input, uint64_t seed, uint32_t row, uint32_t column, uint32_t columns)
{
    uint64_t h = bench_hash(seed, row, column);
    uint32_t bits;
    switch (input) {
    case BENCH_DSA: return bench_dsa(h, seed, row, column, columns);
    case BENCH_UNIFORM: return bench_u01(bench_low(h));
    case BENCH_SORTED_ASC: return (float)column;
    case BENCH_SORTED_DESC: return -(float)column;
    case BENCH_EQUAL: return 1.0f;
    case BENCH_TWOVAL: return h % 100u == 0 ? 1.0f : 0.0f;
    case BENCH_PERIOD128: return column % 128u == 0 ? bench_u01(bench_low(h)) - 5.0f : 10.0f + bench_normal(h);
    case BENCH_HEAVY: return bench_tan_half_turns(bench_u01_centred(bench_low(h)));
    case BENCH_NEGINF: return bench_mix64(h ^ 0x1357ull) & 1u ? -INFINITY : bench_normal(h);
    case BENCH_DENORM:
        bits = bench_low(h) & 0x7FFFFFu;
        return bench_from_bits((bits ? bits : 1u) | (bench_high(h) & 0x80000000u));
    case BENCH_NARROW: return bench_from_bits(0x3F800000u + (bench_low(h) & 0xFFFu));
    case BENCH_WORST_RISING:
    case BENCH_WORST_ALIKE:
    case BENCH_WORST_HUGE: return bench_worst(input, h, bench_hash(seed ^ 0xA11CEull, row, column / 16), column, columns);
    default: return bench_normal(h);
    }
}

/* Row r of a matrix of rows x columns. `first` is the causal length of row 0 less one; the usual causal window has columns - rows. */
BENCH_FN int bench_length(int lengths, uint64_t seed, int row, int columns, int first)
{
    long long causal = (long long)first + row + 1;
    switch (lengths) {
    case BENCH_CAUSAL: return (int)(causal < 0 ? 0 : causal > columns ? columns : causal);
    case BENCH_MIXED:
        return 1 + (int)(bench_mix64(seed * 77773ull + 0xABCDEFull + (uint64_t)row) % (uint64_t)columns);
    default: return columns;
    }
}

BENCH_FN float bench_score_or_pad(int input, uint64_t seed, uint32_t row, uint32_t column, uint32_t columns, uint32_t length)
{
    uint32_t wide = input >= BENCH_WORST_RISING ? length : columns; /* the worst is meant for a row of just this length */
    return column < length ? bench_score(input, seed, row, column, wide) : -INFINITY;
}

static inline const char *bench_input_name(int input)
{
    static const char *const names[] = {"normal", "dsa",   "uniform", "sorted_asc", "sorted_desc", "equal", "twoval", "period128",
                                        "heavy",  "neginf", "denorm",  "narrow",     "worst_rising", "worst_alike", "worst_huge",
                                        "capture"};
    return input >= 0 && input <= BENCH_CAPTURE ? names[input] : "unknown";
}

static inline const char *bench_lengths_name(int lengths)
{
    static const char *const names[] = {"full", "causal", "mixed"};
    return lengths >= 0 && lengths <= BENCH_MIXED ? names[lengths] : "unknown";
}

/* The number of a name, or -1. */
static inline int bench_find_input(const char *name)
{
    for (int i = 0; i <= BENCH_CAPTURE; ++i)
        if (strcmp(name, bench_input_name(i)) == 0)
            return i;
    return -1;
}

static inline int bench_find_lengths(const char *name)
{
    for (int i = 0; i <= BENCH_MIXED; ++i)
        if (strcmp(name, bench_lengths_name(i)) == 0)
            return i;
    return -1;
}

#endif
