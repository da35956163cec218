/* test_usage_select.cu: the usage examples of the pages in docs/blocks, compiled, run and checked: candidate to scheduler.
 *
 * test_usage.cu and test_usage_resident.cu have the rest. docs/make.sh copies what lies between `[cut NAME]` and `[end]` to
 * docs/blocks/NAME.md.
 */
#include "testing.h"
#include "topkit/topkit.cuh"

/* Score i of a test row: distinct, shuffled. */
static score_bits shuffled_row(int n) {
    return row_of(n, [n](int i) { return (float)permuted(n, i); });
}

/* [cut candidate] */
/* Which of a lane's 16 scores are above 1 (strictly), as bits u*4+c of a mask; the second compare, exact to the index, lets a 1 pass before
 * index 100 too. */
static __device__ unsigned above_one(const topkit_tile *tile, unsigned lane, unsigned *and_early_ones) {
    const unsigned one = topkit_key(__float_as_uint(1.0f));
    const topkit_gate strict = topkit_gate_at(one, 0), early = topkit_gate_at(one, 100);
    const unsigned above = topkit_tile_mask(tile, strict.value) & tile->valid;
    *and_early_ones = above;
    for (int u = 0; u < 4; u++) {
        const float x[4] = {tile->v[u].x, tile->v[u].y, tile->v[u].z, tile->v[u].w};
        for (int c = 0; c < 4; c++) {
            const int index = tile->first + u * 128 + (int)lane * 4 + c;
            if (topkit_gate_admits(early, __float_as_uint(x[c]), index)) *and_early_ones |= (1u << (u * 4 + c)) & tile->valid;
        }
    }
    return above;
}
/* [end] */

static __global__ void usage_gate(const float *scores, int length, int *above, int *early) {
    const topkit_row row = {scores, length};
    topkit_tile tile;
    topkit_tile_load(topkit_row_tiles(row), 0, threadIdx.x, &tile);
    unsigned and_early;
    atomicAdd(above, __popc(above_one(&tile, threadIdx.x, &and_early)));
    atomicAdd(early, __popc(and_early));
}

TEST_CASE("usage: candidate") {
    device_buffer<uint32_t> in(row_of(512, [](int i) { return (float)(i % 3); }));
    device_buffer<int> above(1, 0), early(1, 0);
    test_launch(1, 32, 0, usage_gate, (const float *)in.data, 512, above.data, early.data);
    REQUIRE(above.read()[0] == 170);
    REQUIRE(early.read()[0] == 170 + 33); /* 1, 4, .. 97 */
}

/* [cut sink] */
/* A sink of one's own: a struct and two functions. This one counts the selected by their index's page of 64. */
struct page_counts {
    unsigned *pages;
};
TOPKIT_FN void topkit_sink_put(page_counts s, int, int index, unsigned) { atomicAdd(&s.pages[index / 64], 1u); }
TOPKIT_FN void topkit_sink_pad(page_counts, int) {} // slots behind a short row: nothing to do

/* The k best candidates to that sink, and once more to a callback that adds up their scores. r: initialised. */
static __device__ float count_and_add(topkit_group g, const topkit_candidate *items, int count, int k, unsigned *pages,
                                      topkit_refiner_storage *r) {
    const page_counts counts = {pages};
    topkit_refine<TOPKIT_ANY>(g, items, count, k, counts, r);
    float sum = 0.0f;
    auto add = [&](int, int, unsigned bits) { sum += __uint_as_float(bits); };
    const topkit_sink_call<decltype(add)> call = {add};
    topkit_refine<TOPKIT_ANY>(g, items, count, k, call, r);
    return sum; // of this thread's share
}
/* [end] */

static __global__ void usage_sink(const topkit_candidate *items, int count, int k, unsigned *pages, float *sum) {
    __shared__ topkit_refiner_storage r;
    const topkit_group block = topkit_group_block();
    topkit_refiner_init(block, &r);
    topkit_group_sync(block);
    atomicAdd(sum, count_and_add(block, items, count, k, pages, &r));
}

/* [cut refiner] */
/* indices[0 .. k) = the exact k best of `count` candidates, the first of equals, in no particular order. One block, or any group. */
static __device__ void best_candidates(topkit_group g, const topkit_candidate *items, int count, int k, int *indices,
                                       topkit_refiner_storage *r) {
    const topkit_sink_indices sink = {indices, 0};
    topkit_refiner_init(g, r);
    topkit_group_sync(g); // the candidates are complete, too
    topkit_refine<TOPKIT_LOWEST_INDEX>(g, items, count, k, sink, r);
}
/* [end] */

static __global__ void usage_refine(const topkit_candidate *items, int count, int k, int *indices) {
    __shared__ topkit_refiner_storage r;
    best_candidates(topkit_group_block(), items, count, k, indices, &r);
}

TEST_CASE("usage: refiner and sink") {
    const int count = 640, k = 100;
    const score_bits scores = row_of(count, [](int i) { return (float)(i * 7 % 160); }); /* each four times */
    std::vector<topkit_candidate> items(count);
    for (int i = 0; i < count; i++) items[i] = {scores[i], i};
    std::vector<unsigned> pages(10, 0);
    device_buffer<topkit_candidate> in(items);
    under_all_schedules([&] {
        device_buffer<int> indices(k);
        device_buffer<unsigned> counts(10, 0);
        device_buffer<float> sum(1, 0);
        test_launch(1, 128, 0, usage_refine, (const topkit_candidate *)in.data, count, k, indices.data);
        check_exact(scores, k, indices.read(), TOPKIT_LOWEST_INDEX);
        test_launch(1, 128, 0, usage_sink, (const topkit_candidate *)in.data, count, k, counts.data, sum.data);
        float expected = 0;
        for (int best = 159; best > 159 - k / 4; best--) expected += 4.0f * (float)best;
        REQUIRE(sum.read()[0] == expected);
        pages = counts.read();
        REQUIRE(std::accumulate(pages.begin(), pages.end(), 0u) == (unsigned)k);
        for (int index : indices.read()) pages[index / 64]--; /* k is a multiple of four: no tie at the boundary */
        REQUIRE(pages == std::vector<unsigned>(10, 0));
    });
}

/* [cut collector] */
/* indices[0 .. min(k, length)) = the exact Top-K of one row, of any length, without a threshold to begin with: the buffer fills, is cut
 * back to its k best and goes on with a higher gate. Capacity 1024 serves k up to 512. One block of 4 warps. Tiles are
 * visited in an order drawn from the salt: any number but 0, and another one in every launch. */
struct scan_storage {
    float stage[4 * TOPKIT_TILE]; // (4 warps)
    topkit_candidate items[1024];
    topkit_refiner_storage refiner;
    topkit_collector_state state;
};

static __global__ void select_by_compaction(const float *scores, int length, int k, unsigned salt, int *indices) {
    __shared__ __align__(16) scan_storage s;
    const topkit_group block = topkit_group_block();
    const topkit_row row = {scores, length};
    const topkit_collector collector = {s.items, 1024, s.stage + topkit_warp_rank(block) * TOPKIT_TILE, &s.state};
    const topkit_gate open = topkit_gate_open();
    const int wanted = length < k ? length : k;
    const topkit_sink_indices sink = {indices, 0};
    if (wanted == 0) return;
    topkit_refiner_init(block, &s.refiner);
    if (block.thread == 0) topkit_collector_clear(collector);
    topkit_group_sync(block);
    const int held = topkit_scan<TOPKIT_ANY>(block, row, wanted, open, salt, collector, &s.refiner);
    topkit_refine<TOPKIT_ANY>(block, s.items, held, wanted, sink, &s.refiner);
}
/* [end] */

TEST_CASE("usage: collector") {
    const int n = 20001, k = 512;
    const score_bits scores = shuffled_row(n), few(scores.begin(), scores.begin() + 77);
    device_buffer<uint32_t> in(scores, 1);
    under_all_schedules([&] {
        device_buffer<int> indices(k);
        test_launch(1, 128, 0, select_by_compaction, (const float *)in.data, n, k, 5u, indices.data);
        check_exact(scores, k, indices.read(), TOPKIT_ANY);
        test_launch(1, 128, 0, select_by_compaction, (const float *)in.data, 77, k, 6u, indices.data);
        check_exact(few, 77, indices.read(), TOPKIT_ANY);
    });
}

/* [cut team] */
/* indices[0 .. k) = the exact Top-K of one row of at least k scores, by a cluster of blocks of 8 warps: each collects its share of the row
 * and delivers what is its own of the k best. Capacity 1024 serves k up to 512. */
struct team_scan_storage {
    float stage[8 * TOPKIT_TILE]; // (8 warps)
    topkit_candidate items[1024];
    topkit_refiner_storage refiner;
    topkit_collector_state state;
    topkit_team_storage team;
};

static __global__ void select_by_cluster(const float *scores, int length, int k, unsigned salt, int *indices) {
    TOPKIT_SHARED(memory); // at the same place in every block
    team_scan_storage *s = (team_scan_storage *)memory;
    const topkit_group block = topkit_group_block();
    const int blocks = (int)topkit_cluster_blocks(), rank = (int)topkit_cluster_block(), share = (length + blocks - 1) / blocks;
    const int begin = rank * share < length ? rank * share : length, end = begin + share < length ? begin + share : length;
    const topkit_row own = {scores + begin, end - begin};
    const topkit_collector c = {s->items, 1024, s->stage + topkit_warp_rank(block) * TOPKIT_TILE, &s->state};
    const topkit_gate open = topkit_gate_open();
    const topkit_sink_indices sink = {indices, 0};
    int held = 0;
    topkit_cluster_enter(); // the search waits for it
    topkit_refiner_init(block, &s->refiner);
    if (block.thread == 0) topkit_collector_clear(c);
    topkit_group_sync(block);
    if (own.length > 0)
        held = topkit_scan<TOPKIT_ANY>(block, own, own.length < k ? own.length : k, open, salt, c, &s->refiner);
    topkit_team team = topkit_team_cluster(&s->team, begin); // a proposal's key and maximum instead of any would save steps
    const topkit_team_boundary boundary = topkit_team_search<TOPKIT_ANY>(block, &team, s->items, held, k, TOPKIT_NO_THRESHOLD, 0xffffffffu,
                                                                         length, &s->refiner.digit, &s->team);
    const unsigned members = topkit_team_emit<TOPKIT_ANY>(block, &team, s->items, held, k, boundary, sink, &s->refiner);
    if (topkit_team_settles<TOPKIT_ANY>(boundary)) topkit_team_meet(block, &team);
    topkit_team_settle(block, &team, members, k, boundary, sink, &s->refiner);
}
/* [end] */

TEST_CASE("usage: team") {
    const int n = 20001, k = 512;
    const score_bits scores = shuffled_row(n);
    device_buffer<uint32_t> in(scores, 1);
    const int blocks = test_cluster_blocks() > 4 ? 4 : 1; /* before 9.0 a block is a cluster by itself */
    under_all_schedules([&] {
        device_buffer<int> indices(k);
        test_launch_clusters(blocks, (unsigned)blocks, 256, sizeof(team_scan_storage), select_by_cluster, (const float *)in.data, n, k,
                             8u, indices.data);
        check_exact(scores, k, indices.read(), TOPKIT_ANY);
    });
}

/* [cut team_resident] */
/* The same for a row that fits in the cluster's shared memory, 8192 scores a block: each share is copied, and searched where it lies. */
struct team_resident_scan_storage {
    float place[8192 + 4]; // 16-byte aligned
    topkit_refiner_storage refiner;
    topkit_team_storage team;
};

static __global__ void select_by_resident_cluster(const float *scores, int length, int k, unsigned seed, int *indices) {
    TOPKIT_SHARED(memory);
    team_resident_scan_storage *s = (team_resident_scan_storage *)memory;
    const topkit_group block = topkit_group_block();
    const int blocks = (int)topkit_cluster_blocks(), rank = (int)topkit_cluster_block(), share = (length + blocks - 1) / blocks;
    const int begin = rank * share < length ? rank * share : length, end = begin + share < length ? begin + share : length;
    const topkit_row row = {scores, length}, own = {scores + begin, end - begin};
    const topkit_resident part = topkit_resident_at(own, s->place, (int)sizeof s->place);
    const topkit_sink_indices sink = {indices, 0};
    topkit_cluster_enter(); // the search waits for it
    float4 sample;          // of the whole row: all blocks draw the same one, and come to the same gate
    const int holders = topkit_sample_vector(block, row, seed, &sample), expected = (int)(4.0f * holders * k / length);
    topkit_resident_copy_async(block, own, part);
    topkit_refiner_init(block, &s->refiner);
    topkit_group_sync(block);
    const topkit_proposal gate = topkit_propose_from_vectors(block, sample, holders, 2 * expected + 24, &s->refiner.digit);
    topkit_copy_async_wait();
    topkit_group_sync(block);
    topkit_team team = topkit_team_cluster(&s->team, begin);
    const topkit_team_resident_boundary boundary =
        topkit_team_resident_search<TOPKIT_ANY>(block, &team, part, k, gate, length, &s->refiner.digit, &s->team);
    const unsigned members = topkit_team_resident_emit<TOPKIT_ANY>(block, &team, part, k, boundary, sink, &s->refiner);
    if (topkit_team_settles<TOPKIT_ANY>(boundary.team)) topkit_team_meet(block, &team);
    topkit_team_settle(block, &team, members, k, boundary.team, sink, &s->refiner);
}
/* [end] */

TEST_CASE("usage: team_resident") {
    const int k = 512, blocks = test_cluster_blocks() > 4 ? 4 : 1; /* before 9.0 a block is a cluster by itself */
    const int n = blocks > 1 ? 20001 : 8001;
    const score_bits scores = shuffled_row(n);
    device_buffer<uint32_t> in(scores, 1);
    under_all_schedules([&] {
        device_buffer<int> indices(k);
        test_launch_clusters(blocks, (unsigned)blocks, 256, sizeof(team_resident_scan_storage), select_by_resident_cluster,
                             (const float *)in.data, n, k, 8u, indices.data);
        check_exact(scores, k, indices.read(), TOPKIT_ANY);
    });
}

/* [cut half] */
/* The same for a row of bfloat16 scores, or fp16 with topkit_f16: tiles are twice as long, values are written as they were. One block of
 * 4 warps; capacity 1536 serves k up to 512. */
struct half_scan_storage {
    float stage[4 * TOPKIT_TILE]; // (4 warps)
    topkit_candidate items[512 + TOPKIT_HALF_TILE];
    topkit_refiner_storage refiner;
    topkit_collector_state state;
};

static __global__ void select_bf16(const topkit_bf16 *scores, int length, int k, unsigned salt, int *indices, topkit_bf16 *values) {
    __shared__ __align__(16) half_scan_storage s;
    const topkit_group block = topkit_group_block();
    const topkit_row_of<topkit_bf16> row = {scores, length};
    const topkit_collector collector = {s.items, 512 + TOPKIT_HALF_TILE, s.stage + topkit_warp_rank(block) * TOPKIT_TILE, &s.state};
    const topkit_gate open = topkit_gate_open();
    const int wanted = length < k ? length : k;
    const topkit_sink_pairs_of<topkit_bf16> sink = {indices, values, 0};
    if (wanted == 0) return;
    topkit_refiner_init(block, &s.refiner);
    if (block.thread == 0) topkit_collector_clear(collector);
    topkit_group_sync(block);
    const int held = topkit_scan<TOPKIT_ANY>(block, row, wanted, open, salt, collector, &s.refiner);
    topkit_refine<TOPKIT_ANY>(block, s.items, held, wanted, sink, &s.refiner);
}
/* [end] */

TEST_CASE("usage: half") {
    const int n = 20001, k = 512;
    std::vector<unsigned short> scores;
    score_bits wide; /* a bfloat16 is the upper half of a float */
    for (int i = 0; i < n; i++) {
        scores.push_back((unsigned short)hashed(1, i));
        wide.push_back((uint32_t)scores.back() << 16);
    }
    device_buffer<unsigned short> in(scores, 1);
    under_all_schedules([&] {
        device_buffer<int> indices(k);
        device_buffer<unsigned short> values(k);
        test_launch(1, 128, 0, select_bf16, (const topkit_bf16 *)in.data, n, k, 7u, indices.data, (topkit_bf16 *)values.data);
        score_bits got;
        for (unsigned short value : values.read()) got.push_back((uint32_t)value << 16);
        check_exact(wide, k, indices.read(), TOPKIT_ANY, &got);
    });
}

/* [cut order] */
/* ranking[0 .. k) = the indices of the k best candidates, best first, the first of equals first. items: room for topkit_sort_room(k). */
static __device__ void rank_candidates(topkit_group g, topkit_candidate *items, int count, int k, int *ranking, topkit_refiner_storage *r) {
    const topkit_cut cut = topkit_refine_cut<TOPKIT_LOWEST_INDEX>(g, items, count, k, r);
    topkit_refine_keep(g, items, count, cut, r); // to the front, in place
    const topkit_sink_indices sink = {ranking, 0};
    topkit_sort(g, items, k, TOPKIT_BY_SCORE, sink, &r->digit);
}
/* [end] */

static __global__ void usage_rank(topkit_candidate *items, int count, int k, int *indices) {
    __shared__ topkit_refiner_storage r;
    topkit_refiner_init(topkit_group_block(), &r);
    topkit_group_sync(topkit_group_block());
    rank_candidates(topkit_group_block(), items, count, k, indices, &r);
}

TEST_CASE("usage: order") {
    const int count = 1000, k = 300;
    const score_bits scores = row_of(count, [](int i) { return (float)(i * 7 % 50); });
    std::vector<topkit_candidate> items(count);
    for (int i = 0; i < count; i++) items[i] = {scores[i], i};
    std::vector<int> best = ranking(scores);
    best.resize(k);
    under_all_schedules([&] {
        device_buffer<topkit_candidate> in(items);
        device_buffer<int> indices(k);
        test_launch(1, 128, 0, usage_rank, in.data, count, k, indices.data);
        REQUIRE(indices.read() == best);
    });
}

/* [cut scheduler] */
/* Persistent blocks take rows from a queue, long ones first, and the launch leaves the queue as it found it. *queue is zeroed once. */
static __global__ void every_row_once(const int *lengths, int rows, int max_length, topkit_queue *queue, int *order, unsigned *visits) {
    __shared__ topkit_digit_storage digit;
    __shared__ int shared_row, builds;
    const topkit_group block = topkit_group_block();
    const int workers = (int)gridDim.x;
    topkit_digit_init(block, &digit);
    if (block.thread == 0) builds = topkit_order_begin(queue);
    topkit_group_sync(block);
    if (builds) { // one block of all sorts the rows behind the first wave
        topkit_order_build(block, lengths, max_length, workers, rows, order, &digit);
        if (block.thread == 0) topkit_order_publish(queue);
    }
    int row = (int)blockIdx.x; // first wave: row w to worker w
    while (row < rows) {
        if (block.thread == 0) {
            atomicAdd(&visits[row], 1u); // the work
            int item = topkit_queue_claim(queue, workers);
            if (item < rows) {
                topkit_order_wait(queue);
                item = order[item - workers];
            }
            shared_row = item;
        }
        topkit_group_sync(block);
        row = shared_row;
        topkit_group_sync(block); // all have read it: it may be written again
    }
    if (block.thread == 0) topkit_queue_leave(queue, workers);
}
/* [end] */

TEST_CASE("usage: scheduler") {
    std::vector<int> lengths;
    for (int r = 0; r < 50; r++) lengths.push_back(r * 37 % 101);
    device_buffer<int> in(lengths), order(50);
    device_buffer<topkit_queue> queue(1, 0);
    device_buffer<unsigned> visits(50, 0);
    unsigned launches = 0;
    under_all_schedules([&] {
        for (unsigned blocks : {1u, 4u, 50u}) {
            test_launch(blocks, 64, 0, every_row_once, (const int *)in.data, 50, 101, queue.data, order.data, visits.data);
            REQUIRE(visits.read() == std::vector<unsigned>(50, ++launches));
        }
    });
}

/* A stand-in for what a kernel computes. */
static __host__ __device__ float computed_score(int row, int i) { return (float)((i * 4099 + row * 7) % 65521); }

/* [cut fused] */
enum { CHUNK = 4 * TOPKIT_TILE, FUSED_CAPACITY = 2560 };

struct fused_storage {
    float chunk[2][CHUNK];
    topkit_candidate items[FUSED_CAPACITY]; // k at most 2048 = 2560 - TOPKIT_TILE
    topkit_refiner_storage refiner;
    topkit_collector_state state;
    topkit_signal full[2], empty[2];
};

/* Selection fused with the computation of its scores: warps 0 to 3 make them in shared memory, 2048 at a time, warps 4 to 7 collect them
 * there. No score is ever written to memory. One block of 8 warps a row; the length is a multiple of 4. */
static __global__ void compute_and_select(int length, int k, int *indices) {
    __shared__ __align__(16) fused_storage s;
    if (threadIdx.x < 2) {
        topkit_signal_init(&s.full[threadIdx.x], 4 * 32); // every thread that makes scores arrives
        topkit_signal_init(&s.empty[threadIdx.x], 1);
    }
    topkit_group_sync(topkit_group_block());
    if (threadIdx.x < 4 * 32) {
        for (int n = 0; n * CHUNK < length; n++) {
            if (n >= 2) topkit_signal_wait(&s.empty[n % 2], (unsigned)n / 2 - 1);
            for (int i = (int)threadIdx.x; i < CHUNK; i += 4 * 32) s.chunk[n % 2][i] = computed_score((int)blockIdx.x, n * CHUNK + i);
            topkit_signal_arrive(&s.full[n % 2]);
        }
        return;
    }
    const topkit_group pick = topkit_group_warps(4, 4, 1); // never waits for the other warps but by signals
    const topkit_collector collector = {s.items, FUSED_CAPACITY, nullptr, &s.state}; // the stage is the chunk itself
    const int wanted = length < k ? length : k;
    topkit_gate gate = topkit_gate_open();
    topkit_refiner_init(pick, &s.refiner);
    if (pick.thread == 0) topkit_collector_clear(collector);
    topkit_group_sync(pick);
    for (int n = 0; n * CHUNK < length; n++) {
        const float *stage = s.chunk[n % 2] + topkit_warp_rank(pick) * TOPKIT_TILE;
        const int first = n * CHUNK + (int)topkit_warp_rank(pick) * TOPKIT_TILE;
        topkit_tile tile;
        bool stored = false, full;
        topkit_signal_wait(&s.full[n % 2], (unsigned)n / 2);
        topkit_tile_load_from((const float4 *)stage, (length - first) / 4, first, false, topkit_lane(pick), &tile);
        do { // a tile that finds no room is offered again behind the compaction
            const unsigned mask = stored ? 0 : topkit_gate_mask<TOPKIT_ANY>(pick, gate, &tile);
            stored = !__any_sync(TOPKIT_FULL_MASK, mask != 0) || topkit_collect_staged(pick, collector, stage, first, mask);
            topkit_group_sync(pick);
            full = topkit_collector_overflowed(collector);
            topkit_group_sync(pick); // nobody appends before all have looked
            if (full) gate = topkit_compact<TOPKIT_ANY>(pick, collector, wanted, &s.refiner);
        } while (full);
        if (pick.thread == 0) topkit_signal_arrive(&s.empty[n % 2]);
    }
    const topkit_sink_indices sink = {indices + (long long)blockIdx.x * k, 0};
    topkit_refine<TOPKIT_ANY>(pick, s.items, topkit_collector_held(collector), wanted, sink, &s.refiner);
    topkit_sink_pad_all(pick.thread, pick.size, wanted, k, sink);
}
/* [end] */

TEST_CASE("usage: selection fused with the computation of the scores") {
    for (int length : {0, 4, 300, 2048, 20000}) {
        for (int k : {1, 300, 2048}) {
            under_all_schedules([&] {
                INFO("length " << length << ", k " << k);
                device_buffer<int> indices(2 * k);
                test_launch(2, 256, 0, compute_and_select, length, k, indices.data);
                const std::vector<int> got = indices.read();
                for (int r = 0; r < 2; r++) {
                    const std::vector<int> row(got.begin() + r * k, got.begin() + (r + 1) * k);
                    check_exact(row_of(length, [r](int i) { return computed_score(r, i); }), k, row, TOPKIT_ANY);
                }
            });
        }
    }
}
