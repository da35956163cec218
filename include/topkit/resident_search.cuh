/* topkit/resident_search.cuh: the boundary of a row in shared memory that linear bins do not find.
 *
 * Infinities, outliers and many equals make bins useless: one holds nearly everything. The keys that lie between the bounds are narrowed to
 * those that are there, which of few distinct scores is one; then by radix steps over the row, until no more are left than can be
 * compared, or all of them are selected, or they are equals of which any will do. Under TOPKIT_LOWEST_INDEX equals are told apart by steps
 * over their indices. The list of what is selected for sure is made by that region, as resident.cuh makes it by the bounds.
 *
 *   scope         group, as resident.cuh
 *   storage       that of resident.cuh
 *   sync          called by all threads of the group behind topkit_resident_list, or, with a bracket that says nothing ({0, 0xffffffff, 0,
 *                 0, false, false}) and r.listed negative, behind a barrier that follows the copy. None where the list is there, else 3
 *                 barriers and 3 for a radix step; the last one ends it
 *   determinism   TOPKIT_LOWEST_INDEX: the selected set. TOPKIT_ANY: the selected values
 *   cost          2 passes over the row in shared memory, and one for each radix step, of which there are 4 at most for the keys and 2 for
 *                 the indices: all in all 1.2 to 3.0 times the time of a row that needs none, on an H200 with 4096 rows of 8K to 24K
 *
 * Worked numbers: of 1000 twos and 1000 ones and k = 1200 the bounds lie below 1 and between the two. Narrowed, the region is the key of 1
 * alone, 1000 are above it and 1000 inside, of which any 200 are listed.
 */
#ifndef TOPKIT_RESIDENT_SEARCH_CUH
#define TOPKIT_RESIDENT_SEARCH_CUH

#include "topkit/resident.cuh"

/* A score as a radix step sees it: its key or, among equals, its index turned round; and whether it is one of the region's. */
typedef struct topkit__resident_view {
    unsigned from_low; /* value - low, which wraps round below the region */
    bool member, above;
} topkit__resident_view;

TOPKIT_FN topkit__resident_view topkit__resident_view_of(topkit__region region, float score, int index) {
    const unsigned key = topkit_key(__float_as_uint(score)), value = region.by_index ? ~(unsigned)index : key;
    const bool races = !region.by_index || key == region.tie;
    topkit__resident_view view;
    view.from_low = value - region.low;
    view.member = races && view.from_low <= region.span;
    view.above = races ? value >= region.low && !view.member : key > region.tie;
    return view;
}

/* A radix step's counts; what is not in the region is counted where nobody looks. */
TOPKIT_FN void topkit__resident_step(topkit_group g, topkit_resident r, topkit__region region, unsigned shift,
                                     topkit_resident_storage *s) {
    const float *scores = r.scores + r.lead;
#pragma unroll 1
    for (int first = (int)g.thread; first < r.length; first += 4 * (int)g.size) {
        float x[4];
#pragma unroll
        for (int u = 0; u < 4; u++) x[u] = first + u * (int)g.size < r.length ? scores[first + u * (int)g.size] : 0.0f;
#pragma unroll
        for (int u = 0; u < 4; u++) {
            const int i = first + u * (int)g.size;
            const topkit__resident_view view = topkit__resident_view_of(region, x[u], i);
            topkit_digit_count_if(g, &s->digit, view.member && i < r.length, view.from_low >> shift);
        }
    }
}

/* The keys that are there between the bounds, and how many: of few distinct scores there is one. */
TOPKIT_FN topkit__region topkit__resident_narrow(topkit_group g, topkit_resident r, topkit_resident_bracket bracket, int k,
                                                 topkit_resident_storage *s) {
    const unsigned lane = topkit_lane(g), warps = topkit_warps(g);
    /* Of infinities and NaNs in the last bin none is told apart by a bound. */
    const bool bounded = bracket.binned && bracket.sure < __uint_as_float(0x7f800000u);
    const unsigned highest = bounded ? topkit_key(__float_as_uint(bracket.sure)) - (TOPKIT_NAN == TOPKIT_NAN_HIGHEST) : bracket.high;
    unsigned least = 0xffffffffu, most = 0, above = 0, inside = 0;
#pragma unroll 4
    for (int i = (int)g.thread; i < r.length; i += (int)g.size) {
        const unsigned key = topkit_key(__float_as_uint(r.scores[r.lead + i]));
        const bool member = key - bracket.low <= highest - bracket.low;
        above += key > highest;
        inside += member;
        least = member && key < least ? key : least;
        most = member && key > most ? key : most;
    }
    topkit_digit_range(g, &s->digit, &least, &most);
    const unsigned sums = __reduce_add_sync(TOPKIT_FULL_MASK, above << 16 | inside); /* a row has fewer than 2^16 scores */
    if (lane == 0) s->digit.warp_sums[topkit_warp_rank(g)] = sums;
    topkit_group_sync(g);
    const unsigned both = lane < warps ? s->digit.warp_sums[lane] : 0;
    above = __reduce_add_sync(TOPKIT_FULL_MASK, both >> 16);
    inside = __reduce_add_sync(TOPKIT_FULL_MASK, both & 0xffffu);
    TOPKIT_ASSERT(above < (unsigned)k && above + inside >= (unsigned)k); /* bins never decrease, so that their bounds hold */
    topkit__region region = {least, most - least, (unsigned)k - above, inside, 0, false};
    return region;
}

/* Lists by a region that is settled what the bounds could not tell apart. */
template <int TIES>
TOPKIT_FN void topkit__resident_list_region(topkit_group g, topkit__region region, int k, topkit_resident *r, topkit_resident_storage *s) {
    const bool all = region.inside == region.need, plateau = topkit__region_is_plateau<TIES>(region);
    const int vectors = topkit__resident_vectors(*r), before = k - (int)region.need;
#pragma unroll 1
    for (int first = (int)(g.thread - topkit_lane(g)); first < vectors; first += 8 * (int)g.size) {
        const int v = first + (int)topkit_lane(g);
        unsigned between = 0, sure = 0;
#pragma unroll 1
        for (int u = 0; u < 8; u++) {
            const int at = v + u * (int)g.size;
            const float4 four = at < vectors ? ((const float4 *)r->scores)[at] : make_float4(0, 0, 0, 0);
            const float x[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const int index = at * 4 + c - r->lead;
                const topkit__resident_view view = topkit__resident_view_of(region, x[c], index);
                const bool there = (unsigned)index < (unsigned)r->length;
                sure = sure << 1 | (there && (view.above || (all && view.member)) ? 1u : 0u);
                between = between << 1 | (there && !all && view.member ? 1u : 0u);
            }
        }
        topkit__resident_put(g, *r, v, sure, between, plateau ? r->list + before : nullptr, region.need, s);
    }
    topkit_group_sync(g);
    r->listed = all || plateau ? k : before;
    if (plateau && g.thread == 0) s->counts[TOPKIT__RESIDENT_MEMBERS] = 0; /* they are listed; emit ends with a barrier */
}

/* Where the bounds did not do: the region of the boundary in the whole row, narrowed until all of its members are selected, or at most
 * TOPKIT_BOUNDARY are left, or they are equals of which any will do; and then the list of what is selected for sure. */
template <int TIES>
TOPKIT_FN void topkit_resident_search(topkit_group g, topkit_resident_bracket bracket, int k, topkit_resident *r,
                                      topkit_resident_storage *s) {
    if (r->listed >= 0) return;
    topkit__region region = topkit__resident_narrow(g, *r, bracket, k, s);
    while (!topkit__region_is_settled<TIES>(region)) {
        if (region.span == 0) { /* equal keys: their indices decide */
            region.by_index = true;
            region.tie = region.low;
            region.low = (unsigned)~(r->length - 1);
            region.span = (unsigned)(r->length - 1);
        }
        const unsigned shift = topkit_digit_shift(region.span);
        topkit__resident_step(g, *r, region, shift, s);
        topkit_group_sync(g);
        const topkit_digit_found found = topkit__resident_find(g, s, region.need, nullptr);
        const unsigned left = region.span - (found.bin << shift), whole = (1u << shift) - 1;
        region.need -= found.above;
        region.inside = found.inside;
        region.low += found.bin << shift;
        region.span = left < whole ? left : whole; /* behind its end lies what is above it already */
    }
    topkit__resident_list_region<TIES>(g, region, k, r, s);
}

#endif
