/* test_select_workspace.cu: the operator's workspace: its size, what happens when it is wrong, and that it cleans up behind itself. */
#include "select_case.h"

static float ramp(int n, int r, int i) { return (float)permuted(n, r, i) * 0x1p-10f; }

TEST_CASE("B11 the size query is pure") {
    topkit_select_params p;
    memset(&p, 0xee, sizeof p); /* it reads none of the pointers and strides */
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreate(&stream));
    for (int route : ROUTES) {
        for (int rows : {1, 33, 5000, 70001}) {
            for (int k : {1, 512, 2048}) {
                p.score_type = TOPKIT_SCORE_F32;
                p.rows = rows;
                p.max_length = 131072;
                p.k = k;
                p.ties = TOPKIT_TIES_ANY;
                p.order = TOPKIT_ORDER_NONE;
                p.route = route;
                size_t outside = 12345, inside = 54321, again = 0;
                const int status = topkit_select_workspace(&p, &outside);
                if (status != TOPKIT_OK) {
                    REQUIRE(route != TOPKIT_ROUTE_AUTO);
                    REQUIRE(outside == 12345);
                    continue;
                }
                cudaGraph_t graph;
                CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
                const int captured = topkit_select_workspace(&p, &inside);
                CUDA_OK(cudaStreamEndCapture(stream, &graph));
                CUDA_OK(cudaGraphDestroy(graph));
                REQUIRE(captured == TOPKIT_OK);
                REQUIRE(inside == outside);
                REQUIRE(topkit_select_workspace(&p, &again) == TOPKIT_OK);
                REQUIRE(again == outside);
            }
        }
    }
    CUDA_OK(cudaStreamDestroy(stream));
    CUDA_OK(cudaGetLastError());
}

TEST_CASE("B11 a workspace that is null, too small or misaligned is an error and nothing happens") {
    const int n = 9000, k = 512;
    trial t(matrix_of(test_size(300, 20), n, [](int r, int i) { return ramp(n, r, i); }));
    for (int route : ROUTES) {
        const mode how = {route, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE};
        if (!t.prepare(k, how)) continue;
        const topkit_select_params good = t.now;
        for (int wrong = 0; wrong < (good.workspace_bytes ? 5 : 0); wrong++) {
            topkit_select_params p = good;
            if (wrong == 0) p.workspace_bytes--;
            if (wrong == 1) p.workspace_bytes = 0;
            if (wrong == 2) p.workspace = nullptr;
            if (wrong == 3) p.workspace = (unsigned char *)p.workspace + 8;
            if (wrong == 4) p.workspace = (unsigned char *)p.workspace + 1;
            REQUIRE(topkit_select(&p, nullptr) == TOPKIT_ERROR_WORKSPACE);
            settle(nullptr);
            REQUIRE(t.untouched());
        }
        if (!good.workspace_bytes) {
            t.now.workspace = nullptr; /* legal where the query says 0 */
            REQUIRE(topkit_select(&t.now, nullptr) == TOPKIT_OK);
            settle(nullptr);
            t.verify();
        }
        REQUIRE(t.run(k, how));
    }
}

TEST_CASE("B11 a long row, whose blocks meet in memory, does with less workspace in a cluster") {
    const int n = test_size(1 << 20, 70000), k = 512;
    trial t(matrix_of(1, n, [n](int r, int i) { return ramp(n, r, i); }));
    for (int order : {TOPKIT_ORDER_NONE, TOPKIT_ORDER_INDEX}) {
        if (!t.prepare(k, {TOPKIT_ROUTE_SPLIT, TOPKIT_TIES_ANY, order})) continue;
        topkit_select_params p = t.now;
        p.workspace_bytes = TOPKIT_WORKSPACE_HEADER + 3;
        REQUIRE(topkit_select(&p, nullptr) == TOPKIT_ERROR_WORKSPACE);
        settle(nullptr);
        REQUIRE(t.untouched());
        p.workspace_bytes++;
        REQUIRE(p.workspace_bytes < t.now.workspace_bytes);
        REQUIRE(topkit_select(&p, nullptr) == TOPKIT_OK);
        settle(nullptr);
        t.verify();
    }
}

/* One workspace, dirty when it is allocated, zeroed once as select.h asks, then used by launches of all shapes, routes, policies. */
TEST_CASE("B12 a workspace is zeroed once and then serves any launch") {
    const int launches = test_size(200, 60), most_rows = test_size(3000, 40);
    topkit_select_params largest = {};
    largest.rows = most_rows;
    largest.max_length = 1 << 20;
    largest.k = 2048;
    size_t room = 0;
    for (int route : ROUTES) {
        size_t need = 0;
        largest.route = route;
        if (topkit_select_workspace(&largest, &need) == TOPKIT_OK && need > room) room = need;
    }
    guarded workspace(room);
    workspace.fill(0xff);
    workspace.fill(0);
    int done = 0;
    for (int launch = 0; done < launches; launch++) {
        const int rows = 1 + (int)(hashed(launch, 0) % (unsigned)(launch % 5 == 0 ? most_rows : 30));
        const int width = 1 + (int)(hashed(launch, 1) % (rows > 100 ? 700u : 12000u)), k = 1 + (int)(hashed(launch, 2) % 2048u);
        matrix m = matrix_of(rows, width, [](int, int) { return 0.0f; });
        for (int r = 0; r < rows && launch % 3; r++) m.lengths.push_back((int)(hashed(launch, 100 + r) % (unsigned)(width + 1)));
        m.fill([=](int r, int i) { return (float)(hashed(launch * 1000 + r, i) & 0xfffff); });
        trial t(m);
        const mode how = {ROUTES[launch % ROUTE_COUNT], (int)(hashed(launch, 3) & 1), (int)(hashed(launch, 4) % 3)};
        INFO("launch " << launch << ", schedule " << next_schedule());
        if (!t.prepare(k, how)) continue;
        REQUIRE(t.now.workspace_bytes <= room);
        t.now.workspace = workspace.data;
        t.now.workspace_bytes = room;
        REQUIRE(topkit_select(&t.now, nullptr) == TOPKIT_OK);
        settle(nullptr);
        t.verify();
        std::vector<unsigned char> inside;
        REQUIRE(workspace.read(&inside));
        done++;
    }
}
