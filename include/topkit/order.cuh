/* topkit/order.cuh: hands selected candidates to a sink in order: slot 0 gets the first.
 *
 * Values are keys or indices. They are counted in linear bins between the least and the greatest of them. Where a bin begins, its size and
 * where in it a value lies tell about which place the value will get. Two places are counted as one, and the two or three candidates that
 * meet there are compared. The first count learns how dense the values are: tails, outliers and clusters cost no more than others do.
 *
 * Where many share a place they may be equals, as 16-bit scores and small integers are: bins that hold one key alone are then spread by
 * index. Where that does not help a network sorts them, which takes the same time whatever the values are.
 *
 * The indices of a row that is so short that it has a bit for each score in shared memory need no sorting (topkit_sort_mask): they are set
 * there, by topkit_sink_mask, and counted up to each word.
 *
 *   scope         group
 *   storage       a topkit_digit_storage, whose histogram is zero before and after (of a mask whatever it was); behind the candidates 3
 *                 bytes for each: items must have room for topkit_sort_room(count)
 *   sync          called by all threads of the group after a sync; 10 barriers, 6 more where many share a place; the network has about
 *                 log2(count)^2 / 2. Ends with a barrier, but for no candidates, where there is none. Of a mask 2, the last at the end
 *   determinism   yes: pairs are distinct, so the order is unique (score descending with equal scores by index; or index ascending)
 *   cost          5 reads of the candidates and 3 shared atomics for each; 3 reads and one more where many share a place. The network
 *                 reads them log2(count) * (log2(count) + 1) / 2 times. Of a mask 2 reads of its words, and 1 of each score
 *
 * Worked numbers: (2.0, 9) (5.0, 2) (2.0, 1) come out as (5.0, 2) (2.0, 1) (2.0, 9) by score and as (2.0, 1) (5.0, 2) (2.0, 9) by index.
 */
#ifndef TOPKIT_ORDER_CUH
#define TOPKIT_ORDER_CUH

#include "topkit/candidate.cuh"
#include "topkit/digit.cuh"
#include "topkit/sink.cuh"

enum { TOPKIT_BY_INDEX = 1, TOPKIT_BY_SCORE = 2 };

#define TOPKIT_SORT_LIMIT 32767 /* candidates: places have 15 bits */
#define TOPKIT_SORT_MANY 24     /* more candidates at a place may be equals */
#define TOPKIT_SORT_CROWD 256   /* more are not compared with each other */

#define TOPKIT__SORT_BINS (TOPKIT_DIGIT_BINS / 2)
#define TOPKIT__SORT_ALIKE 0x80000000u
#define TOPKIT__SORT_BATCH 2 /* candidates of a thread at a time: more would be idle where a thread has few */

/* Words of counters: two places share one, and two counters a word. The list of candidates by places, of 2 bytes each, lies behind them. */
TOPKIT_FN unsigned topkit__sort_words(int count) { return ((unsigned)count + 3) / 4; }

/* Candidates that `items` must have room for. */
TOPKIT_FN int topkit_sort_room(int count) { return count + ((int)topkit__sort_words(count) * 4 + count * 2 + 7) / 8; }

/* Smaller values come first. */
typedef struct topkit__sorter {
    topkit_candidate *items;
    int count;
    unsigned scores;                 /* all ones where values are keys, zero where they are indices: a mask, for branches would cost more */
    unsigned low, shift, used;       /* of the values, what makes them bins, and how many these are */
    unsigned index_low, index_shift; /* of the indices, and what makes them 32-bit fractions of their span */
    unsigned *bins;                  /* (TOPKIT__SORT_BINS) candidates in a bin, then its begin and its end, and whether they are alike */
    unsigned *first;                 /* (same) the value of one of them */
    unsigned *places;                /* (topkit__sort_words) candidates at a place, then where the list has them: from, and in the end to */
    unsigned short *list;            /* (count) */
} topkit__sorter;

/* A thread's next candidates; where there are none the first of all once more, so that no branch keeps the loads apart. Returns how many
 * there are from the thread's first one on: its u-th is present where that is above u * size. */
TOPKIT_FN int topkit__sort_load(topkit_group g, const topkit__sorter &m, int base, topkit_candidate *c) {
    const int left = m.count - base - (int)g.thread;
#pragma unroll
    for (int u = 0; u < TOPKIT__SORT_BATCH; u++) c[u] = m.items[left > u * (int)g.size ? base + (int)g.thread + u * (int)g.size : 0];
    return left;
}

TOPKIT_FN unsigned topkit__sort_value(unsigned scores, topkit_candidate c) {
    return (~topkit_key(c.bits) & scores) | ((unsigned)c.index & ~scores);
}

TOPKIT_FN unsigned topkit__sort_bin(const topkit__sorter &m, unsigned value) { return (value - m.low) >> m.shift; }

/* Of two candidates the one with the lower number comes first. */
TOPKIT_FN unsigned long long topkit__sort_rank(const topkit__sorter &m, topkit_candidate c) {
    return (unsigned long long)topkit__sort_value(m.scores, c) << 32 | (unsigned)c.index;
}

/* About where the candidate will come: of two the later one has the greater place, or the same. */
TOPKIT_FN unsigned topkit__sort_place(const topkit__sorter &m, topkit_candidate c) {
    const unsigned value = topkit__sort_value(m.scores, c), bin = m.bins[topkit__sort_bin(m, value)], begin = bin & 0xffffu;
    const unsigned by_value = (value - m.low) << 1 << (31 - m.shift), by_index = ((unsigned)c.index - m.index_low) << m.index_shift;
    return (begin + __umulhi(bin & TOPKIT__SORT_ALIKE ? by_index : by_value, (bin >> 16 & 0x7fffu) - begin)) >> 1;
}

/* Counters lie two in a word. Adds to one and returns what it was. */
TOPKIT_FN unsigned topkit__sort_add(unsigned *counters, unsigned i) {
    const unsigned shift = (i & 1) * 16;
    return atomicAdd(&counters[i >> 1], 1u << shift) >> shift & 0xffffu;
}
TOPKIT_FN unsigned topkit__sort_get(const unsigned *counters, unsigned i) { return counters[i >> 1] >> (i & 1) * 16 & 0xffffu; }

/* Each counter becomes the sum of those before it. Returns the largest. Sync before it; 2 barriers inside, ends with one. */
TOPKIT_FN unsigned topkit__sort_scan(topkit_group g, unsigned *counters, unsigned words, topkit_digit_storage *s) {
    const unsigned lane = topkit_lane(g), warp = topkit_warp_rank(g), each = (words + g.size - 1) / g.size;
    const unsigned begin = g.thread * each, end = begin + each < words ? begin + each : words;
    unsigned sum = 0, most = 0, total;
#pragma unroll 1
    for (unsigned i = begin; i < end; i++) {
        const unsigned two = counters[i], a = two & 0xffffu, b = two >> 16;
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
#pragma unroll 1
    for (unsigned i = begin; i < end; i++) {
        const unsigned two = counters[i], middle = before + (two & 0xffffu);
        counters[i] = before | middle << 16;
        before = middle + (two >> 16);
    }
    topkit_group_sync(g);
    return most;
}

TOPKIT_FN void topkit__sort_clear(topkit_group g, unsigned *counters, unsigned words) {
#pragma unroll 1
    for (unsigned i = g.thread; i < words; i += g.size) counters[i] = 0;
}

/* The range of keys or of indices. One barrier; sync before the next. */
TOPKIT_FN void topkit__sort_range(topkit_group g, const topkit__sorter &m, unsigned scores, unsigned *low, unsigned *high,
                                  topkit_digit_storage *s) {
    topkit_candidate c[TOPKIT__SORT_BATCH];
    *low = 0xffffffffu;
    *high = 0;
#pragma unroll 1
    for (int base = 0; base < m.count; base += TOPKIT__SORT_BATCH * (int)g.size) {
        topkit__sort_load(g, m, base, c);
#pragma unroll
        for (int u = 0; u < TOPKIT__SORT_BATCH; u++) {
            const unsigned value = topkit__sort_value(scores, c[u]);
            *low = *low < value ? *low : value;
            *high = *high > value ? *high : value;
        }
    }
    topkit_digit_range(g, s, low, high);
}

/* The first count: where each bin begins and ends; the second count is cleared. Equal scores alone are sorted by index. Ends with a
 * barrier. */
TOPKIT_FN topkit__sorter topkit__sort_begin(topkit_group g, topkit_candidate *items, int count, int by, topkit_digit_storage *s) {
    topkit__sorter m = {};
    topkit_candidate c[TOPKIT__SORT_BATCH];
    unsigned high;
    m.items = items;
    m.count = count;
    m.scores = by == TOPKIT_BY_SCORE ? 0xffffffffu : 0u;
    m.bins = s->histogram;
    m.first = s->histogram + TOPKIT__SORT_BINS;
    m.places = (unsigned *)(items + count);
    m.list = (unsigned short *)(m.places + topkit__sort_words(count));
    topkit__sort_clear(g, m.places, topkit__sort_words(count));
    topkit__sort_range(g, m, m.scores, &m.low, &high, s);
    if (m.low == high && m.scores) {
        m.scores = 0;
        topkit_group_sync(g); /* all have read the range of the keys */
        topkit__sort_range(g, m, 0, &m.low, &high, s);
    }
    const unsigned bits = 32u - (unsigned)__clz((int)(high - m.low));
    m.shift = bits >= TOPKIT_DIGIT_BITS ? bits - TOPKIT_DIGIT_BITS + 1 : 0;
    m.used = ((high - m.low) >> m.shift) + 1;
#pragma unroll 1
    for (int base = 0; base < count; base += TOPKIT__SORT_BATCH * (int)g.size) {
        unsigned value[TOPKIT__SORT_BATCH], before[TOPKIT__SORT_BATCH];
        const int left = topkit__sort_load(g, m, base, c);
#pragma unroll
        for (int u = 0; u < TOPKIT__SORT_BATCH; u++) {
            value[u] = topkit__sort_value(m.scores, c[u]);
            before[u] = left > u * (int)g.size ? atomicAdd(&m.bins[topkit__sort_bin(m, value[u])], 1u) : 1u;
        }
#pragma unroll
        for (int u = 0; u < TOPKIT__SORT_BATCH; u++) {
            if (before[u] == 0) m.first[topkit__sort_bin(m, value[u])] = value[u];
        }
    }
    topkit_group_sync(g);
    topkit__sort_scan(g, m.bins, m.used, s);
    return m;
}

/* Marks the bins that hold one key alone, whose candidates are from now on spread by index, and clears the second count. Ends with a
 * barrier. */
TOPKIT_FN void topkit__sort_alike(topkit_group g, topkit__sorter *m, topkit_digit_storage *s) {
    topkit_candidate c[TOPKIT__SORT_BATCH];
    unsigned high;
    topkit__sort_range(g, *m, 0, &m->index_low, &high, s);
    m->index_shift = (unsigned)__clz((int)((high - m->index_low) | 1u));
#pragma unroll 1
    for (unsigned i = g.thread; i < m->used; i += g.size) m->bins[i] |= TOPKIT__SORT_ALIKE;
    topkit__sort_clear(g, m->places, topkit__sort_words(m->count));
    topkit_group_sync(g);
#pragma unroll 1
    for (int base = 0; base < m->count; base += TOPKIT__SORT_BATCH * (int)g.size) {
        topkit__sort_load(g, *m, base, c);
#pragma unroll
        for (int u = 0; u < TOPKIT__SORT_BATCH; u++) {
            const unsigned value = topkit__sort_value(m->scores, c[u]), bin = topkit__sort_bin(*m, value);
            if (m->first[bin] != value) atomicAnd(&m->bins[bin], ~TOPKIT__SORT_ALIKE);
        }
    }
    topkit_group_sync(g);
}

/* The second count. Returns the most candidates that share a place. Ends with a barrier. */
TOPKIT_FN unsigned topkit__sort_places(topkit_group g, const topkit__sorter &m, topkit_digit_storage *s) {
    topkit_candidate c[TOPKIT__SORT_BATCH];
#pragma unroll 1
    for (int base = 0; base < m.count; base += TOPKIT__SORT_BATCH * (int)g.size) {
        unsigned place[TOPKIT__SORT_BATCH];
        const int left = topkit__sort_load(g, m, base, c);
#pragma unroll
        for (int u = 0; u < TOPKIT__SORT_BATCH; u++) place[u] = topkit__sort_place(m, c[u]);
#pragma unroll
        for (int u = 0; u < TOPKIT__SORT_BATCH; u++) {
            if (left > u * (int)g.size) topkit__sort_add(m.places, place[u]);
        }
    }
    topkit_group_sync(g);
    return topkit__sort_scan(g, m.places, topkit__sort_words(m.count), s);
}

/* Lists the candidates by their places. Ends with a barrier. */
TOPKIT_FN void topkit__sort_list(topkit_group g, const topkit__sorter &m) {
    topkit_candidate c[TOPKIT__SORT_BATCH];
#pragma unroll 1
    for (int base = 0; base < m.count; base += TOPKIT__SORT_BATCH * (int)g.size) {
        unsigned place[TOPKIT__SORT_BATCH];
        const int left = topkit__sort_load(g, m, base, c);
#pragma unroll
        for (int u = 0; u < TOPKIT__SORT_BATCH; u++) place[u] = topkit__sort_place(m, c[u]);
#pragma unroll
        for (int u = 0; u < TOPKIT__SORT_BATCH; u++) {
            if (left > u * (int)g.size) place[u] = topkit__sort_add(m.places, place[u]);
        }
#pragma unroll
        for (int u = 0; u < TOPKIT__SORT_BATCH; u++) {
            if (left > u * (int)g.size) m.list[place[u]] = (unsigned short)(base + (int)g.thread + u * (int)g.size);
        }
    }
    topkit_group_sync(g);
}

/* Compares the candidates that share a place, which are neighbours in the list. */
template <typename SINK>
TOPKIT_FN void topkit__sort_emit(topkit_group g, const topkit__sorter &m, SINK sink) {
#pragma unroll 1
    for (unsigned i = g.thread; i < (unsigned)m.count; i += g.size) {
        const topkit_candidate c = m.items[m.list[i]];
        const unsigned long long mine = topkit__sort_rank(m, c);
        const unsigned place = topkit__sort_place(m, c), end = topkit__sort_get(m.places, place);
        unsigned slot = place > 0 ? topkit__sort_get(m.places, place - 1) : 0u;
#pragma unroll 1
        for (unsigned j = slot; j < end; j += 2) { /* the one behind the last comes after all of them, too */
            slot += topkit__sort_rank(m, m.items[m.list[j]]) < mine;
            slot += topkit__sort_rank(m, m.items[m.list[j + 1 < (unsigned)m.count ? j + 1 : i]]) < mine;
        }
        topkit_sink_put(sink, (int)slot, c.index, c.bits);
    }
}

/* In place, whatever the values: a bitonic network whose comparators all point the same way, so that no pads are needed. Ends with a
 * barrier. */
TOPKIT_FN void topkit__sort_network(topkit_group g, const topkit__sorter &m) {
    for (int run = 2; run / 2 < m.count; run *= 2) {
        for (int distance = run / 2; distance > 0; distance /= 2) {
#pragma unroll 1
            for (int i = (int)g.thread; i < m.count; i += (int)g.size) {
                const int a = 2 * i - (i & (distance - 1)); /* i with a zero bit put in at `distance` */
                const int b = distance == run / 2 ? a ^ (run - 1) : a + distance;
                if (b >= m.count) continue;
                const topkit_candidate x = m.items[a], y = m.items[b];
                if (topkit__sort_rank(m, y) < topkit__sort_rank(m, x)) {
                    m.items[a] = y;
                    m.items[b] = x;
                }
            }
            topkit_group_sync(g);
        }
    }
}

/* Hands items[0 .. count) to the sink, each to its slot in the order; the items themselves may be left in another one. */
template <typename SINK>
TOPKIT_FN void topkit_sort(topkit_group g, topkit_candidate *items, int count, int by, SINK sink, topkit_digit_storage *s) {
    TOPKIT_ASSERT(count >= 0 && count <= TOPKIT_SORT_LIMIT && (by == TOPKIT_BY_INDEX || by == TOPKIT_BY_SCORE));
    if (count == 0) return;
    topkit__sorter m = topkit__sort_begin(g, items, count, by, s);
    unsigned most = topkit__sort_places(g, m, s);
    if (most > TOPKIT_SORT_MANY && m.scores) {
        topkit__sort_alike(g, &m, s);
        most = topkit__sort_places(g, m, s);
    }
    if (most <= TOPKIT_SORT_CROWD) {
        topkit__sort_list(g, m);
        topkit__sort_emit(g, m, sink);
    } else {
        topkit__sort_network(g, m);
#pragma unroll 1
        for (int i = (int)g.thread; i < count; i += (int)g.size) topkit_sink_put(sink, i, items[i].index, items[i].bits);
    }
    topkit_group_sync(g);
    topkit__sort_clear(g, m.bins, m.used);
    topkit__sort_clear(g, m.first, m.used);
    topkit_group_sync(g);
}

/* Hands the indices whose bits are set, all below `length`, to the sink, in ascending order, with their scores, and zeroes the words. */
template <typename SINK>
TOPKIT_FN void topkit_sort_mask(topkit_group g, unsigned *words, int length, const float *scores, SINK sink, topkit_digit_storage *s) {
    const unsigned lane = topkit_lane(g), warp = topkit_warp_rank(g);
    const int count = (length + 31) / 32, each = (count + (int)g.size - 1) / (int)g.size; /* consecutive words of a thread */
    const int begin = (int)g.thread * each, end = begin + each < count ? begin + each : count;
    unsigned sum = 0, total;
    for (int i = begin; i < end; i++) sum += (unsigned)__popc(words[i]);
    unsigned slot = topkit_warp_exclusive_sum(g, sum, &total);
    if (lane == 0) s->warp_sums[warp] = total;
    topkit_group_sync(g);
    slot += __reduce_add_sync(TOPKIT_FULL_MASK, lane < warp ? s->warp_sums[lane] : 0u);
    for (int i = begin; i < end; i++) {
        for (unsigned bits = words[i]; bits; bits &= bits - 1) {
            const int index = i * 32 + __ffs((int)bits) - 1;
            topkit_sink_put(sink, (int)slot++, index, __float_as_uint(scores[index]));
        }
        words[i] = 0;
    }
    topkit_group_sync(g);
}

#endif
