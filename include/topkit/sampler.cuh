/* topkit/sampler.cuh: a systematic sample of a row, for the threshold proposer.
 *
 * Vector j of a sample is the `width` scores from head + phase + j*stride. The phase is drawn from a seed, so that a row whose values
 * repeat with the stride can not fool every launch alike. Memory moves sectors of 32 bytes, and DRAM bursts of 64: width 1 wastes most of
 * what it moves, 8 or 16 nothing, but scores of one vector are often alike and count for less than as many single ones. Sampling only
 * proposes: nothing here can change an answer.
 *
 *   scope         group
 *   storage       `count` floats of caller's shared (or global) memory, 16-byte aligned unless the width is 1
 *   sync          no barrier. Direct: sync the group before reading. Asynchronous: each thread waits, then sync the group
 *   determinism   the same seed gives the same sample
 *   cost          the 32-byte sectors of memory that the vectors touch
 *
 *   available = length - head                      head: scores before the first 16-byte boundary; 0 for width 1
 *   phase     = width * floor(hash(seed) * (stride / width) / 2^32)
 *   vectors   = available < phase + width ? 0 : (available - phase - width) / stride + 1        count = vectors * width
 *
 * A division costs as much as the rest of a plan; there is one.
 *
 * Worked numbers: 10 aligned scores, stride 4, width 1, phase 2: scores 2 and 6, count 2. Width 4, stride 4: scores 0..7, count 8.
 */
#ifndef TOPKIT_SAMPLER_CUH
#define TOPKIT_SAMPLER_CUH

#include "topkit/row.cuh"

typedef struct topkit_sampling {
    const float *first; /* first sampled score */
    int stride;         /* scores from one vector to the next, a multiple of width */
    int width;          /* scores a vector: 1, 4, 8, 16, .. */
    int vectors;        /* vectors in the sample */
} topkit_sampling;

/* A 32-bit mix (xor-shift-multiply, full avalanche): neighbouring rows get unrelated phases. */
TOPKIT_FN unsigned topkit_hash(unsigned x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

TOPKIT_FN topkit_sampling topkit_sample_plan(topkit_row row, int stride, int width, unsigned seed) {
    topkit_sampling s;
    const int head = width == 1 ? 0 : topkit_row_tiles(row).head;
    const int shift = 31 - __clz(width), phase = (int)__umulhi(topkit_hash(seed), (unsigned)(stride >> shift)) << shift;
    const int last = row.length - head - width - phase; /* the furthest that a vector may begin behind the first */
    TOPKIT_ASSERT(width >= 1 && width != 2 && (width & (width - 1)) == 0 && stride >= width && stride % width == 0);
    s.first = row.scores + head + (last < 0 ? 0 : phase);
    s.stride = stride;
    s.width = width;
    s.vectors = last < 0 ? 0 : (int)((unsigned)last / (unsigned)stride) + 1;
    return s;
}

TOPKIT_FN int topkit_sample_count(topkit_sampling s) { return s.vectors * s.width; }

/* Reads the sample into out[0 .. count). Work is dealt out by the 16 bytes (or the score), so that wide vectors keep all threads busy. */
TOPKIT_FN void topkit_sample(topkit_group g, topkit_sampling s, float *out) {
    const int quads = s.width / 4, shift = 31 - __clz(quads | 1), pieces = s.width == 1 ? s.vectors : s.vectors * quads;
    for (int i = (int)g.thread; i < pieces; i += (int)g.size) {
        if (s.width == 1) out[i] = s.first[(long long)i * s.stride];
        else ((float4 *)out)[i] = ((const float4 *)(s.first + (long long)(i >> shift) * s.stride))[i & (quads - 1)];
    }
}

/* Starts the same copy without waiting; each thread then calls topkit_copy_async_wait and syncs the group. `out` is shared memory. All
 * of it is under way at once, where the direct copy waits for memory in each turn of its loop. */
TOPKIT_FN void topkit_sample_async(topkit_group g, topkit_sampling s, float *out) {
    const int quads = s.width / 4, shift = 31 - __clz(quads | 1), pieces = s.width == 1 ? s.vectors : s.vectors * quads;
    for (int i = (int)g.thread; i < pieces; i += (int)g.size) {
        if (s.width == 1) topkit_copy_async_4(out + i, s.first + (long long)i * s.stride);
        else topkit_copy_async_16(out + i * 4, s.first + (long long)(i >> shift) * s.stride + (i & (quads - 1)) * 4);
    }
    topkit_copy_async_commit();
}

#endif
