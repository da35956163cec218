/* select_problem.h: random problems for the operator: shapes, lengths, windows, strides, alignments, k, routes, policies, values.
 *
 *   problem p = problem_of(seed, number);      a pure function of both; p.m is the matrix, p.k and p.how what is asked of it
 *   long long n = setting("NAME", otherwise);  a number from the environment
 *
 * Sizes lie near what has a boundary somewhere in the library, or just anywhere. For test_select_random.cu and test_select_soak.cu.
 */
#ifndef TOPKIT_TESTS_SELECT_PROBLEM_H
#define TOPKIT_TESTS_SELECT_PROBLEM_H

#include "select_case.h"
#include "topkit/topkit.cuh"

struct dice {
    uint64_t state;
    uint64_t next() { return mixed(state += 0x9e3779b97f4a7c15u); }
    int below(int n) { return (int)(next() % (uint64_t)(n > 0 ? n : 1)); }
    int from(int low, int high) { return low + below(high - low + 1); }
    bool one_in(int n) { return below(n) == 0; }
    float unit() { return (float)(next() >> 40) * 0x1p-24f; }
};

enum { UNIFORM, BELL, FEW_VALUES, PLATEAU, EQUAL, RISING, FALLING, ANY_BITS, DENORMAL, NARROW, SIGNED_ZEROS, NANS, INFINITE, PERIODIC };
enum { KINDS = PERIODIC + 1 };

static inline float score_of(int kind, int r, int i, int n, uint64_t salt) {
    const uint64_t h = mixed(salt + hashed(r, i));
    const float u = (float)(h >> 40) * 0x1p-24f;
    switch (kind) {
        case BELL: return (u + (float)(h >> 20 & 0xfffff) * 0x1p-20f + (float)(h & 0xfffff) * 0x1p-20f - 1.5f) * 4.0f;
        case FEW_VALUES: return (float)(h % 7) - 3.0f;
        case PLATEAU: return h % 97 == 0 ? 1.0f + u : h % 5 == 0 ? -u : 0.0f;
        case EQUAL: return (float)(salt % 3) - 1.0f;
        case RISING: return (float)(i - n / 2) * 0x1p-8f;
        case FALLING: return (float)(n / 2 - i) * 0x1p-8f;
        case ANY_BITS: return bits_float((uint32_t)h);
        case DENORMAL: return bits_float(((uint32_t)h & 0x807fffffu));
        case NARROW: return bits_float(0x3f800000u + (uint32_t)(h & 0x3ff));
        case SIGNED_ZEROS: return h % 50 == 0 ? u : h & 1 ? -0.0f : 0.0f;
        case NANS: return h % 3 ? bits_float(0x7f800001u | (uint32_t)(h >> 32 & 0x807fffffu)) : u;
        case INFINITE: return h % 20 == 0 ? u : bits_float(h % 31 == 1 ? 0x7f800000u : 0xff800000u);
        case PERIODIC: return (i / 4 % 128 == (int)(salt % 128) ? 2.0f : 1.0f) + u * 0.5f;
        default: return u;
    }
}

/* A number near something that matters, or just any. */
static inline int size_near(dice *d, int most, int k) {
    const int marks[] = {k, 2 * k, TOPKIT_TILE, 2 * TOPKIT_TILE, 4 * TOPKIT_TILE, TOPKIT_DIGIT_BINS, TOPKIT_BOUNDARY, 8192, 16384};
    const int n = d->one_in(3) ? d->from(0, most) : d->one_in(4) ? d->from(0, 40) : marks[d->below(9)] + d->from(-3, 3);
    return n < 0 ? 0 : n > most ? most : n;
}

struct problem {
    matrix m;
    int k, kind;
    mode how;
    long long index_stride, value_stride;
    bool wants_values;
};

static inline problem problem_of(uint64_t seed, int number) {
    dice d = {mixed(seed * 1000003u + (uint64_t)number)};
    problem p;
    const int most = d.one_in(4) ? test_size(70000, 20000) : 5000;
    const int powers[] = {1, 2, 32, 64, 128, 256, 512, 1024, 2048};
    p.k = d.one_in(3) ? d.from(1, 33) : d.one_in(3) ? d.from(1, 4096) : powers[d.below(9)] + d.from(-1, 1);
    p.k = p.k < 1 ? 1 : most > 5000 && d.one_in(3) ? d.from(4097, most) : p.k;
    p.m.max_length = size_near(&d, most, p.k);
    p.m.rows = most == 5000 ? d.from(1, d.one_in(8) ? test_size(1000, 40) : 9) : d.from(1, test_size(40, 3));
    p.m.row_stride = d.one_in(6) ? d.below(p.m.max_length + 1) : p.m.max_length + (d.one_in(2) ? d.below(8) : 0);
    p.m.displaced = d.below(4);
    if (!d.one_in(3)) {
        const int least = d.one_in(2) ? 0 : p.m.max_length / 2;
        for (int r = 0; r < p.m.rows; r++) {
            const int around_k = p.k + d.from(-1, 1), any = d.from(least, p.m.max_length + 3);
            p.m.lengths.push_back(d.one_in(6) ? d.from(-2, 3) : d.one_in(5) ? around_k : any);
        }
    }
    if (d.one_in(3)) {
        const int furthest = d.one_in(2) ? 7 : 3000;
        for (int r = 0; r < p.m.rows; r++) p.m.starts.push_back(d.below(furthest));
    }
    p.kind = d.below(KINDS);
    const uint64_t salt = d.next();
    const int kind = p.kind, n = p.m.max_length;
    p.m.fill([=](int r, int i) { return score_of(kind, r, i, n, salt); }, d.one_in(2) ? POISON : bits_float(0x7fc00000u));
    p.how.route = ROUTES[d.below(ROUTE_COUNT)];
    p.how.ties = d.below(2);
    p.how.order = d.one_in(2) ? TOPKIT_ORDER_NONE : d.below(p.k > 4096 ? 2 : 3); /* by score not every k on every device */
    p.index_stride = d.one_in(3) ? p.k + d.below(9) : 0;
    p.value_stride = d.one_in(3) ? p.k + d.below(9) : 0;
    p.wants_values = d.one_in(2);
    return p;
}

static inline long long setting(const char *name, long long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoll(text, nullptr, 0) : otherwise;
}

#endif
