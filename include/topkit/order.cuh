/* topkit/order.cuh: hands selected candidates to a sink in order: slot 0 gets the first.
 *
 * Values are keys or indices. They are counted in linear bins between the least and the greatest of them. From a bin's start, its size and
 * where in it a value lies follows about which slot the value will get: that slot's bin, the second count, holds two or three candidates,
 * which are compared. Bins of the first count adapt to how dense the values are, so that tails, outliers and clusters cost no more than
 * others do. A bin that holds one key alone (16-bit scores, small integers) is spread by index. Where even so many candidates meet at one
 * slot they are sorted by a network, which costs the same whatever the values are.
 *
 *   scope         group
 *   storage       a topkit_digit_storage, whose histogram is zero afterwards; behind the candidates 3 bytes for each: items must have room
 *                 for topkit_sort_room(count)
 *   sync          called by all threads of the group after a sync; 10 barriers by index and 13 by score, the last at its end; the network
 *                 has about log2(count)^2 / 2 more
 *   determinism   yes: pairs are distinct, so the order is unique (score descending with equal scores by index; or index ascending)
 *   cost          6 reads of the candidates and 3 shared atomics for each, by index 5 and 3. The items may be left in another order
 *
 * Worked numbers: (2.0, 9) (5.0, 2) (2.0, 1) come out as (5.0, 2) (2.0, 1) (2.0, 9) by score and as (2.0, 1) (5.0, 2) (2.0, 9) by index.
 */
#ifndef TOPKIT_ORDER_CUH
#define TOPKIT_ORDER_CUH

#include "topkit/candidate.cuh"
#include "topkit/digit.cuh"
#include "topkit/sink.cuh"

enum { TOPKIT_BY_INDEX = 1, TOPKIT_BY_SCORE = 2 };

#define TOPKIT_SORT_LIMIT 32767 /* candidates: counters and sums have 15 bits */
#define TOPKIT_SORT_CROWD 256   /* more candidates than that at one slot are not compared with each other */
#define TOPKIT__SORT_BINS (TOPKIT_DIGIT_BINS / 2)

/* Counters lie two in a word, one for two slots; behind them the list of candidates by slots, 2 bytes each. */
TOPKIT_FN unsigned topkit__sort_words(int count) { return ((unsigned)count + 3) / 4; }

/* Candidates that `items` must have room for. */
TOPKIT_FN int topkit_sort_room(int count) { return count + ((int)topkit__sort_words(count) * 4 + count * 2 + 7) / 8; }

/* Smaller values come first. `bins`: in the lower half a bin's candidates, then its start and its end; the top bit where they have different
 * values. `first`: the value of a bin's first candidate. */
typedef struct topkit__sorter {
    topkit_candidate *items;
    int count;
    bool by_score;
    unsigned low, shift, used;       /* of the values, what makes them bins, and how many these are */
    unsigned index_low, index_shift; /* of the indices, and what makes them 32-bit fractions of the span */
    unsigned *bins, *first;          /* (TOPKIT__SORT_BINS) each */
    unsigned *slots;                 /* (topkit__sort_words) candidates at a slot, then where they begin in the list, then where they end */
    unsigned short *list;            /* (count) */
} topkit__sorter;

TOPKIT_FN unsigned topkit__sort_value(bool by_score, topkit_candidate c) {
    return by_score ? ~topkit_key(c.bits) : (unsigned)c.index;
}

TOPKIT_FN bool topkit__sort_precedes(bool by_score, topkit_candidate a, topkit_candidate b) {
    const unsigned x = topkit__sort_value(by_score, a), y = topkit__sort_value(by_score, b);
    return x < y || (x == y && a.index < b.index);
}

/* Where the candidate lies, as a number of two slots; larger for one that comes later, or the same. */
TOPKIT_FN unsigned topkit__sort_slot(const topkit__sorter &m, topkit_candidate c) {
    const unsigned past = topkit__sort_value(m.by_score, c) - m.low, bin = m.bins[past >> m.shift], start = bin & 0xffffu;
    const bool alike = m.by_score && bin >> 31 == 0;
    const unsigned part = alike ? ((unsigned)c.index - m.index_low) << m.index_shift : past << 1 << (31 - m.shift);
    return (start + __umulhi(part, (bin >> 16 & 0x7fffu) - start)) >> 1;
}

/* Adds to one of the counters that lie two in a word, and returns what it was. */
TOPKIT_FN unsigned topkit__sort_add(unsigned *counters, unsigned i) {
    const unsigned shift = (i & 1) * 16;
    return atomicAdd(&counters[i >> 1], 1u << shift) >> shift & 0xffffu;
}
TOPKIT_FN unsigned topkit__sort_get(const unsigned *counters, unsigned i) { return counters[i >> 1] >> (i & 1) * 16 & 0xffffu; }

/* Each counter, two in a word, becomes the sum of those before it; a word's top bit stays. Returns the largest counter. Sync before it;
 * 2 barriers inside, ends with one. */
TOPKIT_FN unsigned topkit__sort_scan(topkit_group g, unsigned *counters, unsigned words, topkit_digit_storage *s) {
    const unsigned lane = topkit_lane(g), warp = topkit_warp_rank(g), each = (words + g.size - 1) / g.size;
    const unsigned begin = g.thread * each, end = begin + each < words ? begin + each : words;
    unsigned sum = 0, most = 0, total;
    for (unsigned i = begin; i < end; i++) {
        const unsigned two = counters[i], a = two & 0xffffu, b = two >> 16 & 0x7fffu;
        sum += a + b;
        most = most > a ? most : a;
        most = most > b ? most : b;
    }
    unsigned before = topkit_warp_exclusive_sum(g, sum, &total);
    most = __reduce_max_sync(TOPKIT_FULL_MASK, most);
    if (lane == 0) {
        s->warp_sums[warp] = total;
        s->warp_high[warp] = most;
    }
    topkit_group_sync(g);
    before += __reduce_add_sync(TOPKIT_FULL_MASK, lane < warp ? s->warp_sums[lane] : 0u);
    most = __reduce_max_sync(TOPKIT_FULL_MASK, lane < topkit_warps(g) ? s->warp_high[lane] : 0u);
    for (unsigned i = begin; i < end; i++) {
        const unsigned two = counters[i], middle = before + (two & 0xffffu);
        counters[i] = before | middle << 16 | (two & 0x80000000u);
        before = middle + (two >> 16 & 0x7fffu);
    }
    topkit_group_sync(g);
    return most;
}

/* The ranges of keys and indices, and all counters zero. Equal scores alone are sorted by index. Ends with a barrier. */
TOPKIT_FN topkit__sorter topkit__sort_begin(topkit_group g, topkit_candidate *items, int count, int by, topkit_digit_storage *s) {
    unsigned low = 0xffffffffu, high = 0, index_low = 0xffffffffu, index_high = 0;
    topkit__sorter m;
    topkit__batch batch;
    m.items = items;
    m.count = count;
    m.by_score = by == TOPKIT_BY_SCORE;
    m.bins = s->histogram;
    m.first = s->histogram + TOPKIT__SORT_BINS;
    m.slots = (unsigned *)(items + count);
    m.list = (unsigned short *)(m.slots + topkit__sort_words(count));
#pragma unroll 1
    for (unsigned i = g.thread; i < TOPKIT__SORT_BINS; i += g.size) m.bins[i] = 0;
    for (unsigned i = g.thread; i < topkit__sort_words(count); i += g.size) m.slots[i] = 0;
    for (int base = 0; base < count; base += TOPKIT_BATCH * (int)g.size) {
        const int left = topkit__batch_load(g, items, count, base, &batch);
#pragma unroll
        for (int u = 0; u < TOPKIT_BATCH; u++) {
            const unsigned value = topkit__sort_value(m.by_score, batch.c[u]), index = (unsigned)batch.c[u].index;
            if (left <= u * (int)g.size) continue;
            low = low < value ? low : value;
            high = high > value ? high : value;
            index_low = index_low < index ? index_low : index;
            index_high = index_high > index ? index_high : index;
        }
    }
    if (m.by_score) {
        topkit_digit_range(g, s, &low, &high);
        topkit_group_sync(g); /* all have read the range of the keys before that of the indices takes its place */
        m.by_score = low < high;
    }
    topkit_digit_range(g, s, &index_low, &index_high);
    m.low = m.by_score ? low : index_low;
    const unsigned span = m.by_score ? high - low : index_high - index_low, bits = 32u - (unsigned)__clz((int)span);
    m.shift = bits >= TOPKIT_DIGIT_BITS ? bits - TOPKIT_DIGIT_BITS + 1 : 0;
    m.used = (span >> m.shift) + 1;
    m.index_low = index_low;
    m.index_shift = (unsigned)__clz((int)((index_high - index_low) | 1u));
    return m;
}

/* The first count. Ends with a barrier. */
TOPKIT_FN void topkit__sort_bins(topkit_group g, const topkit__sorter &m, topkit_digit_storage *s) {
    topkit__batch batch;
    for (int base = 0; base < m.count; base += TOPKIT_BATCH * (int)g.size) {
        const int left = topkit__batch_load(g, m.items, m.count, base, &batch);
#pragma unroll
        for (int u = 0; u < TOPKIT_BATCH; u++) {
            const unsigned value = topkit__sort_value(m.by_score, batch.c[u]), bin = (value - m.low) >> m.shift;
            if (left > u * (int)g.size && atomicAdd(&m.bins[bin], 1u) == 0) m.first[bin] = value;
        }
    }
    topkit_group_sync(g);
    if (m.by_score) {
        for (int base = 0; base < m.count; base += TOPKIT_BATCH * (int)g.size) {
            const int left = topkit__batch_load(g, m.items, m.count, base, &batch);
#pragma unroll
            for (int u = 0; u < TOPKIT_BATCH; u++) {
                const unsigned value = topkit__sort_value(true, batch.c[u]), bin = (value - m.low) >> m.shift;
                if (left > u * (int)g.size && m.first[bin] != value) atomicOr(&m.bins[bin], 0x80000000u);
            }
        }
        topkit_group_sync(g);
    }
    topkit__sort_scan(g, m.bins, m.used, s);
}

/* The second count. Returns the most candidates that meet at a slot. Ends with a barrier. */
TOPKIT_FN unsigned topkit__sort_slots(topkit_group g, const topkit__sorter &m, topkit_digit_storage *s) {
    topkit__batch batch;
    for (int base = 0; base < m.count; base += TOPKIT_BATCH * (int)g.size) {
        const int left = topkit__batch_load(g, m.items, m.count, base, &batch);
#pragma unroll
        for (int u = 0; u < TOPKIT_BATCH; u++) {
            if (left > u * (int)g.size) topkit__sort_add(m.slots, topkit__sort_slot(m, batch.c[u]));
        }
    }
    topkit_group_sync(g);
    return topkit__sort_scan(g, m.slots, topkit__sort_words(m.count), s);
}

/* Lists the candidates by slots. Ends with a barrier. */
TOPKIT_FN void topkit__sort_list(topkit_group g, const topkit__sorter &m) {
    topkit__batch batch;
    for (int base = 0; base < m.count; base += TOPKIT_BATCH * (int)g.size) {
        const int left = topkit__batch_load(g, m.items, m.count, base, &batch);
#pragma unroll
        for (int u = 0; u < TOPKIT_BATCH; u++) {
            if (left > u * (int)g.size)
                m.list[topkit__sort_add(m.slots, topkit__sort_slot(m, batch.c[u]))] = (unsigned short)(base + (int)g.thread + u * (int)g.size);
        }
    }
    topkit_group_sync(g);
}

/* Compares those that share a slot, neighbours in the list as in the output. */
template <typename SINK>
TOPKIT_FN void topkit__sort_emit(topkit_group g, const topkit__sorter &m, SINK sink) {
    for (int i = (int)g.thread; i < m.count; i += (int)g.size) {
        const topkit_candidate c = m.items[m.list[i]];
        const unsigned slot = topkit__sort_slot(m, c), begin = slot > 0 ? topkit__sort_get(m.slots, slot - 1) : 0u;
        const unsigned end = topkit__sort_get(m.slots, slot);
        unsigned before = begin;
#pragma unroll 4
        for (unsigned j = begin; j < end; j++) before += topkit__sort_precedes(m.by_score, m.items[m.list[j]], c);
        topkit_sink_put(sink, (int)before, c.index, c.bits);
    }
}

/* In place, whatever the values: a bitonic network whose comparators all point the same way, so that pads are not needed. Ends with a
 * barrier. */
TOPKIT_FN void topkit__sort_network(topkit_group g, const topkit__sorter &m) {
    for (int run = 2; run / 2 < m.count; run *= 2) {
        for (int distance = run / 2; distance > 0; distance /= 2) {
            for (int i = (int)g.thread; i < m.count; i += (int)g.size) {
                const int a = 2 * i - (i & (distance - 1)); /* i with a zero bit put in at `distance` */
                const int b = distance == run / 2 ? a ^ (run - 1) : a + distance;
                if (b >= m.count) continue;
                const topkit_candidate x = m.items[a], y = m.items[b];
                if (topkit__sort_precedes(m.by_score, y, x)) {
                    m.items[a] = y;
                    m.items[b] = x;
                }
            }
            topkit_group_sync(g);
        }
    }
}

/* Hands items[0 .. count) to the sink, each to its place in the order. Ends with a barrier. */
template <typename SINK>
TOPKIT_FN void topkit_sort(topkit_group g, topkit_candidate *items, int count, int by, SINK sink, topkit_digit_storage *s) {
    TOPKIT_ASSERT(count >= 0 && count <= TOPKIT_SORT_LIMIT && (by == TOPKIT_BY_INDEX || by == TOPKIT_BY_SCORE));
    const topkit__sorter m = topkit__sort_begin(g, items, count, by, s);
    topkit__sort_bins(g, m, s);
    if (topkit__sort_slots(g, m, s) <= TOPKIT_SORT_CROWD) {
        topkit__sort_list(g, m);
        topkit__sort_emit(g, m, sink);
    } else {
        topkit__sort_network(g, m);
        for (int i = (int)g.thread; i < count; i += (int)g.size) topkit_sink_put(sink, i, items[i].index, items[i].bits);
    }
    topkit_group_sync(g);
    topkit_digit_init(g, s);
    topkit_group_sync(g);
}

#endif
