/* adversary.cu: looks for rows that cost the operator most. Runs on the executor, where the statistics are all that counts.
 *
 *   adversary [columns] [k] [steps] [seeds]        40000 2048 60 8
 *
 * An adversary knows the kernels, their strides and their capacities. He does not know the seed (select.h), from which the sampler's places
 * and the order of a repeated row are drawn after the row was made. A row is described by six small numbers: how its scores slope along
 * it, how many neighbours are alike, how the values are spread, which of the scores lie apart from the rest, how many of them do, and on
 * which side. The search tries every combination of the first three, then changes one number at a time as long as it pays, from the
 * best few; the same arguments give the same search.
 *
 * Cost is what a route is known to do: scores read, candidates moved, candidates compacted, in scores read once; of a row it is the mean
 * over some seeds. It prints the worst rows of each route, with cost 1 for a row of uniform scores, and of each the dearest seed as well.
 * The worst kinds are inputs of the benchmark by name: bench/inputs.h, worst_*.
 */
#include "05_select.cu"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "simt.h"

enum { FIELDS = 6, SLOPE = 0, ALIKE, SPREAD, APART, SHARE, SIDE };
static const int CHOICES[FIELDS] = {3, 6, 5, 4, 4, 2};
static const char *const WORDS[FIELDS][6] = {
    {"in no order", "rising", "falling"},
    {"score by score", "by 4", "by 16", "by 128", "by tiles", "by chunks"},
    {"evenly spread", "one float apart", "spread over all exponents", "in plateaus of 3000", "one float apart below 1 % that are huge"},
    {"", "places in a stratum of 512", "places in a stratum of 1024", "vectors"},
    {"none", "one in 2 of the", "one in 8 of the", "one in 32 of the"},
    {"below", "above"}};

struct kind {
    int field[FIELDS];
};

struct outcome {
    double cost, most; /* mean over the seeds, and the dearest */
    topkit_select_stats stats; /* of all of them */
};

static std::vector<float> make_row(kind a, int n) {
    static const int alike[] = {1, 4, 16, 128, TOPKIT_TILE, TOPKIT_PIPELINED_CHUNK};
    const int *f = a.field, size = alike[f[ALIKE]], groups = (n + size - 1) / size;
    std::vector<float> row((size_t)n);
    for (int i = 0; i < n; i++) {
        const int group = i / size, share = f[SHARE] == 0 || f[APART] == 0 ? 0 : 2 << (f[SHARE] - 1) * 2;
        const unsigned h = topkit_hash((unsigned)group);
        const int turn = f[SLOPE] == 1 ? group : f[SLOPE] == 2 ? groups - 1 - group : (int)(h % (unsigned)groups);
        long long at = (long long)turn * size + size / 2; /* 0 .. n */
        const unsigned unit = f[APART] == 3 ? topkit_hash((unsigned)(i / 16) + 77u) : (unsigned)(i / (f[APART] == 1 ? 4 : 16));
        const unsigned of = f[APART] == 1 ? 128 : 64; /* places of a stratum; a share of neighbouring ones is apart */
        if (share && unit % of < of / (unsigned)share) at += f[SIDE] ? n : -n;
        float x = (float)at;
        if (f[SPREAD] == 1 || f[SPREAD] == 4) x = __uint_as_float((unsigned)(0x3f900000ll + at));
        if (f[SPREAD] == 2) x = __uint_as_float((unsigned)(0x3f800000ll + at * (0x3e000000ll / (2 * n))));
        if (f[SPREAD] == 3) x = (float)(at / 3000);
        if (f[SPREAD] == 4 && topkit_hash((unsigned)i + 99u) % 100 == 0) x = 3e38f;
        row[(size_t)i] = x;
    }
    return row;
}

static void launch(const std::vector<float> &row, int k, int route, unsigned seed, outcome *sum) {
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
    p.seed = seed;
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
    const double cost = (n * (1.0 + (double)stats.recoveries) + compacted + 3.0 * (double)stats.admitted) / n;
    sum->cost += cost;
    sum->most = cost > sum->most ? cost : sum->most;
    sum->stats.recoveries += stats.recoveries;
    sum->stats.compactions += stats.compactions;
    sum->stats.admitted += stats.admitted;
}

/* All warps by turns, as on a GPU: each yields where it appends. */
static outcome measure(const std::vector<float> &row, int k, int route, int seeds) {
    outcome sum = {};
    simt_set_schedule(SIMT_FORWARD, 1);
    simt_set_preempt(1.0);
    for (int seed = 1; seed <= seeds; seed++) launch(row, k, route, topkit_hash((unsigned)seed), &sum);
    sum.cost /= seeds;
    return sum;
}

struct found {
    kind what;
    outcome result;
};

static void print(const found &f, double usual, int seeds) {
    const int *w = f.what.field;
    const topkit_select_stats &s = f.result.stats;
    printf("  %5.2f, at most %5.2f; %.2f recoveries, %.1f compactions, %.0f admitted: %s, %s, %s", f.result.cost / usual,
           f.result.most / usual, (double)s.recoveries / seeds, (double)s.compactions / seeds, (double)s.admitted / seeds,
           WORDS[SLOPE][w[SLOPE]], WORDS[ALIKE][w[ALIKE]], WORDS[SPREAD][w[SPREAD]]);
    if (w[APART] && w[SHARE]) printf(", %s %s %s the rest", WORDS[SHARE][w[SHARE]], WORDS[APART][w[APART]], WORDS[SIDE][w[SIDE]]);
    printf("\n");
}

static void search(int n, int k, int route, int steps, int seeds) {
    topkit_select_params p = {};
    topkit_plan plan;
    p.rows = 1;
    p.max_length = n;
    p.k = k;
    p.route = route;
    if (make_plan(&p, &plan) != TOPKIT_OK) return;
    std::vector<found> all;
    const auto attempt = [&](kind what) {
        if (what.field[APART] == 0 || what.field[SHARE] == 0) what.field[APART] = what.field[SHARE] = what.field[SIDE] = 0;
        for (const found &f : all) {
            if (!memcmp(&f.what, &what, sizeof what)) return f.result.cost;
        }
        all.push_back({what, measure(make_row(what, n), k, route, seeds)});
        return all.back().result.cost;
    };
    const auto worse = [](const found &a, const found &b) { return a.result.cost > b.result.cost; };
    const double usual = attempt({});
    for (int i = 0; i < 3 * 6 * 5; i++) attempt({{i % 3, i / 3 % 6, i / 18, 0, 0, 0}});
    for (int i = 0; i < 3 * 3 * 2; i++) attempt({{1, 0, 0, 1 + i % 3, 1 + i / 3 % 3, i / 9}});
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
    printf("route %d, %d columns, k %d, capacity %d, uniform %.2f reads: the worst of %d kinds\n", route, n, k, plan.capacity, usual,
           (int)all.size());
    for (size_t i = 0; i < 6 && i < all.size(); i++) print(all[i], usual, seeds);
}

int main(int argc, char **argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 40000, k = argc > 2 ? atoi(argv[2]) : 2048, steps = argc > 3 ? atoi(argv[3]) : 60;
    const int seeds = argc > 4 ? atoi(argv[4]) : 8;
    if (n < 1 || k < 1 || seeds < 1) {
        fprintf(stderr, "usage: adversary [columns] [k] [steps] [seeds]\n");
        return 2;
    }
    for (int route = TOPKIT_ROUTE_ROW; route <= TOPKIT_ROUTE_DIRECT; route++) search(n, k, route, steps, seeds);
    return 0;
}
