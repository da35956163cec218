/* test_order.cu: sorting of selected candidates, by score and by index. Compiled once for each NaN policy (test_nan_highest.cu). */
#include "testing.h"
#include "topkit/order.cuh"

/* Candidates are read to shared memory, of which the contract's room is all there is, and come back to their slots. The second round gets
 * them in order, and the storage as the first has left it. *fault: 1 where the histogram was not zero then. */
static __global__ void order_sort(test_shape shape, unsigned *others, topkit_candidate *candidates, int count, int by, int *fault) {
    TOPKIT_SHARED(memory);
    topkit_digit_storage *s = (topkit_digit_storage *)memory;
    topkit_candidate *items = (topkit_candidate *)(memory + (sizeof *s + 15) / 16 * 16);
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    topkit_digit_init(g, s);
    for (int round = 0; round < 2; round++) {
        for (int i = (int)g.thread; i < count; i += (int)g.size) items[i] = candidates[i];
        topkit_group_sync(g);
        const auto put = [=](int slot, int index, unsigned bits) {
            candidates[slot].index = index;
            candidates[slot].bits = bits;
        };
        topkit_sort(g, items, count, by, topkit_sink_call<decltype(put)>{put}, s);
        for (unsigned b = g.thread; b < TOPKIT_DIGIT_BINS; b += g.size) {
            if (s->histogram[b] != 0) atomicOr(fault, 1);
        }
        topkit_group_sync(g);
    }
}

/* In candidates: themselves, a word for four places each, 2 bytes for each in the list. */
static int order_room(int count) { return count + ((count + 3) / 4 * 4 + 2 * count + 7) / 8; }

static void check_sort(test_shape shape, std::vector<topkit_candidate> items, int by) {
    const int count = (int)items.size();
    INFO(count << " candidates by " << (by == TOPKIT_BY_SCORE ? "score" : "index"));
    device_buffer<topkit_candidate> candidates(items);
    device_buffer<int> fault(1, 0);
    const size_t storage = (sizeof(topkit_digit_storage) + 15) / 16 * 16;
    test_run(shape, 1, storage + (size_t)order_room(count) * sizeof(topkit_candidate), order_sort, candidates.data, count, by, fault.data);
    std::sort(items.begin(), items.end(), [by](const topkit_candidate &a, const topkit_candidate &b) {
        const int order = by == TOPKIT_BY_SCORE ? compare_scores(a.bits, b.bits) : 0;
        return order ? order > 0 : a.index < b.index;
    });
    const std::vector<topkit_candidate> got = candidates.read();
    bool same = true;
    for (int i = 0; i < count; i++) same = same && got[i].bits == items[i].bits && got[i].index == items[i].index;
    REQUIRE(same);
    REQUIRE(fault.read()[0] == 0);
}

static void check_both(test_shape shape, const std::vector<topkit_candidate> &items) {
    check_sort(shape, items, TOPKIT_BY_SCORE);
    check_sort(shape, items, TOPKIT_BY_INDEX);
}

/* Scores whose bit is set, by index; the second round finds the words as the first has left them. */
static __global__ void order_mask(test_shape shape, unsigned *others, const unsigned *set, const float *scores, int length,
                                  topkit_candidate *out, int *fault) {
    TOPKIT_SHARED(memory);
    topkit_digit_storage *s = (topkit_digit_storage *)memory;
    unsigned *words = (unsigned *)(memory + (sizeof *s + 15) / 16 * 16);
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    for (int i = (int)g.thread; i * 32 < length; i += (int)g.size) words[i] = 0;
    topkit_group_sync(g);
    for (int round = 0; round < 2; round++) {
        for (int i = (int)g.thread; i * 32 < length; i += (int)g.size) {
            if (words[i] != 0) atomicOr(fault, 1);
            words[i] = set[i];
        }
        topkit_group_sync(g);
        const auto put = [=](int slot, int index, unsigned bits) {
            out[slot].index = index;
            out[slot].bits = bits;
        };
        topkit_sort_mask(g, words, length, scores, topkit_sink_call<decltype(put)>{put}, s);
    }
}

TEST_CASE("order: a mask of any length") {
    everywhere([](test_shape shape) {
        for (int length : {1, 31, 32, 33, 700, 8192, 20001}) {
            for (int share : {0, 3, 20, 100}) {
                INFO(length << " scores, " << share << " % of them set");
                std::vector<unsigned> set((size_t)(length + 31) / 32, 0);
                std::vector<topkit_candidate> wanted;
                score_bits scores = row_of(length, [](int i) { return uniform(4, i); });
                for (int i = 0; i < length; i++) {
                    if ((int)(hashed(5, i) % 100) >= share) continue;
                    set[(size_t)i / 32] |= 1u << (i % 32);
                    wanted.push_back({scores[(size_t)i], i});
                }
                device_buffer<unsigned> words(set);
                device_buffer<uint32_t> in(scores);
                device_buffer<topkit_candidate> out((int)wanted.size() + 1);
                device_buffer<int> fault(1, 0);
                test_run(shape, 1, (sizeof(topkit_digit_storage) + 15) / 16 * 16 + set.size() * 4, order_mask, (const unsigned *)words.data,
                         (const float *)in.data, length, out.data, fault.data);
                const std::vector<topkit_candidate> got = out.read();
                bool same = true;
                for (size_t i = 0; i < wanted.size(); i++) same = same && got[i].bits == wanted[i].bits && got[i].index == wanted[i].index;
                REQUIRE(same);
                REQUIRE(fault.read()[0] == 0);
            }
        }
    });
}

TEST_CASE("order: worked numbers") {
    everywhere([](test_shape shape) { check_both(shape, {{bits_of(2.0f), 9}, {bits_of(5.0f), 2}, {bits_of(2.0f), 1}}); });
}

TEST_CASE("order: any count, ties, NaN and infinities") {
    const score_bits special = special_scores();
    everywhere([&](test_shape shape) {
        for (int count : {0, 1, 2, 3, 4, 5, 31, 64, 129, 256, 1000, 1024}) {
            std::vector<topkit_candidate> items;
            for (int i = 0; i < count; i++) {
                /* ties and every kind of float; indices scattered up to the largest there is */
                const uint32_t bits = count % 2 ? special[hashed(5, i) % special.size()] : bits_of((float)(hashed(6, i) & 15));
                items.push_back({bits, permuted(count, i) * 1000 + (i == 0 ? 0x7fffffff - 1 - permuted(count, 0) * 1000 : 0)});
            }
            check_both(shape, items);
        }
    });
}

/* Scores and indices of `count` candidates, in the order in which a scan may have left them. */
static const struct {
    const char *name;
    float (*score)(int i, int count);
    int (*index)(int i, int count);
} order_kinds[] = {
    {"a tail", [](int i, int) { return 2.0f - std::log(uniform(1, i) + 1e-7f); }, [](int i, int n) { return permuted(n, i) * 61; }},
    {"ascending", [](int i, int) { return (float)i * 0.25f; }, [](int i, int) { return i; }},
    {"descending", [](int i, int) { return (float)-i; }, [](int i, int n) { return n - i; }},
    {"all equal", [](int, int) { return 1.0f; }, [](int i, int n) { return permuted(n, i) * 7; }},
    {"two values", [](int i, int) { return (float)(hashed(2, i) & 1); }, [](int i, int n) { return permuted(n, i); }},
    {"zeros of both signs and a few above", [](int i, int n) { return i < n / 8 ? uniform(3, i) : i % 2 ? 0.0f : -0.0f; },
     [](int i, int n) { return permuted(n, i); }},
    {"neighbours in value, an outlier", [](int i, int) { return i == 7 ? 3e38f : 1.0f + (float)(hashed(4, i) % 8) * 0x1p-23f; },
     [](int i, int n) { return permuted(n, i); }},
    {"neighbours in value, infinities", [](int i, int) { return i < 2 ? (i ? INFINITY : -INFINITY) : 5.0f + uniform(5, i) * 0x1p-12f; },
     [](int i, int n) { return permuted(n, i); }},
    {"sixteen bits", [](int i, int) { return float_of(bits_of(2.0f - std::log(uniform(6, i) + 1e-7f)) & 0xffff0000u); },
     [](int i, int n) { return permuted(n, i) * 61; }},
    {"runs of indices", [](int i, int) { return uniform(7, i); }, [](int i, int) { return i / 64 * 1000003 + i % 64; }},
    {"two runs far apart", [](int i, int n) { return i % 3 ? 1.0f : -(float)(i % (n + 1)); },
     [](int i, int n) { return i < n / 2 ? n / 2 - i : 0x7ffffff0 - i; }},
};

TEST_CASE("order: every kind of values and indices") {
    everywhere([](test_shape shape) {
        for (const auto &kind : order_kinds) {
            for (int count : {33, 1537}) {
                INFO(kind.name);
                std::vector<topkit_candidate> items;
                for (int i = 0; i < count; i++) items.push_back({bits_of(kind.score(i, count)), kind.index(i, count)});
                check_both(shape, items);
            }
        }
    });
}

/* As many candidates as are served, and more. */
TEST_CASE("order: many candidates, groups of up to 1024 threads") {
    static const struct {
        test_shape shape;
        int count;
    } cases[] = {{{12, 12, 29}, 2048}, {{0, 16, 16}, 4096}, {{0, 32, 32}, 4095}, {{3, 8, 12}, 2049}, {{0, 16, 16}, 16384},
                 {{0, 32, 32}, 20000}};
    for (const auto &c : cases) {
        INFO("warps " << c.shape.first << " to " << c.shape.first + c.shape.warps - 1 << " of " << c.shape.block_warps);
        for (const auto &kind : order_kinds) {
            INFO(kind.name);
            std::vector<topkit_candidate> items;
            for (int i = 0; i < c.count; i++) items.push_back({bits_of(kind.score(i, c.count)), kind.index(i, c.count)});
            check_both(c.shape, items);
            if (c.count > 4096) break;
        }
    }
}

/* One more and one less than are compared with each other at one place: equals beside another value of their bin. */
TEST_CASE("order: a crowd at one place") {
    everywhere([](test_shape shape) {
        for (int equals : {TOPKIT_SORT_CROWD - 2, TOPKIT_SORT_CROWD - 1, TOPKIT_SORT_CROWD, TOPKIT_SORT_CROWD + 1, 2 * TOPKIT_SORT_CROWD}) {
            std::vector<topkit_candidate> items = {{bits_of(1e30f), 0}, {bits_of(1.0f), 3}, {bits_of(1.0f) + 1, 1}};
            for (int i = 0; i < equals; i++) items.push_back({bits_of(1.0f), 5 + permuted(equals, i)});
            check_both(shape, items);
        }
    });
}

TEST_CASE("order: groups of any size") {
    every_size([](test_shape shape) {
        for (const auto &kind : order_kinds) {
            INFO(kind.name);
            std::vector<topkit_candidate> items;
            for (int i = 0; i < 1100; i++) items.push_back({bits_of(kind.score(i, 1100)), kind.index(i, 1100)});
            check_both(shape, items);
        }
    });
}
