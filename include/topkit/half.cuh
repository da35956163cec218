/* topkit/half.cuh: rows of 16-bit scores, bfloat16 or fp16: half the bytes, compared by pairs, and only candidates widened.
 *
 * A tile is 1024 scores in the same 2 KB and 16 registers a lane as one of floats: the same vectors, with two scores in each of a lane's 16
 * words. Candidates hold the widened scores' bits, so that everything behind the collector (compaction, refiner, order) is as for floats,
 * and a sink of pairs of the row's type writes the scores' own bits again. A row may begin at any score; no byte outside it is read.
 *
 *   scope         tiles: warp; word w of lane l holds the scores first + (w/4)*256 + l*8 + w%4*2 and + 1. scan, widen: group
 *   storage       as the collector's, with capacity >= k + TOPKIT_HALF_TILE; the sample's room for its widening
 *   sync          topkit_scan and the tiles as in collector.cuh and row.cuh; widen: after the sample is complete and synced, one barrier
 *                 for each four words a thread and one at the end
 *   determinism   as the collector's
 *   cost          a tile: 16 packed compares and 16 logical instructions a lane (bfloat16 before compute capability 9.0: three times that)
 *
 * A gate's float is rounded up to the row's type: no score lies between the two, so that the packed compare decides as the float compare
 * would. It is a float compare too: it tells no zeros apart, flushes no denormals and knows NaNs.
 *
 * A sample is drawn as 32-bit words, as if the row were one of floats, and widened where it lies once it has arrived.
 *
 * Worked numbers: 2071 scores whose address is 6 bytes past a 16-byte boundary have a head of 5, 258 vectors and a tail of 2: tiles 0 and 1
 * are full (scores 5..1028 and 1029..2052), tile 2 holds 2 vectors (2053..2068), tile 3 is the edge: count = 4. A gate at 1.001f asks a
 * bfloat16 for 0x3f81 (1.0078125), an fp16 for 0x3c02 (1.001953125).
 */
#ifndef TOPKIT_HALF_CUH
#define TOPKIT_HALF_CUH

#include "topkit/collector.cuh"

#define TOPKIT_HALF_TILE (2 * TOPKIT_TILE)

template <typename SCORE>
struct topkit_half_tiles {
    const SCORE *scores;
    int length;
    int head;    /* scores before the first 16-byte boundary, 0 .. 7 */
    int vectors; /* aligned 16-byte vectors of 8 scores */
    int count;   /* tiles, the edge included where there is one */
};

template <typename SCORE>
TOPKIT_FN topkit_half_tiles<SCORE> topkit_half_row_tiles(topkit_row_of<SCORE> row) {
    topkit_half_tiles<SCORE> t;
    const int to_boundary = (int)((16 - ((unsigned long long)row.scores & 15)) & 15) / 2;
    t.scores = row.scores;
    t.length = row.length;
    t.head = to_boundary < row.length ? to_boundary : row.length;
    t.vectors = (row.length - t.head) / 8;
    t.count = (t.vectors + TOPKIT_TILE_VECTORS - 1) / TOPKIT_TILE_VECTORS + (t.head > 0 || t.head + t.vectors * 8 < t.length);
    return t;
}

/* The edge: lane 0 holds the head, lane 1 the tail, in its first four words. Called by a whole warp. */
template <typename SCORE>
TOPKIT_FN void topkit_half_tile_load_edge(topkit_half_tiles<SCORE> t, unsigned lane, topkit_tile *tile) {
    const int tail = t.head + t.vectors * 8, scores = lane == 0 ? t.head : lane == 1 ? t.length - tail : 0;
    const SCORE *p = lane == 0 ? t.scores : t.scores + tail;
    const float4 none = {0.0f, 0.0f, 0.0f, 0.0f};
    unsigned word[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 7; i++) word[i / 2] |= i < scores ? (unsigned)p[i].bits << (i % 2 * 16) : 0;
    tile->first = lane == 0 ? 0 : tail - 8;
    tile->valid = ((1u << ((scores + 1) / 2)) - 1) | ((1u << (scores / 2)) - 1) << 16; /* even places are low halves */
    tile->v[0].x = __uint_as_float(word[0]);
    tile->v[0].y = __uint_as_float(word[1]);
    tile->v[0].z = __uint_as_float(word[2]);
    tile->v[0].w = __uint_as_float(word[3]);
    tile->v[1] = tile->v[2] = tile->v[3] = none;
}

/* Loads tile `n` of 0 .. count-1. Bit w of `valid` says that the low half of word w is a score of the row, bit 16 + w the high half. */
template <typename SCORE>
TOPKIT_FN void topkit_half_tile_load(topkit_half_tiles<SCORE> t, int n, unsigned lane, topkit_tile *tile) {
    const int left = t.vectors - n * TOPKIT_TILE_VECTORS;
    if (left <= 0) {
        topkit_half_tile_load_edge(t, lane, tile);
        return;
    }
    topkit_tile_load_from((const float4 *)(t.scores + t.head) + n * TOPKIT_TILE_VECTORS, left, t.head + n * TOPKIT_HALF_TILE, true, lane,
                          tile);
    tile->valid |= tile->valid << 16;
}

/* What the packed compare asks for: the smallest score of the type that is not below a gate's float, in both halves. */
template <typename SCORE>
TOPKIT_FN unsigned topkit_half_gate_value(topkit_gate gate) {
    const unsigned bits = __float_as_uint(gate.value);
    SCORE score;
    topkit_narrow(bits, &score); /* towards zero: up already where it is negative */
    if (!(bits >> 31) && topkit_widen(score) != bits) score.bits++;
    return score.bits * 0x10001u;
}

TOPKIT_FN unsigned topkit__half_compare(unsigned pair, unsigned value, topkit_bf16) {
    return TOPKIT_NAN == TOPKIT_NAN_LOWEST ? topkit_bf16x2_ge(pair, value) : topkit_bf16x2_not_lt(pair, value);
}
TOPKIT_FN unsigned topkit__half_compare(unsigned pair, unsigned value, topkit_f16) {
    return TOPKIT_NAN == TOPKIT_NAN_LOWEST ? topkit_f16x2_ge(pair, value) : topkit_f16x2_not_lt(pair, value);
}

/* Which of a lane's 32 scores pass the packed compare, laid out as `valid`. */
template <typename SCORE>
TOPKIT_FN unsigned topkit_half_tile_mask(const topkit_tile *tile, unsigned value) {
    const SCORE type = {0};
    unsigned mask = 0;
#pragma unroll
    for (int u = 0; u < 4; u++) {
        const float4 v = tile->v[u];
        mask |= topkit__half_compare(__float_as_uint(v.x), value, type) & 0x00010001u << (u * 4);
        mask |= topkit__half_compare(__float_as_uint(v.y), value, type) & 0x00020002u << (u * 4);
        mask |= topkit__half_compare(__float_as_uint(v.z), value, type) & 0x00040004u << (u * 4);
        mask |= topkit__half_compare(__float_as_uint(v.w), value, type) & 0x00080008u << (u * 4);
    }
    return mask;
}

/* The score in a half of a word, as a candidate: `bit` 0..15 says the low half, 16..31 the high one; `index` is the low half's. */
template <typename SCORE>
TOPKIT_FN topkit_candidate topkit__half_candidate(float word, int index, int bit) {
    const SCORE score = {(unsigned short)(__float_as_uint(word) >> (bit & 16))};
    const topkit_candidate candidate = {topkit_widen(score), index + (bit >> 4)};
    return candidate;
}

/* A gate and what the packed compare asks for: at its bound, and behind it, where only better scores count. */
typedef struct topkit_half_gate {
    topkit_gate gate;
    unsigned value, better;
} topkit_half_gate;

template <typename SCORE>
TOPKIT_FN topkit_half_gate topkit_half_gate_of(topkit_gate gate) {
    topkit_half_gate half;
    half.gate = gate;
    half.value = topkit_half_gate_value<SCORE>(gate);
    half.better = topkit_half_gate_value<SCORE>(topkit_gate_at(gate.key, 0));
    return half;
}

/* The scores of a tile that the gate admits, as a lane's mask: topkit_gate_mask for 16-bit scores. */
template <int TIES, typename SCORE>
TOPKIT_FN unsigned topkit_half_gate_mask(topkit_group g, topkit_half_gate half, const topkit_tile *tile) {
    const int lane8 = (int)topkit_lane(g) * 8;
    topkit_gate gate = half.gate;
    unsigned value = half.value, mask;
    bool exact = TOPKIT_NAN == TOPKIT_NAN_HIGHEST && gate.key >= TOPKIT_KEY_POS_INF; /* no score is between +inf and NaN */
    if (TIES == TOPKIT_LOWEST_INDEX && gate.bound != TOPKIT_INDEX_LIMIT) {
        if (tile->first >= gate.bound) {
            gate.bound = 0;
            value = half.better;
        } else {
            exact |= tile->first + TOPKIT_HALF_TILE > gate.bound;
        }
    }
    if (TOPKIT_NAN == TOPKIT_NAN_LOWEST && topkit_gate_is_open(gate)) mask = tile->valid;
    else mask = topkit_half_tile_mask<SCORE>(tile, value) & tile->valid;
    if (exact) {
        for (unsigned rest = mask; rest; rest &= rest - 1) {
            const int bit = __ffs((int)rest) - 1;
            const float4 v = (bit & 8) ? ((bit & 4) ? tile->v[3] : tile->v[2]) : ((bit & 4) ? tile->v[1] : tile->v[0]);
            const float word = (bit & 2) ? ((bit & 1) ? v.w : v.z) : ((bit & 1) ? v.y : v.x);
            const int index = tile->first + lane8 + (bit >> 2 & 3) * 256 + (bit & 3) * 2;
            const topkit_candidate candidate = topkit__half_candidate<SCORE>(word, index, bit);
            if (!topkit_gate_admits(gate, candidate.bits, candidate.index)) mask &= ~(1u << bit);
        }
    }
    return mask;
}

/* Compares a tile with the gate and appends. False: no room; offer the tile again after a compaction. */
template <int TIES, typename SCORE>
TOPKIT_FN bool topkit_half_collect(topkit_group g, topkit_collector c, topkit_half_gate half, const topkit_tile *tile) {
    unsigned mask = topkit_half_gate_mask<TIES, SCORE>(g, half, tile);
    if (!__any_sync(TOPKIT_FULL_MASK, mask != 0)) return true;
    topkit_candidate *slot;
    float4 *stage = (float4 *)c.stage + topkit_lane(g);
    TOPKIT_ASSERT(((unsigned long long)c.stage & 15) == 0);
#pragma unroll
    for (int u = 0; u < 4; u++) stage[u * 32] = tile->v[u]; /* a lane reads back only what it wrote: no sync */
    if (!topkit_collect_reserve(g, c, (unsigned)__popc(mask), &slot)) return false;
    const int mine = (int)topkit_lane(g) * 4;
    for (; mask; mask &= mask - 1) {
        const int bit = __ffs((int)mask) - 1, word = mine + (bit >> 2 & 3) * 128 + (bit & 3);
        *slot++ = topkit__half_candidate<SCORE>(c.stage[word], tile->first + word * 2, bit);
    }
    return true;
}

/* topkit_scan for a row of 16-bit scores: the contract of collector.cuh's, with tiles of TOPKIT_HALF_TILE. */
template <int TIES, typename SCORE>
TOPKIT_FN int topkit_scan(topkit_group g, topkit_row_of<SCORE> row, int k, topkit_gate gate, unsigned salt, topkit_collector c,
                          topkit_refiner_storage *r) {
    const topkit_half_tiles<SCORE> tiles = topkit_half_row_tiles(row);
    int n = (int)topkit_warp_rank(g);
    TOPKIT_ASSERT(k >= 1 && c.capacity >= k + TOPKIT_HALF_TILE);
    for (;;) {
        const topkit_half_gate half = topkit_half_gate_of<SCORE>(gate);
        for (; n < tiles.count; n += (int)topkit_warps(g)) {
            topkit_tile tile;
            topkit_half_tile_load(tiles, topkit_visit(n, tiles.count, salt), topkit_lane(g), &tile);
            if (!topkit_half_collect<TIES, SCORE>(g, c, half, &tile)) break;
        }
        topkit_group_sync(g);
        if (!topkit_collector_overflowed(c)) break;
        gate = topkit_compact<TIES>(g, c, k, r);
    }
    const int held = topkit_collector_held(c);
    topkit_group_sync(g);
    return held;
}

/* The row's aligned words, two scores each, for the sampler. Up to 7 scores before them and one behind are left out. */
template <typename SCORE>
TOPKIT_FN topkit_row topkit_half_words(topkit_row_of<SCORE> row) {
    const int head = topkit_half_row_tiles(row).head;
    const topkit_row words = {(const float *)(row.scores + head), (row.length - head) / 2};
    return words;
}

/* Widens a sample of `words` words, a multiple of 4, in place to 2 * words floats. Ends with a barrier. From the end to the front: what
 * is written lies at or behind what has been read. */
template <typename SCORE>
TOPKIT_FN void topkit_half_widen(topkit_group g, float *sample, int words) {
    const int vectors = words / 4;
    TOPKIT_ASSERT(words % 4 == 0 && ((unsigned long long)sample & 15) == 0);
    for (int base = (vectors - 1) / (int)g.size * (int)g.size; base >= 0; base -= (int)g.size) {
        const int n = base + (int)g.thread;
        float4 pairs = {0.0f, 0.0f, 0.0f, 0.0f};
        if (n < vectors) pairs = ((const float4 *)sample)[n];
        topkit_group_sync(g);
        if (n < vectors) {
            const float word[4] = {pairs.x, pairs.y, pairs.z, pairs.w};
            float wide[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const SCORE score = {(unsigned short)(__float_as_uint(word[i / 2]) >> (i % 2 * 16))};
                wide[i] = __uint_as_float(topkit_widen(score));
            }
            const float4 front = {wide[0], wide[1], wide[2], wide[3]}, back = {wide[4], wide[5], wide[6], wide[7]};
            ((float4 *)sample)[n * 2] = front;
            ((float4 *)sample)[n * 2 + 1] = back;
        }
    }
    topkit_group_sync(g);
}

#endif
