/* verify.h: an independent check that a Top-K result is exact.
 *
 *   verify_job job = {.scores = s, .row_stride = n, .rows = m, .max_length = n, .k = k, .indices = i, .lengths = l};
 *   verify_report report;
 *   int wrong = verify(&job, &report);      0 exact, 1 not exact (report.text says where), -1 not enough memory
 *
 * Shares nothing with the selection: it compares floats as floats and merge-sorts every row whole. The order is total: larger is
 * better, -0.0 equals +0.0, infinities are ordinary values, all NaNs are equal and rank below -inf (above +inf with
 * nan_highest). Equal scores are sorted by index.
 *
 * For each row, with m = min(k, length), it demands
 *   - m distinct indices inside the row as a prefix, then -1 up to k;
 *   - that the selected scores are the m first of the sorted row, bit for bit once -0.0 is +0.0 and NaNs are one;
 *   - with ties lowest, that they are those very indices; with order index or score, that they stand in that order;
 *   - with values, the input's own bits beside each index, and -inf behind the prefix.
 * Cost: n log n a row, three arrays of a row's length.
 */
#ifndef TOPKIT_TOOL_VERIFY_H
#define TOPKIT_TOOL_VERIFY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct verify_job {
    const float *scores;  /* (rows x row_stride) */
    long long row_stride;
    const int *lengths;   /* (rows) 0 to max_length; null: max_length */
    int rows;
    int max_length;
    int k;
    int ties;             /* TOPKIT_TIES_..., TOPKIT_ORDER_... of select.h */
    int order;
    int nan_highest;
    const int *indices;   /* (rows x k) */
    const float *values;  /* (rows x k), may be null */
} verify_job;

typedef struct verify_report {
    long long indices;    /* that passed every check */
    int wrong_rows;
    char text[160];       /* the first fault, "row 3: ..."; empty if there is none */
} verify_report;

int verify(const verify_job *job, verify_report *report);

/* `count` halves ('<f2') as floats of the same value, the payload of a NaN at the top of the float's, in new memory; null without. */
float *verify_widen(const unsigned short *halves, size_t count);

#ifdef __cplusplus
}
#endif
#endif
