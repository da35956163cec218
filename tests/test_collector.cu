/* test_collector.cu: appends to a bounded buffer, compaction and the scan.
 *
 * Compiled once for each NaN policy (test_nan_highest.cu). Buffers are the last thing in shared memory, of exactly their size.
 */
#include "testing.h"
#include "topkit/collector.cuh"
#include "topkit/threshold.cuh"

/* ---- several collectors in a warp ---- */

enum { LANES_CAPACITY = 40, LANES_CLASSES = 4, LANES_ROUNDS = 6, LANES_HITS = 3 };

/* Every warp appends some pairs of each lane, round after round; lane l's collector is that of class l mod 4. hits: (rounds x threads). */
static __global__ void collector_lanes(const unsigned char *hits, topkit_candidate *out, topkit_collector_state *states, int *returned) {
    TOPKIT_SHARED(memory);
    topkit_collector_state *state = (topkit_collector_state *)memory;
    topkit_candidate *items = (topkit_candidate *)(state + LANES_CLASSES); /* (classes x capacity) */
    const topkit_group warp = topkit_group_warp(), block = topkit_group_block();
    const int own = (int)(topkit_lane(warp) % LANES_CLASSES);
    const topkit_collector c = {items + own * LANES_CAPACITY, LANES_CAPACITY, nullptr, state + own};
    if (block.thread < LANES_CLASSES) topkit_collector_clear(c);
    topkit_group_sync(block);
    for (int round = 0; round < LANES_ROUNDS; round++) {
        const int n = round * (int)block.size + (int)block.thread;
        topkit_candidate *slot;
        returned[n] = topkit_collect_lanes(warp, c, 0x11111111u << own, hits[n], &slot);
        for (int i = 0; returned[n] >= 0 && i < hits[n]; i++) {
            slot[i].bits = 1000u + (unsigned)i;
            slot[i].index = n * LANES_HITS + i;
        }
    }
    topkit_group_sync(block);
    for (unsigned i = block.thread; i < LANES_CLASSES * LANES_CAPACITY; i += block.size) out[i] = items[i];
    if (block.thread < LANES_CLASSES) states[block.thread] = state[block.thread];
}

TEST_CASE("collector: a collector for each class of lanes") {
    const int threads = 64, total = threads * LANES_ROUNDS;
    for (int density : {0, 3, 40, 100}) {
        std::vector<unsigned char> hits(total);
        for (int n = 0; n < total; n++)
            hits[(size_t)n] = (int)(hashed(density, n) % 100) < density ? (unsigned char)(1 + hashed(n, density) % LANES_HITS) : 0;
        device_buffer<unsigned char> in(hits);
        device_buffer<topkit_candidate> out(LANES_CLASSES * LANES_CAPACITY);
        device_buffer<topkit_collector_state> states(LANES_CLASSES);
        device_buffer<int> returned(total);
        under_all_schedules([&] {
            test_launch(1, threads, LANES_CLASSES * (sizeof(topkit_collector_state) + LANES_CAPACITY * sizeof(topkit_candidate)),
                        collector_lanes, in.data, out.data, states.data, returned.data);
            const std::vector<topkit_candidate> items = out.read();
            const std::vector<int> said = returned.read();
            const std::vector<topkit_collector_state> state = states.read();
            for (int own = 0; own < LANES_CLASSES; own++) {
                std::vector<int> stored; /* what was said to be stored: all hits of a class, warp and round, or none */
                unsigned count = 0;
                for (int n = 0; n < total; n++) {
                    if (n % LANES_CLASSES != own) continue;
                    int mates = 0;
                    for (int l = n / 32 * 32 + own; l < n / 32 * 32 + 32; l += LANES_CLASSES) mates += hits[(size_t)l];
                    REQUIRE((said[(size_t)n] == mates || (mates > 0 && said[(size_t)n] == -1)));
                    for (int i = 0; i < hits[(size_t)n] && said[(size_t)n] >= 0; i++) stored.push_back(n * LANES_HITS + i);
                    count += hits[(size_t)n];
                }
                REQUIRE(state[(size_t)own].count == count);
                REQUIRE(stored.size() == (count < state[(size_t)own].stored ? count : state[(size_t)own].stored));
                REQUIRE((count > LANES_CAPACITY) == (stored.size() < count));
                std::vector<int> held;
                for (size_t i = 0; i < stored.size(); i++) {
                    const topkit_candidate item = items[(size_t)own * LANES_CAPACITY + i];
                    REQUIRE(item.bits == 1000u + (unsigned)(item.index % LANES_HITS));
                    held.push_back(item.index);
                }
                std::sort(held.begin(), held.end());
                REQUIRE(held == stored);
            }
        });
    }
}

/* ---- appending without compaction ---- */

struct collector_record {
    unsigned count, stored, overflowed;
    int held;
};

enum { FROM_REGISTERS, FROM_STAGE, TWO_TILES, WAYS };

/* Collects a row with the results of the appends ignored: tiles from registers, from a stage, or two that adjoin at once from a stage. */
static __global__ void collector_append(test_shape shape, unsigned *others, const float *scores, int length, unsigned key, int capacity,
                                        int way, topkit_candidate *items, unsigned *failed, collector_record *out) {
    TOPKIT_SHARED(memory);
    float *stages = (float *)memory;
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    topkit_collector_state *state = (topkit_collector_state *)(stages + topkit_warps(g) * 2 * TOPKIT_TILE);
    topkit_candidate *buffer = (topkit_candidate *)(state + 1);
    const topkit_collector c = {buffer, capacity, stages + topkit_warp_rank(g) * 2 * TOPKIT_TILE, state};
    const topkit_row row = {scores, length};
    const topkit_tiles tiles = topkit_row_tiles(row);
    const topkit_gate gate = topkit_gate_at(key, TOPKIT_INDEX_LIMIT);
    const int whole = (tiles.vectors + TOPKIT_TILE_VECTORS - 1) / TOPKIT_TILE_VECTORS; /* tiles but the edge, which adjoins nothing */
    const int step = way == TWO_TILES ? 2 : 1;
    if (g.thread == 0) topkit_collector_clear(c);
    topkit_group_sync(g);
    for (int n = (int)topkit_warp_rank(g) * step; n < tiles.count; n += (int)topkit_warps(g) * step) {
        topkit_tile tile;
        bool stored = true;
        if (way == FROM_REGISTERS) {
            topkit_tile_load(tiles, n, topkit_lane(g), &tile);
            stored = topkit_collect_tile<TOPKIT_ANY>(g, c, gate, &tile);
        } else {
            for (int begin = n; begin < n + step && begin < tiles.count;) {
                unsigned mask = 0;
                int first = 0, count = 0;
                for (; begin < n + step && begin < tiles.count && (count == 0 || begin < whole); begin++, count++) {
                    topkit_tile_load(tiles, begin, topkit_lane(g), &tile);
                    mask |= topkit_gate_mask<TOPKIT_ANY>(g, gate, &tile) << (16 * count);
                    for (int u = 0; u < 4; u++) ((float4 *)c.stage)[(count * 4 + u) * 32 + (int)topkit_lane(g)] = tile.v[u];
                    if (count == 0) first = tile.first;
                }
                if (__any_sync(TOPKIT_FULL_MASK, mask != 0)) stored &= topkit_collect_staged(g, c, c.stage, first, mask);
            }
        }
        if (!stored && topkit_lane(g) == 0) atomicAdd(failed, 1u);
    }
    topkit_group_sync(g);
    if (g.thread == 0) {
        const collector_record record = {state->count, state->stored, topkit_collector_overflowed(c), topkit_collector_held(c)};
        *out = record;
    }
    for (int i = (int)g.thread; i < topkit_collector_held(c); i += (int)g.size) items[i] = buffer[i];
}

/* Candidates where the pattern says, until there are `wanted`; the rest lies below the gate. */
static score_bits patterned(int wanted, int pattern) {
    score_bits scores;
    for (int i = 0, found = 0; found < wanted; i++) {
        const int lane = i % 128 / 4, tile = i / TOPKIT_TILE;
        const bool here = pattern == 0 ? lane == 31 : pattern == 1 ? lane == tile % 32 : pattern == 2 ? true : i % 129 == 5;
        scores.push_back(bits_of(here ? 1.0f + (float)(i % 100) : -(float)i));
        found += here;
    }
    return scores;
}

TEST_CASE("collector: counts of candidates around the capacity, from one lane or all (E04)") {
    const int capacity = 150;
    everywhere([&](test_shape shape) {
        for (int wanted : {1, capacity - 1, capacity, capacity + 1, 4 * capacity}) {
            for (int pattern = 0; pattern < 4; pattern++) {
                const int way = (wanted / 150 + pattern) % WAYS, shift = pattern == 2 ? 0 : wanted % 4;
                INFO("candidates " << wanted << ", pattern " << pattern << ", way " << way);
                const score_bits scores = patterned(wanted, pattern); /* its end makes the last warp's tile a ragged one */
                device_buffer<uint32_t> row(scores, shift, true);
                device_buffer<topkit_candidate> items(capacity);
                device_buffer<unsigned> failed(1, 0);
                device_buffer<collector_record> out(1);
                const size_t shared = shape.warps * 2 * TOPKIT_TILE * sizeof(float) + sizeof(topkit_collector_state) +
                                      capacity * sizeof(topkit_candidate);
                test_run(shape, 1, shared, collector_append, (const float *)row.data, scores.size(), expected_key(bits_of(1.0f)),
                         capacity, way, items.data, failed.data, out.data);
                const collector_record record = out.read()[0];
                REQUIRE(record.count == (unsigned)wanted); /* the true number, not the stored one */
                REQUIRE(record.overflowed == (wanted > capacity));
                REQUIRE((failed.read()[0] > 0) == (wanted > capacity));
                REQUIRE((wanted > capacity ? record.held <= capacity : record.held == wanted));
                std::vector<int> indices;
                const std::vector<topkit_candidate> got = items.read();
                for (int i = 0; i < record.held; i++) {
                    REQUIRE((got[i].index >= 0 && got[i].index < (int)scores.size()));
                    REQUIRE(got[i].bits == scores[got[i].index]);
                    REQUIRE(float_of(got[i].bits) >= 1.0f);
                    indices.push_back(got[i].index);
                }
                std::sort(indices.begin(), indices.end());
                REQUIRE(std::adjacent_find(indices.begin(), indices.end()) == indices.end());
            }
        }
    });
}

/* The state after each step of the worked example in collector.cuh. */
static __global__ void collector_worked(const float *scores, collector_record *out, topkit_gate *gate, unsigned *kept) {
    TOPKIT_SHARED(memory);
    float *stage = (float *)memory;
    topkit_refiner_storage *r = (topkit_refiner_storage *)(stage + TOPKIT_TILE);
    topkit_collector_state *state = (topkit_collector_state *)(r + 1);
    topkit_candidate *items = (topkit_candidate *)(state + 1);
    const topkit_group g = topkit_group_block();
    const topkit_collector c = {items, 1024, stage, state};
    const topkit_row row = {scores, 2048};
    topkit_gate open = topkit_gate_open();
    topkit_refiner_init(g, r);
    if (g.thread == 0) {
        topkit_collector_clear(c);
        state->dropped = state->compactions = 0;
    }
    topkit_group_sync(g);
    for (int n = 0; n < 3; n++) {
        topkit_tile tile;
        topkit_tile_load(topkit_row_tiles(row), n, topkit_lane(g), &tile);
        const bool stored = topkit_collect_tile<TOPKIT_ANY>(g, c, open, &tile);
        topkit_group_sync(g);
        const collector_record record = {state->count, state->stored, !stored, topkit_collector_held(c)};
        if (g.thread == 0) out[n] = record;
        topkit_group_sync(g);
    }
    open = topkit_compact<TOPKIT_ANY>(g, c, 2, r);
    if (g.thread == 0) {
        const collector_record record = {state->count, state->stored, state->compactions, (int)state->dropped};
        out[3] = record;
        *gate = open;
        for (int i = 0; i < 2; i++) kept[i] = (unsigned)items[i].index;
    }
}

TEST_CASE("collector: worked numbers") {
    under_all_schedules([] {
        device_buffer<uint32_t> row(row_of(2048, [](int i) { return (float)i; }));
        device_buffer<collector_record> out(4);
        device_buffer<topkit_gate> gate(1);
        device_buffer<unsigned> kept(2);
        const size_t shared = TOPKIT_TILE * 4 + sizeof(topkit_refiner_storage) + sizeof(topkit_collector_state) +
                              1024 * sizeof(topkit_candidate);
        test_launch(1, 32, shared, collector_worked, (const float *)row.data, out.data, gate.data, kept.data);
        const std::vector<collector_record> r = out.read();
        REQUIRE((r[0].count == 512 && r[0].held == 512 && !r[0].overflowed));
        REQUIRE((r[1].count == 1024 && r[1].held == 1024 && !r[1].overflowed));
        REQUIRE((r[2].count == 1536 && r[2].stored == 1024 && r[2].held == 1024 && r[2].overflowed));
        REQUIRE((r[3].count == 2 && r[3].stored == 1024 && r[3].overflowed == 1 && r[3].held == 1022)); /* one compaction, 1022 dropped */
        const topkit_gate got = gate.read()[0];
        REQUIRE((got.key == expected_key(bits_of(1022.0f)) && got.bound == 0 && got.value > 1022.0f && got.value < 1023.0f));
        std::vector<unsigned> indices = kept.read();
        std::sort(indices.begin(), indices.end());
        REQUIRE(indices == std::vector<unsigned>{1022, 1023});
    });
}

/* ---- the scan ---- */

struct scan_outputs {
    int *indices;  /* (k) */
    float *values; /* (k) */
    int *held;
    topkit_collector_state *state;
};

/* Scans, and selects where enough are held. Twice: what the first leaves must serve the second. */
template <int TIES>
static __global__ void collector_scan(test_shape shape, unsigned *others, const float *scores, int length, int k, unsigned key,
                                      unsigned visit, int capacity, scan_outputs out) {
    TOPKIT_SHARED(memory);
    float *stages = (float *)memory;
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    topkit_refiner_storage *r = (topkit_refiner_storage *)(stages + topkit_warps(g) * TOPKIT_TILE);
    topkit_collector_state *state = (topkit_collector_state *)(r + 1);
    topkit_candidate *items = (topkit_candidate *)(state + 1);
    const topkit_collector c = {items, capacity, stages + topkit_warp_rank(g) * TOPKIT_TILE, state};
    const topkit_row row = {scores, length};
    const int wanted = length < k ? length : k;
    const topkit_sink_pairs sink = {out.indices, out.values, 0};
    topkit_refiner_init(g, r);
    for (int turn = 0; turn < 2; turn++) {
        if (g.thread == 0) {
            topkit_collector_clear(c);
            state->dropped = state->compactions = 0;
        }
        topkit_group_sync(g);
        const int held = topkit_scan<TIES>(g, row, k, topkit_gate_at(key, TOPKIT_INDEX_LIMIT), visit, c, r);
        if (g.thread == 0) {
            *out.held = held;
            *out.state = *state;
            topkit_collector_clear(c); /* the scan ends with a barrier: everybody knows what is held */
        }
        if (held >= wanted) {
            topkit_refine<TIES>(g, items, held, wanted, sink, r);
            topkit_sink_pad_all(g.thread, g.size, wanted, k, sink);
        }
        topkit_group_sync(g);
    }
}

struct scan_result {
    int held;
    topkit_collector_state state;
};

/* `reach`: how many scores of the row the first gate admits. Below min(k, length) the scan must say so, else the answer must be exact. */
template <int TIES> static scan_result check_scan(test_shape shape, const score_bits &scores, int k, uint32_t key, unsigned visit,
                                                  int capacity, int shift) {
    const int length = (int)scores.size(), wanted = std::min(k, length);
    INFO("ties " << TIES << ", length " << length << ", k " << k << ", gate " << key << ", visit " << visit << ", capacity " << capacity);
    device_buffer<uint32_t> row(scores, shift, true);
    device_buffer<uint32_t> values(k);
    device_buffer<int> indices(k), held(1);
    device_buffer<topkit_collector_state> state(1);
    const scan_outputs out = {indices.data, (float *)values.data, held.data, state.data};
    const size_t shared = shape.warps * TOPKIT_TILE * sizeof(float) + sizeof(topkit_refiner_storage) + sizeof(topkit_collector_state) +
                          capacity * sizeof(topkit_candidate);
    test_run(shape, 1, shared, collector_scan<TIES>, (const float *)row.data, length, k, key, visit, capacity, out);
    const scan_result result = {held.read()[0], state.read()[0]};
    const int reach = (int)std::count_if(scores.begin(), scores.end(), [key](uint32_t bits) { return expected_key(bits) >= key; });
    REQUIRE(result.held <= capacity);
    if (reach < wanted) {
        REQUIRE(result.held == reach);
        REQUIRE(result.state.compactions == 0);
    } else {
        const score_bits got_values = values.read();
        check_exact(scores, k, indices.read(), TIES, &got_values);
    }
    REQUIRE((result.state.compactions == 0 ? result.held == reach && result.state.dropped == 0 : result.state.dropped > 0));
    REQUIRE(result.held + (int)result.state.dropped <= reach);
    return result;
}

static scan_result check_scans(test_shape shape, const score_bits &scores, int k, uint32_t key, unsigned visit, int capacity) {
    check_scan<TOPKIT_LOWEST_INDEX>(shape, scores, k, key, visit, capacity, k % 4);
    return check_scan<TOPKIT_ANY>(shape, scores, k, key, visit, capacity, (k + capacity) % 4);
}

TEST_CASE("scan: the smallest buffers on rows that fill them") {
    const score_bits special = special_scores();
    everywhere([&](test_shape shape) {
        for (int kind = 0; kind < 9; kind++) {
            INFO("kind " << kind);
            const score_bits scores = row_of(3203, [&](int i) {
                switch (kind) {
                case 0: return (float)i;                                                      /* ascending */
                case 1: return -(float)i;                                                     /* descending */
                case 2: return 0.5f;                                                          /* all equal */
                case 3: return i % 83 ? 0.0f : (float)i;                                      /* zero plateau, few winners (A03) */
                case 4: return i % 5 ? NAN : (float)(i % 97);                                 /* NaN-heavy */
                case 5: return (float)(hashed(3, i) & 3);                                     /* four plateaus */
                case 6: return float_of(special[hashed(4, i) % special.size()]);              /* everything */
                case 7: return -INFINITY;
                default: return NAN;
                }
            });
            const unsigned visit = kind % 2 ? 77u + (unsigned)kind : TOPKIT_ASCENDING;
            for (int k : {1, 100, 705}) {
                check_scans(shape, scores, k, TOPKIT_NO_THRESHOLD, visit, k + TOPKIT_TILE);
                check_scans(shape, scores, k, TOPKIT_NO_THRESHOLD, visit ? TOPKIT_ASCENDING : 5u, k + TOPKIT_TILE + 1 + kind);
            }
        }
    });
}

TEST_CASE("scan: rows around k and around the capacity") {
    everywhere([](test_shape shape) {
        for (int length : {0, 1, 3, 31, 32, 33, 511, 512, 543, 544, 545, 1087, 1088, 1089}) {
            const score_bits scores = row_of(length, [length](int i) { return (float)permuted(length, i) * 0x1p-10f; });
            check_scans(shape, scores, 32, TOPKIT_NO_THRESHOLD, (unsigned)length % 2, 32 + TOPKIT_TILE);
        }
    });
}

/* One warp visits tile after tile: what it holds, drops and compacts can be told beforehand. */
TEST_CASE("scan: statistics of one warp") {
    const test_shape warp = test_shapes[2];
    under_all_schedules([&] {
        for (int k : {2, 300}) {
            const int capacity = k + TOPKIT_TILE + 200, length = 12 * TOPKIT_TILE;
            const score_bits ascending = row_of(length, [](int i) { return (float)i; });
            const score_bits descending = row_of(length, [](int i) { return -(float)i; }), plateau = row_of(length,
                                                                                                            [](int) { return 7.0f; });
            const scan_result up = check_scan<TOPKIT_ANY>(warp, ascending, k, 0, TOPKIT_ASCENDING, capacity, 0);
            int held = 0, compactions = 0, dropped = 0;
            for (int tile = 0; tile < 12; tile++) {
                if (held + TOPKIT_TILE > capacity) {
                    dropped += held - k;
                    held = k;
                    compactions++;
                }
                held += TOPKIT_TILE; /* every tile is above the gate */
            }
            REQUIRE((up.held == held && (int)up.state.compactions == compactions && (int)up.state.dropped == dropped));
            /* a descending row is done with the first compaction: nothing better comes */
            const scan_result down = check_scan<TOPKIT_ANY>(warp, descending, k, 0, TOPKIT_ASCENDING, capacity, 0);
            const int first = capacity / TOPKIT_TILE * TOPKIT_TILE;
            REQUIRE((down.held == k && down.state.compactions == 1 && (int)down.state.dropped == first - k));
            /* so is a plateau: the gate is strict */
            const scan_result flat = check_scan<TOPKIT_ANY>(warp, plateau, k, 0, TOPKIT_ASCENDING, capacity, 0);
            REQUIRE((flat.held == k && flat.state.compactions == 1 && (int)flat.state.dropped == first - k));
            const scan_result low = check_scan<TOPKIT_LOWEST_INDEX>(warp, plateau, k, 0, TOPKIT_ASCENDING, capacity, 0);
            REQUIRE((low.held == k && low.state.compactions == 1));
        }
    });
}

/* Of one warp again: of several, one that runs far ahead sees its own visits only, and they are not spread as well. */
TEST_CASE("scan: no monotone row compacts more than a few times when shuffled") {
    const test_shape warp = test_shapes[2];
    under_all_schedules([&] {
        const int length = 60 * TOPKIT_TILE + 13, k = 64, capacity = 1500;
        const score_bits up = row_of(length, [](int i) { return (float)i; }), down = row_of(length, [](int i) { return -(float)i; });
        unsigned all = 0;
        for (unsigned salt = 1; salt <= 40; salt++) {
            const unsigned rising = check_scan<TOPKIT_ANY>(warp, up, k, 0, salt, capacity, 1).state.compactions;
            const unsigned falling = check_scan<TOPKIT_ANY>(warp, down, k, 0, salt, capacity, 1).state.compactions;
            REQUIRE((rising <= 6 && falling <= 6));
            all += rising + falling;
        }
        REQUIRE(all <= 80 * 3);
        REQUIRE(check_scan<TOPKIT_ANY>(warp, up, k, 0, TOPKIT_ASCENDING, capacity, 1).state.compactions >= 29);
    });
}

TEST_CASE("scan: thresholds far too high, right, one ulp off, far too low (E03)") {
    everywhere([](test_shape shape) {
        const int length = 4093, k = 200;
        for (int kind = 0; kind < 2; kind++) {
            const score_bits scores = row_of(length, [&](int i) {
                return kind ? (float)(permuted(length, i) / 300) : (float)permuted(length, i) - 2000.0f;
            });
            score_bits sorted = scores;
            std::sort(sorted.begin(), sorted.end(), [](uint32_t a, uint32_t b) { return compare_scores(a, b) > 0; });
            const uint32_t best = expected_key(sorted[0]), kth = expected_key(sorted[k - 1]);
            for (uint32_t key : {TOPKIT_KEY_POS_INF, best + 1, best, kth + 1, kth, kth - 1, TOPKIT_KEY_NEG_INF, TOPKIT_KEY_NEG_INF + 1})
                check_scans(shape, scores, k, key, (unsigned)kind, k + TOPKIT_TILE + 100);
        }
    });
}
