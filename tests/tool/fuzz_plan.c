/* fuzz_plan.c: libFuzzer target for the plan.
 *
 *   clang -std=c11 -g -O1 -fsanitize=fuzzer,address,undefined -Iexamples tests/tool/fuzz_plan.c examples/plan.c -o fuzz_plan
 *   ./fuzz_plan -max_total_time=60
 *
 * An input is eleven 32-bit numbers, zero where it is shorter: rows, max length, k, order, route, five device facts, and one that folds
 * the others into the ranges where plans are made. What plan.h promises must hold for all of them: a refusal leaves the plan alone, the
 * same question gets the same answer, and a plan fits the device, the request and the workspace bound.
 */
#include "plan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SYSTEM_SHARED = 1024 };

static void demand(int condition) {
    if (!condition) {
        abort();
    }
}

/* Of a split row's blocks: a cluster, or so many that meet in memory, which must all be resident together. */
static void check_parts(const topkit_plan *p, int rows, int k, const topkit_device_facts *d) {
    topkit_plan clusters = *p;
    size_t least = TOPKIT_WORKSPACE_HEADER + 4 * (size_t)rows;
    demand(p->cluster >= 1 && p->cluster <= 16 && (p->cluster == 1 || d->arch >= 90));
    demand(p->parts >= p->cluster && (long long)p->blocks == (long long)rows * p->parts);
    demand(p->cluster == 1 || (long long)rows * p->cluster <= d->sm_count);
    if (p->parts != p->cluster) {
        demand(p->blocks <= d->sm_count && 4 * (size_t)rows + 16 <= TOPKIT_WORKSPACE_HEADER && p->slot % 16 == 0);
        demand(p->workspace_bytes == TOPKIT_WORKSPACE_HEADER + (size_t)rows * (size_t)p->slot);
        demand((size_t)p->slot <= 4096 + 4096 * (size_t)p->parts + 8 * (size_t)k + 8);
        demand(topkit_plan_within(&clusters, rows, p->workspace_bytes - 1) == TOPKIT_OK);
        demand(clusters.depth > 0 && clusters.capacity >= k && clusters.shared_bytes <= d->shared_per_block);
        demand(clusters.parts == clusters.cluster && clusters.blocks == rows * clusters.cluster);
    }
    demand(clusters.workspace_bytes == least && topkit_plan_within(&clusters, rows, least - 1) == TOPKIT_ERROR_WORKSPACE);
}

static void check_plan(const topkit_plan *p, int rows, int max_length, int k, int route, const topkit_device_facts *d) {
    if (rows == 0 || k == 0) {
        demand(p->route == 0 && p->blocks == 0 && p->threads == 0 && p->shared_bytes == 0 && p->workspace_bytes == 0);
        return;
    }
    demand(p->route >= TOPKIT_ROUTE_ROW && p->route <= TOPKIT_ROUTE_ANY_K);
    demand(route == TOPKIT_ROUTE_AUTO || route == p->route);
    demand(d->arch >= 80);
    demand(p->blocks >= 1);
    demand(p->threads >= 32 && p->threads <= 1024 && p->threads % 32 == 0 && p->threads <= d->threads_per_sm);
    int whole = p->route == TOPKIT_ROUTE_SPLIT && p->depth == 0; /* parts that lie in shared memory: nothing is collected */
    demand(!whole || (p->parts > 1 && p->shared_bytes >= 8 * (long long)p->capacity + 4 * (long long)(max_length / p->parts)));
    demand(whole || p->route == TOPKIT_ROUTE_ANY_K || p->capacity >= (p->route == TOPKIT_ROUTE_DIRECT && max_length < k ? max_length : k));
    demand(p->shared_bytes >= 0 && p->shared_bytes <= d->shared_per_block && p->shared_bytes + SYSTEM_SHARED <= d->shared_per_sm);
    if (p->route == TOPKIT_ROUTE_ROW || p->route == TOPKIT_ROUTE_PIPELINED || p->route == TOPKIT_ROUTE_ANY_K) {
        demand(p->workspace_bytes <= 65536 + 4 * (size_t)rows);
        demand(p->parts == 1 ? p->blocks <= rows : (long long)p->blocks == (long long)rows * p->parts);
    }
    if (p->route == TOPKIT_ROUTE_SPLIT) {
        check_parts(p, rows, k, d);
    } else {
        const int clusters = p->route == TOPKIT_ROUTE_ANY_K && d->arch >= 90; /* of few rows one each */
        demand(p->parts >= 1 && p->parts <= (clusters ? 16 : 1) && p->cluster == p->parts && p->slot == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int32_t n[11] = {0};
    if (size > 0) {
        memcpy(n, data, size < sizeof n ? size : sizeof n);
    }
    int rows = n[0];
    int max_length = n[1];
    int k = n[2];
    int order = n[3];
    int route = n[4];
    topkit_device_facts device = {n[5] % 1000, n[6] % 100000, n[7] % (1 << 24), n[8] % (1 << 24), n[9] % 100000};
    if (n[10] & 1) {
        k %= 32768;
        order %= 4;
        route %= 7;
    }
    if (n[10] & 2) {
        device = (topkit_device_facts){90, 132, 232448, 233472, 2048};
    }
    topkit_plan untouched;
    topkit_plan plan;
    topkit_plan again;
    memset(&untouched, 0x5a, sizeof untouched);
    memset(&plan, 0x5a, sizeof plan);
    memset(&again, 0x5a, sizeof again);
    int status = topkit_make_plan(rows, max_length, k, order, route, &device, &plan);
    demand(status >= TOPKIT_OK && status <= TOPKIT_ERROR_LAUNCH);
    demand(topkit_status_text(status) != NULL);
    demand(topkit_make_plan(rows, max_length, k, order, route, &device, &again) == status);
    demand(plan.route == again.route && plan.blocks == again.blocks && plan.threads == again.threads && plan.capacity == again.capacity &&
           plan.shared_bytes == again.shared_bytes && plan.workspace_bytes == again.workspace_bytes && plan.parts == again.parts &&
           plan.cluster == again.cluster);
    int sensible = rows >= 0 && rows <= TOPKIT_MAX_ROWS && max_length >= 0 && max_length <= TOPKIT_MAX_LENGTH && k >= 0 &&
                   order >= TOPKIT_ORDER_NONE && order <= TOPKIT_ORDER_SCORE && route >= TOPKIT_ROUTE_AUTO && route <= TOPKIT_ROUTE_ANY_K;
    if (status != TOPKIT_OK) {
        demand(memcmp(&plan, &untouched, sizeof plan) == 0);
        /* no excuse on a device that has everything, up to the k that is promised */
        int most = order == TOPKIT_ORDER_SCORE ? 16384 : TOPKIT_MAX_LENGTH;
        demand(!sensible || route != TOPKIT_ROUTE_AUTO || k > most || !(n[10] & 2));
    } else {
        demand(sensible);
        check_plan(&plan, rows, max_length, k, route, &device);
    }
    return 0;
}
