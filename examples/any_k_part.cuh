/* any_k_part.cuh: a row in parts, a block of a cluster each, for 10_any_k_select.cuh: which tiles are a block's own, and what the blocks
 * tell each other through their shared memory.
 *
 * The parts are neighbouring tiles in the order of the row, so that counts of the parts before one say where its output begins. A row that
 * fits the buffer is the first block's alone; the others go through the same steps with nothing in their hands.
 *
 *   scope         all functions but topkit_any_k_part_begin (one thread) are called by all threads of all blocks
 *   storage       topkit_any_k_part, at the same place in every block
 *   sync          share, merge, tell and send: one barrier of the cluster each; of a cluster of one none, but for tell
 *   determinism   sums are the same in all blocks. Candidates lie in the first block part behind part, in no order within one
 *   cost          merge: each block reads its share of the bins, 1024 / blocks, from all others and tells all
 */
#ifndef TOPKIT_ANY_K_PART_CUH
#define TOPKIT_ANY_K_PART_CUH

#include "select_emit.cuh"

/* What is shared lies in a place of its own: who is ahead may not write what others still read. Between two times the blocks meet: merge
 * comes behind COUNTS, and send behind REGION. */
enum { TOPKIT_ANY_K_COUNTS, TOPKIT_ANY_K_REGION, TOPKIT_ANY_K_CUT, TOPKIT_ANY_K_SHARES };

typedef struct topkit_any_k_part {
    alignas(8) unsigned theirs[TOPKIT_ANY_K_SHARES][TOPKIT_CLUSTER_MAX][2]; /* (blocks) two numbers of each block, which it wrote */
    int begin, end;         /* its tiles, as topkit_emit_load counts them */
    unsigned above, inside; /* its scores above the region, and in it */
    unsigned found[2];      /* what a step counts in the part: zero between steps */
} topkit_any_k_part;

/* Where tile n of topkit_emit_load begins. */
TOPKIT_JOB_FN int topkit_any_k_tile_begin(topkit_tiles tiles, int n) {
    const int body = topkit_emit_body(tiles), tail = tiles.head + tiles.vectors * 4;
    if (n == 0) return 0;
    return n <= body ? tiles.head + (n - 1) * TOPKIT_TILE : n == body + 1 ? tail : tiles.length;
}

/* All of the part is undecided. One thread. */
TOPKIT_JOB_FN void topkit_any_k_part_begin(topkit_row row, bool alone, topkit_any_k_part *p) {
    const topkit_tiles tiles = topkit_row_tiles(row);
    const unsigned all = (unsigned)topkit_emit_body(tiles) + 2, block = topkit_cluster_block(), blocks = topkit_cluster_blocks();
    p->begin = (int)(alone ? (block == 0 ? 0 : all) : all * block / blocks);
    p->end = (int)(alone ? all : all * (block + 1) / blocks);
    p->above = 0;
    p->inside = (unsigned)(topkit_any_k_tile_begin(tiles, p->end) - topkit_any_k_tile_begin(tiles, p->begin));
}

/* Two numbers of each block, added up: of all, and of those before this one. */
typedef struct topkit_any_k_sums {
    unsigned all[2], before[2];
} topkit_any_k_sums;

TOPKIT_JOB_FN topkit_any_k_sums topkit_any_k_share(topkit_group g, int what, unsigned first, unsigned second, topkit_any_k_part *p) {
    const unsigned blocks = topkit_cluster_blocks(), block = topkit_cluster_block(), lane = topkit_lane(g);
    topkit_any_k_sums sums = {{first, second}, {0, 0}};
    if (blocks == 1) return sums;
    if (g.thread < blocks) topkit_cluster_write_pair(p->theirs[what][block], g.thread, first, second);
    topkit_cluster_sync();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const unsigned theirs = lane < blocks ? p->theirs[what][lane][i] : 0u;
        sums.all[i] = __reduce_add_sync(TOPKIT_FULL_MASK, theirs);
        sums.before[i] = __reduce_add_sync(TOPKIT_FULL_MASK, lane < block ? theirs : 0u);
    }
    return sums;
}

/* The histograms of all blocks, which have shared since they counted, added up: in `merged` of each, or where there is but one, its own. */
TOPKIT_JOB_FN topkit_digit_storage *topkit_any_k_merge(topkit_group g, topkit_digit_storage *own, topkit_digit_storage *merged) {
    const unsigned blocks = topkit_cluster_blocks(), pairs = TOPKIT_DIGIT_BINS / 2 / blocks;
    if (blocks == 1) return own;
    for (unsigned i = g.thread; i < pairs; i += g.size) {
        const unsigned bin = (topkit_cluster_block() * pairs + i) * 2;
        unsigned low = 0, high = 0;
#pragma unroll 4
        for (unsigned b = 0; b < blocks; b++) {
            low += topkit_cluster_read(&own->histogram[bin], b);
            high += topkit_cluster_read(&own->histogram[bin + 1], b);
        }
        for (unsigned b = 0; b < blocks; b++) topkit_cluster_write_pair(&merged->histogram[bin], b, low, high);
    }
    topkit_cluster_sync();
    return merged;
}

/* p->found: what the part has in the bins above this one, and in it. Ends with a barrier. */
TOPKIT_JOB_FN void topkit_any_k_find_own(topkit_group g, const topkit_digit_storage *own, unsigned bin, topkit_any_k_part *p) {
    unsigned above = 0;
    for (unsigned b = bin + 1 + g.thread; b < TOPKIT_DIGIT_BINS; b += g.size) above += own->histogram[b];
    above = __reduce_add_sync(TOPKIT_FULL_MASK, above);
    if (topkit_lane(g) == 0) atomicAdd(&p->found[0], above);
    if (g.thread == 0) p->found[1] = own->histogram[bin];
    topkit_group_sync(g);
}

/* The part's `count` collected candidates go behind those of the blocks before it, of which there are `before`, in the first block. */
TOPKIT_JOB_FN void topkit_any_k_send(topkit_group g, topkit_candidate *items, int count, unsigned before) {
    if (topkit_cluster_blocks() == 1) return;
    for (int i = (int)g.thread; topkit_cluster_block() > 0 && i < count; i += (int)g.size)
        topkit_cluster_write_pair(&items[before + (unsigned)i], 0, items[i].bits, (unsigned)items[i].index);
    topkit_cluster_sync();
}

/* Room for a cut as two pairs of words. */
typedef struct alignas(8) topkit_any_k_cut {
    topkit_cut cut;
    unsigned unused;
} topkit_any_k_cut;

/* The first block's cut to all, to the same place in each. Ends with a barrier. */
TOPKIT_JOB_FN void topkit_any_k_tell(topkit_group g, topkit_cut cut, topkit_any_k_cut *place) {
    if (topkit_cluster_block() == 0 && g.thread < topkit_cluster_blocks()) {
        topkit_cluster_write_pair(&place->cut.key, g.thread, cut.key, (unsigned)cut.bound);
        topkit_cluster_write_pair(&place->cut.ties, g.thread, cut.ties, 0);
    }
    topkit_cluster_sync();
}

/* p->found: how many of the part's `count` collected candidates a cut selects without its ties, and those, where it takes but some of
 * them. Ends with a barrier. */
TOPKIT_JOB_FN void topkit_any_k_count_cut(topkit_group g, const topkit_candidate *items, int count, topkit_cut cut,
                                          topkit_any_k_part *p) {
    const bool limited = cut.ties != 0xffffffffu;
    unsigned hits = 0, ties = 0;
    for (int i = (int)g.thread; i < count; i += (int)g.size) {
        const unsigned key = topkit_key(items[i].bits);
        const bool tie = key == cut.key && items[i].index < cut.bound;
        hits += key > cut.key || (tie && !limited) ? 1u : 0u;
        ties += tie && limited ? 1u : 0u;
    }
    hits = __reduce_add_sync(TOPKIT_FULL_MASK, hits);
    ties = __reduce_add_sync(TOPKIT_FULL_MASK, ties);
    if (topkit_lane(g) == 0) {
        atomicAdd(&p->found[0], hits);
        atomicAdd(&p->found[1], ties);
    }
    topkit_group_sync(g);
}

#endif
