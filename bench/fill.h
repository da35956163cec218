/* fill.h: score matrices on the device, from the formulas of inputs.h or from a file of captured rows (inputs.cu, capture.c).
 *
 *   bench_fill(&matrix, BENCH_DSA, BENCH_SEED, 0)              every element is written; -inf past a row's length
 *
 *   bench_capture capture;
 *   bench_capture_open(&capture, "scores.npy", "lengths.npy")  lengths may be null: all columns are valid
 *   bench_fill_capture(&matrix, &capture, BENCH_SEED)
 *   bench_capture_close(&capture)
 *
 * Scores are made as floats and rounded to the matrix's type (matrix.h).
 *
 * A captured row is tiled to any width: the valid parts of all captured rows are cut into blocks of 4096 scores (a row's rest is left
 * out), and every row of the matrix is a shuffle of those blocks of its own, then another, and so on up to its width.
 * Every function returns 0, or has printed one line to stderr.
 */
#ifndef TOPKIT_BENCH_FILL_H
#define TOPKIT_BENCH_FILL_H

#include "matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { BENCH_CAPTURE_BLOCK = 4096 };

typedef struct bench_capture {
    float *pool; /* device: blocks x BENCH_CAPTURE_BLOCK scores */
    int blocks;
} bench_capture;

/* `first_row` is the number of the matrix's first row in the formulas. */
int bench_fill(const bench_matrix *m, int input, uint64_t seed, int first_row);

int bench_capture_open(bench_capture *capture, const char *scores_path, const char *lengths_path);
int bench_fill_capture(const bench_matrix *m, const bench_capture *capture, uint64_t seed);
void bench_capture_close(bench_capture *capture);

/* order[row * tiles + t] is the pool block of tile t of the row; on the device. */
int bench_fill_blocks(const bench_matrix *m, const float *pool, const int *order, int tiles);

#ifdef __cplusplus
}
#endif
#endif
