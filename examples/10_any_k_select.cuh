/* 10_any_k_select.cuh: exact Top-K for any k, from 1 to the row's length, with no buffer that grows with k. One block a row, or of few rows
 * a cluster of up to 16.
 *
 * What the other kernels collect, this one only counts: it first finds where the boundary lies, so closely that what is still undecided
 * fits a buffer, and then reads the row once more to write the answer. Rows come from the same queue as in 01, their samples too:
 *
 *     [1] claim      which row comes next                                                    scheduler
 *     [2] sample     up to 8192 scores, fetched while the row before is finished; of a row   sampler
 *                    in parts 2048, by every block
 *     [3] bracket    two keys of the sample, six sigma of the rank in it on either side      digit
 *     [4] count      read the row: how many scores lie above the bracket, and in which of    row, digit
 *                    its 1024 bins the k-th is: that bin is the region. (Missed: the region
 *                    is that side of the bracket.) Again, until its members fit the buffer
 *     [5] emit       read the row: what is above the region goes straight to the sink, its   select_emit, collector
 *                    members to the buffer
 *     [6] refine     those of the members that are still needed go behind it                 refiner
 *
 * A cluster's blocks each count and emit a part of the row. They agree on everything else: their histograms are added up, and the members
 * of the region sent to the first block (any_k_part.cuh); alone, a block is a cluster of one.
 *
 * In the order of indices the buffer's members only tell the exact cut; then [5] reads the row once more and writes it in order. So ends,
 * without a buffer, a plateau of equal scores that no buffer holds: of them the first are taken, which both tie policies allow.
 *
 * Rows that fit the buffer skip [2] to [4], and rows of at most k scores [6] as well. The order of scores is not for this kernel: the
 * operator gives that to the row kernel, with a larger buffer.
 *
 *   k             1 .. TOPKIT_MAX_LENGTH
 *   shared        57 KB and 8 bytes a candidate: 105 KB, two blocks a multiprocessor
 *   workspace     1 KB + 4 bytes a row, zeroed once
 *   reads         the row twice (three times in the order of indices), plus one 32-byte sector in 512 bytes for the sample, or less. At the
 *                 most six times: the bracket missed, 32 bits of keys in four digits, the output
 *   sync          a cluster's blocks meet at its barriers alone (any_k_part.cuh); nobody waits for a block that may not run
 *   determinism   the order of indices: the sequence, with lowest-index ties; in no order these ties fix the set, whatever the cluster
 */
#ifndef TOPKIT_10_ANY_K_SELECT_CUH
#define TOPKIT_10_ANY_K_SELECT_CUH

#include "01_row_select.cuh"
#include "any_k_part.cuh"

#define TOPKIT_ANY_K_SIGMAS 6 /* on either side: with the four scores of a sampled vector all alike they are still three */
#define TOPKIT_ANY_K_FEW 2048 /* samples of a row in parts: with more, proposing would take longer than a part */

/* Keys low .. high, both included. */
typedef struct topkit_any_k_keys {
    unsigned low, high;
} topkit_any_k_keys;

/* What is still undecided: `above` scores are better than the region and all selected, and so are k - above of its `inside` members. */
typedef struct topkit_any_k_region {
    topkit_any_k_keys keys;
    unsigned above, inside;
} topkit_any_k_region;

typedef struct topkit_any_k_storage {
    topkit_refiner_storage refiner;
    topkit_collector_state collected;
    topkit_row row, coming; /* the present row and the next: in shared memory, like the rest, for registers are short in the passes */
    int wanted;             /* k, or all of a shorter row */
    topkit_any_k_part part;
    topkit_any_k_region region; /* of the whole row */
    topkit_any_k_keys bracket;
    topkit_any_k_cut cut;
    int next, builds, missed;
    unsigned above, from;  /* of the part: scores above the bracket, and from its low key on: zero between counts */
    unsigned emitted;      /* zero between rows */
    unsigned hits[2 * 32]; /* topkit_emit_cut's */
} topkit_any_k_storage;

#define TOPKIT_ANY_K_HEADER ((sizeof(topkit_any_k_storage) + 15) / 16 * 16)

/* One more in the bin of every lane that has one; called by a whole warp. Bins that most lanes share would queue up at one address: the
 * two that come first are counted by one atomic each. */
TOPKIT_JOB_FN void topkit_any_k_tally(topkit_group g, bool has, unsigned bin, topkit_digit_storage *s) {
    unsigned left = __ballot_sync(TOPKIT_FULL_MASK, has);
    TOPKIT_ASSERT(!has || bin < TOPKIT_DIGIT_BINS);
    for (int peel = 0; peel < 2 && __popc(left) > 4; peel++) {
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
TOPKIT_JOB_FN topkit_any_k_keys topkit_any_k_quantile(topkit_group g, const float *sample, int count, int rank, topkit_any_k_keys range,
                                                      topkit_digit_storage *s) {
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

/* [3] s->bracket: keys that the k-th largest of `length` scores is likely to lie between; an end that the sample can not tell is left
 * open. Ends with a barrier. */
TOPKIT_JOB_FN void topkit_any_k_propose(topkit_group g, const float *sample, int count, topkit_any_k_storage *s) {
    topkit_any_k_keys range = {0xffffffffu, 0u}, bracket = {0u, 0xffffffffu};
    for (int i = (int)g.thread; i < count; i += (int)g.size) {
        const unsigned key = topkit_key(__float_as_uint(sample[i]));
        range.low = range.low < key ? range.low : key;
        range.high = range.high > key ? range.high : key;
    }
    topkit_digit_range(g, &s->refiner.digit, &range.low, &range.high);
    const int rank = (int)((long long)s->wanted * count / s->row.length);
    const int margin = (int)((float)TOPKIT_ANY_K_SIGMAS * sqrtf((float)rank * (float)(count - rank) / (float)count)) + TOPKIT_ANY_K_SIGMAS;
#pragma unroll 1
    for (int side = 0; side < 2; side++) {
        const int asked = side == 0 ? rank - margin : rank + margin;
        if (asked < 1 || asked > count) continue;
        const topkit_any_k_keys found = topkit_any_k_quantile(g, sample, count, asked, range, &s->refiner.digit);
        if (side == 0) bracket.high = found.high;
        else bracket.low = found.low;
    }
    if (g.thread == 0) s->bracket = bracket;
    topkit_group_sync(g);
}

/* [4] Adds to s->above and s->from, and to the histogram the digits of what lies in the bracket. Ends with a barrier. */
TOPKIT_JOB_FN void topkit_any_k_count(topkit_group g, float *stage, topkit_any_k_storage *s) {
    const topkit_tiles tiles = topkit_row_tiles(s->row);
    const topkit_any_k_keys bracket = s->bracket;
    const topkit_gate low = topkit_gate_at(bracket.low, TOPKIT_INDEX_LIMIT), high = topkit_gate_at(bracket.high, 0);
    const unsigned shift = topkit_digit_shift(bracket.high - bracket.low), lane4 = topkit_lane(g) * 4;
    unsigned above = 0, from = 0;
    topkit_tile tile;
    for (int n = s->part.begin + (int)topkit_warp_rank(g); n < s->part.end; n += (int)topkit_warps(g)) {
        topkit_emit_load(tiles, n, topkit_lane(g), &tile);
        unsigned mask = topkit_gate_mask<TOPKIT_ANY>(g, low, &tile);
        const unsigned over = topkit_gate_mask<TOPKIT_ANY>(g, high, &tile);
        above += (unsigned)__popc(over);
        from += (unsigned)__popc(mask);
        mask &= ~over;
        if (!__any_sync(TOPKIT_FULL_MASK, mask != 0)) continue;
        topkit_emit_stage(g, &tile, stage); /* a lane reads back only what it wrote */
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

/* All members of the region are selected, or they are equal: their indices alone decide. */
TOPKIT_JOB_FN bool topkit_any_k_is_whole(topkit_any_k_region r, int k) { return r.above + r.inside == (unsigned)k; }
TOPKIT_JOB_FN bool topkit_any_k_is_cut(topkit_any_k_region r, int k) { return topkit_any_k_is_whole(r, k) || r.keys.low == r.keys.high; }

/* Of its members, for the refiner. A row that was collected whole has none. */
TOPKIT_JOB_FN topkit_bounds topkit_any_k_bounds(topkit_any_k_region r) {
    topkit_bounds bounds = {r.keys.low, r.keys.high};
    return bounds;
}

/* The region after a count of s->bracket, above which `counts` has what lies in the whole row and in the part, and from its low key on.
 * Only the first bracket, which was a guess, can be missed: all later ones are the region itself. One thread. */
TOPKIT_JOB_FN void topkit_any_k_advance(topkit_any_k_storage *s, topkit_any_k_sums counts, bool missed, topkit_digit_found found) {
    topkit_any_k_region *r = &s->region;
    topkit_any_k_part *own = &s->part;
    if (!missed) {
        r->keys = topkit_any_k_bin(s->bracket, found.bin);
        r->above = counts.all[0] + found.above;
        r->inside = found.inside;
        own->above = s->above + own->found[0];
        own->inside = own->found[1];
    } else if ((unsigned)s->wanted <= counts.all[0]) {
        r->keys.low = s->bracket.high + 1;
        r->inside = counts.all[0];
        own->inside = s->above;
    } else {
        r->keys.high = s->bracket.low - 1;
        r->above = counts.all[1];
        r->inside -= counts.all[1];
        own->above = s->from;
        own->inside -= s->from;
    }
    s->missed |= missed;
    s->bracket = r->keys;
    s->above = s->from = own->found[0] = own->found[1] = 0;
}

/* Narrows s->region, first to a bin of s->bracket, then from bin to bin. `merged` is memory that nobody needs between two counts. Called by
 * the whole cluster after a sync; ends with a barrier. */
TOPKIT_JOB_FN void topkit_any_k_narrow(topkit_group g, int room, float *stage, topkit_digit_storage *merged, topkit_any_k_storage *s) {
    const int k = s->wanted;
    topkit_digit_storage *own = &s->refiner.digit;
    while (s->region.inside > (unsigned)room && !topkit_any_k_is_cut(s->region, k)) {
        topkit_any_k_count(g, stage, s);
        const topkit_any_k_sums counts = topkit_any_k_share(g, TOPKIT_ANY_K_COUNTS, s->above, s->from, &s->part);
        const bool missed = (unsigned)k <= counts.all[0] || (unsigned)k > counts.all[1];
        topkit_digit_storage *all = topkit_any_k_merge(g, own, merged);
        topkit_digit_found found = {0, 0, 0};
        if (!missed) {
            found = topkit_digit_find(g, all, (unsigned)k - counts.all[0], false);
            topkit_any_k_find_own(g, own, found.bin, &s->part);
        }
        topkit_digit_init(g, own);
        topkit_group_sync(g); /* all have read the counters */
        if (g.thread == 0) topkit_any_k_advance(s, counts, missed, found);
        topkit_group_sync(g);
    }
}

/* [5] in any order: where it `emits`, what is above the region goes to the sink, a `whole` region's members too; other members are
 * collected. Ends with a barrier. */
TOPKIT_JOB_FN void topkit_any_k_emit(topkit_group g, bool emits, bool whole, topkit_collector c, topkit_emitter e,
                                     topkit_any_k_storage *s) {
    const topkit_tiles tiles = topkit_row_tiles(s->row);
    const topkit_gate low = topkit_gate_at(s->region.keys.low, TOPKIT_INDEX_LIMIT), high = topkit_gate_at(s->region.keys.high, 0);
    topkit_tile tile;
    for (int n = s->part.begin + (int)topkit_warp_rank(g); n < s->part.end; n += (int)topkit_warps(g)) {
        topkit_emit_load(tiles, n, topkit_lane(g), &tile);
        const unsigned from = topkit_gate_mask<TOPKIT_ANY>(g, low, &tile);
        const unsigned above = whole ? from : topkit_gate_mask<TOPKIT_ANY>(g, high, &tile), members = from & ~above;
        if (!__any_sync(TOPKIT_FULL_MASK, from != 0)) continue;
        topkit_emit_stage(g, &tile, e.stage);
        const unsigned hits = emits ? __reduce_add_sync(TOPKIT_FULL_MASK, (unsigned)__popc(above)) : 0u;
        if (hits > 0) {
            unsigned slot = 0;
            if (topkit_lane(g) == 0) slot = atomicAdd(&s->emitted, hits);
            topkit_emit_tile(g, e, tile.first, above, (int)__shfl_sync(TOPKIT_FULL_MASK, slot, 0));
        }
        if (__any_sync(TOPKIT_FULL_MASK, members != 0)) {
            const bool fits = topkit_collect_staged(g, c, c.stage, tile.first, members);
            TOPKIT_ASSERT(fits); /* they were counted */
            (void)fits;
        }
    }
    topkit_group_sync(g);
}

/* The cut of what is collected, which the first block has all of, to all blocks, and where the part begins in the order of indices: what is
 * emitted and the ties that are taken before it. `cut` is known, or found here. Ends with a barrier. */
template <int TIES>
TOPKIT_JOB_FN topkit_emit_part topkit_any_k_settle(topkit_group g, const topkit_candidate *items, bool cut_known, topkit_any_k_storage *s) {
    const topkit_any_k_region region = s->region;
    const unsigned need = (unsigned)s->wanted - region.above;
    const bool whole = topkit_any_k_is_whole(region, s->wanted);
    topkit_cut cut = topkit_cut_at(region.keys.low, TOPKIT_INDEX_LIMIT, whole ? 0xffffffffu : need);
    unsigned hits = s->part.above + (whole ? s->part.inside : 0u), ties = whole ? 0u : s->part.inside;
    if (!cut_known) {
        if (topkit_cluster_block() == 0)
            cut = topkit_refine_cut<TIES>(g, items, (int)region.inside, (int)need, &s->refiner, topkit_any_k_bounds(region));
        topkit_any_k_tell(g, cut, &s->cut);
        cut = s->cut.cut;
        topkit_any_k_count_cut(g, items, (int)s->part.inside, cut, &s->part);
        hits = s->part.above + s->part.found[0];
        ties = s->part.found[1];
    }
    const topkit_any_k_sums sums = topkit_any_k_share(g, TOPKIT_ANY_K_CUT, hits, ties, &s->part);
    const unsigned taken = sums.before[1] < cut.ties ? sums.before[1] : cut.ties;
    const topkit_emit_part part = {s->part.begin, s->part.end, sums.before[0] + taken, taken};
    topkit_group_sync(g); /* all have read the counts */
    if (g.thread == 0) {
        s->part.found[0] = s->part.found[1] = 0;
        s->cut.cut = cut;
    }
    topkit_group_sync(g);
    return part;
}

/* The row that was coming is the present one, and all of it undecided. One thread. */
TOPKIT_JOB_FN void topkit_any_k_begin(topkit_any_k_storage *s, int k, int capacity) {
    const topkit_any_k_region everything = {{0u, 0xffffffffu}, 0u, (unsigned)s->coming.length};
    s->row = s->coming;
    s->wanted = s->row.length < k ? s->row.length : k;
    s->region = everything;
    s->missed = 0;
    topkit_any_k_part_begin(s->row, s->row.length <= capacity, &s->part);
}

template <int TIES>
static __global__ void __launch_bounds__(TOPKIT_ROW_THREADS, 2) topkit_any_k_select_kernel(topkit_select_job job) {
    TOPKIT_SHARED(memory);
    topkit_any_k_storage *s = (topkit_any_k_storage *)memory;
    float *sample = (float *)(memory + TOPKIT_ANY_K_HEADER); /* (TOPKIT_ROW_SAMPLE) the stages' memory while the row is read */
    topkit_candidate *items = (topkit_candidate *)(sample + TOPKIT_ROW_THREADS / 32 * TOPKIT_EMIT_STAGE); /* (capacity) */
    const topkit_group block = topkit_group_warps(0, TOPKIT_ROW_THREADS / 32, 0); /* all of it; a number that folds saves registers */
    const topkit_collector collector = {items, job.capacity, sample + topkit_warp_rank(block) * TOPKIT_EMIT_STAGE, &s->collected};
    const int workers = (int)gridDim.x; /* blocks, or clusters */
    const bool alone = topkit_cluster_blocks() == 1;
    const bool ordered = alone && job.lengths && job.rows > workers; /* more rows than blocks: let the long ones come first */
    const int room = alone ? TOPKIT_ROW_SAMPLE : TOPKIT_ANY_K_FEW;

    topkit_refiner_init(block, &s->refiner);
    topkit_dependency_wait();
    if (block.thread == 0) {
        topkit_collector_clear(collector);
        s->collected.dropped = s->collected.compactions = 0;
        s->above = s->from = s->emitted = s->part.found[0] = s->part.found[1] = 0;
        s->builds = ordered && topkit_order_begin(job.queue);
    }
    topkit_cluster_sync(); /* all of its blocks run: they may write to each other */
    if (s->builds) topkit_job_order(block, job, &s->refiner.digit);

    int r = (int)blockIdx.x;
    topkit_row_begin(block, job, r, room, &s->coming, sample);
    while (r < job.rows) {
        if (block.thread == 0) topkit_any_k_begin(s, job.k, job.capacity);
        topkit_copy_async_wait();
        topkit_group_sync(block);

        const topkit_emitter emitter = {collector.stage, topkit_job_sink(job, r)};
        if (topkit_job_samples(job, s->row)) {
            topkit_any_k_propose(block, sample, topkit_sample_count(topkit_job_sampling(job, s->row, r, room)), s);  /* [3] */
            topkit_any_k_narrow(block, job.capacity, collector.stage, (topkit_digit_storage *)sample, s);            /* [4] */
        }
        if (block.thread == 0) s->next = alone ? topkit_queue_claim(job.queue, workers) : r + workers; /* [1]: one warp waits for it */

        /* [5] */
        const topkit_any_k_region region = s->region;
        const bool whole = topkit_any_k_is_whole(region, s->wanted), cut_known = topkit_any_k_is_cut(region, s->wanted);
        const bool in_order = job.order == TOPKIT_ORDER_INDEX || (cut_known && !whole && region.inside > (unsigned)job.capacity);
        const topkit_any_k_sums before = topkit_any_k_share(block, TOPKIT_ANY_K_REGION, s->part.above, s->part.inside, &s->part);
        if (block.thread == 0) s->emitted = before.before[0] + (whole ? before.before[1] : 0u);
        topkit_group_sync(block);
        if (!in_order || !cut_known) topkit_any_k_emit(block, !in_order, whole, collector, emitter, s);
        const bool collects = in_order ? !cut_known : !whole;
        TOPKIT_ASSERT(topkit_collector_held(collector) == (collects ? (int)s->part.inside : 0));
        topkit_any_k_send(block, items, collects ? (int)s->part.inside : 0, before.before[1]);
        if (in_order) {
            const topkit_emit_part part = topkit_any_k_settle<TIES>(block, items, cut_known, s);
            topkit_emit_cut(block, s->row, s->wanted, s->cut.cut, part, emitter, s->hits);
        }

        /* [1] continued: the next row's sample travels while this row is finished. */
        if (block.thread == 0 && ordered && s->next < job.rows) {
            topkit_order_wait(job.queue);
            s->next = job.row_order[s->next - workers];
        }
        topkit_group_sync(block);
        topkit_row_begin(block, job, s->next, room, &s->coming, sample);

        /* [6] */
        const int held = collects ? (int)s->region.inside : 0, filled = (int)s->region.above; /* slots, by [5] */
        if (topkit_cluster_block() == 0) {
            if (held > 0 && job.order == TOPKIT_ORDER_NONE)
                topkit_refine<TIES>(block, items, held, s->wanted - filled, topkit_job_behind(emitter.sink, filled), &s->refiner,
                                    topkit_any_k_bounds(s->region));
            topkit_sink_pad_all(block.thread, block.size, s->wanted, job.k, emitter.sink);
        }
        topkit_group_sync(block); /* all have read what the next row changes */
        if (block.thread == 0) {
            if (topkit_cluster_block() == 0)
                topkit_job_count(job, s->row, 1, held > 0 ? filled + held : s->wanted, s->missed, &s->collected);
            topkit_collector_clear(collector);
        }
        r = s->next;
    }
    if (alone && block.thread == 0) topkit_queue_leave(job.queue, workers);
}

#endif
