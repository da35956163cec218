/* test_sampler.cu: what a sample holds, how large it is, and that it stays inside the row. */
#include "sampled.h"
#include "testing.h"
#include "topkit/sampler.cuh"

/* The sample of a row, direct and asynchronous, each in shared memory of exactly its size. */
static __global__ void sampler_take(test_shape shape, unsigned *others, const float *scores, int length, int stride, int width,
                                    unsigned seed, int room, float *direct, float *async, int *count) {
    TOPKIT_SHARED(memory);
    float *sample = (float *)memory;
    topkit_group g;
    if (!test_enter(shape, others, &g)) return;
    const topkit_row row = {scores, length};
    const topkit_sampling s = topkit_sample_plan(row, stride, width, seed);
    if (g.thread == 0) *count = topkit_sample_count(s);
    if (topkit_sample_count(s) > room) return; /* the host sees it in *count */
    topkit_sample(g, s, sample);
    topkit_group_sync(g);
    for (int i = (int)g.thread; i < room; i += (int)g.size) direct[i] = sample[room - 1 - i];
    topkit_group_sync(g);
    topkit_sample_async(g, s, sample);
    topkit_copy_async_wait();
    topkit_group_sync(g);
    for (int i = (int)g.thread; i < room; i += (int)g.size) async[i] = sample[room - 1 - i];
}

/* Which scores the documented formula samples. */
static std::vector<int> sampled(int length, int shift, int stride, int width, unsigned seed) {
    const int head = width == 1 ? 0 : std::min((4 - shift) % 4, length);
    std::vector<int> indices;
    for (int place : sampled_places(length - head, stride, width, seed))
        for (int q = 0; q < width; q++) indices.push_back(head + place + q);
    return indices;
}

static void check_sample(test_shape shape, int length, int shift, int stride, int width, unsigned seed) {
    const score_bits row = row_of(length, [](int i) { return (float)(i + 1); });
    const std::vector<int> expected = sampled(length, shift, stride, width, seed);
    const int room = (int)expected.size();
    device_buffer<uint32_t> scores(row, shift, true), direct(room), async(room);
    device_buffer<int> count(1);
    test_run(shape, 1, room * sizeof(float), sampler_take, (const float *)scores.data, length, stride, width, seed, room,
             (float *)direct.data, (float *)async.data, count.data);
    REQUIRE(count.read()[0] == room);
    score_bits picked;
    for (int index : expected) {
        REQUIRE((index >= 0 && index < length));
        picked.insert(picked.begin(), row[index]);
    }
    REQUIRE(direct.read() == picked);
    REQUIRE(async.read() == picked);
}

TEST_CASE("sampler: the documented scores, direct and asynchronous (E01)") {
    everywhere([](test_shape shape) {
        for (int stride : {1, 2, 3, 32, 1000}) {
            for (int width : {1, 4, 8, 16}) {
                if (stride % width) continue;
                for (int length : {0, 1, stride - 1, stride, stride + 1, 10 * stride + 7}) {
                    const int shift = (length + width) % 4;
                    const unsigned seed = (unsigned)(length + stride);
                    INFO("length " << length << ", stride " << stride << ", width " << width << ", shift " << shift << ", seed " << seed);
                    check_sample(shape, length, shift, stride, width, seed);
                }
            }
        }
    });
}

TEST_CASE("sampler: the last vector ends at the last byte of the row") {
    for (int width : {1, 4, 8, 16}) {
        for (int shift = 0; shift < 4; shift++) {
            for (int length = 30; length < 60; length++) check_sample(test_shapes[0], length, shift, 16, width, (unsigned)length);
        }
    }
}

TEST_CASE("sampler: worked numbers") {
    bool longer = false, shorter = false;
    for (unsigned seed = 0; seed < 20; seed++) {
        const std::vector<int> ones = sampled(10, 0, 4, 1, seed);
        REQUIRE((ones[0] / 4 == 0 && ones[1] / 4 == 1));
        longer |= ones.size() == 3 && ones[2] / 4 == 2;
        shorter |= ones.size() == 2;
        REQUIRE(sampled(10, 0, 4, 4, seed) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
        everywhere([&](test_shape shape) {
            check_sample(shape, 10, 0, 4, 1, seed);
            check_sample(shape, 10, 0, 4, 4, seed);
        });
    }
    REQUIRE((longer && shorter));
}

/* Vectors 0 .. count-1 of each seed's sample, as places in their strata. */
static __global__ void sampler_phases(const float *scores, int stride, int width, int seeds, int count, int *phases) {
    const topkit_row row = {scores, count * stride};
    for (int i = (int)threadIdx.x; i < seeds * count; i += (int)blockDim.x) {
        topkit_sampling s = topkit_sample_plan(row, stride, width, (unsigned)(i / count));
        phases[i] = (int)(topkit__sample_at(s, i % count) - scores) - i % count * stride;
    }
}

TEST_CASE("sampler: strata and neighbouring seeds have unrelated places, each about as often") {
    const int stride = 128, seeds = 256, count = 16;
    device_buffer<float> scores(4);
    device_buffer<int> phases(seeds * count);
    for (int width : {1, 4, 8, 16}) {
        test_launch(1, 128, 0, sampler_phases, scores.data, stride, width, seeds, count, phases.data);
        const std::vector<int> got = phases.read();
        std::vector<int> often(stride, 0);
        int near = 0, below = 0; /* places that follow each other would sample a diagonal of the row, or of the matrix */
        for (int i = 0; i < seeds * count; i++) {
            REQUIRE((got[i] >= 0 && got[i] < stride && got[i] % width == 0));
            often[got[i]]++;
            if (i % count > 0) near += std::abs(got[i] - got[i - 1]) <= width;
            if (i >= count) below += std::abs(got[i] - got[i - count]) <= width;
        }
        const int mean = seeds * count * width / stride;
        for (int phase = 0; phase < stride; phase += width) REQUIRE((often[phase] > mean / 4 && often[phase] < mean * 2 + 8));
        REQUIRE((near < mean * 6 && below < mean * 6));
    }
}

/* How often a row's sample is misled by a row whose strata are half good and half bad: as rarely as fair coins say. */
TEST_CASE("sampler: no class of places decides over a whole sample") {
    const int stride = 128, width = 4, strata = 64;
    int worst = 0;
    for (unsigned seed = 0; seed < 1000; seed++) {
        int good = 0;
        for (int place : sampled_places(strata * stride, stride, width, seed)) good += place % stride < stride / 2;
        worst = std::max(worst, std::abs(good - strata / 2));
    }
    REQUIRE(worst <= 18); /* of a standard deviation of 4 */
}
