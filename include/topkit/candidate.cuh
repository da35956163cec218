/* topkit/candidate.cuh: what is collected, and the gate that decides.
 *
 * A candidate is a score's raw bits and its index: refinement never reads scores from memory again, and values come back bit for bit.
 * A gate admits a score whose key is above gate.key, or equal to it with an index below gate.bound. So one struct says "from here on"
 * (bound TOPKIT_INDEX_LIMIT), "strictly better" (bound 0: what a full buffer asks of newcomers when ties are arbitrary) and "better, or
 * equal and earlier" (lowest-index ties).
 *
 *   scope         thread
 *   storage       8 bytes a candidate, 12 a gate
 *   determinism   yes
 *   cost          the hot compare is one float compare with gate.value; the exact one, 8 instructions, serves the few that need it
 *
 * Worked numbers: topkit_gate_at(0xbf800000, TOPKIT_INDEX_LIMIT) admits 1.0f and better; with bound 0 the value is the next float, and
 * 1.0f is refused.
 */
#ifndef TOPKIT_CANDIDATE_CUH
#define TOPKIT_CANDIDATE_CUH

#include "topkit/key.cuh"
#include "topkit/row.cuh"

typedef struct __align__(8) topkit_candidate {
    unsigned bits; /* the score's own */
    int index;     /* relative to the row's start */
} topkit_candidate;

/* Item i of what is held: of candidates that one, of scores as they lie the i-th, whose index is i. */
TOPKIT_FN topkit_candidate topkit_held(const topkit_candidate *items, int i) { return items[i]; }
TOPKIT_FN topkit_candidate topkit_held(const float *scores, int i) {
    const topkit_candidate c = {__float_as_uint(scores[i]), i};
    return c;
}

typedef struct topkit_gate {
    float value;  /* what the hot compare uses: admits all that the gate admits, and under TOPKIT_NAN_LOWEST with bound 0 or
                     TOPKIT_INDEX_LIMIT only that, but for the NaNs of an open gate */
    unsigned key;
    int bound;
} topkit_gate;

TOPKIT_FN topkit_gate topkit_gate_at(unsigned key, int bound) {
    topkit_gate gate = {0.0f, key, bound};
    /* bound 0: the next key. Nothing is above the last one, whose successor would wrap round to "everything". */
    const unsigned from = bound > 0 || key == 0xffffffffu ? key : key + 1;
    gate.value = __uint_as_float(topkit_key_bits(from));
    return gate;
}

/* Lets everything in, NaNs too. */
TOPKIT_FN topkit_gate topkit_gate_open(void) { return topkit_gate_at(0, TOPKIT_INDEX_LIMIT); }
TOPKIT_FN bool topkit_gate_is_open(topkit_gate gate) { return gate.key == 0 && gate.bound > 0; }

TOPKIT_FN bool topkit_gate_admits(topkit_gate gate, unsigned bits, int index) {
    const unsigned key = topkit_key(bits);
    return key > gate.key || (key == gate.key && index < gate.bound);
}

/* Which of a lane's 16 scores pass the float compare, as bits u*4+c. */
TOPKIT_FN unsigned topkit_tile_mask(const topkit_tile *tile, float value) {
    unsigned mask = 0;
#pragma unroll
    for (int u = 0; u < 4; u++) {
        const float4 v = tile->v[u];
        unsigned m = 0; /* four short chains instead of one of 16 */
        m |= (TOPKIT_NAN == TOPKIT_NAN_LOWEST ? topkit_ge(v.x, value) : topkit_not_lt(v.x, value)) ? 1u << (u * 4) : 0u;
        m |= (TOPKIT_NAN == TOPKIT_NAN_LOWEST ? topkit_ge(v.y, value) : topkit_not_lt(v.y, value)) ? 2u << (u * 4) : 0u;
        m |= (TOPKIT_NAN == TOPKIT_NAN_LOWEST ? topkit_ge(v.z, value) : topkit_not_lt(v.z, value)) ? 4u << (u * 4) : 0u;
        m |= (TOPKIT_NAN == TOPKIT_NAN_LOWEST ? topkit_ge(v.w, value) : topkit_not_lt(v.w, value)) ? 8u << (u * 4) : 0u;
        mask |= m;
    }
    return mask;
}

#endif
