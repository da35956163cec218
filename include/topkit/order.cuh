/* topkit/order.cuh: sorts selected candidates in place, for callers who want them in order.
 *
 *   scope         group
 *   storage       the candidates themselves, padded to a power of two: items must have room for topkit_sort_room(count)
 *   sync          called by all threads of the group after a sync; ends with a barrier; about log2(count)^2 / 2 barriers
 *   determinism   yes: pairs are distinct, so the order is unique (score descending with equal scores by index; or index ascending)
 *   cost          bitonic network, log2(count) * (log2(count) + 1) / 2 passes over the candidates in shared memory
 *
 * Worked numbers: (2.0, 9) (5.0, 2) (2.0, 1) sort to (5.0, 2) (2.0, 1) (2.0, 9) by score and to (2.0, 1) (5.0, 2) (2.0, 9) by index.
 */
#ifndef TOPKIT_ORDER_CUH
#define TOPKIT_ORDER_CUH

#include "topkit/candidate.cuh"

enum { TOPKIT_BY_INDEX = 1, TOPKIT_BY_SCORE = 2 };

TOPKIT_FN int topkit_sort_room(int count) {
    int room = 1;
    while (room < count) room *= 2;
    return room;
}

/* Larger comes first. A pad is (lowest key, largest index) by score and the largest index by index: nothing comes behind it. */
TOPKIT_FN unsigned long long topkit__sort_key(topkit_candidate c, int by) {
    return topkit_pair_key(by == TOPKIT_BY_SCORE ? topkit_key(c.bits) : 0u, c.index);
}

TOPKIT_FN void topkit_sort(topkit_group g, topkit_candidate *items, int count, int by) {
    const int room = topkit_sort_room(count);
    const topkit_candidate pad = {TOPKIT_NAN == TOPKIT_NAN_LOWEST ? 0x7fc00000u : 0xff800000u, TOPKIT_INDEX_LIMIT};
    for (int i = count + (int)g.thread; i < room; i += (int)g.size) items[i] = pad;
    topkit_group_sync(g);
    for (int run = 2; run <= room; run *= 2) {
        for (int distance = run / 2; distance > 0; distance /= 2) {
            for (int i = (int)g.thread; i < room / 2; i += (int)g.size) {
                const int a = 2 * i - (i & (distance - 1)), b = a + distance; /* i with a zero bit put in at `distance` */
                const topkit_candidate x = items[a], y = items[b];
                const bool descending = (a & run) == 0;
                if ((topkit__sort_key(x, by) < topkit__sort_key(y, by)) == descending) {
                    items[a] = y;
                    items[b] = x;
                }
            }
            topkit_group_sync(g);
        }
    }
}

#endif
