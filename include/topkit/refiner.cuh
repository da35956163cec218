/* topkit/refiner.cuh: the exact k best of m candidates, by radix steps over the digits that are really there.
 *
 * Two stages. The search narrows the boundary to a region of the order: what lies above it is selected, and so are the best `need` of
 * its members. Then either every selected candidate goes to a sink (topkit_refine), or the boundary is brought to a point, the cut, which
 * compaction and sorting use to keep the selected in place (topkit_refine_cut, topkit_refine_keep).
 *
 *   scope         group
 *   storage       topkit_refiner_storage, 7.6 KB shared. Init once, then sync; each call leaves it as it found it
 *   sync          called by all threads of the group; the candidates must be synced before. Each call ends with a barrier
 *   determinism   TOPKIT_LOWEST_INDEX: the selected set. TOPKIT_ANY: the selected values; which of equal boundary scores is open.
 *                 The order of emission is open in both
 *   cost          3 reads of the candidates (range, digit, emission), one shared atomic a candidate; a further digit step only where
 *                 more than TOPKIT_BOUNDARY candidates share the boundary bin
 *
 * Worked numbers: candidates (3.0, 4) (1.0, 7) (2.0, 1) (2.0, 9) (5.0, 2), k = 3: the cut is (key of 2.0, bound 2): 5.0, 3.0 and the 2.0
 * at index 1 are selected under TOPKIT_LOWEST_INDEX.
 */
#ifndef TOPKIT_REFINER_CUH
#define TOPKIT_REFINER_CUH

#include "topkit/candidate.cuh"
#include "topkit/digit.cuh"
#include "topkit/sink.cuh"

#define TOPKIT_BOUNDARY 256 /* a boundary bin of at most so many candidates is settled by comparing all pairs */

/* Selected: key above cut.key, or equal with index < bound, of which (any ties only) no more than `ties`. */
typedef struct topkit_cut {
    unsigned key;
    int bound;
    unsigned ties;
} topkit_cut;

typedef struct topkit_refiner_storage {
    topkit_digit_storage digit;
    unsigned long long boundary[TOPKIT_BOUNDARY]; /* (members of the boundary bin) pair keys */
    unsigned boundary_bits[TOPKIT_BOUNDARY];      /* (same) the scores' own bits */
    unsigned listed, emitted, taken;              /* members listed, candidates emitted, boundary ties taken: zero between calls */
    topkit_cut cut;
} topkit_refiner_storage;

TOPKIT_FN void topkit_refiner_init(topkit_group g, topkit_refiner_storage *s) {
    topkit_digit_init(g, &s->digit);
    if (g.thread == 0) s->listed = s->emitted = s->taken = 0;
}

TOPKIT_FN topkit_cut topkit_cut_at(unsigned key, int bound, unsigned ties) {
    topkit_cut cut = {key, bound, ties};
    return cut;
}

/* Candidates are read in batches: a thread's loads are all under way before the first is looked at, which the compiler may not arrange by
 * itself across the atomics between them. */
#define TOPKIT_BATCH 4
typedef struct topkit__batch {
    topkit_candidate c[TOPKIT_BATCH];
    bool present[TOPKIT_BATCH];
} topkit__batch;

TOPKIT_FN void topkit__batch_load(topkit_group g, const topkit_candidate *items, int count, int base, topkit__batch *batch) {
#pragma unroll
    for (int u = 0; u < TOPKIT_BATCH; u++) {
        const int i = base + u * (int)g.size + (int)g.thread;
        const topkit_candidate none = {0, 0};
        batch->present[u] = i < count;
        batch->c[u] = i < count ? items[i] : none;
    }
}

/* The boundary's region: keys low .. low+span or, once all its members share the key `tie`, inverted indices in that range. `need` of its
 * `inside` members are selected, and everything above it. */
typedef struct topkit__region {
    unsigned low, span, need, inside;
    unsigned tie;
    bool by_index;
} topkit__region;

/* What the radix steps look at; false for a candidate that has left the race. */
TOPKIT_FN bool topkit__region_value(topkit__region r, topkit_candidate c, unsigned *value) {
    const unsigned key = topkit_key(c.bits);
    *value = r.by_index ? (unsigned)~c.index : key;
    return !r.by_index || key == r.tie;
}

TOPKIT_FN bool topkit__region_holds(topkit__region r, topkit_candidate c) {
    unsigned value;
    return topkit__region_value(r, c, &value) && value >= r.low && value - r.low <= r.span;
}

/* Above the region. The end of the region may lie past the last key, so only differences are compared. */
TOPKIT_FN bool topkit__above_region(topkit__region r, topkit_candidate c) {
    const unsigned key = topkit_key(c.bits), value = r.by_index ? (unsigned)~c.index : key;
    return (r.by_index && key > r.tie) || ((!r.by_index || key == r.tie) && value >= r.low && value - r.low > r.span);
}

/* More equal keys than fit, with nothing to tell them apart. */
template <int TIES>
TOPKIT_FN bool topkit__region_is_plateau(topkit__region r) {
    return TIES == TOPKIT_ANY && r.span == 0 && r.inside > TOPKIT_BOUNDARY && r.inside != r.need;
}

TOPKIT_FN void topkit__region_range(topkit_group g, const topkit_candidate *items, int count, topkit_refiner_storage *s,
                                    topkit__region *r) {
    unsigned low = 0xffffffffu, high = 0, value;
    topkit__batch batch;
    for (int base = 0; base < count; base += TOPKIT_BATCH * (int)g.size) {
        topkit__batch_load(g, items, count, base, &batch);
#pragma unroll
        for (int u = 0; u < TOPKIT_BATCH; u++) {
            if (batch.present[u] && topkit__region_value(*r, batch.c[u], &value)) {
                low = low < value ? low : value;
                high = high > value ? high : value;
            }
        }
    }
    topkit_digit_range(g, &s->digit, &low, &high);
    r->low = low;
    r->span = high - low;
}

/* Narrows the boundary of the k best, k < count, until all members of its region are selected, or at most TOPKIT_BOUNDARY are left of
 * which some are not, or they are a plateau. */
template <int TIES>
TOPKIT_FN topkit__region topkit__region_search(topkit_group g, const topkit_candidate *items, int count, int k, topkit_refiner_storage *s) {
    topkit__region r = {0, 0, (unsigned)k, (unsigned)count, 0, false};
    topkit__batch batch;
    unsigned value;
    topkit__region_range(g, items, count, s, &r);
    for (;;) {
        if (r.span > 0) { /* else all are equal: a histogram would only queue them up at one bin */
            const unsigned shift = topkit_digit_shift(r.span);
            for (int base = 0; base < count; base += TOPKIT_BATCH * (int)g.size) {
                topkit__batch_load(g, items, count, base, &batch);
#pragma unroll
                for (int u = 0; u < TOPKIT_BATCH; u++) {
                    if (batch.present[u] && topkit__region_value(r, batch.c[u], &value) && value >= r.low && value - r.low <= r.span)
                        topkit_digit_count(&s->digit, (value - r.low) >> shift);
                }
            }
            topkit_group_sync(g);
            const topkit_digit_found found = topkit_digit_find(g, &s->digit, r.need, true);
            r.need -= found.above;
            r.inside = found.inside;
            r.low += found.bin << shift;
            r.span = (1u << shift) - 1;
        }
        if (r.inside == r.need || r.inside <= TOPKIT_BOUNDARY || topkit__region_is_plateau<TIES>(r)) return r;
        if (r.span == 0) { /* equal keys: their indices decide */
            r.by_index = true;
            r.tie = r.low;
            topkit_group_sync(g); /* all have read the range of the keys before that of the indices takes its place */
            topkit__region_range(g, items, count, s, &r);
        }
    }
}

/* The rank of the listed member `mine`, 1 the best, by comparing all pairs. Sync between the last listing and this. */
TOPKIT_FN unsigned topkit__boundary_rank(const topkit_refiner_storage *s, unsigned members, unsigned long long mine) {
    unsigned rank = 1;
    for (unsigned j = 0; j < members; j++) rank += s->boundary[j] > mine;
    return rank;
}

TOPKIT_FN void topkit__boundary_list(topkit_refiner_storage *s, topkit_candidate c) {
    const unsigned slot = atomicAdd(&s->listed, 1u);
    TOPKIT_ASSERT(slot < TOPKIT_BOUNDARY);
    s->boundary[slot] = topkit_pair_key(topkit_key(c.bits), c.index);
    s->boundary_bits[slot] = c.bits;
}

/* The cut that selects exactly k of items[0 .. count), 1 <= k <= count. */
template <int TIES>
TOPKIT_FN topkit_cut topkit_refine_cut(topkit_group g, const topkit_candidate *items, int count, int k, topkit_refiner_storage *s) {
    TOPKIT_ASSERT(k >= 1 && k <= count);
    if (k == count) {
        topkit_group_sync(g); /* the counters that the last call cleared are seen by all */
        return topkit_cut_at(0, TOPKIT_INDEX_LIMIT, 0xffffffffu);
    }
    const topkit__region r = topkit__region_search<TIES>(g, items, count, k, s);
    if (r.inside == r.need) /* the whole region fits */
        return r.by_index ? topkit_cut_at(r.tie, (int)~r.low + 1, 0xffffffffu) : topkit_cut_at(r.low, TOPKIT_INDEX_LIMIT, 0xffffffffu);
    if (topkit__region_is_plateau<TIES>(r)) return topkit_cut_at(r.low, TOPKIT_INDEX_LIMIT, r.need);
    for (int i = (int)g.thread; i < count; i += (int)g.size) {
        const topkit_candidate c = items[i];
        if (topkit__region_holds(r, c)) topkit__boundary_list(s, c);
    }
    topkit_group_sync(g);
    const unsigned members = s->listed;
    for (unsigned i = g.thread; i < members; i += g.size) {
        const unsigned long long mine = s->boundary[i];
        if (topkit__boundary_rank(s, members, mine) == r.need)
            s->cut = topkit_cut_at((unsigned)(mine >> 32), (int)~(unsigned)mine + 1, 0xffffffffu);
    }
    topkit_group_sync(g);
    if (g.thread == 0) s->listed = 0;
    return s->cut;
}

TOPKIT_FN bool topkit_cut_selects(topkit_group g, topkit_cut cut, topkit_candidate c, bool present, topkit_refiner_storage *s) {
    const unsigned key = topkit_key(c.bits);
    bool selected = present && (key > cut.key || (key == cut.key && c.index < cut.bound));
    if (cut.ties != 0xffffffffu) { /* uniform: only as many of the boundary's equals as still fit */
        const bool tie = selected && key == cut.key;
        const unsigned ticket = topkit_warp_reserve(g, tie, &s->taken);
        if (tie && ticket >= cut.ties) selected = false;
    }
    return selected;
}

/* Hands the candidates that the cut selects to the sink, at slots 0, 1, .. in no particular order. Ends with a barrier. */
template <typename SINK>
TOPKIT_FN void topkit_refine_emit(topkit_group g, const topkit_candidate *items, int count, topkit_cut cut, SINK sink,
                                  topkit_refiner_storage *s) {
    const topkit_candidate none = {0, 0};
    for (int base = 0; base < count; base += (int)g.size) {
        const int i = base + (int)g.thread;
        const topkit_candidate c = i < count ? items[i] : none;
        const bool selected = topkit_cut_selects(g, cut, c, i < count, s);
        const unsigned slot = topkit_warp_reserve(g, selected, &s->emitted);
        if (selected) topkit_sink_put(sink, (int)slot, c.index, c.bits);
    }
    topkit_group_sync(g);
    if (g.thread == 0) s->emitted = s->taken = 0; /* the next call's first barrier publishes it before anything is reserved */
}

/* Moves the candidates that the cut selects to the front of the buffer, in place, and returns how many. Ends with a barrier. */
TOPKIT_FN int topkit_refine_keep(topkit_group g, topkit_candidate *items, int count, topkit_cut cut, topkit_refiner_storage *s) {
    const topkit_candidate none = {0, 0};
    for (int base = 0; base < count; base += (int)g.size) {
        const int i = base + (int)g.thread;
        const topkit_candidate c = i < count ? items[i] : none;
        const bool selected = topkit_cut_selects(g, cut, c, i < count, s);
        const unsigned slot = topkit_warp_reserve(g, selected, &s->emitted);
        topkit_group_sync(g); /* what lies below base + size has been read by all; the slots lie there */
        if (selected) items[slot] = c;
    }
    topkit_group_sync(g);
    const int kept = (int)s->emitted;
    topkit_group_sync(g);
    if (g.thread == 0) s->emitted = s->taken = 0;
    return kept;
}

/* The exact k of items[0 .. count) to the sink. k = 0 writes nothing. */
template <int TIES, typename SINK>
TOPKIT_FN void topkit_refine(topkit_group g, const topkit_candidate *items, int count, int k, SINK sink, topkit_refiner_storage *s) {
    TOPKIT_ASSERT(k <= count);
    if (k <= 0) return;
    topkit__region r = {0, 0xffffffffu, (unsigned)k, (unsigned)count, 0, false}; /* everything */
    if (k < count) r = topkit__region_search<TIES>(g, items, count, k, s);
    else topkit_group_sync(g);
    if (topkit__region_is_plateau<TIES>(r)) {
        topkit_refine_emit(g, items, count, topkit_cut_at(r.low, TOPKIT_INDEX_LIMIT, r.need), sink, s);
        return;
    }
    const bool all = r.inside == r.need; /* of the region's members; else they are listed on the way, to be told apart */
    topkit__batch batch;
    for (int base = 0; base < count; base += TOPKIT_BATCH * (int)g.size) {
        unsigned offset[TOPKIT_BATCH], total = 0, slot = 0;
        bool selected[TOPKIT_BATCH];
        topkit__batch_load(g, items, count, base, &batch);
#pragma unroll
        for (int u = 0; u < TOPKIT_BATCH; u++) {
            const bool member = batch.present[u] && topkit__region_holds(r, batch.c[u]);
            selected[u] = (batch.present[u] && topkit__above_region(r, batch.c[u])) || (all && member);
            if (!all && member) topkit__boundary_list(s, batch.c[u]);
            const unsigned mask = __ballot_sync(TOPKIT_FULL_MASK, selected[u]);
            offset[u] = total + (unsigned)__popc(mask & topkit_lanes_below(g));
            total += (unsigned)__popc(mask);
        }
        if (topkit_lane(g) == 0 && total > 0) slot = atomicAdd(&s->emitted, total); /* one for the batch of a whole warp */
        slot = __shfl_sync(TOPKIT_FULL_MASK, slot, 0);
#pragma unroll
        for (int u = 0; u < TOPKIT_BATCH; u++) {
            if (selected[u]) topkit_sink_put(sink, (int)(slot + offset[u]), batch.c[u].index, batch.c[u].bits);
        }
    }
    topkit_group_sync(g);
    if (!all) {
        const unsigned members = s->listed, before = (unsigned)k - r.need;
        for (unsigned i = g.thread; i < members; i += g.size) {
            const unsigned long long mine = s->boundary[i];
            const unsigned rank = topkit__boundary_rank(s, members, mine);
            if (rank <= r.need) topkit_sink_put(sink, (int)(before + rank - 1), (int)~(unsigned)mine, s->boundary_bits[i]);
        }
        topkit_group_sync(g);
    }
    if (g.thread == 0) s->listed = s->emitted = 0;
}

#endif
