/* test_select_launch.cu: the operator among other work: graphs, streams, order in a stream, repeated launches, persistent blocks.
 */
#include "flood.h"
#include "topkit/ptx.cuh"

#include <thread>

static float ramp(int n, int r, int i) { return (float)permuted(n, r, i) * 0x1p-10f; }

static cudaStream_t new_stream(unsigned flags = cudaStreamDefault) {
    cudaStream_t stream = nullptr;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, flags));
    return stream;
}

static cudaGraphExec_t captured(trial *t, cudaStream_t stream) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    const int status = topkit_select(&t->now, stream);
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    REQUIRE(status == TOPKIT_OK);
    CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_OK(cudaGraphDestroy(graph));
    return exec;
}

TEST_CASE("C01 a graph replayed with other lengths and scores") {
    const int rows = 16, n = test_size(65536, 12000), k = 512, replays = test_size(100, 8);
    cudaStream_t stream = new_stream();
    for (int route : ROUTES) {
        for (int ties : {TOPKIT_TIES_ANY, TOPKIT_TIES_LOWEST_INDEX}) {
            matrix m = matrix_of(rows, n, [](int, int) { return 0.0f; });
            m.scores.assign((size_t)rows * (size_t)n, POISON);
            m.lengths.assign(rows, n * 60 / 66);
            trial t(m);
            if (!t.prepare(k, {route, ties, TOPKIT_ORDER_NONE})) continue;
            const cudaGraphExec_t exec = captured(&t, stream);
            for (int replay = 0; replay < replays; replay++) {
                INFO("replay " << replay << ", route " << route << ", schedule " << next_schedule());
                std::fill(t.m.scores.begin(), t.m.scores.end(), POISON);
                for (int r = 0; r < rows; r++) {
                    t.m.lengths[(size_t)r] = r >= 14 ? 0 : 1 + (int)(hashed(replay, r) % (unsigned)n);
                    float *row = &t.m.scores[(size_t)t.m.begin(r)];
                    for (int i = 0; i < t.m.length(r); i++) row[i] = (float)(hashed(replay * 100 + r, i) % 5000);
                }
                t.rewrite(stream);
                t.indices->fill(PREFILL_BYTE);
                t.values->fill(PREFILL_BYTE);
                CUDA_OK(cudaGraphLaunch(exec, stream));
                settle(stream);
                t.verify();
            }
            CUDA_OK(cudaGraphExecDestroy(exec));
        }
    }
    CUDA_OK(cudaStreamDestroy(stream));
}

TEST_CASE("C01 a graph replayed with other starts, rows too long, poison of both kinds, started early, in every order") {
    const int rows = 9, n = test_size(40000, 9000), k = 300;
    cudaStream_t stream = new_stream();
    for (int route : ROUTES) {
        for (int early : {0, 1}) {
            matrix m = matrix_of(rows, n, [](int, int) { return 0.0f; });
            m.row_stride = 2 * n;
            m.lengths.assign(rows, n);
            m.starts.assign(rows, 1);
            m.scores.assign((size_t)rows * 2 * (size_t)n, POISON);
            trial t(m);
            if (!t.prepare(k, {route, early, (route + early) % 3})) continue;
            t.now.early_start = early;
            const cudaGraphExec_t exec = captured(&t, stream);
            for (int replay = 0; replay < test_size(6, 3); replay++) {
                INFO("replay " << replay << ", route " << route << ", schedule " << next_schedule());
                std::fill(t.m.scores.begin(), t.m.scores.end(), replay % 2 ? POISON : bits_float(0x7fc00000u));
                for (int r = 0; r < rows; r++) {
                    t.m.starts[(size_t)r] = (int)(hashed(replay + 50, r) % 900u) * (replay % 3);
                    t.m.lengths[(size_t)r] = r == replay       ? -3
                                             : r == replay + 1 ? n + 5
                                             : r == 8          ? k
                                                               : (int)(hashed(replay, r) % (unsigned)n);
                    float *row = &t.m.scores[(size_t)t.m.begin(r)];
                    for (int i = 0; i < t.m.length(r); i++) row[i] = (float)(hashed(replay * 100 + r, i) % 5000) - 2500.0f;
                }
                t.rewrite(stream);
                t.indices->fill(PREFILL_BYTE);
                t.values->fill(PREFILL_BYTE);
                for (int i = 0; i <= early; i++) CUDA_OK(cudaGraphLaunch(exec, stream)); /* behind itself, in the same workspace */
                settle(stream);
                t.verify();
            }
            CUDA_OK(cudaGraphExecDestroy(exec));
        }
    }
    CUDA_OK(cudaStreamDestroy(stream));
}

TEST_CASE("C02 capture does nothing but record, and the graph can be launched a thousand times") {
    const int n = 9000, k = 512;
    trial t(matrix_of(test_size(300, 10), n, [](int r, int i) { return ramp(n, r, i); }));
    for (unsigned flags : {(unsigned)cudaStreamDefault, (unsigned)cudaStreamNonBlocking}) {
        cudaStream_t stream = new_stream(flags);
        for (int route : ROUTES) {
            if (!t.prepare(k, {route, TOPKIT_TIES_LOWEST_INDEX, TOPKIT_ORDER_SCORE})) continue;
            const cudaGraphExec_t exec = captured(&t, stream);
            settle(stream);
            REQUIRE(t.untouched());
            for (int launch = 0; launch < test_size(1000, 5); launch++) CUDA_OK(cudaGraphLaunch(exec, stream));
            settle(stream);
            t.verify();
            CUDA_OK(cudaGraphExecDestroy(exec));
        }
        CUDA_OK(cudaStreamDestroy(stream));
    }
}

TEST_CASE("C02 a long row, whose blocks meet in memory, in a graph and behind other work") {
    const int n = test_size(1 << 20, 70000), k = 512;
    trial t(matrix_of(1, n, [n](int r, int i) { return ramp(n, r, i); }));
    cudaStream_t stream = new_stream(cudaStreamNonBlocking);
    for (int order : {TOPKIT_ORDER_NONE, TOPKIT_ORDER_SCORE}) {
        if (!t.prepare(k, {TOPKIT_ROUTE_SPLIT, TOPKIT_TIES_LOWEST_INDEX, order})) continue;
        t.now.early_start = 1;
        const cudaGraphExec_t exec = captured(&t, stream);
        settle(stream);
        REQUIRE(t.untouched());
        for (int launch = 0; launch < test_size(1000, 3); launch++) {
            next_schedule();
            CUDA_OK(cudaGraphLaunch(exec, stream));
            REQUIRE(topkit_select(&t.now, stream) == TOPKIT_OK);
        }
        settle(stream);
        t.verify();
        CUDA_OK(cudaGraphExecDestroy(exec));
    }
    CUDA_OK(cudaStreamDestroy(stream));
}

TEST_CASE("C03 two streams with workspaces of their own") {
    const int n = test_size(40000, 9000), k = 512;
    trial a(matrix_of(test_size(300, 9), n, [n](int r, int i) { return ramp(n, r, i); }));
    trial b(matrix_of(test_size(300, 9), n, [n](int r, int i) { return -ramp(n, r + 5, i); }));
    cudaStream_t first = new_stream(cudaStreamNonBlocking), second = new_stream(cudaStreamNonBlocking);
    for (int route : ROUTES) {
        const mode how = {route, TOPKIT_TIES_LOWEST_INDEX, TOPKIT_ORDER_NONE};
        if (!a.prepare(k, how) || !b.prepare(k, how)) continue;
        CUDA_OK(cudaDeviceSynchronize());
        for (int turn = 0; turn < test_size(200, 4); turn++) {
            REQUIRE(topkit_select(&a.now, first) == TOPKIT_OK);
            REQUIRE(topkit_select(&b.now, second) == TOPKIT_OK);
        }
        settle(first);
        settle(second);
        a.verify();
        b.verify();
    }
    CUDA_OK(cudaStreamDestroy(first));
    CUDA_OK(cudaStreamDestroy(second));
}

TEST_CASE("C04 repeated under load: exact always, and the same sequence where that is promised") {
    const int n = test_size(131072, 12000), rows = test_size(33, 3), runs = test_size(100, 5);
    const std::vector<matrix> inputs = {
        matrix_of(rows, 8320, [](int, int i) { return i % 83 == 0 && i < 8300 ? 1.0f + (float)(i / 83) : 0.0f; }),
        matrix_of(rows, n, [](int, int) { return -1.0f; }),
        matrix_of(rows, n / 2, [](int r, int i) { return (float)(hashed(r, i) & 63); }),
        matrix_of(rows, n, [n](int r, int i) {
            const int p = permuted(n, r, i);
            return p < 1000 ? 2.0f + (float)p * 0x1p-10f : p < n - n / 13 ? 1.0f : 0.5f;
        })};
    exact<unsigned> memory(std::vector<unsigned>((size_t)FLOOD_WORDS, 1u));
    cudaStream_t stream = new_stream(cudaStreamNonBlocking), other = new_stream(cudaStreamNonBlocking);
    for (const matrix &m : inputs) {
        trial t(m);
        std::vector<int> promised; /* by lowest-index ties in index order: of every route the same */
        for (int route : ROUTES) {
            const mode deterministic = {route, TOPKIT_TIES_LOWEST_INDEX, TOPKIT_ORDER_INDEX};
            for (const mode how : {mode{route, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE}, deterministic}) {
                for (int run = 0; run < runs; run++) {
                    flood(memory.data, FLOOD_WORDS, other);
                    if (!t.run(2048, how, stream)) break;
                    std::vector<int> got;
                    REQUIRE(t.indices->read(&got));
                    if (how.ties == TOPKIT_TIES_ANY) continue;
                    if (promised.empty()) promised = got;
                    REQUIRE(got == promised);
                }
            }
        }
        settle(other);
    }
    CUDA_OK(cudaStreamDestroy(stream));
    CUDA_OK(cudaStreamDestroy(other));
}

TEST_CASE("C07 persistent blocks and rows of every kind") {
    const int sm_count = device_facts_here().sm_count;
    for (int k : {512, 2048}) {
        const int cycle[] = {0, 1, k - 1, k, k + 1, 5000, test_size(70000, 9001)};
        for (bool sorted_lengths : {false, true}) {
            matrix m = matrix_of(10 * sm_count + 3, cycle[6], [](int, int) { return 0.0f; });
            for (int r = 0; r < m.rows; r++) m.lengths.push_back(cycle[sorted_lengths ? r * 7 / m.rows : r % 7]);
            m.fill([](int r, int i) { return (float)(hashed(r, i) & 0xfffff) - 500000.0f; });
            trial t(m);
            t.check(k);
        }
    }
}

/* Waits a while on the GPU, so that whoever does not wait for it reads the old scores; a launch behind it may be brought up meanwhile. */
static __global__ void late_kernel(const float *from, float *to, int count, long long clocks) {
    topkit_dependency_wait();
#ifndef TOPKIT_SIMT
    const long long begin = clock64();
    while (clock64() - begin < clocks) {}
#else
    (void)clocks;
#endif
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += (int)(gridDim.x * blockDim.x)) to[i] = from[i];
}

TEST_CASE("C08 order in a stream: late scores in, result out") {
    const int n = 9000, k = 512, rows = test_size(100, 3);
    matrix m = matrix_of(rows, n, [](int r, int i) { return ramp(n, r, i); });
    trial t(m);
    exact<float> source(m.scores);
    cudaStream_t blocking = new_stream(), free_running = new_stream(cudaStreamNonBlocking);
    for (cudaStream_t stream : {blocking, free_running, (cudaStream_t) nullptr}) {
        for (int n = 0; n < 2 * ROUTE_COUNT; n++) {
            if (!t.prepare(k, {ROUTES[n / 2], TOPKIT_TIES_LOWEST_INDEX, TOPKIT_ORDER_NONE})) continue;
            t.now.early_start = n % 2;
            guarded consumer(t.indices->bytes);
            CUDA_OK(cudaMemset(t.scores.data, 0, t.scores.count * sizeof(float)));
            CUDA_OK(cudaDeviceSynchronize());
            cudaLaunchConfig_t config = {};
            config.gridDim = dim3((unsigned)test_size(32, 1));
            config.blockDim = dim3((unsigned)test_size(256, 32));
            config.stream = stream;
            CUDA_OK(cudaLaunchKernelEx(&config, late_kernel, (const float *)source.data, t.scores.data, (int)source.count, 10000000ll));
            REQUIRE(topkit_select(&t.now, stream) == TOPKIT_OK);
            CUDA_OK(cudaMemcpyAsync(consumer.data, t.indices->data, t.indices->bytes, cudaMemcpyDeviceToDevice, stream));
            settle(stream);
            t.verify();
            std::vector<int> seen, got;
            REQUIRE(consumer.read(&seen));
            REQUIRE(t.indices->read(&got));
            REQUIRE(seen == got);
        }
    }
    CUDA_OK(cudaStreamDestroy(blocking));
    CUDA_OK(cudaStreamDestroy(free_running));
}

TEST_CASE("C09 the largest shared memory, then the smallest, then the largest") {
    const int n = test_size(70000, 14000), most = largest_k(TOPKIT_ROUTE_ROW, n);
    trial t(matrix_of(test_size(33, 2), n, [n](int r, int i) { return ramp(n, r, i); }));
#ifdef TOPKIT_SIMT
    const unsigned lowered = simt_shared_limits_lowered();
#endif
    for (int k : {most, 1, most, 2048, most}) t.check(k);
#ifdef TOPKIT_SIMT
    REQUIRE(simt_shared_limits_lowered() == lowered);
#endif
}

TEST_CASE("C09 a graph of a large buffer outlives smaller launches of the same kernel") {
    trial large(matrix_of(3, 9000, [](int r, int i) { return ramp(9000, r, i); }));
    trial small(matrix_of(3, 5000, [](int r, int i) { return ramp(5000, r, i); }));
    cudaStream_t stream = new_stream();
    for (int route : ROUTES) {
        const mode one = {route, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE};
        if (!large.prepare(4096, one)) continue;
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        CUDA_OK(cudaDeviceSynchronize());
        CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        const int status = topkit_select(&large.now, stream);
        CUDA_OK(cudaStreamEndCapture(stream, &graph));
        REQUIRE(status == TOPKIT_OK);
        REQUIRE(small.run(1, one));
        CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
        REQUIRE(small.run(1, one));
        CUDA_OK(cudaGraphLaunch(exec, stream));
        settle(stream);
        large.verify();
        CUDA_OK(cudaGraphExecDestroy(exec));
        CUDA_OK(cudaGraphDestroy(graph));
    }
    CUDA_OK(cudaStreamDestroy(stream));
}

#ifndef TOPKIT_SIMT /* which is used from one host thread */
static void call_often(topkit_select_params params, cudaStream_t stream, int *status) {
    for (int i = 0; i < 2000 && *status == TOPKIT_OK; i++) *status = topkit_select(&params, stream);
}

/* The limit of dynamic shared memory is the kernel's, not the launch's: each call once set it to its own need, and one that needed little
 * could do so between another one's setting and its launch, which then failed. */
TEST_CASE("C09 two host threads, one with the largest shared memory and one with the smallest") {
    const int n = 30000;
    for (int route : {TOPKIT_ROUTE_ROW, TOPKIT_ROUTE_DIRECT, TOPKIT_ROUTE_SPLIT}) {
        const int most = largest_k(route, n);
        trial large(matrix_of(3, n, [](int r, int i) { return ramp(30000, r, i); }));
        trial small(matrix_of(3, n / 4, [](int r, int i) { return ramp(7500, r, i); }));
        if (!large.prepare(most, {route, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE})) continue;
        REQUIRE(small.prepare(1, {route, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE}));
        cudaStream_t streams[2] = {new_stream(), new_stream()};
        int statuses[2] = {TOPKIT_OK, TOPKIT_OK};
        std::thread other(call_often, small.now, streams[1], &statuses[1]);
        call_often(large.now, streams[0], &statuses[0]);
        other.join();
        for (int i = 0; i < 2; i++) {
            REQUIRE(statuses[i] == TOPKIT_OK);
            settle(streams[i]);
            CUDA_OK(cudaStreamDestroy(streams[i]));
        }
        large.verify();
        small.verify();
    }
}
#endif

TEST_CASE("C12 score order does not depend on whether the row is longer than k") {
    for (int n : {1, 2, 500, 511, 512, 513, 9000}) {
        trial t(matrix_of(test_size(17, 2), n, [](int r, int i) { return (float)(hashed(r, i) % 100) - 50.0f; }));
        for (int route : ROUTES) {
            t.run(512, {route, TOPKIT_TIES_ANY, TOPKIT_ORDER_SCORE});
            t.run(512, {route, TOPKIT_TIES_LOWEST_INDEX, TOPKIT_ORDER_SCORE});
        }
        REQUIRE(t.runs >= 4);
    }
}

TEST_CASE("Statistics count rows, and what was admitted is never less than k a row") {
    const int n = 20000, k = 512;
    matrix m = matrix_of(test_size(99, 9), n, [](int, int) { return 0.0f; });
    for (int r = 0; r < m.rows; r++) m.lengths.push_back(r % 3 == 0 ? n : r % 3 == 1 ? k : k + 1);
    m.fill([](int r, int i) { return (float)(hashed(r, i) & 0xffff); });
    trial t(m);
    for (int route : ROUTES) {
        if (!t.prepare(k, {route, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE})) continue;
        guarded stats(sizeof(topkit_select_stats));
        stats.fill(0);
        t.now.stats = (topkit_select_stats *)stats.data;
        for (int call = 0; call < 2; call++) {
            REQUIRE(topkit_select(&t.now, nullptr) == TOPKIT_OK);
            settle(nullptr);
        }
        t.verify();
        std::vector<topkit_select_stats> sum;
        REQUIRE(stats.read(&sum));
        REQUIRE(sum[0].rows == 2ull * (unsigned long long)(m.rows * 2 / 3));
        REQUIRE(sum[0].admitted >= sum[0].rows * (unsigned long long)k);
        REQUIRE(sum[0].recoveries <= sum[0].rows);
    }
}
