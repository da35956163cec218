/* fused_score.cuh: from accumulators to scores: the epilogue's arithmetic, and the order of its sums.
 *
 * A product's 128 columns are 2 queries of 64 heads or 4 of 32. They are dealt out so that lane c of four (c = lane mod 4) holds 32 heads
 * of one query, for two keys. The score of a key is, in FP32, for each 32 heads, h = 0, 32:
 *
 *   p     = the chain p = fma(weight[g], max(dot[g], 0), p) over the even heads g = h, h + 2, .. h + 30, from p = 0
 *   q     = the chain q = fma(weight[g], max(dot[g], 0) / 2^25, q) over the odd ones, g = h + 1, h + 3, .. h + 31, from q = 0
 *   s_h   = fma(q, 2^25, p), which is p + q (a sum of odd heads below 2^-100 may lose bits on its way)
 *   score = s_0 * scale, or (s_0 + s_32) * scale of 64 heads
 *
 * on every path and on the CPU executor. A dot product that is NaN counts as 0, as max(NaN, 0) does.
 *
 * Cost, for a lane's 64 accumulators of a product: 32 max, 32 saturating multiplications and 64 fma, in four chains. max has half the
 * rate of the others, so half of them go another way. Then 2 instructions for 32 heads, which need no other lane; 6 for 64 heads, one
 * of them an exchange by which each of two lanes ends with one whole score. Weights stay in registers.
 */
#ifndef TOPKIT_FUSED_SCORE_CUH
#define TOPKIT_FUSED_SCORE_CUH

#include "fused_product.cuh"

#define TOPKIT_FUSED_WEIGHT_ROW 36 /* floats from one lane's weights to the next one's: 32, and 4 so that their banks differ */
#define TOPKIT_FUSED_WEIGHTS (4 * TOPKIT_FUSED_WEIGHT_ROW) /* of a product's columns */

/* Head `head` of a product, counted over its queries: which column of it that is, and where its weight lies. */
TOPKIT_PRODUCT_FN unsigned topkit_fused_column(unsigned head) { return (head >> 1 & 15) * 8 + (head >> 5) * 2 + (head & 1); }
TOPKIT_PRODUCT_FN unsigned topkit_fused_weight_at(unsigned head) { return (head >> 5) * TOPKIT_FUSED_WEIGHT_ROW + (head & 31); }

/* Scores of a lane and a product: score i belongs to query _query(lane) of the product and to row _row(warp, lane, i) of the tile. */
template <int HEADS>
struct topkit_fused_scores_of {
    float score[64 / HEADS];
};
template <int HEADS>
TOPKIT_PRODUCT_FN int topkit_fused_query(unsigned lane) {
    return HEADS == 64 ? (int)(lane >> 1 & 1) : (int)(lane & 3);
}
template <int HEADS>
TOPKIT_PRODUCT_FN int topkit_fused_row(unsigned warp, unsigned lane, int i) {
    return (int)(warp * 16 + (lane >> 2)) + (HEADS == 64 ? (int)(lane & 1) : i) * 8;
}
/* The lanes that hold scores of the same query as this one. */
template <int HEADS>
TOPKIT_PRODUCT_FN unsigned topkit_fused_mates(unsigned lane) {
    return HEADS == 64 ? 0x33333333u << (lane & 2) : 0x11111111u << (lane & 3);
}

/* A lane's 32 weights. */
typedef struct topkit_fused_weights {
    float4 of[8];
} topkit_fused_weights;
TOPKIT_PRODUCT_FN topkit_fused_weights topkit_fused_weights_of(unsigned lane, const float *shared) {
    topkit_fused_weights w;
#pragma unroll
    for (int i = 0; i < 8; i++) w.of[i] = ((const float4 *)(shared + (lane & 3) * TOPKIT_FUSED_WEIGHT_ROW))[i];
    return w;
}

/* The sums over a lane's 32 heads, for two keys. */
typedef struct topkit_fused_shares {
    float of[2];
} topkit_fused_shares;
TOPKIT_PRODUCT_FN topkit_fused_shares topkit_fused_share_of(const float (&d)[TOPKIT_FUSED_SUMS], const topkit_fused_weights &w) {
    float even[2] = {0.0f, 0.0f}, odd[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float4 v = w.of[i];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            even[r] = fmaf(v.x, fmaxf(d[8 * i + 2 * r], 0.0f), even[r]);
            odd[r] = fmaf(v.y, topkit_fused_part(d[8 * i + 2 * r + 1]), odd[r]);
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            even[r] = fmaf(v.z, fmaxf(d[8 * i + 4 + 2 * r], 0.0f), even[r]);
            odd[r] = fmaf(v.w, topkit_fused_part(d[8 * i + 4 + 2 * r + 1]), odd[r]);
        }
    }
    const topkit_fused_shares shares = {{fmaf(odd[0], 0x1p25f, even[0]), fmaf(odd[1], 0x1p25f, even[1])}};
    return shares;
}

/* The sums over heads, not yet scaled. */
template <int HEADS>
TOPKIT_PRODUCT_FN topkit_fused_scores_of<HEADS> topkit_fused_sum(unsigned lane, topkit_fused_shares shares) {
    topkit_fused_scores_of<HEADS> s;
    if (HEADS == 64) { /* the even lane's key is the first one, the odd one's the second */
        const bool second = (lane & 1) != 0;
        s.score[0] = (second ? shares.of[1] : shares.of[0]) + __shfl_xor_sync(TOPKIT_FULL_MASK, second ? shares.of[0] : shares.of[1], 1);
    } else {
        s.score[0] = shares.of[0];
        s.score[64 / HEADS - 1] = shares.of[1];
    }
    return s;
}

#endif
