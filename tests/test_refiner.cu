/* test_refiner.cu: the digit step, the cut, the emission and the keeping of the best. Compiled once for each NaN policy
 * (test_nan_highest.cu). Candidates lie in shared memory of exactly their size, storage is found as it was left by an earlier call.
 */
#include "testing.h"
#include "topkit/refiner.cuh"

/* ---- the digit step ---- */

static __global__ void refiner_digit(test_shape shape, unsigned *others, unsigned low, unsigned span, const unsigned *values, int count,
                                     unsigned *bins, topkit_digit_found *found) {
    TOPKIT_SHARED(memory);
    topkit_digit_storage *s = (topkit_digit_storage *)memory;
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    topkit_digit_init(g, s);
    topkit_group_sync(g);
    for (int i = (int)g.thread; i < count; i += (int)g.size) {
        bins[i] = (values[i] - low) >> topkit_digit_shift(span);
        topkit_digit_count(s, bins[i]);
    }
    topkit_group_sync(g);
    for (int rank = 1; rank <= count; rank++) {
        const topkit_digit_found f = topkit_digit_find(g, s, (unsigned)rank, rank == count);
        if (g.thread == (unsigned)rank % g.size) found[rank - 1] = f;
    }
}

TEST_CASE("digit: worked numbers") {
    everywhere([](test_shape shape) {
        const std::vector<unsigned> values = {100, 103, 104};
        device_buffer<unsigned> in(values), bins(3);
        device_buffer<topkit_digit_found> found(3);
        test_run(shape, 1, sizeof(topkit_digit_storage), refiner_digit, 100u, 4095u, in.data, 3, bins.data, found.data);
        REQUIRE(bins.read() == std::vector<unsigned>{0, 0, 1});
        const std::vector<topkit_digit_found> got = found.read();
        REQUIRE((got[0].bin == 1 && got[0].above == 0 && got[0].inside == 1));
        for (int i : {1, 2}) REQUIRE((got[i].bin == 0 && got[i].above == 1 && got[i].inside == 2));
    });
}

TEST_CASE("digit: every span fits the bins, every rank finds its bin") {
    for (unsigned span : {0u, 1u, 1023u, 1024u, 1025u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
        everywhere([span](test_shape shape) {
            INFO("span " << span);
            std::vector<unsigned> values = {0, span, span / 2};
            for (int i = 0; i < 40; i++) values.push_back((unsigned)((hashed(4, i) >> 32) * ((uint64_t)span + 1) >> 32));
            const int count = (int)values.size();
            device_buffer<unsigned> in(values), bins(count);
            device_buffer<topkit_digit_found> found(count);
            test_run(shape, 1, sizeof(topkit_digit_storage), refiner_digit, 0u, span, in.data, count, bins.data, found.data);
            std::vector<unsigned> sorted = bins.read();
            REQUIRE((sorted[0] == 0 && sorted[1] < TOPKIT_DIGIT_BINS && (span < 1023 || sorted[1] >= TOPKIT_DIGIT_BINS / 2)));
            std::sort(sorted.begin(), sorted.end(), std::greater<unsigned>());
            const std::vector<topkit_digit_found> got = found.read();
            for (int rank = 1; rank <= count; rank++) {
                const unsigned bin = sorted[rank - 1];
                const unsigned above = (unsigned)std::count_if(sorted.begin(), sorted.end(), [bin](unsigned b) { return b > bin; });
                const unsigned inside = (unsigned)std::count(sorted.begin(), sorted.end(), bin);
                REQUIRE((got[rank - 1].bin == bin && got[rank - 1].above == above && got[rank - 1].inside == inside));
            }
        });
    }
}

/* ---- cut and emission ---- */

static __global__ void refiner_cut(test_shape shape, unsigned *others, const topkit_candidate *candidates, int count, int k,
                                   topkit_cut *out) {
    TOPKIT_SHARED(memory);
    topkit_refiner_storage *s = (topkit_refiner_storage *)memory;
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    topkit_refiner_init(g, s);
    topkit_group_sync(g);
    out[g.thread] = topkit_refine_cut<TOPKIT_LOWEST_INDEX>(g, candidates, count, k, s);
}

TEST_CASE("refiner: worked numbers") {
    everywhere([](test_shape shape) {
        const std::vector<topkit_candidate> items = {{bits_of(3), 4}, {bits_of(1), 7}, {bits_of(2), 1}, {bits_of(2), 9}, {bits_of(5), 2}};
        device_buffer<topkit_candidate> in(items);
        device_buffer<topkit_cut> out(shape.warps * 32);
        test_run(shape, 1, sizeof(topkit_refiner_storage), refiner_cut, in.data, 5, 3, out.data);
        for (const topkit_cut &cut : out.read()) REQUIRE((cut.key == expected_key(bits_of(2)) && cut.bound == 2));
    });
}

/* What a block leaves: two refinements one after the other, then the best of the same candidates kept in place. */
struct refiner_outputs {
    int *first, *second; /* (k_first), (k_second) indices */
    unsigned *values;    /* (k_first) */
    topkit_candidate *kept;
    int *kept_count;
    unsigned *dirty; /* counters and bins that are not zero at the end */
};

template <int TIES>
static __global__ void refiner_run(test_shape shape, unsigned *others, const topkit_candidate *candidates, int count, int k_first,
                                   int k_second, topkit_bounds known, refiner_outputs out) {
    TOPKIT_SHARED(memory);
    topkit_refiner_storage *s = (topkit_refiner_storage *)memory;
    topkit_candidate *items = (topkit_candidate *)(s + 1);
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    for (int i = (int)g.thread; i < count; i += (int)g.size) items[i] = candidates[i];
    topkit_refiner_init(g, s);
    topkit_group_sync(g);
    const topkit_sink_pairs pairs = {out.first, (float *)out.values, 0};
    const topkit_sink_indices indices = {out.second, 0};
    topkit_refine<TIES>(g, items, count, k_first, pairs, s);
    topkit_refine<TIES>(g, items, count, k_second, indices, s, known);
    if (k_second > 0) {
        const topkit_cut cut = topkit_refine_cut<TIES>(g, items, count, k_second, s, known);
        topkit_refine_emit(g, items, count, cut, indices, s); /* the same once more */
        topkit_group_sync(g);
        const int kept = topkit_refine_keep(g, items, count, cut, s);
        if (g.thread == 0) *out.kept_count = kept;
        for (int i = (int)g.thread; i < kept; i += (int)g.size) out.kept[i] = items[kept - 1 - i]; /* of any thread */
    }
    topkit_group_sync(g);
    for (int b = (int)g.thread; b < TOPKIT_DIGIT_BINS; b += (int)g.size)
        if (s->digit.histogram[b]) atomicAdd(out.dirty, 1u);
    if (g.thread == 0 && (s->counts[0] || s->counts[1] || s->taken)) atomicAdd(out.dirty, 1u);
}

/* Score i has the index spread(i), which ascends with i, so that the oracle's ties agree, and goes far up; gathered is the way back. */
static int spread(int i) { return i * 5 + (i > 2000 ? 0x7fff0000 : 0); }
static std::vector<int> gathered(std::vector<int> indices) {
    for (int &index : indices) {
        const int i = (index >= 0x7fff0000 ? index - 0x7fff0000 : index) / 5;
        index = spread(i) == index ? i : -2;
    }
    return indices;
}

/* Bounds that a caller may know, by turns: none, the true ones, an end among the keys or below or far above them. */
static topkit_bounds bounds_of(const score_bits &scores) {
    static int turn;
    topkit_bounds all = {0xffffffffu, 0};
    for (uint32_t bits : scores) {
        const unsigned key = expected_key(bits);
        all = {std::min(all.low, key), std::max(all.high, key)};
    }
    if (scores.empty() || all.low == 0) return {0, 0}; /* NaNs have key 0 where they are lowest */
    switch (turn++ % 6) {
        case 0: return {0, 0};
        case 1: return all;
        case 2: return {all.low, expected_key(scores[scores.size() / 2])};
        case 3: return {all.low, all.low};
        case 4: return {(all.low + 1) / 2, 0xffffffffu};
        default: return {1, all.low / 2 + 1};
    }
}

template <int TIES> static void check_refine(test_shape shape, const score_bits &scores, int k_first, int k_second) {
    const int count = (int)scores.size();
    const topkit_bounds known = bounds_of(scores);
    INFO("ties " << TIES << ", candidates " << count << ", k " << k_first << " then " << k_second);
    INFO("bounds " << known.low << " .. " << known.high);
    std::vector<topkit_candidate> items(count);
    for (int i = 0; i < count; i++) items[permuted(count, i)] = {scores[i], spread(i)};
    device_buffer<topkit_candidate> in(items), kept(k_second);
    device_buffer<int> first(k_first), second(k_second), kept_count(1);
    device_buffer<unsigned> values(k_first), dirty(1, 0);
    const refiner_outputs out = {first.data, second.data, values.data, kept.data, kept_count.data, dirty.data};
    test_run(shape, 1, sizeof(topkit_refiner_storage) + count * sizeof(topkit_candidate), refiner_run<TIES>, in.data, count, k_first,
             k_second, known, out);
    const score_bits got_values = values.read();
    check_exact(scores, k_first, gathered(first.read()), TIES, &got_values);
    check_exact(scores, k_second, gathered(second.read()), TIES);
    REQUIRE(dirty.read()[0] == 0);
    if (k_second > 0) {
        REQUIRE(kept_count.read()[0] == k_second);
        std::vector<int> indices;
        score_bits bits;
        for (const topkit_candidate &c : kept.read()) {
            indices.push_back(c.index);
            bits.push_back(c.bits);
        }
        check_exact(scores, k_second, gathered(indices), TIES, &bits);
    }
}

static void check_both(test_shape shape, const score_bits &scores, int k_first, int k_second) {
    check_refine<TOPKIT_ANY>(shape, scores, k_first, k_second);
    check_refine<TOPKIT_LOWEST_INDEX>(shape, scores, k_first, k_second);
}

/* values of A01, A17, A18 and A21 */
static float low_bits_only(int m, int i) { return float_of(0x3f900000u + ((unsigned)permuted(m, i) >> 3)); }
static float signed_zeros(int, int i) { return i < 10 ? 1.0f + (float)i : i % 2 ? -0.0f : 0.0f; }
static float denormals(int m, int i) { return float_of((unsigned)permuted(m, i)); }
static float duplicates(int, int i) { return (float)(hashed(0, i) & 63); }

TEST_CASE("refiner: any k of any number of candidates (E05)") {
    float (*const patterns[])(int, int) = {low_bits_only, signed_zeros, denormals, duplicates};
    static const int sizes[][2] = {{0, 0}, {0, 5}, {1, 1}, {1, 33}, {33, 33}, {32, 33}, {300, 300}, {299, 300}, {512, 4096}};
    everywhere([&](test_shape shape) {
        for (const auto &size : sizes) {
            for (auto pattern : patterns) {
                const int k = size[0], m = size[1];
                const score_bits scores = row_of(m, [&](int i) { return pattern(m, i); });
                check_both(shape, scores, k, m > 1 ? m / 2 : k);
                if (m < 4096) check_both(shape, scores, m / 3, k);
            }
        }
    });
}

TEST_CASE("refiner: identical candidates (E06)") {
    everywhere([](test_shape shape) {
        for (int m : {2, 33, TOPKIT_BOUNDARY, TOPKIT_BOUNDARY + 1, 1500}) {
            for (uint32_t bits : {bits_of(0.0f), bits_of(-1.0f), 0x7f800000u, 0xff800000u, 0x7fc00000u})
                check_both(shape, score_bits(m, bits), m - 1, std::max(1, m / 3));
        }
    });
}

TEST_CASE("refiner: boundary bins of every size, more than one digit") {
    everywhere([](test_shape shape) {
        for (int crowd : {TOPKIT_BOUNDARY - 1, TOPKIT_BOUNDARY, TOPKIT_BOUNDARY + 1, 3 * TOPKIT_BOUNDARY}) {
            /* two far ends stretch the range, so that the crowd shares one bin: distinct scores, near ones, two of them, alike */
            for (unsigned spacing : {1u, 2000u, 0u}) {
                for (int k : {2, 100, crowd - 1, crowd, crowd + 1}) {
                    INFO("crowd " << crowd << ", spacing " << spacing);
                    check_both(shape, row_of(crowd + 2, [&](int i) {
                        return i == 0 ? 1e38f : i == 1 ? -1e38f : float_of(0x3f800000u + spacing * (unsigned)permuted(crowd + 2, i));
                    }), k, k / 2 + 1);
                }
            }
        }
        const score_bits two = row_of(1200, [](int i) { return float_of(0x3f800000u + (unsigned)(hashed(2, i) & 1)); });
        check_both(shape, two, 300, 900);
    });
}

TEST_CASE("refiner: every kind of float") {
    const score_bits special = special_scores();
    everywhere([&](test_shape shape) {
        score_bits scores;
        for (int i = 0; i < 700; i++) scores.push_back(special[hashed(8, i) % special.size()]);
        for (int k : {1, 20, 60, 300, 640, 690, 699}) check_both(shape, scores, k, 700 - k);
        for (int i = 0; i < 700; i++) scores[i] = i % 4 ? 0x7fc00000u + (unsigned)i : (uint32_t)hashed(8, i); /* mostly NaN */
        for (int k : {1, 100, 175, 176, 600}) check_both(shape, scores, k, 700 - k);
    });
}

TEST_CASE("refiner: groups of any size") {
    every_size([](test_shape shape) {
        for (auto pattern : {low_bits_only, duplicates, denormals})
            check_both(shape, row_of(1500, [&](int i) { return pattern(1500, i); }), 700, 300);
    });
}
