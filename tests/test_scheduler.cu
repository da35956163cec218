/* test_scheduler.cu: the queue, the order of rows and their segments: every item once, whatever blocks run together (E07). */
#include "testing.h"
#include "topkit/scheduler.cuh"

/* ---- orders and segments, one group ---- */

static __global__ void scheduler_build(test_shape shape, unsigned *others, const int *lengths, int max_length, int skip, int rows,
                                       int segment, int *order, int *first, int *totals, unsigned *dirty) {
    TOPKIT_SHARED(memory);
    topkit_digit_storage *s = (topkit_digit_storage *)memory;
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    topkit_digit_init(g, s);
    topkit_group_sync(g);
    const int filled = topkit_order_build(g, lengths, max_length, skip, rows, order, s);
    const int items = topkit_segments_build(g, lengths, max_length, order, rows - skip, segment, first, s);
    totals[g.thread * 2] = filled;
    totals[g.thread * 2 + 1] = items;
    for (int b = (int)g.thread; b < TOPKIT_DIGIT_BINS; b += (int)g.size)
        if (s->histogram[b]) atomicAdd(dirty, 1u);
}

static int clamped(int length, int max_length) { return std::max(0, std::min(length, max_length)); }

static std::vector<int> check_order(test_shape shape, const std::vector<int> &lengths, int max_length, int skip, int segment,
                                    std::vector<int> *first_items) {
    const int rows = (int)lengths.size(), count = rows - skip;
    INFO("rows " << rows << ", skipped " << skip << ", segment " << segment);
    device_buffer<int> in(lengths, 0, true), order(count), first(count + 1), totals(shape.warps * 64);
    device_buffer<unsigned> dirty(1, 0);
    test_run(shape, 1, sizeof(topkit_digit_storage), scheduler_build, in.data, max_length, skip, rows, segment, order.data, first.data,
             totals.data, dirty.data);
    const std::vector<int> got = order.read(), items = first.read(), sums = totals.read();
    REQUIRE(dirty.read()[0] == 0);

    std::vector<int> sorted = got;
    std::sort(sorted.begin(), sorted.end());
    int filled = 0, item = 0, wrong = 0;
    double shortest = 1e300; /* of the rows before */
    for (int i = 0; i < count; i++) {
        const int length = clamped(lengths[got[i]], max_length);
        wrong += sorted[i] != skip + i;
        wrong += length > shortest * 33 / 32 || (length > 0 && shortest == 0);
        shortest = std::min(shortest, (double)length);
        wrong += items[i] != item;
        filled += length > 0;
        item += length ? (length - 1) / segment + 1 : 0;
    }
    REQUIRE(wrong == 0);
    REQUIRE(items[count] == item);
    for (size_t t = 0; t < sums.size(); t += 2) wrong += sums[t] != filled || sums[t + 1] != item;
    REQUIRE(wrong == 0);
    if (first_items) *first_items = items;
    return got;
}

/* The sets of E07 and a few more. One of 10^5 rows is cut on the executor. */
static std::vector<std::vector<int>> length_sets() {
#ifdef TOPKIT_SIMT
    const int many = 800;
#else
    const int many = 100000;
#endif
    std::vector<int> zipf, mixed, powers;
    for (int r = 0; r < 300; r++) zipf.push_back(1 + (1 << 20) / (r + 1));
    for (int r = 0; r < 301; r++) mixed.push_back(r % 7 == 0 ? 0 : r % 11 == 0 ? -r : (int)(hashed(2, r) >> 40) >> r % 24);
    for (int p = 0; p < 31; p++) powers.insert(powers.end(), {(1 << p) - 1, 1 << p, (int)std::min((1ll << p) + 1, (1ll << 31) - 1)});
    powers.insert(powers.end(), {INT32_MAX, INT32_MIN});
    std::vector<int> one_long(many + 1, 1);
    one_long[many / 2] = 1000000;
    return {std::vector<int>(97, 0), std::vector<int>(130, 777), {5}, {0}, zipf, mixed, powers, one_long};
}

TEST_CASE("scheduler: orders descend, segments tile the rows") {
    for (const std::vector<int> &lengths : length_sets()) {
        everywhere([&](test_shape shape) {
            const int rows = (int)lengths.size();
            check_order(shape, lengths, INT32_MAX, 0, 1 << 20, nullptr);
            check_order(shape, lengths, 4096, 0, 100, nullptr);
            check_order(shape, lengths, 1 << 20, std::min(rows, 40), 4096, nullptr);
            check_order(shape, lengths, 1 << 20, rows, 4096, nullptr); /* nothing left to order */
        });
    }
}

TEST_CASE("scheduler: groups of any size") {
    every_size([](test_shape shape) {
        for (const std::vector<int> &lengths : length_sets()) check_order(shape, lengths, 1 << 20, 0, 4096, nullptr);
    });
}

TEST_CASE("scheduler: worked numbers") {
    everywhere([](test_shape shape) {
        std::vector<int> first;
        REQUIRE(check_order(shape, {5, 0, 70, 9}, INT32_MAX, 0, 32, &first) == std::vector<int>{2, 3, 0, 1});
        REQUIRE(first == std::vector<int>{0, 3, 4, 5, 5});
    });
}

static __global__ void scheduler_find(const int *order, const int *first, int count, int segment, int items, topkit_segment *out) {
    for (int i = (int)threadIdx.x; i < items; i += (int)blockDim.x) out[i] = topkit_segment_of(order, first, count, segment, i);
}

TEST_CASE("scheduler: items to rows and pieces") {
    /* worked numbers: row 2 from 0, 32 and 64, row 3, row 0; and an empty row in the middle, which an order never has, is stepped over */
    device_buffer<int> order(std::vector<int>{2, 3, 0, 1}), first(std::vector<int>{0, 3, 4, 5, 5}), gap(std::vector<int>{0, 2, 2, 2, 5});
    device_buffer<topkit_segment> out(5);
    const auto found = [&](const int *items) {
        test_launch(1, 32, 0, scheduler_find, order.data, items, 4, 32, 5, out.data);
        std::vector<int> flat;
        for (const topkit_segment &s : out.read()) flat.insert(flat.end(), {s.row, s.begin});
        return flat;
    };
    REQUIRE(found(first.data) == std::vector<int>{2, 0, 2, 32, 2, 64, 3, 0, 0, 0});
    REQUIRE(found(gap.data) == std::vector<int>{2, 0, 2, 32, 1, 0, 1, 32, 1, 64});
}

/* ---- the queue, several blocks ---- */

struct scheduler_shared {
    topkit_digit_storage digit;
    int build, claim, row;
};

/* Rows: each worker's first is its own number, the others come by the order, which one worker builds and those that need it wait for. */
static __global__ void scheduler_rows(test_shape shape, unsigned *others, topkit_queue *queue, const int *lengths, int rows, int *order,
                                      unsigned *visits, unsigned *built) {
    TOPKIT_SHARED(memory);
    scheduler_shared *s = (scheduler_shared *)memory;
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    const int workers = (int)gridDim.x;
    topkit_digit_init(g, &s->digit);
    if (g.thread == 0) s->build = topkit_order_begin(queue);
    topkit_group_sync(g);
    if (s->build) {
        topkit_order_build(g, lengths, INT32_MAX, workers < rows ? workers : rows, rows, order, &s->digit);
        if (g.thread == 0) {
            topkit_order_publish(queue);
            atomicAdd(built, 1u);
        }
    }
    int row = (int)blockIdx.x;
    while (row < rows) {
        if (g.thread == 0) s->claim = topkit_queue_claim(queue, workers); /* ahead: before this row is done */
        if (g.thread == g.size - 1) atomicAdd(&visits[row], 1u);
        topkit_group_sync(g);
        row = s->claim;
        if (row < rows) {
            if (g.thread == 0) {
                topkit_order_wait(queue);
                s->row = order[row - workers];
            }
            topkit_group_sync(g);
            row = s->row;
        }
        topkit_group_sync(g);
    }
    if (g.thread == 0) topkit_queue_leave(queue, workers);
}

/* Segments: the items are known only when the order is, so every worker waits for it first. An empty row has no item. */
static __global__ void scheduler_pieces(test_shape shape, unsigned *others, topkit_queue *queue, const int *lengths, int rows,
                                        int segment, int *order, int *first, unsigned *visits) {
    TOPKIT_SHARED(memory);
    scheduler_shared *s = (scheduler_shared *)memory;
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    const int workers = (int)gridDim.x;
    topkit_digit_init(g, &s->digit);
    if (g.thread == 0) s->build = topkit_order_begin(queue);
    topkit_group_sync(g);
    if (s->build) {
        topkit_order_build(g, lengths, INT32_MAX, 0, rows, order, &s->digit);
        topkit_segments_build(g, lengths, INT32_MAX, order, rows, segment, first, &s->digit);
        if (g.thread == 0) topkit_order_publish(queue);
    }
    if (g.thread == 0) topkit_order_wait(queue);
    topkit_group_sync(g);
    for (int item = (int)blockIdx.x; item < first[rows];) {
        if (g.thread == 0) {
            const topkit_segment piece = topkit_segment_of(order, first, rows, segment, item);
            const int left = lengths[piece.row] - piece.begin;
            const bool whole = piece.begin % segment == 0 && left > 0;
            atomicAdd(&visits[piece.row], whole ? (unsigned)(left < segment ? left : segment) : 0x80000000u);
            s->claim = topkit_queue_claim(queue, workers);
        }
        topkit_group_sync(g);
        item = s->claim;
        topkit_group_sync(g);
    }
    if (g.thread == 0) topkit_queue_leave(queue, workers);
}

static bool idle(topkit_queue q) { return q.next == 0 && q.left == 0 && q.builder == 0 && q.ready == 0; }

TEST_CASE("scheduler: each row and each piece once, launch after launch (E07)") {
    for (const std::vector<int> &lengths : length_sets()) {
        if (std::count_if(lengths.begin(), lengths.end(), [](int length) { return length < 0 || length > 1 << 22; })) continue;
        const int rows = (int)lengths.size(), segment = rows > 500 ? 100000 : 4096;
        everywhere([&](test_shape shape) {
            for (int blocks : {2, 7}) {
                INFO("rows " << rows << ", blocks " << blocks);
#ifdef TOPKIT_SIMT
                simt_set_resident_blocks(1 + blocks / 2);
#endif
                device_buffer<topkit_queue> queue(1, 0); /* zeroed once */
                device_buffer<int> in(lengths, 0, true), order(rows), first(rows + 1);
                device_buffer<unsigned> visits(rows, 0), covered(rows, 0), built(1, 0);
                for (unsigned launch = 1; launch <= 3; launch++) {
                    test_run(shape, blocks, sizeof(scheduler_shared), scheduler_rows, queue.data, in.data, rows, order.data, visits.data,
                             built.data);
                    REQUIRE(visits.read() == std::vector<unsigned>(rows, launch));
                    REQUIRE(built.read()[0] == launch);
                    REQUIRE(idle(queue.read()[0]));
                    test_run(shape, blocks, sizeof(scheduler_shared), scheduler_pieces, queue.data, in.data, rows, segment, order.data,
                             first.data, covered.data);
                    std::vector<unsigned> expected;
                    for (int length : lengths) expected.push_back(launch * (unsigned)length);
                    REQUIRE(covered.read() == expected);
                    REQUIRE(idle(queue.read()[0]));
                }
            }
        });
    }
#ifdef TOPKIT_SIMT
    simt_set_resident_blocks(1);
#endif
}
