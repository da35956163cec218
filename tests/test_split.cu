/* test_split.cu: the merge of a cluster, and the split kernel with every division of a row: clusters and teams that no plan would make for
 * rows as short as these, buffers that overflow, gates that are too high. The operator's tests have the plan's own divisions.
 */
#include "03_split_select.cuh"
#include "oracle.h"
#include "sampled.h"
#include "testing.h"

/* ---- the launch that 05_select.cu makes, with a division of the test's own ---- */

struct division {
    int cluster, teams, depth, capacity;
};

/* ---- the merge alone: block b brings counts[b] candidates with consecutive indices and scores that fall with the index ---- */

struct merge_storage {
    topkit_refiner_storage refiner;
    topkit_collector_state collected;
    topkit_cluster_storage cluster;
};

static __global__ void merge_kernel(const int *counts, int capacity, int k, topkit_candidate *out, int *results) {
    TOPKIT_SHARED(memory);
    merge_storage *s = (merge_storage *)memory;
    topkit_candidate *items = (topkit_candidate *)(memory + (sizeof(merge_storage) + 15) / 16 * 16);
    const topkit_group block = topkit_group_block();
    const topkit_collector c = {items, capacity, nullptr, &s->collected};
    const unsigned rank = topkit_cluster_block();
    topkit_refiner_init(block, &s->refiner);
    if (block.thread == 0) s->collected.dropped = s->collected.compactions = 0;
    int first = 0, total = -1;
    for (unsigned b = 0; b < rank; b++) first += counts[b];
    for (int i = (int)block.thread; i < counts[rank]; i += (int)block.size) {
        const topkit_candidate one = {__float_as_uint((float)-(first + i)), first + i};
        items[i] = one;
    }
    topkit_group_sync(block);
    const int held = topkit_cluster_merge<TOPKIT_ANY>(block, c, counts[rank], k, &s->cluster, &s->refiner, &total);
    if (block.thread == 0) results[1 + rank] = total;
    if (rank > 0) return;
    if (block.thread == 0) results[0] = held;
    for (int i = (int)block.thread; i < held; i += (int)block.size) out[i] = items[i];
}

static void check_merge(const std::vector<int> &counts, int capacity, int k) {
    const int blocks = (int)counts.size();
    INFO("blocks " << blocks << ", capacity " << capacity << ", k " << k);
    if (blocks > test_cluster_blocks()) return;
    under_all_schedules([&] {
        int total = 0;
        for (int n : counts) total += n;
        device_buffer<int> in(counts), results((size_t)blocks + 1);
        device_buffer<topkit_candidate> out((size_t)capacity);
        test_launch_clusters(blocks, (unsigned)blocks, 96, (sizeof(merge_storage) + 15) / 16 * 16 + (size_t)capacity * 8, merge_kernel,
                             in.data, capacity, k, out.data, results.data);
        const std::vector<int> got = results.read();
        const std::vector<topkit_candidate> items = out.read();
        for (int b = 0; b < blocks; b++) REQUIRE(got[(size_t)b + 1] == total);
        const int best = std::min(k, total);
        if (total <= capacity) REQUIRE(got[0] == total);
        else REQUIRE((got[0] >= best && got[0] <= capacity));
        std::vector<int> seen((size_t)total, 0);
        for (int i = 0; i < got[0]; i++) {
            const int index = items[(size_t)i].index;
            REQUIRE((index >= 0 && index < total));
            REQUIRE(float_of(items[(size_t)i].bits) == (float)-index);
            seen[(size_t)index]++;
        }
        REQUIRE(std::count_if(seen.begin(), seen.end(), [](int n) { return n > 1; }) == 0);
        REQUIRE(std::count(seen.begin(), seen.begin() + best, 1) == best); /* none of the k best was lost */
    });
}

TEST_CASE("a cluster's candidates meet in its first block") {
    check_merge({5}, 64, 8);
    check_merge({30, 40, 0}, 100, 8); /* the worked numbers */
    check_merge({30, 40, 0}, 64, 8);
    check_merge({0, 0, 0, 7}, 64, 8);
    check_merge({0, 0, 0, 0}, 64, 8);
    check_merge({100, 100, 100, 100, 100, 100, 100, 100}, 800, 50); /* all fit exactly */
    check_merge({100, 100, 100, 100, 100, 100, 100, 100}, 799, 50); /* all but one */
    check_merge({100, 100, 100, 100, 100, 100, 100}, 200, 100);     /* an odd number, no room beyond 2k */
    check_merge({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, 32, 16);
    check_merge({0, 200, 0, 0, 200, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 200}, 256, 128);
}

/* ---- whole rows ---- */

enum { DENSITY = 16, WIDTH = 8, SALT = 5 }; /* how they are sampled */

/* Returns how many rows were read twice. */
template <int TIES> static unsigned long long check_split(const std::vector<std::vector<float>> &rows, int k, division d) {
    if (d.cluster > test_cluster_blocks()) return 0;
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
    device_buffer<int> in_lengths(lengths), indices((size_t)(count * k)), published((size_t)(count * d.teams));
    device_buffer<float> values((size_t)(count * k));
    device_buffer<unsigned> tickets((size_t)count, 0);
    const int slot = d.cluster > 1 ? std::min(2 * k, d.capacity - k) : k;
    device_buffer<topkit_candidate> pool((size_t)(count * d.teams * slot));
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
    job.teams = d.teams;
    job.slot = slot;
    job.depth = d.depth;
    job.tickets = tickets.data;
    job.published = published.data;
    job.pool = pool.data;
    INFO("k " << k << ", cluster " << d.cluster << ", teams " << d.teams << ", depth " << d.depth << ", capacity " << d.capacity);
    const size_t shared = TOPKIT_SPLIT_HEADER + (size_t)d.depth * 32768 + (size_t)d.capacity * 8;
    test_launch_clusters(d.cluster, (unsigned)(count * d.cluster * d.teams), TOPKIT_SPLIT_THREADS, shared,
                         topkit_split_select_kernel<TIES>, job);

    const std::vector<int> got = indices.read();
    const std::vector<float> got_values = values.read();
    std::vector<uint32_t> bits(got_values.size());
    std::memcpy(bits.data(), got_values.data(), bits.size() * 4);
    for (unsigned ticket : tickets.read()) REQUIRE(ticket == 0);
    pool.read();
    published.read();
    for (int r = 0; r < count; r++) {
        const std::vector<float> &row = rows[(size_t)r];
        const std::string fault = oracle_fault(row.data(), (int)row.size(), oracle_best(row.data(), (int)row.size(), k), k,
                                               got.data() + (size_t)r * k, bits.data() + (size_t)r * k, TIES == TOPKIT_LOWEST_INDEX, 0);
        if (!fault.empty()) FAIL("row " << r << " of length " << row.size() << ": " << fault);
    }
    return stats.read()[0].recoveries;
}

static const division DIVISIONS[] = {{1, 1, 1, 1024}, {2, 1, 4, 1024}, {3, 1, 2, 1536}, {8, 1, 1, 1024}, {16, 1, 1, 1024},
                                     {1, 2, 1, 1024}, {1, 7, 2, 1024}, {2, 3, 1, 2048}, {4, 2, 3, 1024}, {5, 2, 1, 1024}};

/* One division for each call, by turns, under each schedule; both tie policies. */
static void check_all(const std::vector<std::vector<float>> &rows, int k) {
    static unsigned turn;
    under_all_schedules([&] {
        for (int n = 0; n < 2; n++) {
            division d = DIVISIONS[turn++ % (sizeof DIVISIONS / sizeof *DIVISIONS)];
            d.capacity = std::max(d.capacity, std::max(2 * k, k + TOPKIT_TILE));
            if (n) check_split<TOPKIT_ANY>(rows, k, d);
            else check_split<TOPKIT_LOWEST_INDEX>(rows, k, d);
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
        if (as_is.cluster > test_cluster_blocks()) continue;
        division d = as_is;
        d.capacity = std::max(d.capacity, 2 * k);
        const int room = std::min(2 * d.capacity, TOPKIT_SPLIT_SAMPLE);
        const std::vector<bool> sampled = sampled_scores(n, DENSITY, WIDTH, room, SALT, 0);
        REQUIRE(check_split<TOPKIT_ANY>(
                    {scores_of(n, [&](int i) { return uniform(3, (unsigned)i) + (sampled[(size_t)i] ? 100.0f : 0.0f); })}, k, d) == 1);
    }
}
