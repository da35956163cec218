/* test_plan.cpp: topkit_make_plan as a pure function: a grid of shapes and devices, and what holds for every plan of it.
 */
#include <catch2/catch.hpp>

#include "plan.h"

#include <cstring>

struct device {
    const char *name;
    topkit_device_facts facts;
};

static const device DEVICES[] = {
    {"A100", {80, 108, 166912, 167936, 2048}}, {"RTX 3090", {86, 82, 101376, 102400, 1536}}, {"RTX 4090", {89, 128, 101376, 102400, 1536}},
    {"H200", {90, 132, 232448, 233472, 2048}}, {"one slice of it", {90, 16, 232448, 233472, 2048}},
    {"one multiprocessor", {90, 1, 232448, 233472, 2048}}, {"B200", {100, 148, 232448, 233472, 2048}},
    {"RTX 5090", {120, 170, 101376, 102400, 1536}}, {"executor", {90, 4, 232448, 233472, 2048}},
};

static const int ROWS[] = {1, 2, 3, 31, 131, 132, 133, 264, 265, 4096, 70001, 1 << 20, TOPKIT_MAX_ROWS};
static const int LENGTHS[] = {0, 1, 64, 512, 2047, 8192, 8193, 49151, 49152, 131072, 1 << 20, 1 << 24, TOPKIT_MAX_LENGTH};
static const int KS[] = {1, 2, 31, 512, 705, 2048, 2049, 4095, 4096, 4097, 16384, 16385, 1 << 20, TOPKIT_MAX_LENGTH};
static const int ROUTES[] = {TOPKIT_ROUTE_AUTO,  TOPKIT_ROUTE_ROW,    TOPKIT_ROUTE_PIPELINED,
                             TOPKIT_ROUTE_SPLIT, TOPKIT_ROUTE_DIRECT, TOPKIT_ROUTE_ANY_K};
static const int ORDERS[] = {TOPKIT_ORDER_NONE, TOPKIT_ORDER_INDEX, TOPKIT_ORDER_SCORE};

template <class F> static void for_each_shape(F visit) {
    for (int rows : ROWS) {
        for (int length : LENGTHS) {
            for (int k : KS) {
                for (int order : ORDERS) visit(rows, length, k, order);
            }
        }
    }
}

static topkit_plan plan_filled_with(int byte) {
    topkit_plan plan;
    memset(&plan, byte, sizeof plan);
    return plan;
}

static bool same(const topkit_plan &a, const topkit_plan &b) {
    return a.route == b.route && a.blocks == b.blocks && a.threads == b.threads && a.capacity == b.capacity &&
           a.shared_bytes == b.shared_bytes && a.workspace_bytes == b.workspace_bytes && a.parts == b.parts && a.cluster == b.cluster &&
           a.slot == b.slot && a.depth == b.depth;
}

/* Of a split row's blocks, of which each has a multiprocessor to itself. */
static const char *split_fault(const topkit_plan &p, int rows, int max_length, int k, int order, const topkit_device_facts &d) {
    const size_t least = TOPKIT_WORKSPACE_HEADER + 4 * (size_t)rows;
    if (p.cluster < 1 || p.cluster > 16 || (p.cluster & (p.cluster - 1)) || (d.arch < 90 && p.cluster > 1)) return "a wrong cluster";
    if ((long long)p.blocks != (long long)rows * p.parts) return "blocks are not rows times parts";
    if (p.depth == 0 && p.parts < 2) return "a row in shared memory that is not split";
    if (p.depth == 0 && p.shared_bytes < TOPKIT_PLAN_SPLIT_FIXED_SHARED + 8 * p.capacity + 4 * (max_length / p.parts))
        return "no room for a part";
    if (p.depth == 0 && order != TOPKIT_ORDER_NONE && 8LL * p.capacity < 8LL * k + (k + 3) / 4 * 4 + 2 * k) return "no room to sort";
    if (p.depth > 0 && p.capacity < k + 512) return "a buffer that a compaction may not make room in";
    /* As plan.c has it: of 132 multiprocessors seven clusters of 16, 15 of 8 or 30 of 4 run at a time. */
    const long long share = p.cluster > 8 ? d.sm_count * 6ll / 7 : p.cluster > 2 ? d.sm_count * 10ll / 11 : d.sm_count;
    if (p.cluster > 1 && (long long)rows * p.cluster > share) return "more clusters than run at a time";
    if (p.parts == p.cluster) return p.workspace_bytes == least && p.slot == 0 ? nullptr : "a workspace that clusters have no use for";
    if (p.parts < 2 * p.cluster) return "not worth a meeting in memory";
    if (p.blocks > d.sm_count) return "more blocks than are resident together";
    if (4 * (size_t)rows + 16 > TOPKIT_WORKSPACE_HEADER) return "more rows than counters";
    const size_t slot = 2048 + 2048 * (size_t)p.parts, sorted = order == TOPKIT_ORDER_NONE ? 0 : 8 * (size_t)k;
    if (p.slot % 16 || (size_t)p.slot < slot + sorted || (size_t)p.slot > slot + sorted + 8) return "a slot of the wrong size";
    if (p.workspace_bytes != TOPKIT_WORKSPACE_HEADER + (size_t)rows * (size_t)p.slot) return "a workspace that is not its slots";
    return nullptr;
}

/* What is wrong with a plan, or null. */
static const char *plan_fault(const topkit_plan &p, int rows, int max_length, int k, int order, int route,
                              const topkit_device_facts &d) {
    if (p.route < TOPKIT_ROUTE_ROW || p.route > TOPKIT_ROUTE_ANY_K) return "no route";
    if (route != TOPKIT_ROUTE_AUTO && p.route != route) return "not the route that was asked for";
    if (p.blocks < 1) return "no blocks";
    if (p.threads < 32 || p.threads > 1024 || p.threads % 32) return "threads";
    if (p.shared_bytes < 0 || p.shared_bytes > d.shared_per_block) return "more shared memory than a block may have";
    if (p.shared_limit != d.shared_per_block) return "a limit of shared memory that depends on the shape";
    if (p.threads > d.threads_per_sm) return "more threads than a multiprocessor has";
    const bool in_parts = p.route == TOPKIT_ROUTE_ANY_K && p.parts > 1;
    if (in_parts && (d.arch < 90 || p.parts != p.cluster || p.parts > 16 || (p.parts & (p.parts - 1)))) return "parts that are no cluster";
    if (p.route == TOPKIT_ROUTE_ROW || p.route == TOPKIT_ROUTE_PIPELINED || p.route == TOPKIT_ROUTE_ANY_K) {
        const int each = (p.blocks + d.sm_count - 1) / d.sm_count; /* persistent blocks, all resident at once */
        if (in_parts ? p.blocks != rows * p.parts : p.blocks > rows) return "more persistent blocks than rows, or parts of a row left out";
        if (each * (p.shared_bytes + 1024) > d.shared_per_sm || each * p.threads > d.threads_per_sm) return "more blocks than fit at once";
        const bool compacts = p.route != TOPKIT_ROUTE_ANY_K || order == TOPKIT_ORDER_SCORE;
        if (compacts && p.capacity < k + 1024) return "a buffer that a compaction may not make room in";
        if (compacts && order != TOPKIT_ORDER_NONE && 8LL * p.capacity < 8LL * k + (k + 3) / 4 * 4 + 2 * k) return "no room to sort";
        if (p.workspace_bytes > 65536 + 4 * (size_t)rows) return "workspace above 64 KB and 4 bytes a row";
    }
    if (p.route == TOPKIT_ROUTE_SPLIT) return split_fault(p, rows, max_length, k, order, d);
    return (in_parts || (p.parts == 1 && p.cluster == 1)) && p.slot == 0 ? nullptr : "parts of a row that is not split";
}

TEST_CASE("Every plan can be launched on its device") {
    for (const device &d : DEVICES) {
        for (int route : ROUTES) {
            for_each_shape([&](int rows, int length, int k, int order) {
                topkit_plan plan = plan_filled_with(0x11), again = plan_filled_with(0xee), untouched = plan_filled_with(0x11);
                const int status = topkit_make_plan(rows, length, k, order, route, &d.facts, &plan);
                const int status_again = topkit_make_plan(rows, length, k, order, route, &d.facts, &again);
                const char *fault = nullptr;
                if (status != status_again) fault = "another status at the second call";
                else if (status != TOPKIT_OK) fault = memcmp(&plan, &untouched, sizeof plan) ? "written in spite of an error" : nullptr;
                else if (!same(plan, again)) fault = "another plan at the second call";
                else fault = plan_fault(plan, rows, length, k, order, route, d.facts);
                INFO(d.name << ", route " << route << ", rows " << rows << ", length " << length << ", k " << k << ", order " << order);
                if (fault) FAIL(fault);
            });
        }
    }
}

TEST_CASE("AUTO has a plan for every shape on every supported device") {
    for (const device &d : DEVICES) {
        for_each_shape([&](int rows, int length, int k, int order) {
            topkit_plan plan;
            if (k > 2048 && order == TOPKIT_ORDER_SCORE) return; /* not every device has room for a larger buffer */
            const int status = topkit_make_plan(rows, length, k, order, TOPKIT_ROUTE_AUTO, &d.facts, &plan);
            INFO(d.name << ", rows " << rows << ", length " << length << ", k " << k);
            if (status != TOPKIT_OK) FAIL(topkit_status_text(status));
        });
    }
}

TEST_CASE("AUTO takes what was fastest on an H200") {
    static const struct {
        int rows, length, k, route;
    } cases[] = {{1, 1, 2048, TOPKIT_ROUTE_DIRECT},          {1, 12288, 2048, TOPKIT_ROUTE_DIRECT},
                 {1, 12289, 2048, TOPKIT_ROUTE_SPLIT},       {30, 12289, 2048, TOPKIT_ROUTE_SPLIT},
                 {31, 16384, 2048, TOPKIT_ROUTE_DIRECT},     {31, 16385, 2048, TOPKIT_ROUTE_SPLIT},
                 {66, 16385, 2048, TOPKIT_ROUTE_SPLIT},      {67, 32768, 2048, TOPKIT_ROUTE_DIRECT},
                 {132, 32768, 2048, TOPKIT_ROUTE_DIRECT},    {132, 32769, 2048, TOPKIT_ROUTE_SPLIT},
                 {1, 1 << 24, 2048, TOPKIT_ROUTE_SPLIT},     {396, 28672, 2048, TOPKIT_ROUTE_DIRECT},
                 {133, 28673, 2048, TOPKIT_ROUTE_ROW},       {396, 28673, 2048, TOPKIT_ROUTE_PIPELINED},
                 {397, 1 << 20, 3584, TOPKIT_ROUTE_PIPELINED}, {1056, 1 << 20, 3585, TOPKIT_ROUTE_ROW},
                 {1057, 1 << 20, 3585, TOPKIT_ROUTE_PIPELINED},
                 {133, 32769, 2048, TOPKIT_ROUTE_ROW},       {264, 1 << 20, 2048, TOPKIT_ROUTE_ROW},
                 {397, 24577, 2048, TOPKIT_ROUTE_PIPELINED}, {8192, 1 << 20, 2048, TOPKIT_ROUTE_PIPELINED},
                 {8192, 24576, 2048, TOPKIT_ROUTE_DIRECT},   {8192, 24576, 4097, TOPKIT_ROUTE_ROW},
                 {1, 1 << 20, 8192, TOPKIT_ROUTE_SPLIT},     {8192, 24576, 8192, TOPKIT_ROUTE_ROW},
                 {1, 1 << 20, 18432, TOPKIT_ROUTE_SPLIT},    {1, 1 << 20, 18433, TOPKIT_ROUTE_ANY_K},
                 {1, 524288, 131072, TOPKIT_ROUTE_SPLIT},    {16, 524288, 18433, TOPKIT_ROUTE_ANY_K},
                 {132, 1 << 20, 8193, TOPKIT_ROUTE_SPLIT},   {133, 1 << 20, 17408, TOPKIT_ROUTE_ROW},
                 {133, 1 << 20, 17409, TOPKIT_ROUTE_ANY_K},  {133, 131072, 13107, TOPKIT_ROUTE_ROW},
                 {133, 131072, 13108, TOPKIT_ROUTE_ANY_K},
                 {133, 1 << 20, 8192, TOPKIT_ROUTE_ROW},     {1, 32768, 8193, TOPKIT_ROUTE_ANY_K},
                 {66, 32768, 4097, TOPKIT_ROUTE_ANY_K},      {67, 32768, 4097, TOPKIT_ROUTE_ROW}};
    for (const auto &c : cases) {
        topkit_plan plan;
        INFO(c.rows << " rows of " << c.length << ", k " << c.k);
        REQUIRE(topkit_make_plan(c.rows, c.length, c.k, TOPKIT_ORDER_NONE, TOPKIT_ROUTE_AUTO, &DEVICES[3].facts, &plan) == TOPKIT_OK);
        REQUIRE(plan.route == c.route);
    }
}

TEST_CASE("AUTO is the plan of the route that it names") {
    for (const device &d : DEVICES) {
        for_each_shape([&](int rows, int length, int k, int order) {
            topkit_plan automatic, named;
            if (topkit_make_plan(rows, length, k, order, TOPKIT_ROUTE_AUTO, &d.facts, &automatic) != TOPKIT_OK) return;
            if (k > 4096 && automatic.route != TOPKIT_ROUTE_ANY_K) return; /* with a buffer that a caller can not ask for */
            const int status = topkit_make_plan(rows, length, k, order, automatic.route, &d.facts, &named);
            if (status != TOPKIT_OK || !same(automatic, named)) FAIL(d.name << ", rows " << rows << ", length " << length << ", k " << k);
        });
    }
}

TEST_CASE("Nothing to do is a plan without a route") {
    for (int route : ROUTES) {
        topkit_plan plan = plan_filled_with(0x11);
        const int status = topkit_make_plan(0, 1000, 5, TOPKIT_ORDER_NONE, route, &DEVICES[3].facts, &plan);
        if (status == TOPKIT_ERROR_OPTION && route != TOPKIT_ROUTE_AUTO) continue; /* a route that is not in this build */
        REQUIRE(status == TOPKIT_OK);
        REQUIRE(plan.route == 0);
        REQUIRE(plan.workspace_bytes == 0);
        plan = plan_filled_with(0x11);
        REQUIRE(topkit_make_plan(10, 1000, 0, TOPKIT_ORDER_NONE, route, &DEVICES[3].facts, &plan) == TOPKIT_OK);
        REQUIRE(plan.route == 0);
        REQUIRE(plan.workspace_bytes == 0);
    }
}

TEST_CASE("k up to 4096 on the row route, and no further") {
    topkit_plan plan;
    const topkit_device_facts *h200 = &DEVICES[3].facts;
    for (int k = 1; k <= 4096; k++)
        REQUIRE(topkit_make_plan(10, 100000, k, TOPKIT_ORDER_SCORE, TOPKIT_ROUTE_ROW, h200, &plan) == TOPKIT_OK);
    REQUIRE(topkit_make_plan(10, 100000, 4097, TOPKIT_ORDER_NONE, TOPKIT_ROUTE_ROW, h200, &plan) == TOPKIT_ERROR_K);
    REQUIRE(topkit_make_plan(10, 100000, 2147483647, TOPKIT_ORDER_NONE, TOPKIT_ROUTE_ROW, h200, &plan) == TOPKIT_ERROR_K);
    REQUIRE(topkit_make_plan(10, 100000, -1, TOPKIT_ORDER_NONE, TOPKIT_ROUTE_ROW, h200, &plan) == TOPKIT_ERROR_K);
}

TEST_CASE("Few rows of any k get clusters, as large as fit at a time") {
    static const struct {
        int rows, length, parts;
    } cases[] = {{1, 1 << 20, 16}, {14, 1 << 20, 16}, {15, 1 << 20, 8}, {30, 1 << 20, 8}, {31, 1 << 20, 4},    {60, 1 << 20, 4},
                 {61, 1 << 20, 2}, {132, 1 << 20, 2}, {133, 1 << 20, 1}, {1, 65535, 8},   {1, 8192, 2}, {1, 8191, 1}};
    for (const auto &c : cases) {
        topkit_plan plan;
        INFO(c.rows << " rows of " << c.length);
        REQUIRE(topkit_make_plan(c.rows, c.length, 100000, TOPKIT_ORDER_INDEX, TOPKIT_ROUTE_ANY_K, &DEVICES[3].facts, &plan) == TOPKIT_OK);
        REQUIRE(plan.parts == c.parts);
        REQUIRE(plan.blocks == c.rows * c.parts);
    }
}

TEST_CASE("Any k on one route, which AUTO takes where no other does") {
    const topkit_device_facts *h200 = &DEVICES[3].facts;
    for (int order : ORDERS) {
        const int most = order == TOPKIT_ORDER_SCORE ? 16384 : TOPKIT_MAX_LENGTH;
        for (int route : {TOPKIT_ROUTE_AUTO, TOPKIT_ROUTE_ANY_K}) {
            topkit_plan plan;
            for (int k : {4097, 8192, 8193, 16383, 16384, most - 1, most}) {
                REQUIRE(topkit_make_plan(10, 1 << 20, k, order, route, h200, &plan) == TOPKIT_OK);
                const int buffered = order == TOPKIT_ORDER_NONE ? 18432 : order == TOPKIT_ORDER_INDEX ? 4096 : 8192;
                REQUIRE((plan.route == TOPKIT_ROUTE_ANY_K) == (route == TOPKIT_ROUTE_ANY_K || k > buffered));
            }
            REQUIRE(topkit_make_plan(10, 1 << 20, most + 1, order, route, h200, &plan) == TOPKIT_ERROR_K);
            REQUIRE(topkit_make_plan(10, 1 << 20, 1, order, route, h200, &plan) == TOPKIT_OK);
            REQUIRE((plan.route == TOPKIT_ROUTE_ANY_K) == (route == TOPKIT_ROUTE_ANY_K));
        }
    }
}

TEST_CASE("What a plan refuses") {
    topkit_plan plan;
    const topkit_device_facts good = DEVICES[3].facts;
    REQUIRE(topkit_make_plan(1, 1, 1, 0, 0, nullptr, &plan) == TOPKIT_ERROR_POINTER);
    REQUIRE(topkit_make_plan(1, 1, 1, 0, 0, &good, nullptr) == TOPKIT_ERROR_POINTER);
    REQUIRE(topkit_make_plan(-1, 1, 1, 0, 0, &good, &plan) == TOPKIT_ERROR_SHAPE);
    REQUIRE(topkit_make_plan(1, -1, 1, 0, 0, &good, &plan) == TOPKIT_ERROR_SHAPE);
    REQUIRE(topkit_make_plan(1, TOPKIT_MAX_LENGTH, 1, 0, 0, &good, &plan) == TOPKIT_OK);
    REQUIRE(topkit_make_plan(1, TOPKIT_MAX_LENGTH + 1, 1, 0, 0, &good, &plan) == TOPKIT_ERROR_SHAPE);
    for (int wrong : {-1, 3, 100}) REQUIRE(topkit_make_plan(1, 1, 1, wrong, 0, &good, &plan) == TOPKIT_ERROR_OPTION);
    for (int wrong : {-1, 6, 100}) REQUIRE(topkit_make_plan(1, 1, 1, 0, wrong, &good, &plan) == TOPKIT_ERROR_OPTION);
}

TEST_CASE("A device that lacks something is refused, whatever the route") {
    for (int route : ROUTES) {
        for (int lack = 0; lack < 4; lack++) {
            topkit_device_facts d = DEVICES[3].facts;
            topkit_plan plan;
            if (topkit_make_plan(1000, 131072, 2048, TOPKIT_ORDER_NONE, route, &d, &plan) == TOPKIT_ERROR_OPTION) continue;
            if (lack == 0) d.arch = 75;
            if (lack == 1) d.sm_count = 0;
            if (lack == 2) d.shared_per_block = d.shared_per_sm = 16384;
            if (lack == 3) d.threads_per_sm = 32;
            INFO("route " << route << ", lacking " << lack);
            REQUIRE(topkit_make_plan(1000, 131072, 2048, TOPKIT_ORDER_NONE, route, &d, &plan) == TOPKIT_ERROR_DEVICE);
        }
    }
}

TEST_CASE("A split row's blocks meet in memory where there are enough of them") {
    static const struct {
        int device, rows, length, cluster, parts;
    } cases[] = {{3, 1, 65536, 8, 8},      {3, 1, 524287, 16, 16},  {3, 1, 524288, 16, 64},  {3, 1, 2097152, 16, 64},
                 {3, 1, 2097153, 16, 128}, {3, 2, 1 << 20, 16, 64}, {3, 4, 1 << 20, 16, 33}, {3, 5, 1 << 20, 16, 16},
                 {3, 7, 1 << 20, 16, 16},  {3, 8, 1 << 20, 8, 16},  {3, 33, 1 << 20, 2, 4},  {3, 66, 1 << 20, 2, 2},
                 {3, 132, 1 << 20, 1, 1},  {3, 1, 65544, 16, 16},   {3, 1, 8192, 8, 8},      {3, 1, 4095, 2, 2},
                   {0, 1, 1 << 20, 1, 64},  {0, 54, 1 << 20, 1, 2},  {0, 55, 1 << 20, 1, 1},
                 {5, 1, 1 << 24, 1, 1},    {8, 1, 65535, 2, 2},     {8, 1, 65536, 2, 4}};
    for (const auto &c : cases) {
        topkit_plan plan;
        INFO(DEVICES[c.device].name << ": " << c.rows << " rows of " << c.length);
        const topkit_device_facts *facts = &DEVICES[c.device].facts;
        REQUIRE(topkit_make_plan(c.rows, c.length, 2048, TOPKIT_ORDER_NONE, TOPKIT_ROUTE_SPLIT, facts, &plan) == TOPKIT_OK);
        CHECK(plan.cluster == c.cluster);
        CHECK(plan.parts == c.parts);
    }
}

TEST_CASE("Blocks that meet in memory give way to clusters where the workspace is small") {
    for (int order : ORDERS) {
        topkit_plan plan, wide, clusters;
        REQUIRE(topkit_make_plan(4, 1 << 20, 2048, order, TOPKIT_ROUTE_SPLIT, &DEVICES[3].facts, &wide) == TOPKIT_OK);
        REQUIRE(wide.parts == 33);
        REQUIRE(wide.workspace_bytes == 1024 + 4 * (2048 + 33 * 2048 + (order == TOPKIT_ORDER_NONE ? 0u : 2048u * 8)));
        const size_t least = TOPKIT_WORKSPACE_HEADER + 4 * 4;
        clusters = wide;
        topkit_plan_clusters(&clusters, 4);
        REQUIRE((clusters.parts == 16 && clusters.cluster == 16 && clusters.blocks == 64));
        REQUIRE((clusters.slot == 0 && clusters.workspace_bytes == least));
        REQUIRE((clusters.depth > 0 && clusters.threads == wide.threads)); /* 33 parts lie in shared memory whole, 16 do not */
        REQUIRE((clusters.shared_bytes == wide.tiles.shared_bytes && clusters.capacity == wide.tiles.capacity));
        plan = clusters;
        topkit_plan_clusters(&plan, 4); /* they are clusters already */
        REQUIRE(same(plan, clusters));
        plan = wide;
        REQUIRE(topkit_plan_within(&plan, 4, wide.workspace_bytes) == TOPKIT_OK);
        REQUIRE(same(plan, wide));
        REQUIRE(topkit_plan_within(&plan, 4, least - 1) == TOPKIT_ERROR_WORKSPACE);
        REQUIRE(same(plan, wide));
        for (size_t bytes : {wide.workspace_bytes - 1, least}) {
            plan = wide;
            REQUIRE(topkit_plan_within(&plan, 4, bytes) == TOPKIT_OK);
            REQUIRE(same(plan, clusters));
        }
    }
    topkit_plan plan;
    REQUIRE(topkit_make_plan(16, 1 << 20, 2048, TOPKIT_ORDER_NONE, TOPKIT_ROUTE_ROW, &DEVICES[3].facts, &plan) == TOPKIT_OK);
    REQUIRE(topkit_plan_within(&plan, 16, plan.workspace_bytes - 1) == TOPKIT_ERROR_WORKSPACE);
}

TEST_CASE("Workspace never shrinks when rows are added") {
    for (int route : {TOPKIT_ROUTE_ROW, TOPKIT_ROUTE_PIPELINED, TOPKIT_ROUTE_ANY_K}) {
        size_t before = 0;
        for (int rows : ROWS) {
            topkit_plan plan;
            REQUIRE(topkit_make_plan(rows, 131072, 2048, TOPKIT_ORDER_NONE, route, &DEVICES[3].facts, &plan) == TOPKIT_OK);
            REQUIRE(plan.workspace_bytes >= before);
            REQUIRE(plan.workspace_bytes > 0);
            before = plan.workspace_bytes;
        }
    }
}
