/* test_usage_resident.cu: the usage examples of the pages in docs/blocks, compiled, run and checked: rows that lie in shared memory.
 *
 * test_usage.cu and test_usage_select.cu have the rest. docs/make.sh copies what lies between `[cut NAME]` and `[end]` to
 * docs/blocks/NAME.md.
 */
#include "testing.h"
#include "topkit/topkit.cuh"

/* [cut resident] */
/* The k best of a row of up to 8192 scores, which is copied once and stays in shared memory. One block. */
struct resident_select_storage {
    float place[8192 + 4 + 2048]; // the row on any 4-byte boundary, and a list of 4096 positions
    topkit_resident_storage resident;
};

static __device__ topkit_resident copy_row(topkit_group block, topkit_row row, resident_select_storage *s) {
    const topkit_resident r = topkit_resident_at(row, s->place, sizeof s->place);
    topkit_resident_copy_async(block, row, r);
    topkit_resident_init(block, &s->resident);
    topkit_copy_async_wait();
    return r;
}

static __global__ void select_resident(const float *scores, int length, int k, int *indices) {
    __shared__ __align__(16) resident_select_storage s;
    const topkit_group block = topkit_group_block();
    const topkit_row row = {scores, length};
    const topkit_sink_indices sink = {indices, 0};
    const int wanted = length < k ? length : k;
    if (wanted == 0) return;
    topkit_resident r = copy_row(block, row, &s);
    const topkit_resident_bracket bracket = topkit_resident_bound(block, r, wanted, &s.resident);
    topkit_resident_list(block, bracket, wanted, &r, &s.resident);
    topkit_resident_search<TOPKIT_ANY>(block, bracket, wanted, &r, &s.resident);
    topkit_resident_emit(block, r, sink);
    topkit_resident_settle(block, r.listed, wanted, sink, &s.resident); // the next row's copy might be under way here
}
/* [end] */

/* [cut resident_search] */
/* The same by radix steps alone, with no bounds from the row: for scores of which nothing is known but that they are hard. One block; its
 * storage and copy_row are on the page of resident. */
static __global__ void select_by_digits(const float *scores, int length, int k, int *indices) {
    __shared__ __align__(16) resident_select_storage s;
    const topkit_group block = topkit_group_block();
    const topkit_resident_bracket anything = {0u, 0xffffffffu, 0.0f, 0.0f, false, false};
    const topkit_sink_indices sink = {indices, 0};
    topkit_resident r = copy_row(block, {scores, length}, &s);
    topkit_group_sync(block); // what others copied, too
    r.listed = -1;
    topkit_resident_search<TOPKIT_ANY>(block, anything, k, &r, &s.resident); // 1 <= k <= length
    topkit_resident_emit(block, r, sink);
    topkit_resident_settle(block, r.listed, k, sink, &s.resident);
}
/* [end] */

TEST_CASE("usage: resident and resident_search") {
    const int n = 8001, k = 2048;
    for (int kind = 0; kind < 2; kind++) {
        const score_bits scores = row_of(n, [=](int i) { return kind == 0 ? (float)permuted(n, i) : (float)(hashed(2, i) % 3); });
        device_buffer<uint32_t> in(scores, 1);
        for (const auto kernel : {select_resident, select_by_digits}) {
            under_all_schedules([&] {
                device_buffer<int> indices(k);
                test_launch(1, 256, 0, kernel, (const float *)in.data, n, k, indices.data);
                check_exact(scores, k, indices.read(), TOPKIT_ANY);
            });
        }
    }
}
