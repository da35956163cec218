/* topkit/refiner.cuh: the exact k best of m candidates, by radix steps over the digits that are really there.
 *
 * Two stages. The search narrows the boundary to a region of the order: what lies above it is selected, and so are the best `need` of
 * its members. Then either every selected candidate goes to a sink (topkit_refine), or the boundary is brought to a point, the cut, which
 * compaction and sorting use to keep the selected in place (topkit_refine_cut, topkit_refine_keep).
 *
 *   scope         group
 *   storage       topkit_refiner_storage, 7.7 KB shared. Init once, then sync; each call leaves it as it found it
 *   sync          called by all threads of the group; the candidates must be synced before. Each call ends with a barrier but for k = 0.
 *                 Counters are zeroed behind it: emit and keep come behind a cut, or behind another barrier since the last call
 *   determinism   TOPKIT_LOWEST_INDEX: the selected set. TOPKIT_ANY: the selected values; which of equal boundary scores is open.
 *                 The order of emission is open in both
 *   cost          3 reads of the candidates (range, digit, emission), or 2 where their bounds are known, and one shared atomic a candidate;
 *                 a further digit step only where more than TOPKIT_BOUNDARY candidates share the boundary bin, or where the boundary lies
 *                 above the end of the bounds
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

/* What is known of the candidates' keys before anyone looks at them: that none is below `low`, which saves a read of them, and that few are
 * above `high`: a guess, of which a wrong one costs a digit step. low = 0: nothing. */
typedef struct topkit_bounds {
    unsigned low, high;
} topkit_bounds;

enum { TOPKIT__EMITTED = 0, TOPKIT__LISTED = 1 };

typedef struct topkit_refiner_storage {
    topkit_digit_storage digit;
    unsigned long long boundary[TOPKIT_BOUNDARY]; /* (members of the boundary bin) pair keys */
    unsigned boundary_bits[TOPKIT_BOUNDARY];      /* (same) the scores' own bits */
    unsigned counts[2], taken; /* [TOPKIT__EMITTED] candidates, [TOPKIT__LISTED] members; boundary ties taken: zero between calls */
    topkit_cut cut;
} topkit_refiner_storage;

TOPKIT_FN void topkit_refiner_init(topkit_group g, topkit_refiner_storage *s) {
    topkit_digit_init(g, &s->digit);
    if (g.thread == 0) s->counts[TOPKIT__EMITTED] = s->counts[TOPKIT__LISTED] = s->taken = 0;
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
} topkit__batch;

/* How many candidates from this thread's first one of the batch on there are: its u-th is present where that is above u * size. */
template <typename ITEM>
TOPKIT_FN int topkit__batch_load(topkit_group g, const ITEM *items, int count, int base, topkit__batch *batch) {
    const int left = count - base - (int)g.thread;
#pragma unroll
    for (int u = 0; u < TOPKIT_BATCH; u++) {
        const topkit_candidate none = {0, 0};
        batch->c[u] = left > u * (int)g.size ? topkit_held(items, base + (int)g.thread + u * (int)g.size) : none;
    }
    return left;
}

/* The boundary's region: keys low .. low+span or, once all its members share the key `tie`, inverted indices in that range. `need` of its
 * `inside` members are selected, and everything above it. */
typedef struct topkit__region {
    unsigned low, span, need, inside;
    unsigned tie;
    bool by_index;
} topkit__region;

/* What the radix steps look at; false for a candidate that has left the race. */
template <bool BY_INDEX>
TOPKIT_FN bool topkit__region_value(topkit__region r, topkit_candidate c, unsigned *value) {
    const unsigned key = topkit_key(c.bits);
    *value = BY_INDEX ? (unsigned)~c.index : key;
    return !BY_INDEX || key == r.tie;
}

/* In the region, and above it. The end of the region may lie past the last key, so only differences are compared. */
template <bool BY_INDEX>
TOPKIT_FN bool topkit__region_holds(topkit__region r, topkit_candidate c, bool *above) {
    unsigned value;
    const bool runs = topkit__region_value<BY_INDEX>(r, c, &value), inside = value - r.low <= r.span;
    *above = runs ? !inside && value > r.low : topkit_key(c.bits) > r.tie;
    return runs && inside;
}

/* More equal keys than fit, with nothing to tell them apart. */
template <int TIES>
TOPKIT_FN bool topkit__region_is_plateau(topkit__region r) {
    return TIES == TOPKIT_ANY && r.span == 0 && r.inside > TOPKIT_BOUNDARY && r.inside != r.need;
}

/* Selected as a whole, or few enough to compare all pairs, or a plateau. */
template <int TIES>
TOPKIT_FN bool topkit__region_is_settled(topkit__region r) {
    return r.inside == r.need || r.inside <= TOPKIT_BOUNDARY || topkit__region_is_plateau<TIES>(r);
}

/* Narrows the region to the range of values that are there. */
template <bool BY_INDEX>
TOPKIT_FN void topkit__region_range(topkit_group g, const topkit_candidate *items, int count, topkit_refiner_storage *s,
                                    topkit__region *r) {
    unsigned low = 0xffffffffu, high = 0, value;
    topkit__batch batch;
    for (int base = 0; base < count; base += TOPKIT_BATCH * (int)g.size) {
        const int left = topkit__batch_load(g, items, count, base, &batch);
#pragma unroll
        for (int u = 0; u < TOPKIT_BATCH; u++) {
            if (left > u * (int)g.size && topkit__region_value<BY_INDEX>(*r, batch.c[u], &value)) {
                low = low < value ? low : value;
                high = high > value ? high : value;
            }
        }
    }
    topkit_digit_range(g, &s->digit, &low, &high);
    r->low = low;
    r->span = high - low;
}

/* Narrows it by a digit a step, until it is settled or one value is left. Where it is `open` upwards at first, its end is a guess, and what
 * exceeds that goes to the highest bin. */
template <int TIES, bool BY_INDEX>
TOPKIT_FN void topkit__region_narrow(topkit_group g, const topkit_candidate *items, int count, bool open, topkit_refiner_storage *s,
                                     topkit__region *r) {
    unsigned value;
    topkit__batch batch;
    while (open || r->span > 0) { /* else all are equal: a histogram would only queue them up at one bin */
        const unsigned shift = topkit_digit_shift(r->span), last = open ? 0xffffffffu - r->low : r->span;
        for (int base = 0; base < count; base += TOPKIT_BATCH * (int)g.size) {
            const int left = topkit__batch_load(g, items, count, base, &batch);
#pragma unroll
            for (int u = 0; u < TOPKIT_BATCH; u++) {
                const bool races = topkit__region_value<BY_INDEX>(*r, batch.c[u], &value) && left > u * (int)g.size;
                const unsigned bin = (value - r->low) >> shift;
                TOPKIT_ASSERT(!open || left <= u * (int)g.size || value >= r->low); /* a candidate below its bounds would be lost */
                topkit_digit_count_if(g, &s->digit, races && value - r->low <= last, bin < TOPKIT_DIGIT_BINS ? bin : TOPKIT_DIGIT_BINS - 1);
            }
        }
        topkit_group_sync(g);
        const topkit_digit_found found = topkit_digit_find(g, &s->digit, r->need, true);
        r->need -= found.above;
        r->inside = found.inside;
        r->low += found.bin << shift;
        r->span = open && found.bin == TOPKIT_DIGIT_BINS - 1 ? 0xffffffffu - r->low : (1u << shift) - 1;
        open = false;
        if (topkit__region_is_settled<TIES>(*r)) return;
    }
}

/* The boundary of the k best, k < count: all members of its region are selected, or at most TOPKIT_BOUNDARY are left of which some are
 * not, or they are a plateau. */
template <int TIES>
TOPKIT_FN topkit__region topkit__region_search(topkit_group g, const topkit_candidate *items, int count, int k, topkit_refiner_storage *s,
                                               topkit_bounds known) {
    topkit__region r = {known.low, known.high - known.low, (unsigned)k, (unsigned)count, 0, false};
    if (known.low == 0) topkit__region_range<false>(g, items, count, s, &r);
    topkit__region_narrow<TIES, false>(g, items, count, known.low > 0, s, &r);
    if (!topkit__region_is_settled<TIES>(r)) { /* equal keys: their indices decide */
        r.by_index = true;
        r.tie = r.low;
        topkit_group_sync(g); /* all have read the range of the keys before that of the indices takes its place */
        topkit__region_range<true>(g, items, count, s, &r);
        topkit__region_narrow<TIES, true>(g, items, count, false, s, &r);
    }
    return r;
}

/* The rank of listed member i, 1 the best, by comparing all pairs: eight neighbouring threads do it together, and all of them get it.
 * Called by whole warps; sync between the last listing and this. */
#define TOPKIT__RANKERS 8
TOPKIT_FN unsigned topkit__boundary_rank(topkit_group g, const topkit_refiner_storage *s, unsigned members, unsigned i) {
    const unsigned long long mine = s->boundary[i < members ? i : 0];
    unsigned better = 0;
    for (unsigned j = g.thread % TOPKIT__RANKERS; j < members; j += TOPKIT__RANKERS) better += s->boundary[j] > mine;
#pragma unroll
    for (int offset = 1; offset < TOPKIT__RANKERS; offset *= 2) better += __shfl_xor_sync(TOPKIT_FULL_MASK, better, offset);
    return better + 1;
}

TOPKIT_FN void topkit__boundary_put(topkit_refiner_storage *s, unsigned slot, topkit_candidate c) {
    TOPKIT_ASSERT(slot < TOPKIT_BOUNDARY);
    s->boundary[slot] = topkit_pair_key(topkit_key(c.bits), c.index);
    s->boundary_bits[slot] = c.bits;
}

/* The region's members to the list, by all of a group. Not yet synced. */
template <bool BY_INDEX>
TOPKIT_FN void topkit__boundary_list(topkit_group g, const topkit_candidate *items, int count, topkit__region r,
                                     topkit_refiner_storage *s) {
    const topkit_candidate none = {0, 0};
    for (int base = 0; base < count; base += (int)g.size) {
        const int i = base + (int)g.thread;
        const topkit_candidate c = i < count ? items[i] : none;
        bool above;
        const bool member = topkit__region_holds<BY_INDEX>(r, c, &above) && i < count;
        const unsigned slot = topkit_warp_reserve(g, member, &s->counts[TOPKIT__LISTED]);
        if (member) topkit__boundary_put(s, slot, c);
    }
}

/* The cut that selects exactly k of items[0 .. count), 1 <= k <= count. */
template <int TIES>
TOPKIT_FN topkit_cut topkit_refine_cut(topkit_group g, const topkit_candidate *items, int count, int k, topkit_refiner_storage *s,
                                       topkit_bounds known = {0, 0}) {
    TOPKIT_ASSERT(k >= 1 && k <= count);
    if (k == count) {
        topkit_group_sync(g); /* the counters that the last call cleared are seen by all */
        return topkit_cut_at(0, TOPKIT_INDEX_LIMIT, 0xffffffffu);
    }
    const topkit__region r = topkit__region_search<TIES>(g, items, count, k, s, known);
    if (r.inside == r.need) /* the whole region fits */
        return r.by_index ? topkit_cut_at(r.tie, (int)~r.low + 1, 0xffffffffu) : topkit_cut_at(r.low, TOPKIT_INDEX_LIMIT, 0xffffffffu);
    if (topkit__region_is_plateau<TIES>(r)) return topkit_cut_at(r.low, TOPKIT_INDEX_LIMIT, r.need);
    if (r.by_index) topkit__boundary_list<true>(g, items, count, r, s);
    else topkit__boundary_list<false>(g, items, count, r, s);
    topkit_group_sync(g);
    const unsigned members = s->counts[TOPKIT__LISTED];
    for (unsigned base = 0; base < members; base += g.size / TOPKIT__RANKERS) {
        const unsigned i = base + g.thread / TOPKIT__RANKERS;
        if (topkit__boundary_rank(g, s, members, i) == r.need && i < members && g.thread % TOPKIT__RANKERS == 0) {
            const unsigned long long mine = s->boundary[i];
            s->cut = topkit_cut_at((unsigned)(mine >> 32), (int)~(unsigned)mine + 1, 0xffffffffu);
        }
    }
    topkit_group_sync(g);
    if (g.thread == 0) s->counts[TOPKIT__LISTED] = 0;
    return s->cut;
}

/* Whether the cut selects a candidate that is `present`. By whole warps, behind a barrier since the last call on the storage; who has
 * looked at all candidates zeroes s->taken. */
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

/* Hands the candidates that the cut selects to the sink, at slots 0, 1, .. in no particular order. */
template <typename SINK>
TOPKIT_FN void topkit_refine_emit(topkit_group g, const topkit_candidate *items, int count, topkit_cut cut, SINK sink,
                                  topkit_refiner_storage *s) {
    const topkit_candidate none = {0, 0};
    for (int base = 0; base < count; base += (int)g.size) {
        const int i = base + (int)g.thread;
        const topkit_candidate c = i < count ? items[i] : none;
        const bool selected = topkit_cut_selects(g, cut, c, i < count, s);
        const unsigned slot = topkit_warp_reserve(g, selected, &s->counts[TOPKIT__EMITTED]);
        if (selected) topkit_sink_put(sink, (int)slot, c.index, c.bits);
    }
    topkit_group_sync(g);
    if (g.thread == 0) s->counts[TOPKIT__EMITTED] = s->taken = 0; /* a cut's barrier, or the caller's, comes before anything is reserved */
}

/* Moves the candidates that the cut selects to the front of the buffer, in place, and returns how many. */
TOPKIT_FN int topkit_refine_keep(topkit_group g, topkit_candidate *items, int count, topkit_cut cut, topkit_refiner_storage *s) {
    const topkit_candidate none = {0, 0};
    for (int base = 0; base < count; base += (int)g.size) {
        const int i = base + (int)g.thread;
        const topkit_candidate c = i < count ? items[i] : none;
        const bool selected = topkit_cut_selects(g, cut, c, i < count, s);
        const unsigned slot = topkit_warp_reserve(g, selected, &s->counts[TOPKIT__EMITTED]);
        topkit_group_sync(g); /* what lies below base + size has been read by all; the slots lie there */
        if (selected) items[slot] = c;
    }
    topkit_group_sync(g);
    const int kept = (int)s->counts[TOPKIT__EMITTED];
    topkit_group_sync(g);
    if (g.thread == 0) s->counts[TOPKIT__EMITTED] = s->taken = 0;
    return kept;
}

/* Emits what lies above the region, and its members too where `all` are selected; else these are listed. Not yet synced. Not for a region
 * that is everything: nothing is below it. */
template <bool BY_INDEX, typename SINK>
TOPKIT_FN void topkit__region_emit(topkit_group g, const topkit_candidate *items, int count, topkit__region r, bool all, SINK sink,
                                   topkit_refiner_storage *s) {
    /* Two compares a candidate: above `edge` it is selected, else from r.low on listed. The region may end past the last value. */
    const unsigned lane = topkit_lane(g), end = r.low + r.span, edge = all ? r.low - 1 : end < r.low ? 0xffffffffu : end;
    int *const bare = topkit_sink_bare(sink); /* where a put is one store, it needs no branch around it */
    topkit__batch batch;
    for (int base = 0; base < count; base += TOPKIT_BATCH * (int)g.size) {
        unsigned kind[TOPKIT_BATCH], mine = 0, total, slot = 0; /* 1 selected, 65536 listed; how many of both */
        const int left = topkit__batch_load(g, items, count, base, &batch);
#pragma unroll
        for (int u = 0; u < TOPKIT_BATCH; u++) {
            unsigned value;
            const bool runs = topkit__region_value<BY_INDEX>(r, batch.c[u], &value);
            kind[u] = value > edge ? 1u : value >= r.low ? 65536u : 0u;
            if (BY_INDEX && !runs) kind[u] = topkit_key(batch.c[u].bits) > r.tie ? 1u : 0u;
            if (left <= u * (int)g.size) kind[u] = 0;
            mine += kind[u];
        }
        /* One scan for both kinds, since counting a vote's bits is slow, and one atomic instruction, of two lanes, for a warp's batch. */
        const unsigned before = topkit_warp_exclusive_sum(g, mine, &total);
        if (lane < 2) slot = atomicAdd(&s->counts[lane], lane == TOPKIT__EMITTED ? total & 0xffffu : total >> 16);
        unsigned put = __shfl_sync(TOPKIT_FULL_MASK, slot, TOPKIT__EMITTED) + (before & 0xffffu);
        unsigned list = __shfl_sync(TOPKIT_FULL_MASK, slot, TOPKIT__LISTED) + (before >> 16);
        if (bare) {
#pragma unroll
            for (int u = 0; u < TOPKIT_BATCH; u++) {
                if (kind[u] == 1) bare[put] = batch.c[u].index;
                put += kind[u] & 1;
            }
        } else {
#pragma unroll
            for (int u = 0; u < TOPKIT_BATCH; u++) {
                if (kind[u] == 1) topkit_sink_put(sink, (int)put++, batch.c[u].index, batch.c[u].bits);
            }
        }
        if (mine > 0xffffu) { /* rare: one bin of many */
#pragma unroll
            for (int u = 0; u < TOPKIT_BATCH; u++) {
                if (kind[u] > 1) topkit__boundary_put(s, list++, batch.c[u]);
            }
        }
    }
}

/* The exact k of items[0 .. count) to the sink. k = 0 writes nothing. Without `known` their range is read. */
template <int TIES, typename SINK>
TOPKIT_FN void topkit_refine(topkit_group g, const topkit_candidate *items, int count, int k, SINK sink, topkit_refiner_storage *s,
                             topkit_bounds known = {0, 0}) {
    TOPKIT_ASSERT(k <= count);
    if (k <= 0) return;
    if (k == count) {
        for (int i = (int)g.thread; i < count; i += (int)g.size) topkit_sink_put(sink, i, items[i].index, items[i].bits);
        topkit_group_sync(g);
        return;
    }
    const topkit__region r = topkit__region_search<TIES>(g, items, count, k, s, known);
    if (topkit__region_is_plateau<TIES>(r)) {
        topkit_refine_emit(g, items, count, topkit_cut_at(r.low, TOPKIT_INDEX_LIMIT, r.need), sink, s);
        return;
    }
    const bool all = r.inside == r.need; /* of the region's members; else they are listed on the way, to be told apart */
    if (r.by_index) topkit__region_emit<true>(g, items, count, r, all, sink, s);
    else topkit__region_emit<false>(g, items, count, r, all, sink, s);
    topkit_group_sync(g);
    if (!all) {
        const unsigned members = s->counts[TOPKIT__LISTED], before = (unsigned)k - r.need;
        for (unsigned base = 0; base < members; base += g.size / TOPKIT__RANKERS) {
            const unsigned i = base + g.thread / TOPKIT__RANKERS, rank = topkit__boundary_rank(g, s, members, i);
            if (rank <= r.need && i < members && g.thread % TOPKIT__RANKERS == 0)
                topkit_sink_put(sink, (int)(before + rank - 1), (int)~(unsigned)s->boundary[i], s->boundary_bits[i]);
        }
        topkit_group_sync(g);
    }
    if (g.thread == 0) s->counts[TOPKIT__EMITTED] = s->counts[TOPKIT__LISTED] = 0;
}

#endif
