/* 00_inline.cu: selection inside a kernel of one's own. Start here; 01_row_select.cuh shows how the same steps are made fast.
 *
 *   00_inline [rows] [columns] [k]          defaults: 48 16384 256; at most 16384 columns, k at most 1024
 *
 * The kernel wants, for each row, the sum of score * value over the k best scores: what a sparse attention does, without its exponentials.
 * A callback takes each selected score as it is found, so that no index is ever written to memory. One block a row, with 48 KB of
 * static shared memory. Any k up to CAPACITY - TOPKIT_TILE, any length.
 *
 * Exit code 0: every row is exact; 1: some row is not; 2: wrong arguments; 77: there is no device. Scores are distinct whole numbers and
 * values are -1, 0 and 1, so that no sum is rounded, in whatever order it is added up (hence the limits), and each tells what was selected.
 */
#include <stdio.h>
#include <stdlib.h>

/* [cut inline] */
#include "topkit/topkit.cuh"

enum { THREADS = 256, SAMPLE = 2048, CAPACITY = 3072 }; // CAPACITY >= k + 512, or a full buffer could never make room

struct storage {
    float stage[THREADS / 32 * TOPKIT_TILE]; // the sample first, then a tile for each warp
    topkit_candidate items[CAPACITY];
    topkit_refiner_storage refiner;
    topkit_collector_state collected;
    float sum;
};

/* out[row] = the sum of score * value over the k best scores of the row. salt: another one in every launch, so that nobody can make rows
 * whose sample misleads; it changes the time they take, never the answer. */
__global__ void attend(const float *scores, const int *lengths, int columns, int k, const float *values, unsigned salt, float *out) {
    __shared__ __align__(16) storage s; // the stage holds 16-byte vectors
    const topkit_group block = topkit_group_block();
    const topkit_row row = topkit_row_at(scores, columns, nullptr, lengths, columns, (int)blockIdx.x); // [1] claim
    const int wanted = row.length < k ? row.length : k;
    const topkit_collector collector = {s.items, CAPACITY, s.stage + topkit_warp_rank(block) * TOPKIT_TILE, &s.collected};
    const topkit_gate open = topkit_gate_open(); // lets everything in
    topkit_gate gate = open;

    const topkit_sampling sampling = topkit_sample_plan(row, (row.length / SAMPLE + 1) * 4, 4, blockIdx.x ^ salt); // [2] sample
    topkit_sample(block, sampling, s.stage);
    topkit_refiner_init(block, &s.refiner);
    if (block.thread == 0) s.sum = 0.0f;
    topkit_group_sync(block);
    if (row.length > CAPACITY) { // [3] propose what about (k + CAPACITY) / 2 scores reach; a shorter row fits the buffer whole
        const int count = topkit_sample_count(sampling), rank = (int)((wanted + CAPACITY) / 2LL * count / row.length) + 1;
        gate = topkit_gate_at(topkit_propose_from_sample(block, s.stage, count, rank, 0, &s.refiner.digit).key, TOPKIT_INDEX_LIMIT);
    }
    int held = 0;
    for (unsigned order = TOPKIT_ASCENDING; held < wanted; order = salt | 1, gate = open) { // [5] certify: again, shuffled, if too high
        if (block.thread == 0) topkit_collector_clear(collector);
        topkit_group_sync(block);
        held = topkit_scan<TOPKIT_ANY>(block, row, wanted, gate, order, collector, &s.refiner); // [4] collect
    }
    float sum = 0.0f;
    auto add = [&](int, int index, unsigned bits) { sum += __uint_as_float(bits) * values[index]; };
    const topkit_sink_call<decltype(add)> sink = {add};
    topkit_refine<TOPKIT_ANY>(block, s.items, held, wanted, sink, &s.refiner); // [6] refine, [7] deliver
    atomicAdd(&s.sum, sum);
    topkit_group_sync(block);
    if (block.thread == 0) out[blockIdx.x] = s.sum;
}
/* [end] */

enum { SALT = 12345 }; /* known, so that rows can be made that mislead their sample: a program of yours draws it */

static unsigned hash(unsigned x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Whether score i of row r is in its sample (topkit/sampler.cuh), where rows begin on 16-byte boundaries. */
static int is_sampled(int r, int i, int length) {
    const int places = length / SAMPLE + 1, stratum = i / (4 * places);
    const unsigned drawn = hash(hash((unsigned)r ^ SALT) + (unsigned)stratum);
    return i / 4 % places == (int)(drawn * (unsigned long long)places >> 32);
}

/* Every third row is shuffled, every third ascending, and every third shows its best scores to the sampler and no others. */
static int score_at(int r, int i, int columns, int length) {
    const int shuffled = (int)((i * 4099LL + r * 17) % columns); /* a permutation: columns is not a multiple of the prime 4099 */
    if (r % 3 == 1) return i;
    if (r % 3 == 2) return is_sampled(r, i, length) ? columns + shuffled : shuffled;
    return shuffled;
}

static int length_of(int r, int columns, int k) {
    const int some[] = {columns, 0, 1, k - 1, k, k + 1, CAPACITY, CAPACITY + 1};
    const int length = r < 8 ? some[r] : columns - r;
    return length < 0 ? 0 : length > columns ? columns : length;
}

typedef struct pair {
    float score, value;
} pair;

static int larger_first(const void *a, const void *b) {
    const float x = ((const pair *)a)->score, y = ((const pair *)b)->score;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void require(cudaError_t status, const char *what) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "00_inline: %s: %s\n", what, cudaGetErrorString(status));
    exit(1);
}

int main(int argc, char **argv) {
    const int rows = argc > 1 ? atoi(argv[1]) : 48, columns = argc > 2 ? atoi(argv[2]) : 16384, k = argc > 3 ? atoi(argv[3]) : 256;
    int devices = 0, wrong = 0;
    if (rows < 1 || columns < 1 || columns > 16384 || columns % 4099 == 0 || k < 0 || k > 1024) {
        fputs("usage: 00_inline [rows] [columns] [k]\n", stderr);
        return 2;
    }
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        puts("00_inline: skipped, there is no CUDA device");
        return 77;
    }
    const size_t elements = (size_t)rows * (size_t)columns;
    float *scores = (float *)malloc(elements * sizeof(float)), *values = (float *)malloc((size_t)columns * sizeof(float));
    float *sums = (float *)malloc((size_t)rows * sizeof(float));
    int *lengths = (int *)malloc((size_t)rows * sizeof(int));
    pair *sorted = (pair *)malloc((size_t)columns * sizeof(pair));
    if (!scores || !values || !sums || !lengths || !sorted) return 1;
    for (int r = 0; r < rows; r++) {
        lengths[r] = length_of(r, columns, k);
        for (int i = 0; i < columns; i++) scores[(size_t)r * (size_t)columns + (size_t)i] = (float)score_at(r, i, columns, lengths[r]);
    }
    for (int i = 0; i < columns; i++) values[i] = (float)(i % 3 - 1);

    float *d_scores, *d_values, *d_sums;
    int *d_lengths;
    require(cudaMalloc((void **)&d_scores, elements * sizeof(float)), "memory for the scores");
    require(cudaMalloc((void **)&d_values, (size_t)columns * sizeof(float)), "memory for the values");
    require(cudaMalloc((void **)&d_sums, (size_t)rows * sizeof(float)), "memory for the sums");
    require(cudaMalloc((void **)&d_lengths, (size_t)rows * sizeof(int)), "memory for the lengths");
    require(cudaMemcpy(d_scores, scores, elements * sizeof(float), cudaMemcpyHostToDevice), "scores");
    require(cudaMemcpy(d_values, values, (size_t)columns * sizeof(float), cudaMemcpyHostToDevice), "values");
    require(cudaMemcpy(d_lengths, lengths, (size_t)rows * sizeof(int), cudaMemcpyHostToDevice), "lengths");

    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)rows);
    config.blockDim = dim3(THREADS);
    const float *in_scores = d_scores, *in_values = d_values;
    const int *in_lengths = d_lengths;
    require(cudaLaunchKernelEx(&config, attend, in_scores, in_lengths, columns, k, in_values, (unsigned)SALT, d_sums), "launch");
    require(cudaMemcpy(sums, d_sums, (size_t)rows * sizeof(float), cudaMemcpyDeviceToHost), "kernel");

    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int i = 0; i < lengths[r]; i++) {
            const pair p = {scores[(size_t)r * (size_t)columns + (size_t)i], values[i]};
            sorted[i] = p;
        }
        qsort(sorted, (size_t)lengths[r], sizeof(pair), larger_first);
        for (int i = 0; i < k && i < lengths[r]; i++) sum += (double)sorted[i].score * (double)sorted[i].value;
        wrong += (double)sums[r] != sum;
    }
    printf("00_inline: %d rows of up to %d scores, k %d: %d rows wrong\n", rows, columns, k, wrong);
    puts(wrong ? "NOT EXACT" : "exact");
    return wrong ? 1 : 0;
}
