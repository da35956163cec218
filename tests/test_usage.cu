/* test_usage.cu: the usage examples of the pages in docs/blocks, compiled, run and checked: group to threshold.
 *
 * test_usage_select.cu and test_usage_resident.cu have the rest. docs/make.sh copies what lies between `[cut NAME]` and `[end]` to
 * docs/blocks/NAME.md.
 */
#include "testing.h"
#include "topkit/topkit.cuh"

/* [cut group] */
/* Four warps of a block of 20 list the positive numbers; the other 16 do something else, and neither waits for the other. */
static __global__ void list_positive(const int *numbers, int count, int *out, unsigned *found) {
    if (threadIdx.x / 32 < 16) return; // the other warps' work
    const topkit_group service = topkit_group_warps(16, 4, 1); // warps 16 to 19, on named barrier 1
    for (int base = 0; base < count; base += (int)service.size) { // whole warps go round together
        const int i = base + (int)service.thread;
        const bool wanted = i < count && numbers[i] > 0;
        const unsigned slot = topkit_warp_reserve(service, wanted, found); // one atomic a warp
        if (wanted) out[slot] = i;
    }
    topkit_group_sync(service); // all 128 threads: out may be read now, by any of them
    if (service.thread == 0) out[*found] = -1;
}
/* [end] */

TEST_CASE("usage: group") {
    under_all_schedules([] {
        std::vector<int> numbers, expected;
        for (int i = 0; i < 1000; i++) {
            numbers.push_back(i % 7 - 4);
            if (numbers.back() > 0) expected.push_back(i);
        }
        device_buffer<int> in(numbers), out(expected.size() + 1);
        device_buffer<unsigned> found(1, 0);
        test_launch(1, 640, 0, list_positive, (const int *)in.data, 1000, out.data, found.data);
        std::vector<int> got = out.read();
        REQUIRE(got.back() == -1);
        got.pop_back();
        std::sort(got.begin(), got.end());
        REQUIRE(got == expected);
    });
}

/* [cut signal] */
/* One thread makes numbers, another warp's adds them up, through a ring of two slots. */
static __global__ void make_and_add(int count, int *out) {
    __shared__ topkit_signal full[2], empty[2];
    __shared__ int slots[2];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            topkit_signal_init(&full[i], 1); // one arrival completes a phase
            topkit_signal_init(&empty[i], 1);
        }
    }
    topkit_group_sync(topkit_group_block());
    if (threadIdx.x == 0) {
        for (unsigned n = 0; n < (unsigned)count; n++) {
            if (n >= 2) topkit_signal_wait(&empty[n % 2], n / 2 - 1); // the slot's use before this one has been read
            slots[n % 2] = (int)(n * n);
            topkit_signal_arrive(&full[n % 2]);
        }
    } else if (threadIdx.x == 32) {
        int sum = 0;
        for (unsigned n = 0; n < (unsigned)count; n++) {
            topkit_signal_wait(&full[n % 2], n / 2);
            sum += slots[n % 2];
            topkit_signal_arrive(&empty[n % 2]);
        }
        *out = sum;
    }
}
/* [end] */

TEST_CASE("usage: signal") {
    under_all_schedules([] {
        device_buffer<int> out(1);
        test_launch(1, 64, 0, make_and_add, 10, out.data);
        REQUIRE(out.read()[0] == 285);
    });
}

/* [cut key] */
/* The best score of all and where it is, the first of equals: keys are integers, so atomicMax serves. *best is zero before. */
static __global__ void best_of_all(const float *scores, int count, unsigned long long *best) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) atomicMax(best, topkit_pair_key(topkit_key(__float_as_uint(scores[i])), i));
}

static __global__ void best_read(const unsigned long long *best, float *score, int *index) {
    *score = __uint_as_float(topkit_key_bits((unsigned)(*best >> 32)));
    *index = (int)~(unsigned)*best;
}
/* [end] */

TEST_CASE("usage: key") {
    std::vector<float> scores(1000, -3.0f);
    scores[5] = NAN;
    scores[700] = scores[701] = -1.5f;
    device_buffer<float> in(scores), score(1);
    device_buffer<unsigned long long> best(1, 0);
    device_buffer<int> index(1);
    test_launch(8, 128, 0, best_of_all, (const float *)in.data, 1000, best.data);
    test_launch(1, 1, 0, best_read, (const unsigned long long *)best.data, score.data, index.data);
    REQUIRE((score.read()[0] == -1.5f && index.read()[0] == 700)); /* this program's NaNs are lowest */
}

/* [cut row] */
/* sums[row] = the sum of score * weight over the row: every score is met once, each in some lane, whatever the row's alignment. */
static __global__ void weigh(const float *scores, long long stride, const int *lengths, int max_length, const float *weights, float *sums) {
    const topkit_group block = topkit_group_block();
    const topkit_row row = topkit_row_at(scores, stride, nullptr, lengths, max_length, (int)blockIdx.x);
    const topkit_tiles tiles = topkit_row_tiles(row);
    const int lane = (int)topkit_lane(block);
    float sum = 0.0f;
    for (int n = (int)topkit_warp_rank(block); n < tiles.count; n += (int)topkit_warps(block)) {
        topkit_tile tile;
        topkit_tile_load(tiles, n, topkit_lane(block), &tile);
        for (int u = 0; u < 4; u++) {
            const float x[4] = {tile.v[u].x, tile.v[u].y, tile.v[u].z, tile.v[u].w};
            for (int c = 0; c < 4; c++) {
                if (tile.valid >> (u * 4 + c) & 1) sum += x[c] * weights[tile.first + u * 128 + lane * 4 + c];
            }
        }
    }
    atomicAdd(&sums[blockIdx.x], sum);
}
/* [end] */

TEST_CASE("usage: row") {
    const int rows = 5, columns = 1501;
    std::vector<float> scores(rows * columns), weights(columns), expected(rows, 0.0f);
    const std::vector<int> lengths = {1501, 0, 1, 1037, -3};
    for (int i = 0; i < columns; i++) weights[i] = (float)(i % 5);
    for (int i = 0; i < rows * columns; i++) scores[i] = (float)(i % 11);
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < lengths[r]; i++) expected[r] += scores[r * columns + i] * weights[i];
    device_buffer<float> in(scores), weight(weights), sums(rows, 0);
    device_buffer<int> length(lengths);
    test_launch(rows, 128, 0, weigh, (const float *)in.data, (long long)columns, (const int *)length.data, columns,
                (const float *)weight.data, sums.data);
    REQUIRE(sums.read() == expected);
}

/* [cut sampler] */
/* Copies one score in 64 of a row, as vectors of four, to shared memory while something else may happen; returns how many. */
static __device__ int take_sample(topkit_group g, topkit_row row, unsigned seed, float *sample) {
    const topkit_sampling sampling = topkit_sample_plan(row, 256, 4, seed);
    topkit_sample_async(g, sampling, sample);
    // ... work that does not need it ...
    topkit_copy_async_wait(); // this thread's copies
    topkit_group_sync(g);     // everybody's
    return topkit_sample_count(sampling);
}
/* [end] */

/* [cut digit] */
/* The bin floor of the rank-th largest of `numbers`, each below `limit`: at most 1/1024 of the range below it. s: zero histogram. */
static __device__ unsigned floor_of_rank(topkit_group g, const unsigned *numbers, int count, unsigned limit, unsigned rank,
                                         topkit_digit_storage *s) {
    const unsigned shift = topkit_digit_shift(limit - 1);
    for (int i = (int)g.thread; i < count; i += (int)g.size) topkit_digit_count(s, numbers[i] >> shift);
    topkit_group_sync(g); // all are counted
    return topkit_digit_find(g, s, rank, true).bin << shift; // and the histogram is zero again
}
/* [end] */

static __global__ void usage_digit(const unsigned *numbers, int count, unsigned *out) {
    __shared__ topkit_digit_storage s;
    const topkit_group block = topkit_group_block();
    topkit_digit_init(block, &s);
    topkit_group_sync(block);
    const unsigned first = floor_of_rank(block, numbers, count, 100000, 1, &s);
    const unsigned middle = floor_of_rank(block, numbers, count, 100000, 500, &s);
    if (block.thread == 0) {
        out[0] = first;
        out[1] = middle;
    }
}

TEST_CASE("usage: digit") {
    std::vector<unsigned> numbers;
    for (int i = 0; i < 1000; i++) numbers.push_back((unsigned)permuted(1000, i) * 100);
    device_buffer<unsigned> in(numbers), out(2);
    test_launch(1, 128, 0, usage_digit, (const unsigned *)in.data, 1000, out.data);
    REQUIRE(out.read() == std::vector<unsigned>{99900 / 128 * 128, 50000 / 128 * 128});
}

/* [cut threshold] */
/* A score that about `target` scores of the row reach, as a sort key. digit: zero histogram, as it is left. */
static __device__ unsigned propose(topkit_group g, topkit_row row, int target, float *sample, topkit_digit_storage *digit) {
    const int count = take_sample(g, row, 1, sample);
    if (count == 0) return TOPKIT_NO_THRESHOLD; // a row too short to sample: collect everything
    const int rank = (int)((long long)target * count / row.length) + 1; // the same share of the sample
    return topkit_propose_from_sample(g, sample, count, rank, 0, digit).key;
}
/* [end] */

static __global__ void usage_propose(const float *scores, int length, int target, unsigned *key, int *samples) {
    __shared__ __align__(16) float sample[512];
    __shared__ topkit_digit_storage digit;
    const topkit_group block = topkit_group_block();
    const topkit_row row = {scores, length};
    topkit_digit_init(block, &digit);
    topkit_group_sync(block);
    const unsigned proposed = propose(block, row, target, sample, &digit);
    const int count = take_sample(block, row, 1, sample);
    if (block.thread == 0) {
        *key = proposed;
        *samples = count;
    }
}

TEST_CASE("usage: sampler and threshold") {
    const int n = 32768, target = 4096;
    const score_bits scores = row_of(n, [](int i) { return (float)permuted(32768, i); });
    device_buffer<uint32_t> in(scores);
    device_buffer<unsigned> key(1);
    device_buffer<int> samples(1);
    under_all_schedules([&] {
        test_launch(1, 128, 0, usage_propose, (const float *)in.data, n, target, key.data, samples.data);
        const unsigned proposed = key.read()[0];
        const int reach = (int)std::count_if(scores.begin(), scores.end(), [=](uint32_t bits) { return expected_key(bits) >= proposed; });
        REQUIRE(samples.read()[0] == 512);
        REQUIRE((reach > target / 2 && reach < target * 2)); /* 64 samples lie above: the spread is an eighth */
        test_launch(1, 128, 0, usage_propose, (const float *)in.data, 3, target, key.data, samples.data);
        REQUIRE((key.read()[0] == TOPKIT_NO_THRESHOLD && samples.read()[0] == 0));
    });
}
