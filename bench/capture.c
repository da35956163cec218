/* capture.c: captured rows of scores from .npy files, cut into blocks and shuffled; see fill.h. */
#include "fill.h"
#include "gpu.h"
#include "npy.h"

#include <stdio.h>
#include <stdlib.h>

static int read_array(const char *path, npy_array *array)
{
    char message[NPY_MESSAGE];
    if (npy_read(path, array, message, sizeof message) == 0)
        return 0;
    fprintf(stderr, "topkit-bench: %s\n", message);
    return 1;
}

/* The valid scores of row r, as the library counts them: a negative length is 0, one beyond the row all of it. */
static long long captured_length(const npy_array *lengths, long long r, long long width)
{
    long long n = width;
    if (lengths->data)
        n = lengths->type == NPY_INT32 ? ((const int32_t *)lengths->data)[r] : ((const int64_t *)lengths->data)[r];
    return n < 0 ? 0 : n > width ? width : n;
}

static int make_pool(bench_capture *capture, const npy_array *scores, const npy_array *lengths, const char *path)
{
    if (scores->type != NPY_FLOAT32 || scores->rank != 2) {
        fprintf(stderr, "topkit-bench: %s: not a matrix of float32\n", path);
        return 1;
    }
    if (lengths->data && ((lengths->type != NPY_INT32 && lengths->type != NPY_INT64) || (long long)lengths->count != scores->shape[0])) {
        fprintf(stderr, "topkit-bench: %s: its lengths are not one int32 or int64 for each row\n", path);
        return 1;
    }
    long long rows = scores->shape[0], width = scores->shape[1], blocks = 0;
    for (long long r = 0; r < rows; ++r)
        blocks += captured_length(lengths, r, width) / BENCH_CAPTURE_BLOCK;
    if (blocks < 1 || blocks > 1 << 20) {
        fprintf(stderr, "topkit-bench: %s: holds %lld blocks of %d scores\n", path, blocks, BENCH_CAPTURE_BLOCK);
        return 1;
    }
    const size_t block_bytes = BENCH_CAPTURE_BLOCK * sizeof(float);
    capture->pool = bench_gpu_alloc((size_t)blocks * block_bytes);
    if (!capture->pool) {
        fprintf(stderr, "topkit-bench: no device memory for the capture\n");
        return 1;
    }
    for (long long r = 0; r < rows; ++r) {
        const float *row = (const float *)scores->data + r * width;
        long long whole = captured_length(lengths, r, width) / BENCH_CAPTURE_BLOCK;
        if (bench_gpu_upload(capture->pool + (size_t)capture->blocks * BENCH_CAPTURE_BLOCK, row, (size_t)whole * block_bytes))
            return 1;
        capture->blocks += (int)whole;
    }
    return 0;
}

int bench_capture_open(bench_capture *capture, const char *scores_path, const char *lengths_path)
{
    npy_array scores = {0}, lengths = {0};
    *capture = (bench_capture){0};
    int bad = read_array(scores_path, &scores) || (lengths_path && read_array(lengths_path, &lengths)) ||
              make_pool(capture, &scores, &lengths, scores_path);
    npy_free(&scores);
    npy_free(&lengths);
    if (bad)
        bench_capture_close(capture);
    return bad;
}

void bench_capture_close(bench_capture *capture)
{
    bench_gpu_free(capture->pool);
    *capture = (bench_capture){0};
}

/* One row's order: shuffles of all blocks, one behind the other, by Fisher and Yates. */
static void shuffle_row(int *order, int tiles, int blocks, uint64_t seed, int row, int *scratch)
{
    for (int done = 0; done < tiles; done += blocks) {
        for (int i = 0; i < blocks; ++i)
            scratch[i] = i;
        for (int i = blocks - 1; i > 0; --i) {
            int j = (int)(bench_hash(seed ^ 0xCA97u, (uint32_t)row, (uint32_t)(done + i)) % (uint64_t)(i + 1));
            int swap = scratch[i];
            scratch[i] = scratch[j];
            scratch[j] = swap;
        }
        for (int i = 0; i < blocks && done + i < tiles; ++i)
            order[done + i] = scratch[i];
    }
}

int bench_fill_capture(const bench_matrix *m, const bench_capture *capture, uint64_t seed)
{
    int tiles = (m->columns + BENCH_CAPTURE_BLOCK - 1) / BENCH_CAPTURE_BLOCK;
    size_t bytes = (size_t)m->rows * (size_t)tiles * sizeof(int);
    int *order = malloc(bytes), *scratch = malloc((size_t)capture->blocks * sizeof(int)), *device = bench_gpu_alloc(bytes);
    int bad = !order || !scratch || !device;
    if (bad)
        fprintf(stderr, "topkit-bench: no memory for the order of captured blocks\n");
    for (int r = 0; r < m->rows && !bad; ++r)
        shuffle_row(order + (size_t)r * (size_t)tiles, tiles, capture->blocks, seed, r, scratch);
    bad = bad || bench_gpu_upload(device, order, bytes) || bench_fill_blocks(m, capture->pool, device, tiles);
    bench_gpu_free(device);
    free(scratch);
    free(order);
    return bad;
}
