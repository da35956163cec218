/* The fused indexer (examples/fused.h): the product of one tile, the scores, the selection; in that order, so that the first case that
 * fails says which part is wrong. On the executor scalar code takes the tensor cores' place, all else is the same source.
 */
#include "fused_case.h"
#include "fused_product.cuh"
#include "sampled.h"

/* ---- the product alone ---- */

static __global__ void product_kernel(const unsigned char *keys, const unsigned char *columns, float *out) {
#if TOPKIT_HAS_WGMMA
    TOPKIT_SHARED(memory);
    float d[TOPKIT_FUSED_SUMS];
    for (unsigned i = threadIdx.x; i < 64 * 8; i += 128)
        ((uint4 *)memory)[topkit_fused_swizzle(i / 8, i % 8) / 16] = ((const uint4 *)keys)[i];
    for (unsigned i = threadIdx.x; i < 128 * 8; i += 128)
        ((uint4 *)(memory + 8192))[topkit_fused_swizzle(i / 8, i % 8) / 16] = ((const uint4 *)columns)[i];
    topkit_fused_publish();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TOPKIT_FUSED_SUMS; i++) d[i] = 0.0f;
    topkit_fused_product_begin(d, memory, memory + 8192);
    topkit_fused_product_wait(d);
    const unsigned lane = threadIdx.x & 31, row = threadIdx.x / 32 * 16 + lane / 4, column = lane % 4 * 2;
#pragma unroll
    for (unsigned i = 0; i < TOPKIT_FUSED_SUMS; i++) out[(row + i / 2 % 2 * 8) * 128 + i / 4 * 8 + column + i % 2] = d[i];
#endif
}

static void check_product(const std::vector<uint8_t> &keys, const std::vector<uint8_t> &columns) {
    exact<uint8_t> k(keys), c(columns);
    guarded out(64 * 128 * 4);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(128);
    config.dynamicSmemBytes = 8192 + 16384;
    next_schedule();
    CUDA_OK(cudaLaunchKernelEx(&config, product_kernel, (const unsigned char *)k.data, (const unsigned char *)c.data, (float *)out.data));
    settle(nullptr);
    std::vector<float> got;
    REQUIRE(out.read(&got));
    for (int r = 0; r < 64; r++) {
        for (int h = 0; h < 128; h++) {
            float right = 0.0f;
            for (int i = 0; i < 128; i++) right += e4m3_float(keys[(size_t)(r * 128 + i)]) * e4m3_float(columns[(size_t)(h * 128 + i)]);
            INFO("key " << r << ", column " << h);
            if (got[(size_t)(r * 128 + h)] != right) REQUIRE(got[(size_t)(r * 128 + h)] == right);
        }
    }
}

TEST_CASE("fused: the product of one tile, one element of depth at a time") {
    if (!device_has_it()) return;
    for (int depth : {0, 1, 15, 16, 31, 32, 63, 64, 95, 96, 127}) { /* where a wrong swizzle or step shows, and which one */
        std::vector<uint8_t> keys(64 * 128), columns(128 * 128);
        for (int r = 0; r < 64; r++) keys[(size_t)(r * 128 + depth)] = e4m3_integer(1 + r % 15);
        for (int h = 0; h < 128; h++) columns[(size_t)(h * 128 + depth)] = e4m3_integer(h % 31 - 15);
        INFO("depth " << depth);
        check_product(keys, columns);
    }
}

TEST_CASE("fused: the product of one tile, all of it") {
    if (!device_has_it()) return;
    std::vector<uint8_t> keys(64 * 128), columns(128 * 128);
    for (size_t i = 0; i < keys.size(); i++) keys[i] = e4m3_integer((int)(hashed(1, (int)i) % 9) - 4);
    for (size_t i = 0; i < columns.size(); i++) columns[i] = e4m3_integer((int)(hashed(2, (int)i) % 9) - 4);
    check_product(keys, columns);
}

/* ---- the scores ---- */

/* Bits as the host has them: exact inputs only. */
static void check_scores(fused_case *c) {
    const std::unique_ptr<fused_case::on_device> d = c->upload(1);
    const long long stride = c->positions + 3;
    guarded matrix((size_t)c->tokens * (size_t)stride * 4);
    matrix.fill(PREFILL_BYTE);
    REQUIRE(topkit_fused_workspace(&d->p, &d->p.workspace_bytes) == TOPKIT_OK);
    guarded workspace(d->p.workspace_bytes);
    workspace.fill(0);
    d->p.workspace = workspace.data;
    const std::string schedule = next_schedule();
    INFO("heads " << c->heads << ", paged " << c->paged << ", schedule " << schedule);
    const int status = topkit_fused_scores(&d->p, (float *)matrix.data, stride, nullptr);
    settle(nullptr);
    REQUIRE(status == TOPKIT_OK);
    std::vector<uint32_t> got;
    REQUIRE(matrix.read(&got));
    REQUIRE(workspace.read(&got) == true);
    REQUIRE(matrix.read(&got));
    for (int t = 0; t < c->tokens; t++) {
        const std::vector<float> &right = c->scores(t);
        for (int i = 0; i < (int)stride; i++) {
            const uint32_t bits = got[(size_t)(t * stride + i)], wanted = i < (int)right.size() ? oracle_bits(right[(size_t)i]) : PREFILL;
            INFO("query " << t << ", index " << i << " of " << right.size());
            if (bits != wanted) REQUIRE(bits == wanted);
        }
    }
}

TEST_CASE("fused: scores of integers have the host's bits, at any range, contiguous and paged") {
    if (!device_has_it()) return;
    for (int heads : {32, 64}) {
        fused_case c(7, heads, 300);
        c.integers(heads);
        c.scales.resize(300);
        for (int i = 0; i < 300; i++) c.scales[(size_t)i] = i % 3 ? 0.5f : 4.0f;
        c.starts = {0, 1, 63, 64, 65, 130, 299};
        c.ends = {300, 300, 65, 129, 400, 130, 300};
        c.poison();
        check_scores(&c);
        c.paged = true;
        c.forget();
        check_scores(&c);
    }
}

/* ---- the selection ---- */

TEST_CASE("F01 exact arithmetic: a plateau of zeros, heavy ties, any number of positions") {
    if (!device_has_it()) return;
    for (int heads : {32, 64}) {
        for (int n : {1, 100, 2048, 2049}) {
            if (BRIEF && n == 2048) continue;
            fused_case c(3, heads, n);
            c.integers(n);
            c.check(n == 100 ? 7 : test_size(2048, 512));
        }
    }
    fused_case c(test_size(40, 2), 32, test_size(30011, 6401));
    c.integers(5);
    if (!BRIEF) c.check(512);
    c.check(2048);
}

TEST_CASE("F02 the same answer as the scores in memory and the operator behind them") {
    if (!device_has_it()) return;
    for (int heads : {32, 64}) {
        if (BRIEF && heads == 32) continue;
        const int n = test_size(40000, 6400), tokens = test_size(30, 3), k = test_size(2048, 300);
        fused_case c(tokens, heads, n); /* no integers: the sums' rounding must be the same, whatever the dot products are */
        c.reals(heads);
        for (int t = 0; t < tokens; t++) c.ends.push_back(n - tokens + 1 + t);
        const std::unique_ptr<fused_case::on_device> d = c.upload(k);
        topkit_fused_params &p = d->p;
        p.ties = TOPKIT_TIES_LOWEST_INDEX;
        p.order = TOPKIT_ORDER_INDEX;
        p.splits = heads == 32 ? 1 : 0;
        REQUIRE(topkit_fused_workspace(&p, &p.workspace_bytes) == TOPKIT_OK);
        guarded workspace(p.workspace_bytes), fused((size_t)tokens * (size_t)k * 4), two((size_t)tokens * (size_t)k * 4);
        guarded matrix((size_t)tokens * (size_t)n * 4);
        workspace.fill(0);
        p.workspace = workspace.data;
        p.indices = (int *)fused.data;
        const std::string schedule = next_schedule();
        INFO("heads " << heads << ", schedule " << schedule);
        REQUIRE(topkit_fused(&p, nullptr) == TOPKIT_OK);
        REQUIRE(topkit_fused_scores(&p, (float *)matrix.data, n, nullptr) == TOPKIT_OK);
        topkit_select_params q = {};
        q.scores = matrix.data;
        q.row_stride = n;
        q.lengths = d->ends.data;
        q.rows = tokens;
        q.max_length = n;
        q.k = k;
        q.ties = TOPKIT_TIES_LOWEST_INDEX;
        q.order = TOPKIT_ORDER_INDEX;
        q.indices = (int *)two.data;
        REQUIRE(topkit_select_workspace(&q, &q.workspace_bytes) == TOPKIT_OK);
        guarded more(q.workspace_bytes);
        more.fill(0);
        q.workspace = more.data;
        REQUIRE(topkit_select(&q, nullptr) == TOPKIT_OK);
        settle(nullptr);
        std::vector<int> one, other;
        REQUIRE(fused.read(&one));
        REQUIRE(two.read(&other));
        REQUIRE(one == other);
    }
}

TEST_CASE("F03 keys outside every range never matter") {
    if (!device_has_it()) return;
    fused_case c(9, 32, 1500);
    c.integers(3);
    for (int t = 0; t < 9; t++) c.starts.push_back(t < 5 ? 70 + t : 700);
    for (int t = 0; t < 9; t++) c.ends.push_back(t < 5 ? 600 + t : 1400 - t);
    c.poison();
    c.check(200);
    c.paged = true;
    c.forget();
    c.check(200);
}

TEST_CASE("F04 negative weights: every score is 0 or less") {
    if (!device_has_it()) return;
    for (int heads : {32, 64}) {
        fused_case c(5, heads, 900);
        c.integers(4, -1);
        c.check(300);
        c.check(1000); /* more than there are: padding must not win */
    }
}

TEST_CASE("F05 the workspace does not depend on the positions") {
    if (!device_has_it()) return;
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        topkit_fused_params p = {};
        p.tokens = 64;
        p.heads = 64;
        p.positions = i ? 1 << 20 : 1 << 16;
        p.k = 2048;
        p.splits = 8;
        REQUIRE(topkit_fused_workspace(&p, &bytes[i]) == TOPKIT_OK);
    }
    REQUIRE(bytes[0] == bytes[1]);
    REQUIRE(bytes[0] <= (size_t)64 * 8 * 65536 * 2 + 20480); /* two runs of each block */
}

TEST_CASE("fused: ragged ranges, several requests, empty ones, fewer positions than k") {
    if (!device_has_it()) return;
    for (int heads : {32, 64}) {
        fused_case c(17, heads, 900);
        c.integers(heads + 7);
        for (int t = 0; t < 17; t++) { /* causal, of three requests; then none; then one that overlaps two */
            const int request = t / 5;
            c.starts.push_back(t == 15 ? 250 : request * 300);
            c.ends.push_back(t == 15 ? 700 : t == 16 ? -5 : request * 300 + 200 + 20 * (t % 5));
        }
        c.ends[7] = c.starts[7];
        c.check(64);
        c.check(400);
    }
}

TEST_CASE("fused: paged keys of several requests, with a stride between pages") {
    if (!device_has_it()) return;
    fused_case c(11, 32, 700);
    c.paged = true;
    c.requests = 4;
    c.tables = {0, 0, 0, 3, 3, 1, 1, 1, 1, 2, 0};
    c.integers(12);
    c.scales.assign(c.keys.size() / 128, 2.0f);
    for (int t = 0; t < 11; t++) c.ends.push_back(700 - 60 * t);
    c.poison();
    c.check(100);
    c.check(2048);
}

TEST_CASE("fused: rising and falling scores, all equal, k up to the limit") {
    if (!device_has_it()) return;
    const int n = test_size(40000, 6300);
    for (int kind = 0; kind < 3; kind++) {
        if (BRIEF && kind == 1) continue;
        fused_case c(2, 64, n);
        c.levels([&](int i) { return kind == 0 ? i * 256 / n : kind == 1 ? 255 - i * 256 / n : 1; });
        c.check(kind == 2 ? 4096 : 300);
    }
}

/* Where the sample of a run that begins with query 0 looks, as fused_job.cuh says: every stride-th position from a hashed phase on. */
static bool is_sampled(int n, int k, int position) {
    const int wanted = (int)(((long long)n * 32 / (2 * k) + 64) / 64), samples = (wanted < 64 ? wanted : 64) * 64, stride = n / samples;
    const int from = (int)(sampled_hash(fused_case::SEED) % (unsigned)stride);
    return position >= from && (position - from) % stride == 0 && (position - from) / stride < samples;
}

TEST_CASE("fused: a sample that sees only the best: found, and scanned once more") {
    if (!device_has_it()) return;
    const int n = test_size(60000, 6300), k = 700;
    for (int splits : {1, 3}) {
        if (BRIEF && splits == 1) continue;
        fused_case c(3, 32, n);
        c.levels([&](int i) { return is_sampled(n, k, i) ? 200 + i % 50 : i % 190; });
        for (int ties = 0; ties < 2; ties++) {
            if (BRIEF && ties != splits % 2) continue;
            c.run(k, ties, ties, splits);
            REQUIRE(c.stats.recoveries == (unsigned)(3 * test_size(2, 1)));
            REQUIRE(c.stats.rows == (unsigned)(3 * test_size(2, 1)));
        }
    }
}

TEST_CASE("fused: a sample that sees only the worst: buffers overflow, and are compacted while others go on") {
    if (!device_has_it()) return;
    const int n = test_size(60000, 8000), k = 700;
    fused_case c(test_size(8, 4), 64, n);
    c.levels([&](int i) { return is_sampled(n, k, i) ? i % 3 : 3 + i * 252 / n; });
    for (int ties = 0; ties < 2; ties++) {
        for (int schedule = 0; schedule < test_size(1, BRIEF ? 1 : 2); schedule++) {
            c.run(k, ties, 2, 1);
            REQUIRE(c.stats.compactions >= (unsigned)c.tokens);
            REQUIRE(c.stats.recoveries == 0);
        }
    }
}

TEST_CASE("fused: NaN scores rank last and fill up") {
    if (!device_has_it()) return;
    fused_case c(2, 64, 400);
    c.integers(21);
    c.scales.assign(400, 1.0f);
    for (int i = 0; i < 400; i++) {
        if (i % 4) c.scales[(size_t)i] = i % 8 == 1 ? INFINITY : std::nanf("");
    }
    c.check(50);
    c.check(250);
    c.check(399);
}

TEST_CASE("fused: more runs than blocks") {
    if (!device_has_it()) return;
    fused_case c(test_size(3000, 90), 64, 130);
    c.integers(31);
    for (int t = 0; t < c.tokens; t++) c.ends.push_back(t % 7 == 3 ? 0 : 1 + (t * 37) % 130);
    c.check(33);
}

/* Passes without tiles hold neither producer nor consumers up: only its part in "scanned" keeps the relay's announcements from being
 * overwritten before it has looked at them. Without that it waits for tiles that were another run's. */
TEST_CASE("fused: many runs in a row that have nothing to scan") {
    if (!device_has_it()) return;
    fused_case c(test_size(4000, 120), 64, 130);
    c.integers(32);
    for (int t = 0; t < c.tokens; t++) c.ends.push_back(t / 37 % 3 == 2 ? 1 + t % 130 : 0);
    for (int schedule = 0; schedule < test_size(1, BRIEF ? 3 : 12); schedule++) c.run(20, schedule % 2, 0, 1);
}
