/* test_group.cu: who is who in a group, its barrier, sums and reservations of a warp. */
#include "testing.h"

struct group_record {
    unsigned thread, size, barrier, lane, warp, warps, below;
    bool operator==(const group_record &o) const { return std::memcmp(this, &o, sizeof o) == 0; }
};

static __global__ void group_numbers(test_shape shape, unsigned *others, group_record *out) {
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    const group_record record = {g.thread, g.size, g.barrier, topkit_lane(g), topkit_warp_rank(g), topkit_warps(g), topkit_lanes_below(g)};
    out[threadIdx.x] = record;
}

TEST_CASE("group: numbers of every thread") {
    everywhere([](test_shape shape) {
        device_buffer<group_record> out(shape.block_warps * 32, 0);
        test_run(shape, 1, 0, group_numbers, out.data);
        std::vector<group_record> expected(shape.block_warps * 32, group_record());
        const unsigned barrier = shape.warps == 4 && shape.block_warps == 20 ? 1 : 0;
        for (unsigned t = 0; t < shape.warps * 32; t++) {
            const group_record record = {t, shape.warps * 32, barrier, t % 32, t / 32, shape.warps, (unsigned)((1ull << t % 32) - 1)};
            expected[shape.first * 32 + t] = record;
        }
        REQUIRE(out.read() == expected);
    });
}

TEST_CASE("group: worked numbers") {
    const test_shape shape = {16, 4, 20};
    device_buffer<group_record> out(640, 0);
    test_run(shape, 1, 0, group_numbers, out.data);
    const group_record record = out.read()[545];
    REQUIRE((record.thread == 33 && record.warp == 1 && record.lane == 1));
}

/* Each thread hands a number to another one of the group, over and over in one place: a missing barrier shows in what is read. */
static __global__ void group_rotate(test_shape shape, unsigned *others, unsigned rounds, unsigned *out) {
    TOPKIT_SHARED(memory);
    unsigned *slots = (unsigned *)memory;
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    unsigned value = g.thread;
    for (unsigned round = 0; round < rounds; round++) {
        slots[g.thread] = value;
        topkit_group_sync(g);
        value = slots[(g.thread + 37) % g.size] + 1;
        topkit_group_sync(g);
    }
    out[g.thread] = value;
}

TEST_CASE("group: a sync orders the group's memory accesses") {
    everywhere([](test_shape shape) {
        const unsigned size = shape.warps * 32, rounds = 5;
        device_buffer<unsigned> out(size);
        test_run(shape, 1, size * sizeof(unsigned), group_rotate, rounds, out.data);
        std::vector<unsigned> expected;
        for (unsigned t = 0; t < size; t++) expected.push_back((t + 37 * rounds) % size + rounds);
        REQUIRE(out.read() == expected);
    });
}

static __global__ void group_sums(test_shape shape, unsigned *others, const unsigned *in, unsigned *below, unsigned *total) {
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    below[g.thread] = topkit_warp_exclusive_sum(g, in[g.thread], &total[g.thread]);
}

TEST_CASE("group: exclusive sums of a warp") {
    everywhere([](test_shape shape) {
        const unsigned size = shape.warps * 32;
        std::vector<unsigned> in, expected_below, expected_total;
        for (unsigned t = 0; t < size; t++) in.push_back((unsigned)(hashed(1, t) >> (t % 3 ? 60 : 33)));
        for (unsigned t = 0; t < size; t++) {
            const auto warp = in.begin() + t / 32 * 32;
            expected_below.push_back(std::accumulate(warp, in.begin() + t, 0u));
            expected_total.push_back(std::accumulate(warp, warp + 32, 0u));
        }
        device_buffer<unsigned> values(in), below(size), total(size);
        test_run(shape, 1, 0, group_sums, values.data, below.data, total.data);
        REQUIRE(below.read() == expected_below);
        REQUIRE(total.read() == expected_total);
    });
}

static __global__ void group_reserve(test_shape shape, unsigned *others, const unsigned *wanted, unsigned rounds, unsigned *counter,
                                     unsigned *slots) {
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    for (unsigned round = 0; round < rounds; round++) {
        const bool want = wanted[round] >> topkit_lane(g) & 1;
        const unsigned slot = topkit_warp_reserve(g, want, counter);
        slots[round * g.size + g.thread] = want ? slot : 0xffffffffu;
    }
}

TEST_CASE("group: reservations of a warp are dense, distinct and in lane order") {
    everywhere([](test_shape shape) {
        const unsigned size = shape.warps * 32;
        const std::vector<unsigned> wanted = {0, 0xffffffffu, 1, 0x80000000u, 0x00f0a50fu, 0, 0x7fffffffu};
        device_buffer<unsigned> patterns(wanted), counter(1, 0), slots(wanted.size() * size);
        test_run(shape, 1, 0, group_reserve, patterns.data, wanted.size(), counter.data, slots.data);
        const std::vector<unsigned> got = slots.read();
        std::vector<unsigned> all;
        for (unsigned i = 0; i < got.size(); i++) {
            const unsigned mask = wanted[i / size], lane = i % 32;
            if (!(mask >> lane & 1)) continue;
            all.push_back(got[i]);
            /* lane order: the distance to the warp's first taker is the number of takers between */
            const unsigned first = (unsigned)__builtin_ctz(mask), before = (unsigned)__builtin_popcount(mask & ((1u << lane) - 1));
            REQUIRE(got[i] - got[i - lane + first] == before);
        }
        REQUIRE(counter.read()[0] == all.size());
        std::sort(all.begin(), all.end());
        for (unsigned i = 0; i < all.size(); i++) REQUIRE(all[i] == i);
    });
}
