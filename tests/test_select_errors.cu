/* test_select_errors.cu: the operator's argument checks: every status, each with nothing launched, nothing written, nothing left behind.
 */
#include "select_case.h"

#include <set>

static float ramp(int n, int r, int i) { return (float)permuted(n, r, i) * 0x1p-10f; }

static unsigned long long launches_so_far(void) {
#ifdef TOPKIT_SIMT
    return simt_read_statistics().launches;
#else
    return 0; /* on the GPU the untouched outputs have to say it */
#endif
}

struct wrong_call {
    int status;
    const char *what;
    void (*spoil)(topkit_select_params *p);
};

template <class T> static void shift(T **pointer, int bytes) { *pointer = (T *)(uintptr_t)((uintptr_t)*pointer + (uintptr_t)bytes); }

static const wrong_call WRONG_CALLS[] = {
    {TOPKIT_ERROR_POINTER, "scores null", [](topkit_select_params *p) { p->scores = nullptr; }},
    {TOPKIT_ERROR_POINTER, "indices null", [](topkit_select_params *p) { p->indices = nullptr; }},
    {TOPKIT_ERROR_POINTER, "scores 1 byte off", [](topkit_select_params *p) { shift(&p->scores, 1); }},
    {TOPKIT_ERROR_POINTER, "scores 2 bytes off", [](topkit_select_params *p) { shift(&p->scores, 2); }},
    {TOPKIT_ERROR_POINTER, "indices 2 bytes off", [](topkit_select_params *p) { shift(&p->indices, 2); }},
    {TOPKIT_ERROR_POINTER, "values 1 byte off", [](topkit_select_params *p) { shift(&p->values, 1); }},
    {TOPKIT_ERROR_POINTER, "values 2 bytes off", [](topkit_select_params *p) { shift(&p->values, 2); }},
    {TOPKIT_ERROR_POINTER, "lengths 2 bytes off", [](topkit_select_params *p) { shift(&p->lengths, 2); }},
    {TOPKIT_ERROR_POINTER, "row starts 1 byte off", [](topkit_select_params *p) { shift(&p->row_starts, 1); }},
    {TOPKIT_ERROR_POINTER, "statistics 4 bytes off", [](topkit_select_params *p) { p->stats = (topkit_select_stats *)(p->indices + 1); }},
    {TOPKIT_ERROR_SHAPE, "rows -1", [](topkit_select_params *p) { p->rows = -1; }},
    {TOPKIT_ERROR_SHAPE, "rows above the limit", [](topkit_select_params *p) { p->rows = TOPKIT_MAX_ROWS + 1; }},
    {TOPKIT_ERROR_SHAPE, "rows least", [](topkit_select_params *p) { p->rows = -2147483647 - 1; }},
    {TOPKIT_ERROR_SHAPE, "max_length -1", [](topkit_select_params *p) { p->max_length = -1; }},
    {TOPKIT_ERROR_SHAPE, "max_length above the limit", [](topkit_select_params *p) { p->max_length = TOPKIT_MAX_LENGTH + 1; }},
    {TOPKIT_ERROR_SHAPE, "max_length largest", [](topkit_select_params *p) { p->max_length = 2147483647; }},
    {TOPKIT_ERROR_K, "k -1", [](topkit_select_params *p) { p->k = -1; }},
    {TOPKIT_ERROR_K, "k least", [](topkit_select_params *p) { p->k = -2147483647 - 1; }},
    {TOPKIT_ERROR_STRIDE, "row_stride -1", [](topkit_select_params *p) { p->row_stride = -1; }},
    {TOPKIT_ERROR_STRIDE, "index_stride k-1", [](topkit_select_params *p) { p->index_stride = p->k - 1; }},
    {TOPKIT_ERROR_STRIDE, "index_stride -1", [](topkit_select_params *p) { p->index_stride = -1; }},
    {TOPKIT_ERROR_STRIDE, "value_stride k-1", [](topkit_select_params *p) { p->value_stride = p->k - 1; }},
    {TOPKIT_ERROR_STRIDE, "value_stride -k", [](topkit_select_params *p) { p->value_stride = -p->k; }},
    {TOPKIT_ERROR_STRIDE, "column_stride 2", [](topkit_select_params *p) { p->column_stride = 2; }},
    {TOPKIT_ERROR_STRIDE, "column_stride -1", [](topkit_select_params *p) { p->column_stride = -1; }},
    {TOPKIT_ERROR_SCORE_TYPE, "score_type 3", [](topkit_select_params *p) { p->score_type = 3; }},
    {TOPKIT_ERROR_SCORE_TYPE, "score_type -1", [](topkit_select_params *p) { p->score_type = -1; }},
    {TOPKIT_ERROR_OPTION, "ties 2", [](topkit_select_params *p) { p->ties = 2; }},
    {TOPKIT_ERROR_OPTION, "ties -1", [](topkit_select_params *p) { p->ties = -1; }},
    {TOPKIT_ERROR_OPTION, "order 3", [](topkit_select_params *p) { p->order = 3; }},
    {TOPKIT_ERROR_OPTION, "order -1", [](topkit_select_params *p) { p->order = -1; }},
    {TOPKIT_ERROR_OPTION, "route 6", [](topkit_select_params *p) { p->route = 6; }},
    {TOPKIT_ERROR_OPTION, "route -1", [](topkit_select_params *p) { p->route = -1; }},
    {TOPKIT_ERROR_WORKSPACE, "workspace null", [](topkit_select_params *p) { p->workspace = nullptr; }},
    {TOPKIT_ERROR_WORKSPACE, "workspace short", [](topkit_select_params *p) { p->workspace_bytes -= 1; }},
    {TOPKIT_ERROR_WORKSPACE, "workspace 8 bytes off", [](topkit_select_params *p) { shift(&p->workspace, 8); }},
};

TEST_CASE("Every wrong argument has its status, and nothing happens") {
    const int n = 9000, k = 512;
    matrix m = matrix_of(3, n, [](int r, int i) { return ramp(n, r, i); });
    m.lengths.assign(3, n);
    m.starts.assign(3, 0);
    trial t(m);
    const mode how = {TOPKIT_ROUTE_ROW, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE}; /* the route that always has a workspace */
    for (const wrong_call &call : WRONG_CALLS) {
        INFO(call.what);
        REQUIRE(t.prepare(k, how));
        const topkit_select_params good = t.now;
        topkit_select_params p = good;
        call.spoil(&p);
        const unsigned long long launches = launches_so_far();
        REQUIRE(topkit_select(&p, nullptr) == call.status);
        REQUIRE(launches_so_far() == launches);
        settle(nullptr);
        REQUIRE(t.untouched());
        REQUIRE(topkit_select(&good, nullptr) == TOPKIT_OK); /* and no trace of it */
        settle(nullptr);
        t.verify();
    }
    REQUIRE(topkit_select(nullptr, nullptr) == TOPKIT_ERROR_POINTER);
}

TEST_CASE("The size query refuses what the call refuses, and then leaves its answer alone") {
    size_t bytes = 77;
    topkit_select_params p = {};
    p.rows = 10;
    p.max_length = 1000;
    p.k = 5;
    REQUIRE(topkit_select_workspace(nullptr, &bytes) == TOPKIT_ERROR_POINTER);
    REQUIRE(topkit_select_workspace(&p, nullptr) == TOPKIT_ERROR_POINTER);
    for (const wrong_call &call : WRONG_CALLS) {
        if (call.status != TOPKIT_ERROR_SHAPE && call.status != TOPKIT_ERROR_K) continue;
        topkit_select_params wrong = p;
        call.spoil(&wrong);
        REQUIRE(topkit_select_workspace(&wrong, &bytes) == call.status);
    }
    REQUIRE(bytes == 77);
    REQUIRE(topkit_select_workspace(&p, &bytes) == TOPKIT_OK);
    REQUIRE(bytes != 77);
}

TEST_CASE("Largest legal arguments") {
    topkit_select_params p = {};
    p.rows = TOPKIT_MAX_ROWS;
    p.max_length = TOPKIT_MAX_LENGTH;
    p.k = 2048;
    size_t bytes = 0;
    REQUIRE(topkit_select_workspace(&p, &bytes) == TOPKIT_OK);
    /* one short row under the largest max_length */
    trial t(matrix_of(1, 3000, [](int r, int i) { return ramp(3000, r, i); }));
    t.m.lengths = {3000};
    trial stated(t.m);
    stated.m.max_length = TOPKIT_MAX_LENGTH;
    stated.check(512);
}

/* A stream whose capture has been spoilt refuses launches: the runtime's own way to fail one. */
TEST_CASE("C10 a launch that the runtime refuses is reported") {
    const int n = 9000, k = 512;
    trial t(matrix_of(3, n, [](int r, int i) { return ramp(n, r, i); }));
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreate(&stream));
    for (int route : ROUTES) {
        const mode how = {route, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE};
        if (!t.prepare(k, how)) continue;
        CUDA_OK(cudaDeviceSynchronize());
        cudaGraph_t graph = nullptr;
        CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        REQUIRE(cudaStreamSynchronize(stream) != cudaSuccess); /* not allowed here: the capture is invalid from now on */
        cudaGetLastError();
        REQUIRE(topkit_select(&t.now, stream) == TOPKIT_ERROR_LAUNCH);
        REQUIRE(cudaGetLastError() == cudaSuccess);
        REQUIRE(cudaStreamEndCapture(stream, &graph) != cudaSuccess);
        cudaGetLastError();
        settle(stream);
        REQUIRE(t.untouched());
        REQUIRE(t.run(k, how, stream));
    }
    CUDA_OK(cudaStreamDestroy(stream));
}

#ifdef TOPKIT_SIMT
TEST_CASE("A device without multiprocessors is refused") { /* what a CUDA device can not be made to say, the executor can */
    trial t(matrix_of(3, 9000, [](int r, int i) { return ramp(9000, r, i); }));
    const mode how = {TOPKIT_ROUTE_AUTO, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE};
    REQUIRE(t.prepare(512, how));
    simt_set_sm_count(0);
    const int status = topkit_select(&t.now, nullptr);
    simt_set_sm_count(4);
    REQUIRE(status == TOPKIT_ERROR_DEVICE);
    REQUIRE(t.untouched());
    REQUIRE(t.run(512, how));
}

/* As where another process has some of the multiprocessors that the plan counts on. */
TEST_CASE("A cooperative launch that does not fit gives way to clusters") {
    const int n = 70000, k = 700;
    trial t(matrix_of(1, n, [](int r, int i) { return ramp(n, r, i); }));
    for (int order : {TOPKIT_ORDER_NONE, TOPKIT_ORDER_SCORE}) {
        for (int early : {0, 1}) {
            topkit_plan plan;
            REQUIRE(plan_here(1, n, k, order, TOPKIT_ROUTE_AUTO, &plan) == TOPKIT_OK);
            REQUIRE((plan.parts != plan.cluster && plan.blocks == 4));
            REQUIRE(t.prepare(k, {TOPKIT_ROUTE_AUTO, TOPKIT_TIES_LOWEST_INDEX, order}));
            t.now.early_start = early;
            simt_set_cooperative_blocks(3);
            const int status = topkit_select(&t.now, nullptr);
            simt_set_cooperative_blocks(0);
            REQUIRE(status == TOPKIT_OK);
            REQUIRE(cudaGetLastError() == cudaSuccess);
            settle(nullptr);
            t.verify();
        }
    }
}
#endif

TEST_CASE("Every status has a text of its own") {
    std::set<std::string> texts;
    for (int status = TOPKIT_OK; status <= TOPKIT_ERROR_LAUNCH; status++) texts.insert(topkit_status_text(status));
    texts.insert(topkit_status_text(-1));
    REQUIRE(texts.size() == TOPKIT_ERROR_LAUNCH + 2u);
    REQUIRE(topkit_status_text(1000) == std::string(topkit_status_text(-1)));
}
