/* topkit/team_resident.cuh: several blocks find the k best of a row that lies in the shared memory of all of them together.
 *
 * Nothing is collected: each block's part of the row, as it was copied (resident.cuh), is what it holds. The team's first step counts the
 * parts in linear bins, from a gate that all blocks have proposed alike to the largest score of their sample; nearly always the boundary
 * bin has few members then, and whether a score lies above it or in it is told by the place of its bin once more, so that blocks count and
 * deliver by the same rule. Where it does not come out, because the gate was too high or of infinities, outliers or many equals, digits of
 * keys find the boundary (topkit_team_search): slower, never wrong.
 *
 *   scope         team, as team.cuh: all threads of all its blocks, of a multiple of 256 threads each; parts of up to 65000 scores
 *   storage       that of team.cuh, and topkit_refiner_storage, whose digit storage the search counts in; the parts in shared memory
 *   sync          a cluster's threads call topkit_cluster_enter once before, as for topkit_team_search. search: begins with the part and
 *                 the storage synced; one or two steps of linear bins, each with the meetings and barriers of a step of
 *                 topkit_team_search, and where these do not come out those of one or two such searches. emit: one barrier; a meeting, if
 *                 topkit_team_settles says so, and topkit_team_settle come behind it
 *   determinism   TOPKIT_LOWEST_INDEX: the selected set. TOPKIT_ANY: the selected values. The order of emission is open in both
 *   cost          2 passes over the part in shared memory, of which one counts every score with a shared atomic, and one more for each
 *                 further step
 *
 * Worked numbers: parts {9, 7, 3} and {8, 6, 2}, k = 3, a gate of 5 and a largest sample of 9, five bins: one score each in the bins of 9,
 * 8, 7 and 6. The boundary is the bin of 7: block 0 delivers 9 and 7, block 1 delivers 8.
 */
#ifndef TOPKIT_TEAM_RESIDENT_CUH
#define TOPKIT_TEAM_RESIDENT_CUH

#include "topkit/resident.cuh"
#include "topkit/team.cuh"
#include "topkit/threshold.cuh"

#define TOPKIT_TEAM_RESIDENT_AGAIN 4096 /* a bin of so many members or fewer is cut into bins itself; of more most are equals */

/* The boundary, and where it is a linear bin that one's place. */
typedef struct topkit_team_resident_boundary {
    topkit_team_boundary team;
    topkit__resident_bins bins;
    float place; /* 0: not a linear bin */
    bool again;  /* the gate was too high */
} topkit_team_resident_boundary;

/* The scores themselves; score i of the part is [i]. */
TOPKIT_FN const float *topkit__resident_scores(topkit_resident part) { return part.scores + part.lead; }

/* Of the parts' scores, of a row of `length` in all, 1 <= k <= length. */
template <int TIES>
TOPKIT_FN topkit_team_resident_boundary topkit_team_resident_search(topkit_group g, topkit_team *team, topkit_resident part, int k,
                                                                    topkit_proposal gate, int length, topkit_digit_storage *digit,
                                                                    topkit_team_storage *s) {
    topkit_team_resident_boundary b = {{{0, 1, 0, 0, 0, false}, 0, 0}, {0.0f, 0.0f, 0.0f, 0.0f}, 0.0f, false};
    const float *scores = topkit__resident_scores(part);
    unsigned from = gate.key, to = from != TOPKIT_NO_THRESHOLD ? gate.maximum : 0xffffffffu;
    float low = __uint_as_float(topkit_key_bits(from)), high = __uint_as_float(topkit_key_bits(to));
    if (k < length / 128) high += high - low; /* of a sample of a thousand scores few are among the k best, maybe none */
    for (int step = 0; step < 2 && topkit__resident_can_bin(low, high); step++) { /* the same in all blocks; not of infinities and NaNs */
        b.bins = topkit__resident_bins_between(low, high, TOPKIT_TEAM_BINS);
        if (step == 0) b.bins.low += 0.51f * b.bins.step; /* only what exceeds the gate: many that equal it, as zeros do, would queue up */
        topkit__resident_count(g, part, b.bins, digit);
        const topkit_team_found found = topkit_team_find(g, team, (unsigned)k, digit, s);
        if (found.inside == 0) { /* the k-th best is the gate, or below it */
            to = from;
            break;
        }
        b.team.region.need = (unsigned)k - found.above;
        b.team.region.inside = found.inside;
        b.team.above_before = found.above_before;
        b.team.inside_before = found.inside_before;
        b.place = TOPKIT_COUNT_FROM + TOPKIT_WARP + (float)found.bin;
        const bool last = found.bin == TOPKIT_TEAM_BINS - 1; /* it has no end, by which to tell what is above it */
        if (!last && topkit__region_is_settled<TIES>(b.team.region)) return b;
        low = topkit__resident_floor(b.bins, (int)found.bin);
        high = topkit__resident_ceiling(b.bins, (int)found.bin);
        from = topkit_key(__float_as_uint(low));
        to = topkit_key(__float_as_uint(high));
        if (last || found.inside > TOPKIT_TEAM_RESIDENT_AGAIN) break;
    }
    b.place = 0.0f;
    b.team = topkit_team_search<TIES>(g, team, scores, part.length, k, from, to, length, digit, s);
    b.again = b.team.region.inside == 0;
    if (b.again) b.team = topkit_team_search<TIES>(g, team, scores, part.length, k, TOPKIT_NO_THRESHOLD, gate.key, length, digit, s);
    return b;
}

/* Four scores more of which bits say whether their bins are the boundary's or above it, and above it. */
TOPKIT_FN void topkit__team_resident_shift_in(float4 x, topkit__resident_bins bins, float from, float above, unsigned *reach,
                                              unsigned *sure) {
    const float y[4] = {topkit__resident_reach(bins, x.x), topkit__resident_reach(bins, x.y), topkit__resident_reach(bins, x.z),
                        topkit__resident_reach(bins, x.w)};
#pragma unroll
    for (int c = 0; c < 4; c++) {
        *reach = topkit__resident_shift_in(*reach, y[c], from);
        *sure = topkit__resident_shift_in(*sure, y[c], above);
    }
}

/* As topkit_team_emit. */
template <int TIES, typename SINK>
TOPKIT_FN unsigned topkit_team_resident_emit(topkit_group g, const topkit_team *team, topkit_resident part, int k,
                                             topkit_team_resident_boundary b, SINK sink, topkit_refiner_storage *s) {
    if (b.place == 0.0f) return topkit_team_emit<TIES>(g, team, topkit__resident_scores(part), part.length, k, b.team, sink, s);
    const float4 *row = (const float4 *)part.scores;
    const int vectors = topkit__resident_vectors(part), lane = (int)topkit_lane(g), offset = team->begin - part.lead;
    const float lowest = TOPKIT_NAN == TOPKIT_NAN_HIGHEST ? b.place : b.place - 1; /* "not less than", or "exceeds": shift_in */
    const bool settles = topkit_team_settles<TIES>(b.team);
    int *const bare = topkit_sink_bare(sink); /* where a put is one store, the score is not needed */
    for (int first = (int)g.thread - lane; first < vectors; first += 8 * (int)g.size) {
        const int v = first + lane;
        unsigned reach = 0, sure = 0, total, slot = 0;
        int u = 0;
#pragma unroll 4
        for (; u < 8 && first + u * (int)g.size < vectors; u++) {
            const float none = __uint_as_float(0xff800000u);
            const float4 x = v + u * (int)g.size < vectors ? row[v + u * (int)g.size] : make_float4(none, none, none, none);
            topkit__team_resident_shift_in(x, b.bins, lowest, lowest + 1, &reach, &sure);
        }
        reach <<= 4 * (8 - u);
        sure <<= 4 * (8 - u);
        unsigned inside = reach & ~sure;
        const unsigned before = topkit_warp_exclusive_sum(g, (unsigned)__popc(sure) | (unsigned)__popc(inside) << 16, &total);
        if (lane < 2) slot = atomicAdd(&s->counts[lane], lane == TOPKIT__EMITTED ? total & 0xffffu : total >> 16);
        unsigned put = b.team.above_before + __shfl_sync(TOPKIT_FULL_MASK, slot, TOPKIT__EMITTED) + (before & 0xffffu);
        unsigned list = __shfl_sync(TOPKIT_FULL_MASK, slot, TOPKIT__LISTED) + (before >> 16);
        if (bare) {
            for (int *next = bare + put; sure; next++) *next = offset + topkit__resident_take(g, v, &sure);
        }
        while (sure) {
            const int position = topkit__resident_take(g, v, &sure);
            topkit_sink_put(sink, (int)put++, offset + position, __float_as_uint(part.scores[position]));
        }
        for (; inside; list++) {
            const int position = topkit__resident_take(g, v, &inside);
            const topkit_candidate c = {__float_as_uint(part.scores[position]), offset + position};
            if (settles) topkit__boundary_put(s, list, c);
            else topkit_sink_put(sink, k - (int)b.team.region.need + (int)(b.team.inside_before + list), c.index, c.bits);
        }
    }
    return topkit__team_show<TIES>(g, team, b.team, s);
}

#endif
