/* adversary.cu: looks for rows that cost the operator most. Runs on the executor, where the statistics are all that counts.
 *
 *   adversary [columns] [k] [steps]        40000 2048 60
 *
 * An adversary knows the sampler's phase (a hash of the row's number), the order in which a repeated row is visited, and the capacities. A
 * row is described by six small numbers: what lies where the sample looks, along which walk the other scores rise or fall, in pieces of
 * what size, how their values are spread, and how many of them take part. The search tries every combination of the first three, then
 * changes one number at a time as long as it pays, from the best few; the same arguments give the same search.
 *
 * Cost is what a route is known to do: scores read, candidates moved, candidates compacted, in scores read once. It prints the worst rows
 * of each route, with cost 1 for a row of uniform scores. The worst kinds are inputs of the benchmark by name: bench/inputs.h, worst_*.
 */
#include "05_select.cu"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "simt.h"

enum { FIELDS = 6, SAMPLED = 0, SLOPE, WALK, PIECE, SPREAD, SHARE };
static const int CHOICES[FIELDS] = {3, 3, 3, 4, 4, 4};
static const char *const WORDS[FIELDS][4] = {{"sample like the rest", "sample lowest", "sample highest"},
                                             {"in no order", "rising", "falling"},
                                             {"in memory", "along the shuffled tiles", "along the shuffled stages"},
                                             {"score by score", "by 128", "by tiles", "by stages"},
                                             {"evenly spread", "one float apart", "spread over all exponents", "in plateaus of 3000"},
                                             {"all of them", "every 2nd", "every 8th", "every 32nd"}};

struct kind {
    int field[FIELDS];
};

struct outcome {
    double cost;
    topkit_select_stats stats;
};

/* The inverse of a walk in steps: when a piece is visited. */
static std::vector<int> visits(int pieces, bool shuffled) {
    std::vector<int> when((size_t)pieces);
    const int step = shuffled ? topkit_tile_step(pieces) : 1;
    for (int c = 0; c < pieces; c++) when[(size_t)((long long)c * step % pieces)] = c;
    return when;
}

static std::vector<float> make_row(kind a, int n, const topkit_plan *plan) {
    static const int piece_sizes[] = {1, 128, TOPKIT_TILE, TOPKIT_PIPELINED_CHUNK};
    const int *f = a.field;
    const int unit = f[WALK] == 2 ? TOPKIT_PIPELINED_CHUNK : TOPKIT_TILE, piece = piece_sizes[f[PIECE]];
    const std::vector<int> when = visits((n + unit - 1) / unit, f[WALK] != 0);
    std::vector<float> row((size_t)n);
    for (int i = 0; i < n; i++) {
        long long at = (long long)when[(size_t)(i / unit)] * unit + i % unit; /* the score's turn */
        at = at / piece * piece + piece / 2;
        if (f[SLOPE] == 2) at = 2ll * n - at;
        if (f[SLOPE] == 0) at = (long long)(topkit_hash((unsigned)i) % (unsigned)n);
        if (topkit_hash((unsigned)i + 77u) % (1u << (f[SHARE] * 2 - (f[SHARE] > 0)))) at = -at; /* takes no part */
        float x = (float)at;
        if (f[SPREAD] == 1) x = __uint_as_float((unsigned)(0x3f900000ll + at));
        if (f[SPREAD] == 2) x = __uint_as_float((unsigned)(0x3f800000ll + at * (0x3f000000ll / (2 * n))));
        if (f[SPREAD] == 3) x = (float)(at / 3000);
        row[(size_t)i] = x;
    }
    if (f[SAMPLED]) {
        topkit_select_job job = {};
        job.density = plan->density;
        job.width = plan->width;
        topkit_row view = {row.data(), n};
        const int room = plan->route == TOPKIT_ROUTE_PIPELINED ? TOPKIT_PIPELINED_SAMPLE : TOPKIT_ROW_SAMPLE;
        const topkit_sampling s = topkit_job_sampling(job, view, 0, room);
        for (int v = 0; v < s.vectors; v++) {
            float *vector = row.data() + (s.first - row.data()) + (long long)v * s.stride;
            for (int c = 0; c < s.width; c++) vector[c] = f[SAMPLED] == 1 ? -3e38f : 3e38f - (float)(v * s.width + c) * 1e33f;
        }
    }
    return row;
}

static outcome launch(const std::vector<float> &row, int k, int route) {
    topkit_select_stats stats = {};
    topkit_select_params p = {};
    std::vector<int> indices((size_t)k);
    alignas(16) unsigned char workspace[2048] = {};
    topkit_plan plan;
    p.scores = row.data();
    p.rows = 1;
    p.max_length = (int)row.size();
    p.k = k;
    p.route = route;
    p.indices = indices.data();
    p.stats = &stats;
    p.workspace = workspace;
    p.workspace_bytes = sizeof workspace;
    const int status = topkit_select(&p, nullptr);
    if (status != TOPKIT_OK || make_plan(&p, &plan) != TOPKIT_OK || simt_failures()) {
        fprintf(stderr, "adversary: %s\n", simt_failures() ? simt_failure(0) : topkit_status_text(status));
        exit(1);
    }
    /* a compaction reads its candidates three times and moves those that it keeps; a candidate is written and read by the refiner */
    const double n = (double)row.size(), compacted = 4.0 * (double)plan.capacity * (double)stats.compactions;
    return {(n * (1.0 + (double)stats.recoveries) + compacted + 3.0 * (double)stats.admitted) / n, stats};
}

/* The worse of two schedules: one warp after the other, which shuffles the tiles of a row by itself, and all warps by turns, as on a GPU:
 * each yields where it appends. */
static outcome measure(const std::vector<float> &row, int k, int route) {
    simt_set_schedule(SIMT_FORWARD, 1);
    simt_set_preempt(0.0);
    const outcome one = launch(row, k, route);
    simt_set_preempt(1.0);
    const outcome other = launch(row, k, route);
    return one.cost > other.cost ? one : other;
}

struct found {
    kind what;
    outcome result;
};

static void print(const found &f, double usual) {
    printf("  %5.2f  %llu recoveries, %llu compactions, %llu admitted:", f.result.cost / usual, f.result.stats.recoveries,
           f.result.stats.compactions, f.result.stats.admitted);
    for (int i = 0; i < FIELDS; i++) printf("%s %s", i ? "," : "", WORDS[i][f.what.field[i]]);
    printf("\n");
}

static void search(int n, int k, int route, int steps) {
    topkit_select_params p = {};
    topkit_plan plan;
    p.rows = 1;
    p.max_length = n;
    p.k = k;
    p.route = route;
    if (make_plan(&p, &plan) != TOPKIT_OK) return;
    std::vector<found> all;
    const auto attempt = [&](kind what) {
        for (const found &f : all) {
            if (!memcmp(&f.what, &what, sizeof what)) return f.result.cost;
        }
        all.push_back({what, measure(make_row(what, n, &plan), k, route)});
        return all.back().result.cost;
    };
    const auto worse = [](const found &a, const found &b) { return a.result.cost > b.result.cost; };
    const double usual = attempt({});
    for (int i = 0; i < 27; i++) attempt({{i % 3, i / 3 % 3, i / 9, 0, 0, 0}});
    std::stable_sort(all.begin(), all.end(), worse);
    const std::vector<found> starts(all.begin(), all.begin() + 4);
    for (const found &start : starts) { /* coordinate by coordinate, until nothing pays or the steps are used up */
        kind best = start.what;
        double cost = start.result.cost;
        int left = steps / 4;
        for (bool better = true; better && left > 0;) {
            better = false;
            for (int i = 0; i < FIELDS; i++) {
                for (int choice = 0; choice < CHOICES[i] && left > 0; choice++, left--) {
                    kind other = best;
                    other.field[i] = choice;
                    const double now = attempt(other);
                    if (now <= cost * 1.001) continue;
                    best = other;
                    cost = now;
                    better = true;
                }
            }
        }
    }
    std::stable_sort(all.begin(), all.end(), worse);
    printf("route %d, %d columns, k %d, capacity %d: the worst of %d kinds\n", route, n, k, plan.capacity, (int)all.size());
    for (size_t i = 0; i < 6 && i < all.size(); i++) print(all[i], usual);
}

int main(int argc, char **argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 40000, k = argc > 2 ? atoi(argv[2]) : 2048, steps = argc > 3 ? atoi(argv[3]) : 60;
    if (n < 1 || k < 1) {
        fprintf(stderr, "usage: adversary [columns] [k] [steps]\n");
        return 2;
    }
    for (int route = TOPKIT_ROUTE_ROW; route <= TOPKIT_ROUTE_DIRECT; route++) search(n, k, route, steps);
    return 0;
}
