/* test_resident.cu: selection from a row that lies in shared memory. Compiled once for each NaN policy (test_nan_highest.cu). The row and
 * its list have exactly the shared memory that they ask for; two rows follow each other at the same place, the second one's copy begun as
 * early as it may.
 */
#include "testing.h"
#include "topkit/resident_search.cuh"

typedef struct resident_outputs {
    int *indices[2]; /* (k) */
    unsigned *values; /* (k) of the first row */
    topkit_resident_bracket *bracket; /* of the first row */
    int *looked_at;   /* scores of the first row that were looked at behind the bound */
    unsigned *dirty;
} resident_outputs;

template <int TIES>
static __global__ void resident_run(test_shape shape, unsigned *others, const float *scores, int length, const float *second, int seconds,
                                    int k, int bytes, resident_outputs out) {
    TOPKIT_SHARED(memory);
    topkit_resident_storage *s = (topkit_resident_storage *)memory;
    float *place = (float *)(memory + (sizeof *s + 15) / 16 * 16);
    const topkit_row rows[2] = {{scores, length}, {second, seconds}};
    topkit_resident r = topkit_resident_at(rows[0], place, bytes);
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    topkit_resident_copy_async(g, rows[0], r);
    topkit_resident_init(g, s);
    topkit_copy_async_wait();
    for (int turn = 0; turn < 2; turn++) {
        const int wanted = k < rows[turn].length ? k : rows[turn].length;
        const topkit_sink_pairs sink = {out.indices[turn], turn ? nullptr : (float *)out.values, 0};
        const topkit_resident_bracket bracket = topkit_resident_bound(g, r, wanted, s);
        topkit_resident_list(g, bracket, wanted, &r, s);
        if (g.thread == 0 && turn == 0) {
            *out.bracket = bracket;
            *out.looked_at = topkit_resident_seen(r, s);
        }
        topkit_resident_search<TIES>(g, bracket, wanted, &r, s);
        topkit_resident_emit(g, r, sink);
        const int listed = r.listed;
        if (turn == 0) {
            r = topkit_resident_at(rows[1], place, bytes);
            topkit_resident_copy_async(g, rows[1], r);
        }
        topkit_resident_settle(g, listed, wanted, sink, s);
        topkit_resident_clear(g, s);
        topkit_sink_pad_all(g.thread, g.size, wanted, k, sink);
        topkit_copy_async_wait();
    }
    topkit_group_sync(g);
    for (int b = (int)g.thread; b < TOPKIT_DIGIT_BINS; b += (int)g.size)
        if (s->digit.histogram[b]) atomicAdd(out.dirty, 1u);
    if (g.thread == 0 && (s->counts[0] || s->counts[1])) atomicAdd(out.dirty, 1u);
}

struct resident_seen {
    topkit_resident_bracket bracket;
    int looked_at;
};

/* The k best of `scores`, `shift` scores behind a 16-byte boundary, and then of all but the first 3 of them. */
template <int TIES>
static resident_seen check_resident(test_shape shape, const score_bits &scores, int k, int positions, int shift) {
    const int n = (int)scores.size(), bytes = (n + 6) / 4 * 16 + positions * 2; /* topkit_resident_bytes, which only a device may call */
    INFO("ties " << TIES << ", scores " << n << ", k " << k << ", positions " << positions << ", shift " << shift);
    device_buffer<uint32_t> in(scores, shift, true);
    device_buffer<int> first(k), second(k), looked_at(1);
    device_buffer<unsigned> values(k), dirty(1, 0);
    device_buffer<topkit_resident_bracket> bracket(1);
    const resident_outputs out = {{first.data, second.data}, values.data, bracket.data, looked_at.data, dirty.data};
    test_run(shape, 1, (sizeof(topkit_resident_storage) + 15) / 16 * 16 + (size_t)bytes, resident_run<TIES>, (const float *)in.data, n,
             (const float *)in.data + 3, n - 3, k, bytes, out);
    score_bits got_values = values.read();
    check_exact(scores, k, first.read(), TIES, &got_values);
    check_exact(score_bits(scores.begin() + 3, scores.end()), k, second.read(), TIES);
    REQUIRE(dirty.read()[0] == 0);
    const resident_seen seen = {bracket.read()[0], looked_at.read()[0]};
    int reach = 0;
    for (uint32_t bits : scores) {
        reach += expected_key(bits) >= seen.bracket.low;
        REQUIRE(expected_key(bits) <= seen.bracket.high);
    }
    REQUIRE(reach >= std::min(k, n));
    if (seen.looked_at < n) REQUIRE(seen.looked_at == reach);
    return seen;
}

static void check_both(test_shape shape, const score_bits &scores, int k, int positions, int shift) {
    check_resident<TOPKIT_ANY>(shape, scores, k, positions, shift);
    check_resident<TOPKIT_LOWEST_INDEX>(shape, scores, k, positions, shift);
}

/* near enough to a normal distribution, with its two tails */
static float bell(int i) { return uniform(1, i) + uniform(2, i) + uniform(3, i) + uniform(4, i) - 2.0f; }

static __global__ void resident_pairs(const float *scores, int count, float *greater, float *lesser) {
    for (int i = (int)threadIdx.x; i < count * count; i += (int)blockDim.x) {
        greater[i] = topkit_greater(scores[i / count], scores[i % count]);
        lesser[i] = topkit_lesser(scores[i / count], scores[i % count]);
    }
}

TEST_CASE("resident: the greater and the lesser of any two scores") {
    const score_bits special = special_scores();
    const int count = (int)special.size();
    device_buffer<uint32_t> in(special), greater(count * count), lesser(count * count);
    test_launch(1, 128, 0, resident_pairs, (const float *)in.data, count, (float *)greater.data, (float *)lesser.data);
    const score_bits more = greater.read(), less = lesser.read();
    for (int i = 0; i < count * count; i++) {
        const uint32_t a = special[i / count], b = special[i % count];
        REQUIRE(compare_scores(more[i], compare_scores(a, b) >= 0 ? a : b) == 0);
        REQUIRE(compare_scores(less[i], compare_scores(a, b) >= 0 ? b : a) == 0);
    }
}

static __global__ void resident_sizes(int *out) {
    out[0] = topkit_resident_group(2, 2);
    out[1] = topkit_resident_group(2, 3);
    out[2] = topkit_resident_bytes(100);
}

TEST_CASE("resident: worked numbers") {
    device_buffer<int> sizes(3);
    test_launch(1, 32, 0, resident_sizes, sizes.data);
    REQUIRE(sizes.read() == std::vector<int>{4, 2, (100 + 6) / 4 * 16});
    everywhere([](test_shape shape) {
        const score_bits scores = row_of(8, [](int i) { return (float)"\1\11\3\4\10\2\7\6"[i]; });
        const resident_seen seen = check_resident<TOPKIT_ANY>(shape, scores, 3, 8, 0);
        REQUIRE(seen.bracket.close);
        REQUIRE((seen.bracket.value > 6.0f && seen.bracket.value < 7.0f && seen.bracket.sure > 7.0f && seen.bracket.sure < 8.0f));
        REQUIRE(seen.looked_at == 3);
    });
}

TEST_CASE("resident: few scores more than k reach the bound") {
    everywhere([](test_shape shape) {
        for (int shift : {0, 1}) {
            const score_bits scores = row_of(8192, bell);
            for (int k : {100, 1024, 2048, 4096, 6000}) {
                const resident_seen seen = check_resident<TOPKIT_ANY>(shape, scores, k, k, shift);
                REQUIRE(seen.bracket.close);
                REQUIRE(seen.looked_at < k + 40);
            }
        }
    });
}

TEST_CASE("resident: any k, any length, any alignment") {
    everywhere([](test_shape shape) {
        for (int n : {4, 5, 6, 7, 33, 130, 1037}) {
            for (int k : {1, 2, n / 2, n - 4, n - 1, n}) {
                if (k >= 1) check_both(shape, row_of(n, bell), k, n, (n + k) % 4);
            }
        }
    });
}

TEST_CASE("resident: lists that are just long enough, equals and near-equals") {
    const int n = 1500;
    everywhere([](test_shape shape) {
        for (int k : {1, 300, 1200}) {
            for (int positions : {k, n}) {
                check_both(shape, row_of(n, bell), k, positions, 1);
                check_both(shape, row_of(n, [](int i) { return (float)(hashed(0, i) & 3); }), k, positions, 2);
                check_both(shape, row_of(n, [](int) { return -1.0f; }), k, positions, 3);
                check_both(shape, row_of(n, [](int i) { return i < 10 ? 1e30f : i % 2 ? -0.0f : 0.0f; }), k, positions, 0);
                check_both(shape, row_of(n, [](int i) { return float_of(0xc1f00000u + (unsigned)permuted(n, i)); }), k, positions, 1);
                check_both(shape, row_of(n, [](int i) { return float_of((unsigned)permuted(n, i)); }), k, positions, 2); /* denormals */
            }
        }
    });
}

/* The upper half of the range holds too few, and the whole of it is too wide for linear bins: nothing of the first try may be left. */
TEST_CASE("resident: a range that is narrow enough above its middle and too wide below") {
    everywhere([](test_shape shape) {
        for (int n : {24, 137, 1500}) {
            for (int k : {2, n / 25 + 1, n / 12}) {
                const int huge = k > 3 ? k / 3 : 1;
                check_both(shape, row_of(n, [=](int i) { return i % (n / huge) == 5 ? 1.3e37f : bell(i) * 1e30f; }), k, n, k % 4);
                check_both(shape, row_of(n, [](int i) { return float_of((unsigned)hashed(9, i) & 0xfeffffffu); }), k, n, k % 4); /* any */
            }
        }
    });
}

TEST_CASE("resident: worked numbers of the search") {
    everywhere([](test_shape shape) {
        const score_bits scores = row_of(2000, [](int i) { return permuted(2000, i) < 1000 ? 2.0f : 1.0f; });
        const resident_seen seen = check_resident<TOPKIT_ANY>(shape, scores, 1200, 1200, 0);
        REQUIRE((seen.bracket.binned && !seen.bracket.close));
        REQUIRE((seen.bracket.value < 1.0f && seen.bracket.sure > 1.0f && seen.bracket.sure < 2.0f));
    });
}

/* Cauchy: of the bins up to the largest score one holds nearly all, and of what is rounded into the lowest some lies below its number. */
TEST_CASE("resident: heavy tails") {
    everywhere([](test_shape shape) {
        for (int n : {1500, 24576}) {
            for (int k : {n / 12, n / 3}) {
                check_both(shape, row_of(n, [](int i) { return std::tan(3.14159265f * (uniform(3, i) - 0.5f)); }), k, k, k % 4);
            }
        }
    });
}

/* One large score makes bins so wide that the upper bound, at 306, lies among scores that are close to each other, and the lower one below
 * 0. Those above 306 were taken for members once more where the last bin of a radix step went on behind it. */
TEST_CASE("resident: a bound among close scores") {
    const int n = 5000;
    const score_bits scores = row_of(n, [](int i) {
        const int p = permuted(n, i);
        return p == 0 ? 343000.0f : p < 1260 ? 257.0f + 0.05f * (float)p : p % 2 ? -50.0f : -20.0f;
    });
    everywhere([&](test_shape shape) {
        for (int k = 352; k < 400; k += 6) check_both(shape, scores, k, k, k / 2 % 4);
    });
}

TEST_CASE("resident: every kind of float") {
    const score_bits special = special_scores();
    everywhere([&](test_shape shape) {
        score_bits scores;
        for (int i = 0; i < 700; i++) scores.push_back(special[hashed(8, i) % special.size()]);
        for (int k : {1, 20, 60, 300, 640, 690, 699}) check_both(shape, scores, k, 700, k % 4);
        for (int i = 0; i < 700; i++) scores[i] = i % 4 ? 0x7fc00000u + (unsigned)i : (uint32_t)hashed(8, i); /* mostly NaN */
        for (int k : {1, 100, 175, 176, 600}) check_both(shape, scores, k, 700, k % 4);
        for (int i = 0; i < 700; i++) scores[i] = i % 50 ? bits_of(bell(i)) : special[hashed(8, i) % special.size()]; /* a few of them */
        for (int k : {1, 100, 680}) check_both(shape, scores, k, 700, k % 4);
    });
}

/* With three warps a thread's bins did not end where the histogram did. */
TEST_CASE("resident: groups of any size") {
    every_size([](test_shape shape) {
        for (int positions : {300, 1500}) {
            check_both(shape, row_of(1500, bell), 300, positions, 1);
            check_both(shape, row_of(1500, [](int i) { return (float)(hashed(0, i) & 3); }), 300, positions, 2);
        }
    });
}
