/* topkit/refiner.cuh: the exact k best of m candidates, by radix steps over the digits that are really there.
 *
 * Two stages. The cut finds the boundary: a (key, index) pair, or a key and how many of the scores equal to it still fit. The emission
 * then hands every candidate on the right side of the cut to a sink. Compaction (collector.cuh) uses the same cut to keep instead of emit.
 *
 *   scope         group
 *   storage       topkit_refiner_storage, 6.6 KB shared. Init once, then sync; each call leaves it as it found it
 *   sync          called by all threads of the group; the candidates must be synced before. Each call ends with a barrier
 *   determinism   TOPKIT_LOWEST_INDEX: the selected set. TOPKIT_ANY: the selected values; which of equal boundary scores is open.
 *                 The order of emission is open in both
 *   cost          3 reads of the candidates (range, digit, boundary) plus one for emission, one shared atomic a candidate; a further
 *                 digit step only where more than TOPKIT_BOUNDARY candidates share the boundary bin
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

/* What the radix steps look at: keys first, then (lowest-index ties) the inverted indices of the candidates at one key. */
TOPKIT_FN bool topkit__refiner_value(topkit_candidate c, bool by_index, unsigned tie_key, unsigned *value) {
    const unsigned key = topkit_key(c.bits);
    *value = by_index ? (unsigned)~c.index : key;
    return !by_index || key == tie_key;
}

TOPKIT_FN void topkit__refiner_range(topkit_group g, const topkit_candidate *items, int count, bool by_index, unsigned tie_key,
                                     topkit_refiner_storage *s, unsigned *low, unsigned *span) {
    unsigned high = 0, value;
    *low = 0xffffffffu;
    for (int i = (int)g.thread; i < count; i += (int)g.size) {
        if (topkit__refiner_value(items[i], by_index, tie_key, &value)) {
            *low = *low < value ? *low : value;
            high = high > value ? high : value;
        }
    }
    topkit_digit_range(g, &s->digit, low, &high);
    *span = high - *low;
}

/* Lists the members of the boundary bin and finds the one of rank `need` among them by comparing all pairs. */
TOPKIT_FN topkit_cut topkit__refiner_settle(topkit_group g, const topkit_candidate *items, int count, bool by_index, unsigned tie_key,
                                            unsigned low, unsigned span, unsigned need, topkit_refiner_storage *s) {
    unsigned value;
    for (int i = (int)g.thread; i < count; i += (int)g.size) {
        const topkit_candidate c = items[i];
        if (topkit__refiner_value(c, by_index, tie_key, &value) && value >= low && value - low <= span)
            s->boundary[atomicAdd(&s->listed, 1u)] = topkit_pair_key(topkit_key(c.bits), c.index);
    }
    topkit_group_sync(g);
    const unsigned members = s->listed;
    TOPKIT_ASSERT(members <= TOPKIT_BOUNDARY && need >= 1 && need <= members);
    for (unsigned i = g.thread; i < members; i += g.size) {
        const unsigned long long mine = s->boundary[i];
        unsigned rank = 1;
        for (unsigned j = 0; j < members; j++) rank += s->boundary[j] > mine;
        if (rank == need) s->cut = topkit_cut_at((unsigned)(mine >> 32), (int)~(unsigned)mine + 1, 0xffffffffu);
    }
    topkit_group_sync(g);
    if (g.thread == 0) s->listed = 0;
    return s->cut;
}

/* The cut that selects exactly k of items[0 .. count), 1 <= k <= count. */
template <int TIES>
TOPKIT_FN topkit_cut topkit_refine_cut(topkit_group g, const topkit_candidate *items, int count, int k, topkit_refiner_storage *s) {
    TOPKIT_ASSERT(k >= 1 && k <= count);
    if (k == count) {
        topkit_group_sync(g); /* the counters that the last emission cleared are seen by all */
        return topkit_cut_at(0, TOPKIT_INDEX_LIMIT, 0xffffffffu);
    }
    unsigned need = (unsigned)k, tie_key = 0, low, span, value;
    bool by_index = false;
    topkit__refiner_range(g, items, count, by_index, tie_key, s, &low, &span);
    for (;;) {
        const unsigned shift = topkit_digit_shift(span);
        topkit_digit_found found = {0, 0, (unsigned)count};
        if (span > 0) { /* else all are equal: a histogram would only queue them up at one bin */
            for (int i = (int)g.thread; i < count; i += (int)g.size) {
                if (topkit__refiner_value(items[i], by_index, tie_key, &value) && value >= low && value - low <= span)
                    topkit_digit_count(&s->digit, (value - low) >> shift);
            }
            topkit_group_sync(g);
            found = topkit_digit_find(g, &s->digit, need, true);
            need -= found.above;
            low += found.bin << shift;
            span = (1u << shift) - 1;
        }
        if (found.inside == need) /* the whole bin fits */
            return by_index ? topkit_cut_at(tie_key, (int)~low + 1, 0xffffffffu) : topkit_cut_at(low, TOPKIT_INDEX_LIMIT, 0xffffffffu);
        if (found.inside <= TOPKIT_BOUNDARY) return topkit__refiner_settle(g, items, count, by_index, tie_key, low, span, need, s);
        if (span == 0) { /* more equal keys than fit */
            if (TIES == TOPKIT_ANY) return topkit_cut_at(low, TOPKIT_INDEX_LIMIT, need);
            by_index = true;
            tie_key = low;
            topkit_group_sync(g); /* all have read the range of the keys before that of the indices takes its place */
            topkit__refiner_range(g, items, count, by_index, tie_key, s, &low, &span);
        }
    }
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
TOPKIT_FN void topkit_refine_emit(topkit_group g, const topkit_candidate *items, int count, topkit_cut cut, SINK sink, topkit_refiner_storage *s) {
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
    if (k <= 0) return;
    topkit_refine_emit(g, items, count, topkit_refine_cut<TIES>(g, items, count, k, s), sink, s);
}

#endif
