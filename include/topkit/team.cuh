/* topkit/team.cuh: several blocks find the k best of a row together, each among the candidates of its own part, and each delivers its own.
 *
 * A step of the search is a histogram of what each block holds. The blocks exchange them as columns: how many of a block's candidates lie
 * in a bin or above it. All columns added up show every block the same boundary bin, and those of the blocks before it where its own
 * results go: no candidate moves, no counter is shared. Only the boundary's members, of which there are few, are shown to all.
 *
 * A team is a cluster, whose blocks push their columns into each other's shared memory; or any blocks that are resident together (a
 * cooperative launch says so), which exchange them through a workspace and wait for each other there.
 *
 *   scope         team: all threads of all its blocks, of a multiple of 256 threads each
 *   storage       topkit_team_storage, 18.5 KB shared, at the same place in every block of a cluster; other teams: topkit_team_bytes of
 *                 workspace, and a counter that is zero before and after
 *   sync          a cluster's threads call topkit_cluster_enter once before the search, at best as soon as they run: the first step waits
 *                 for it, since nobody may write to a block that does not run yet. search: begins with the candidates synced, and the
 *                 storage; a step is one meeting of the team, a cluster's second step and those behind it two, and 5 barriers of the
 *                 block. emit: one barrier; settle: ends with one. last: a meeting of a cluster, else an atomic: there nobody waits
 *   determinism   TOPKIT_LOWEST_INDEX: the selected set. TOPKIT_ANY: the selected values. The order of emission is open in both
 *   cost          a step: one shared atomic a candidate, 1 KB to each other block. Steps: one, unless more than TOPKIT_BOUNDARY
 *                 candidates share the boundary bin. A meeting: 0.6 us in a cluster of 16, 1 to 2 us in memory (docs/performance.md)
 *
 * Worked numbers: two blocks hold the keys {9, 7, 3} and {8, 6, 2}, k = 3, bins of one key: the columns at 7 are 2 and 1, at 8 1 and 1.
 * Three reach 7, two reach 8: the boundary is 7, of which one is needed and one is there. Block 0 delivers 9 to slot 0 and 7 to slot 2,
 * block 1 delivers 8 to slot 1, since one candidate of block 0 is above the boundary.
 */
#ifndef TOPKIT_TEAM_CUH
#define TOPKIT_TEAM_CUH

#include "topkit/refiner.cuh"

#define TOPKIT_CLUSTER_MAX 16 /* blocks; more than 8 need cudaFuncAttributeNonPortableClusterSizeAllowed */
#define TOPKIT_TEAM_BINS (TOPKIT_DIGIT_BINS / 2) /* of a step: columns are what it costs */

typedef struct topkit_team_storage {
    alignas(16) unsigned short columns[TOPKIT_CLUSTER_MAX * TOPKIT_TEAM_BINS]; /* (blocks x bins) of a cluster; pushed by its blocks */
    topkit_candidate members[TOPKIT_BOUNDARY];                               /* of the boundary: pushed likewise */
    unsigned bin;                 /* 1 more than the boundary's; 0: none */
    unsigned reach[2], before[2]; /* what reaches the boundary's bin, and the one above: in all blocks, and in those before this one */
    unsigned last;
} topkit_team_storage;

typedef struct topkit_team {
    unsigned block, blocks;
    unsigned *arrivals;      /* the counter; null: the team is a cluster */
    unsigned short *columns; /* a cluster's: shared memory. Else workspace, for two steps by turns */
    topkit_candidate *members; /* (TOPKIT_BOUNDARY) likewise */
    unsigned meetings;       /* until now */
    int begin;               /* candidates' indices are relative to this one, a block's own */
} topkit_team;

TOPKIT_FN topkit_team topkit_team_cluster(topkit_team_storage *s, int begin) {
    topkit_team team = {topkit_cluster_block(), topkit_cluster_blocks(), nullptr, s->columns, s->members, 0, begin};
    TOPKIT_ASSERT(team.blocks <= TOPKIT_CLUSTER_MAX);
    return team;
}

/* Workspace of a team in memory, 16-byte aligned. */
TOPKIT_FN long long topkit_team_bytes(int blocks) {
    return (long long)TOPKIT_BOUNDARY * (int)sizeof(topkit_candidate) + 2LL * blocks * TOPKIT_TEAM_BINS * 2;
}

/* Block `block` of `blocks` that are resident together. */
TOPKIT_FN topkit_team topkit_team_resident(unsigned block, unsigned blocks, void *workspace, unsigned *arrivals, int begin) {
    topkit_candidate *members = (topkit_candidate *)workspace;
    TOPKIT_ASSERT(((unsigned long long)workspace & 15) == 0 && block < blocks);
    topkit_team team = {block, blocks, arrivals, (unsigned short *)(members + TOPKIT_BOUNDARY), members, 0, begin};
    return team;
}

/* All blocks wait for each other; what they wrote before is seen by all behind it. Ends with a barrier. */
TOPKIT_FN void topkit_team_meet(topkit_group g, topkit_team *team) {
    team->meetings++;
    if (!team->arrivals) {
        topkit_cluster_sync();
        return;
    }
    topkit_group_sync(g);
    if (g.thread == 0) {
        __threadfence(); /* the whole block's stores, which the barrier ordered before it */
        topkit_add_acq_rel(team->arrivals, 1u);
        while (topkit_load_acquire(team->arrivals) < team->meetings * team->blocks) topkit_relax();
    }
    topkit_group_sync(g);
}

/* Behind the last meeting, and in place of one more: true in one block, which sees what all others wrote before the call: the first of a
 * cluster, or else whichever comes last. No other block may look at the team's memory behind it. Ends with a barrier. */
TOPKIT_FN bool topkit_team_last(topkit_group g, topkit_team *team, topkit_team_storage *s) {
    if (!team->arrivals) {
        topkit_cluster_sync();
        return team->block == 0;
    }
    topkit_group_sync(g);
    if (g.thread == 0) {
        __threadfence();
        s->last = topkit_add_acq_rel(team->arrivals, 1u) == (team->meetings + 1) * team->blocks - 1;
        if (s->last) *team->arrivals = 0;
    }
    topkit_group_sync(g);
    return s->last;
}

/* Behind the last meeting, where there is nothing left to do: leaves the counter zero. */
TOPKIT_FN void topkit_team_leave(topkit_group g, const topkit_team *team) {
    if (team->arrivals && g.thread == 0) atomicInc(team->arrivals, (team->meetings + 1) * team->blocks - 1); /* the last one wraps it */
}

/* A digit step's result, for the whole team and (before) for the blocks before this one. Nothing inside: fewer than `rank` are held. */
typedef struct topkit_team_found {
    unsigned bin, above, inside;
    unsigned above_before, inside_before;
} topkit_team_found;

/* Two bins of the columns of blocks base .. base+15; then what they add. */
TOPKIT_FN void topkit__team_load(const unsigned *pairs, unsigned base, unsigned blocks, unsigned (&pair)[16]) {
#pragma unroll
    for (unsigned u = 0; u < 16; u++) pair[u] = base + u < blocks ? pairs[(base + u) * (TOPKIT_TEAM_BINS / 2)] : 0;
}
TOPKIT_FN void topkit__team_add(unsigned base, unsigned block, const unsigned (&pair)[16], unsigned *reach, unsigned *before) {
#pragma unroll
    for (unsigned u = 0; u < 16; u++) {
        const unsigned low = pair[u] & 0xffffu, high = pair[u] >> 16;
        reach[0] += low;
        reach[1] += high;
        before[0] += base + u < block ? low : 0;
        before[1] += base + u < block ? high : 0;
    }
}

/* The bin of the rank-th largest value of all blocks; each has counted its own in s (bins below TOPKIT_TEAM_BINS), not yet synced. */
TOPKIT_FN topkit_team_found topkit_team_find(topkit_group g, topkit_team *team, unsigned rank, topkit_digit_storage *digit,
                                             topkit_team_storage *s) {
    const unsigned lane = topkit_lane(g), warp = topkit_warp_rank(g), fours = TOPKIT_TEAM_BINS / 4, own = fours - 1 - g.thread;
    const bool counts = g.thread < fours; /* a thread has four bins, from the highest ones on */
    const unsigned half = team->arrivals ? (team->meetings & 1) * team->blocks : 0; /* who is ahead may not write what others still read */
    topkit__four_bins *bins = (topkit__four_bins *)digit->histogram, none = {{0, 0, 0, 0}}, four = none;
    unsigned total;
    TOPKIT_ASSERT(g.size == blockDim.x && g.size % (TOPKIT_TEAM_BINS / 2) == 0);
    if (!team->arrivals) { /* all run; later on, since a cluster has room for one step: all have read the last one */
        if (team->meetings > 0) topkit_cluster_arrive();
        topkit_cluster_wait();
    }
    topkit_group_sync(g);
    if (counts) {
        four = bins[own];
        bins[own] = none;
    }
    const unsigned sum = topkit_warp_exclusive_sum(g, four.n[0] + four.n[1] + four.n[2] + four.n[3], &total);
    if (lane == 0) digit->warp_sums[warp] = total;
    if (g.thread == 0) s->bin = 0;
    topkit_group_sync(g);
    const unsigned above = sum + __reduce_add_sync(TOPKIT_FULL_MASK, lane < warp ? digit->warp_sums[lane] : 0u);
    uint2 *column = (uint2 *)(team->columns + (half + team->block) * TOPKIT_TEAM_BINS);
    if (counts) {
        const unsigned c3 = above + four.n[3], c2 = c3 + four.n[2], c1 = c2 + four.n[1], c0 = c1 + four.n[0];
        TOPKIT_ASSERT(c0 < 65536);
        column[own] = make_uint2(c0 | c1 << 16, c2 | c3 << 16);
    }
    if (!team->arrivals) { /* all threads push, 8 bytes each, to one block after the other from the next one on */
        topkit_group_sync(g);
        const uint2 mine = column[g.thread % fours];
        for (unsigned b = 1 + g.thread / fours; b < team->blocks; b += g.size / fours) {
            const unsigned to = team->block + b < team->blocks ? team->block + b : team->block + b - team->blocks;
            topkit_cluster_write_pair(&column[g.thread % fours], to, mine.x, mine.y);
        }
    }
    topkit_team_meet(g, team);
    const unsigned *pairs = (const unsigned *)(team->columns + half * TOPKIT_TEAM_BINS) + g.thread;
    unsigned reach[2] = {0, 0}, before[2] = {0, 0}; /* this thread's two bins */
    for (unsigned base = 0; g.thread < TOPKIT_TEAM_BINS / 2 && base < team->blocks; base += 32) {
        unsigned first[16], second[16]; /* all under way before one is looked at */
        topkit__team_load(pairs, base, team->blocks, first);
        if (base + 16 < team->blocks) topkit__team_load(pairs, base + 16, team->blocks, second);
        topkit__team_add(base, team->block, first, reach, before);
        if (base + 16 < team->blocks) topkit__team_add(base + 16, team->block, second, reach, before);
    }
    const unsigned best = reach[1] >= rank ? g.thread * 2 + 2 : reach[0] >= rank ? g.thread * 2 + 1 : 0;
    const unsigned most = __reduce_max_sync(TOPKIT_FULL_MASK, best);
    if (lane == 0 && most > 0) atomicMax(&s->bin, most);
    topkit_group_sync(g);
    const unsigned bin = s->bin - 1; /* none: past all */
#pragma unroll
    for (unsigned i = 0; i < 2; i++) {
        const unsigned mine = g.thread * 2 + i;
        if (mine == bin || mine == bin + 1) {
            s->reach[mine - bin] = reach[i];
            s->before[mine - bin] = before[i];
        }
    }
    topkit_group_sync(g);
    topkit_team_found found = {bin, 0, 0, 0, 0};
    if (bin < TOPKIT_TEAM_BINS) {
        if (bin < TOPKIT_TEAM_BINS - 1) {
            found.above = s->reach[1];
            found.above_before = s->before[1];
        }
        found.inside = s->reach[0] - found.above;
        found.inside_before = s->before[0] - found.above_before;
    }
    return found;
}

/* The boundary of the team's k best, as the refiner has it for one block; and in the blocks before this one how many candidates lie above
 * its region, and how many in it. */
typedef struct topkit_team_boundary {
    topkit__region region; /* nothing inside: the team holds fewer than k */
    unsigned above_before, inside_before;
} topkit_team_boundary;

/* Counts this block's candidates that are in the region. Where it is `open` upwards, what exceeds its end goes to the highest bin. */
template <bool BY_INDEX, typename ITEM>
TOPKIT_FN void topkit__team_count(topkit_group g, const topkit_team *team, const ITEM *items, int count, topkit__region r, bool open,
                                  unsigned shift, topkit_digit_storage *digit) {
    topkit__batch batch;
    for (int base = 0; base < count; base += TOPKIT_BATCH * (int)g.size) {
        const int left = topkit__batch_load(g, items, count, base, &batch);
#pragma unroll
        for (int u = 0; u < TOPKIT_BATCH; u++) {
            unsigned value;
            batch.c[u].index += team->begin;
            const bool runs = topkit__region_value<BY_INDEX>(r, batch.c[u], &value) && left > u * (int)g.size;
            const unsigned bin = (value - r.low) >> shift;
            topkit_digit_count_if(g, digit, runs && (open ? value >= r.low : value - r.low <= r.span),
                                  bin < TOPKIT_TEAM_BINS ? bin : TOPKIT_TEAM_BINS - 1);
        }
    }
}

/* Of items[0 .. count) in all blocks, fewer than 65536 a block: candidates, or a part of the row as it lies, with keys of `low` or more, of
 * which few are above `high` (a wrong guess costs steps), for others do not count; k >= 1, and all indices are below `length`. */
template <int TIES, typename ITEM>
TOPKIT_FN topkit_team_boundary topkit_team_search(topkit_group g, topkit_team *team, const ITEM *items, int count, int k, unsigned low,
                                                  unsigned high, int length, topkit_digit_storage *digit, topkit_team_storage *s) {
    topkit_team_boundary b = {{low, high - low, (unsigned)k, 0, 0, false}, 0, 0};
    topkit__region *r = &b.region;
    bool open = true;
    for (;;) {
        const unsigned wide = topkit_digit_shift(r->span), shift = wide + (r->span >> wide >= TOPKIT_TEAM_BINS);
        if (r->by_index) topkit__team_count<true>(g, team, items, count, *r, open, shift, digit);
        else topkit__team_count<false>(g, team, items, count, *r, open, shift, digit);
        const topkit_team_found found = topkit_team_find(g, team, r->need, digit, s);
        r->inside = found.inside;
        if (found.inside == 0) return b;
        r->need -= found.above;
        r->low += found.bin << shift;
        r->span = open && found.bin == TOPKIT_TEAM_BINS - 1 ? 0xffffffffu - r->low : (1u << shift) - 1;
        b.above_before += found.above_before;
        b.inside_before = found.inside_before;
        open = false;
        if (topkit__region_is_settled<TIES>(*r)) return b;
        if (r->span == 0) { /* equal keys: their indices decide */
            TOPKIT_ASSERT(!r->by_index);
            r->by_index = true;
            r->tie = r->low;
            r->low = (unsigned)~(length - 1);
            r->span = (unsigned)(length - 1);
        }
    }
}

/* Whether the boundary's members have to be told apart: then a topkit_team_meet comes between emit and settle. */
template <int TIES>
TOPKIT_FN bool topkit_team_settles(topkit_team_boundary b) {
    return b.region.inside != b.region.need && !topkit__region_is_plateau<TIES>(b.region);
}

template <int TIES, bool BY_INDEX, int BATCH, typename ITEM, typename SINK>
TOPKIT_FN void topkit__team_emit(topkit_group g, const topkit_team *team, const ITEM *items, int count, int k, topkit_team_boundary b,
                                 SINK sink, topkit_refiner_storage *s) {
    const topkit__region r = b.region;
    const unsigned lane = topkit_lane(g), end = r.low + r.span, edge = end < r.low ? 0xffffffffu : end; /* it may end past the last value */
    const bool settles = topkit_team_settles<TIES>(b);
    for (int base = 0; base < count; base += BATCH * (int)g.size) {
        topkit_candidate c[BATCH];
        unsigned kind[BATCH], mine = 0, total, slot = 0; /* 1 above the region, 65536 in it; how many of both */
#pragma unroll
        for (int u = 0; u < BATCH; u++) {
            const topkit_candidate none = {0, 0};
            const int i = base + (int)g.thread + u * (int)g.size;
            c[u] = i < count ? topkit_held(items, i) : none;
        }
#pragma unroll
        for (int u = 0; u < BATCH; u++) {
            unsigned value;
            c[u].index += team->begin;
            const bool runs = topkit__region_value<BY_INDEX>(r, c[u], &value);
            kind[u] = value > edge ? 1u : value >= r.low ? 65536u : 0u;
            if (BY_INDEX && !runs) kind[u] = topkit_key(c[u].bits) > r.tie ? 1u : 0u;
            if (base + (int)g.thread + u * (int)g.size >= count) kind[u] = 0;
            mine += kind[u];
        }
        const unsigned before = topkit_warp_exclusive_sum(g, mine, &total); /* as the refiner does: one scan, one atomic of two lanes */
        if (lane < 2) slot = atomicAdd(&s->counts[lane], lane == TOPKIT__EMITTED ? total & 0xffffu : total >> 16);
        unsigned put = b.above_before + __shfl_sync(TOPKIT_FULL_MASK, slot, TOPKIT__EMITTED) + (before & 0xffffu);
        unsigned list = __shfl_sync(TOPKIT_FULL_MASK, slot, TOPKIT__LISTED) + (before >> 16);
#pragma unroll
        for (int u = 0; u < BATCH; u++) {
            if (kind[u] == 1) topkit_sink_put(sink, (int)put++, c[u].index, c[u].bits);
        }
        if (mine > 0xffffu) { /* rare: one bin of many */
#pragma unroll
            for (int u = 0; u < BATCH; u++) {
                const unsigned place = b.inside_before + list;
                if (kind[u] <= 1) continue;
                if (settles) topkit__boundary_put(s, list, c[u]);
                else if (place < r.need) /* all, or of equals the first to come */
                    topkit_sink_put(sink, k - (int)r.need + (int)place, c[u].index, c[u].bits);
                list++;
            }
        }
    }
}

/* Shows the team this block's members of the boundary, as many as it returns, where they have to be told apart. */
template <int TIES>
TOPKIT_FN unsigned topkit__team_show(topkit_group g, const topkit_team *team, topkit_team_boundary b, const topkit_refiner_storage *s) {
    topkit_group_sync(g);
    const unsigned members = topkit_team_settles<TIES>(b) ? s->counts[TOPKIT__LISTED] : 0, lane = topkit_lane(g);
    for (unsigned i = topkit_warp_rank(g); i < members; i += topkit_warps(g)) { /* a warp a member, a lane a block */
        const topkit_candidate c = {s->boundary_bits[i], (int)~(unsigned)s->boundary[i]};
        topkit_candidate *place = &team->members[b.inside_before + i];
        if (!team->arrivals && lane < team->blocks) topkit_cluster_write_pair(place, lane, c.bits, (unsigned)c.index);
        else if (team->arrivals && lane == 0) *place = c;
    }
    return members;
}

/* Hands this block's share of the k best to the sink, but for the boundary's members where these have to be told apart (settles): they
 * are shown to the team. Slots are the team's. Returns how many members are this block's. */
template <int TIES, typename ITEM, typename SINK>
TOPKIT_FN unsigned topkit_team_emit(topkit_group g, const topkit_team *team, const ITEM *items, int count, int k, topkit_team_boundary b,
                                    SINK sink, topkit_refiner_storage *s) {
    if (b.region.by_index) topkit__team_emit<TIES, true, 1>(g, team, items, count, k, b, sink, s);
    else if (count > 2 * (int)g.size) topkit__team_emit<TIES, false, TOPKIT_BATCH>(g, team, items, count, k, b, sink, s);
    else topkit__team_emit<TIES, false, 1>(g, team, items, count, k, b, sink, s);
    return topkit__team_show<TIES>(g, team, b, s);
}

/* Behind that, always: hands the best of this block's `own` members to the sink, each compared with all by a warp, and leaves the refiner's
 * storage as it was before emit; ends with a barrier. */
template <typename SINK>
TOPKIT_FN void topkit_team_settle(topkit_group g, const topkit_team *team, unsigned own, int k, topkit_team_boundary b, SINK sink,
                                  topkit_refiner_storage *s) {
    for (unsigned i = topkit_warp_rank(g); i < own; i += topkit_warps(g)) {
        const unsigned long long mine = s->boundary[i];
        unsigned better = 0;
        for (unsigned j = topkit_lane(g); j < b.region.inside; j += TOPKIT_WARP)
            better += topkit_pair_key(topkit_key(team->members[j].bits), team->members[j].index) > mine;
        better = __reduce_add_sync(TOPKIT_FULL_MASK, better);
        if (better < b.region.need && topkit_lane(g) == 0)
            topkit_sink_put(sink, k - (int)b.region.need + (int)better, (int)~(unsigned)mine, s->boundary_bits[i]);
    }
    topkit_group_sync(g);
    if (g.thread == 0) s->counts[TOPKIT__EMITTED] = s->counts[TOPKIT__LISTED] = 0;
}

#endif
