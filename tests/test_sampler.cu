/* test_sampler.cu: what a sample holds, how large it is, and that it stays inside the row. */
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

static unsigned mixed(unsigned x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

/* Which scores the documented formula samples. */
static std::vector<int> sampled(int length, int shift, int stride, int width, unsigned seed) {
    const int head = width == 1 ? 0 : std::min((4 - shift) % 4, length);
    const int phase = width * (int)((unsigned long long)mixed(seed) * (unsigned)(stride / width) >> 32);
    const int available = length - head, vectors = available < phase + width ? 0 : (available - phase - width) / stride + 1;
    std::vector<int> indices;
    for (int j = 0; j < vectors; j++)
        for (int q = 0; q < width; q++) indices.push_back(head + phase + j * stride + q);
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
    unsigned seed = 0;
    while (mixed(seed) >> 30 != 2) seed++;
    REQUIRE(sampled(10, 0, 4, 1, seed) == std::vector<int>{2, 6});
    REQUIRE(sampled(10, 0, 4, 4, seed) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
    everywhere([&](test_shape shape) {
        check_sample(shape, 10, 0, 4, 1, seed);
        check_sample(shape, 10, 0, 4, 4, seed);
    });
}

static __global__ void sampler_phases(const float *scores, int stride, int width, int seeds, int *phases) {
    const topkit_row row = {scores, 100000};
    for (int seed = (int)threadIdx.x; seed < seeds; seed += (int)blockDim.x)
        phases[seed] = (int)(topkit_sample_plan(row, stride, width, (unsigned)seed).first - scores);
}

TEST_CASE("sampler: neighbouring seeds begin at unrelated scores, every phase about as often") {
    const int stride = 128, seeds = 4096;
    device_buffer<float> scores(4);
    device_buffer<int> phases(seeds);
    for (int width : {1, 4, 8, 16}) {
        test_launch(1, 128, 0, sampler_phases, scores.data, stride, width, seeds, phases.data);
        const std::vector<int> got = phases.read();
        std::vector<int> often(stride, 0);
        int near = 0; /* a run of seeds that gave a run of phases would sample one diagonal of a matrix */
        for (int seed = 0; seed < seeds; seed++) {
            REQUIRE((got[seed] >= 0 && got[seed] < stride && got[seed] % width == 0));
            often[got[seed]]++;
            if (seed > 0) near += std::abs(got[seed] - got[seed - 1]) <= width;
        }
        const int mean = seeds * width / stride;
        for (int phase = 0; phase < stride; phase += width) REQUIRE((often[phase] > mean / 4 && often[phase] < mean * 2 + 8));
        REQUIRE(near < seeds * width / stride * 6);
    }
}
