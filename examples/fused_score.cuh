/* fused_score.cuh: from accumulators to scores: the epilogue's arithmetic, and the order of its sums.
 *
 * A product's 128 columns are 2 queries of 64 heads or 4 of 32. Lane c of four (c = lane mod 4) holds the heads h with (h / 2) mod 4 = c of
 * each of them, for two keys. The score of a key is, in FP32,
 *
 *   p_c   = the chain p = fma(weight[h], max(dot[h], 0), p) over those heads h in ascending order, from p = 0
 *   sum   = (p_0 + p_2) + (p_1 + p_3)
 *   score = sum * scale
 *
 * on every path and on the CPU executor. A dot product that is NaN counts as 0, as max(NaN, 0) does.
 *
 * Cost, for a lane's 64 accumulators of a product: 64 max and 64 fma, 8 loads of 4 weights, and to bring the sums of the four lanes
 * together 12 instructions for 64 heads (24 for 32): each exchange hands half of the sums to the partner, so that in
 * the end each lane has one whole score (two) and there is nothing left to broadcast. In sm_90a code of nvcc 13.0 the whole loop over a
 * tile, barriers, descriptors and compare included, has about 420 instructions for 64 heads and both halves of the columns: 3.3 for each
 * head of a score.
 */
#ifndef TOPKIT_FUSED_SCORE_CUH
#define TOPKIT_FUSED_SCORE_CUH

#include "fused_product.cuh"

#define TOPKIT_FUSED_WEIGHT_ROW 36 /* floats from one lane's weights to the next one's: 32, and 4 so that their banks differ */
#define TOPKIT_FUSED_WEIGHTS (4 * TOPKIT_FUSED_WEIGHT_ROW) /* of a product's columns */

/* Where the weight of a product's column lies. */
TOPKIT_PRODUCT_FN unsigned topkit_fused_weight_at(unsigned column) {
    return (column >> 1 & 3) * TOPKIT_FUSED_WEIGHT_ROW + (column >> 3) * 2 + (column & 1);
}

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

/* Sums of four values over four lanes, one for each lane: lane c gets the sum of v[c]. */
TOPKIT_PRODUCT_FN float topkit_fused_deal(unsigned lane, float v0, float v1, float v2, float v3) {
    const bool upper = (lane & 2) != 0, odd = (lane & 1) != 0;
    const float a = (upper ? v2 : v0) + __shfl_xor_sync(TOPKIT_FULL_MASK, upper ? v0 : v2, 2);
    const float b = (upper ? v3 : v1) + __shfl_xor_sync(TOPKIT_FULL_MASK, upper ? v1 : v3, 2);
    return (odd ? b : a) + __shfl_xor_sync(TOPKIT_FULL_MASK, odd ? a : b, 1);
}

/* A lane's weights of a product's columns. */
typedef struct topkit_fused_weights {
    float4 of[TOPKIT_FUSED_SUMS / 8]; /* of[j / 2] has those of steps j and j + 1 of 8 columns, two each */
} topkit_fused_weights;
TOPKIT_PRODUCT_FN topkit_fused_weights topkit_fused_weights_of(unsigned lane, const float *shared) {
    topkit_fused_weights w;
#pragma unroll
    for (int i = 0; i < TOPKIT_FUSED_SUMS / 8; i++) w.of[i] = ((const float4 *)(shared + (lane & 3) * TOPKIT_FUSED_WEIGHT_ROW))[i];
    return w;
}

/* The sums over heads, not yet scaled. */
template <int HEADS>
TOPKIT_PRODUCT_FN topkit_fused_scores_of<HEADS> topkit_fused_sum(unsigned lane, const float (&d)[TOPKIT_FUSED_SUMS],
                                                                 const topkit_fused_weights &w) {
    const int queries = TOPKIT_FUSED_HALF / HEADS, steps = HEADS / 8; /* 8 columns a step, two of them this lane's */
    float p[queries][2];
#pragma unroll
    for (int q = 0; q < queries; q++) p[q][0] = p[q][1] = 0.0f;
#pragma unroll
    for (int pair = 0; pair < steps / 2; pair++) { /* step by step through all queries: as many independent chains as there are sums */
#pragma unroll
        for (int q = 0; q < queries; q++) {
            const int j = q * steps + pair * 2;
            const float4 v = w.of[j / 2];
#pragma unroll
            for (int r = 0; r < 2; r++) {
                p[q][r] = fmaf(v.x, fmaxf(d[4 * j + 2 * r], 0.0f), p[q][r]);
                p[q][r] = fmaf(v.y, fmaxf(d[4 * j + 2 * r + 1], 0.0f), p[q][r]);
                p[q][r] = fmaf(v.z, fmaxf(d[4 * j + 4 + 2 * r], 0.0f), p[q][r]);
                p[q][r] = fmaf(v.w, fmaxf(d[4 * j + 4 + 2 * r + 1], 0.0f), p[q][r]);
            }
        }
    }
    topkit_fused_scores_of<HEADS> s;
    if (HEADS == 64) {
        s.score[0] = topkit_fused_deal(lane, p[0][0], p[0][1], p[1][0], p[1][1]);
    } else {
#pragma unroll
        for (int r = 0; r < 64 / HEADS; r++) s.score[r] = topkit_fused_deal(lane, p[0][r], p[1][r], p[queries - 2][r], p[queries - 1][r]);
    }
    return s;
}

#endif
