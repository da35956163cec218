/* topkit/resident.cuh: the exact k best of a row that lies in shared memory, with nothing sampled.
 *
 * A row is copied once, as aligned vectors, and then looked at where it lies. One histogram of its scores, in linear bins between bounds
 * that the row itself gives, finds the bin that holds the k-th best (topkit_resident_bound). Two numbers are put around that bin: what
 * exceeds the upper one is selected for sure, and its position is listed, two bytes each; what lies between them are the boundary's
 * members, of which there are few (topkit_resident_list). Bins only guide: that fewer than k exceed the upper number and at least k the
 * lower one is counted, and the members are compared exactly. Where it does not come out, because of infinities, outliers or many equals,
 * radix steps over the keys of the whole row find the boundary instead (topkit_resident_search): slower, never wrong. Emission reads the
 * row for the last time (topkit_resident_emit); the members are told apart behind it (topkit_resident_settle).
 *
 *   scope         group, which may be a part of a block; rows of up to 65000 scores
 *   storage       topkit_resident_storage, 4.6 KB shared, init once; topkit_resident_bytes(length) of shared memory for the row, aligned to
 *                 16 bytes, and 2 bytes for each of k positions behind it
 *   sync          copy: no barrier; a thread looks first at what it copied itself, and must have waited for that (topkit_copy_async_wait).
 *                 The five calls in their order, by all threads of the group: bound 4 barriers (1 where it finds no bounds, 7 where its
 *                 first try fails), list 1 (3 where the list does not do), search none (3 for a radix step), emit 1, settle none. Each
 *                 ends with a barrier but for settle, and for search where it has none. After emit the row's memory may be written
 *                 again. Clear, with 1 barrier, makes the storage ready for the next row's bound
 *   determinism   TOPKIT_LOWEST_INDEX: the selected set. TOPKIT_ANY: the selected values; which of equal boundary scores is open.
 *                 The order of emission is open in both
 *   cost          3 passes over the row in shared memory; a shared atomic for each score of the row's upper part; k positions written and
 *                 read
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
    unsigned short *list; /* positions of the scores that are selected for sure; null: nothing is known of any */
    int length, lead;
    int capacity; /* positions that the list has room for */
    int listed;   /* positions in it */
} topkit_resident;

typedef topkit__region topkit_resident_region;

/* At least k scores of the row have keys of low or more, none has more than high. Where it is `close`, fewer than k scores exceed `sure`
 * and k or more exceed `value`, hardly any lying between (under TOPKIT_NAN_HIGHEST "exceed" is "are not less than"). */
typedef struct topkit_resident_bracket {
    unsigned low, high;
    float value, sure;
    bool close;
} topkit_resident_bracket;

enum { TOPKIT__RESIDENT_LISTED = 0, TOPKIT__RESIDENT_MEMBERS = 1 };
typedef struct __align__(16) topkit_resident_storage {
    topkit_digit_storage digit; /* between list and settle its histogram holds the boundary's members */
    unsigned counts[2];         /* selected for sure, members of the boundary: zero between rows, */
    unsigned taken;             /* .. as are the equals taken */
} topkit_resident_storage;

TOPKIT_FN void topkit_resident_init(topkit_group g, topkit_resident_storage *s) {
    topkit_digit_init(g, &s->digit);
    if (g.thread == 0) s->counts[0] = s->counts[1] = s->taken = 0;
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
    const float *scores = row.scores - r.lead;
#pragma unroll 4
    for (int v = (int)g.thread; v < to; v += (int)g.size) {
        if (v >= from) topkit_copy_async_16(r.scores + v * 4, scores + v * 4);
    }
    if (from > 0 && g.thread == 0) topkit__resident_copy_edge(row, r, 0);
    if (vectors > to && vectors > from && g.thread == (unsigned)to % g.size) topkit__resident_copy_edge(row, r, to);
    topkit_copy_async_commit();
}

TOPKIT_FN float topkit__resident_most(float4 x) { return topkit_greater(topkit_greater(x.x, x.y), topkit_greater(x.z, x.w)); }

/* topkit_digit_find, which zeroes the histogram, without unrolled loops: they would run once or twice here. Nothing is inside where fewer
 * than `rank` were counted. */
TOPKIT_FN topkit_digit_found topkit__resident_find(topkit_group g, topkit_digit_storage *s, unsigned rank) {
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
        unsigned bin = TOPKIT_DIGIT_BINS - 1 - begin * 4;
#pragma unroll 1
        while (above + s->histogram[bin] < rank) above += s->histogram[bin--];
        s->found.bin = bin;
        s->found.above = above;
        s->found.inside = s->histogram[bin];
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

/* The linear bin of a score from `low` on: never decreasing in x, which is all that the bounds ask for. */
TOPKIT_FN unsigned topkit__resident_bin(float x, float low, float scale) {
    const float y = fmaf(x - low, scale, 8388608.0f); /* 2^23, whose last bit counts ones */
    return __float_as_uint(fminf(y, 8388608.0f + (TOPKIT_DIGIT_BINS - 1))) - 0x4b000000u;
}

TOPKIT_FN void topkit__resident_count(topkit_resident_storage *s, float x, float low, float scale) {
    const unsigned bin = topkit__resident_bin(x, low, scale);
    if (TOPKIT_NAN == TOPKIT_NAN_LOWEST ? topkit_ge(x, low) : topkit_not_lt(x, low)) topkit_digit_count(&s->digit, bin);
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

/* A number that everything in bin `bin` or higher exceeds, close below: its own bin is lower. Never -0. */
TOPKIT_FN float topkit__resident_floor(unsigned bin, float low, float step, float scale) {
    float x = low + ((float)bin - 0.51f) * step;
    if (topkit__resident_bin(x, low, scale) >= bin) x = topkit__resident_below(x);
    return topkit_add_zero(bin > 0 && x > low && topkit__resident_bin(x, low, scale) < bin ? x : topkit__resident_below(low));
}

/* A number that nothing up to bin `bin` exceeds, close above: its own bin is higher. +inf where there is none. */
TOPKIT_FN float topkit__resident_ceiling(unsigned bin, float low, float step, float scale) {
    float x = low + ((float)bin + 0.51f) * step;
    if (topkit__resident_bin(x, low, scale) <= bin) x = topkit__resident_above(x);
    return topkit_add_zero(x > low && topkit__resident_bin(x, low, scale) > bin ? x : __uint_as_float(0x7f800000u));
}

/* Counts the row's scores from `low` on in linear bins up to `high` and puts the bounds around the bin of rank k. */
TOPKIT_FN bool topkit__resident_close_in(topkit_group g, topkit_resident r, int k, float low, float high, topkit_resident_bracket *bracket,
                                         topkit_resident_storage *s) {
    const float span = high - low;
    bracket->close = false; /* what a try before this one left holds no longer */
    if (!(span > 1e-30f && span < 1e37f)) return false;
    const float scale = (TOPKIT_DIGIT_BINS - 1) / span, step = span * (1.0f / (TOPKIT_DIGIT_BINS - 1));
    const int vectors = topkit__resident_vectors(r);
    const float4 *row = (const float4 *)r.scores;
#pragma unroll 2
    for (int v = (int)g.thread; v < vectors; v += (int)g.size) {
        const float4 x = row[v];
        topkit__resident_count(s, x.x, low, scale);
        topkit__resident_count(s, x.y, low, scale);
        topkit__resident_count(s, x.z, low, scale);
        topkit__resident_count(s, x.w, low, scale);
    }
    topkit_group_sync(g);
    const topkit_digit_found found = topkit__resident_find(g, &s->digit, (unsigned)k);
    bracket->value = topkit__resident_floor(found.bin, low, step, scale);
    bracket->sure = topkit__resident_ceiling(found.bin, low, step, scale);
    bracket->close = found.inside > 0 && found.inside <= TOPKIT_BOUNDARY;
    return found.inside > 0;
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
    topkit_resident_bracket bracket = {0u, 0u, 0.0f, 0.0f, false};
    unsigned usual;
    topkit__resident_range(g, s, low, high, &bracket.low, &bracket.high, &usual);
    if (groups < k) bracket.low = 0;
    if (bracket.low <= TOPKIT_KEY_NEG_INF || usual >= TOPKIT_KEY_POS_INF) return bracket;
    low = __uint_as_float(topkit_key_bits(bracket.low));
    high = __uint_as_float(topkit_key_bits(usual));
    /* The lower scores need not be counted, and how many these are may be guessed: where too few are left, all are counted. */
    const float part = r.length >= 12 * k ? 0.5f : r.length >= 6 * k ? 0.375f : r.length >= 4 * k ? 0.25f : 0.0f;
    const float guess = low + (high - low) * part;
    if (bracket.high < TOPKIT_KEY_POS_INF && k < r.length / 8) /* too few are wanted for more to lie above the bins */
        high = __uint_as_float(topkit_key_bits(bracket.high));
    if (!topkit__resident_close_in(g, r, k, guess, high, &bracket, s) && part > 0.0f)
        topkit__resident_close_in(g, r, k, low, high, &bracket, s);
    if (bracket.close) bracket.low = topkit_key(__float_as_uint(bracket.value)) + (TOPKIT_NAN == TOPKIT_NAN_LOWEST);
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

/* The position of a thread's n-th score of 32: of 8 vectors, of which the first is `v`. */
TOPKIT_FN int topkit__resident_position(topkit_group g, int v, int n) { return v * 4 + (n >> 2) * 4 * ((int)g.size - 1) + n; }

/* Lists positions of a warp's part of the row. False: no room. */
TOPKIT_FN bool topkit__resident_list_part(topkit_group g, topkit_resident_bracket bracket, topkit_resident r, int first,
                                          topkit_resident_storage *s) {
    const float4 *row = (const float4 *)r.scores;
    const int vectors = topkit__resident_vectors(r), lane = (int)topkit_lane(g), v = first + lane;
    unsigned between = 0, sure = 0, total, base = 0;
#pragma unroll 4
    for (int u = 0; u < 8; u++) {
        if (v + u * (int)g.size < vectors) {
            const float4 x = row[v + u * (int)g.size];
            between = topkit__resident_shift_in(between, x.x, bracket.value);
            sure = topkit__resident_shift_in(sure, x.x, bracket.sure);
            between = topkit__resident_shift_in(between, x.y, bracket.value);
            sure = topkit__resident_shift_in(sure, x.y, bracket.sure);
            between = topkit__resident_shift_in(between, x.z, bracket.value);
            sure = topkit__resident_shift_in(sure, x.z, bracket.sure);
            between = topkit__resident_shift_in(between, x.w, bracket.value);
            sure = topkit__resident_shift_in(sure, x.w, bracket.sure);
        } else {
            between <<= 4;
            sure <<= 4;
        }
    }
    between &= ~sure;
    /* One scan for both, and one atomic instruction of two lanes. */
    const unsigned below = topkit_warp_exclusive_sum(g, (unsigned)__popc(sure) | (unsigned)__popc(between) << 16, &total);
    if (lane < 2) base = atomicAdd(&s->counts[lane], lane == TOPKIT__RESIDENT_LISTED ? total & 0xffffu : total >> 16);
    const unsigned slot = __shfl_sync(TOPKIT_FULL_MASK, base, TOPKIT__RESIDENT_LISTED);
    const unsigned member = __shfl_sync(TOPKIT_FULL_MASK, base, TOPKIT__RESIDENT_MEMBERS);
    if (slot + (total & 0xffffu) > (unsigned)r.capacity || member + (total >> 16) > TOPKIT_BOUNDARY) return false;
    unsigned short *next = r.list + slot + (below & 0xffffu);
    while (sure) {
        const int n = __clz((int)sure);
        sure ^= 0x80000000u >> n;
        *next++ = (unsigned short)topkit__resident_position(g, v, n);
    }
    for (unsigned put = member + (below >> 16); between; put++) {
        const int n = __clz((int)between), position = topkit__resident_position(g, v, n);
        between ^= 0x80000000u >> n;
        topkit__resident_member_put(s, put, __float_as_uint(r.scores[position]), position - r.lead);
    }
    return true;
}

/* Lists the positions of the scores that are selected for sure, and as the boundary's members those that may be. Where that does not work
 * r loses its list. */
TOPKIT_FN void topkit_resident_list(topkit_group g, topkit_resident_bracket bracket, int k, topkit_resident *r,
                                    topkit_resident_storage *s) {
    const int vectors = topkit__resident_vectors(*r);
    for (int first = (int)(g.thread - topkit_lane(g)); bracket.close && first < vectors; first += 8 * (int)g.size) {
        if (!topkit__resident_list_part(g, bracket, *r, first, s)) break; /* the counts say so */
    }
    topkit_group_sync(g);
    const unsigned listed = s->counts[TOPKIT__RESIDENT_LISTED], members = s->counts[TOPKIT__RESIDENT_MEMBERS];
    r->listed = (int)listed;
    if (bracket.close && listed <= (unsigned)r->capacity && members <= TOPKIT_BOUNDARY && listed <= (unsigned)k &&
        listed + members >= (unsigned)k)
        return;
    r->list = nullptr;
    r->listed = 0;
    if (bracket.close) { /* rare */
        topkit_group_sync(g);
        topkit_resident_init(g, s);
        topkit_group_sync(g);
    }
}

/* Where a score lies as seen from the boundary's region: in it, above it, or neither. */
typedef struct topkit__resident_side {
    bool member, above;
} topkit__resident_side;

TOPKIT_FN topkit__resident_side topkit__resident_side_of(topkit__region region, unsigned bits, int index) {
    const unsigned key = topkit_key(bits);
    unsigned value = key;
    bool races = index >= 0, above = false;
    if (region.by_index) {
        above = races && key > region.tie;
        races = races && key == region.tie;
        value = (unsigned)~index;
    }
    topkit__resident_side side;
    side.member = races && value - region.low <= region.span; /* wraps round below the region */
    side.above = above || (races && value >= region.low && !side.member);
    return side;
}

/* How many scores the bounds let through, between list and clear. */
TOPKIT_FN int topkit_resident_seen(topkit_resident r, const topkit_resident_storage *s) {
    return r.list ? r.listed + (int)s->counts[TOPKIT__RESIDENT_MEMBERS] : r.length;
}

/* A radix step's counts. Where the region is a single key they would queue up at one bin: a warp's are added up first. */
TOPKIT_FN void topkit__resident_step(topkit_group g, topkit_resident r, topkit__region region, unsigned shift,
                                     topkit_resident_storage *s) {
#pragma unroll 1
    for (int base = (int)(g.thread - topkit_lane(g)); base < r.length; base += (int)g.size) {
        const int i = base + (int)topkit_lane(g), index = i < r.length ? i : -1;
        const unsigned bits = index >= 0 ? __float_as_uint(r.scores[r.lead + index]) : 0u;
        const bool member = topkit__resident_side_of(region, bits, index).member;
        if (region.span == 0) {
            const unsigned members = (unsigned)__popc(__ballot_sync(TOPKIT_FULL_MASK, member));
            if (topkit_lane(g) == 0 && members > 0) atomicAdd(&s->digit.histogram[0], members);
        } else if (member) {
            topkit_digit_count(&s->digit, ((region.by_index ? (unsigned)~index : topkit_key(bits)) - region.low) >> shift);
        }
    }
}

/* The boundary of the k best: what is listed and the members, or else its region in the whole row, narrowed until all members are
 * selected, or at most TOPKIT_BOUNDARY are left, or they are equals of which any will do. */
template <int TIES>
TOPKIT_FN topkit_resident_region topkit_resident_search(topkit_group g, topkit_resident r, topkit_resident_bracket bracket, int k,
                                                        topkit_resident_storage *s) {
    topkit__region region = {bracket.low, bracket.high - bracket.low, (unsigned)k, (unsigned)r.length, 0, false};
    if (r.list) {
        region.need = (unsigned)(k - r.listed);
        return region;
    }
    for (;;) {
        const unsigned shift = topkit_digit_shift(region.span);
        topkit__resident_step(g, r, region, shift, s);
        topkit_group_sync(g);
        const topkit_digit_found found = topkit__resident_find(g, &s->digit, region.need);
        region.need -= found.above;
        region.inside = found.inside;
        region.low += found.bin << shift;
        region.span = (1u << shift) - 1;
        if (topkit__region_is_settled<TIES>(region)) return region;
        if (region.span == 0) { /* equal keys: their indices decide */
            region.by_index = true;
            region.tie = region.low;
            region.low = (unsigned)~(r.length - 1);
            region.span = (unsigned)(r.length - 1);
        }
    }
}

/* Hands what lies above the boundary to the sink, in no particular order, and of its members those that need no comparing. */
template <int TIES, typename SINK>
TOPKIT_FN void topkit_resident_emit(topkit_group g, topkit_resident r, topkit_resident_region region, SINK sink,
                                    topkit_resident_storage *s) {
    const bool all = region.inside == region.need, plateau = topkit__region_is_plateau<TIES>(region);
    if (r.list) {
#pragma unroll 4
        for (int i = (int)g.thread; i < r.listed; i += (int)g.size) {
            const int position = r.list[i];
            topkit_sink_put(sink, i, position - r.lead, __float_as_uint(r.scores[position]));
        }
        topkit_group_sync(g);
        return;
    }
#pragma unroll 1
    for (int base = (int)(g.thread - topkit_lane(g)); base < r.length; base += (int)g.size) {
        const int i = base + (int)topkit_lane(g), index = i < r.length ? i : -1;
        const unsigned bits = index >= 0 ? __float_as_uint(r.scores[r.lead + index]) : 0u;
        const topkit__resident_side side = topkit__resident_side_of(region, bits, index);
        bool selected = side.above || (all && side.member);
        if (plateau) {
            const unsigned ticket = topkit_warp_reserve(g, side.member, &s->taken);
            selected = selected || (side.member && ticket < region.need);
        } else if (!all) {
            const unsigned member = topkit_warp_reserve(g, side.member, &s->counts[TOPKIT__RESIDENT_MEMBERS]);
            if (side.member) topkit__resident_member_put(s, member, bits, index);
        }
        const unsigned slot = topkit_warp_reserve(g, selected, &s->counts[TOPKIT__RESIDENT_LISTED]);
        if (selected) topkit_sink_put(sink, (int)slot, index, bits);
    }
    topkit_group_sync(g);
}

/* Hands the best of the boundary's members to the sink, of k selected in all. Does not look at the row. */
template <typename SINK>
TOPKIT_FN void topkit_resident_settle(topkit_group g, topkit_resident_region region, int k, SINK sink, topkit_resident_storage *s) {
    unsigned long long *pairs = topkit__resident_members(s);
    const unsigned members = s->counts[TOPKIT__RESIDENT_MEMBERS], before = (unsigned)k - region.need;
    for (unsigned i = g.thread; i < members; i += g.size) {
        const unsigned long long mine = pairs[i];
        unsigned rank = 1;
#pragma unroll 4
        for (unsigned j = 0; j < members; j++) rank += pairs[j] > mine;
        if (rank <= region.need)
            topkit_sink_put(sink, (int)(before + rank - 1), (int)~(unsigned)mine, topkit__resident_member_bits(s)[i]);
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
    if (g.thread == 0) s->counts[0] = s->counts[1] = s->taken = 0;
}

#endif
