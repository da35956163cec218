/* test_candidate.cu: gates: what they admit, score by score and by the tile.
 *
 * Compiled once for each NaN policy (test_nan_highest.cu).
 */
#include <cfloat>

#include "testing.h"
#include "topkit/collector.cuh"

struct gate_result {
    unsigned mask, exact; /* by topkit_gate_mask; score by score with topkit_gate_admits */
};

template <int TIES>
static __global__ void candidate_gates(const float *scores, int length, const unsigned *keys, int key_count, const int *bounds,
                                       int bound_count, gate_result *out) {
    const topkit_group g = topkit_group_warp();
    const topkit_row row = {scores, length};
    const topkit_tiles tiles = topkit_row_tiles(row);
    for (int n = 0; n < tiles.count; n++) {
        topkit_tile tile;
        topkit_tile_load(tiles, n, topkit_lane(g), &tile);
        for (int i = 0; i < key_count * bound_count; i++) {
            const topkit_gate gate = topkit_gate_at(keys[i / bound_count], bounds[i % bound_count]);
            gate_result r = {topkit_gate_mask<TIES>(g, gate, &tile), 0};
            for (int bit = 0; bit < 16; bit++) {
                const int index = tile.first + (bit >> 2) * 128 + (int)topkit_lane(g) * 4 + (bit & 3);
                if (tile.valid >> bit & 1) r.exact |= (unsigned)topkit_gate_admits(gate, __float_as_uint(scores[index]), index) << bit;
            }
            out[(n * key_count * bound_count + i) * 32 + (int)topkit_lane(g)] = r;
        }
    }
}

TEST_CASE("gate: the float compare of a tile admits what the gate admits") {
    const score_bits special = special_scores();
    score_bits scores;
    for (int i = 0; i < 1100; i++) scores.push_back(i % 3 ? special[hashed(1, i) % special.size()] : (uint32_t)hashed(2, i));
    std::vector<unsigned> keys = {0, 1, 0x007ffffeu, 0x00800000u, 0xff800001u, 0xfffffffeu, 0xffffffffu};
    for (uint32_t bits : special) keys.push_back(expected_key(bits));
    /* the first two are those of any ties */
    const std::vector<int> all_bounds = {TOPKIT_INDEX_LIMIT, 0, 1, 3, 100, 511, 512, 515, 516, 1027, 1099, 1100};
    for (int ties : {TOPKIT_ANY, TOPKIT_LOWEST_INDEX}) {
        INFO("ties " << ties);
        const int bounds = ties == TOPKIT_ANY ? 2 : (int)all_bounds.size(), tiles = 4;
        device_buffer<uint32_t> row(scores, 1, true);
        device_buffer<unsigned> key(keys);
        device_buffer<int> bound(all_bounds);
        device_buffer<gate_result> out(tiles * keys.size() * bounds * 32);
        const auto kernel = ties == TOPKIT_ANY ? candidate_gates<TOPKIT_ANY> : candidate_gates<TOPKIT_LOWEST_INDEX>;
        test_launch(1, 32, 0, kernel, (const float *)row.data, scores.size(), key.data, keys.size(), bound.data, bounds, out.data);
        int different = 0;
        for (const gate_result &r : out.read()) different += r.mask != r.exact;
        REQUIRE(different == 0);
    }
}

static __global__ void candidate_admits(const unsigned *bits, int count, unsigned key, int bound, int index, unsigned *admitted) {
    const topkit_gate gate = topkit_gate_at(key, bound);
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x)
        admitted[i] = topkit_gate_admits(gate, bits[i], index) | (topkit_gate_is_open(gate) ? 2u : 0u);
}

TEST_CASE("gate: admits by key, then by index; the open one admits everything") {
    const score_bits bits = special_scores();
    device_buffer<uint32_t> in(bits);
    device_buffer<unsigned> admitted(bits.size());
    for (uint32_t edge : bits) {
        for (int bound : {0, 70, 71, TOPKIT_INDEX_LIMIT}) {
            const uint32_t key = expected_key(edge);
            test_launch(1, 32, 0, candidate_admits, in.data, bits.size(), key, bound, 70, admitted.data);
            const std::vector<unsigned> got = admitted.read();
            for (size_t i = 0; i < bits.size(); i++) {
                const int order = compare_scores(bits[i], edge);
                REQUIRE((got[i] & 1) == (order > 0 || (order == 0 && bound > 70)));
                REQUIRE(got[i] >> 1 == (key == 0 && bound > 0));
            }
        }
    }
}

static __global__ void candidate_gate_value(float *values) {
    if (threadIdx.x == 0) {
        values[0] = topkit_gate_at(0xbf800000u, TOPKIT_INDEX_LIMIT).value;
        values[1] = topkit_gate_at(0xbf800000u, 0).value;
        values[2] = topkit_gate_at(0xffffffffu, 0).value; /* nothing is above it: +inf or NaN, no number */
    }
}

TEST_CASE("gate: worked numbers") {
    device_buffer<float> values(3);
    test_launch(1, 32, 0, candidate_gate_value, values.data);
    const std::vector<float> got = values.read();
    REQUIRE(got[0] == 1.0f);
    REQUIRE(got[1] == std::nextafterf(1.0f, 2.0f));
    REQUIRE(!(got[2] <= FLT_MAX));
}
