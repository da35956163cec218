/* topkit/resident.cuh: the exact k best of a row that lies in shared memory, with nothing guessed.
 *
 * A row is copied once, as aligned vectors, and then looked at where it lies. The maxima of disjoint groups of its scores are scores of
 * the row: the k-th largest of them is reached by at least k scores, and by hardly more where a group is a few scores. A histogram of these
 * maxima gives a bound a little below it (topkit_resident_bound). Positions of the scores that reach the bound are listed, two bytes each
 * (topkit_resident_list), and radix steps over what is listed find the boundary (topkit_resident_search). Where the bound is useless,
 * because of infinities or more equals than the list holds, the steps go over the whole row instead: slower, never wrong. Emission reads
 * the row for the last time (topkit_resident_emit); the members of the boundary's bin are told apart behind it (topkit_resident_settle).
 *
 *   scope         group, which may be a part of a block; rows of up to 65000 scores
 *   storage       topkit_resident_storage, 4.6 KB shared, init once; topkit_resident_bytes(length) of shared memory for the row, aligned to
 *                 16 bytes, and 2 bytes for each position that the list shall hold: 1.5 k of them, or the row's length where that is less
 *   sync          copy: no barrier; a thread looks first at what it copied itself, and must have waited for that (topkit_copy_async_wait).
 *                 The five calls in their order, by all threads of the group: bound 3 barriers, list 1, search 3 for a radix step, emit 1,
 *                 settle none. After emit the row's memory may be written again. Clear, with 1 barrier, makes the storage ready for the
 *                 next row's bound. Each call ends with a barrier but for these two
 *   determinism   TOPKIT_LOWEST_INDEX: the selected set. TOPKIT_ANY: the selected values; which of equal boundary scores is open.
 *                 The order of emission is open in both
 *   cost          3 passes over the row in shared memory, 2 over the list; a shared atomic a group and one a listed score
 *
 * Worked numbers: of 8 aligned scores 1 9 3 4 8 2 7 6 and k = 3, groups of two have the maxima 9 4 8 7; the third largest is 7, so the
 * bound lies in (6, 7] and 9 8 7 are listed: topkit_resident_group(2, 3) is 2. For k = 2 a group would be four scores.
 */
#ifndef TOPKIT_RESIDENT_CUH
#define TOPKIT_RESIDENT_CUH

#include "topkit/refiner.cuh"

/* A row in shared memory: score i is scores[lead + i], lead < 4. What fills up the first and the last vector ranks lowest. */
typedef struct topkit_resident {
    float *scores;
    unsigned short *list; /* positions of the scores to look at; null: the whole row */
    int length, lead;
    int capacity; /* positions that the list has room for */
    int count;    /* scores to look at */
} topkit_resident;

typedef topkit__region topkit_resident_region;

/* At least k scores of the row have keys of low or more, none has more than high. */
typedef struct topkit_resident_bracket {
    unsigned low, high;
    float value; /* listed is what exceeds it, and under TOPKIT_NAN_HIGHEST what equals it and NaNs */
    bool lists;  /* the bound is worth a list */
} topkit_resident_bracket;

enum { TOPKIT__RESIDENT_EMITTED = 0, TOPKIT__RESIDENT_MEMBERS = 1 };
typedef struct __align__(16) topkit_resident_storage {
    topkit_digit_storage digit;                        /* between search and settle its histogram holds the boundary's members */
    unsigned counts[2];                                /* emitted, and listed as members of the boundary: zero between rows, */
    unsigned listed[2], taken;                         /* .. as are the positions listed (in the first), and the boundary's equals taken */
} topkit_resident_storage;

TOPKIT_FN void topkit_resident_init(topkit_group g, topkit_resident_storage *s) {
    topkit_digit_init(g, &s->digit);
    if (g.thread == 0) s->counts[0] = s->counts[1] = s->listed[0] = s->listed[1] = s->taken = 0;
}

/* Bytes for a row of so many scores on any 4-byte boundary. */
TOPKIT_FN int topkit_resident_bytes(int length) { return (length + 6) / 4 * 16; }

/* The row as it lies at `place`, in `bytes` of shared memory of which the list gets what the row leaves. */
TOPKIT_FN topkit_resident topkit_resident_at(topkit_row row, float *place, int bytes) {
    topkit_resident r;
    r.scores = place;
    r.length = r.count = row.length;
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

/* topkit_digit_find, which zeroes the histogram, without unrolled loops: they would run once or twice here. */
TOPKIT_FN topkit_digit_found topkit__resident_find(topkit_group g, topkit_digit_storage *s, unsigned rank) {
    const unsigned lane = topkit_lane(g), warp = topkit_warp_rank(g), fours = TOPKIT_DIGIT_BINS / 4;
    const unsigned each = (fours + g.size - 1) / g.size, top = fours - 1 - g.thread * each; /* a thread's highest four bins */
    const bool any = g.thread * each < fours;
    uint4 *bins = (uint4 *)s->histogram;
    unsigned sum = 0, total;
#pragma unroll 1
    for (unsigned i = 0; any && i < each; i++) {
        const uint4 four = bins[top - i];
        sum += four.x + four.y + four.z + four.w;
    }
    const unsigned below = topkit_warp_exclusive_sum(g, sum, &total);
    if (lane == 0) s->warp_sums[warp] = total;
    topkit_group_sync(g);
    unsigned above = below + __reduce_add_sync(TOPKIT_FULL_MASK, lane < warp ? s->warp_sums[lane] : 0u);
    if (above < rank && above + sum >= rank) { /* one thread of the group */
        unsigned bin = top * 4 + 3;
#pragma unroll 1
        while (above + s->histogram[bin] < rank) above += s->histogram[bin--];
        s->found.bin = bin;
        s->found.above = above;
        s->found.inside = s->histogram[bin];
    }
#pragma unroll 1
    for (unsigned i = 0; any && i < each; i++) bins[top - i] = make_uint4(0, 0, 0, 0);
    topkit_group_sync(g);
    return s->found;
}

/* Scores in a group: as many as leave enough groups for a close bound, a quarter more than k where there is a choice. */
TOPKIT_FN int topkit_resident_group(int vectors, int k) { return vectors >= k + k / 4 ? 4 : 2 * vectors >= k + k / 16 ? 2 : 1; }

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

/* The linear bin of a maximum, which is `low` or more: never decreasing in x, which is all that the bound asks for. */
TOPKIT_FN unsigned topkit__resident_bin(float x, float low, float scale) {
    const float y = fmaf(x - low, scale, 8388608.0f); /* 2^23, whose last bit counts ones */
    return __float_as_uint(fminf(y, 8388608.0f + (TOPKIT_DIGIT_BINS - 1))) - 0x4b000000u;
}

TOPKIT_FN void topkit__resident_count(topkit_resident_storage *s, float x, float low, float scale) {
    topkit_digit_count(&s->digit, topkit__resident_bin(x, low, scale));
}

/* The next number below; below the zeros that is the least denormal. */
TOPKIT_FN float topkit__resident_below(float x) {
    const unsigned key = topkit_key(__float_as_uint(x));
    return __uint_as_float(topkit_key_bits(key - (key == 0x80000000u ? 2 : 1)));
}

/* A number that every maximum of bin `bin` or higher exceeds, close below them. Never -0. */
TOPKIT_FN float topkit__resident_floor(unsigned bin, float low, float span, float scale) {
    float x = low + ((float)bin - 0.51f) * (span * (1.0f / (TOPKIT_DIGIT_BINS - 1)));
    if (topkit__resident_bin(x, low, scale) >= bin) x = topkit__resident_below(x);
    return topkit_add_zero(bin > 0 && x > low && topkit__resident_bin(x, low, scale) < bin ? x : topkit__resident_below(low));
}

/* What at least k scores of the row reach, 1 <= k <= length. */
TOPKIT_FN topkit_resident_bracket topkit_resident_bound(topkit_group g, topkit_resident r, int k, topkit_resident_storage *s) {
    const int vectors = topkit__resident_vectors(r), group = topkit_resident_group(vectors, k);
    const int edges = topkit__resident_is_edge(r, 0) + (vectors > 1 && topkit__resident_is_edge(r, vectors - 1));
    const int groups = (vectors - edges) * (4 / group) + edges;
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
    topkit_resident_bracket bracket = {0u, 0u, 0.0f, false};
    unsigned usual;
    topkit__resident_range(g, s, low, high, &bracket.low, &bracket.high, &usual);
    if (groups < k) bracket.low = 0;
    const float from = __uint_as_float(topkit_key_bits(bracket.low)), span = __uint_as_float(topkit_key_bits(usual)) - from;
    if (bracket.low <= TOPKIT_KEY_NEG_INF || usual >= TOPKIT_KEY_POS_INF || !(span > 1e-30f && span < 1e37f)) return bracket;
    const float scale = (TOPKIT_DIGIT_BINS - 1) / span;
    if (group == 4) {
#pragma unroll 2
        for (int v = (int)g.thread; v < vectors; v += (int)g.size)
            topkit__resident_count(s, topkit__resident_most(row[v]), from, scale);
    } else {
#pragma unroll 1
        for (int v = (int)g.thread; v < vectors; v += (int)g.size) {
            const float4 x = row[v];
            if (topkit__resident_is_edge(r, v)) {
                topkit__resident_count(s, topkit__resident_most(x), from, scale);
            } else if (group == 2) {
                topkit__resident_count(s, topkit_greater(x.x, x.y), from, scale);
                topkit__resident_count(s, topkit_greater(x.z, x.w), from, scale);
            } else {
                topkit__resident_count(s, x.x, from, scale);
                topkit__resident_count(s, x.y, from, scale);
                topkit__resident_count(s, x.z, from, scale);
                topkit__resident_count(s, x.w, from, scale);
            }
        }
    }
    topkit_group_sync(g);
    const topkit_digit_found found = topkit__resident_find(g, &s->digit, (unsigned)k);
    bracket.value = topkit__resident_floor(found.bin, from, span, scale);
    bracket.low = topkit_key(__float_as_uint(bracket.value)) + (TOPKIT_NAN == TOPKIT_NAN_LOWEST);
    bracket.lists = true;
    return bracket;
}

/* Shifts in a bit that says whether the score is to be listed: the sign of a difference, with no compare and no select. */
TOPKIT_FN unsigned topkit__resident_shift_in(unsigned mask, float x, float value) {
    if (TOPKIT_NAN == TOPKIT_NAN_HIGHEST) return mask << 1 | (topkit_not_lt(x, value) ? 1u : 0u);
    return mask << 1 | __float_as_uint(topkit_subtract(value, x)) >> 31;
}

/* Lists the positions of the scores that reach the bound, and has r name what there is to look at: these, or the whole row. */
TOPKIT_FN void topkit_resident_list(topkit_group g, topkit_resident_bracket bracket, topkit_resident *r, topkit_resident_storage *s) {
    const float4 *row = (const float4 *)r->scores;
    const int vectors = topkit__resident_vectors(*r), size = (int)g.size, lane = (int)topkit_lane(g);
    for (int first = (int)g.thread - lane; bracket.lists && first < vectors; first += 8 * size) { /* 8 vectors a thread */
        unsigned mask = 0, total, base = 0;
#pragma unroll 4
        for (int u = 0; u < 8; u++) {
            const int v = first + lane + u * size;
            if (v < vectors) {
                const float4 x = row[v];
                mask = topkit__resident_shift_in(mask, x.x, bracket.value);
                mask = topkit__resident_shift_in(mask, x.y, bracket.value);
                mask = topkit__resident_shift_in(mask, x.z, bracket.value);
                mask = topkit__resident_shift_in(mask, x.w, bracket.value);
            } else {
                mask <<= 4;
            }
        }
        const unsigned below = topkit_warp_exclusive_sum(g, (unsigned)__popc(mask), &total);
        if (lane < 2) base = atomicAdd(&s->listed[lane], lane ? 0 : total); /* of one lane it would be aggregated once more */
        base = __shfl_sync(TOPKIT_FULL_MASK, base, 0);
        if (base + total > (unsigned)r->capacity) break; /* the count says so */
        unsigned short *slot = r->list + base + below;
        const int start = (first + lane) * 4, step = (size - 1) * 4;
        while (mask) {
            const int n = __clz((int)mask); /* of the thread's 32 scores */
            mask ^= 0x80000000u >> n;
            *slot++ = (unsigned short)(start + (n >> 2) * step + n);
        }
    }
    topkit_group_sync(g);
    const int listed = (int)s->listed[0];
    if (bracket.lists && listed <= r->capacity) r->count = listed;
    else r->list = nullptr;
}

/* The position of the i-th score to look at. */
TOPKIT_FN int topkit__resident_position(topkit_resident r, int i) { return r.list ? r.list[i] : r.lead + i; }

/* Listed scores are looked at in batches: a thread's loads are all under way before the first is used. */
#define TOPKIT_RESIDENT_BATCH 4
typedef struct topkit__resident_batch {
    float score[TOPKIT_RESIDENT_BATCH];
    int position[TOPKIT_RESIDENT_BATCH];
} topkit__resident_batch;

/* Returns how many scores are left from the thread's first on: its u-th is one where u * size is less. */
TOPKIT_FN int topkit__resident_load(topkit_group g, topkit_resident r, int base, topkit__resident_batch *batch) {
    const int first = base + (int)g.thread, left = r.count - first;
#pragma unroll
    for (int u = 0; u < TOPKIT_RESIDENT_BATCH; u++) batch->position[u] = u * (int)g.size < left ? r.list[first + u * (int)g.size] : 0;
#pragma unroll
    for (int u = 0; u < TOPKIT_RESIDENT_BATCH; u++) batch->score[u] = r.scores[batch->position[u]];
    return left;
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

/* The first radix step's counts of a list: all of it is in the region. */
TOPKIT_FN void topkit__resident_first_step(topkit_group g, topkit_resident r, unsigned low, unsigned shift, topkit_resident_storage *s) {
    topkit__resident_batch batch;
#pragma unroll 1
    for (int base = 0; base < r.count; base += TOPKIT_RESIDENT_BATCH * (int)g.size) {
        const int left = topkit__resident_load(g, r, base, &batch);
#pragma unroll
        for (int u = 0; u < TOPKIT_RESIDENT_BATCH; u++) {
            const unsigned bin = (topkit_key(__float_as_uint(batch.score[u])) - low) >> shift;
            if (u * (int)g.size < left) topkit_digit_count(&s->digit, bin);
        }
    }
}

/* Any step's counts. Where the region is a single key they would queue up at one bin: a warp's are added up first. */
TOPKIT_FN void topkit__resident_step(topkit_group g, topkit_resident r, topkit__region region, unsigned shift, topkit_resident_storage *s) {
#pragma unroll 1
    for (int base = (int)(g.thread - topkit_lane(g)); base < r.count; base += (int)g.size) {
        const int i = base + (int)topkit_lane(g), position = i < r.count ? topkit__resident_position(r, i) : -1;
        const unsigned bits = position >= 0 ? __float_as_uint(r.scores[position]) : 0u;
        const int index = position >= 0 ? position - r.lead : -1;
        const bool member = topkit__resident_side_of(region, bits, index).member;
        if (region.span == 0) {
            const unsigned members = (unsigned)__popc(__ballot_sync(TOPKIT_FULL_MASK, member));
            if (topkit_lane(g) == 0 && members > 0) atomicAdd(&s->digit.histogram[0], members);
        } else if (member) {
            topkit_digit_count(&s->digit, ((region.by_index ? (unsigned)~index : topkit_key(bits)) - region.low) >> shift);
        }
    }
}

/* Narrows the boundary of the k best until all members of its region are selected, or at most TOPKIT_BOUNDARY are left, or they are equals
 * of which any will do. */
template <int TIES>
TOPKIT_FN topkit_resident_region topkit_resident_search(topkit_group g, topkit_resident r, topkit_resident_bracket bracket, int k,
                                                topkit_resident_storage *s) {
    topkit__region region = {bracket.low, bracket.high - bracket.low, (unsigned)k, (unsigned)r.length, 0, false};
    for (bool first = r.list && region.span > 0;; first = false) {
        const unsigned shift = topkit_digit_shift(region.span);
        if (first) topkit__resident_first_step(g, r, region.low, shift, s);
        else topkit__resident_step(g, r, region, shift, s);
        topkit_group_sync(g);
        const topkit_digit_found found = topkit__resident_find(g, &s->digit, region.need);
        region.need -= found.above;
        region.inside = found.inside;
        region.low += found.bin << shift;
        region.span = (1u << shift) - 1;
        if (region.inside == region.need || region.inside <= TOPKIT_BOUNDARY || topkit__region_is_plateau<TIES>(region)) return region;
        if (region.span == 0) { /* equal keys: their indices decide */
            region.by_index = true;
            region.tie = region.low;
            region.low = (unsigned)~(r.length - 1);
            region.span = (unsigned)(r.length - 1);
        }
    }
}

/* The members of the boundary's bin, in the place of the histogram. */
TOPKIT_FN unsigned long long *topkit__resident_members(topkit_resident_storage *s) { return (unsigned long long *)s->digit.histogram; }
TOPKIT_FN unsigned *topkit__resident_member_bits(topkit_resident_storage *s) { return s->digit.histogram + 2 * TOPKIT_BOUNDARY; }

TOPKIT_FN void topkit__resident_member_put(topkit_resident_storage *s, unsigned slot, unsigned bits, int index) {
    TOPKIT_ASSERT(slot < TOPKIT_BOUNDARY);
    topkit__resident_members(s)[slot] = topkit_pair_key(topkit_key(bits), index);
    topkit__resident_member_bits(s)[slot] = bits;
}

/* Emits from a list what reaches `above`, and where `all` members are selected what reaches `low`; else these are listed as members. */
template <typename SINK>
TOPKIT_FN void topkit__resident_emit_listed(topkit_group g, topkit_resident r, float above, float low, bool all, SINK sink,
                                            topkit_resident_storage *s) {
    const unsigned lane = topkit_lane(g);
    topkit__resident_batch batch;
    if (all) above = low;
#pragma unroll 1
    for (int base = 0; base < r.count; base += TOPKIT_RESIDENT_BATCH * (int)g.size) {
        unsigned kind[TOPKIT_RESIDENT_BATCH], mine = 0, total, slot = 0; /* 1 selected, 65536 a member; how many of both */
        const int left = topkit__resident_load(g, r, base, &batch);
#pragma unroll
        for (int u = 0; u < TOPKIT_RESIDENT_BATCH; u++) {
            const float x = batch.score[u];
            kind[u] = (TOPKIT_NAN == TOPKIT_NAN_LOWEST ? topkit_ge(x, low) : topkit_not_lt(x, low)) ? 65536u : 0u;
            kind[u] = (TOPKIT_NAN == TOPKIT_NAN_LOWEST ? topkit_ge(x, above) : topkit_not_lt(x, above)) ? 1u : kind[u];
            kind[u] = u * (int)g.size < left ? kind[u] : 0;
            mine += kind[u];
        }
        /* One scan for both kinds, since counting a vote's bits is slow, and one atomic instruction, of two lanes, for a warp's batch. */
        const unsigned before = topkit_warp_exclusive_sum(g, mine, &total);
        if (lane < 2) slot = atomicAdd(&s->counts[lane], lane == TOPKIT__RESIDENT_EMITTED ? total & 0xffffu : total >> 16);
        unsigned put = __shfl_sync(TOPKIT_FULL_MASK, slot, TOPKIT__RESIDENT_EMITTED) + (before & 0xffffu);
        unsigned member = __shfl_sync(TOPKIT_FULL_MASK, slot, TOPKIT__RESIDENT_MEMBERS) + (before >> 16);
#pragma unroll
        for (int u = 0; u < TOPKIT_RESIDENT_BATCH; u++) {
            if (kind[u] == 1) topkit_sink_put(sink, (int)put++, batch.position[u] - r.lead, __float_as_uint(batch.score[u]));
        }
        if (mine > 0xffffu) { /* rare: one bin of many */
#pragma unroll 1
            for (int u = 0; u < TOPKIT_RESIDENT_BATCH; u++) {
                const int i = base + u * (int)g.size + (int)g.thread, position = i < r.count ? r.list[i] : 0;
                const float x = r.scores[position];
                const bool reaches = TOPKIT_NAN == TOPKIT_NAN_LOWEST ? topkit_ge(x, low) && !topkit_ge(x, above)
                                                                     : topkit_not_lt(x, low) && !topkit_not_lt(x, above);
                if (i < r.count && reaches) topkit__resident_member_put(s, member++, __float_as_uint(x), position - r.lead);
            }
        }
    }
}

/* Hands what lies above the region to the sink, in no particular order, and of its members those that need no comparing. */
template <int TIES, typename SINK>
TOPKIT_FN void topkit_resident_emit(topkit_group g, topkit_resident r, topkit_resident_region region, SINK sink,
                                    topkit_resident_storage *s) {
    const bool all = region.inside == region.need, plateau = topkit__region_is_plateau<TIES>(region);
    const unsigned end = region.low + region.span; /* may lie past the last key */
    if (r.list && !plateau && !region.by_index && end >= region.low && end < TOPKIT_KEY_POS_INF) {
        topkit__resident_emit_listed(g, r, __uint_as_float(topkit_key_bits(end + 1)), __uint_as_float(topkit_key_bits(region.low)), all,
                                     sink, s);
        topkit_group_sync(g);
        return;
    }
#pragma unroll 1
    for (int base = (int)(g.thread - topkit_lane(g)); base < r.count; base += (int)g.size) {
        const int i = base + (int)topkit_lane(g), position = i < r.count ? topkit__resident_position(r, i) : -1;
        const unsigned bits = position >= 0 ? __float_as_uint(r.scores[position]) : 0u;
        const int index = position >= 0 ? position - r.lead : -1;
        const topkit__resident_side side = topkit__resident_side_of(region, bits, index);
        bool selected = side.above || (all && side.member);
        if (plateau) {
            const unsigned ticket = topkit_warp_reserve(g, side.member, &s->taken);
            selected = selected || (side.member && ticket < region.need);
        } else if (!all) {
            const unsigned member = topkit_warp_reserve(g, side.member, &s->counts[TOPKIT__RESIDENT_MEMBERS]);
            if (side.member) topkit__resident_member_put(s, member, bits, index);
        }
        const unsigned slot = topkit_warp_reserve(g, selected, &s->counts[TOPKIT__RESIDENT_EMITTED]);
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
    if (g.thread == 0) s->counts[0] = s->counts[1] = s->listed[0] = s->taken = 0;
}

#endif
