/* select_emit.cuh: how the hits of a tile get to their slots, for kernels that know the cut before they write anything.
 *
 * The hits of a warp's tile go to neighbouring slots in the order of their indices, and neighbouring lanes write neighbouring slots. In any
 * order a tile's first slot comes from a counter. In the order of indices (topkit_emit_cut) it is the number of hits in all tiles before,
 * which the block sums up round by round, a tile for each warp. Of a plateau that is only taken in part it takes the first, which is what
 * both tie policies allow, however wide the plateau.
 *
 *   scope         topkit_emit_cut: a group of up to 32 warps. The rest: warp
 *   storage       TOPKIT_EMIT_STAGE floats a warp, shared, 16-byte aligned: the staged tile, then 16 bits for each of its hits; for the
 *                 cut 64 words
 *   sync          topkit_emit_cut: one barrier a round and one at the end. topkit_emit_tile: __syncwarp
 *   determinism   topkit_emit_cut: yes
 *   cost          a tile with hits: about 100 instructions and 12 for each 32 hits
 */
#ifndef TOPKIT_SELECT_EMIT_CUH
#define TOPKIT_SELECT_EMIT_CUH

#include "select_job.cuh"

#define TOPKIT_EMIT_STAGE (TOPKIT_TILE + TOPKIT_TILE / 2)

/* Where a warp stages a tile, and where its hits go. */
typedef struct topkit_emitter {
    float *stage; /* (TOPKIT_EMIT_STAGE) this warp's */
    topkit_sink_pairs sink;
} topkit_emitter;

/* Tiles of the body; before and behind them come the head and the tail, which may be empty. */
TOPKIT_JOB_FN int topkit_emit_body(topkit_tiles tiles) { return tiles.count - (topkit_tiles_have_edge(tiles) ? 1 : 0); }

/* Tile n of 0 .. body+1, of which each lies behind the one before. `first` is the same in all lanes; further tiles have no scores. */
TOPKIT_JOB_FN void topkit_emit_load(topkit_tiles tiles, int n, unsigned lane, topkit_tile *tile) {
    const int body = topkit_emit_body(tiles);
    if (n >= 1 && n <= body) {
        topkit_tile_load(tiles, n - 1, lane, tile);
    } else {
        topkit_tile_load_edge(tiles, lane, tile);
        tile->first = n == 0 ? 0 : tiles.head + tiles.vectors * 4 - 4;
        if (n > body + 1 || lane != (n == 0 ? 0u : 1u)) tile->valid = 0;
    }
}

TOPKIT_JOB_FN void topkit_emit_stage(topkit_group g, const topkit_tile *tile, float *stage) {
#pragma unroll
    for (int u = 0; u < 4; u++) ((float4 *)stage)[u * 32 + (int)topkit_lane(g)] = tile->v[u];
}

/* How many bits of a tile's mask are set in each 128 scores, a byte each: in the lanes below, and (*total) in the warp. */
TOPKIT_JOB_FN unsigned topkit_emit_below(topkit_group g, unsigned mask, unsigned *total) {
    unsigned mine = 0;
#pragma unroll
    for (int u = 0; u < 4; u++) mine |= (unsigned)__popc(mask >> (u * 4) & 0xfu) << (u * 8);
    return topkit_warp_exclusive_sum(g, mine, total);
}

/* Sends the staged scores whose bit is set to slots `slot`, slot + 1, .. in the order of their indices. */
TOPKIT_JOB_FN void topkit_emit_tile(topkit_group g, topkit_emitter e, int first, unsigned mask, int slot) {
    unsigned total, seen = 0;
    const unsigned below = topkit_emit_below(g, mask, &total);
    unsigned short *list = (unsigned short *)(e.stage + TOPKIT_TILE); /* (TOPKIT_TILE) offsets of the hits in the tile */
#pragma unroll 1
    for (int u = 0; u < 4; u++) { /* unrolled, 16 offsets would stay in registers */
        unsigned place = seen + (below >> (u * 8) & 0xffu);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            if (mask >> (u * 4 + c) & 1u) list[place++] = (unsigned short)(u * 128 + (int)topkit_lane(g) * 4 + c);
        }
        seen += total >> (u * 8) & 0xffu;
    }
    __syncwarp();
    for (int j = (int)topkit_lane(g); j < (int)seen; j += TOPKIT_WARP) {
        const int offset = list[j];
        topkit_sink_put(e.sink, slot + j, first + offset, __float_as_uint(e.stage[offset]));
    }
    __syncwarp(); /* stage and list may be written again */
}

/* The first `most` of a tile's scores whose bits are set, as a mask again. */
TOPKIT_JOB_FN unsigned topkit_emit_first(topkit_group g, unsigned mask, unsigned most) {
    unsigned total, seen = 0, chosen = 0;
    const unsigned below = topkit_emit_below(g, mask, &total);
#pragma unroll
    for (int u = 0; u < 4; u++) {
        unsigned place = seen + (below >> (u * 8) & 0xffu);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const unsigned bit = mask & 1u << (u * 4 + c);
            if (bit && place < most) chosen |= bit;
            place += bit ? 1u : 0u;
        }
        seen += total >> (u * 8) & 0xffu;
    }
    return chosen;
}

/* Tiles begin .. end-1 of those that topkit_emit_load knows; of the cut's k, what is `filled` by the tiles before, and how many of that are
 * its ties (`taken`). */
typedef struct topkit_emit_part {
    int begin, end;
    unsigned filled, taken;
} topkit_emit_part;

/* Of a part, writes those of the k scores that the cut selects in the order of their indices, of its ties the first. A round is a tile for
 * each warp. */
TOPKIT_JOB_FN void topkit_emit_cut(topkit_group g, topkit_row row, int k, topkit_cut cut, topkit_emit_part part, topkit_emitter e,
                                   unsigned *hits) {
    const topkit_tiles tiles = topkit_row_tiles(row);
    const topkit_gate low = topkit_gate_at(cut.key, cut.bound), high = topkit_gate_at(cut.key, 0);
    const bool limited = cut.ties != 0xffffffffu; /* else ties are hits like all others */
    const unsigned lane = topkit_lane(g), warp = topkit_warp_rank(g), warps = topkit_warps(g);
    unsigned filled = part.filled, left = cut.ties - part.taken, turn = 0; /* before this round: slots filled, ties still to take */
    topkit_tile tile;
    for (int n = part.begin + (int)warp; filled < (unsigned)k && n < part.end + (int)warp; n += (int)warps) {
        topkit_emit_load(tiles, n, lane, &tile);
        if (n >= part.end) tile.valid = 0; /* this warp only keeps step with the others */
        const unsigned from = topkit_gate_mask<TOPKIT_LOWEST_INDEX>(g, low, &tile);
        unsigned mask = limited ? topkit_gate_mask<TOPKIT_ANY>(g, high, &tile) : from, ties = from & ~mask;
        const unsigned sum = __reduce_add_sync(TOPKIT_FULL_MASK, (unsigned)__popc(mask) | (unsigned)__popc(ties) << 16);
        if (lane == 0) hits[turn + warp] = sum;
        topkit_emit_stage(g, &tile, e.stage);
        topkit_group_sync(g); /* the only one in a round: what the next round writes lies elsewhere */
        const unsigned sums = lane < warps ? hits[turn + lane] : 0u;
        const unsigned before = __reduce_add_sync(TOPKIT_FULL_MASK, lane < warp ? sums : 0u); /* in the tiles of this round */
        const unsigned all = __reduce_add_sync(TOPKIT_FULL_MASK, sums);
        const unsigned taken_before = before >> 16 < left ? before >> 16 : left, taken = all >> 16 < left ? all >> 16 : left;
        if (sum >> 16 > left - taken_before) ties = topkit_emit_first(g, ties, left - taken_before);
        mask |= ties;
        if (__any_sync(TOPKIT_FULL_MASK, mask != 0))
            topkit_emit_tile(g, e, tile.first, mask, (int)(filled + (before & 0xffffu) + taken_before));
        filled += (all & 0xffffu) + taken;
        left -= taken;
        turn ^= 32u;
    }
    topkit_group_sync(g);
}

#endif
