/* test_team.cu: what the blocks of a team agree on, in clusters and in memory: meetings, a histogram's boundary, the k best of all.
 *
 * A team of each size takes its turn; each under every schedule. What is delivered is compared with an oracle's answer, slot by slot: each
 * is written once. Nothing of a team may be left behind: neither arrivals nor counts.
 */
#include "testing.h"
#include "topkit/team.cuh"

struct team_shape {
    int blocks, threads;
    bool meets; /* in memory; else the blocks are a cluster */
};

static const team_shape SHAPES[] = {{2, 256, false}, {2, 512, true}, {3, 256, false}, {5, 256, true}, {16, 256, false}, {1, 512, false},
                                    {7, 256, false}, {3, 256, true}, {8, 512, false}, {13, 256, true}};

static team_shape next_shape() {
    static unsigned turn;
    team_shape shape = SHAPES[turn++ % (sizeof SHAPES / sizeof *SHAPES)];
    if (!shape.meets) shape.blocks = std::min(shape.blocks, test_cluster_blocks());
    return shape;
}

struct team_place {
    unsigned char *workspace;
    unsigned *arrivals; /* null: a cluster */
};

struct team_test_storage {
    topkit_refiner_storage refiner;
    topkit_team_storage team;
};

template <class... P, class... A> static void run_team(team_shape shape, void (*kernel)(team_place, P...), A... arguments) {
    device_buffer<unsigned char> workspace((size_t)(2048 + 2048 * shape.blocks)); /* no more than the head says */
    device_buffer<unsigned> arrivals(1, 0);
#ifdef TOPKIT_SIMT
    simt_set_sm_count(32);
#endif
    INFO(shape.blocks << " blocks of " << shape.threads << (shape.meets ? " that meet in memory" : " in a cluster"));
    const team_place place = {workspace.data, shape.meets ? arrivals.data : nullptr};
    test_launch_clusters(shape.meets ? 0 : shape.blocks, dim3((unsigned)shape.blocks), (unsigned)shape.threads, sizeof(team_test_storage),
                         kernel, place, arguments...);
    workspace.read();
    REQUIRE(arrivals.read()[0] == 0);
#ifdef TOPKIT_SIMT
    simt_set_sm_count(4);
#endif
}

static __device__ topkit_team team_of(team_place place, topkit_team_storage *s, int begin) {
    if (place.arrivals) return topkit_team_resident(blockIdx.x, gridDim.x, place.workspace, place.arrivals, begin);
    topkit_cluster_enter();
    return topkit_team_cluster(s, begin);
}

/* ---- meetings ---- */

/* Each block writes a word for each meeting, and behind it all of them read all words; then the last one reads what was written since. */
static __global__ void team_meetings(team_place place, unsigned *words, unsigned *wrong, unsigned *lasts, unsigned meetings, bool leaves) {
    TOPKIT_SHARED(memory);
    team_test_storage *s = (team_test_storage *)memory;
    const topkit_group block = topkit_group_block();
    topkit_team team = team_of(place, &s->team, 0);
    if (!place.arrivals) topkit_cluster_wait();
    for (unsigned m = 1; m <= meetings; m++) {
        if (block.thread == block.size - 1) words[team.block] = m;
        topkit_team_meet(block, &team);
        for (unsigned b = block.thread; b < team.blocks; b += block.size)
            if (words[b] != m) atomicAdd(wrong, 1u);
        topkit_team_meet(block, &team);
    }
    if (block.thread == 33) words[team.block] = 1000 + team.block;
    if (leaves) {
        topkit_team_leave(block, &team);
        return;
    }
    if (!topkit_team_last(block, &team, &s->team)) return;
    if (block.thread == 0) atomicAdd(lasts, 1u);
    for (unsigned b = block.thread; b < team.blocks; b += block.size)
        if (words[b] != 1000 + b) atomicAdd(wrong, 1u);
}

TEST_CASE("team: all meet, one is the last, and nothing is left behind") {
    for (const team_shape &shape : SHAPES) {
        if (!shape.meets && shape.blocks > test_cluster_blocks()) continue;
        under_all_schedules([&] {
            device_buffer<unsigned> words((size_t)shape.blocks, 0), wrong(1, 0), lasts(1, 0);
            for (unsigned meetings : {0u, 3u}) {
                run_team(shape, team_meetings, words.data, wrong.data, lasts.data, meetings, true);
                run_team(shape, team_meetings, words.data, wrong.data, lasts.data, meetings, false);
            }
            REQUIRE(wrong.read()[0] == 0);
            REQUIRE(lasts.read()[0] == 2);
            for (int b = 0; b < shape.blocks; b++) REQUIRE(words.read()[(size_t)b] == 1000u + (unsigned)b);
        });
    }
}

/* ---- a step: three of them, each with its own counts ---- */

static const int STEPS = 3;

static __global__ void team_steps(team_place place, const unsigned *counts, unsigned rank, topkit_team_found *found) {
    TOPKIT_SHARED(memory);
    team_test_storage *s = (team_test_storage *)memory;
    const topkit_group block = topkit_group_block();
    topkit_team team = team_of(place, &s->team, 0);
    topkit_digit_init(block, &s->refiner.digit);
    topkit_group_sync(block);
    for (unsigned step = 0; step < STEPS; step++) {
        for (unsigned bin = block.thread; bin < TOPKIT_TEAM_BINS; bin += block.size)
            for (unsigned n = counts[(step * team.blocks + team.block) * TOPKIT_TEAM_BINS + bin]; n > 0; n--)
                topkit_digit_count(&s->refiner.digit, bin);
        const topkit_team_found f = topkit_team_find(block, &team, rank, &s->refiner.digit, &s->team);
        found[(step * team.blocks + team.block) * block.size + block.thread] = f;
    }
    topkit_team_leave(block, &team);
}

static void check_steps(team_shape shape, unsigned rank) {
    INFO(shape.blocks << " blocks, rank " << rank);
    const size_t blocks = (size_t)shape.blocks, threads = (size_t)shape.threads;
    std::vector<unsigned> counts(STEPS * blocks * TOPKIT_TEAM_BINS, 0);
    for (size_t i = 0; i < counts.size(); i++) { /* few, none, and many in a bin; a block that has nothing; the ends in every step */
        const size_t bin = i % TOPKIT_TEAM_BINS, step = i / TOPKIT_TEAM_BINS / blocks, b = i / TOPKIT_TEAM_BINS % blocks;
        if (b % 4 == 1) continue;
        counts[i] = bin * (step + 1) % 97 == 7 ? 300 : hashed((uint32_t)step, (uint32_t)i) % 8 == 0 ? 2 : 0;
        if (bin == (step == 1 ? TOPKIT_TEAM_BINS - 1u : 0u)) counts[i] = 5;
    }
    device_buffer<unsigned> in(counts);
    device_buffer<topkit_team_found> out(STEPS * blocks * threads);
    run_team(shape, team_steps, (const unsigned *)in.data, rank, out.data);
    const std::vector<topkit_team_found> got = out.read();
    for (size_t step = 0; step < STEPS; step++) {
        const unsigned *all = counts.data() + step * blocks * TOPKIT_TEAM_BINS;
        const auto sum = [&](size_t first, size_t end, size_t bin) {
            unsigned n = 0;
            for (size_t b = first; b < end; b++) n += all[b * TOPKIT_TEAM_BINS + bin];
            return n;
        };
        unsigned bin = TOPKIT_TEAM_BINS, reach = 0;
        while (bin > 0 && reach < rank) reach += sum(0, blocks, --bin);
        for (size_t b = 0; b < blocks; b++) {
            topkit_team_found expected = {bin, reach - sum(0, blocks, bin), sum(0, blocks, bin), 0, sum(0, b, bin)};
            for (unsigned above = bin + 1; above < TOPKIT_TEAM_BINS; above++) expected.above_before += sum(0, b, above);
            if (reach < rank) expected = {0xffffffffu, 0, 0, 0, 0};
            for (size_t t = 0; t < threads; t++) {
                const topkit_team_found &f = got[(step * blocks + b) * threads + t];
                if (std::memcmp(&f, &expected, sizeof f)) FAIL("step " << step << ", block " << b << ", thread " << t << ": bin " << f.bin);
            }
        }
    }
}

TEST_CASE("team: every block finds the bin of a rank, and its own place there") {
    for (unsigned rank : {1u, 2u, 300u, 1000000u}) under_all_schedules([&] { check_steps(next_shape(), rank); });
#ifndef TOPKIT_TEST_BRIEF /* more columns than a thread loads at once, and twice as many */
    for (int blocks : {17, 33, 48}) check_steps({blocks, 256, true}, 100);
#endif
}

/* ---- the k best, of two searches by one team ---- */

/* Slots where all are to be delivered; writes: of each, and behind them of those that are none. */
struct team_sink {
    int *indices;
    unsigned *bits, *writes;
    int k;
};
TOPKIT_FN void topkit_sink_put(team_sink s, int slot, int index, unsigned bits) {
    atomicAdd(&s.writes[slot >= 0 && slot < s.k ? slot : s.k], 1u);
    if (slot < 0 || slot >= s.k) return;
    s.indices[slot] = index;
    s.bits[slot] = bits;
}

struct team_question {
    int k, length;
    unsigned low, high;
};

template <int TIES>
static __global__ void team_select(team_place place, const topkit_candidate *items, const int *firsts, const int *begins, team_question q,
                                   team_sink sink, unsigned *steps, unsigned *dirty) {
    TOPKIT_SHARED(memory);
    team_test_storage *s = (team_test_storage *)memory;
    const topkit_group block = topkit_group_block();
    const int first = firsts[blockIdx.x], count = firsts[blockIdx.x + 1] - first;
    topkit_team team = team_of(place, &s->team, begins[blockIdx.x]);
    topkit_refiner_init(block, &s->refiner);
    topkit_group_sync(block);
    for (int round = 0; round < 2; round++) {
        const unsigned meetings = team.meetings;
        const topkit_team_boundary b = topkit_team_search<TIES>(block, &team, items + first, count, q.k, q.low, q.high, q.length,
                                                                &s->refiner.digit, &s->team);
        if (block.thread == 0) steps[blockIdx.x] = team.meetings - meetings;
        if (b.region.inside == 0) continue;
        const unsigned own = topkit_team_emit<TIES>(block, &team, items + first, count, q.k, b, sink, &s->refiner);
        if (topkit_team_settles<TIES>(b)) topkit_team_meet(block, &team);
        topkit_team_settle(block, &team, own, q.k, b, sink, &s->refiner);
        sink.indices += q.k;
        sink.bits += q.k;
        sink.writes += q.k + 1;
    }
    topkit_team_leave(block, &team);
    topkit_group_sync(block);
    for (unsigned bin = block.thread; bin < TOPKIT_DIGIT_BINS; bin += block.size) atomicAdd(dirty, s->refiner.digit.histogram[bin]);
    if (block.thread < 2) atomicAdd(dirty, s->refiner.counts[block.thread]);
}

struct team_row {
    score_bits scores;
    std::vector<int> ends; /* of the blocks' parts */
    uint32_t low, high;    /* what is held, and the guess */
    int length;            /* above all indices */
    bool shuffled;
};

/* Returns the steps of a search, and what it wrote. */
static unsigned check_select(team_shape shape, const team_row &row, int k, int ties, std::vector<int> *indices = nullptr) {
    INFO("k " << k << ", ties " << ties << ", low " << row.low << ", high " << row.high);
    std::vector<topkit_candidate> items;
    std::vector<int> firsts = {0}, begins;
    for (int b = 0, i = 0; b < shape.blocks; b++) {
        begins.push_back(i);
        const size_t first = items.size();
        for (; i < row.ends[(size_t)b]; i++)
            if (expected_key(row.scores[(size_t)i]) >= row.low) items.push_back({row.scores[(size_t)i], i - begins.back()});
        if (row.shuffled) std::reverse(items.begin() + (long)first, items.end());
        firsts.push_back((int)items.size());
    }
    const bool enough = k <= (int)items.size();
    device_buffer<topkit_candidate> in(items, 0, true);
    device_buffer<int> in_firsts(firsts), in_begins(begins), out((size_t)k * 2);
    device_buffer<unsigned> bits((size_t)k * 2), writes((size_t)k * 2 + 2, 0), steps((size_t)shape.blocks), dirty(1, 0);
    const team_question question = {k, row.length, row.low, row.high};
    const team_sink sink = {out.data, bits.data, writes.data, k};
    run_team(shape, ties == TOPKIT_ANY ? team_select<TOPKIT_ANY> : team_select<TOPKIT_LOWEST_INDEX>, (const topkit_candidate *)in.data,
             (const int *)in_firsts.data, (const int *)in_begins.data, question, sink, steps.data, dirty.data);
    REQUIRE(dirty.read()[0] == 0);
    const std::vector<unsigned> written = writes.read(), all_bits = bits.read(), all_steps = steps.read();
    const std::vector<int> all = out.read();
    REQUIRE(std::count(all_steps.begin(), all_steps.end(), all_steps[0]) == shape.blocks);
    for (int round = 0; round < 2; round++) {
        const auto once = written.begin() + round * (k + 1), behind = once + k;
        REQUIRE(std::count(once, behind, enough ? 1u : 0u) == k);
        REQUIRE(*behind == 0); /* no slot but these */
        const score_bits values(all_bits.begin() + round * k, all_bits.begin() + (round + 1) * k);
        if (enough) check_exact(row.scores, k, std::vector<int>(all.begin() + round * k, all.begin() + (round + 1) * k), ties, &values);
    }
    if (indices) indices->assign(all.begin(), all.begin() + k);
    return all_steps[0];
}

/* Parts of any length, some of none. */
static team_row row_for(team_shape shape, const score_bits &scores, bool shuffled = false) {
    team_row row = {scores, {}, 0, 0xffffffffu, (int)scores.size(), shuffled};
    unsigned all = 0, sum = 0;
    for (int b = 0; b < shape.blocks; b++) all += (unsigned)(hashed(77, (uint32_t)b) % 5);
    for (int b = 0; b < shape.blocks; b++) {
        sum += (unsigned)(hashed(77, (uint32_t)b) % 5);
        row.ends.push_back(b == shape.blocks - 1 ? row.length : (int)((size_t)row.length * sum / std::max(all, 1u)));
    }
    return row;
}

TEST_CASE("team: worked numbers") {
    if (test_cluster_blocks() < 2) return;
    for (bool meets : {false, true}) {
        under_all_schedules([&] {
            std::vector<int> got;
            const score_bits scores = {0x3f800009u, 0x3f800007u, 0x3f800003u, 0x3f800008u, 0x3f800006u, 0x3f800002u};
            const team_row row = {scores, {3, 6}, 0xbf800000u, 0xbf800009u, 6, false};
            REQUIRE(check_select({2, 256, meets}, row, 3, TOPKIT_ANY, &got) == 1);
            REQUIRE(got == std::vector<int>{0, 3, 1});
        });
    }
}

/* The row of each kind of scores, under guesses that are right, too low, too high, and for some k in all of its range. */
static void check_kind(const score_bits &scores, std::vector<int> ks) {
    static unsigned turn;
    const std::vector<int> order = ranking(scores);
    const uint32_t top = expected_key(scores[(size_t)order[0]]), least = expected_key(scores[(size_t)order.back()]);
    under_all_schedules([&] {
        for (int k : ks) {
            const team_shape shape = next_shape();
            team_row row = row_for(shape, scores, turn++ % 2);
            const uint32_t gate = expected_key(scores[(size_t)order[std::min(scores.size() - 1, (size_t)k * 3 / 2)]]);
            const uint32_t guesses[][2] = {{gate, top}, {0, 0xffffffffu}, {least, least}, {gate, gate}, {gate, 0xffffffffu}};
            row.low = guesses[turn % 5][0];
            row.high = guesses[turn % 5][1];
            if (turn % 3 == 0) row.length = 1 << 20; /* indices crowd at one end */
            check_select(shape, row, k, turn / 2 % 2 ? TOPKIT_ANY : TOPKIT_LOWEST_INDEX);
        }
    });
}

TEST_CASE("team: the k best of all, whatever they are") {
    const int n = 1500;
    check_kind(row_of(n, [](int i) { return uniform(1, i); }), {1, 40, 700, n - 1, n});
    check_kind(row_of(n, [](int) { return 1.0f; }), {1, 300, 1400, n}); /* a plateau, and by index */
    check_kind(row_of(n, [](int i) { return i % 3 ? 1.0f : 2.0f + (float)(i % 7); }), {100, 510, 1300});
    check_kind(row_of(n, [](int i) { return i % 400 == 7 ? 3e38f : 1.0f + 0x1p-20f * uniform(2, i); }), {3, 4, 5, 600}); /* outliers */
    check_kind(row_of(n, [](int i) { return float_of(0x3f800000u + permuted(n, i)); }), {1, 257, 900}); /* one bin at first */
    const score_bits special = special_scores(); /* NaNs, infinities, both zeros, denormals */
    check_kind(row_of(n, [&](int i) { return i % 5 ? float_of(special[hashed(3, i) % special.size()]) : (float)i; }), {2, 200, 800, n});
    for (uint32_t bits : {0xff800000u, 0x7fc00001u}) check_kind(score_bits((size_t)n, bits), {700});
}

TEST_CASE("team: one step where few share a bin, and nothing where all hold fewer than k") {
    under_all_schedules([] {
        const team_shape shape = next_shape();
        team_row row = row_for(shape, row_of(1500, [](int i) { return 1.0f + (float)permuted(1500, i) / 1500; }));
        row.low = expected_key(bits_of(1.5f)); /* 750 are held */
        row.high = expected_key(bits_of(2.0f));
        REQUIRE(check_select(shape, row, 750, TOPKIT_LOWEST_INDEX) == 1);
        REQUIRE(check_select(shape, row, 500, TOPKIT_ANY) == 1);
        REQUIRE(check_select(shape, row, 751, TOPKIT_ANY) == 1);
        row.low = expected_key(bits_of(3.0f));
        REQUIRE(check_select(shape, row, 1, TOPKIT_LOWEST_INDEX) == 1);
    });
}
