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

static __global__ void row_visits(const int *counts, const int *begins, const unsigned *salts, int *visits) {
    const int count = counts[blockIdx.x];
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x)
        visits[begins[blockIdx.x] + i] = topkit_visit(i, count, salts[blockIdx.x]);
}

/* The orders of so many tiles under those salts, one behind the other. */
static std::vector<int> visits_of(const std::vector<int> &counts, const std::vector<unsigned> &salts) {
    std::vector<int> begins(1, 0);
    for (int count : counts) begins.push_back(begins.back() + count);
    device_buffer<int> in(counts), at(begins), out((size_t)begins.back());
    device_buffer<unsigned> drawn(salts);
    test_launch((unsigned)counts.size(), 64, 0, row_visits, in.data, at.data, drawn.data, out.data);
    return out.read();
}

TEST_CASE("row: every order visits every tile once") {
    std::vector<int> counts;
#ifdef TOPKIT_TEST_BRIEF
    const int step = 37, longest = 65537;
#else
    const int step = 1, longest = 1000000;
#endif
    for (int count = 1; count <= 5000; count += step) counts.push_back(count);
    for (int count : {32768, 65537, longest}) counts.push_back(count);
    for (unsigned salt : {TOPKIT_ASCENDING, 1u, 2u, 0xdeadbeefu, 0xffffffffu}) {
        const std::vector<int> visits = visits_of(counts, std::vector<unsigned>(counts.size(), salt));
        size_t begin = 0;
        for (int count : counts) {
            std::vector<bool> seen((size_t)count, false);
            int wrong = 0;
            for (int i = 0; i < count; i++) {
                const int tile = visits[begin + (size_t)i];
                const bool inside = tile >= 0 && tile < count;
                wrong += !inside || seen[(size_t)tile] || (salt == TOPKIT_ASCENDING && tile != i);
                if (inside) seen[(size_t)tile] = true;
            }
            INFO("count " << count << ", salt " << salt);
            REQUIRE(wrong == 0);
            begin += (size_t)count;
        }
    }
}

/* What makes a shuffled row cheap: its beginnings are spread over the row, and few tiles are the best so far, whatever order was laid. */
TEST_CASE("row: orders of different salts have nothing in common but that they are spread") {
    for (int count : {5, 22, 64, 257, 1000}) {
        INFO("count " << count);
        const int salts = 400, eighth = (count + 7) / 8;
        std::vector<unsigned> drawn;
        for (int salt = 1; salt <= salts; salt++) drawn.push_back((unsigned)salt);
        const std::vector<int> visits = visits_of(std::vector<int>((size_t)salts, count), drawn);
        std::vector<int> quarters(4, 0), first((size_t)count, 0), last((size_t)count, 0);
        double highest = 0, lowest = 0, expected = 0;
        for (int i = 1; i <= count; i++) expected += 1.0 / i; /* of a shuffle that is fair */
        for (int n = 0; n < salts; n++) {
            const int *order = visits.data() + (size_t)(n * count);
            int high = -1, low = count;
            for (int i = 0; i < count; i++) {
                const int tile = order[i];
                highest += tile > high;
                lowest += tile < low;
                high = std::max(high, tile);
                low = std::min(low, tile);
                if (i < eighth) quarters[(size_t)(tile * 4 / count)]++;
            }
            first[(size_t)order[0]]++;
            last[(size_t)order[count - 1]]++;
        }
        REQUIRE(highest / salts < expected * 1.1);
        REQUIRE(lowest / salts < expected * 1.1);
        for (int q = 0; q < 4 && count >= 22; q++) {
            const double share = quarters[(size_t)q] / (double)(salts * eighth);
            REQUIRE((share > 0.19 && share < 0.32));
        }
        const double mean = (double)salts / count, most = mean + 6 * std::sqrt(mean) + 2;
        for (int tile = 0; tile < count; tile++) REQUIRE((first[(size_t)tile] < most && last[(size_t)tile] < most));
    }
}
