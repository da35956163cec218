/* 10_any_k_select.cuh: exact Top-K for any k, from 1 to the row's length. One block a row, and no buffer that grows with k.
 *
 * What the other kernels collect, this one only counts: it first finds where the boundary lies, so closely that what is still undecided
 * fits a buffer, and then reads the row once more to write the answer. Rows come from the same queue as in 01, their samples too:
 *
 *     [1] claim      which row comes next                                              scheduler
 *     [2] sample     up to 8192 scores, fetched while the row before is finished       sampler
 *     [3] bracket    two keys of the sample, some sigma of its rank on either side     digit
 *     [4] count      read the row: how many lie above the bracket, and in which of its
 *                    1024 bins the k-th is. That bin is the region. Missed: the other
 *                    side of the bracket is the region. Again until it fits the buffer row, digit
 *     [5] emit       read the row: what is above the region goes straight to the sink,
 *                    its members to the buffer                                         sink, collector
 *     [6] refine     the members still needed go behind it                             refiner
 *
 * A plateau of equal scores that no buffer holds, and any row that is wanted in the order of its indices, end otherwise: the boundary is
 * known to the index (from [4], or from the collected members), and [5] writes tile by tile in order, with the block's prefix sum of hits
 * as the slot. Of equal scores it then takes the first, which is right for both tie policies. Order by score has k that fit the buffer: the
 * gate found by [4] goes to a scan as in 01, and what it holds is sorted.
 *
 * Rows that fit the buffer skip [2] to [4]; rows of at most k scores are copied out.
 *
 *   k             1 .. TOPKIT_MAX_LENGTH; 7680 in the order of scores
 *   shared        40 KB and 8 bytes a candidate: 104 KB, two blocks a multiprocessor
 *   workspace     16 bytes + 4 a row, zeroed once
 *   reads         the row twice, and a 32nd of its 32-byte sectors' scores at most for the sample. Ordered by index: three times. At the
 *                 worst six: the bracket is missed, a digit at a time is left of 32 bits (4), the emission
 *   determinism   as everywhere: the set with lowest-index ties, the sequence when it is ordered
 */
#ifndef TOPKIT_10_ANY_K_SELECT_CUH
#define TOPKIT_10_ANY_K_SELECT_CUH

#include "01_row_select.cuh"

#define TOPKIT_ANY_K_SIGMAS 6 /* of the rank in the sample, on either side: scores of one sampled vector may be alike */

/* Keys low .. high, both included. */
typedef struct topkit_any_k_keys {
    unsigned low, high;
} topkit_any_k_keys;

/* What is still undecided: `above` scores are better than the region, all of them selected, and so are k - above of its `inside` members. */
typedef struct topkit_any_k_region {
    topkit_any_k_keys keys;
    unsigned above, inside;
} topkit_any_k_region;

typedef struct topkit_any_k_storage {
    topkit_refiner_storage refiner;
    topkit_collector_state collected;
    topkit_row rows[2];   /* the present row and the next, by turns */
    int next, builds;
    unsigned above, from; /* scores above the bracket, and from its low key on: zero between counts */
    unsigned emitted;     /* zero between rows */
    unsigned hits[2][TOPKIT_ROW_THREADS / 32]; /* ordered emission: of each warp's tile, by turns */
} topkit_any_k_storage;

#define TOPKIT_ANY_K_HEADER ((sizeof(topkit_any_k_storage) + 15) / 16 * 16)

/* One more in the bin of every lane that has one; called by a whole warp. Bins that most lanes share would queue up at one address: the
 * two that come first are counted by one atomic each. */
TOPKIT_JOB_FN void topkit_any_k_tally(topkit_group g, bool has, unsigned bin, topkit_digit_storage *s) {
    unsigned left = __ballot_sync(TOPKIT_FULL_MASK, has);
    TOPKIT_ASSERT(!has || bin < TOPKIT_DIGIT_BINS);
#pragma unroll
    for (int peel = 0; peel < 2; peel++) {
        if (__popc(left) <= 4) break;
        const int leader = __ffs((int)left) - 1;
        const unsigned theirs = __shfl_sync(TOPKIT_FULL_MASK, bin, leader);
        const unsigned same = __ballot_sync(TOPKIT_FULL_MASK, has && bin == theirs);
        if ((int)topkit_lane(g) == leader) atomicAdd(&s->histogram[bin], (unsigned)__popc(same));
        has = has && bin != theirs;
        left &= ~same;
    }
    if (has) topkit_digit_count(s, bin);
}

/* The part of the range that falls into a bin of its digits; the last bin may be shorter than the others. */
TOPKIT_JOB_FN topkit_any_k_keys topkit_any_k_bin(topkit_any_k_keys range, unsigned bin) {
    const unsigned shift = topkit_digit_shift(range.high - range.low), last = (1u << shift) - 1;
    topkit_any_k_keys part = {range.low + (bin << shift), range.high};
    if (range.high - part.low > last) part.high = part.low + last;
    return part;
}

/* Keys around the rank-th largest sample, a few samples wide. `range` holds all samples. Called by the whole block; ends with a barrier. */
TOPKIT_JOB_FN topkit_any_k_keys topkit_any_k_quantile(topkit_group g, const float *sample, int count, int rank,
                                                                         topkit_any_k_keys range, topkit_digit_storage *s) {
    unsigned inside = (unsigned)count;
    while (inside > 4 && range.low < range.high) {
        const unsigned shift = topkit_digit_shift(range.high - range.low);
        for (int base = 0; base < count; base += (int)g.size) {
            const int i = base + (int)g.thread;
            const unsigned key = i < count ? topkit_key(__float_as_uint(sample[i])) : 0u;
            topkit_any_k_tally(g, i < count && key >= range.low && key <= range.high, (key - range.low) >> shift, s);
        }
        topkit_group_sync(g);
        const topkit_digit_found found = topkit_digit_find(g, s, (unsigned)rank, true);
        rank -= (int)found.above;
        inside = found.inside;
        range = topkit_any_k_bin(range, found.bin);
    }
    return range;
}

/* [3] Keys that the k-th largest of `length` scores is likely to lie between; an end that the sample can not tell is left open. */
TOPKIT_JOB_FN topkit_any_k_keys topkit_any_k_bracket(topkit_group g, const float *sample, int count, int k, int length,
                                                                         topkit_digit_storage *s) {
    topkit_any_k_keys range = {0xffffffffu, 0u}, bracket = {0u, 0xffffffffu};
    for (int i = (int)g.thread; i < count; i += (int)g.size) {
        const unsigned key = topkit_key(__float_as_uint(sample[i]));
        range.low = range.low < key ? range.low : key;
        range.high = range.high > key ? range.high : key;
    }
    topkit_digit_range(g, s, &range.low, &range.high);
    const int rank = (int)((long long)k * count / length);
    const int margin = (int)((float)TOPKIT_ANY_K_SIGMAS * sqrtf((float)rank * (float)(count - rank) / (float)count)) + TOPKIT_ANY_K_SIGMAS;
    if (rank - margin >= 1) bracket.high = topkit_any_k_quantile(g, sample, count, rank - margin, range, s).high;
    if (rank + margin <= count) bracket.low = topkit_any_k_quantile(g, sample, count, rank + margin, range, s).low;
    topkit_group_sync(g); /* the sample's memory may be used otherwise */
    return bracket;
}

/* [4] Adds to s->above and s->from, and to the histogram the digits of what lies in the bracket. Ends with a barrier. */
TOPKIT_JOB_FN void topkit_any_k_count(topkit_group g, topkit_row row, topkit_any_k_keys bracket, float *stage,
                                                          topkit_any_k_storage *s) {
    const topkit_tiles tiles = topkit_row_tiles(row);
    const topkit_gate low = topkit_gate_at(bracket.low, TOPKIT_INDEX_LIMIT), high = topkit_gate_at(bracket.high, 0);
    const unsigned shift = topkit_digit_shift(bracket.high - bracket.low), lane4 = topkit_lane(g) * 4;
    unsigned above = 0, from = 0;
    topkit_tile tile;
    for (int n = (int)topkit_warp_rank(g); n < tiles.count; n += (int)topkit_warps(g)) {
        topkit_tile_load(tiles, n, topkit_lane(g), &tile);
        unsigned mask = topkit_gate_mask<TOPKIT_ANY>(g, low, &tile);
        const unsigned over = topkit_gate_mask<TOPKIT_ANY>(g, high, &tile);
        above += (unsigned)__popc(over);
        from += (unsigned)__popc(mask);
        mask &= ~over;
        if (!__any_sync(TOPKIT_FULL_MASK, mask != 0)) continue;
#pragma unroll
        for (int u = 0; u < 4; u++) ((float4 *)stage)[u * 32 + (int)topkit_lane(g)] = tile.v[u]; /* a lane reads back only what it wrote */
        do {
            const bool has = mask != 0;
            const unsigned bit = has ? (unsigned)__ffs((int)mask) - 1 : 0u;
            const unsigned key = topkit_key(__float_as_uint(stage[lane4 + (bit >> 2) * 128 + (bit & 3)]));
            topkit_any_k_tally(g, has, (key - bracket.low) >> shift, &s->refiner.digit);
            mask &= mask - 1;
        } while (__any_sync(TOPKIT_FULL_MASK, mask != 0));
    }
    above = __reduce_add_sync(TOPKIT_FULL_MASK, above);
    from = __reduce_add_sync(TOPKIT_FULL_MASK, from);
    if (topkit_lane(g) == 0) {
        atomicAdd(&s->above, above);
        atomicAdd(&s->from, from);
    }
    topkit_group_sync(g);
}

/* Whether [5] can settle the region: all its members are selected, or are equal, or there is room for them (and, `with_above`, for what is
 * above them). */
TOPKIT_JOB_FN bool topkit_any_k_settles(topkit_any_k_region r, int k, int room, bool with_above) {
    return r.inside == (unsigned)k - r.above || r.keys.low == r.keys.high || r.inside + (with_above ? r.above : 0u) <= (unsigned)room;
}

/* Narrows the region of the k-th, first to a bin of the bracket, then from bin to bin. *missed: the boundary was not in the bracket.
 * Called by the whole block, sample and counters synced; ends with a barrier. */
TOPKIT_JOB_FN topkit_any_k_region topkit_any_k_narrow(topkit_group g, topkit_row row, int k,
                                                                          topkit_any_k_keys bracket, int room, bool with_above,
                                                                          float *stage, topkit_any_k_storage *s, int *missed) {
    topkit_any_k_region r = {{0u, 0xffffffffu}, 0u, (unsigned)row.length};
    while (!topkit_any_k_settles(r, k, room, with_above)) {
        topkit_any_k_count(g, row, bracket, stage, s);
        const unsigned above = s->above, from = s->from;
        if ((unsigned)k <= above || (unsigned)k > from) {
            if ((unsigned)k <= above) {
                r.keys.low = bracket.high + 1;
                r.inside = above - r.above;
            } else {
                r.keys.high = bracket.low - 1;
                r.inside = r.above + r.inside - from;
                r.above = from;
            }
            *missed = 1;
            topkit_digit_init(g, &s->refiner.digit);
            topkit_group_sync(g);
        } else {
            const topkit_digit_found found = topkit_digit_find(g, &s->refiner.digit, (unsigned)k - above, true);
            r.keys = topkit_any_k_bin(bracket, found.bin);
            r.above = above + found.above;
            r.inside = found.inside;
        }
        if (g.thread == 0) s->above = s->from = 0;
        topkit_group_sync(g);
        bracket = r.keys;
    }
    return r;
}

/* A lane's hits in a tile, in the order of their indices: by 128 scores (a byte each), then by lane, then by component. */
typedef struct topkit_any_k_hits {
    unsigned below, total; /* of the lanes below, of the warp */
} topkit_any_k_hits;

TOPKIT_JOB_FN topkit_any_k_hits topkit_any_k_hits_of(topkit_group g, unsigned mask) {
    topkit_any_k_hits hits;
    unsigned mine = 0;
#pragma unroll
    for (int u = 0; u < 4; u++) mine |= (unsigned)__popc(mask >> (u * 4) & 0xfu) << (u * 8);
    hits.below = topkit_warp_exclusive_sum(g, mine, &hits.total);
    return hits;
}

TOPKIT_JOB_FN unsigned topkit_any_k_sum(topkit_any_k_hits hits) {
    return (hits.total & 0xffu) + (hits.total >> 8 & 0xffu) + (hits.total >> 16 & 0xffu) + (hits.total >> 24);
}

/* Puts the scores of a tile whose bits are set in `better`, and of those in `equal` the ones before the limit. `a` better and `t` equal ones
 * have been seen in all tiles before. */
TOPKIT_JOB_FN void topkit_any_k_put(topkit_group g, const topkit_tile *tile, unsigned better, topkit_any_k_hits hits,
                                                        unsigned a, unsigned equal, topkit_any_k_hits ties, unsigned t, unsigned limit,
                                                        topkit_sink_pairs sink) {
#pragma unroll
    for (int u = 0; u < 4; u++) {
        unsigned slot = a + (hits.below >> (u * 8) & 0xffu), tie = t + (ties.below >> (u * 8) & 0xffu);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const float4 v = tile->v[u];
            const unsigned bits = __float_as_uint(c == 0 ? v.x : c == 1 ? v.y : c == 2 ? v.z : v.w);
            const bool is_better = better >> (u * 4 + c) & 1u, is_equal = equal >> (u * 4 + c) & 1u;
            if (is_better || (is_equal && tie < limit))
                topkit_sink_put(sink, (int)(slot + (tie < limit ? tie : limit)), tile->first + u * 128 + (int)topkit_lane(g) * 4 + c, bits);
            slot += is_better ? 1u : 0u;
            tie += is_equal ? 1u : 0u;
        }
        a += hits.total >> (u * 8) & 0xffu;
        t += ties.total >> (u * 8) & 0xffu;
    }
}

TOPKIT_JOB_FN topkit_sink_pairs topkit_any_k_behind(topkit_sink_pairs sink, int slots) {
    sink.indices += slots;
    if (sink.values) sink.values += slots;
    return sink;
}

/* [5] in any order: where it `emits`, what is above the region, `whole` regions with their members, goes to the sink; other members are
 * collected. Ends with a barrier. */
TOPKIT_JOB_FN void topkit_any_k_emit(topkit_group g, topkit_row row, topkit_any_k_keys region, bool emits, bool whole,
                                                         topkit_sink_pairs sink, topkit_collector c, topkit_any_k_storage *s) {
    const topkit_tiles tiles = topkit_row_tiles(row);
    const topkit_gate low = topkit_gate_at(region.low, TOPKIT_INDEX_LIMIT), high = topkit_gate_at(region.high, 0);
    const topkit_any_k_hits none = {0, 0};
    topkit_tile tile;
    for (int n = (int)topkit_warp_rank(g); n < tiles.count; n += (int)topkit_warps(g)) {
        topkit_tile_load(tiles, n, topkit_lane(g), &tile);
        const unsigned from = topkit_gate_mask<TOPKIT_ANY>(g, low, &tile);
        const unsigned above = whole ? from : topkit_gate_mask<TOPKIT_ANY>(g, high, &tile), members = from & ~above;
        if (emits && __any_sync(TOPKIT_FULL_MASK, above != 0)) {
            const topkit_any_k_hits hits = topkit_any_k_hits_of(g, above);
            unsigned slot = 0;
            if (topkit_lane(g) == 0) slot = atomicAdd(&s->emitted, topkit_any_k_sum(hits));
            slot = __shfl_sync(TOPKIT_FULL_MASK, slot, 0);
            topkit_any_k_put(g, &tile, above, hits, slot, 0, none, 0, 0, sink);
        }
        if (__any_sync(TOPKIT_FULL_MASK, members != 0)) {
#pragma unroll
            for (int u = 0; u < 4; u++) ((float4 *)c.stage)[u * 32 + (int)topkit_lane(g)] = tile.v[u];
            const bool fits = topkit_collect_staged(g, c, c.stage, tile.first, members);
            TOPKIT_ASSERT(fits); /* they were counted */
            (void)fits;
        }
    }
    topkit_group_sync(g);
}

/* Loads the n-th of tiles.count + 2 tiles of which each lies behind the one before: the head, the body, the tail. */
TOPKIT_JOB_FN void topkit_any_k_load_in_order(topkit_tiles tiles, int n, unsigned lane, topkit_tile *tile) {
    const int body = tiles.count - (topkit_tiles_have_edge(tiles) ? 1 : 0);
    if (n >= 1 && n <= body) {
        topkit_tile_load(tiles, n - 1, lane, tile);
    } else {
        topkit_tile_load_edge(tiles, lane, tile);
        if (n > body + 1 || lane != (n == 0 ? 0u : 1u)) tile->valid = 0;
    }
}

/* [5] in the order of indices: what the cut selects, of its ties the first. Ends with a barrier. */
TOPKIT_JOB_FN void topkit_any_k_emit_in_order(topkit_group g, topkit_row row, int k, topkit_cut cut,
                                                                  topkit_sink_pairs sink, topkit_any_k_storage *s) {
    const topkit_tiles tiles = topkit_row_tiles(row);
    const topkit_gate low = topkit_gate_at(cut.key, cut.bound), high = topkit_gate_at(cut.key, 0);
    const unsigned lane = topkit_lane(g), warp = topkit_warp_rank(g), warps = topkit_warps(g);
    unsigned a = 0, t = 0, turn = 0; /* better and equal scores in all rounds before */
    topkit_tile tile;
    for (int first = 0; first < tiles.count + 2 && a + (t < cut.ties ? t : cut.ties) < (unsigned)k; first += (int)warps, turn ^= 1u) {
        topkit_any_k_load_in_order(tiles, first + (int)warp, lane, &tile);
        unsigned better = topkit_gate_mask<TOPKIT_LOWEST_INDEX>(g, low, &tile), equal = 0;
        if (cut.ties != 0xffffffffu) {
            equal = better;
            better = topkit_gate_mask<TOPKIT_ANY>(g, high, &tile);
            equal &= ~better;
        }
        const topkit_any_k_hits hits = topkit_any_k_hits_of(g, better), ties = topkit_any_k_hits_of(g, equal);
        if (lane == 0) s->hits[turn][warp] = topkit_any_k_sum(hits) | topkit_any_k_sum(ties) << 16;
        topkit_group_sync(g); /* the only one in a round: what the next round writes lies elsewhere */
        const unsigned sums = lane < warps ? s->hits[turn][lane] : 0u;
        const unsigned before = __reduce_add_sync(TOPKIT_FULL_MASK, lane < warp ? sums : 0u);
        const unsigned all = __reduce_add_sync(TOPKIT_FULL_MASK, sums);
        topkit_any_k_put(g, &tile, better, hits, a + (before & 0xffffu), equal, ties, t + (before >> 16), cut.ties, sink);
        a += all & 0xffffu;
        t += all >> 16;
    }
    topkit_group_sync(g);
}

template <int TIES>
static __global__ void __launch_bounds__(TOPKIT_ROW_THREADS, 2) topkit_any_k_select_kernel(topkit_select_job job) {
    TOPKIT_SHARED(memory);
    topkit_any_k_storage *s = (topkit_any_k_storage *)memory;
    float *sample = (float *)(memory + TOPKIT_ANY_K_HEADER); /* (TOPKIT_ROW_SAMPLE) the stages' memory while the row is read */
    topkit_candidate *items = (topkit_candidate *)(sample + TOPKIT_ROW_SAMPLE); /* (capacity) */
    const topkit_group block = topkit_group_block();
    float *stage = sample + topkit_warp_rank(block) * TOPKIT_TILE;
    const topkit_collector collector = {items, job.capacity, stage, &s->collected};
    const int workers = (int)gridDim.x;
    const bool ordered = job.lengths && job.rows > workers; /* more rows than blocks: let the long ones come first */
    const bool by_score = job.order == TOPKIT_ORDER_SCORE;

    topkit_refiner_init(block, &s->refiner);
    if (block.thread == 0) {
        topkit_collector_clear(collector);
        s->collected.dropped = s->collected.compactions = 0;
        s->above = s->from = s->emitted = 0;
        s->builds = ordered && topkit_order_begin(job.queue);
    }
    topkit_group_sync(block);
    if (s->builds) {
        topkit_order_build(block, job.lengths, job.max_length, workers, job.rows, job.row_order, &s->refiner.digit);
        if (block.thread == 0) topkit_order_publish(job.queue);
    }

    int r = (int)blockIdx.x, turn = 0;
    topkit_row_begin(block, job, r, &s->rows[0], sample);
    while (r < job.rows) {
        /* [1] */
        int claim = 0;
        if (block.thread == 0) claim = topkit_queue_claim(job.queue, workers);
        topkit_copy_async_wait();
        topkit_group_sync(block);

        const topkit_row row = s->rows[turn];
        const int wanted = row.length < job.k ? row.length : job.k;
        const bool copied = topkit_job_copies(job, row);
        const topkit_sink_pairs sink = topkit_job_sink(job, r);
        int admitted = 0, members = 0, settled = 0, missed = 0; /* settled: slots that [5] has filled, where [6] has to fill more */
        if (!copied) {
            topkit_any_k_region region = {{0u, 0xffffffffu}, 0u, (unsigned)row.length};
            if (topkit_job_samples(job, row)) {
                const int count = topkit_sample_count(topkit_job_sampling(job, row, r, TOPKIT_ROW_SAMPLE)); /* [2] */
                const topkit_any_k_keys bracket = topkit_any_k_bracket(block, sample, count, wanted, row.length, &s->refiner.digit); /* [3] */
                region = topkit_any_k_narrow(block, row, wanted, bracket, job.capacity, by_score, stage, s, &missed); /* [4] */
            }
            /* [5] */
            const unsigned need = (unsigned)wanted - region.above;
            const bool whole = region.inside == need, exact = whole || region.keys.low == region.keys.high;
            if (by_score) {
                const topkit_gate gate = topkit_gate_at(region.keys.low, TOPKIT_INDEX_LIMIT);
                admitted = members = topkit_scan<TIES>(block, row, wanted, gate, TOPKIT_SHUFFLED, collector, &s->refiner);
            } else if (job.order == TOPKIT_ORDER_INDEX || (exact && !whole && region.inside > (unsigned)job.capacity)) {
                topkit_cut cut = topkit_cut_at(region.keys.low, TOPKIT_INDEX_LIMIT, whole ? 0xffffffffu : need);
                if (!exact) {
                    topkit_any_k_emit(block, row, region.keys, false, false, sink, collector, s);
                    cut = topkit_refine_cut<TIES>(block, items, (int)region.inside, (int)need, &s->refiner);
                }
                topkit_any_k_emit_in_order(block, row, wanted, cut, sink, s);
                admitted = (int)(region.above + (exact ? need : region.inside));
            } else {
                topkit_any_k_emit(block, row, region.keys, true, whole, sink, collector, s);
                members = whole ? 0 : (int)region.inside;
                settled = (int)region.above;
                admitted = settled + (int)region.inside;
            }
        }

        /* [1] continued: the next row's sample travels while this row is finished. */
        if (block.thread == 0) {
            if (ordered && claim < job.rows) {
                topkit_order_wait(job.queue);
                claim = job.row_order[claim - workers];
            }
            s->next = claim;
        }
        topkit_group_sync(block);
        topkit_row_begin(block, job, s->next, &s->rows[turn ^ 1], sample);

        /* [6] */
        if (copied) topkit_sink_identity(block.thread, block.size, row.scores, row.length, job.k, sink);
        else if (by_score) topkit_job_deliver<TIES>(block, job, r, row, items, members, &s->refiner);
        else if (members > 0) topkit_refine<TIES>(block, items, members, wanted - settled, topkit_any_k_behind(sink, settled), &s->refiner);
        if (block.thread == 0) {
            topkit_job_count(job, row, 1, admitted, missed, &s->collected);
            topkit_collector_clear(collector);
            s->emitted = 0;
        }
        r = s->next;
        turn ^= 1;
        topkit_group_sync(block); /* the buffer is empty, and `next` may be written again */
    }
    if (block.thread == 0) topkit_queue_leave(job.queue, workers);
}

#endif
