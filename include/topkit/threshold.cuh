/* topkit/threshold.cuh: proposes the score from which on scores are worth collecting.
 *
 * A proposal is a sort key. It may be wrong in either direction: the collector copes with one that is too low, the caller's certificate
 * (at least k collected) finds one that is too high. TOPKIT_NO_THRESHOLD means that nothing could be proposed: collect everything.
 *
 *   scope         group
 *   storage       topkit_digit_storage (shared, histogram zero before and after); the sample is only read
 *   sync          called by all threads of the group after the sample is complete and synced; ends with a barrier, but of an empty
 *                 sample or for rank 0, where there is none. From a sample: 4 barriers, 6 with a second rank; 4 more, three times at
 *                 most, where a few samples lie far above the rest. Roughly, from vectors, from indices, and crowds: 2. From ranks and
 *                 values: none
 *   determinism   yes, for the same sample
 *   cost          roughly, and crowds: 1 read of the sample. From a sample: 2 reads, one shared atomic for each sample
 *
 * How a rank is found without sorting: the maxima of r disjoint classes of samples are r different samples, so the smallest of them is a
 * lower bound (the bracket) of the r-th largest. One histogram step over [bracket, maximum] then gives a bin floor close below it. A
 * histogram over all samples would be far too coarse, since keys are logarithmic in the score.
 * Where one bin still holds many samples the step is taken once more, within it: one score of 1e30 in a sample must not make the others
 * look all alike.
 *
 * What rank to ask for: with one sample in d, `rank` samples lie at or above the threshold when about rank * d scores of the row do, with
 * a relative spread of 1 / sqrt(rank). For k = 2048 and d = 128, rank 32 admits 4096 scores and misses k once in some thousand rows.
 *
 * Worked numbers: samples 5, 1, 9, 3, 7, 2, 8, 6 by two threads as classes {5, 9, 7, 8} and {1, 3, 2, 6}: the bracket for rank 2 is 6,
 * the proposal for rank 2 lies in (6, 8] and admits 8 and 9, and perhaps 7 where the histogram's bin is wide.
 */
#ifndef TOPKIT_THRESHOLD_CUH
#define TOPKIT_THRESHOLD_CUH

#include "topkit/digit.cuh"
#include "topkit/key.cuh"

#define TOPKIT_NO_THRESHOLD 0u

typedef struct topkit_proposal {
    unsigned key;     /* sort key to collect from, at or below the rank-th largest sample; TOPKIT_NO_THRESHOLD for none */
    unsigned second;  /* the same for second_rank, at most `key`; TOPKIT_NO_THRESHOLD where it was not asked for */
    int expected;     /* samples at or above `key`, where they were counted */
    unsigned maximum; /* the largest sample's; TOPKIT_NO_THRESHOLD where there is no sample */
} topkit_proposal;

/* The class maxima's minimum where at least `rank` classes hold a sample, else the smallest sample. */
TOPKIT_FN void topkit__bracket(topkit_group g, topkit_digit_storage *s, int count, int rank, unsigned maximum, unsigned minimum,
                               unsigned *low, unsigned *high) {
    /* A class is 1, 2, .. 32 neighbouring threads: the widest that still leaves `rank` classes gives the highest bracket. */
    const int holders = count < (int)g.size ? count : (int)g.size;
    int shift = 5; /* width 2^shift; divisions by a variable would take longer than everything else here */
    while (shift > 0 && holders >> shift < rank) shift--;
    unsigned class_maximum = maximum;
    for (int offset = 1; offset < 1 << shift; offset *= 2) {
        const unsigned other = __shfl_xor_sync(TOPKIT_FULL_MASK, class_maximum, offset);
        class_maximum = class_maximum > other ? class_maximum : other;
    }
    const bool whole = (((int)g.thread >> shift) + 1) << shift <= holders; /* a class that lacks samples would spoil the minimum */
    *low = holders >> shift >= rank ? (whole ? class_maximum : 0xffffffffu) : minimum;
    *high = maximum;
    topkit_digit_range(g, s, low, high);
}

TOPKIT_FN void topkit__sample_range(topkit_group g, const float *sample, int count, unsigned *maximum, unsigned *minimum) {
    *maximum = 0;
    *minimum = 0xffffffffu;
#pragma unroll 4
    for (int i = (int)g.thread; i < count; i += (int)g.size) {
        const unsigned key = topkit_key(__float_as_uint(sample[i]));
        *maximum = *maximum > key ? *maximum : key;
        *minimum = *minimum < key ? *minimum : key;
    }
}

/* Roughly, in half of the time: the bracket alone, a sample which `rank` samples reach, and of ordinary scores about ln(1.4 * rank) times
 * as many. For a start that admits too much rather than too little. */
TOPKIT_FN topkit_proposal topkit_propose_roughly(topkit_group g, const float *sample, int count, int rank, topkit_digit_storage *s) {
    topkit_proposal p = {TOPKIT_NO_THRESHOLD, TOPKIT_NO_THRESHOLD, 0, TOPKIT_NO_THRESHOLD};
    unsigned maximum, minimum;
    if (count <= 0 || rank <= 0) return p;
    topkit__sample_range(g, sample, count, &maximum, &minimum);
    topkit__bracket(g, s, count, rank < count ? rank : count, maximum, minimum, &p.key, &p.maximum);
    topkit_group_sync(g);
    return p;
}

/* The same of a sample of which each thread has a vector (topkit_sample_vector): the first `holders` of them. */
TOPKIT_FN topkit_proposal topkit_propose_from_vectors(topkit_group g, float4 mine, int holders, int rank, topkit_digit_storage *s) {
    topkit_proposal p = {TOPKIT_NO_THRESHOLD, TOPKIT_NO_THRESHOLD, 0, TOPKIT_NO_THRESHOLD};
    unsigned maximum = 0, minimum = 0xffffffffu;
    if (holders <= 0 || rank <= 0) return p;
    if ((int)g.thread < holders) {
        maximum = topkit_key(__float_as_uint(topkit_greater(topkit_greater(mine.x, mine.y), topkit_greater(mine.z, mine.w))));
        minimum = topkit_key(__float_as_uint(topkit_lesser(topkit_lesser(mine.x, mine.y), topkit_lesser(mine.z, mine.w))));
    }
    topkit__bracket(g, s, holders, rank, maximum, minimum, &p.key, &p.maximum);
    topkit_group_sync(g);
    return p;
}

/* The last key of a bin, or of the range. Beyond the range a sum might wrap round where NaNs are the highest keys, and the loop that looks
 * at the bin then found nothing in it, for ever. */
TOPKIT_FN unsigned topkit__last(unsigned key, unsigned shift, unsigned high) {
    const unsigned span = (1u << shift) - 1;
    return high - key < span ? high : key + span;
}

/* A proposal's bin holds the keys p->key .. last, and `above` samples are better. Where it holds many, for a few samples far above them, or
 * too few classes, made the range so wide, digits of their own range tell them apart. */
TOPKIT_FN void topkit__narrow(topkit_group g, const float *sample, int count, int rank, unsigned last, unsigned above,
                              topkit_digit_storage *s, topkit_proposal *p) {
    while (p->expected - (int)above > 8 + rank / 4) {
        unsigned low = 0xffffffffu, high = 0;
        for (int i = (int)g.thread; i < count; i += (int)g.size) {
            const unsigned key = topkit_key(__float_as_uint(sample[i]));
            if (key < p->key || key > last) continue;
            low = low < key ? low : key;
            high = high > key ? high : key;
        }
        topkit_digit_range(g, s, &low, &high);
        p->key = low;
        const unsigned shift = topkit_digit_shift(high - low);
        for (int i = (int)g.thread; low < high && i < count; i += (int)g.size) {
            const unsigned key = topkit_key(__float_as_uint(sample[i]));
            topkit_digit_count_if(g, s, key - low <= high - low, (key - low) >> shift);
        }
        topkit_group_sync(g);
        if (low == high) return; /* they are equal */
        const topkit_digit_found found = topkit_digit_find(g, s, (unsigned)rank - above, true);
        p->key = low + (found.bin << shift);
        last = topkit__last(p->key, shift, high);
        above += found.above;
        p->expected = (int)(above + found.inside);
    }
}

/* From sample[0 .. count): the rank-th largest, and the second_rank-th largest (0: not wanted; else >= rank). Ranks above the count are
 * cut to it. An empty sample or rank 0 gives TOPKIT_NO_THRESHOLD. */
TOPKIT_FN topkit_proposal topkit_propose_from_sample(topkit_group g, const float *sample, int count, int rank, int second_rank,
                                                     topkit_digit_storage *s) {
    topkit_proposal p = {TOPKIT_NO_THRESHOLD, TOPKIT_NO_THRESHOLD, 0, TOPKIT_NO_THRESHOLD};
    if (count <= 0 || rank <= 0) return p;
    if (rank > count) rank = count;
    if (second_rank > count) second_rank = count;
    unsigned maximum, minimum, low, high;
    topkit__sample_range(g, sample, count, &maximum, &minimum);
    topkit__bracket(g, s, count, second_rank > rank ? second_rank : rank, maximum, minimum, &low, &high);
    p.maximum = high;
    const unsigned shift = topkit_digit_shift(high - low);
    for (int base = (int)g.thread; base < count; base += 4 * (int)g.size) {
        float x[4];
#pragma unroll
        for (int u = 0; u < 4; u++) { /* all loads before the first atomic, which the compiler may not reorder by itself */
            const int i = base + u * (int)g.size;
            x[u] = i < count ? sample[i] : 0.0f;
        }
#pragma unroll
        for (int u = 0; u < 4; u++) {
            const unsigned key = topkit_key(__float_as_uint(x[u]));
            topkit_digit_count_if(g, s, base + u * (int)g.size < count && key >= low, (key - low) >> shift);
        }
    }
    topkit_group_sync(g);
    const topkit_digit_found found = topkit_digit_find(g, s, (unsigned)rank, second_rank <= 0);
    p.key = low + (found.bin << shift);
    p.expected = (int)(found.above + found.inside);
    if (second_rank > 0) p.second = low + (topkit_digit_find(g, s, (unsigned)second_rank, true).bin << shift);
    topkit__narrow(g, sample, count, rank, topkit__last(p.key, shift, high), found.above, s, &p);
    return p;
}

/* Whether the samples that reach `key` crowd together: vectors of `width` neighbours (a power of two, at most 32) that hold any are fewer
 * than three quarters of what scores without neighbours alike would give. Such a sample is worth only as many as its vectors, and
 * narrower ones, or a higher rank, are the wiser choice. Fewer than 65536 samples. Called by the whole group; ends with a barrier. */
TOPKIT_FN bool topkit_sample_crowds(topkit_group g, const float *sample, int count, int width, unsigned key, topkit_digit_storage *s) {
    const unsigned lane = topkit_lane(g), neighbours = 0xffffffffu >> (32 - width);
    unsigned both = 0; /* samples that reach the key, and 65536 for each vector that holds any */
    TOPKIT_ASSERT(width >= 1 && width <= 32 && (width & (width - 1)) == 0 && count < 65536);
    for (int base = 0; base < count; base += (int)g.size) {
        const int i = base + (int)g.thread;
        const bool hit = i < count && topkit_key(__float_as_uint(sample[i])) >= key;
        const unsigned hits = __ballot_sync(TOPKIT_FULL_MASK, hit);
        if (hit) both += 1;
        if ((lane & (unsigned)(width - 1)) == 0 && (hits >> lane & neighbours)) both += 65536;
    }
    both = __reduce_add_sync(TOPKIT_FULL_MASK, both);
    if (lane == 0) s->warp_sums[topkit_warp_rank(g)] = both;
    topkit_group_sync(g);
    both = __reduce_add_sync(TOPKIT_FULL_MASK, lane < topkit_warps(g) ? s->warp_sums[lane] : 0u);
    topkit_group_sync(g);
    float empty = 1.0f - (float)(both & 0xffffu) / (float)count; /* the chance that a sample is below, and that a whole vector is */
    for (int w = 1; w < width; w *= 2) empty *= empty;
    return (float)(both >> 16) < 0.75f * (1.0f - empty) * (float)(count / width);
}

/* From k distinct in-row indices that were good before (an earlier row, step or chunk): the smallest of their present scores. k scores
 * reach it, so it can not underfill. Indices outside 0 .. length-1 make the hint worthless: TOPKIT_NO_THRESHOLD. Duplicates are the
 * caller's to exclude; with some, the certificate still holds the answer. */
TOPKIT_FN topkit_proposal topkit_propose_from_indices(topkit_group g, const float *scores, int length, const int *indices, int k,
                                                      topkit_digit_storage *s) {
    topkit_proposal p = {TOPKIT_NO_THRESHOLD, TOPKIT_NO_THRESHOLD, k, TOPKIT_NO_THRESHOLD};
    unsigned low = 0xffffffffu, high = 0;
    for (int i = (int)g.thread; i < k; i += (int)g.size) {
        const int index = indices[i];
        const unsigned key = index >= 0 && index < length ? topkit_key(__float_as_uint(scores[index])) : TOPKIT_NO_THRESHOLD;
        low = low < key ? low : key;
    }
    topkit_digit_range(g, s, &low, &high);
    topkit_group_sync(g);
    if (k > 0) p.key = low;
    return p;
}

/* A threshold that is known from elsewhere, or fixed. A NaN proposes nothing. */
TOPKIT_FN topkit_proposal topkit_propose_value(float value, int expected) {
    topkit_proposal p = {topkit_key(__float_as_uint(value)), TOPKIT_NO_THRESHOLD, expected, TOPKIT_NO_THRESHOLD};
    if (p.key == TOPKIT_KEY_NAN) p.key = TOPKIT_NO_THRESHOLD;
    return p;
}

/* From segments that know their own order exactly: segment j publishes the keys at its local ranks 1, 2, 4, .. in keys[j*levels + e]
 * (rank 2^e; TOPKIT_NO_THRESHOLD where the segment is shorter). A key t is reached by at least sum_j 2^e(j) scores, e(j) the last level of
 * segment j whose key is >= t. The largest published key with a guaranteed count >= k: it can not underfill, and overfills by at most
 * about 2 when keys are distinct. Called by one warp; each lane tries candidates, all lanes get the answer. keys: shared or global. */
TOPKIT_FN topkit_proposal topkit_propose_from_ranks(topkit_group warp, const unsigned *keys, int segments, int levels, int k) {
    topkit_proposal p = {TOPKIT_NO_THRESHOLD, TOPKIT_NO_THRESHOLD, 0, TOPKIT_NO_THRESHOLD};
    unsigned best = TOPKIT_NO_THRESHOLD;
    TOPKIT_ASSERT(levels < 32);
    for (int c = (int)topkit_lane(warp); c < segments * levels; c += TOPKIT_WARP) {
        const unsigned t = keys[c];
        if (t <= best) continue;
        int guaranteed = 0;
        for (int j = 0; j < segments; j++) {
            int level = 0;
            while (level < levels && keys[j * levels + level] >= t) level++;
            guaranteed += level ? 1 << (level - 1) : 0;
        }
        if (guaranteed >= k) best = t;
    }
    p.key = __reduce_max_sync(TOPKIT_FULL_MASK, best);
    p.expected = k;
    return p;
}

#endif
