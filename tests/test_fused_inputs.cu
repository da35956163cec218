/* test_fused_inputs.cu: what the fused indexer (examples/fused.h) may be handed: arguments that are wrong, a workspace that served another
 * shape, pages and strides of every kind, ranges beyond everything, scores that are no numbers.
 */
#include "fused_case.h"

TEST_CASE("fused: every wrong argument has its status, and nothing happens") {
    if (!device_has_it()) return;
    fused_case c(4, 32, 200);
    c.integers(1);
    const std::unique_ptr<fused_case::on_device> d = c.upload(16);
    guarded out(4 * 16 * 4);
    out.fill(PREFILL_BYTE);
    d->p.indices = (int *)out.data;
    REQUIRE(topkit_fused_workspace(&d->p, &d->p.workspace_bytes) == TOPKIT_OK);
    guarded workspace(d->p.workspace_bytes);
    workspace.fill(0);
    d->p.workspace = workspace.data;
    const auto refused = [&](void (*change)(topkit_fused_params *), int status) {
        topkit_fused_params p = d->p;
        change(&p);
        REQUIRE(topkit_fused(&p, nullptr) == status);
    };
    refused([](topkit_fused_params *p) { p->queries = nullptr; }, TOPKIT_ERROR_POINTER);
    refused([](topkit_fused_params *p) { p->keys = (const char *)p->keys + 8; }, TOPKIT_ERROR_POINTER);
    refused([](topkit_fused_params *p) { p->weights = nullptr; }, TOPKIT_ERROR_POINTER);
    refused([](topkit_fused_params *p) { p->indices = nullptr; }, TOPKIT_ERROR_POINTER);
    refused([](topkit_fused_params *p) { p->heads = 48; }, TOPKIT_ERROR_SHAPE);
    refused([](topkit_fused_params *p) { p->tokens = -1; }, TOPKIT_ERROR_SHAPE);
    refused([](topkit_fused_params *p) { p->positions = -1; }, TOPKIT_ERROR_SHAPE);
    refused([](topkit_fused_params *p) { p->k = -1; }, TOPKIT_ERROR_K);
    refused([](topkit_fused_params *p) { p->k = TOPKIT_FUSED_MAX_K + 1; }, TOPKIT_ERROR_K);
    refused([](topkit_fused_params *p) { p->index_stride = 15; }, TOPKIT_ERROR_STRIDE);
    refused([](topkit_fused_params *p) { p->page_bytes = 64 * 128 + 8; }, TOPKIT_ERROR_STRIDE);
    refused([](topkit_fused_params *p) { p->ties = 2; }, TOPKIT_ERROR_OPTION);
    refused([](topkit_fused_params *p) { p->order = 3; }, TOPKIT_ERROR_OPTION);
    refused([](topkit_fused_params *p) { p->splits = TOPKIT_FUSED_MAX_SPLITS + 1; }, TOPKIT_ERROR_OPTION);
    refused([](topkit_fused_params *p) { p->splits = 2, p->tokens = TOPKIT_FUSED_SPLIT_TOKENS + 1; }, TOPKIT_ERROR_OPTION);
    refused([](topkit_fused_params *p) { p->splits = 2, p->k = 2049; }, TOPKIT_ERROR_OPTION);
    refused([](topkit_fused_params *p) { p->workspace_bytes--; }, TOPKIT_ERROR_WORKSPACE);
    refused([](topkit_fused_params *p) { p->workspace = nullptr; }, TOPKIT_ERROR_WORKSPACE);
    refused([](topkit_fused_params *p) { p->k = 0; }, TOPKIT_OK);
    refused([](topkit_fused_params *p) { p->tokens = 0; }, TOPKIT_OK);
    REQUIRE(topkit_fused(nullptr, nullptr) == TOPKIT_ERROR_POINTER);
    REQUIRE(topkit_fused_scores(&d->p, nullptr, 200, nullptr) == TOPKIT_ERROR_POINTER);
    REQUIRE(topkit_fused_scores(&d->p, (float *)out.data, -1, nullptr) == TOPKIT_ERROR_STRIDE);
    REQUIRE(topkit_fused_scores(&d->p, (float *)out.data, d->p.positions - 1, nullptr) == TOPKIT_ERROR_STRIDE);
    std::vector<uint32_t> inside;
    REQUIRE(out.read(&inside));
    for (uint32_t word : inside) REQUIRE(word == PREFILL);
    settle(nullptr);
}

TEST_CASE("fused: a workspace is zeroed once and then serves any shape") {
    if (!device_has_it()) return;
    const int n = test_size(20000, 700), k = 40;
    std::unique_ptr<guarded> workspace;
    size_t most = 0;
    const struct {
        int tokens, heads, splits;
    } shapes[] = {{20, 32, 1}, {9, 64, 3}, {20, 32, 2}, {3, 64, 1}, {20, 32, 4}};
    for (int pass = 0; pass < 2; pass++) { /* sizes first */
        for (const auto shape : shapes) {
            fused_case c(shape.tokens, shape.heads, n);
            c.integers(shape.tokens + pass);
            const std::unique_ptr<fused_case::on_device> d = c.upload(k);
            topkit_fused_params &p = d->p;
            p.splits = shape.splits;
            REQUIRE(topkit_fused_workspace(&p, &p.workspace_bytes) == TOPKIT_OK);
            most = p.workspace_bytes > most ? p.workspace_bytes : most;
            if (pass == 0) continue;
            if (!workspace) {
                workspace.reset(new guarded(most));
                workspace->fill(0);
            }
            guarded indices((size_t)shape.tokens * k * 4), values((size_t)shape.tokens * k * 4);
            p.indices = (int *)indices.data;
            p.values = (float *)values.data;
            p.workspace = workspace->data;
            const std::string schedule = next_schedule();
            INFO("tokens " << shape.tokens << ", splits " << shape.splits << ", schedule " << schedule);
            const int status = topkit_fused(&p, nullptr);
            settle(nullptr);
            REQUIRE(status == TOPKIT_OK);
            std::vector<int> got;
            std::vector<uint32_t> bits;
            REQUIRE(indices.read(&got));
            REQUIRE(values.read(&bits));
            c.verify(got, bits, k, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE);
        }
    }
}

/* Pages as serving engines lay them: 64 keys, then their 64 scales, then a gap; tables wider than they need be; gaps in the outputs. */
static void check_interleaved(int heads, int splits, int order, int ties, int k) {
    const int tokens = 7, n = 700, requests = 3, pages = (n + 63) / 64, pool = pages * requests, spare = 5;
    const size_t page_bytes = 8192 + 256 + 48;
    fused_case c(tokens, heads, n);
    c.paged = true;
    c.requests = requests;
    c.tables = {0, 0, 2, 2, 1, 1, 0};
    c.integers(heads + splits);
    c.scales.resize(c.keys.size() / 128);
    for (size_t i = 0; i < c.scales.size(); i++) c.scales[i] = i % 3 ? 0.5f : 4.0f;
    for (int t = 0; t < tokens; t++) c.ends.push_back(n - 90 * t);
    c.poison();
    const std::unique_ptr<fused_case::on_device> d = c.upload(k);
    std::vector<uint8_t> memory((size_t)pool * page_bytes, 0x7f);
    std::vector<int> table((size_t)(requests * (pages + spare)), 1 << 30);
    for (int p = 0; p < requests * n; p++) {
        const int r = p / n, page = p % n / 64, slot = p % n % 64, at = ((r * pages + page) * 7919 + 13) % pool;
        table[(size_t)(r * (pages + spare) + page)] = at;
        memcpy(&memory[(size_t)at * page_bytes + (size_t)slot * 128], &c.keys[(size_t)p * 128], 128);
        memcpy(&memory[(size_t)at * page_bytes + 8192 + (size_t)slot * 4], &c.scales[(size_t)p], 4);
    }
    exact<uint8_t> keys(memory);
    exact<int> tables(table);
    topkit_fused_params &p = d->p;
    p.keys = keys.data;
    p.key_scales = (const float *)(keys.data + 8192);
    p.page_table = tables.data;
    p.table_stride = pages + spare;
    p.page_bytes = (long long)page_bytes;
    p.scale_stride = (long long)page_bytes / 4;
    p.ties = ties;
    p.order = order;
    p.splits = splits;
    p.index_stride = k + 3;
    p.value_stride = k + 9;
    REQUIRE(topkit_fused_workspace(&p, &p.workspace_bytes) == TOPKIT_OK);
    guarded workspace(p.workspace_bytes);
    guarded indices((size_t)((tokens - 1) * (k + 3) + k) * 4), values((size_t)((tokens - 1) * (k + 9) + k) * 4);
    workspace.fill(0);
    indices.fill(PREFILL_BYTE);
    values.fill(PREFILL_BYTE);
    p.workspace = workspace.data;
    p.indices = (int *)indices.data;
    p.values = (float *)values.data;
    const std::string schedule = next_schedule();
    INFO("heads " << heads << ", splits " << splits << ", k " << k << ", schedule " << schedule);
    const int status = topkit_fused(&p, nullptr);
    settle(nullptr);
    REQUIRE(status == TOPKIT_OK);
    std::vector<int> wide, got;
    std::vector<uint32_t> wide_bits, bits;
    REQUIRE(indices.read(&wide));
    REQUIRE(values.read(&wide_bits));
    for (size_t i = 0; i < wide.size(); i++) {
        if (i % (size_t)(k + 3) < (size_t)k) got.push_back(wide[i]);
        else REQUIRE((uint32_t)wide[i] == PREFILL);
    }
    for (size_t i = 0; i < wide_bits.size(); i++) {
        if (i % (size_t)(k + 9) < (size_t)k) bits.push_back(wide_bits[i]);
        else REQUIRE(wide_bits[i] == PREFILL);
    }
    c.verify(got, bits, k, ties, order);
}

TEST_CASE("fused: pages of keys and scales by turns, strides of every kind") {
    if (!device_has_it()) return;
    check_interleaved(32, 1, TOPKIT_ORDER_NONE, TOPKIT_TIES_ANY, 100);
    check_interleaved(64, 3, TOPKIT_ORDER_SCORE, TOPKIT_TIES_LOWEST_INDEX, 33);
    check_interleaved(32, TOPKIT_FUSED_MAX_SPLITS, TOPKIT_ORDER_INDEX, TOPKIT_TIES_LOWEST_INDEX, 300);
}

TEST_CASE("fused: ranges beyond everything, negative, empty, none") {
    if (!device_has_it()) return;
    for (int splits : {1, 5}) {
        if (BRIEF && splits == 1) continue;
        fused_case c(8, 32, 200);
        c.integers(9);
        c.starts = {0, 199, 200, 5000, INT32_MAX, 100, 64, 0};
        c.ends = {INT32_MAX, INT32_MAX, INT32_MAX, 6000, INT32_MAX, INT32_MIN, 64, 1};
        c.run(20, splits % 2, 0, splits);
        fused_case none(5, 64, 0);
        none.integers(3);
        none.run(7, 1, 1, splits);
        fused_case all(5, 64, 300);
        all.integers(3);
        all.ends.assign(5, 0);
        all.run(7, 1, 1, splits);
    }
}

TEST_CASE("fused: scales, weights, keys and queries that are no numbers, or hardly") {
    if (!device_has_it()) return;
    for (int heads : {32, 64}) {
        if (BRIEF && heads == 64) continue;
        fused_case c(3, heads, 500);
        c.integers(17);
        c.scales.resize(500);
        const float kinds[] = {1.0f, -1.0f, 0.0f, -0.0f, INFINITY, -INFINITY, 0x1p-140f, -0x1p-140f, 0x1p120f, NAN};
        for (int i = 0; i < 500; i++) c.scales[(size_t)i] = kinds[hashed(3, i) % 10];
        for (int k : {1, 33, 260, 499}) c.run(k, k & 1, k % 3, k == 33 ? 3 : 1);
        fused_case nan(3, heads, 400);
        nan.integers(18);
        for (int i = 0; i < 400; i += 3) nan.keys[(size_t)(i * 128 + i % 128)] = i % 2 ? 0x7f : 0xff;
        nan.queries[128 * 3 + 5] = 0x7f;
        nan.weights[(size_t)heads + 1] = NAN;
        nan.weights[(size_t)heads * 2] = -INFINITY;
        for (int k : {1, 100, 399}) nan.run(k, k & 1, k % 3, 1);
    }
}
