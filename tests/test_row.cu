/* test_row.cu: rows of a ragged batch, and that their tiles hold every score once and nothing else. */
#include "testing.h"
#include "topkit/row.cuh"

struct row_record {
    long long offset;
    int length;
    bool operator==(const row_record &o) const { return offset == o.offset && length == o.length; }
};

static __global__ void row_views(const float *scores, long long stride, const int *starts, const int *lengths, int max_length, int rows,
                                 row_record *out) {
    for (int r = (int)threadIdx.x; r < rows; r += (int)blockDim.x) {
        const topkit_row row = topkit_row_at(scores, stride, starts, lengths, max_length, r);
        out[r].offset = row.scores - scores;
        out[r].length = row.length;
    }
}

TEST_CASE("row: views of a ragged batch") {
    const std::vector<int> lengths = {5, 0, -3, 11, 10, INT32_MIN, INT32_MAX}, starts = {2, 1 << 30, 7, 0, 3, 1 << 30, 1};
    const int rows = (int)lengths.size();
    const long long stride = (1ll << 31) + 7; /* only addresses are computed */
    device_buffer<int> length(lengths), start(starts);
    device_buffer<float> scores(4);
    device_buffer<row_record> out(rows);
    const auto view = [&](const int *s, const int *l) {
        test_launch(1, 32, 0, row_views, scores.data, stride, s, l, 10, rows, out.data);
        return out.read();
    };
    /* an empty row's start is not looked at: it may be anything */
    const std::vector<row_record> both = {{2, 5}, {stride, 0}, {stride * 2, 0}, {stride * 3, 10}, {stride * 4 + 3, 10}, {stride * 5, 0},
                                          {stride * 6 + 1, 10}};
    REQUIRE(view(start.data, length.data) == both);
    std::vector<row_record> expected = both;
    for (int r = 0; r < rows; r++) expected[r].offset = stride * r;
    REQUIRE(view(nullptr, length.data) == expected);
    for (int r = 0; r < rows; r++) expected[r] = {stride * r + starts[r], 10};
    REQUIRE(view(start.data, nullptr) == expected);
}

/* seen[i]: how often score i turned up with its own value; seen[length]: what does not belong to the row. plan: head, vectors, count.
 * `staged`: the tiles are brought to shared memory first and loaded from there. */
static __global__ void row_visit(test_shape shape, unsigned *others, const float *scores, int length, int staged, unsigned *seen,
                                 int *plan, int *firsts) {
    TOPKIT_SHARED(memory);
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    const topkit_row row = {scores, length};
    const topkit_tiles tiles = topkit_row_tiles(row);
    const int lane = (int)topkit_lane(g);
    if (g.thread == 0) {
        plan[0] = tiles.head;
        plan[1] = tiles.vectors;
        plan[2] = tiles.count;
    }
    for (int n = (int)topkit_warp_rank(g); n < tiles.count; n += (int)topkit_warps(g)) {
        topkit_tile tile;
        const int left = tiles.vectors - n * TOPKIT_TILE_VECTORS;
        if (staged && left > 0) {
            float4 *stage = (float4 *)memory + topkit_warp_rank(g) * TOPKIT_TILE_VECTORS;
            const float4 *from = (const float4 *)(scores + tiles.head) + n * TOPKIT_TILE_VECTORS;
            for (int v = lane; v < TOPKIT_TILE_VECTORS && v < left; v += 32) stage[v] = from[v];
            __syncwarp();
            topkit_tile_load_from(stage, left, tiles.head + n * TOPKIT_TILE, false, (unsigned)lane, &tile);
            __syncwarp();
        } else if (staged) {
            topkit_tile_load_edge(tiles, (unsigned)lane, &tile);
        } else {
            topkit_tile_load(tiles, n, (unsigned)lane, &tile);
        }
        if (lane == 0) firsts[n] = tile.first;
        for (int bit = 0; bit < 16; bit++) {
            if (!(tile.valid >> bit & 1)) continue;
            const int index = tile.first + (bit >> 2) * 128 + lane * 4 + (bit & 3);
            const float4 v = tile.v[bit >> 2];
            const float score = (bit & 3) == 0 ? v.x : (bit & 3) == 1 ? v.y : (bit & 3) == 2 ? v.z : v.w;
            const bool inside = index >= 0 && index < length;
            atomicAdd(&seen[inside && __float_as_uint(score) == __float_as_uint(scores[index]) ? index : length], 1u);
        }
        if (tile.valid >> 16) atomicAdd(&seen[length], 1u);
    }
}

static score_bits distinct_scores(int n) {
    return row_of(n, [](int i) { return (float)(i + 1); });
}

TEST_CASE("row: worked numbers") {
    everywhere([](test_shape shape) {
        device_buffer<uint32_t> scores(distinct_scores(1037), 1, true);
        device_buffer<unsigned> seen(1038, 0);
        device_buffer<int> plan(3), firsts(4);
        test_run(shape, 1, 0, row_visit, (const float *)scores.data, 1037, 0, seen.data, plan.data, firsts.data);
        REQUIRE(plan.read() == std::vector<int>{3, 258, 4});
        const std::vector<int> first = firsts.read();
        REQUIRE((first[0] == 3 && first[1] == 515 && first[2] == 1027 && first[3] == 0)); /* lane 0 of the edge holds scores 0, 1, 2 */
    });
}

TEST_CASE("row: every score in one tile, none from outside, on any alignment") {
    for (int length : {0, 1, 2, 3, 4, 5, 7, 8, 127, 128, 129, 511, 512, 513, 515, 1021, 1024, 4093}) {
        for (int shift = 0; shift < 4; shift++) {
            INFO("length " << length << ", shift " << shift);
            everywhere([&](test_shape shape) {
                const score_bits values = distinct_scores(length);
                device_buffer<uint32_t> scores(values, shift, true);
                device_buffer<unsigned> seen(length + 1, 0);
                device_buffer<int> plan(3), firsts(length / TOPKIT_TILE + 2);
                const int staged = (length / 2 + shift) % 2;
                test_run(shape, 1, staged * shape.warps * TOPKIT_TILE * 4, row_visit, (const float *)scores.data, length, staged,
                         seen.data, plan.data, firsts.data);
                std::vector<unsigned> expected(length, 1);
                expected.push_back(0);
                REQUIRE(seen.read() == expected);
                REQUIRE(scores.read() == values);
                const int head = std::min((4 - shift) % 4, length), vectors = (length - head) / 4, edge = length - vectors * 4;
                REQUIRE(plan.read() == std::vector<int>{head, vectors, (vectors + 127) / 128 + (edge > 0)});
            });
        }
    }
}

static __global__ void row_steps(const int *counts, int *steps, int count) {
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += (int)(gridDim.x * blockDim.x))
        steps[i] = topkit_tile_step(counts[i]);
}

TEST_CASE("row: the shuffled order visits every tile and jumps about the golden section") {
    std::vector<int> counts;
    for (int count = 1; count <= 2000; count++) counts.push_back(count);
    for (int count : {32768, 65537, 1000000, 4194304}) counts.push_back(count);
    device_buffer<int> in(counts), out(counts.size());
    test_launch(8, 256, 0, row_steps, in.data, out.data, counts.size());
    const std::vector<int> steps = out.read();
    for (size_t i = 0; i < counts.size(); i++) {
        int a = counts[i], b = steps[i];
        REQUIRE((b >= 1 && b <= a));
        if (a > 200) REQUIRE((b > a * 0.61 && b < a * 0.66));
        while (b) {
            const int rest = a % b;
            a = b;
            b = rest;
        }
        REQUIRE(a == 1); /* prime to each other: n * step mod count takes every value */
    }
}
