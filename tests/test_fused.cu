/* The fused indexer (examples/fused.h): the product of one tile, the scores, the selection; by that order, so that the first case that fails
 * says which part is wrong. On the executor scalar code takes the tensor cores' place, all else is the same source.
 */
#include "fused_case.h"
#include "fused_product.cuh"

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

static bool device_has_it(void) {
    size_t bytes;
    topkit_fused_params p = {};
    p.heads = 32;
    return topkit_fused_workspace(&p, &bytes) == TOPKIT_OK;
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
        for (int n : {1, 63, 100, 2048, 2049}) {
            fused_case c(3, heads, n);
            c.integers(n);
            c.check(test_size(2048, 512));
            c.check(7);
        }
    }
    fused_case c(test_size(40, 2), 32, test_size(30011, 7001));
    c.integers(5);
    c.check(512);
    c.check(2048);
}
