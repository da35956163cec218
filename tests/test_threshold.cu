/* test_threshold.cu: proposals from samples, hints, fixed values and exact ranks. Compiled once for each NaN policy (test_nan_highest.cu).
 *
 * A proposal may be off without any harm to an answer, so what is tested is what the callers count on: a sample's proposal admits at least
 * as many samples as were asked for and, on smooth data, hardly more; hints and ranks never underfill.
 */
#include "testing.h"
#include "topkit/threshold.cuh"

static const int ROUGHLY = -1; /* instead of a second rank */

/* Proposes twice, so that what the first call leaves behind shows; dirty: histogram bins that are not zero at the end. */
static __global__ void threshold_sample(test_shape shape, unsigned *others, const float *sample, int count, int rank, int second,
                                        topkit_proposal *out, unsigned *dirty) {
    TOPKIT_SHARED(memory);
    topkit_digit_storage *s = (topkit_digit_storage *)memory;
    float *own = (float *)(s + 1);
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    for (int i = (int)g.thread; i < count; i += (int)g.size) own[i] = sample[i];
    topkit_digit_init(g, s);
    topkit_group_sync(g);
    for (int time = 0; time < 2; time++)
        out[(int)g.thread * 2 + time] = second == ROUGHLY ? topkit_propose_roughly(g, own, count, rank, s)
                                                          : topkit_propose_from_sample(g, own, count, rank, second, s);
    for (int b = (int)g.thread; b < TOPKIT_DIGIT_BINS; b += (int)g.size)
        if (s->histogram[b]) atomicAdd(dirty, 1u);
}

static topkit_proposal propose(test_shape shape, const score_bits &sample, int rank, int second) {
    const int threads = (int)shape.warps * 32;
    device_buffer<uint32_t> in(sample);
    device_buffer<topkit_proposal> out(threads * 2);
    device_buffer<unsigned> dirty(1, 0);
    test_run(shape, 1, sizeof(topkit_digit_storage) + sample.size() * 4, threshold_sample, (const float *)in.data, sample.size(), rank,
             second, out.data, dirty.data);
    REQUIRE(dirty.read()[0] == 0);
    const std::vector<topkit_proposal> all = out.read();
    bool same = true;
    for (const topkit_proposal &p : all) same = same && std::memcmp(&p, &all[0], sizeof p) == 0;
    REQUIRE(same); /* every thread, both times */
    return all[0];
}

static std::vector<uint32_t> descending_keys(const score_bits &scores) {
    std::vector<uint32_t> keys;
    for (uint32_t bits : scores) keys.push_back(expected_key(bits));
    std::sort(keys.begin(), keys.end(), std::greater<uint32_t>());
    return keys;
}

/* What holds for every sample: the proposal is at or below the rank-th largest, and says how many samples reach it. */
static topkit_proposal check_proposal(test_shape shape, const score_bits &sample, int rank, int second) {
    const int count = (int)sample.size();
    INFO("samples " << count << ", rank " << rank << ", second " << second);
    const topkit_proposal p = propose(shape, sample, rank, second);
    const std::vector<uint32_t> keys = descending_keys(sample);
    const auto reach = [&](unsigned key) { return (int)std::count_if(keys.begin(), keys.end(), [key](uint32_t k) { return k >= key; }); };
    REQUIRE(p.key <= keys[std::min(rank, count) - 1]);
    REQUIRE(p.expected == reach(p.key));
    REQUIRE(p.expected >= std::min(rank, count));
    REQUIRE(p.maximum == keys[0]);
    if (second > 0) {
        REQUIRE(p.second <= p.key);
        REQUIRE(p.second <= keys[std::min(second, count) - 1]);
    } else {
        REQUIRE(p.second == TOPKIT_NO_THRESHOLD);
    }
    return p;
}

TEST_CASE("threshold: samples of one value, of one score, of the extremes (E02)") {
    everywhere([](test_shape shape) {
        for (uint32_t bits : special_scores()) {
            const uint32_t key = expected_key(bits);
            INFO("bits " << bits);
            for (int count : {1, 2, 33, 300}) {
                const topkit_proposal p = check_proposal(shape, score_bits(count, bits), (count + 1) / 2, 0);
                REQUIRE(p.key == key); /* of NaN under the lowest policy that is "no threshold" */
                REQUIRE(p.expected == count);
            }
        }
        for (int rank : {1, 2, 100}) {
            score_bits extremes(100, 0xff7fffffu);
            extremes[57] = 0x7f7fffffu;
            check_proposal(shape, extremes, rank, 0);
            check_proposal(shape, extremes, rank, rank + 3);
        }
        const score_bits special = special_scores();
        for (int rank = 1; rank <= (int)special.size(); rank += 3) check_proposal(shape, special, rank, rank + 2);
    });
}

TEST_CASE("threshold: nothing to propose from") {
    everywhere([](test_shape shape) {
        for (int rank : {0, 1, 5}) {
            const topkit_proposal p = propose(shape, score_bits(), rank, 0);
            REQUIRE((p.key == TOPKIT_NO_THRESHOLD && p.second == TOPKIT_NO_THRESHOLD && p.expected == 0));
            REQUIRE(p.maximum == TOPKIT_NO_THRESHOLD);
        }
        const topkit_proposal p = propose(shape, score_bits(40, bits_of(1.0f)), 0, 3);
        REQUIRE((p.key == TOPKIT_NO_THRESHOLD && p.second == TOPKIT_NO_THRESHOLD && p.expected == 0));
    });
}

static float normal(uint32_t r, uint32_t i) {
    return std::sqrt(-2.0f * std::log(uniform(r, 2 * i) + 0x1p-25f)) * std::cos(6.2831853f * uniform(r, 2 * i + 1));
}

TEST_CASE("threshold: smooth samples, any count and rank: sound, and close") {
    everywhere([](test_shape shape) {
        for (int count : {5, 31, 128, 129, 1000}) {
            for (int rank : {1, 7, 32, 60, 200, 5000}) {
                for (int kind = 0; kind < 4; kind++) {
                    INFO("kind " << kind);
                    const auto score = [kind](int i) {
                        return kind == 0 ? uniform(1, i) : kind == 1 ? normal(2, i) : kind == 2 ? (float)i - 200 : -100 * uniform(3, i) - 5;
                    };
                    const int second = (rank + count) % 2 ? rank * 2 : 0;
                    const topkit_proposal p = check_proposal(shape, row_of(count, score), rank, second);
                    /* where the group has fewer classes of samples than the rank, the bins span the whole sample: no claim */
                    const int wanted = std::min(rank, count), classes = std::min(count, (int)shape.warps * 32);
                    if (std::max(rank, second) <= classes) REQUIRE(p.expected <= wanted + wanted / 2 + 8);
                }
            }
        }
    });
}

TEST_CASE("threshold: samples that lie close together or far apart") {
    everywhere([](test_shape shape) {
        for (int rank : {1, 20, 150, 600}) {
            const score_bits band = row_of(700, [](int i) { return float_of(0x3f800000u + permuted(700, i)); });
            REQUIRE(check_proposal(shape, band, rank, 0).expected == rank); /* as many bins as values: exact */
            check_proposal(shape, row_of(700, [](int i) { return float_of(permuted(700, i)); }), rank, rank + 50); /* denormals */
            check_proposal(shape, row_of(700, [](int i) { return float_of((uint32_t)hashed(9, i)); }), rank, rank + 50); /* any bits */
            check_proposal(shape, row_of(700, [](int i) { return i % 50 ? -INFINITY : (float)i; }), rank, rank);
            check_proposal(shape, row_of(700, [](int i) { return i % 3 ? NAN : -(float)i; }), rank, rank + 50);
        }
    });
}

/* Few scores far above, and a band that a bin of the whole range would hold all of: the bin's own digits tell it apart. */
TEST_CASE("threshold: a few huge samples do not hide the others' order") {
    everywhere([](test_shape shape) {
        for (int huge : {1, 7, 20}) {
            for (int rank : {24, 61, 200}) {
                for (int kind = 0; kind < 4; kind++) {
                    INFO("huge " << huge << ", kind " << kind);
                    const score_bits sample = row_of(1900, [&](int i) {
                        const uint32_t at = permuted(1900, i), above = at - (1900 - (uint32_t)huge);
                        if ((int)at >= 1900 - huge) return kind == 1 ? INFINITY : float_of(0x7f000000u + above);
                        if (kind == 2 && (int)at >= 1900 - 2 * huge) return float_of(0x40000000u + at); /* a middle between both */
                        return kind == 3 && at % 2 ? 1.0f : float_of(0x3f900000u + (at >> (kind == 1 ? 1 : 0)));
                    });
                    REQUIRE(check_proposal(shape, sample, rank, 0).expected <= rank + rank / 4 + 8);
                    check_proposal(shape, sample, rank, rank + 100);
                }
            }
        }
        score_bits two(1000, bits_of(0.0f)); /* of equal samples there is nothing to tell apart */
        for (int i = 0; i < 1000; i += 100) two[(size_t)i] = bits_of(1.0f);
        const topkit_proposal p = check_proposal(shape, two, 30, 0);
        REQUIRE((p.key == expected_key(bits_of(0.0f)) && p.expected == 1000));
    });
}

/* Roughly: a sample's key, which at least `rank` samples reach. Returns how many do. */
static int check_roughly(test_shape shape, const score_bits &sample, int rank) {
    INFO("samples " << sample.size() << ", rank " << rank);
    const topkit_proposal p = propose(shape, sample, rank, ROUGHLY);
    const std::vector<uint32_t> keys = descending_keys(sample);
    const int reach = (int)std::count_if(keys.begin(), keys.end(), [&](uint32_t key) { return key >= p.key; });
    REQUIRE(reach >= std::min(rank, (int)keys.size()));
    REQUIRE(std::count(keys.begin(), keys.end(), p.key) > 0);
    REQUIRE(p.maximum == keys[0]);
    REQUIRE((p.second == TOPKIT_NO_THRESHOLD && p.expected == 0));
    return reach;
}

TEST_CASE("threshold: a rough proposal is sound, and on smooth samples not far below the rank") {
    everywhere([](test_shape shape) {
        for (int rank : {1, 2, 24, 32, 100, 5000}) {
            for (int count : {1, 2, 31, 33, 128, 1000, 4001}) {
                const int reach = check_roughly(shape, row_of(count, [](int i) { return uniform(4, i); }), rank);
                /* Of c classes the smallest maximum is about the c * (ln(c) + 0.6)-th sample; they are fewer than twice the rank. */
                if (rank <= std::min(count, (int)shape.warps * 32)) REQUIRE(reach <= 2 * rank * (std::log(2.0 * rank) + 4));
            }
            check_roughly(shape, special_scores(), rank);
            check_roughly(shape, row_of(700, [](int i) { return i % 3 ? NAN : -(float)i; }), rank);
            check_roughly(shape, row_of(700, [](int i) { return i / 350 ? 1.0f : -INFINITY; }), rank);
        }
        for (int rank : {0, 3}) {
            const topkit_proposal p = propose(shape, score_bits(rank ? 0 : 40, bits_of(1.0f)), rank, ROUGHLY);
            REQUIRE((p.key == TOPKIT_NO_THRESHOLD && p.second == TOPKIT_NO_THRESHOLD && p.maximum == TOPKIT_NO_THRESHOLD));
        }
    });
}

TEST_CASE("threshold: worked numbers") {
    everywhere([](test_shape shape) {
        const score_bits sample = row_of(8, [](int i) { return std::vector<float>{5, 1, 9, 3, 7, 2, 8, 6}[i]; });
        const topkit_proposal p = check_proposal(shape, sample, 2, 0);
        REQUIRE(p.key > expected_key(bits_of(6.0f)));
        REQUIRE(p.key <= expected_key(bits_of(8.0f)));
    });
}

TEST_CASE("threshold: groups of any size") {
    every_size([](test_shape shape) {
        for (int count : {5, 700}) {
            const score_bits sample = row_of(count, [](int i) { return uniform(4, i) * uniform(5, i); });
            for (int rank : {1, 4, count / 2 + 1}) {
                check_proposal(shape, sample, rank, rank + 2);
                check_roughly(shape, sample, rank);
            }
        }
    });
}

static __global__ void threshold_crowds(test_shape shape, unsigned *others, const float *sample, int count, int width, unsigned key,
                                        int *out) {
    TOPKIT_SHARED(memory);
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    out[g.thread * 2] = topkit_sample_crowds(g, sample, count, width, key, (topkit_digit_storage *)memory);
    out[g.thread * 2 + 1] = topkit_sample_crowds(g, sample, count, width, key, (topkit_digit_storage *)memory);
}

static bool crowds(test_shape shape, const score_bits &sample, int width, float key) {
    const int threads = (int)shape.warps * 32;
    device_buffer<uint32_t> in(sample);
    device_buffer<int> out(threads * 2);
    test_run(shape, 1, sizeof(topkit_digit_storage), threshold_crowds, (const float *)in.data, (int)sample.size(), width,
             (unsigned)expected_key(bits_of(key)), out.data);
    const std::vector<int> all = out.read();
    for (int one : all) REQUIRE(one == all[0]); /* every thread, both times */
    return all[0] != 0;
}

TEST_CASE("threshold: samples crowd where neighbours are alike") {
    everywhere([](test_shape shape) {
        for (int width : {4, 8, 16, 32}) {
            INFO("width " << width);
            /* One score in 16 is good: anywhere, or whole vectors of them. The last vector lies across a round of the group. */
            const int count = 2048 + 32 - 32 % width;
            REQUIRE_FALSE(crowds(shape, row_of(count, [](int i) { return uniform(1, i) < 1.0f / 16 ? 2.0f : 1.0f; }), width, 2.0f));
            REQUIRE(crowds(shape, row_of(count, [=](int i) { return uniform(1, i / width) < 1.0f / 16 ? 2.0f : 1.0f; }), width, 2.0f));
            REQUIRE_FALSE(crowds(shape, row_of(count, [](int) { return 1.0f; }), width, 1.0f)); /* everything is good, or nothing */
            REQUIRE_FALSE(crowds(shape, row_of(count, [](int) { return 1.0f; }), width, 2.0f));
            /* More evenly spread than by chance: one in every vector. */
            REQUIRE_FALSE(crowds(shape, row_of(count, [=](int i) { return i % width == 0 ? 2.0f : 1.0f; }), width, 2.0f));
        }
        REQUIRE_FALSE(crowds(shape, row_of(500, [](int i) { return i < 50 ? 2.0f : 1.0f; }), 1, 2.0f)); /* no neighbours, no crowd */
    });
}

/* ---- from indices that were good before, and fixed values ---- */

static __global__ void threshold_indices(test_shape shape, unsigned *others, const float *scores, int length, const int *indices, int k,
                                         topkit_proposal *out) {
    TOPKIT_SHARED(memory);
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    topkit_propose_from_indices(g, scores, length, indices, k, (topkit_digit_storage *)memory);
    out[g.thread] = topkit_propose_from_indices(g, scores, length, indices, k, (topkit_digit_storage *)memory);
}

TEST_CASE("threshold: a hint of indices gives the smallest of their scores, or nothing") {
    everywhere([](test_shape shape) {
        const int length = 500;
        const score_bits scores = row_of(length, [](int i) { return (float)permuted(500, i) - 250; });
        for (int k : {0, 1, 7, 128, 300}) {
            for (int wrong : {0, -1, length, INT32_MIN, INT32_MAX}) { /* 0: none */
                INFO("k " << k << ", wrong index " << wrong);
                std::vector<int> indices;
                uint32_t expected = 0xffffffffu;
                for (int i = 0; i < k; i++) {
                    indices.push_back((i * 7 + 3) % length);
                    expected = std::min(expected, expected_key(scores[indices.back()]));
                }
                if (k == 0 || wrong) expected = TOPKIT_NO_THRESHOLD;
                if (k && wrong) indices[k * 2 / 3] = wrong;
                device_buffer<uint32_t> row(scores, 0, true);
                device_buffer<int> hint(indices, 0, true);
                device_buffer<topkit_proposal> out(shape.warps * 32);
                test_run(shape, 1, sizeof(topkit_digit_storage), threshold_indices, (const float *)row.data, length, hint.data, k,
                         out.data);
                for (const topkit_proposal &p : out.read())
                    REQUIRE((p.key == expected && p.second == TOPKIT_NO_THRESHOLD && p.expected == k));
            }
        }
    });
}

static __global__ void threshold_values(const float *values, topkit_proposal *out, int count) {
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) out[i] = topkit_propose_value(values[i], 40 + i);
}

TEST_CASE("threshold: a fixed value is its own key, a NaN proposes nothing") {
    const score_bits values = special_scores();
    device_buffer<uint32_t> in(values);
    device_buffer<topkit_proposal> out(values.size());
    test_launch(1, 32, 0, threshold_values, (const float *)in.data, out.data, values.size());
    const std::vector<topkit_proposal> got = out.read();
    for (size_t i = 0; i < values.size(); i++) {
        REQUIRE(got[i].key == (is_nan_bits(values[i]) ? TOPKIT_NO_THRESHOLD : expected_key(values[i])));
        REQUIRE((got[i].second == TOPKIT_NO_THRESHOLD && got[i].expected == 40 + (int)i));
    }
}

/* ---- from the exact ranks of segments ---- */

static __global__ void threshold_ranks(test_shape shape, unsigned *others, const unsigned *keys, int segments, int levels, int k,
                                       topkit_proposal *out) {
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    const topkit_group warp = topkit_group_warp();
    out[g.thread] = topkit_propose_from_ranks(warp, keys, segments, levels, k);
}

static void check_ranks(test_shape shape, const std::vector<std::vector<uint32_t>> &segments, int k, bool distinct) {
    const int levels = 12;
    std::vector<uint32_t> published, all;
    for (std::vector<uint32_t> segment : segments) {
        std::sort(segment.begin(), segment.end(), std::greater<uint32_t>());
        for (int e = 0; e < levels; e++) published.push_back(1 << e <= (int)segment.size() ? segment[(1 << e) - 1] : TOPKIT_NO_THRESHOLD);
        all.insert(all.end(), segment.begin(), segment.end());
    }
    device_buffer<unsigned> keys(published);
    device_buffer<topkit_proposal> out(shape.warps * 32);
    test_run(shape, 1, 0, threshold_ranks, keys.data, segments.size(), levels, k, out.data);

    /* the largest published key that enough scores are guaranteed to reach, the plain way: from above */
    std::vector<uint32_t> tried = published;
    std::sort(tried.begin(), tried.end(), std::greater<uint32_t>());
    uint32_t expected = TOPKIT_NO_THRESHOLD;
    for (uint32_t t : tried) {
        int guaranteed = 0;
        for (size_t j = 0; j < segments.size(); j++) {
            int ranks = 0;
            for (int e = 0; e < levels; e++) if (published[j * levels + e] >= t) ranks = 1 << e;
            guaranteed += ranks;
        }
        if (t != TOPKIT_NO_THRESHOLD && guaranteed >= k) {
            expected = t;
            break;
        }
    }
    for (const topkit_proposal &p : out.read()) REQUIRE((p.key == expected && p.second == TOPKIT_NO_THRESHOLD));
    if (expected != TOPKIT_NO_THRESHOLD) {
        const int reach = (int)std::count_if(all.begin(), all.end(), [&](uint32_t key) { return key >= expected; });
        REQUIRE(reach >= k);
        if (distinct) REQUIRE(reach < 2 * k);
    }
}

TEST_CASE("threshold: exact ranks of segments never underfill and overfill by less than 2") {
    everywhere([](test_shape shape) {
        for (int k : {1, 2, 31, 100, 1000, 3000}) {
            std::vector<std::vector<uint32_t>> even, skewed, tied;
            for (int j = 0; j < 8; j++) {
                std::vector<uint32_t> segment, skew, tie;
                for (int i = 0; i < 300; i++) segment.push_back(1 + permuted(2400, j * 300 + i)); /* distinct over all segments */
                for (int i = 0; i < (j == 5 ? 2000 : j * 3); i++) skew.push_back(10000u * (uint32_t)j + permuted(2001, i) + 1);
                for (int i = 0; i < 300; i++) tie.push_back(1 + (uint32_t)(hashed(j, i) % 5));
                even.push_back(segment);
                skewed.push_back(skew);
                tied.push_back(tie);
            }
            INFO("k " << k);
            check_ranks(shape, even, k, true);
            check_ranks(shape, skewed, k, true);
            check_ranks(shape, tied, k, false);
        }
    });
}

TEST_CASE("threshold: ranks where seven of eight segments are empty (E08)") {
    everywhere([](test_shape shape) {
        for (int holder : {0, 3, 7}) {
            for (int k : {1, 5, 256, 512, 700}) {
                std::vector<std::vector<uint32_t>> segments(8);
                for (int i = 0; i < 700; i++) segments[holder].push_back(1 + permuted(700, i));
                check_ranks(shape, segments, k, true);
            }
        }
        check_ranks(shape, std::vector<std::vector<uint32_t>>(8), 1, true); /* all are empty */
        check_ranks(shape, {}, 1, true);
    });
}
