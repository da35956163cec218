/* fill.h: score matrices on the device, from the formulas of inputs.h or from a file of captured rows (inputs.cu, capture.c).
 *
 *   bench_fill(scores, lengths, BENCH_DSA, BENCH_SEED, rows, columns, 0)       every element is written; -inf past a row's length
 *
 *   bench_capture capture;
 *   bench_capture_open(&capture, "scores.npy", "lengths.npy")                  lengths may be null: all columns are valid
 *   bench_fill_capture(scores, lengths, &capture, BENCH_SEED, rows, columns)
 *   bench_capture_close(&capture)
 *
 * A captured row is tiled to any width: the valid parts of all captured rows are cut into blocks of 4096 scores (a row's rest is left
 * out), and every row of the matrix is a shuffle of those blocks of its own, then another, and so on up to its width.
 * Rows are contiguous: row stride = columns. Every function returns 0, or has printed one line to stderr.
 */
#ifndef TOPKIT_BENCH_FILL_H
#define TOPKIT_BENCH_FILL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BENCH_CAPTURE_BLOCK = 4096 };

typedef struct bench_capture {
    float *pool; /* device: blocks x BENCH_CAPTURE_BLOCK scores */
    int blocks;
} bench_capture;

/* `lengths` is on the device. `first_row` is the number of the matrix's first row in the formulas. */
int bench_fill(float *scores, const int *lengths, int input, uint64_t seed, int rows, int columns, int first_row);

int bench_capture_open(bench_capture *capture, const char *scores_path, const char *lengths_path);
int bench_fill_capture(float *scores, const int *lengths, const bench_capture *capture, uint64_t seed, int rows, int columns);
void bench_capture_close(bench_capture *capture);

/* order[row * tiles + t] is the pool block of tile t of the row; on the device. */
int bench_fill_blocks(float *scores, const int *lengths, const float *pool, const int *order, int rows, int columns, int tiles);

#ifdef __cplusplus
}
#endif
#endif
