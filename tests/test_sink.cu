/* test_sink.cu: the five sinks, padding, and rows that are copied out whole. */
#include "testing.h"
#include "topkit/sink.cuh"

/* Puts `selected` with the bits index * 3 at slots 0 .. m-1 and pads up to k. */
template <class SINK> TOPKIT_FN void sink_fill(topkit_group g, const int *selected, int m, int k, SINK sink) {
    for (int slot = (int)g.thread; slot < m; slot += (int)g.size) topkit_sink_put(sink, slot, selected[slot], (unsigned)selected[slot] * 3);
    topkit_sink_pad_all(g.thread, g.size, m, k, sink);
}

struct sink_targets {
    int *indices, *slots;
    unsigned *mask, *sum;
    float *values;
    const int *table;
    int base, page_bits;
};

struct sink_sum { /* what a caller's own struct looks like; a lambda is tested below */
    unsigned *sum;
    __device__ void operator()(int slot, int index, unsigned bits) const { atomicAdd(sum, (unsigned)(slot * 7 + index) + bits); }
};

static __global__ void sink_all(test_shape shape, unsigned *others, const int *selected, int m, int k, sink_targets t, int which) {
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    const topkit_sink_indices indices = {t.indices, t.base};
    const topkit_sink_pairs pairs = {t.indices, t.values, t.base};
    const topkit_sink_pages pages = {t.slots, t.table, t.page_bits};
    const topkit_sink_mask mask = {t.mask};
    const topkit_sink_call<sink_sum> call = {{t.sum}};
    if (which == 0) sink_fill(g, selected, m, k, indices);
    if (which == 1) sink_fill(g, selected, m, k, pairs);
    if (which == 2) sink_fill(g, selected, m, k, pages);
    if (which == 3) sink_fill(g, selected, m, k, mask);
    if (which == 4) sink_fill(g, selected, m, k, call);
}

TEST_CASE("sink: indices, pairs, pages, mask, call") {
    const std::vector<int> selected = {70, 0, 127, 64, 31, 32, 3, 200}, table = {5, 9, 2, 40};
    const int m = (int)selected.size(), k = 13, base = 1000, page_bits = 6;
    const std::vector<int> untouched(k, 0x7f7f7f7f);
    everywhere([&](test_shape shape) {
        for (int which = 0; which < 5; which++) {
            for (bool with_values : {true, false}) {
                INFO("sink " << which << ", values " << with_values);
                device_buffer<int> in(selected), pages(table), indices(k), slots(k);
                device_buffer<unsigned> mask(7, 0), sum(1, 0), values(k);
                const sink_targets t = {indices.data, slots.data, mask.data, sum.data, with_values ? (float *)values.data : nullptr,
                                        pages.data, base, page_bits};
                test_run(shape, 1, 0, sink_all, in.data, m, k, t, which);
                std::vector<int> expected_indices = untouched, expected_slots = untouched;
                std::vector<unsigned> expected_values(k, 0x7f7f7f7f), expected_mask(7, 0);
                unsigned expected_sum = 0;
                for (int slot = 0; slot < k; slot++) {
                    const int index = slot < m ? selected[slot] : -1;
                    if (which <= 1) expected_indices[slot] = slot < m ? base + index : -1;
                    if (which == 1 && with_values) expected_values[slot] = slot < m ? (unsigned)index * 3 : 0xff800000u;
                    if (which == 2) expected_slots[slot] = slot < m ? table[index / 64] * 64 + index % 64 : -1;
                    if (which == 3 && slot < m) expected_mask[index / 32] |= 1u << index % 32;
                    if (which == 4 && slot < m) expected_sum += (unsigned)(slot * 7 + index) + (unsigned)index * 3;
                }
                REQUIRE(indices.read() == expected_indices);
                REQUIRE(slots.read() == expected_slots);
                REQUIRE(values.read() == expected_values);
                REQUIRE(mask.read() == expected_mask);
                REQUIRE(sum.read()[0] == expected_sum);
            }
        }
    });
}

static __global__ void sink_worked(int *indices, int *slots, const int *table, unsigned *mask) {
    const topkit_sink_indices to_indices = {indices, 1000};
    const topkit_sink_pages to_pages = {slots, table, 6};
    const topkit_sink_mask to_mask = {mask};
    if (threadIdx.x == 0) {
        topkit_sink_put(to_indices, 3, 70, 0);
        topkit_sink_put(to_pages, 3, 70, 0);
        topkit_sink_put(to_mask, 3, 70, 0);
    }
}

TEST_CASE("sink: worked numbers") {
    device_buffer<int> indices(4), slots(4), table(std::vector<int>{5, 9});
    device_buffer<unsigned> mask(3, 0);
    test_launch(1, 32, 0, sink_worked, indices.data, slots.data, table.data, mask.data);
    REQUIRE(indices.read()[3] == 1070);
    REQUIRE(slots.read()[3] == 582);
    REQUIRE(mask.read() == std::vector<unsigned>{0, 0, 1u << 6});
}

static __global__ void sink_short_row(test_shape shape, unsigned *others, const float *scores, int length, int k, int *indices,
                                      float *values, int *last) {
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    const topkit_sink_pairs pairs = {indices, values, 0};
    topkit_sink_identity(g.thread, g.size, scores, length, k, pairs);
    auto note = [last](int slot, int index, unsigned bits) { atomicMax(last, slot + index + (int)(bits & 1)); };
    const topkit_sink_call<decltype(note)> call = {note};
    topkit_sink_identity(g.thread, g.size, scores, length, k, call);
}

TEST_CASE("sink: a short row is copied out in order and padded") {
    everywhere([](test_shape shape) {
        for (int length : {0, 1, 31, 130, 200}) {
            const int k = 200;
            score_bits scores = row_of(length, [](int i) { return (float)(i % 7); });
            if (length) scores.back() = 0x7f800001u; /* a NaN keeps its payload */
            device_buffer<uint32_t> in(scores, 0, true), values(k);
            device_buffer<int> indices(k), last(1, 0);
            test_run(shape, 1, 0, sink_short_row, (const float *)in.data, length, k, indices.data, (float *)values.data, last.data);
            std::vector<int> expected(k, -1);
            std::iota(expected.begin(), expected.begin() + length, 0);
            REQUIRE(indices.read() == expected);
            scores.resize(k, 0xff800000u);
            REQUIRE(values.read() == scores);
            REQUIRE(last.read()[0] == (length ? 2 * length - 1 : 0));
        }
    });
}
