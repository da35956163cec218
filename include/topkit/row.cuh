/* topkit/row.cuh: a ragged row of scores and its tiles.
 *
 * A row is `length` floats from `scores`, on any 4-byte boundary. It is read in tiles of TOPKIT_TILE scores, one warp a tile, as aligned
 * 16-byte vectors; the up to three scores before the first aligned vector and the up to three behind the last one are the edge,
 * an extra tile of its own. No byte outside the row is ever read.
 *
 *   scope         warp: all 32 lanes call; lane l holds scores l*4 .. l*4+3 of each 128 in the tile
 *   limits        at most 2^31 - 2^16 scores: indices and a tile's overshoot are ints
 *   storage       16 registers a lane for a tile
 *   sync          none; of tiles that are copied first (topkit_tile_copy_async): wait, then sync the warp. topkit_tile_load reads through
 *                 the read-only cache: global memory that nothing writes while the kernel runs
 *   determinism   yes
 *   cost          4 loads of 16 bytes a lane and tile
 *
 * Worked numbers: 1037 scores whose address is 4 bytes past a 16-byte boundary have a head of 3, 258 vectors, a tail of 2: tiles 0 and 1
 * are full (scores 3..514 and 515..1026), tile 2 holds 2 vectors (1027..1034), tile 3 is the edge (0, 1, 2 and 1035, 1036): count = 4.
 */
#ifndef TOPKIT_ROW_CUH
#define TOPKIT_ROW_CUH

#include "topkit/group.cuh"

#define TOPKIT_TILE 512         /* scores in a tile */
#define TOPKIT_TILE_VECTORS 128 /* the same in 16-byte vectors, 4 a lane */
#define TOPKIT_INDEX_LIMIT 0x7fffffff

template <typename SCORE>
struct topkit_row_of {
    const SCORE *scores; /* first score, aligned to its size */
    int length;          /* scores, 0 or more */
};
typedef topkit_row_of<float> topkit_row; /* half.cuh has what rows of 16-bit scores need */

/* Row `r` of a ragged batch. Lengths and starts may be null (max_length and 0); a length below 0 counts as 0, one above max_length as
 * that. The start of an empty row is not looked at. */
template <typename SCORE>
TOPKIT_FN topkit_row_of<SCORE> topkit_row_at(const SCORE *scores, long long row_stride, const int *starts, const int *lengths,
                                             int max_length, int r) {
    topkit_row_of<SCORE> row;
    const int length = lengths ? lengths[r] : max_length;
    row.length = length < 0 ? 0 : length > max_length ? max_length : length;
    row.scores = scores + (long long)r * row_stride + (starts && row.length ? starts[r] : 0);
    return row;
}

typedef struct topkit_tiles {
    const float *scores;
    int length;
    int head;    /* scores before the first 16-byte boundary, 0 .. 3 */
    int vectors; /* aligned 16-byte vectors */
    int count;   /* tiles, the edge included where there is one */
} topkit_tiles;

TOPKIT_FN bool topkit_tiles_have_edge(topkit_tiles t) { return t.head > 0 || t.head + t.vectors * 4 < t.length; }

TOPKIT_FN topkit_tiles topkit_row_tiles(topkit_row row) {
    topkit_tiles t;
    const int to_boundary = (int)((16 - ((unsigned long long)row.scores & 15)) & 15) / 4;
    t.scores = row.scores;
    t.length = row.length;
    t.head = to_boundary < row.length ? to_boundary : row.length;
    t.vectors = (row.length - t.head) / 4;
    t.count = (t.vectors + TOPKIT_TILE_VECTORS - 1) / TOPKIT_TILE_VECTORS + topkit_tiles_have_edge(t);
    return t;
}

/* One lane's share of a tile. Bit u*4+c of `valid` says that component c of v[u] is a score of the row; its index is then
 * first + u*128 + lane*4 + c. */
typedef struct topkit_tile {
    float4 v[4];
    unsigned valid;
    int first;
} topkit_tile;

TOPKIT_FN float4 topkit__edge_vector(const float *p, int scores) {
    float4 v = {0.0f, 0.0f, 0.0f, 0.0f};
    if (scores > 0) v.x = p[0];
    if (scores > 1) v.y = p[1];
    if (scores > 2) v.z = p[2];
    return v;
}

/* The edge: lane 0 holds the head, lane 1 the tail, with `first` such that the index formula holds. Called by a whole warp. */
TOPKIT_FN void topkit_tile_load_edge(topkit_tiles t, unsigned lane, topkit_tile *tile) {
    const int tail = t.head + t.vectors * 4;
    const float4 none = {0.0f, 0.0f, 0.0f, 0.0f};
    const int scores = lane == 0 ? t.head : lane == 1 ? t.length - tail : 0;
    tile->first = lane == 0 ? 0 : tail - 4;
    tile->valid = (1u << scores) - 1;
    tile->v[0] = topkit__edge_vector(lane == 0 ? t.scores : t.scores + tail, scores);
    tile->v[1] = tile->v[2] = tile->v[3] = none;
}

/* A tile of which `left` vectors belong to the row (128 or more: all), from `p`, its first vector in global or shared memory. */
TOPKIT_FN void topkit_tile_load_from(const float4 *p, int left, int first, bool streams, unsigned lane, topkit_tile *tile) {
    TOPKIT_ASSERT(((unsigned long long)p & 15) == 0);
    tile->first = first;
    tile->valid = 0xffffu;
    if (left >= TOPKIT_TILE_VECTORS) {
#pragma unroll
        for (int u = 0; u < 4; u++) tile->v[u] = streams ? topkit_load_stream(p + u * 32 + lane) : p[u * 32 + lane];
    } else {
        const float4 none = {0.0f, 0.0f, 0.0f, 0.0f};
        tile->valid = 0;
#pragma unroll
        for (int u = 0; u < 4; u++) {
            const bool inside = u * 32 + (int)lane < left;
            tile->v[u] = none;
            if (inside) tile->v[u] = streams ? topkit_load_stream(p + u * 32 + lane) : p[u * 32 + lane];
            tile->valid |= inside ? 0xfu << (u * 4) : 0;
        }
    }
}

/* Loads tile `n` of 0 .. count-1 from the row's memory. Called by a whole warp. */
TOPKIT_FN void topkit_tile_load(topkit_tiles t, int n, unsigned lane, topkit_tile *tile) {
    const int left = t.vectors - n * TOPKIT_TILE_VECTORS;
    if (left <= 0) topkit_tile_load_edge(t, lane, tile);
    else
        topkit_tile_load_from((const float4 *)(t.scores + t.head) + n * TOPKIT_TILE_VECTORS, left, t.head + n * TOPKIT_TILE, true, lane,
                              tile);
}

/* The same in two steps, through shared memory: starts copying tile n, or the edge, to `place` (512 floats, 16-byte aligned); wait for the
 * copies (topkit_copy_async_wait), sync the warp, load. Called by a whole warp. */
TOPKIT_FN void topkit_tile_copy_async(topkit_tiles t, int n, unsigned lane, float *place) {
    const int left = t.vectors - n * TOPKIT_TILE_VECTORS;
    const float *from = t.scores + t.head + n * TOPKIT_TILE;
    TOPKIT_ASSERT(((unsigned long long)place & 15) == 0);
    if (left > 0) {
#pragma unroll
        for (int u = 0; u < 4; u++) {
            const int v = u * 32 + (int)lane;
            if (v < left) topkit_copy_async_16(place + v * 4, from + v * 4);
        }
    } else { /* the head where lane 0 looks for it, the tail where lane 1 does */
        const int tail = t.head + t.vectors * 4;
        if ((int)lane < t.head) topkit_copy_async_4(place + lane, t.scores + lane);
        if ((int)lane < t.length - tail) topkit_copy_async_4(place + 4 + lane, t.scores + tail + lane);
    }
}

TOPKIT_FN void topkit_tile_load_copied(topkit_tiles t, int n, unsigned lane, const float *place, topkit_tile *tile) {
    const int left = t.vectors - n * TOPKIT_TILE_VECTORS;
    topkit_tile_load_from((const float4 *)place, left > 0 ? left : 2, t.head + n * TOPKIT_TILE, false, lane, tile);
    if (left <= 0) {
        const int tail = t.head + t.vectors * 4;
        tile->valid = (1u << (lane == 0 ? t.head : lane == 1 ? t.length - tail : 0)) - 1;
        tile->first = lane == 0 ? 0 : tail - 4;
    }
}

#define TOPKIT_ASCENDING 0u

/* The n-th of `count` tiles to be visited: the n-th of the row where `salt` is TOPKIT_ASCENDING, else of an order drawn from the salt, a
 * permutation whose every beginning is spread over the whole row. Whoever does not know the salt can not lay a row so that its scores rise
 * in that order. Four rounds on the numbers below a power of two, each of which can be undone; a result that is no tile goes round again,
 * less than once on average. */
TOPKIT_FN int topkit_visit(int n, int count, unsigned salt) {
    if (salt == TOPKIT_ASCENDING) return n;
    TOPKIT_ASSERT(n >= 0 && n < count); /* else it could go round for ever */
    const int bits = 32 - __clz((count - 1) | 1), half = (bits + 1) / 2;
    const unsigned mask = 0xffffffffu >> (32 - bits);
    unsigned x = (unsigned)n;
    do {
        unsigned key = salt;
#pragma unroll 1
        for (int round = 0; round < 4; round++) { /* unrolled it would take registers from the scan around it */
            key = key * 0x2c9277b5u + 0xac564b05u;
            x = (x + (key >> 8)) * (key >> 16 | 1) & mask;
            x ^= x >> half;
        }
    } while (x >= (unsigned)count);
    return (int)x;
}

#endif
