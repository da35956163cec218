/* fused_case.h: queries and keys in FP8, their scores on the host, and the fused indexer checked against them.
 *
 *   fused_case c(33, 32, 2049);                        tokens, heads, positions; every range is [0, positions)
 *   c.integers(1);                                     F01: entries -1, 0 and 1, weights 1, 2 and 4: every order of summation is exact
 *   c.ends = ...; c.paginate(..); c.scales = ..;       as the case wants it
 *   c.check(512);                                      both tie policies, by turns all orders and splits
 *
 * The host's scores follow the order of sums that fused_score.cuh states; for integers every order is the same. Keys that no range
 * contains hold NaN codes; memory ends where the last key ends.
 */
#ifndef TOPKIT_TESTS_FUSED_CASE_H
#define TOPKIT_TESTS_FUSED_CASE_H

#include "fused.h"
#include "select_case.h"

#include <cmath>

static inline float e4m3_float(uint8_t code) {
    const int exponent = code >> 3 & 15, fraction = code & 7;
    if ((code & 0x7f) == 0x7f) return std::nanf("");
    const float value = exponent ? std::ldexp((float)(8 + fraction), exponent - 10) : std::ldexp((float)fraction, -9);
    return code & 0x80 ? -value : value;
}
/* The code of an integer from -16 to 16. */
static inline uint8_t e4m3_integer(int n) {
    for (int code = 0; code < 0x7f; code++) {
        if (e4m3_float((uint8_t)code) == (float)(n < 0 ? -n : n)) return (uint8_t)(n < 0 ? code | 0x80 : code);
    }
    return 0x7f;
}

static inline bool device_has_it(void) {
    size_t bytes;
    topkit_fused_params p = {};
    p.heads = 32;
    return topkit_fused_workspace(&p, &bytes) == TOPKIT_OK;
}

struct fused_case {
    int tokens, heads, positions;
    std::vector<uint8_t> queries, keys; /* keys: by position; pages are made of them when they go to the device */
    std::vector<float> weights, scales; /* scales empty: null */
    std::vector<int> starts, ends;      /* empty: null */
    std::vector<int> tables;            /* (tokens) request of each query; empty: null */
    int requests = 1;                   /* with pages: each has its own keys, keys[request * positions + position] */
    bool paged = false;
    int runs = 0;
    topkit_select_stats stats = {};     /* of the latest launch */
    enum { SEED = 1 };                  /* of every launch */

    fused_case(int t, int h, int n) : tokens(t), heads(h), positions(n) {}

    int start(int t) const { return starts.empty() ? 0 : starts[(size_t)t]; }
    int length(int t) const {
        const int end = ends.empty() || ends[(size_t)t] > positions ? positions : ends[(size_t)t];
        return end > start(t) ? end - start(t) : 0;
    }
    size_t key_at(int t, int position) const {
        return (size_t)(paged && !tables.empty() ? tables[(size_t)t] : 0) * (size_t)positions + (size_t)position;
    }

    template <class Q, class K, class W> void fill(Q query, K key, W weight) {
        queries.resize((size_t)tokens * (size_t)heads * 128);
        keys.resize((size_t)requests * (size_t)positions * 128);
        weights.resize((size_t)tokens * (size_t)heads);
        for (size_t i = 0; i < queries.size(); i++) queries[i] = query(i);
        for (size_t i = 0; i < keys.size(); i++) keys[i] = key(i);
        for (size_t i = 0; i < weights.size(); i++) weights[i] = weight(i);
    }
    void integers(int seed, int sign = 1) { /* F01; sign -1: F04 */
        static const uint8_t codes[3] = {0xb8, 0x00, 0x38};
        fill([&](size_t i) { return codes[hashed(seed, (int)i) % 3]; }, [&](size_t i) { return codes[hashed(seed + 1, (int)i) % 3]; },
             [&](size_t i) { return (float)(sign * (1 << hashed(seed + 2, (int)i) % 3)); });
    }
    void reals(int seed) { /* any finite codes of moderate size, any weights */
        const auto code = [](uint64_t h) { return (uint8_t)((h & 0x80) | (0x20 + h % 0x21)); };
        fill([&](size_t i) { return code(hashed(seed, (int)i)); }, [&](size_t i) { return code(hashed(seed + 1, (int)i)); },
             [&](size_t i) { return (float)(hashed(seed + 2, (int)i) >> 40) * 0x1p-24f - 0.25f; });
        scales.resize(keys.size() / 128);
        for (size_t i = 0; i < scales.size(); i++) scales[i] = 0.5f + (float)(hashed(seed + 3, (int)i) >> 40) * 0x1p-24f;
    }
    /* Scores that rise with level(position), whatever the query: only the first element of any vector is not 0. Levels 0 to 255 and three
     * times as many ties as levels: the second element is seen by no query. */
    template <class L> void levels(L level) {
        fill([&](size_t i) { return i % 128 == 0 || i % 128 == 1 ? e4m3_integer(i % 128 == 0 ? 16 : 1) : (uint8_t)0; },
             [&](size_t i) {
                 const int n = level((int)(i / 128)) & 255;
                 return i % 128 == 0 ? e4m3_integer(n / 16) : i % 128 == 1 ? e4m3_integer(n % 16) : (uint8_t)0;
             },
             [&](size_t) { return 1.0f; });
    }

    /* The score of a position as fused_score.cuh states it. */
    float score(int t, int position) const {
        static const std::vector<float> floats = [] {
            std::vector<float> v(256);
            for (int code = 0; code < 256; code++) v[(size_t)code] = e4m3_float((uint8_t)code);
            return v;
        }();
        const float *value = floats.data();
        float key[128];
        for (size_t i = 0; i < 128; i++) key[i] = value[keys[key_at(t, position) * 128 + i]];
        float sums[2] = {0, 0};
        for (int part = 0; part < heads; part += 32) {
            float chains[2] = {0, 0}; /* of even heads, and of odd ones */
            for (int h = part; h < part + 32; h += 2) {
                const uint8_t *query = queries.data() + ((size_t)t * (size_t)heads + (size_t)h) * 128;
                const float *weight = weights.data() + (size_t)t * (size_t)heads + (size_t)h;
                float even = 0.0f, odd = 0.0f; /* by turns, or each addition would wait for the last */
                for (int i = 0; i < 128; i++) {
                    even += key[i] * value[query[i]];
                    odd += key[i] * value[query[128 + i]];
                }
                chains[0] = fmaf(weight[0], fmaxf(even, 0.0f), chains[0]);
                chains[1] = fmaf(weight[1], fmaxf(odd, 0.0f) * 0x1p-25f, chains[1]);
            }
            sums[part / 32] = fmaf(chains[1], 0x1p25f, chains[0]);
        }
        const float sum = (heads == 64 ? sums[0] + sums[1] : sums[0]) * (scales.empty() ? 1.0f : scales[key_at(t, position)]);
        return std::isnan(sum) ? NAN : sum;
    }
    std::vector<float> row(int t) const {
        std::vector<float> scores((size_t)length(t));
        for (size_t i = 0; i < scores.size(); i++) scores[i] = score(t, start(t) + (int)i);
        return scores;
    }
    void forget() { rows.clear(); }

    /* What no range contains becomes NaN, in keys and scales. */
    void poison(void) {
        std::vector<uint8_t> seen(keys.size() / 128);
        for (int t = 0; t < tokens; t++) {
            for (int i = 0; i < length(t); i++) seen[key_at(t, start(t) + i)] = 1;
        }
        for (size_t i = 0; i < seen.size(); i++) {
            if (seen[i]) continue;
            memset(keys.data() + i * 128, i % 2 ? 0x7f : 0xff, 128);
            if (!scales.empty()) scales[i] = std::nanf("");
        }
    }

    /* ---- on the device ---- */

    struct on_device {
        exact<uint8_t> queries, keys;
        exact<float> weights, scales;
        exact<int> starts, ends, tables, page_table;
        guarded stats;
        topkit_fused_params p;
    };

    /* Pages lie scattered: page n of request r is page (n * step + r) of the pool, and between them nothing but NaNs. */
    std::unique_ptr<on_device> upload(int k) const {
        const int pages = (positions + 63) / 64, pool = pages * requests;
        std::vector<uint8_t> memory = keys;
        std::vector<float> scale = scales;
        std::vector<int> table;
        if (paged) {
            memory.assign((size_t)pool * 64 * 128, 0x7f);
            if (!scales.empty()) scale.assign((size_t)pool * 64, std::nanf(""));
            for (int n = 0; n < pool; n++) table.push_back((int)(((long long)n * 7919 + 13) % pool));
            if (pool % 7919 == 0) FAIL("the table's step divides its size");
            for (int r = 0; r < requests; r++) {
                for (int i = 0; i < positions; i++) {
                    const size_t to = (size_t)table[(size_t)(r * pages + i / 64)] * 64 + (size_t)(i % 64);
                    const size_t from = (size_t)r * (size_t)positions + (size_t)i;
                    memcpy(memory.data() + to * 128, keys.data() + from * 128, 128);
                    if (!scales.empty()) scale[to] = scales[from];
                }
            }
        }
        std::unique_ptr<on_device> d(new on_device{exact<uint8_t>(queries), exact<uint8_t>(memory), exact<float>(weights),
                                                   exact<float>(scale), exact<int>(starts), exact<int>(ends), exact<int>(tables),
                                                   exact<int>(table), guarded(sizeof(topkit_select_stats)), {}});
        d->stats.fill(0);
        topkit_fused_params &p = d->p;
        p.queries = d->queries.data;
        p.weights = d->weights.data;
        p.keys = d->keys.data;
        p.key_scales = d->scales.data;
        p.page_table = d->page_table.data;
        p.table_stride = pages;
        p.tables = d->tables.data;
        p.tokens = tokens;
        p.heads = heads;
        p.positions = positions;
        p.starts = d->starts.data;
        p.ends = d->ends.data;
        p.k = k;
        p.stats = (topkit_select_stats *)d->stats.data;
        p.seed = SEED;
        return d;
    }

    const std::vector<float> &scores(int t) {
        if (rows.empty()) {
            for (int u = 0; u < tokens; u++) rows.push_back(row(u));
        }
        return rows[(size_t)t];
    }

    void verify(const std::vector<int> &indices, std::vector<uint32_t> values, int k, int ties, int order) {
        const float canonical = NAN; /* which NaN a sum gives is the machine's affair */
        for (uint32_t &bits : values) {
            if ((bits & 0x7fffffffu) > 0x7f800000u) memcpy(&bits, &canonical, 4);
        }
        for (int t = 0; t < tokens; t++) {
            const std::vector<float> &r = scores(t);
            const std::vector<uint64_t> best = oracle_best(r.data(), (int)r.size(), k);
            const std::string fault = oracle_fault(r.data(), (int)r.size(), best, k, indices.data() + (size_t)t * (size_t)k,
                                                   values.data() + (size_t)t * (size_t)k, ties == TOPKIT_TIES_LOWEST_INDEX, order);
            if (!fault.empty()) FAIL("query " << t << " with " << r.size() << " positions: " << fault);
        }
    }

    /* One launch and its check; a second one on the same workspace, which the first must have left as it found it. */
    void run(int k, int ties, int order, int splits) {
        const std::string schedule = next_schedule();
        INFO("tokens " << tokens << ", heads " << heads << ", positions " << positions << ", k " << k);
        INFO("ties " << ties << ", order " << order);
        INFO("splits " << splits << ", paged " << paged << ", schedule " << schedule);
        const std::unique_ptr<on_device> d = upload(k);
        topkit_fused_params &p = d->p;
        p.ties = ties;
        p.order = order;
        p.splits = splits;
        REQUIRE(topkit_fused_workspace(&p, &p.workspace_bytes) == TOPKIT_OK);
        guarded workspace(p.workspace_bytes), indices((size_t)tokens * (size_t)k * 4), values((size_t)tokens * (size_t)k * 4);
        workspace.fill(0);
        p.workspace = workspace.data;
        p.indices = (int *)indices.data;
        p.values = (float *)values.data;
        for (int round = 0; round < test_size(2, 1); round++) {
            indices.fill(PREFILL_BYTE);
            values.fill(PREFILL_BYTE);
            const int status = topkit_fused(&p, nullptr);
            settle(nullptr);
            REQUIRE(status == TOPKIT_OK);
            std::vector<int> got;
            std::vector<uint32_t> bits;
            std::vector<topkit_select_stats> counted;
            std::vector<unsigned char> rest;
            REQUIRE(indices.read(&got));
            REQUIRE(values.read(&bits));
            REQUIRE(d->stats.read(&counted));
            REQUIRE(workspace.read(&rest));
            for (size_t i = 0; i < HEADER_BYTES; i++) REQUIRE(rest[i] == 0);
            verify(got, bits, k, ties, order);
            stats = counted[0];
        }
        runs++;
    }

    /* Both tie policies; orders and splits by turns. */
    void check(int k) {
        static int turn, calls;
        calls++;
        for (int ties = 0; ties < 2; ties++, turn++) {
            if (BRIEF && ties != calls % 2) continue;
            static const int splits[] = {1, 0, 3};
            run(k, ties, turn % 3, k <= 2048 && tokens <= TOPKIT_FUSED_SPLIT_TOKENS ? splits[turn % 3] : 1);
        }
    }

private:
    std::vector<std::vector<float>> rows;
};

#endif
