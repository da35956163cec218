/* topkit/digit.cuh: the step that threshold proposer and refiner share: a histogram of a digit, and the bin that holds a rank.
 *
 * A digit is the top TOPKIT_DIGIT_BITS bits of (value - low) for values in [low, low + span]: it adapts to the range that is really
 * present, so that one step nearly always suffices where fixed digits of floats would put everything in a few bins.
 *
 *   scope         group
 *   storage       topkit_digit_storage, 4.6 KB shared; the histogram is all zero before and after each step: init once, then sync
 *   sync          range: 1 barrier, behind which it reads the storage: another barrier must come before the next range or find. find: sync
 *                 the group between the last count and the call; 2 barriers inside, ends with one
 *   determinism   yes
 *   cost          one shared atomic a value; all bins read once or twice, four at a time
 *
 * Worked numbers: low 100, span 4095 gives shift 2; values 100, 103, 104 fall into bins 0, 0, 1. With counts {2, 1} rank 1 is in bin 1
 * (0 above, 1 inside), ranks 2 and 3 are in bin 0 (1 above, 2 inside).
 */
#ifndef TOPKIT_DIGIT_CUH
#define TOPKIT_DIGIT_CUH

#include "topkit/group.cuh"

#define TOPKIT_DIGIT_BITS 10
#define TOPKIT_DIGIT_BINS (1 << TOPKIT_DIGIT_BITS)

typedef struct topkit_digit_found {
    unsigned bin;
    unsigned above;  /* values in higher bins, < rank */
    unsigned inside; /* values in the bin, above + inside >= rank */
} topkit_digit_found;

typedef struct topkit_digit_storage {
    alignas(16) unsigned aside[TOPKIT_WARP]; /* bins that nobody reads, spread over the lanes */
    unsigned histogram[TOPKIT_DIGIT_BINS];
    unsigned warp_sums[32], warp_low[32], warp_high[32]; /* (warps) */
    topkit_digit_found found;
} topkit_digit_storage;

/* Four neighbouring bins, which a thread reads and clears at once. */
typedef struct alignas(16) topkit__four_bins {
    unsigned n[4];
} topkit__four_bins;

TOPKIT_FN void topkit_digit_init(topkit_group g, topkit_digit_storage *s) {
    const topkit__four_bins none = {{0, 0, 0, 0}};
    for (unsigned b = g.thread; b < TOPKIT_DIGIT_BINS / 4; b += g.size) ((topkit__four_bins *)s->histogram)[b] = none;
}

/* Smallest *low and largest *high of all threads, to all threads. */
TOPKIT_FN void topkit_digit_range(topkit_group g, topkit_digit_storage *s, unsigned *low, unsigned *high) {
    const unsigned lane = topkit_lane(g), warps = topkit_warps(g);
    const unsigned l = __reduce_min_sync(TOPKIT_FULL_MASK, *low), h = __reduce_max_sync(TOPKIT_FULL_MASK, *high);
    if (lane == 0) {
        s->warp_low[topkit_warp_rank(g)] = l;
        s->warp_high[topkit_warp_rank(g)] = h;
    }
    topkit_group_sync(g);
    *low = __reduce_min_sync(TOPKIT_FULL_MASK, lane < warps ? s->warp_low[lane] : 0xffffffffu);
    *high = __reduce_max_sync(TOPKIT_FULL_MASK, lane < warps ? s->warp_high[lane] : 0u);
}

/* Bits to drop so that a value of 0 .. span becomes a bin. */
TOPKIT_FN unsigned topkit_digit_shift(unsigned span) {
    const unsigned bits = 32u - (unsigned)__clz((int)span);
    return bits > TOPKIT_DIGIT_BITS ? bits - TOPKIT_DIGIT_BITS : 0;
}

TOPKIT_FN void topkit_digit_count(topkit_digit_storage *s, unsigned bin) {
    TOPKIT_ASSERT(bin < TOPKIT_DIGIT_BINS);
    atomicAdd(&s->histogram[bin], 1u);
}

/* Counts in `bin` of storage in shared memory where it is wanted, and else aside: of a condition around an atomic the compiler makes a
 * branch, and of four in a row four, with their joins, which takes longer than to count what nobody asks for. */
TOPKIT_FN void topkit_digit_count_if(topkit_group g, topkit_digit_storage *s, bool wanted, unsigned bin) {
    TOPKIT_ASSERT(!wanted || bin < TOPKIT_DIGIT_BINS);
    topkit_count_at(s->aside, wanted ? bin + TOPKIT_WARP : topkit_lane(g));
}

/* The bin of the rank-th largest value (rank 1 is the largest; from 1 to the number of values). `clear` zeroes the histogram behind it;
 * without, another rank can be looked up in the same counts. */
TOPKIT_FN topkit_digit_found topkit_digit_find(topkit_group g, topkit_digit_storage *s, unsigned rank, bool clear) {
    const unsigned lane = topkit_lane(g), warp = topkit_warp_rank(g), fours = TOPKIT_DIGIT_BINS / 4;
    const unsigned each = (fours + g.size - 1) / g.size; /* consecutive fours of a thread, from the top; of many threads some have none */
    const unsigned begin = g.thread * each, end = begin + each < fours ? begin + each : fours;
    topkit__four_bins *bins = (topkit__four_bins *)s->histogram;
    const topkit__four_bins none = {{0, 0, 0, 0}};
    unsigned sum = 0, total;
    for (unsigned i = begin; i < end; i++) {
        const topkit__four_bins four = bins[fours - 1 - i];
        sum += four.n[0] + four.n[1] + four.n[2] + four.n[3];
    }
    unsigned above = topkit_warp_exclusive_sum(g, sum, &total);
    if (lane == 0) s->warp_sums[warp] = total;
    topkit_group_sync(g);
    above += __reduce_add_sync(TOPKIT_FULL_MASK, lane < warp ? s->warp_sums[lane] : 0u);
    if (above < rank && above + sum >= rank) { /* one thread of the group */
        unsigned bin = TOPKIT_DIGIT_BINS - 1 - begin * 4;
        while (above + s->histogram[bin] < rank) above += s->histogram[bin--];
        s->found.bin = bin;
        s->found.above = above;
        s->found.inside = s->histogram[bin];
    }
    TOPKIT_ASSERT(rank >= 1 && (g.thread != g.size - 1 || above + sum >= rank)); /* the last thread has seen all values */
    for (unsigned i = begin; clear && i < end; i++) bins[fours - 1 - i] = none;
    topkit_group_sync(g);
    return s->found;
}

#endif
