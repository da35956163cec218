/* test_order.cu: sorting of selected candidates, by score and by index. Compiled once for each NaN policy (test_nan_highest.cu). */
#include "testing.h"
#include "topkit/order.cuh"

static __global__ void order_sort(test_shape shape, unsigned *others, topkit_candidate *candidates, int count, int by, int *room) {
    TOPKIT_SHARED(memory);
    topkit_candidate *items = (topkit_candidate *)memory; /* exactly as large as the contract asks for */
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    for (int i = (int)g.thread; i < count; i += (int)g.size) items[i] = candidates[i];
    topkit_group_sync(g);
    topkit_sort(g, items, count, by);
    for (int i = (int)g.thread; i < count; i += (int)g.size) candidates[i] = items[count - 1 - i]; /* reversed: read across threads */
    if (g.thread == 0) *room = topkit_sort_room(count);
}

static int order_room(int count) {
    int room = 1;
    while (room < count) room *= 2;
    return room;
}

static void check_sort(test_shape shape, std::vector<topkit_candidate> items, int by) {
    const int count = (int)items.size(), room = order_room(count);
    device_buffer<topkit_candidate> candidates(items);
    device_buffer<int> got_room(1);
    test_run(shape, 1, room * sizeof(topkit_candidate), order_sort, candidates.data, count, by, got_room.data);
    std::sort(items.begin(), items.end(), [by](const topkit_candidate &a, const topkit_candidate &b) {
        const int order = by == TOPKIT_BY_SCORE ? compare_scores(a.bits, b.bits) : 0;
        return order ? order > 0 : a.index < b.index;
    });
    std::vector<topkit_candidate> got = candidates.read();
    std::reverse(got.begin(), got.end());
    bool same = true;
    for (int i = 0; i < count; i++) same = same && got[i].bits == items[i].bits && got[i].index == items[i].index;
    REQUIRE(same);
    REQUIRE(got_room.read()[0] == room);
}

TEST_CASE("order: worked numbers") {
    everywhere([](test_shape shape) {
        const std::vector<topkit_candidate> items = {{bits_of(2.0f), 9}, {bits_of(5.0f), 2}, {bits_of(2.0f), 1}};
        check_sort(shape, items, TOPKIT_BY_SCORE);
        check_sort(shape, items, TOPKIT_BY_INDEX);
    });
}

TEST_CASE("order: any count, ties, NaN and infinities") {
    const score_bits special = special_scores();
    everywhere([&](test_shape shape) {
        for (int count : {0, 1, 2, 3, 4, 31, 64, 129, 256, 1000, 1024}) {
            INFO("count " << count);
            std::vector<topkit_candidate> items;
            for (int i = 0; i < count; i++) {
                /* ties and every kind of float; indices scattered up to the largest there is */
                const uint32_t bits = count % 2 ? special[hashed(5, i) % special.size()] : bits_of((float)(hashed(6, i) & 15));
                items.push_back({bits, permuted(count, i) * 1000 + (i == 0 ? 0x7fffffff - 1 - permuted(count, 0) * 1000 : 0)});
            }
            check_sort(shape, items, TOPKIT_BY_SCORE);
            check_sort(shape, items, TOPKIT_BY_INDEX);
        }
    });
}
