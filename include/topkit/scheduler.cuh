/* topkit/scheduler.cuh: which row, or which piece of which row, a worker takes next.
 *
 * Persistent workers (a block, or the warps of one) take their first item statically, worker w item w, and every further one from a
 * queue; an item is claimed before the current one is finished, so that its length and sample can be fetched ahead. The queue resets
 * itself when the last worker leaves: no memset between launches. The order puts long rows first, so that the launch ends on short ones.
 *
 *   scope         claim, leave: one thread of a worker. order: group
 *   storage       topkit_queue in global memory (16 bytes, zeroed once); 4 bytes a row for the order, 4 more a row and 4 for segments;
 *                 topkit_digit_storage (shared, histogram zero before and after)
 *   sync          claims are atomics. order: 5 barriers; segments: 2 for each `size` rows and 1; both end with one
 *   determinism   each item is issued exactly once; which worker gets it is open
 *   cost          one global atomic an item; the order reads the lengths twice
 *
 * The order is built by whichever worker asks first (topkit_order_begin); the others wait for it only when they need their second item,
 * and only ever for a worker that is running: it can not hang, whatever else the GPU does. An order of the rows behind the static first
 * wave (skip = workers) has the row of claim c at order[c - workers].
 *
 * Worked numbers: lengths 5, 0, 70, 9 in segments of 32: order 2, 3, 0, 1 and first items 0, 3, 4, 5, 5: items 0..2 are row 2 from 0, 32
 * and 64, item 3 is row 3, item 4 is row 0, and the empty row 1 has none.
 */
#ifndef TOPKIT_SCHEDULER_CUH
#define TOPKIT_SCHEDULER_CUH

#include "topkit/digit.cuh"

typedef struct topkit_queue {
    unsigned next;    /* claims so far */
    unsigned left;    /* workers that are done */
    unsigned builder; /* 1: somebody is building, or has built, the order */
    unsigned ready;   /* 1: the order may be read */
} topkit_queue;

/* The next item behind the static first wave of `workers` items; compare it with the number of items. */
TOPKIT_FN int topkit_queue_claim(topkit_queue *q, int workers) { return workers + (int)atomicAdd(&q->next, 1u); }

/* A worker's last call, once all its threads are done with the queue and the order. The last of all puts the queue back to zero. */
TOPKIT_FN void topkit_queue_leave(topkit_queue *q, int workers) {
    if (topkit_add_acq_rel(&q->left, 1u) == (unsigned)workers - 1) {
        q->next = q->left = q->builder = q->ready = 0;
    }
}

/* True for the one worker that shall build the order. One thread. */
TOPKIT_FN bool topkit_order_begin(topkit_queue *q) { return atomicExch(&q->builder, 1u) == 0; }
/* Publishes it: one thread, after the group has synced. */
TOPKIT_FN void topkit_order_publish(topkit_queue *q) {
    __threadfence(); /* the whole group's stores, which the barrier before this call ordered before it */
    topkit_store_release(&q->ready, 1u);
}
/* Waits for it: one thread; sync the group behind it. */
TOPKIT_FN void topkit_order_wait(const topkit_queue *q) {
    while (topkit_load_acquire(&q->ready) == 0) __nanosleep(100);
}

/* Bins of lengths, 32 to each power of two: within a bin lengths differ by 3 % at most, which no schedule notices. */
TOPKIT_FN unsigned topkit__length_bin(int length) {
    const unsigned bits = 32u - (unsigned)__clz(length), shift = bits > 6 ? bits - 6 : 0;
    return length <= 0 ? 0 : shift * 32 + ((unsigned)length >> shift);
}

/* order[0 .. rows-skip) = the rows skip .. rows-1 by descending length (to within 3 %), empty rows last. lengths: (rows), not null. Returns
 * how many are not empty. */
TOPKIT_FN int topkit_order_build(topkit_group g, const int *lengths, int max_length, int skip, int rows, int *order,
                                 topkit_digit_storage *s) {
    const unsigned each = (TOPKIT_DIGIT_BINS + g.size - 1) / g.size;
    const unsigned begin = g.thread * each, end = begin + each < TOPKIT_DIGIT_BINS ? begin + each : TOPKIT_DIGIT_BINS;
    TOPKIT_ASSERT(skip >= 0 && skip <= rows);
    for (int r = skip + (int)g.thread; r < rows; r += (int)g.size) {
        const int length = lengths[r] < max_length ? lengths[r] : max_length;
        atomicAdd(&s->histogram[topkit__length_bin(length)], 1u);
    }
    topkit_group_sync(g);
    const int empty = (int)s->histogram[0];
    unsigned sum = 0, total;
    for (unsigned i = begin; i < end; i++) sum += s->histogram[TOPKIT_DIGIT_BINS - 1 - i];
    unsigned place = topkit_warp_exclusive_sum(g, sum, &total);
    if (topkit_lane(g) == 0) s->warp_sums[topkit_warp_rank(g)] = total;
    topkit_group_sync(g);
    place += __reduce_add_sync(TOPKIT_FULL_MASK, topkit_lane(g) < topkit_warp_rank(g) ? s->warp_sums[topkit_lane(g)] : 0u);
    for (unsigned i = begin; i < end; i++) { /* counts become places: a bin's first slot in the order */
        const unsigned count = s->histogram[TOPKIT_DIGIT_BINS - 1 - i];
        s->histogram[TOPKIT_DIGIT_BINS - 1 - i] = place;
        place += count;
    }
    topkit_group_sync(g);
    for (int r = skip + (int)g.thread; r < rows; r += (int)g.size) {
        const int length = lengths[r] < max_length ? lengths[r] : max_length;
        order[atomicAdd(&s->histogram[topkit__length_bin(length)], 1u)] = r;
    }
    topkit_group_sync(g);
    topkit_digit_init(g, s);
    topkit_group_sync(g);
    return rows - skip - empty;
}

/* Splitting: row order[i] has ceil(length / segment) items, the first of them item first[i]; first[count] is their total, which is
 * returned and must fit an int. Built by one group from an order of `count` rows; carries in *s->warp_sums. Ends with a barrier. */
TOPKIT_FN int topkit_segments_build(topkit_group g, const int *lengths, int max_length, const int *order, int count, int segment,
                                    int *first, topkit_digit_storage *s) {
    unsigned before = 0, total;
    for (int base = 0; base < count; base += (int)g.size) {
        const int i = base + (int)g.thread;
        const int length = i < count ? (lengths[order[i]] < max_length ? lengths[order[i]] : max_length) : 0;
        const unsigned pieces = length > 0 ? (unsigned)((length - 1) / segment + 1) : 0u;
        const unsigned below = topkit_warp_exclusive_sum(g, pieces, &total);
        if (topkit_lane(g) == 0) s->warp_sums[topkit_warp_rank(g)] = total;
        topkit_group_sync(g);
        const unsigned sums = topkit_lane(g) < topkit_warps(g) ? s->warp_sums[topkit_lane(g)] : 0u;
        const unsigned here = before + below + __reduce_add_sync(TOPKIT_FULL_MASK, topkit_lane(g) < topkit_warp_rank(g) ? sums : 0u);
        if (i < count) first[i] = (int)here;
        before += __reduce_add_sync(TOPKIT_FULL_MASK, sums);
        topkit_group_sync(g);
    }
    if (g.thread == 0) first[count] = (int)before;
    topkit_group_sync(g);
    return (int)before;
}

typedef struct topkit_segment {
    int row;
    int begin; /* first score of the piece, a multiple of `segment`; the piece ends at min(begin + segment, length) */
} topkit_segment;

/* Item 0 .. first[count]-1 to its row and piece: binary search, one thread. */
TOPKIT_FN topkit_segment topkit_segment_of(const int *order, const int *first, int count, int segment, int item) {
    int low = 0, high = count; /* first[low] <= item < first[high] */
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (first[middle] <= item) low = middle;
        else high = middle;
    }
    topkit_segment s = {order[low], (item - first[low]) * segment};
    return s;
}

#endif
