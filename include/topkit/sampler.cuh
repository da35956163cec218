/* topkit/sampler.cuh: a stratified sample of a row, for the threshold proposer.
 *
 * The row is cut into strata of `stride` scores, and of each one vector of `width` neighbours is taken, anywhere in it: where is drawn
 * from a seed, for each stratum by itself. Whoever does not know the seed can not lay a row so that its sample is misleading, not even
 * for some of the seeds: one phase for the whole row would leave him few classes of scores to play with. Memory moves sectors of
 * 32 bytes, and DRAM bursts of 64: width 1 wastes most of what it moves, 8 or 16 nothing, but scores of one vector are often alike and
 * count for less than as many single ones. Sampling only proposes: nothing here can change an answer.
 *
 *   scope         group
 *   storage       `count` floats of caller's shared (or global) memory, 16-byte aligned unless the width is 1
 *   sync          no barrier. Direct: sync the group before reading. Asynchronous: each thread waits, then sync the group
 *   determinism   the same seed gives the same sample
 *   cost          the 32-byte sectors of memory that the vectors touch; about 15 instructions for each 16 bytes
 *
 *   available = length - head                         head: scores before the first 16-byte boundary; 0 for width 1
 *   place(j)  = j * stride + width * floor(hash(hash(seed) + j) * (stride / width) / 2^32)           vector j, behind the head
 *   vectors   = floor(available / stride), and one of the shorter stratum behind them where place(vectors) + width <= available
 *   count     = vectors * width
 *
 * A division costs as much as the rest of a plan; there is one.
 *
 * topkit_sample_vector is the same in short, for those who need a rough idea soon: a vector of 4 for each thread, in its registers.
 *
 * Worked numbers: 10 aligned scores, stride 4, width 1: one of scores 0..3, one of 4..7 and, by half of the seeds, 8 or 9: count 2 or 3.
 * Width 4, stride 4: scores 0..7, count 8.
 */
#ifndef TOPKIT_SAMPLER_CUH
#define TOPKIT_SAMPLER_CUH

#include "topkit/row.cuh"

typedef struct topkit_sampling {
    const float *first; /* the first stratum */
    int stride;         /* scores of a stratum, a multiple of width */
    int width;          /* scores a vector: 1, 4, 8, 16, .. */
    int vectors;        /* vectors in the sample */
    unsigned seed;      /* hashed */
} topkit_sampling;

/* A 32-bit mix (xor-shift-multiply, full avalanche): neighbouring numbers become unrelated ones. */
TOPKIT_FN unsigned topkit_hash(unsigned x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Where vector j begins in its stratum. */
TOPKIT_FN int topkit__sample_phase(topkit_sampling s, int j) {
    const int shift = 31 - __clz(s.width);
    return (int)__umulhi(topkit_hash(s.seed + (unsigned)j), (unsigned)(s.stride >> shift)) << shift;
}
/* Vector j. */
TOPKIT_FN const float *topkit__sample_at(topkit_sampling s, int j) {
    return s.first + (long long)j * s.stride + topkit__sample_phase(s, j);
}

TOPKIT_FN topkit_sampling topkit_sample_plan(topkit_row row, int stride, int width, unsigned seed) {
    topkit_sampling s;
    const int head = width == 1 ? 0 : topkit_row_tiles(row).head, available = row.length - head;
    TOPKIT_ASSERT(width >= 1 && width != 2 && (width & (width - 1)) == 0 && stride >= width && stride % width == 0);
    s.first = row.scores + head;
    s.stride = stride;
    s.width = width;
    s.vectors = (int)((unsigned)available / (unsigned)stride);
    s.seed = topkit_hash(seed);
    if (topkit__sample_phase(s, s.vectors) + width <= available - s.vectors * stride) s.vectors++;
    return s;
}

TOPKIT_FN int topkit_sample_count(topkit_sampling s) { return s.vectors * s.width; }

/* Reads the sample into out[0 .. count). Work is dealt out by the 16 bytes (or the score), so that wide vectors keep all threads busy. */
TOPKIT_FN void topkit_sample(topkit_group g, topkit_sampling s, float *out) {
    const int quads = s.width / 4, shift = 31 - __clz(quads | 1), pieces = s.width == 1 ? s.vectors : s.vectors * quads;
    TOPKIT_ASSERT(s.width == 1 || ((unsigned long long)out & 15) == 0);
    for (int i = (int)g.thread; i < pieces; i += (int)g.size) {
        if (s.width == 1) out[i] = *topkit__sample_at(s, i);
        else ((float4 *)out)[i] = ((const float4 *)topkit__sample_at(s, i >> shift))[i & (quads - 1)];
    }
}

/* Starts the same copy without waiting; each thread then calls topkit_copy_async_wait and syncs the group. `out` is shared memory. All
 * of it is under way at once, where the direct copy waits for memory in each turn of its loop. */
TOPKIT_FN void topkit_sample_async(topkit_group g, topkit_sampling s, float *out) {
    const int quads = s.width / 4, shift = 31 - __clz(quads | 1), pieces = s.width == 1 ? s.vectors : s.vectors * quads;
    TOPKIT_ASSERT(s.width == 1 || ((unsigned long long)out & 15) == 0);
    for (int i = (int)g.thread; i < pieces; i += (int)g.size) {
        if (s.width == 1) topkit_copy_async_4(out + i, topkit__sample_at(s, i));
        else topkit_copy_async_16(out + i * 4, topkit__sample_at(s, i >> shift) + (i & (quads - 1)) * 4);
    }
    topkit_copy_async_commit();
}

/* A sample that needs no memory: each thread of the group takes a vector of 4 from a stratum of its own, neighbouring lanes from strata far
 * apart; or all vectors where there are fewer. Returns how many threads hold one, the first ones. The seed is not hashed. */
TOPKIT_FN int topkit_sample_vector(topkit_group g, topkit_row row, unsigned seed, float4 *mine) {
    const topkit_tiles tiles = topkit_row_tiles(row);
    const unsigned spread = topkit_lane(g) * 11 % TOPKIT_WARP, stratum = spread * topkit_warps(g) + topkit_warp_rank(g);
    const unsigned stride = (unsigned)tiles.vectors / g.size;
    const unsigned at = stride > 0 ? stratum * stride + __umulhi(topkit_hash(topkit_hash(seed) + stratum), stride) : g.thread;
    const int holders = tiles.vectors < (int)g.size ? tiles.vectors : (int)g.size;
    *mine = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if ((int)g.thread < holders) *mine = ((const float4 *)(row.scores + tiles.head))[at];
    return holders;
}

#endif
