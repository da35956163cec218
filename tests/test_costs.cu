/* test_costs.cu: what the heads say of storage and barriers. Barriers are counted by the executor; a GPU checks the sizes alone. */
#include "testing.h"
#include "topkit/topkit.cuh"

TEST_CASE("costs: storage") {
    REQUIRE(sizeof(topkit_signal) == 8);
    REQUIRE(sizeof(topkit_candidate) == 8);
    REQUIRE(sizeof(topkit_gate) == 12);
    REQUIRE(sizeof(topkit_queue) == 16);
    REQUIRE(std::round(sizeof(topkit_digit_storage) / 100.0) == 46);
    REQUIRE(std::round(sizeof(topkit_refiner_storage) / 100.0) == 77);
    REQUIRE(std::round(sizeof(topkit_team_storage) / 100.0) == 185);
}

#ifdef TOPKIT_SIMT
enum call { NOTHING, RANGE, FIND, SAMPLE, SAMPLE_SECOND, SAMPLE_ROUGHLY, CROWDS, INDICES, ORDER, SEGMENTS, SORT, SORT_EQUALS, CALLS };

static __global__ void costs_call(int which, const float *scores, int count, const int *numbers, int *out) {
    TOPKIT_SHARED(memory);
    topkit_digit_storage *s = (topkit_digit_storage *)memory;
    topkit_candidate *items = (topkit_candidate *)(memory + (sizeof *s + 7) / 8 * 8);
    const topkit_group g = topkit_group_block();
    unsigned low = g.thread, high = g.thread;
    topkit_digit_init(g, s);
    for (int i = (int)g.thread; i < count; i += (int)g.size) {
        items[i].bits = i < count / 2 ? 0u : __float_as_uint(scores[i]);
        items[i].index = i;
    }
    topkit_group_sync(g);
    if (which == RANGE) topkit_digit_range(g, s, &low, &high);
    if (which == FIND) { /* of one value, counted behind the kernel's own barrier */
        if (g.thread == 0) topkit_digit_count(s, 5);
        topkit_digit_find(g, s, 1, true);
    }
    if (which == SAMPLE) topkit_propose_from_sample(g, scores, count, 10, 0, s);
    if (which == SAMPLE_SECOND) topkit_propose_from_sample(g, scores, count, 10, 20, s);
    if (which == SAMPLE_ROUGHLY) topkit_propose_roughly(g, scores, count, 10, s);
    if (which == CROWDS) topkit_sample_crowds(g, scores, count, 4, 1, s);
    if (which == INDICES) topkit_propose_from_indices(g, scores, count, numbers, count, s);
    if (which == ORDER) topkit_order_build(g, numbers, count, 0, count, out, s);
    if (which == SEGMENTS) topkit_segments_build(g, numbers, count, numbers, count, 100, out, s);
    const topkit_sink_indices sink = {out, 0};
    if (which == SORT || which == SORT_EQUALS)
        topkit_sort(g, items, count, which == SORT ? TOPKIT_BY_INDEX : TOPKIT_BY_SCORE, sink, s);
}

TEST_CASE("costs: barriers") {
    const int count = 1000, threads = 128;
    std::vector<int> ascending(count);
    std::iota(ascending.begin(), ascending.end(), 0);
    device_buffer<uint32_t> scores(row_of(count, [](int i) { return uniform(1, i); }));
    device_buffer<int> numbers(ascending), out(count + 1);
    std::vector<int> barriers;
    for (int which = NOTHING; which < CALLS; which++) {
        const unsigned long long before = simt_read_statistics().barriers;
        test_launch(1, threads, sizeof(topkit_digit_storage) + 8 + topkit_sort_room(count) * sizeof(topkit_candidate), costs_call, which,
                    (const float *)scores.data, count, numbers.data, out.data);
        barriers.push_back((int)(simt_read_statistics().barriers - before) - 1); /* one is the kernel's own */
    }
    /* segments take 8 steps of 128 rows */
    REQUIRE(barriers == std::vector<int>{0, 1, 2, 4, 6, 2, 2, 2, 5, 2 * 8 + 1, 10, 10 + 6});
}
#endif
