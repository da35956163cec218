/* every_call.cu: calls every function of the library, templates instantiated. Only ever compiled, by the build tests.
 *
 * topkit.cuh is the one include, so that NVRTC can compile it with named headers or with the single header pasted before it. headers.sh
 * checks that no public function is missing here. What a call returns is stored, or the compiler would drop the call.
 */
#include "topkit/topkit.cuh"

#ifndef EVERY_CALL_UNIT /* a namespace: two units of one program each have these kernels */
#define EVERY_CALL_UNIT every_call
#endif

namespace EVERY_CALL_UNIT {

struct every_call_callback {
    int *out;
    __device__ void operator()(int slot, int index, unsigned bits) const { out[slot] = index + (int)bits; }
};

__global__ void every_call_group(unsigned *out) {
    const topkit_group block = topkit_group_block(), warp = topkit_group_warp();
    topkit_group g = block;
    if (threadIdx.x >= 32) g = topkit_group_warps(1, 3, 1);
    unsigned total;
    out[0] = topkit_warp_exclusive_sum(warp, topkit_lane(warp), &total) + topkit_lanes_below(warp);
    out[1] = total + topkit_warp_rank(block) + topkit_warps(block);
    out[2] = topkit_warp_reserve(warp, out[3] > 4, out + 4);
    topkit_group_sync(g);
    topkit_group_sync(warp);
}

__global__ void every_call_ptx(unsigned *out, const float *scores) {
    __shared__ __align__(16) float copied[64];
    __shared__ unsigned long long bar;
#if TOPKIT_PTX
    out[6] = topkit_shared_address(copied);
#endif
    out[7] = topkit_peek(out + 8) + (unsigned)topkit_peek_pair((const unsigned long long *)(out + 10));
    topkit_fence_block();
    topkit_relax();
    topkit_bar_sync(1, 64);
    topkit_bar_arrive(2, 64);
    out[0] = topkit_ge(scores[0], scores[1]) + topkit_not_lt(scores[0], scores[1]);
    out[9] = topkit_f16x2_ge(out[10], out[11]) + topkit_f16x2_not_lt(out[10], out[11]);
    out[12] = topkit_bf16x2_ge(out[10], out[11]) + topkit_bf16x2_not_lt(out[10], out[11]);
    out[1] = (unsigned)topkit_load_stream((const float4 *)scores).w;
    topkit_copy_async_4(copied, scores);
    topkit_copy_async_16(copied + 4, scores + 4);
    topkit_copy_async_commit();
    topkit_copy_async_wait_left<1>();
    topkit_copy_async_wait();
    topkit_store_release(out + 2, topkit_load_acquire(out + 3) + topkit_add_acq_rel(out + 4, 1));
    topkit_mbarrier_init(&bar, 64);
    topkit_mbarrier_arrive(&bar);
    topkit_copy_async_arrive(&bar);
#if TOPKIT_HAS_BULK_COPY
    topkit_mbarrier_arrive_expect(&bar, 64);
    topkit_bulk_copy(copied + 16, scores, 64, &bar);
#endif
    topkit_mbarrier_wait(&bar, topkit_mbarrier_test(&bar, 0) || topkit_mbarrier_test_for(&bar, 0, 1000) ? 1 : 0);
    out[5] = (unsigned)copied[threadIdx.x];
}

__global__ void every_call_signal(unsigned *out) {
    __shared__ topkit_signal signal;
    topkit_signal_init(&signal, blockDim.x);
    topkit_signal_arrive(&signal);
    out[0] = topkit_signal_test(&signal, 0) + topkit_signal_test_for(&signal, 0, 1000);
    topkit_signal_wait(&signal, 1);
}

__global__ void every_call_key(unsigned long long *out, const unsigned *bits) {
    const unsigned key = topkit_key(bits[0]);
    const unsigned short half = (unsigned short)bits[1];
    out[0] = topkit_pair_key(topkit_key_bits(key), (int)bits[2]);
    out[1] = topkit_bf16_bits(half) + topkit_f16_bits(half);
    float single;
    topkit_narrow(bits[5], &single);
    out[3] = topkit_widen(single);
}

__global__ void every_call_row(unsigned *out, const float *scores, const int *numbers) {
    const topkit_row row = topkit_row_at(scores, numbers[0], numbers, numbers + 1, numbers[2], (int)blockIdx.x);
    const topkit_tiles tiles = topkit_row_tiles(row);
    topkit_tile tile;
    topkit_tile_load(tiles, topkit_visit(numbers[3], tiles.count, out[5]), threadIdx.x & 31, &tile);
    const topkit_gate gate = topkit_gate_at(out[2], numbers[4]);
    out[0] = topkit_tile_mask(&tile, gate.value);
    if (topkit_tiles_have_edge(tiles)) topkit_tile_load_edge(tiles, threadIdx.x & 31, &tile);
    else topkit_tile_load_from((const float4 *)scores, numbers[6], numbers[7], true, threadIdx.x & 31, &tile);
    out[4] = topkit_tile_mask(&tile, gate.value);
    out[1] = topkit_gate_is_open(gate) || topkit_gate_admits(gate, out[3], numbers[5]);
}

__global__ void every_call_sampler(float *out, const float *scores, const int *numbers) {
    __shared__ __align__(16) float sample[1024];
    const topkit_group g = topkit_group_block();
    const topkit_row row = {scores, numbers[0]};
    const topkit_sampling s = topkit_sample_plan(row, numbers[1], numbers[2], topkit_hash(numbers[3]));
    topkit_sample(g, s, sample);
    topkit_group_sync(g);
    topkit_sample_async(g, s, sample);
    topkit_copy_async_wait();
    out[0] = sample[topkit_sample_count(s) - 1];
}

__global__ void every_call_threshold(unsigned *out, const float *scores, const int *numbers) {
    __shared__ topkit_digit_storage digit;
    const topkit_group g = topkit_group_block();
    topkit_digit_init(g, &digit);
    topkit_group_sync(g);
    unsigned low = out[0], high = out[1];
    topkit_digit_range(g, &digit, &low, &high);
    topkit_digit_count(&digit, (out[2] - low) >> topkit_digit_shift(high - low));
    topkit_digit_count_if(g, &digit, out[2] > low, 5);
    topkit_count_at(digit.histogram, out[4]);
    topkit_count_at(digit.histogram, TOPKIT_COUNT_FROM + 7.0f);
    topkit_group_sync(g);
    out[3] = topkit_digit_find(g, &digit, out[4], true).bin;
    out[5] = topkit_propose_from_sample(g, scores, numbers[0], numbers[1], numbers[2], &digit).second;
    out[11] = topkit_propose_roughly(g, scores, numbers[0], numbers[1], &digit).maximum;
    out[10] = (unsigned)topkit_add_zero(*topkit_once(scores));
    out[9] = topkit_sample_crowds(g, scores, numbers[0], numbers[1], out[5], &digit);
    out[6] = topkit_propose_from_indices(g, scores, numbers[0], numbers, numbers[3], &digit).key;
    out[7] = topkit_propose_value(scores[0], numbers[4]).key;
    out[8] = topkit_propose_from_ranks(topkit_group_warp(), out + 16, numbers[5], numbers[6], numbers[7]).key;
}

template <int TIES, typename SINK>
static __device__ void every_call_refine(const topkit_candidate *items, topkit_candidate *kept, int count, int k, SINK sink,
                                         topkit_refiner_storage *s) {
    const topkit_group g = topkit_group_block();
    topkit_refiner_init(g, s);
    topkit_group_sync(g);
    topkit_refine<TIES>(g, items, count, k, sink, s);
    const topkit_cut cut = topkit_refine_cut<TIES>(g, items, count, k, s, {1, 2});
    topkit_refine_emit(g, items, count, cut, sink, s);
    topkit_group_sync(g);
    if (topkit_cut_selects(g, topkit_cut_at(cut.key, cut.bound, 1), items[0], true, s)) kept[0].index = 0;
    topkit_group_sync(g);
    kept[1].index = topkit_refine_keep(g, kept, count, cut, s);
    topkit_sink_pad_all(g.thread, g.size, count, k, sink);
    topkit_sink_identity(g.thread, g.size, (const float *)items, count, k, sink);
}

template <typename SINK>
static __device__ void every_call_sink(SINK sink, int k) {
    topkit_sink_put(sink, 0, k, 2);
    topkit_sink_pad(sink, 1);
    if (topkit_sink_bare(sink)) topkit_sink_pad(sink, 2);
}

__global__ void every_call_refiner(int *out, const topkit_candidate *items, topkit_candidate *kept, int count, int k) {
    __shared__ topkit_refiner_storage storage;
    const topkit_sink_indices indices = {out, 1};
    const topkit_sink_pairs pairs = {out, (float *)out + k, 1};
    const topkit_sink_pages pages = {out, out + k, 6};
    const topkit_sink_mask mask = {(unsigned *)out};
    const topkit_sink_call<every_call_callback> call = {{out}};
    every_call_refine<TOPKIT_ANY>(items, kept, count, k, indices, &storage);
    every_call_refine<TOPKIT_LOWEST_INDEX>(items, kept, count, k, pairs, &storage);
    every_call_sink(pages, k);
    every_call_sink(mask, k);
    every_call_sink(call, k);
}

template <int TIES>
static __device__ void every_call_collect(const float *scores, int length, int k, topkit_collector c, topkit_refiner_storage *s, int *out) {
    const topkit_group g = topkit_group_block();
    const topkit_row row = {scores, length};
    topkit_gate gate = topkit_gate_open();
    topkit_tile tile;
    if (g.thread == 0) topkit_collector_clear(c);
    topkit_refiner_init(g, s);
    topkit_group_sync(g);
    topkit_tile_load(topkit_row_tiles(row), 0, topkit_lane(g), &tile);
    out[0] = topkit_collect_tile<TIES>(g, c, gate, &tile);
    out[1] = topkit_collect_staged(g, c, c.stage, 512, topkit_gate_mask<TIES>(g, gate, &tile));
    topkit_group_sync(g);
    topkit_candidate *slot = c.items;
    out[5] = topkit_collect_reserve(g, c, 1, &slot) ? slot->index : 0;
    out[2] = topkit_collector_overflowed(c);
    gate = topkit_compact<TIES>(g, c, k, s);
    out[3] = topkit_scan<TIES>(g, row, k, gate, TOPKIT_ASCENDING, c, s) + topkit_collector_held(c);
    out[4] = topkit_scan<TIES>(g, row, k, gate, (unsigned)out[7], c, s);
    topkit_scan_begin(g, row, 1, c.stage);
    topkit_tile_copy_async(topkit_row_tiles(row), (int)topkit_warp_rank(g), topkit_lane(g), c.stage);
    topkit_copy_async_wait();
    __syncwarp();
    topkit_tile copied;
    topkit_tile_load_copied(topkit_row_tiles(row), out[6], topkit_lane(g), c.stage, &copied);
    topkit_cluster_write_pair(c.items, topkit_cluster_block(), copied.valid, (unsigned)copied.first);
    topkit_cluster_write_pair(c.items, topkit_cluster_block(), topkit_cluster_read(&c.items[1].bits, 0), 0);
    out[4] += topkit_scan_begun<TIES>(g, row, k, gate, 1, c, s);
    out[5] = topkit_collect_lanes(g, c, 0x55555555u << (g.thread & 1), out[6] > 3 ? 2u : 0u, &slot);
    if (out[5] > 0) *slot = c.items[0];
}

template <int TIES>
static __device__ void every_call_team_of(topkit_team team, const topkit_candidate *items, int count, int k, topkit_refiner_storage *s,
                                          topkit_team_storage *storage, int *out) {
    const topkit_group g = topkit_group_block();
    const topkit_sink_indices sink = {out, 0};
    const topkit_team_boundary b = topkit_team_search<TIES>(g, &team, items, count, k, 0, 0xffffffffu, 1 << 20, &s->digit, storage);
    const unsigned own = topkit_team_emit<TIES>(g, &team, items, count, k, b, sink, s);
    if (topkit_team_settles<TIES>(b)) topkit_team_meet(g, &team);
    topkit_team_settle(g, &team, own, k, b, sink, s);
    out[k] = (int)topkit_team_find(g, &team, (unsigned)k, &s->digit, storage).bin;
    const topkit_row row = {(const float *)items, 2 * count};
    const topkit_resident part = topkit_resident_at(row, (float *)storage->members, (int)sizeof storage->members);
    float4 mine;
    const int holders = topkit_sample_vector(g, row, (unsigned)out[k], &mine);
    const topkit_proposal gate = topkit_propose_from_vectors(g, mine, holders, 7, &s->digit);
    const topkit_team_resident_boundary linear = topkit_team_resident_search<TIES>(g, &team, part, k, gate, count, &s->digit, storage);
    out[k + 1] = (int)topkit_team_resident_emit<TIES>(g, &team, part, k, linear, sink, s) + topkit_held(items, k).index;
    if (out[k + 1] > 3) topkit_team_leave(g, &team);
    else out[k + 2] = topkit_team_last(g, &team, storage);
}

__global__ void every_call_team(const topkit_candidate *items, int count, int k, unsigned char *workspace, unsigned *arrivals, int *out) {
    __shared__ topkit_refiner_storage storage;
    __shared__ topkit_team_storage shared;
    unsigned char *own = workspace + blockIdx.y * topkit_team_bytes((int)gridDim.x);
    topkit_cluster_enter();
    topkit_refiner_init(topkit_group_block(), &storage);
    const topkit_team cluster = topkit_team_cluster(&shared, 0);
    const topkit_team resident = topkit_team_resident(blockIdx.x, gridDim.x, own, arrivals, count);
    every_call_team_of<TOPKIT_ANY>(cluster, items, count, k, &storage, &shared, out);
    every_call_team_of<TOPKIT_LOWEST_INDEX>(resident, items, count, k, &storage, &shared, out);
    topkit_cluster_arrive();
    topkit_cluster_wait();
    out[0] += (int)topkit_cluster_blocks();
}

__global__ void every_call_collector(const float *scores, int length, int k, topkit_candidate *items, float *stages, int *out) {
    __shared__ topkit_refiner_storage storage;
    __shared__ topkit_collector_state state;
    topkit_dependency_wait();
    const topkit_collector c = {items, 4096, stages + 512 * topkit_warp_rank(topkit_group_block()), &state};
    every_call_collect<TOPKIT_ANY>(scores, length, k, c, &storage, out);
    every_call_collect<TOPKIT_LOWEST_INDEX>(scores, length, k, c, &storage, out + 8);
    topkit_cluster_sync();
    const topkit_sink_indices sink = {out + topkit_sort_room(k), 0};
    topkit_sort(topkit_group_block(), items, k, TOPKIT_BY_INDEX, sink, &storage.digit);
    topkit_sort(topkit_group_block(), items, k, TOPKIT_BY_SCORE, sink, &storage.digit);
    topkit_sort_mask(topkit_group_block(), (unsigned *)stages, length, scores, sink, &storage.digit);
}

template <int TIES>
static __device__ void every_call_resident(const float *scores, int length, int k, float *place, topkit_resident_storage *s, int *out) {
    const topkit_group g = topkit_group_block();
    const topkit_row row = {scores, length};
    const topkit_sink_indices sink = {out + 16, 0};
    topkit_resident r = topkit_resident_at(row, place, topkit_resident_bytes(length) + out[0]);
    topkit_resident_copy_async(g, row, r);
    topkit_resident_init(g, s);
    topkit_copy_async_wait();
    const topkit_resident_bracket bracket = topkit_resident_bound(g, r, k, s);
    topkit_resident_list(g, bracket, k, &r, s);
    topkit_resident_search<TIES>(g, bracket, k, &r, s);
    topkit_resident_emit(g, r, sink);
    topkit_resident_settle(g, r.listed, k, sink, s);
    topkit_resident_clear(g, s);
    out[1] = topkit_resident_group(out[2], k) + topkit_resident_seen(r, s);
    out[3] = topkit_subtract(topkit_greater(scores[0], scores[1]), topkit_lesser(scores[2], scores[3])) > 0.0f;
}

__global__ void every_call_residents(const float *scores, int length, int k, int *out) {
    __shared__ topkit_resident_storage storage;
    __shared__ __align__(16) float place[4096];
    every_call_resident<TOPKIT_ANY>(scores, length, k, place, &storage, out);
    topkit_group_sync(topkit_group_block());
    every_call_resident<TOPKIT_LOWEST_INDEX>(scores, length, k, place, &storage, out);
}

template <int TIES, typename SCORE>
static __device__ void every_call_half(topkit_row_of<SCORE> row, SCORE *values, int k, topkit_collector c, topkit_refiner_storage *s,
                                       int *out) {
    const topkit_group g = topkit_group_block();
    const topkit_sink_pairs_of<SCORE> sink = {out + 16, values, 0};
    const topkit_gate gate = topkit_gate_at((unsigned)out[0], out[1]);
    const topkit_half_gate half = topkit_half_gate_of<SCORE>(gate);
    const topkit_half_tiles<SCORE> tiles = topkit_half_row_tiles(row);
    topkit_tile tile;
    topkit_half_tile_load(tiles, out[2], topkit_lane(g), &tile);
    out[3] = (int)topkit_half_tile_mask<SCORE>(&tile, topkit_half_gate_value<SCORE>(gate));
    topkit_half_tile_load_edge(tiles, topkit_lane(g), &tile);
    out[4] = (int)topkit_half_gate_mask<TIES, SCORE>(g, half, &tile);
    out[5] = topkit_half_collect<TIES, SCORE>(g, c, half, &tile);
    const topkit_sampling sampling = topkit_sample_plan(topkit_half_words(row), 128, 4, 1);
    topkit_sample_async(g, sampling, c.stage);
    topkit_copy_async_wait();
    topkit_group_sync(g);
    topkit_half_widen<SCORE>(g, c.stage, topkit_sample_count(sampling));
    out[6] = topkit_scan<TIES>(g, row, k, gate, (unsigned)out[7], c, s);
    topkit_refine<TIES>(g, c.items, out[6], k, sink, s);
    topkit_sink_identity(g.thread, g.size, row.scores, row.length, k, sink);
}

__global__ void every_call_halves(const unsigned short *scores, int length, int k, topkit_candidate *items, float *stages, int *out) {
    __shared__ topkit_refiner_storage storage;
    __shared__ topkit_collector_state state;
    const topkit_collector c = {items, 4096, stages + 512 * topkit_warp_rank(topkit_group_block()), &state};
    const topkit_row_of<topkit_bf16> brain = {(const topkit_bf16 *)scores, length};
    const topkit_row_of<topkit_f16> half = {(const topkit_f16 *)scores, length};
    every_call_half<TOPKIT_ANY>(brain, (topkit_bf16 *)out, k, c, &storage, out);
    every_call_half<TOPKIT_LOWEST_INDEX>(half, (topkit_f16 *)out, k, c, &storage, out);
}

__global__ void every_call_scheduler(topkit_queue *queue, const int *lengths, int rows, int *order, int *first) {
    __shared__ topkit_digit_storage digit;
    const topkit_group g = topkit_group_block();
    topkit_digit_init(g, &digit);
    topkit_group_sync(g);
    if (topkit_order_begin(queue)) {
        const int filled = topkit_order_build(g, lengths, 4096, 0, rows, order, &digit);
        first[0] = topkit_segments_build(g, lengths, 4096, order, filled, 512, first + 1, &digit);
        topkit_order_publish(queue);
    }
    topkit_order_wait(queue);
    const topkit_segment segment = topkit_segment_of(order, first, rows, 512, topkit_queue_claim(queue, (int)gridDim.x));
    first[0] = segment.row + segment.begin;
    topkit_queue_leave(queue, (int)gridDim.x);
}

}
