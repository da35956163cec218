/* test_split.cu: the split kernel with every division of a row: clusters and blocks that meet in memory, as no plan would divide
 * rows as short as these, buffers that overflow, gates that are too high. The operator's tests have the plan's own divisions.
 */
#include "03_split_select.cuh"
#include "oracle.h"
#include "sampled.h"
#include "testing.h"

/* ---- the launch that 05_select.cu makes, with a division of the test's own ---- */

struct division {
    int parts;
    bool meets; /* in memory; else the parts are a cluster */
    int depth, capacity; /* depth 0: the parts lie in shared memory whole */
};

/* ---- whole rows ---- */

enum { DENSITY = 16, WIDTH = 8, SALT = 5 }; /* how they are sampled */

/* Returns how many rows were read twice. */
template <int TIES> static unsigned long long check_split(const std::vector<std::vector<float>> &rows, int k, division d, int order) {
    if (!d.meets && d.parts > test_cluster_blocks()) return 0;
    int multiprocessors = 0;
    REQUIRE(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess);
    if (d.meets && (int)rows.size() * d.parts > multiprocessors && rows.size() > 1) { /* no more blocks than are resident together */
        const std::vector<std::vector<float>> first(rows.begin(), rows.begin() + 1), rest(rows.begin() + 1, rows.end());
        return check_split<TIES>(first, k, d, order) + check_split<TIES>(rest, k, d, order);
    }
    const int count = (int)rows.size();
    int longest = 0;
    std::vector<int> lengths;
    for (const std::vector<float> &row : rows) {
        longest = std::max(longest, (int)row.size());
        lengths.push_back((int)row.size());
    }
    const long long stride = longest + 3; /* every alignment comes up */
    std::vector<float> scores((size_t)(count * stride), float_of(0x7f800000u));
    for (int r = 0; r < count; r++) std::copy(rows[(size_t)r].begin(), rows[(size_t)r].end(), scores.begin() + r * stride);

    device_buffer<float> in(scores);
    device_buffer<int> in_lengths(lengths), indices((size_t)(count * k));
    device_buffer<float> values((size_t)(count * k));
    device_buffer<unsigned> arrivals((size_t)count, 0);
    const long long slot = TOPKIT_BOUNDARY * 8 + 4LL * d.parts * TOPKIT_TEAM_BINS + (k + 1) / 2 * 16; /* topkit_team_bytes, and k */
    device_buffer<unsigned char> pool((size_t)(count * slot));
    device_buffer<topkit_select_stats> stats(1, 0);
    topkit_select_job job = {};
    job.scores = in.data;
    job.row_stride = stride;
    job.lengths = in_lengths.data;
    job.rows = count;
    job.max_length = longest;
    job.k = k;
    job.capacity = d.capacity;
    job.density = DENSITY;
    job.width = WIDTH;
    job.salt = SALT;
    job.indices = indices.data;
    job.index_stride = job.value_stride = k;
    job.values = values.data;
    job.stats = stats.data;
    job.order = order;
    job.parts = d.parts;
    job.reciprocal = 0xffffffffu / (unsigned)d.parts + 1;
    job.depth = d.depth;
    job.arrivals = d.meets ? arrivals.data : nullptr;
    job.pool = pool.data;
    job.slot = slot;
    INFO("k " << k << ", parts " << d.parts << (d.meets ? " meet in memory" : " in a cluster") << ", depth " << d.depth << ", capacity "
              << d.capacity << ", order " << order);
    size_t shared = TOPKIT_SPLIT_HEADER + (size_t)d.depth * 32768 + (size_t)d.capacity * 8;
    if (d.depth == 0) { /* as plan.c has it */
        job.capacity = order == TOPKIT_ORDER_NONE ? 0 : (k + (k * 3 + 10) / 8 + 15) / 16 * 16;
        shared = TOPKIT_SPLIT_HEADER + (size_t)job.capacity * 8 + (size_t)((longest / 512 + d.parts) / d.parts * 512 + 8) * 4;
    }
    test_launch_clusters(d.meets ? 0 : d.parts, dim3((unsigned)count, (unsigned)d.parts), TOPKIT_SPLIT_THREADS, shared,
                         d.depth > 0 ? topkit_split_select_kernel<TIES, TOPKIT_SPLIT_THREADS>
                                     : topkit_split_resident_kernel<TIES, TOPKIT_SPLIT_THREADS>,
                         job);

    const std::vector<int> got = indices.read();
    const std::vector<float> got_values = values.read();
    std::vector<uint32_t> bits(got_values.size());
    std::memcpy(bits.data(), got_values.data(), bits.size() * 4);
    for (unsigned n : arrivals.read()) REQUIRE(n == 0);
    pool.read();
    for (int r = 0; r < count; r++) {
        const std::vector<float> &row = rows[(size_t)r];
        const std::string fault = oracle_fault(row.data(), (int)row.size(), oracle_best(row.data(), (int)row.size(), k), k,
                                               got.data() + (size_t)r * k, bits.data() + (size_t)r * k, TIES == TOPKIT_LOWEST_INDEX, order);
        if (!fault.empty()) FAIL("row " << r << " of length " << row.size() << ": " << fault);
    }
    return stats.read()[0].recoveries;
}

static const division DIVISIONS[] = {{1, false, 1, 1024},  {2, false, 4, 1024}, {3, false, 2, 1536}, {8, false, 1, 1024},
                                     {16, false, 1, 1024}, {2, true, 1, 1024},  {4, true, 2, 1024},  {3, true, 1, 2048},
                                     {2, true, 4, 1024},   {2, false, 0, 0},    {5, true, 0, 0},     {16, false, 0, 0},
                                     {3, true, 0, 0},      {7, false, 0, 0}};

/* One division for each call, by turns, under each schedule; both tie policies. */
static void check_all(const std::vector<std::vector<float>> &rows, int k) {
    static unsigned turn;
    under_all_schedules([&] {
        for (int n = 0; n < 2; n++) {
            division d = DIVISIONS[turn++ % (sizeof DIVISIONS / sizeof *DIVISIONS)];
            d.capacity = std::max(d.capacity, k + TOPKIT_TILE);
            const int order = (int)(turn / 2 % 3);
            if (n) check_split<TOPKIT_ANY>(rows, k, d, order);
            else check_split<TOPKIT_LOWEST_INDEX>(rows, k, d, order);
        }
    });
}

template <class F> static std::vector<float> scores_of(int n, F formula) {
    std::vector<float> row((size_t)n);
    for (int i = 0; i < n; i++) row[(size_t)i] = formula(i);
    return row;
}

TEST_CASE("split rows are exact with every division") {
    std::vector<std::vector<float>> rows;
    for (int n : {0, 1, 3, 5, 40, 511, 512, 513, 2000, 4096, 9001})
        rows.push_back(scores_of(n, [&](int i) { return uniform((unsigned)n, (unsigned)i); }));
    for (int k : {1, 40, 300, 1000}) check_all(rows, k);
}

TEST_CASE("split rows: scores that drift, repeat, or all lie in one part") {
    const int n = 6000;
    std::vector<std::vector<float>> rows;
    rows.push_back(scores_of(n, [](int i) { return (float)i; }));
    rows.push_back(scores_of(n, [](int i) { return (float)-i; }));
    rows.push_back(scores_of(n, [](int) { return 1.0f; }));
    rows.push_back(scores_of(n, [](int i) { return i % 7 == 0 ? 1.0f : -0.0f; }));
    rows.push_back(scores_of(n, [](int i) { return i >= 1000 && i < 1400 ? 5.0f + uniform(1, (unsigned)i) : uniform(2, (unsigned)i); }));
    rows.push_back(scores_of(n, [](int i) { return i % 3 ? float_of(0x7fc00001u + (unsigned)i) : i % 2 ? float_of(0xff800000u) : 0.0f; }));
    rows.push_back(scores_of(n, [](int i) { return float_of(0xffc00000u + (unsigned)i % 9u); }));
    for (int k : {1, 333, 700}) check_all(rows, k);
}

/* Where all high scores are those that are sampled, the gate lets fewer than k pass. */
TEST_CASE("split rows: a gate that is too high is found, and the row is read once more") {
    const int n = 8192, k = 600;
    for (const division &as_is : DIVISIONS) {
        if (as_is.depth == 0 || (!as_is.meets && as_is.parts > test_cluster_blocks())) continue;
        division d = as_is;
        d.capacity = std::max(d.capacity, k + TOPKIT_TILE);
        const int room = std::min(2 * d.capacity, TOPKIT_SPLIT_SAMPLE);
        const std::vector<bool> sampled = sampled_scores(n, DENSITY, WIDTH, room, SALT, 0);
        REQUIRE(check_split<TOPKIT_ANY>(
                    {scores_of(n, [&](int i) { return uniform(3, (unsigned)i) + (sampled[(size_t)i] ? 100.0f : 0.0f); })}, k, d,
                    TOPKIT_ORDER_NONE) == 1);
    }
}

/* The same of parts that lie whole, whose sample is a vector of each thread: of so many that are high, fewer reach the gate than k. */
TEST_CASE("split rows: parts that lie whole are searched once more below a gate that is too high") {
    const int n = 40000, k = 1000;
    const unsigned stride = n / 4 / TOPKIT_SPLIT_THREADS;
    const std::vector<float> plain = scores_of(n, [](int i) { return uniform(3, (unsigned)i); });
    std::vector<float> row = plain, few = plain; /* few: some high ones of which the sample knows nothing, behind the last bin's end */
    for (int i = 0; i < 12; i++) few[(size_t)(i * 3001)] = 100.0f + (float)i;
    for (unsigned stratum = 0; stratum < TOPKIT_SPLIT_THREADS; stratum++) {
        const unsigned phase = (unsigned)((uint64_t)sampled_hash(sampled_hash(SALT) + stratum) * stride >> 32);
        for (unsigned c = 0; c < 4; c++) {
            row[(stratum * stride + phase) * 4 + c] += 100.0f;
            few[(stratum * stride + phase) * 4 + c] = plain[(stratum * stride + phase) * 4 + c];
        }
    }
    for (const division &d : DIVISIONS) {
        if (d.depth > 0 || (!d.meets && d.parts > test_cluster_blocks())) continue;
        REQUIRE(check_split<TOPKIT_ANY>({row}, k, d, TOPKIT_ORDER_NONE) == 1);
        REQUIRE(check_split<TOPKIT_LOWEST_INDEX>({row}, k, d, TOPKIT_ORDER_INDEX) == 1);
        REQUIRE(check_split<TOPKIT_ANY>({few}, 5, d, TOPKIT_ORDER_NONE) == 0);
    }
}

/* One bin of many scores, which bins of its own tell apart; and outliers that leave all others one bin for ever. */
TEST_CASE("split rows: parts that lie whole, and scores that crowd") {
    const int n = 6000;
    std::vector<std::vector<float>> rows;
    rows.push_back(scores_of(n, [](int i) { return i % 50 == 0 ? 100.0f + (float)i : uniform(1, (unsigned)i); }));
    rows.push_back(scores_of(n, [](int i) { return i % 97 == 5 ? 1e30f : 1.0f + 0x1p-20f * uniform(2, (unsigned)i); }));
    rows.push_back(scores_of(n, [](int i) { return i % 3 ? 0.0f : uniform(3, (unsigned)i); }));
    rows.push_back(scores_of(n, [](int i) { return i % 3 ? -0.0f : i % 2 ? 1.0f : 0.0f; }));
    rows.push_back(scores_of(n, [](int i) { return i % 5 ? float_of(0xff800000u) : uniform(4, (unsigned)i); }));
    for (int k : {1, 100, 900}) {
        for (const division &d : DIVISIONS) {
            if (d.depth > 0) continue;
            check_split<TOPKIT_ANY>(rows, k, d, TOPKIT_ORDER_NONE);
            check_split<TOPKIT_LOWEST_INDEX>(rows, k, d, TOPKIT_ORDER_SCORE);
        }
    }
}
