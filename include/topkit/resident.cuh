/* topkit/resident.cuh: the exact k best of a row that lies in shared memory, with nothing sampled.
 *
 * A row is copied once, as aligned vectors, and then looked at where it lies. One histogram of its scores, in linear bins between bounds
 * that the row itself gives, finds the bin that holds the k-th best (topkit_resident_bound). Two numbers are put around that bin: what
 * exceeds the upper one is selected for sure, and its position is listed, two bytes each; what lies between them are the boundary's
 * members, of which there are few (topkit_resident_list). Bins only guide: that fewer than k exceed the upper number and at least k the
 * lower one is counted, and the members are compared exactly. Where it does not come out, because of infinities, outliers or many equals,
 * resident_search.cuh finds the boundary and makes the list (topkit_resident_search): slower, never wrong. Emission looks at the row for
 * the last time (topkit_resident_emit); the members are told apart behind it (topkit_resident_settle).
 *
 *   scope         group, which may be a part of a block; rows of up to 65000 scores
 *   storage       topkit_resident_storage, 4.6 KB shared, init once; topkit_resident_bytes(length) of shared memory for the row, aligned to
 *                 16 bytes, and 2 bytes for each of k positions behind it, all of them: there is no way without the list
 *   sync          copy: no barrier; a thread looks first at what it copied itself, and must have waited for that (topkit_copy_async_wait).
 *                 The five calls in their order, by all threads of the group: bound 4 barriers (1 where it finds no bounds, 4 or 7
 *                 where its first try fails), list 1 (3 where it was begun and does not do), search none (or 3, and 3 for a radix step),
 *                 emit 1, settle none. Call them one behind the other: what they read last is not written before the next one's barrier.
 *                 After emit the row's memory may be written again. Clear, with 1 barrier, makes the storage ready for the next row
 *   determinism   TOPKIT_LOWEST_INDEX: the selected set. TOPKIT_ANY: the selected values; which of equal boundary scores is open.
 *                 The order of emission is open in both
 *   cost          3 passes over the row in shared memory, of which one counts every score with a shared atomic (and one more where the
 *                 first try fails); k positions written and read
 *
 * Worked numbers: of 8 aligned scores 1 9 3 4 8 2 7 6 and k = 3, groups of two have the maxima 9 4 8 7: at least 3 scores reach the least
 * of them, 4. Bins from 4 to 9 have the 7 alone in the third best's: 9 and 8 are listed, 7 is the only member.
 */
#ifndef TOPKIT_RESIDENT_CUH
#define TOPKIT_RESIDENT_CUH

#include "topkit/refiner.cuh"

/* A row in shared memory: score i is scores[lead + i], lead < 4. What fills up the first and the last vector ranks lowest. */
typedef struct topkit_resident {
    float *scores;
    unsigned short *list; /* positions of the scores that are selected for sure */
    int length, lead;
    int capacity; /* positions that the list has room for */
    int listed;   /* positions in it; negative: nothing is known of any */
} topkit_resident;

/* At least k scores of the row have keys of low or more, none has more than high. Where it is `binned`, fewer than k scores exceed `sure`
 * and k or more exceed `value` (under TOPKIT_NAN_HIGHEST "exceed" is "are not less than", and a `sure` of +inf says nothing); where it is
 * `close`, hardly any lie between. */
typedef struct topkit_resident_bracket {
    unsigned low, high;
    float value, sure;
    bool binned, close;
} topkit_resident_bracket;

enum { TOPKIT__RESIDENT_LISTED = 0, TOPKIT__RESIDENT_MEMBERS = 1 };
typedef struct __align__(16) topkit_resident_storage {
    topkit_digit_storage digit; /* between list and settle its histogram holds the boundary's members */
    float value, sure;          /* the bounds that a histogram gave */
    unsigned counts[2];         /* selected for sure, members of the boundary: zero between rows */
} topkit_resident_storage;

TOPKIT_FN void topkit_resident_init(topkit_group g, topkit_resident_storage *s) {
    topkit_digit_init(g, &s->digit);
    if (g.thread == 0) s->counts[0] = s->counts[1] = 0;
}

/* Bytes for a row of so many scores on any 4-byte boundary. */
TOPKIT_FN int topkit_resident_bytes(int length) { return (length + 6) / 4 * 16; }

/* The row as it lies at `place`, in `bytes` of shared memory of which the list gets what the row leaves. */
TOPKIT_FN topkit_resident topkit_resident_at(topkit_row row, float *place, int bytes) {
    topkit_resident r;
    r.scores = place;
    r.length = row.length;
    r.listed = 0;
    r.lead = (int)((unsigned long long)row.scores & 15) / 4;
    const int end = (r.lead + r.length + 3) / 4 * 4;
    TOPKIT_ASSERT(end <= 65536 && end * 4 <= bytes && ((unsigned long long)place & 15) == 0);
    r.list = (unsigned short *)(place + end);
    r.capacity = (bytes - end * 4) / 2;
    return r;
}

TOPKIT_FN int topkit__resident_vectors(topkit_resident r) { return (r.lead + r.length + 3) / 4; }
/* The row's first or last vector where it is not all scores. */
TOPKIT_FN bool topkit__resident_is_edge(topkit_resident r, int v) { return v * 4 < r.lead || v * 4 + 4 > r.lead + r.length; }

/* A vector that is not all scores. */
TOPKIT_FN void topkit__resident_copy_edge(topkit_row row, topkit_resident r, int v) {
    const float lowest = __uint_as_float(TOPKIT_NAN == TOPKIT_NAN_LOWEST ? 0x7fffffffu : 0xff800000u);
#pragma unroll 1
    for (int c = v * 4; c < v * 4 + 4; c++) {
        const int i = c - r.lead;
        if (i >= 0 && i < r.length) topkit_copy_async_4(r.scores + c, row.scores + i);
        else r.scores[c] = lowest;
    }
}

/* Starts copying the row to its place. Thread t has the vectors t, t + size, .. */
TOPKIT_FN void topkit_resident_copy_async(topkit_group g, topkit_row row, topkit_resident r) {
    const int from = r.lead > 0, to = (r.lead + r.length) / 4, vectors = topkit__resident_vectors(r);
    const int first = (int)g.thread + (g.thread < (unsigned)from ? (int)g.size : 0);
    const float *source = row.scores - r.lead + first * 4;
    float *target = r.scores + first * 4;
#pragma unroll 8
    for (int v = first; v < to; v += (int)g.size, source += 4 * g.size, target += 4 * g.size) topkit_copy_async_16(target, source);
    if (from > 0 && g.thread == 0) topkit__resident_copy_edge(row, r, 0);
    if (vectors > to && vectors > from && g.thread == (unsigned)to % g.size) topkit__resident_copy_edge(row, r, to);
    topkit_copy_async_commit();
}

TOPKIT_FN float topkit__resident_most(float4 x) { return topkit_greater(topkit_greater(x.x, x.y), topkit_greater(x.z, x.w)); }

/* Linear bins of scores, from `low` on; `last`: the highest one's place. */
typedef struct topkit__resident_bins {
    float low, step, scale, last;
} topkit__resident_bins;

/* So many bins between two scores whose difference is neither tiny nor huge. */
TOPKIT_FN bool topkit__resident_can_bin(float low, float high) { return high - low > 1e-30f && high - low < 1e37f; }
TOPKIT_FN topkit__resident_bins topkit__resident_bins_between(float low, float high, int count) {
    const float span = high - low, steps = (float)(count - 1);
    const topkit__resident_bins bins = {low, span * (1.0f / steps), steps / span, TOPKIT_COUNT_FROM + TOPKIT_WARP + steps};
    return bins;
}

/* The place of a score's linear bin, where there is one: never decreasing in x, which is all that bounds and comparisons ask for. */
TOPKIT_FN float topkit__resident_reach(topkit__resident_bins bins, float x) {
    return fmaf(x - bins.low, bins.scale, TOPKIT_COUNT_FROM + TOPKIT_WARP);
}
/* The same where there is none too: at or behind `lowest`, and in the last bin. */
TOPKIT_FN float topkit__resident_place(topkit__resident_bins bins, float x, float lowest) {
    const float y = topkit__resident_reach(bins, x);
    return TOPKIT_NAN == TOPKIT_NAN_LOWEST ? fminf(fmaxf(y, lowest), bins.last) : fmaxf(fminf(y, bins.last), lowest); /* not the NaN */
}
TOPKIT_FN int topkit__resident_bin(topkit__resident_bins bins, float x) {
    return (int)(__float_as_uint(topkit__resident_place(bins, x, TOPKIT_COUNT_FROM)) - 0x4b000000u) - TOPKIT_WARP;
}

/* The neighbours of a number. Of the two zeros neither is the other's. */
TOPKIT_FN float topkit__resident_below(float x) {
    const unsigned key = topkit_key(__float_as_uint(x));
    return __uint_as_float(topkit_key_bits(key - (key == 0x80000000u ? 2 : 1)));
}
TOPKIT_FN float topkit__resident_above(float x) {
    const unsigned key = topkit_key(__float_as_uint(x));
    return __uint_as_float(topkit_key_bits(key + (key == 0x7ffffffeu ? 2 : 1)));
}

/* A number that everything in bin `bin` or higher exceeds, close below: its own bin is lower. Below `low` for the lowest bin, which what
 * lies less than half a step below is rounded into. Where there is none, what only -inf does not exceed, which no bin holds. Never -0. */
TOPKIT_FN float topkit__resident_floor(topkit__resident_bins bins, int bin) {
    float x = bins.low + ((float)bin - 0.51f) * bins.step;
    if (topkit__resident_bin(bins, x) >= bin) x = topkit__resident_below(x);
    const float least = __uint_as_float(TOPKIT_NAN == TOPKIT_NAN_LOWEST ? 0xff800000u : 0xff7fffffu);
    return topkit_add_zero(topkit__resident_bin(bins, x) < bin && (TOPKIT_NAN == TOPKIT_NAN_LOWEST || x >= least) ? x : least);
}

/* A number that nothing up to bin `bin` exceeds, close above: its own bin is higher. +inf where there is none. */
TOPKIT_FN float topkit__resident_ceiling(topkit__resident_bins bins, int bin) {
    float x = bins.low + ((float)bin + 0.51f) * bins.step;
    if (topkit__resident_bin(bins, x) <= bin) x = topkit__resident_above(x);
    return topkit_add_zero(x > bins.low && topkit__resident_bin(bins, x) > bin ? x : __uint_as_float(0x7f800000u));
}

/* topkit_digit_find, which zeroes the histogram, without unrolled loops: they would run once or twice here. Nothing is inside where fewer
 * than `rank` were counted. Of linear bins the thread that finds the bin computes the bounds, for all. */
TOPKIT_FN topkit_digit_found topkit__resident_find(topkit_group g, topkit_resident_storage *resident, unsigned rank,
                                                   const topkit__resident_bins *linear) {
    topkit_digit_storage *s = &resident->digit;
    const unsigned lane = topkit_lane(g), warp = topkit_warp_rank(g), fours = TOPKIT_DIGIT_BINS / 4;
    const unsigned each = (fours + g.size - 1) / g.size; /* consecutive fours of a thread, from the top; of many threads some have none */
    const unsigned begin = g.thread * each, end = begin + each < fours ? begin + each : fours;
    uint4 *bins = (uint4 *)s->histogram;
    unsigned sum = 0, total;
#pragma unroll 1
    for (unsigned i = begin; i < end; i++) {
        const uint4 four = bins[fours - 1 - i];
        sum += four.x + four.y + four.z + four.w;
    }
    const unsigned below = topkit_warp_exclusive_sum(g, sum, &total);
    if (lane == 0) s->warp_sums[warp] = total;
    if (g.thread == 0) s->found.inside = 0;
    topkit_group_sync(g);
    unsigned above = below + __reduce_add_sync(TOPKIT_FULL_MASK, lane < warp ? s->warp_sums[lane] : 0u);
    if (above < rank && above + sum >= rank) { /* one thread of the group */
        unsigned i = begin;
        uint4 four = bins[fours - 1 - i];
#pragma unroll 1
        for (unsigned n; above + (n = four.x + four.y + four.z + four.w) < rank; four = bins[fours - 1 - ++i]) above += n;
        unsigned bin = (fours - 1 - i) * 4 + 3, inside = four.w;
        const unsigned lower[3] = {four.z, four.y, four.x};
#pragma unroll
        for (int n = 0; n < 3; n++) {
            if (above + inside < rank) {
                above += inside;
                inside = lower[n];
                bin--;
            }
        }
        s->found.bin = bin;
        s->found.above = above;
        s->found.inside = inside;
        if (linear) {
            resident->value = topkit__resident_floor(*linear, (int)bin);
            resident->sure = topkit__resident_ceiling(*linear, (int)bin);
        }
    }
#pragma unroll 1
    for (unsigned i = begin; i < end; i++) bins[fours - 1 - i] = make_uint4(0, 0, 0, 0);
    topkit_group_sync(g);
    return s->found;
}

/* Scores in a group: as many as leave k groups. */
TOPKIT_FN int topkit_resident_group(int vectors, int k) { return vectors >= k ? 4 : 2 * vectors > k ? 2 : 1; }

/* Smallest and largest of the groups' maxima, and the smallest maximum of 8 threads' scores: few scores lie above that one, but not only
 * one, as above the largest. A thread without scores has the order's last number as `low` and its first one as `high`. */
TOPKIT_FN void topkit__resident_range(topkit_group g, topkit_resident_storage *s, float low, float high, unsigned *least, unsigned *most,
                                      unsigned *usual) {
    const unsigned lane = topkit_lane(g), warp = topkit_warp_rank(g), warps = topkit_warps(g), mine = topkit_key(__float_as_uint(high));
    unsigned eight = mine;
#pragma unroll
    for (int offset = 1; offset < 8; offset *= 2) {
        const unsigned other = __shfl_xor_sync(TOPKIT_FULL_MASK, eight, offset);
        eight = eight > other ? eight : other;
    }
    const unsigned l = __reduce_min_sync(TOPKIT_FULL_MASK, topkit_key(__float_as_uint(low)));
    const unsigned h = __reduce_max_sync(TOPKIT_FULL_MASK, mine);
    const unsigned u = __reduce_min_sync(TOPKIT_FULL_MASK, eight > TOPKIT_KEY_NEG_INF ? eight : 0xffffffffu);
    if (lane == 0) {
        s->digit.warp_low[warp] = l;
        s->digit.warp_high[warp] = h;
        s->digit.warp_sums[warp] = u;
    }
    topkit_group_sync(g);
    *least = __reduce_min_sync(TOPKIT_FULL_MASK, lane < warps ? s->digit.warp_low[lane] : 0xffffffffu);
    *most = __reduce_max_sync(TOPKIT_FULL_MASK, lane < warps ? s->digit.warp_high[lane] : 0u);
    *usual = __reduce_min_sync(TOPKIT_FULL_MASK, lane < warps ? s->digit.warp_sums[lane] : 0xffffffffu);
}

/* Scores below the bins are counted as well, aside, where few lanes meet: of a condition around an atomic the compiler makes a branch, and
 * of four in a row four, with their joins. */
TOPKIT_FN void topkit__resident_count_four(topkit_digit_storage *s, topkit__resident_bins bins, float4 x, float lowest) {
    topkit_count_at(s->aside, topkit__resident_place(bins, x.x, lowest));
    topkit_count_at(s->aside, topkit__resident_place(bins, x.y, lowest));
    topkit_count_at(s->aside, topkit__resident_place(bins, x.z, lowest));
    topkit_count_at(s->aside, topkit__resident_place(bins, x.w, lowest));
}

/* Counts the row's scores in their bins. */
TOPKIT_FN void topkit__resident_count(topkit_group g, topkit_resident r, topkit__resident_bins bins, topkit_digit_storage *s) {
    const float lowest = TOPKIT_COUNT_FROM + (float)topkit_lane(g);
    const int vectors = topkit__resident_vectors(r);
    const float4 *row = (const float4 *)r.scores;
    /* Four vectors are read before the first is counted: neither the compiler nor the hardware moves a read ahead of an atomic. */
    int v = (int)g.thread;
    #pragma unroll 1
    for (; v + 3 * (int)g.size < vectors; v += 4 * (int)g.size) {
        float4 x[4];
#pragma unroll
        for (int u = 0; u < 4; u++) x[u] = row[v + u * (int)g.size];
#pragma unroll
        for (int u = 0; u < 4; u++) topkit__resident_count_four(s, bins, x[u], lowest);
    }
#pragma unroll 1
    for (; v < vectors; v += (int)g.size) topkit__resident_count_four(s, bins, row[v], lowest);
}

/* Counts the row's scores in linear bins from `low` to `high`, what is lower aside, and puts the bounds around the bin of rank k. */
TOPKIT_FN bool topkit__resident_close_in(topkit_group g, topkit_resident r, int k, float low, float high, topkit_resident_bracket *bracket,
                                         topkit_resident_storage *s) {
    if (!topkit__resident_can_bin(low, high)) return false;
    const topkit__resident_bins bins = topkit__resident_bins_between(low, high, TOPKIT_DIGIT_BINS);
    topkit__resident_count(g, r, bins, &s->digit);
    topkit_group_sync(g);
    const topkit_digit_found found = topkit__resident_find(g, s, (unsigned)k, &bins);
    bracket->value = s->value;
    bracket->sure = s->sure;
    bracket->binned = found.inside > 0;
    bracket->close = bracket->binned && found.inside <= TOPKIT_BOUNDARY;
    return bracket->binned;
}

/* What at least k scores of the row reach, 1 <= k <= length. */
TOPKIT_FN topkit_resident_bracket topkit_resident_bound(topkit_group g, topkit_resident r, int k, topkit_resident_storage *s) {
    const int vectors = topkit__resident_vectors(r), group = topkit_resident_group(vectors, k);
    const int edges = topkit__resident_is_edge(r, 0) + (vectors > 1 && topkit__resident_is_edge(r, vectors - 1));
    const int groups = (vectors - edges) * (4 / group) + edges;
    TOPKIT_ASSERT(k >= 1 && k <= r.length);
    const float4 *row = (const float4 *)r.scores;
    float low = __uint_as_float(TOPKIT_NAN == TOPKIT_NAN_LOWEST ? 0x7f800000u : 0x7fffffffu);
    float high = __uint_as_float(TOPKIT_NAN == TOPKIT_NAN_LOWEST ? 0x7fffffffu : 0xff800000u);
    if (group == 4) {
#pragma unroll 4
        for (int v = (int)g.thread; v < vectors; v += (int)g.size) {
            const float most = topkit__resident_most(row[v]);
            high = topkit_greater(high, most);
            low = topkit_lesser(low, most);
        }
    } else {
#pragma unroll 1
        for (int v = (int)g.thread; v < vectors; v += (int)g.size) {
            const float4 x = row[v];
            float least = topkit_lesser(topkit_greater(x.x, x.y), topkit_greater(x.z, x.w));
            if (group == 1) least = topkit_lesser(topkit_lesser(x.x, x.y), topkit_lesser(x.z, x.w));
            if (topkit__resident_is_edge(r, v)) least = topkit__resident_most(x);
            high = topkit_greater(high, topkit__resident_most(x));
            low = topkit_lesser(low, least);
        }
    }
    topkit_resident_bracket bracket = {0u, 0u, 0.0f, 0.0f, false, false};
    unsigned usual;
    topkit__resident_range(g, s, low, high, &bracket.low, &bracket.high, &usual);
    if (groups < k) bracket.low = 0;
    if (bracket.low <= TOPKIT_KEY_NEG_INF || usual >= TOPKIT_KEY_POS_INF) return bracket;
    low = __uint_as_float(topkit_key_bits(bracket.low));
    high = __uint_as_float(topkit_key_bits(usual));
    /* The lower scores need no bins, and how many these are may be guessed: where too few have one, all get one. */
    const float part = r.length >= 12 * k ? 0.5f : r.length >= 6 * k ? 0.375f : r.length >= 4 * k ? 0.25f : 0.0f;
    const float guess = low + (high - low) * part;
    if (bracket.high < TOPKIT_KEY_POS_INF && k < r.length / 8) /* too few are wanted for more to lie above the bins */
        high = __uint_as_float(topkit_key_bits(bracket.high));
    if (!topkit__resident_close_in(g, r, k, guess, high, &bracket, s) && part > 0.0f)
        topkit__resident_close_in(g, r, k, low, high, &bracket, s);
    if (bracket.binned) bracket.low = topkit_key(__float_as_uint(bracket.value)) + (TOPKIT_NAN == TOPKIT_NAN_LOWEST);
    return bracket;
}

/* Shifts in a bit that says whether the score exceeds `value`: the sign of a difference, with no compare and no select. */
TOPKIT_FN unsigned topkit__resident_shift_in(unsigned mask, float x, float value) {
    if (TOPKIT_NAN == TOPKIT_NAN_HIGHEST) return mask << 1 | (topkit_not_lt(x, value) ? 1u : 0u);
    return mask << 1 | __float_as_uint(topkit_subtract(value, x)) >> 31;
}

/* The members of the boundary, in the place of the histogram. */
TOPKIT_FN unsigned long long *topkit__resident_members(topkit_resident_storage *s) { return (unsigned long long *)s->digit.histogram; }
TOPKIT_FN unsigned *topkit__resident_member_bits(topkit_resident_storage *s) { return s->digit.histogram + 2 * TOPKIT_BOUNDARY; }

TOPKIT_FN void topkit__resident_member_put(topkit_resident_storage *s, unsigned slot, unsigned bits, int index) {
    TOPKIT_ASSERT(slot < TOPKIT_BOUNDARY);
    topkit__resident_members(s)[slot] = topkit_pair_key(topkit_key(bits), index);
    topkit__resident_member_bits(s)[slot] = bits;
}

/* Four scores more of which bits say whether they exceed the bounds. */
TOPKIT_FN void topkit__resident_shift_in_four(float4 x, topkit_resident_bracket bracket, unsigned *between, unsigned *sure) {
    *between = topkit__resident_shift_in(*between, x.x, bracket.value);
    *sure = topkit__resident_shift_in(*sure, x.x, bracket.sure);
    *between = topkit__resident_shift_in(*between, x.y, bracket.value);
    *sure = topkit__resident_shift_in(*sure, x.y, bracket.sure);
    *between = topkit__resident_shift_in(*between, x.z, bracket.value);
    *sure = topkit__resident_shift_in(*sure, x.z, bracket.sure);
    *between = topkit__resident_shift_in(*between, x.w, bracket.value);
    *sure = topkit__resident_shift_in(*sure, x.w, bracket.sure);
}

/* Takes the highest bit of 32 that stand for the scores of 8 vectors, from vector `v` on and a group apart: the score's position. */
TOPKIT_FN int topkit__resident_take(topkit_group g, int v, unsigned *bits) {
    const int n = 31 - __clz((int)*bits);
    *bits ^= 1u << n;
    return (v + 7 * (int)g.size) * 4 + 3 - n - (n & 28) * ((int)g.size - 1);
}

/* Lists what a warp's bits say is selected for sure, and puts the members of the boundary where they are compared; or, of a plateau, which
 * are all alike, `need` of them into the list, from `equals` on. False: there are too many members. */
TOPKIT_FN bool topkit__resident_put(topkit_group g, topkit_resident r, int v, unsigned sure, unsigned between, unsigned short *equals,
                                    unsigned need, topkit_resident_storage *s) {
    const int lane = (int)topkit_lane(g);
    unsigned total, base = 0;
    /* One scan for both, and one atomic instruction of two lanes. */
    const unsigned below = topkit_warp_exclusive_sum(g, (unsigned)__popc(sure) | (unsigned)__popc(between) << 16, &total);
    if (lane < 2) base = atomicAdd(&s->counts[lane], lane == TOPKIT__RESIDENT_LISTED ? total & 0xffffu : total >> 16);
    const unsigned slot = __shfl_sync(TOPKIT_FULL_MASK, base, TOPKIT__RESIDENT_LISTED);
    const unsigned member = __shfl_sync(TOPKIT_FULL_MASK, base, TOPKIT__RESIDENT_MEMBERS);
    if (slot + (total & 0xffffu) > (unsigned)r.capacity || (!equals && member + (total >> 16) > TOPKIT_BOUNDARY)) return false;
    unsigned short *next = r.list + slot + (below & 0xffffu);
    while (sure) *next++ = (unsigned short)topkit__resident_take(g, v, &sure);
    for (unsigned put = member + (below >> 16); between; put++) {
        const int position = topkit__resident_take(g, v, &between);
        if (!equals) topkit__resident_member_put(s, put, __float_as_uint(r.scores[position]), position - r.lead);
        else if (put < need) equals[put] = (unsigned short)position;
        else break;
    }
    return true;
}

/* Lists positions of a warp's part of the row by the bounds. */
TOPKIT_FN bool topkit__resident_list_part(topkit_group g, topkit_resident_bracket bracket, topkit_resident r, int first,
                                          topkit_resident_storage *s) {
    const float4 *row = (const float4 *)r.scores;
    const int vectors = topkit__resident_vectors(r), v = first + (int)topkit_lane(g);
    unsigned between = 0, sure = 0;
    if (first + 7 * (int)g.size + (int)TOPKIT_WARP <= vectors) {
#pragma unroll
        for (int u = 0; u < 8; u++) topkit__resident_shift_in_four(row[v + u * (int)g.size], bracket, &between, &sure);
    } else {
#pragma unroll 1
        for (int u = 0; u < 8; u++) {
            if (v + u * (int)g.size < vectors) {
                topkit__resident_shift_in_four(row[v + u * (int)g.size], bracket, &between, &sure);
            } else {
                between <<= 4;
                sure <<= 4;
            }
        }
    }
    return topkit__resident_put(g, r, v, sure, between & ~sure, nullptr, 0, s);
}

/* Lists the positions of the scores that are selected for sure, and as the boundary's members those that may be: of the k best, for which
 * the list must have room. Where that does not work nothing is known of any. */
TOPKIT_FN void topkit_resident_list(topkit_group g, topkit_resident_bracket bracket, int k, topkit_resident *r,
                                    topkit_resident_storage *s) {
    const int vectors = topkit__resident_vectors(*r);
    TOPKIT_ASSERT(k <= r->capacity);
    for (int first = (int)(g.thread - topkit_lane(g)); bracket.close && first < vectors; first += 8 * (int)g.size) {
        if (!topkit__resident_list_part(g, bracket, *r, first, s)) break; /* the counts say so */
    }
    topkit_group_sync(g);
    const unsigned listed = s->counts[TOPKIT__RESIDENT_LISTED], members = s->counts[TOPKIT__RESIDENT_MEMBERS];
    r->listed = (int)listed;
    if (bracket.close && listed <= (unsigned)k && members <= TOPKIT_BOUNDARY && listed + members >= (unsigned)k) return;
    r->listed = -1;
    if (bracket.close) { /* rare */
        topkit_group_sync(g);
        topkit_resident_init(g, s);
        topkit_group_sync(g);
    }
}

/* How many scores the bounds let through, between list and search. */
TOPKIT_FN int topkit_resident_seen(topkit_resident r, const topkit_resident_storage *s) {
    return r.listed < 0 ? r.length : r.listed + (int)s->counts[TOPKIT__RESIDENT_MEMBERS];
}

/* Hands what is listed to the sink, in no particular order. */
template <typename SINK>
TOPKIT_FN void topkit_resident_emit(topkit_group g, topkit_resident r, SINK sink) {
    int *bare = topkit_sink_bare(sink), from = 0;
    if (bare && ((unsigned long long)bare & 15) == 0) {
        from = r.listed & ~3;
        for (int i = (int)g.thread * 4; i < from; i += (int)g.size * 4) {
            const uint2 four = *(const uint2 *)(r.list + i);
            const int x = (int)(four.x & 0xffffu), y = (int)(four.x >> 16), z = (int)(four.y & 0xffffu), w = (int)(four.y >> 16);
            *(int4 *)(bare + i) = make_int4(x - r.lead, y - r.lead, z - r.lead, w - r.lead);
        }
    }
#pragma unroll 4
    for (int i = from + (int)g.thread; i < r.listed; i += (int)g.size) {
        const int position = r.list[i];
        topkit_sink_put(sink, i, position - r.lead, __float_as_uint(r.scores[position]));
    }
    topkit_group_sync(g);
}

/* Hands the best of the boundary's members to the sink, behind those that were listed, so that k are selected. Does not look at the row. */
template <typename SINK>
TOPKIT_FN void topkit_resident_settle(topkit_group g, int listed, int k, SINK sink, topkit_resident_storage *s) {
    unsigned long long *pairs = topkit__resident_members(s);
    const unsigned members = s->counts[TOPKIT__RESIDENT_MEMBERS], need = (unsigned)(k - listed);
    for (unsigned i = g.thread; i < members; i += g.size) {
        const unsigned long long mine = pairs[i];
        unsigned rank = 1;
#pragma unroll 4
        for (unsigned j = 0; j < members; j++) rank += pairs[j] > mine;
        if (rank <= need)
            topkit_sink_put(sink, listed + (int)rank - 1, (int)~(unsigned)mine, topkit__resident_member_bits(s)[i]);
    }
}

/* Makes the storage ready for the next row. */
TOPKIT_FN void topkit_resident_clear(topkit_group g, topkit_resident_storage *s) {
    const unsigned members = s->counts[TOPKIT__RESIDENT_MEMBERS];
    topkit_group_sync(g); /* all have compared the members, and read how many there are */
    for (unsigned i = g.thread; i < members; i += g.size) {
        topkit__resident_members(s)[i] = 0;
        topkit__resident_member_bits(s)[i] = 0;
    }
    if (g.thread == 0) s->counts[0] = s->counts[1] = 0;
}

#endif
