/* oracle.h: what the answer must be, found the slow way: a sort on the host. Shares nothing with include/topkit, not even the key map.
 *
 *   std::vector<uint64_t> best = oracle_best(scores, length, k);                                the k best of a row, best first
 *   std::string fault = oracle_fault(scores, length, best, k, indices, values, lowest, order);  empty: the answer is right
 *
 * An ordinal is a score's place among all floats: the magnitude's bits as a signed number. Both zeros are 0, infinities lie at either end,
 * and a NaN is one step outside (TOPKIT_NAN says on which side), whatever its sign and payload. `best` holds (ordinal, ~index) pairs, so
 * that of equal scores the lowest index comes first. Right means: distinct indices inside the row, the same multiset of ordinals, -1
 * behind them; under `lowest` the very same indices; in the order asked for; values with the input's own bits, -inf behind them.
 */
#ifndef TOPKIT_TESTS_ORACLE_H
#define TOPKIT_TESTS_ORACLE_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

enum { ORACLE_ANY_ORDER = 0, ORACLE_BY_INDEX = 1, ORACLE_BY_SCORE = 2 };

#if defined(TOPKIT_NAN) && TOPKIT_NAN == 1
static const int32_t ORACLE_NAN = 0x7f800001;
#else
static const int32_t ORACLE_NAN = -0x7f800001;
#endif

static inline uint32_t oracle_bits(float score) {
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits;
}

static inline int32_t oracle_ordinal(float score) {
    const uint32_t bits = oracle_bits(score);
    const int32_t magnitude = (int32_t)(bits & 0x7fffffffu);
    if (magnitude > 0x7f800000) return ORACLE_NAN;
    return bits >> 31 ? -magnitude : magnitude;
}

static inline uint64_t oracle_pair(float score, int index) { /* the larger pair is the better one */
    return (uint64_t)((int64_t)oracle_ordinal(score) + 0x80000000ll) << 32 | (uint32_t)~index;
}
static inline int oracle_pair_index(uint64_t pair) { return (int)~(uint32_t)pair; }
static inline uint32_t oracle_pair_rank(uint64_t pair) { return (uint32_t)(pair >> 32); }

static inline std::vector<uint64_t> oracle_best(const float *scores, int length, int k) {
    std::vector<uint64_t> pairs((size_t)length);
    for (int i = 0; i < length; i++) pairs[(size_t)i] = oracle_pair(scores[i], i);
    if (k < length) {
        std::nth_element(pairs.begin(), pairs.begin() + k, pairs.end(), std::greater<uint64_t>());
        pairs.resize((size_t)k);
    }
    std::sort(pairs.begin(), pairs.end(), std::greater<uint64_t>());
    return pairs;
}

static inline std::string oracle_at(const char *what, int slot, long long got) {
    return std::string(what) + " at slot " + std::to_string(slot) + ": " + std::to_string(got);
}

/* `best` may hold more than k. `values` may be null. */
static inline std::string oracle_fault(const float *scores, int length, const std::vector<uint64_t> &best, int k, const int *indices,
                                       const uint32_t *values, bool lowest, int order) {
    const int wanted = k < length ? k : length;
    std::vector<uint64_t> got((size_t)wanted);
    for (int j = 0; j < k; j++) {
        const int i = indices[j];
        if (j >= wanted) {
            if (i != -1) return oracle_at("padding is not -1", j, i);
            if (values && values[j] != 0xff800000u) return oracle_at("padded value is not -inf", j, values[j]);
            continue;
        }
        if (i < 0 || i >= length) return oracle_at("index outside the row", j, i);
        if (values && values[j] != oracle_bits(scores[i])) return oracle_at("value differs from the score's bits", j, values[j]);
        got[(size_t)j] = oracle_pair(scores[i], i);
        if (order == ORACLE_BY_INDEX && j > 0 && i <= indices[j - 1]) return oracle_at("index not ascending", j, i);
        if (order == ORACLE_BY_SCORE && j > 0 && got[(size_t)j] >= got[(size_t)j - 1])
            return oracle_at("score not descending, or equal and index not ascending", j, i);
    }
    std::sort(got.begin(), got.end(), std::greater<uint64_t>());
    for (int j = 0; j < wanted; j++) {
        const uint64_t mine = got[(size_t)j], right = best[(size_t)j];
        if (j > 0 && mine == got[(size_t)j - 1]) return oracle_at("index selected twice, by rank", j, oracle_pair_index(mine));
        if (oracle_pair_rank(mine) != oracle_pair_rank(right)) return oracle_at("wrong score, by rank", j, oracle_pair_index(mine));
        if (lowest && mine != right) return oracle_at("not the lowest index of equal scores, by rank", j, oracle_pair_index(mine));
    }
    return std::string();
}

#endif
