/* test_half.cu: 16-bit scores: the way to floats and back, tiles, gates, the widened sample, the scan.
 *
 * Every test is made for bfloat16 and for fp16. Compiled once for each NaN policy (test_nan_highest.cu).
 */
#include "half_formats.h"
#include "sampled.h"
#include "testing.h"
#include "topkit/half.cuh"
#include "topkit/sampler.cuh"

template <typename SCORE>
static __global__ void half_ways(const unsigned *floats, unsigned *wide, unsigned short *back, unsigned short *narrow, int count) {
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
        const SCORE score = {(unsigned short)i};
        SCORE result;
        wide[i] = topkit_widen(score);
        topkit_narrow(wide[i], &result);
        back[i] = result.bits;
        topkit_narrow(floats[i], &result);
        narrow[i] = result.bits;
    }
}

template <typename SCORE>
static void check_ways(const half_format &format) {
    std::vector<unsigned> floats;
    std::vector<unsigned short> every, expected;
    for (unsigned h = 0; h < 65536; h++) { /* each score's float, and steps to either side of it */
        floats.push_back(half_widened(format, h) + (unsigned)(hashed(1, h) % 3) - 1);
        every.push_back((unsigned short)h);
    }
    device_buffer<unsigned> in(floats), wide(65536);
    device_buffer<unsigned short> back(65536), narrow(65536);
    test_launch(1, 96, 0, half_ways<SCORE>, in.data, wide.data, back.data, narrow.data, 65536);
    const std::vector<unsigned> got = wide.read();
    bool same = true;
    for (unsigned h = 0; h < 65536; h++) same = same && got[h] == half_widened(format, h);
    REQUIRE(same);
    REQUIRE(back.read() == every); /* all of them: payloads of NaNs, denormals, both zeros */
    const std::vector<unsigned short> cut = narrow.read();
    for (unsigned h = 0; h < 65536; h++) {
        if (is_nan_bits(floats[h])) continue;
        const float x = float_of(floats[h]), kept = float_of(half_widened(format, cut[h]));
        const float next = float_of(half_widened(format, cut[h] + 1u)); /* away from zero: infinity behind the largest */
        same = same && (x < 0) == (kept < 0 || (kept == 0 && cut[h] >> 15)) && fabsf(kept) <= fabsf(x);
        same = same && (std::isinf(x) ? kept == x : fabsf(next) > fabsf(x));
    }
    REQUIRE(same);
}

TEST_CASE("half: widened and narrowed again, all 65536 of both types keep every bit") {
    check_ways<topkit_bf16>(half_bf16);
    check_ways<topkit_f16>(half_f16);
}

/* seen[i]: how often score i turned up with its own bits; seen[length]: what does not belong to the row. plan: head, vectors, count. */
template <typename SCORE>
static __global__ void half_visit(test_shape shape, unsigned *others, const SCORE *scores, int length, unsigned *seen, int *plan,
                                  int *firsts) {
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    const topkit_row_of<SCORE> row = {scores, length};
    const topkit_half_tiles<SCORE> tiles = topkit_half_row_tiles(row);
    if (g.thread == 0) {
        plan[0] = tiles.head;
        plan[1] = tiles.vectors;
        plan[2] = tiles.count;
    }
    for (int n = (int)topkit_warp_rank(g); n < tiles.count; n += (int)topkit_warps(g)) {
        topkit_tile tile;
        topkit_half_tile_load(tiles, n, topkit_lane(g), &tile);
        if (topkit_lane(g) == 0) firsts[n] = tile.first;
        for (int bit = 0; bit < 32; bit++) {
            if (!(tile.valid >> bit & 1)) continue;
            const int w = bit & 15, index = tile.first + w / 4 * 256 + (int)topkit_lane(g) * 8 + w % 4 * 2 + bit / 16;
            const float4 v = tile.v[w / 4];
            const float word = w % 4 == 0 ? v.x : w % 4 == 1 ? v.y : w % 4 == 2 ? v.z : v.w;
            const unsigned score = __float_as_uint(word) >> (bit & 16) & 0xffffu;
            const bool inside = index >= 0 && index < length;
            atomicAdd(&seen[inside && score == scores[index].bits ? index : length], 1u);
        }
    }
}

static void check_tiles(test_shape shape, int length, int shift, std::vector<int> *plan_out, std::vector<int> *firsts_out) {
    std::vector<unsigned short> values(length);
    for (int i = 0; i < length; i++) values[i] = (unsigned short)(i + 1);
    device_buffer<unsigned short> scores(values, shift, true);
    device_buffer<unsigned> seen(length + 1, 0);
    device_buffer<int> plan(3), firsts(length / TOPKIT_HALF_TILE + 2);
    test_run(shape, 1, 0, half_visit<topkit_bf16>, (const topkit_bf16 *)scores.data, length, seen.data, plan.data, firsts.data);
    std::vector<unsigned> expected(length, 1);
    expected.push_back(0);
    REQUIRE(seen.read() == expected);
    REQUIRE(scores.read() == values);
    *plan_out = plan.read();
    *firsts_out = firsts.read();
}

TEST_CASE("half: worked numbers") {
    everywhere([](test_shape shape) {
        std::vector<int> plan, first;
        check_tiles(shape, 2071, 3, &plan, &first);
        REQUIRE(plan == std::vector<int>{5, 258, 4});
        REQUIRE((first[0] == 5 && first[1] == 1029 && first[2] == 2053 && first[3] == 0));
    });
    REQUIRE(half_rounded_up(half_bf16, bits_of(1.001f)) == 0x3f81);
    REQUIRE(half_widened(half_bf16, 0x3f81) == bits_of(1.0078125f));
    REQUIRE(half_rounded_up(half_f16, bits_of(1.001f)) == 0x3c02);
    REQUIRE(half_widened(half_f16, 0x3c02) == bits_of(1.001953125f));
}

TEST_CASE("half: every score in one tile, none from outside, on any alignment") {
    for (int length : {0, 1, 2, 3, 7, 8, 9, 15, 16, 255, 257, 1023, 1024, 1031, 2048, 5003}) {
        for (int shift = 0; shift < 8; shift++) {
            INFO("length " << length << ", shift " << shift);
            const auto check = [&](test_shape shape) {
                std::vector<int> plan, firsts;
                check_tiles(shape, length, shift, &plan, &firsts);
                const int head = std::min((8 - shift) % 8, length), vectors = (length - head) / 8, edge = length - vectors * 8;
                REQUIRE(plan == std::vector<int>{head, vectors, (vectors + 127) / 128 + (edge > 0)});
            };
            if (shift == length % 8) everywhere(check);
            else check(test_shapes[shift % 3]);
        }
    }
}

/* The masks of a row's tiles under each of many gates; and what the packed compare asked for. */
template <int TIES, typename SCORE>
static __global__ void half_masks(const SCORE *scores, int length, const unsigned *keys, const int *bounds, int gates, unsigned *masks,
                                  unsigned *values) {
    const topkit_group g = topkit_group_block();
    const topkit_row_of<SCORE> row = {scores, length};
    const topkit_half_tiles<SCORE> tiles = topkit_half_row_tiles(row);
    for (int n = (int)topkit_warp_rank(g); n < gates * tiles.count; n += (int)topkit_warps(g)) {
        const topkit_half_gate gate = topkit_half_gate_of<SCORE>(topkit_gate_at(keys[n / tiles.count], bounds[n / tiles.count]));
        topkit_tile tile;
        topkit_half_tile_load(tiles, n % tiles.count, topkit_lane(g), &tile);
        masks[n * 32 + (int)topkit_lane(g)] = topkit_half_gate_mask<TIES, SCORE>(g, gate, &tile);
        if (n % tiles.count == 0 && topkit_lane(g) == 0) values[n / tiles.count] = gate.value;
    }
}

/* Gates at and around scores of the type and anywhere else, against all 65536 scores: admitted is what ranks above the gate. */
template <int TIES, typename SCORE>
static void check_gates(const half_format &format) {
    const int gates = 120, count = 65536;
    std::vector<unsigned short> scores(count);
    std::vector<unsigned> keys, score_keys(count);
    std::vector<int> bounds;
    for (int i = 0; i < count; i++) {
        scores[i] = (unsigned short)permuted(count, i);
        score_keys[i] = expected_key(half_widened(format, scores[i]));
    }
    for (uint32_t bits : special_scores()) keys.push_back(expected_key(bits));
    for (unsigned key : {0u, 0xffffffffu, 0x007ffffeu, 0x00800000u, 0x80000001u, 0x7fffffffu}) keys.push_back(key);
    for (unsigned h : {1u, 0x3ffu, 0x400u, 0x7bffu, 0x7c00u, 0x7f7fu, 0x7f80u, 0x8001u, 0x83ffu, 0x8400u, 0xfbffu, 0xff7fu}) {
        const unsigned key = expected_key(half_widened(format, h));
        for (unsigned step : {0xffffffffu, 0u, 1u}) keys.push_back(key + step);
    }
    for (int i = 0; (int)keys.size() < gates; i++)
        keys.push_back(expected_key(half_widened(format, (unsigned)hashed(7, i) & 0xffffu)) + (unsigned)(hashed(8, i) % 3) - 1);
    for (size_t i = 0; i < keys.size(); i++)
        bounds.push_back(TIES == TOPKIT_LOWEST_INDEX && i % 3 == 2 ? (int)(hashed(9, i) % count) : i % 2 ? TOPKIT_INDEX_LIMIT : 0);
    const int tiles = count / TOPKIT_HALF_TILE;
    device_buffer<unsigned short> in(scores);
    device_buffer<unsigned> key(keys), masks(keys.size() * tiles * 32), values(keys.size());
    device_buffer<int> bound(bounds);
    test_launch(1, 512, 0, half_masks<TIES, SCORE>, (const SCORE *)in.data, count, key.data, bound.data, (int)keys.size(), masks.data,
                values.data);
    const std::vector<unsigned> got = masks.read(), asked = values.read();
    for (size_t gate = 0; gate < keys.size(); gate++) {
        INFO("gate " << gate << ": key " << keys[gate] << ", bound " << bounds[gate]);
        int wrong = 0;
        for (int i = 0; i < count; i++) {
            const int at = i % 1024, lane = at % 256 / 8, bit = at / 256 * 4 + at % 8 / 2 + at % 2 * 16;
            const bool admitted = got[(gate * tiles + (size_t)(i / 1024)) * 32 + (size_t)lane] >> bit & 1;
            /* under any ties a bound is all or nothing, and NaNs pass an open gate, which is keys from 0 on */
            wrong += admitted != (score_keys[i] > keys[gate] || (score_keys[i] == keys[gate] && i < bounds[gate]));
        }
        REQUIRE(wrong == 0);
        REQUIRE((asked[gate] & 0xffffu) == asked[gate] >> 16);
        const uint32_t from = bounds[gate] > 0 || keys[gate] == 0xffffffffu ? keys[gate] : keys[gate] + 1;
        if (from >= expected_key(0xff800000u) && from <= expected_key(0x7f800000u)) { /* the float of that key */
            const uint32_t bits = from >> 31 ? from - 0x80000000u : 0x80000000u + (0x7fffffffu - from);
            REQUIRE(canonical(half_widened(format, asked[gate] & 0xffffu)) == half_widened(format, half_rounded_up(format, bits)));
        }
    }
}

TEST_CASE("half: gates on and off the 16-bit grid admit what ranks above them, of all 65536 scores") {
    check_gates<TOPKIT_ANY, topkit_bf16>(half_bf16);
    check_gates<TOPKIT_ANY, topkit_f16>(half_f16);
    check_gates<TOPKIT_LOWEST_INDEX, topkit_bf16>(half_bf16);
    check_gates<TOPKIT_LOWEST_INDEX, topkit_f16>(half_f16);
}

/* Samples a row as words and widens them, in shared memory of exactly the floats' size. */
template <typename SCORE>
static __global__ void half_sample(test_shape shape, unsigned *others, const SCORE *scores, int length, int stride, int room, float *out,
                                   int *count) {
    TOPKIT_SHARED(memory);
    float *sample = (float *)memory;
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    const topkit_row_of<SCORE> row = {scores, length};
    const topkit_sampling s = topkit_sample_plan(topkit_half_words(row), stride, 4, 5u);
    if (g.thread == 0) *count = 2 * topkit_sample_count(s);
    if (2 * topkit_sample_count(s) > room) return; /* the host sees it in *count */
    topkit_sample_async(g, s, sample);
    topkit_copy_async_wait();
    topkit_group_sync(g);
    topkit_half_widen<SCORE>(g, sample, topkit_sample_count(s));
    for (int i = (int)g.thread; i < room; i += (int)g.size) out[i] = sample[room - 1 - i];
}

template <typename SCORE>
static void check_sample(const half_format &format, test_shape shape, int length, int shift, int stride) {
    std::vector<unsigned short> row(length);
    for (int i = 0; i < length; i++) row[i] = (unsigned short)hashed(2, i);
    const int head = std::min((8 - shift) % 8, length), available = (length - head) / 2;
    const std::vector<int> places = sampled_places(available, stride, 4, 5u);
    const int vectors = (int)places.size(), room = vectors * 8;
    device_buffer<unsigned short> scores(row, shift, true);
    device_buffer<uint32_t> out(room);
    device_buffer<int> count(1);
    test_run(shape, 1, room * sizeof(float), half_sample<SCORE>, (const SCORE *)scores.data, length, stride, room, (float *)out.data,
             count.data);
    REQUIRE(count.read()[0] == room);
    score_bits expected;
    for (int j = vectors - 1; j >= 0; j--)
        for (int q = 7; q >= 0; q--) expected.push_back(half_widened(format, row[head + 2 * places[(size_t)j] + q]));
    REQUIRE(out.read() == expected);
}

TEST_CASE("half: a sample of words is widened in place") {
    everywhere([](test_shape shape) {
        for (int length : {0, 7, 8, 9, 100, 1000, 4099, 9001}) {
            INFO("length " << length);
            check_sample<topkit_bf16>(half_bf16, shape, length, length % 8, 4);
            check_sample<topkit_f16>(half_f16, shape, length, (length + 3) % 8, length % 2 ? 4 : 32);
        }
    });
}

/* A scan under any first gate, and the exact k of what it holds. */
template <int TIES, typename SCORE>
static __global__ void half_scan(test_shape shape, unsigned *others, const SCORE *scores, int length, int k, unsigned key, unsigned visit,
                                 int capacity, int *indices, SCORE *values, int *counts) {
    TOPKIT_SHARED(memory);
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    topkit_refiner_storage *refiner = (topkit_refiner_storage *)memory;
    topkit_collector_state *state = (topkit_collector_state *)(refiner + 1);
    float *stages = (float *)(memory + (sizeof *refiner + sizeof *state + 15) / 16 * 16);
    topkit_candidate *items = (topkit_candidate *)(stages + shape.warps * TOPKIT_TILE);
    const topkit_collector c = {items, capacity, stages + topkit_warp_rank(g) * TOPKIT_TILE, state};
    const topkit_row_of<SCORE> row = {scores, length};
    topkit_refiner_init(g, refiner);
    if (g.thread == 0) {
        topkit_collector_clear(c);
        state->dropped = state->compactions = 0;
    }
    topkit_group_sync(g);
    const int held = topkit_scan<TIES>(g, row, k, topkit_gate_at(key, TOPKIT_INDEX_LIMIT), visit, c, refiner);
    if (g.thread == 0) {
        counts[0] = held;
        counts[1] = (int)state->compactions;
    }
    const topkit_sink_pairs_of<SCORE> sink = {indices, values, 0};
    topkit_refine<TIES>(g, items, held, held < k ? held : k, sink, refiner);
    topkit_sink_pad_all(g.thread, g.size, held, k, sink);
}

template <int TIES, typename SCORE>
static void check_scan(const half_format &format, test_shape shape, const std::vector<unsigned short> &row, int k, unsigned key,
                       unsigned visit, int *compactions) {
    const int length = (int)row.size(), capacity = k + TOPKIT_HALF_TILE;
    device_buffer<unsigned short> scores(row, length % 8, true), values(k);
    device_buffer<int> indices(k), counts(2);
    const size_t fixed = (sizeof(topkit_refiner_storage) + sizeof(topkit_collector_state) + 15) / 16 * 16;
    test_run(shape, 1, fixed + shape.warps * TOPKIT_TILE * 4 + capacity * 8, half_scan<TIES, SCORE>, (const SCORE *)scores.data, length, k,
             key, visit, capacity, indices.data, (SCORE *)values.data, counts.data);
    score_bits wide, value_bits;
    int above = 0;
    for (unsigned short h : row) wide.push_back(half_widened(format, h));
    for (uint32_t bits : wide) above += expected_key(bits) >= key;
    for (unsigned short h : values.read()) value_bits.push_back(half_widened(format, h));
    const std::vector<int> count = counts.read();
    *compactions += count[1];
    if (above < k) REQUIRE(count[0] == above); /* too high for the row: nothing less, nothing more */
    else check_exact(wide, k, indices.read(), TIES, &value_bits);
}

TEST_CASE("half: scan: the smallest buffer, every kind of row") {
    int compactions = 0;
    everywhere([&](test_shape shape) {
        for (int kind = 0; kind < 5; kind++) {
            std::vector<unsigned short> row;
            for (int i = 0; i < 6011; i++) {
                const unsigned any = (unsigned)hashed(3, i);
                row.push_back((unsigned short)(kind == 0   ? any                          /* all kinds of scores */
                                               : kind == 1 ? i                            /* rising, denormals first */
                                               : kind == 2 ? 0x3c00u + any % 3            /* few values */
                                               : kind == 3 ? (any & 1 ? 0x8000u : 0u)     /* zeros of both signs */
                                                           : 0x7f81u | (any & 0x807eu))); /* NaNs of both types, and numbers of one */
            }
            const unsigned visit = kind % 2 ? 9u : TOPKIT_ASCENDING;
            INFO("kind " << kind);
            check_scan<TOPKIT_ANY, topkit_bf16>(half_bf16, shape, row, 300, 0, visit, &compactions);
            check_scan<TOPKIT_LOWEST_INDEX, topkit_f16>(half_f16, shape, row, 300, 0, visit, &compactions);
            check_scan<TOPKIT_LOWEST_INDEX, topkit_bf16>(half_bf16, shape, row, 1, 0xbf800001u, visit, &compactions);
            check_scan<TOPKIT_ANY, topkit_f16>(half_f16, shape, row, 2000, 0x7fffffffu, visit, &compactions);
        }
    });
    REQUIRE(compactions > 0);
}
