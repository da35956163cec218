/* topkit/key.cuh: order-preserving sort keys. A larger score has a larger key; integer compares and digits replace float compares.
 *
 *   scope         thread
 *   storage       none
 *   determinism   yes; the sign and payload of a NaN and the sign of a zero never matter
 *   cost          5 integer instructions a score; widening 1 (bf16) or about 10 (fp16), narrowing likewise
 *
 * The order is total: -0 and +0 share a key, -inf and +inf are ordinary, and all NaNs share one key, below -inf or above +inf
 * (TOPKIT_NAN). Candidates are stored as raw bits, so that values come back bit for bit; keys are derived when they are needed.
 *
 * Worked numbers (NaN lowest): NaN 0x00000000, -inf 0x007fffff, -1 0x407fffff, -0 and +0 0x80000000, 1 0xbf800000, +inf 0xff800000.
 * Source: the sign-flip map is folklore (radix sort of floats); zeros and NaNs are folded in for this contract.
 */
#ifndef TOPKIT_KEY_CUH
#define TOPKIT_KEY_CUH

#include "topkit/ptx.cuh"

#define TOPKIT_KEY_NEG_INF 0x007fffffu
#define TOPKIT_KEY_POS_INF 0xff800000u
#define TOPKIT_KEY_NAN (TOPKIT_NAN == TOPKIT_NAN_LOWEST ? 0u : 0xffffffffu)

/* The sort key of the float with these bits. Adding +0 makes -0 into +0 and changes no other number; selects, not branches: candidates
 * differ from lane to lane. */
TOPKIT_FN unsigned topkit_key(unsigned bits) {
    const float x = topkit_add_zero(__uint_as_float(bits));
    const unsigned b = __float_as_uint(x), key = b ^ ((unsigned)((int)b >> 31) | 0x80000000u);
    return x == x ? key : TOPKIT_KEY_NAN;
}

/* The bits of a float with this key; -inf for a key below -inf's, and for keys above +inf's a NaN (lowest) or +inf (highest). */
TOPKIT_FN unsigned topkit_key_bits(unsigned key) {
    if (key <= TOPKIT_KEY_NEG_INF) return 0xff800000u;
    if (key > TOPKIT_KEY_POS_INF) return TOPKIT_NAN == TOPKIT_NAN_LOWEST ? 0x7fc00000u : 0x7f800000u;
    return (key & 0x80000000u) ? key & 0x7fffffffu : ~key;
}

/* One number that orders (score, index) pairs: by key, and among equal keys the lower index is the greater pair. Pairs are distinct. */
TOPKIT_FN unsigned long long topkit_pair_key(unsigned key, int index) {
    return (unsigned long long)key << 32 | (unsigned)~index;
}

/* Half-precision scores widen exactly: a bf16 is the upper half of a float, an fp16 is rebiased (denormals normalise, NaNs stay NaN). */
TOPKIT_FN unsigned topkit_bf16_bits(unsigned short h) { return (unsigned)h << 16; }

TOPKIT_FN unsigned topkit_f16_bits(unsigned short h) {
    const unsigned sign = (unsigned)(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u) return sign | 0x7f800000u | (magnitude & 0x3ffu) << 13;
    if (magnitude >= 0x0400u) return sign | ((magnitude << 13) + 0x38000000u);
    if (magnitude == 0) return sign;
    const unsigned shift = (unsigned)__clz((int)magnitude) - 21; /* 1 .. 10: brings the leading one to bit 10 */
    return sign | (((113u - shift) << 23) + ((magnitude << shift & 0x3ffu) << 13));
}

/* The three types of scores: float and these two, plain bits. Whatever a score's type, a candidate holds what topkit_widen gives, and
 * topkit_narrow gives the score's own bits back, payloads of NaNs included. Bits of other floats are narrowed towards zero. */
typedef struct topkit_bf16 {
    unsigned short bits;
} topkit_bf16;
typedef struct topkit_f16 {
    unsigned short bits;
} topkit_f16;

TOPKIT_FN unsigned topkit_widen(float score) { return __float_as_uint(score); }
TOPKIT_FN unsigned topkit_widen(topkit_bf16 score) { return topkit_bf16_bits(score.bits); }
TOPKIT_FN unsigned topkit_widen(topkit_f16 score) { return topkit_f16_bits(score.bits); }

TOPKIT_FN void topkit_narrow(unsigned bits, float *score) { *score = __uint_as_float(bits); }
TOPKIT_FN void topkit_narrow(unsigned bits, topkit_bf16 *score) { score->bits = (unsigned short)(bits >> 16); }
TOPKIT_FN void topkit_narrow(unsigned bits, topkit_f16 *score) {
    const unsigned magnitude = bits & 0x7fffffffu, shift = 126u - (magnitude >> 23);
    unsigned narrow = (magnitude - 0x38000000u) >> 13;                                                      /* rebiased */
    if (magnitude < 0x38800000u) narrow = shift > 24u ? 0 : ((magnitude & 0x7fffffu) | 0x800000u) >> shift; /* a denormal, or 0 */
    if (magnitude >= 0x47800000u) narrow = 0x7bffu;                                                         /* too large: the largest */
    if (magnitude >= 0x7f800000u) narrow = 0x7c00u | (magnitude >> 13 & 0x3ffu);
    score->bits = (unsigned short)((bits >> 16 & 0x8000u) | narrow);
}

#endif
