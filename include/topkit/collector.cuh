/* topkit/collector.cuh: the warp-aggregated candidate collector, and the scan that joins it to row, gate and refiner.
 *
 * A warp compares a tile of 512 scores with the gate and appends what passes to a bounded buffer: one vote, one warp scan and one shared
 * atomic for the whole tile. An append is all or nothing. The first that finds no room marks where the buffer ends; the scan then meets,
 * cuts the buffer back to its k best (compaction), raises the gate to the k-th of them and offers the tile again. Nothing is
 * ever dropped: capacity changes speed, never the answer.
 *
 *   scope         append: warp. scan, compact: group
 *   storage       topkit_collector_state (shared), `capacity` candidates (shared), 512 floats of stage a warp (shared, 16-byte aligned;
 *                 topkit_scan_begun: `ahead` times that)
 *   sync          append: none, sync the group before the candidates are read. scan: ends with a barrier, and leaves storage ready.
 *                 compact ends with one. topkit_scan_begin: none; topkit_scan_begun goes on from it.
 *                 The scan reads through the read-only cache: the row is global memory that nothing writes while the kernel runs
 *   determinism   the order in the buffer is open; after a scan the set holds the k best (all of their ties' contenders included)
 *   cost          a tile: 16 compares a lane, and about 30 + 12 * (most hits of a lane) instructions where any lane has a hit
 *
 * capacity >= k + TOPKIT_TILE (twice that where two tiles are appended at once): a compacted buffer must have room for a warp's append, or
 * the scan could not go on.
 *
 * Worked numbers: capacity 1024, k = 2, scores 0, 1, .. 2047 ascending, an open gate, one warp: tiles 0 and 1 fill the buffer, tile 2
 * finds no room (count 1536, stored 1024); compaction keeps 1022 and 1023 and the gate asks for more than 1022.0.
 *
 * Source: the warp scan of hit masks won over one atomic a candidate and over per-thread segments (measured in prototypes).
 */
#ifndef TOPKIT_COLLECTOR_CUH
#define TOPKIT_COLLECTOR_CUH

#include "topkit/refiner.cuh"

typedef struct topkit_collector_state {
    unsigned count;                /* scores that passed the gate, those that found no room included */
    unsigned stored;               /* candidates in the buffer once an append has failed */
    unsigned dropped, compactions; /* statistics: candidates that compactions dropped, and how many there were. Whoever reads them zeroes
                                      them first; nobody else needs them */
} topkit_collector_state;

/* What a warp needs to append. */
typedef struct topkit_collector {
    topkit_candidate *items; /* (capacity) */
    int capacity;
    float *stage; /* (512) this warp's */
    topkit_collector_state *state;
} topkit_collector;

/* Empties the buffer. One thread; sync before the first append. */
TOPKIT_FN void topkit_collector_clear(topkit_collector c) {
    c.state->count = 0;
    c.state->stored = (unsigned)c.capacity;
}

/* Candidates in the buffer, after a sync. */
TOPKIT_FN int topkit_collector_held(topkit_collector c) {
    return (int)(c.state->count < c.state->stored ? c.state->count : c.state->stored);
}

TOPKIT_FN bool topkit_collector_overflowed(topkit_collector c) { return c.state->count > (unsigned)c.capacity; }

/* Room for a lane's hits, behind those of the lanes below: *slot. Some lane of the warp must have one. False: no room for all of the
 * warp's, which stay in the count. */
TOPKIT_FN bool topkit_collect_reserve(topkit_group g, topkit_collector c, unsigned hits, topkit_candidate **slot) {
    unsigned total, base = 0;
    const unsigned below = topkit_warp_exclusive_sum(g, hits, &total);
    if (topkit_lane(g) == 0) base = atomicAdd(&c.state->count, total);
    base = __shfl_sync(TOPKIT_FULL_MASK, base, 0);
    if (base + total > (unsigned)c.capacity) {
        /* Every later append fails as well, for the count only grows: the appends that fitted fill exactly 0 .. stored-1. */
        if (topkit_lane(g) == 0) atomicMin(&c.state->stored, base);
        return false;
    }
    *slot = c.items + base + below;
    return true;
}

/* Appends the scores stage[u*128 + lane*4 + c] whose bit u*4+c of `mask` is set (u up to 7: one tile, or two that adjoin), with index
 * first + u*128 + lane*4 + c. The stage may be the tiles themselves where they lie in shared memory. Some lane of the warp must have a
 * hit. False: no room, nothing was stored (its hits stay in the count). */
TOPKIT_FN bool topkit_collect_staged(topkit_group g, topkit_collector c, const float *stage, int first, unsigned mask) {
    topkit_candidate *slot;
    if (!topkit_collect_reserve(g, c, (unsigned)__popc(mask), &slot)) return false;
    const int mine = (int)topkit_lane(g) * 4;
    while (mask) {
        const int bit = __ffs((int)mask) - 1;
        const int offset = mine + (bit >> 2) * 128 + (bit & 3);
        mask &= mask - 1;
        slot->bits = __float_as_uint(stage[offset]);
        slot->index = first + offset;
        slot++;
    }
    return true;
}

/* For scores of several rows in one warp, a row's here and another row's there, as a tensor core's accumulators lie: room for the `hits`
 * (31 at most) of each lane, behind those of its mates below: *slot. `mates` are the lanes whose collector is the caller's; all of them
 * name the same one, and every lane is in one such class. Five votes, and one atomic a class. Returns the hits of the class, or -1: no room
 * (they stay in the count). Where somebody compacts while others collect, a topkit_fence_block belongs between this and the stores. */
TOPKIT_FN int topkit_collect_lanes(topkit_group g, topkit_collector c, unsigned mates, unsigned hits, topkit_candidate **slot) {
    const int leader = __ffs((int)mates) - 1;
    unsigned total = 0, below = 0, base = 0;
    TOPKIT_ASSERT(hits < 32);
#pragma unroll
    for (int bit = 0; bit < 5; bit++) {
        const unsigned those = __ballot_sync(TOPKIT_FULL_MASK, hits >> bit & 1) & mates;
        total += (unsigned)__popc(those) << bit;
        below += (unsigned)__popc(those & topkit_lanes_below(g)) << bit;
    }
    if ((int)topkit_lane(g) == leader && total > 0) base = atomicAdd(&c.state->count, total);
    base = __shfl_sync(TOPKIT_FULL_MASK, base, leader);
    if (total > 0 && base + total > (unsigned)c.capacity) {
        if ((int)topkit_lane(g) == leader) atomicMin(&c.state->stored, base);
        return -1;
    }
    *slot = c.items + base + below;
    return (int)total;
}

/* The scores of a tile that the gate admits, as a lane's mask. */
template <int TIES>
TOPKIT_FN unsigned topkit_gate_mask(topkit_group g, topkit_gate gate, const topkit_tile *tile) {
    const int lane4 = (int)topkit_lane(g) * 4;
    bool exact = TOPKIT_NAN == TOPKIT_NAN_HIGHEST && gate.key >= TOPKIT_KEY_POS_INF; /* no float is between +inf and NaN */
    unsigned mask;
    if (TIES == TOPKIT_LOWEST_INDEX && gate.bound != TOPKIT_INDEX_LIMIT) {
        /* Behind the bound only better scores count, before it equal ones too: neither needs a look at single indices. */
        if (tile->first >= gate.bound) gate = topkit_gate_at(gate.key, 0);
        else exact |= tile->first + TOPKIT_TILE > gate.bound;
    }
    if (TOPKIT_NAN == TOPKIT_NAN_LOWEST && topkit_gate_is_open(gate)) mask = tile->valid; /* no ordered compare lets a NaN pass */
    else mask = topkit_tile_mask(tile, gate.value) & tile->valid;
    if (exact) {
        for (unsigned rest = mask; rest; rest &= rest - 1) {
            const int bit = __ffs((int)rest) - 1;
            const float4 v = (bit & 8) ? ((bit & 4) ? tile->v[3] : tile->v[2]) : ((bit & 4) ? tile->v[1] : tile->v[0]);
            const float x = (bit & 2) ? ((bit & 1) ? v.w : v.z) : ((bit & 1) ? v.y : v.x);
            if (!topkit_gate_admits(gate, __float_as_uint(x), tile->first + lane4 + (bit >> 2) * 128 + (bit & 3))) mask &= ~(1u << bit);
        }
    }
    return mask;
}

/* Compares a tile held in registers with the gate and appends. False: no room; offer the tile again after a compaction. */
template <int TIES>
TOPKIT_FN bool topkit_collect_tile(topkit_group g, topkit_collector c, topkit_gate gate, const topkit_tile *tile) {
    const unsigned mask = topkit_gate_mask<TIES>(g, gate, tile);
    if (!__any_sync(TOPKIT_FULL_MASK, mask != 0)) return true;
    float4 *stage = (float4 *)c.stage + topkit_lane(g);
    TOPKIT_ASSERT(((unsigned long long)c.stage & 15) == 0);
#pragma unroll
    for (int u = 0; u < 4; u++) stage[u * 32] = tile->v[u]; /* a lane reads back only what it wrote: no sync */
    return topkit_collect_staged(g, c, c.stage, tile->first, mask);
}

/* Cuts the held candidates, more than k, back to the k best and returns the gate for what is still to come. Called by the whole group
 * after a sync; ends with a barrier. Strict under any ties: a plateau wider than the buffer would otherwise compact for ever. */
template <int TIES>
TOPKIT_FN topkit_gate topkit_compact(topkit_group g, topkit_collector c, int k, topkit_refiner_storage *r) {
    const int held = topkit_collector_held(c);
    const topkit_cut cut = topkit_refine_cut<TIES>(g, c.items, held, k, r);
    const int kept = topkit_refine_keep(g, c.items, held, cut, r);
    if (g.thread == 0) {
        c.state->count = (unsigned)kept;
        c.state->stored = (unsigned)c.capacity;
        c.state->dropped += (unsigned)(held - kept);
        c.state->compactions++;
    }
    topkit_group_sync(g);
    return topkit_gate_at(cut.key, TIES == TOPKIT_LOWEST_INDEX ? cut.bound : 0);
}

/* How many are held, before anybody may add or clear again. */
TOPKIT_FN int topkit__scan_end(topkit_group g, topkit_collector c) {
    const int held = topkit_collector_held(c);
    topkit_group_sync(g);
    return held;
}

/* Scans a row with a group: loads its tiles, appends what the gate admits, compacts as often as needed. k = min(k, length), at least 1:
 * an empty row has nothing to scan. The buffer must be clear and synced. Returns how many candidates are held: fewer than k only where the
 * gate was too high for the row. The tiles come in the order of topkit_visit: with TOPKIT_ASCENDING as they lie, with another salt
 * shuffled, and then no row, however it was made, compacts more than a few times, but by bad luck. */
template <int TIES>
TOPKIT_FN int topkit_scan(topkit_group g, topkit_row row, int k, topkit_gate gate, unsigned salt, topkit_collector c,
                          topkit_refiner_storage *r) {
    const topkit_tiles tiles = topkit_row_tiles(row);
    int n = (int)topkit_warp_rank(g);
    TOPKIT_ASSERT(k >= 1 && c.capacity >= k + TOPKIT_TILE);
    for (;;) {
        for (; n < tiles.count; n += (int)topkit_warps(g)) {
            topkit_tile tile;
            topkit_tile_load(tiles, topkit_visit(n, tiles.count, salt), topkit_lane(g), &tile);
            if (!topkit_collect_tile<TIES>(g, c, gate, &tile)) break;
        }
        topkit_group_sync(g);
        if (!topkit_collector_overflowed(c)) break;
        gate = topkit_compact<TIES>(g, c, k, r);
    }
    return topkit__scan_end(g, c);
}

/* The ascending scan with copies under way: a warp's next `ahead` tiles (1 to TOPKIT_AHEAD; the most is best) travel to shared memory while
 * it looks at one, and the first of them before the gate is known. c.stage: ahead * TOPKIT_TILE floats a warp. */
#define TOPKIT_AHEAD 4

/* Starts the copies of a warp's first tiles, as TOPKIT_AHEAD commit groups. */
TOPKIT_FN void topkit_scan_begin(topkit_group g, topkit_row row, int ahead, float *stage) {
    const topkit_tiles tiles = topkit_row_tiles(row);
    TOPKIT_ASSERT(ahead >= 1 && ahead <= TOPKIT_AHEAD);
    for (int d = 0; d < TOPKIT_AHEAD; d++) {
        const int n = (int)(topkit_warp_rank(g) + (unsigned)d * topkit_warps(g));
        if (d < ahead && n < tiles.count) topkit_tile_copy_async(tiles, n, topkit_lane(g), stage + d * TOPKIT_TILE);
        topkit_copy_async_commit();
    }
}

/* Goes on from topkit_scan_begin, behind which no other copies were started. Everything else as topkit_scan. */
template <int TIES>
TOPKIT_FN int topkit_scan_begun(topkit_group g, topkit_row row, int k, topkit_gate gate, int ahead, topkit_collector c,
                                topkit_refiner_storage *r) {
    const topkit_tiles tiles = topkit_row_tiles(row);
    const int warps = (int)topkit_warps(g);
    const unsigned lane = topkit_lane(g);
    int n = (int)topkit_warp_rank(g), d = 0;
    TOPKIT_ASSERT(k >= 1 && c.capacity >= k + TOPKIT_TILE && ahead >= 1 && ahead <= TOPKIT_AHEAD);
    for (;;) {
        for (; n < tiles.count; n += warps) {
            float *copied = c.stage + d * TOPKIT_TILE;
            topkit_tile tile;
            if (ahead == TOPKIT_AHEAD) topkit_copy_async_wait_left<TOPKIT_AHEAD - 1>(); /* the number must be a constant */
            else topkit_copy_async_wait();
            __syncwarp();
            topkit_tile_load_copied(tiles, n, lane, copied, &tile);
            const unsigned mask = topkit_gate_mask<TIES>(g, gate, &tile);
            if (__any_sync(TOPKIT_FULL_MASK, mask != 0) && !topkit_collect_staged(g, c, copied, tile.first, mask)) break;
            __syncwarp(); /* all lanes have read the tile */
            if (n + ahead * warps < tiles.count) topkit_tile_copy_async(tiles, n + ahead * warps, lane, copied);
            topkit_copy_async_commit();
            d = d + 1 < ahead ? d + 1 : 0;
        }
        topkit_group_sync(g);
        if (!topkit_collector_overflowed(c)) break;
        gate = topkit_compact<TIES>(g, c, k, r);
    }
    return topkit__scan_end(g, c);
}

#endif
