/* sampled.h: which scores of a row the sampler looks at, and in which order a repeated row is read, for the host: the formulas of
 * topkit/sampler.cuh, topkit/row.cuh and select_job.cuh, written down once more. With a seed that is known a test can lay its scores so.
 */
#ifndef TOPKIT_TESTS_SAMPLED_H
#define TOPKIT_TESTS_SAMPLED_H

#include <cstdint>
#include <vector>

static inline uint32_t sampled_hash(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

/* Where the vectors of a sample begin, behind the head of a row that has `available` scores there. */
static inline std::vector<int> sampled_places(int available, int stride, int width, uint32_t seed) {
    std::vector<int> places;
    for (int begin = 0, j = 0; begin < available; begin += stride, j++) {
        const uint64_t hash = sampled_hash(sampled_hash(seed) + (uint32_t)j);
        const int place = begin + width * (int)(hash * (uint64_t)(stride / width) >> 32);
        if (place + width <= available) places.push_back(place);
    }
    return places;
}

/* For each score of row r, which begins on a 16-byte boundary: is it in the sample of one score in `density`, `room` at most, when the
 * operator is called with this seed? */
static inline std::vector<bool> sampled_scores(int length, int density, int width, int room, uint32_t seed, int r) {
    std::vector<bool> sampled((size_t)length, false);
    const int vectors = room / width;
    int stride = density * width;
    if (length >= (long long)vectors * stride) stride = (length / vectors / width + 1) * width;
    for (int place : sampled_places(length, stride, width, (uint32_t)r ^ seed)) {
        for (int i = 0; i < width; i++) sampled[(size_t)(place + i)] = true;
    }
    return sampled;
}

/* topkit_visit of topkit/row.cuh for a salt that shuffles. */
static inline int visited(int n, int count, uint32_t salt) {
    int bits = 1;
    while ((count - 1) >> bits) bits++;
    const uint32_t mask = (uint32_t)((1ull << bits) - 1);
    uint32_t x = (uint32_t)n;
    do {
        uint32_t key = salt;
        for (int round = 0; round < 4; round++) {
            key = key * 0x2c9277b5u + 0xac564b05u;
            x = ((x + (key >> 8)) * (key >> 16 | 1)) & mask;
            x ^= x >> (bits + 1) / 2;
        }
    } while (x >= (uint32_t)count);
    return (int)x;
}

#endif
