/* verify.c: the oracle behind verify.h. Plain and slow on purpose: every rule is one comparison that can be read. */
#include "verify.h"

#include "select.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    float score;
    int index;
} entry;

typedef struct oracle {
    entry *sorted;   /* (max_length) the row, best first */
    entry *selected; /* (max_length) what the result picked, best first */
    entry *scratch;  /* (max_length) for the sort */
    int *last_row;   /* (max_length) 1 + the row that last picked this column, to find duplicates */
} oracle;

/* Does score `a` rank strictly above score `b`? */
static int above(float a, float b, int nan_highest) {
    if (isnan(a) || isnan(b)) {
        return nan_highest ? isnan(a) && !isnan(b) : isnan(b) && !isnan(a);
    }
    return a > b;
}

static int before(entry a, entry b, int nan_highest) {
    if (above(a.score, b.score, nan_highest)) {
        return 1;
    }
    return !above(b.score, a.score, nan_highest) && a.index < b.index;
}

/* Bottom-up merge sort, best first. */
static void sort(entry *items, entry *scratch, int count, int nan_highest) {
    entry *from = items;
    entry *to = scratch;
    for (long long width = 1; width < count; width *= 2) {
        for (long long left = 0; left < count; left += 2 * width) {
            long long middle = left + width < count ? left + width : count;
            long long right = left + 2 * width < count ? left + 2 * width : count;
            long long a = left;
            long long b = middle;
            for (long long out = left; out < right; out++) {
                int take_b = a == middle || (b < right && before(from[b], from[a], nan_highest));
                to[out] = take_b ? from[b++] : from[a++];
            }
        }
        entry *swap = from;
        from = to;
        to = swap;
    }
    if (from != items) {
        memcpy(items, from, (size_t)count * sizeof *items);
    }
}

static int same_bits(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

/* Notes a row's fault, if it is the first of all. Always returns 1. */
static int fault(verify_report *report, int row, const char *format, ...) {
    if (report->text[0] == '\0') {
        int used = snprintf(report->text, sizeof report->text, "row %d: ", row);
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(report->text + used, sizeof report->text - (size_t)used, format, arguments);
        va_end(arguments);
    }
    return 1;
}

/* Prefix, padding, distinctness and values; gathers the selected entries. */
static int check_slots(const verify_job *job, int row, int length, oracle *o, verify_report *report) {
    const float *scores = job->scores + row * job->row_stride;
    const int *indices = job->indices + (long long)row * job->k;
    const float *values = job->values != NULL ? job->values + (long long)row * job->k : NULL;
    int found = length < job->k ? length : job->k;
    for (int j = 0; j < found; j++) {
        int index = indices[j];
        if (index < 0 || index >= length) {
            return fault(report, row, "slot %d holds index %d, outside the row's %d scores", j, index, length);
        }
        if (o->last_row[index] == row + 1) {
            return fault(report, row, "slot %d holds index %d a second time", j, index);
        }
        o->last_row[index] = row + 1;
        o->selected[j] = (entry){scores[index], index};
        if (values != NULL && !same_bits(values[j], scores[index])) {
            return fault(report, row, "slot %d holds value %.9g, but score %d is %.9g", j, (double)values[j], index, (double)scores[index]);
        }
    }
    for (int j = found; j < job->k; j++) {
        if (indices[j] != -1) {
            return fault(report, row, "slot %d holds %d, but behind the row's %d results all is -1", j, indices[j], found);
        }
        if (values != NULL && !same_bits(values[j], -INFINITY)) {
            return fault(report, row, "slot %d holds value %.9g, but behind the row's %d results all is -inf", j, (double)values[j], found);
        }
    }
    return 0;
}

static int check_order(const verify_job *job, int row, const oracle *o, int found, verify_report *report) {
    for (int j = 1; j < found; j++) {
        entry a = o->selected[j - 1];
        entry b = o->selected[j];
        if (job->order == TOPKIT_ORDER_INDEX && a.index >= b.index) {
            return fault(report, row, "slots %d and %d are not in ascending order of index", j - 1, j);
        }
        if (job->order == TOPKIT_ORDER_SCORE && !before(a, b, job->nan_highest)) {
            return fault(report, row, "slots %d and %d are not in descending order of score, equal ones by index", j - 1, j);
        }
    }
    return 0;
}

/* The selected scores against the first of the sorted row. */
static int check_set(const verify_job *job, int row, int length, oracle *o, verify_report *report) {
    const float *scores = job->scores + row * job->row_stride;
    int found = length < job->k ? length : job->k;
    for (int c = 0; c < length; c++) {
        o->sorted[c] = (entry){scores[c], c};
    }
    sort(o->sorted, o->scratch, length, job->nan_highest);
    sort(o->selected, o->scratch, found, job->nan_highest);
    for (int j = 0; j < found; j++) {
        entry best = o->sorted[j];
        entry got = o->selected[j];
        if (above(best.score, got.score, job->nan_highest) || above(got.score, best.score, job->nan_highest)) {
            return fault(report, row, "rank %d is score %.9g at index %d, but %.9g at index %d was selected", j, (double)best.score,
                         best.index, (double)got.score, got.index);
        }
        if (job->ties == TOPKIT_TIES_LOWEST_INDEX && best.index != got.index) {
            return fault(report, row, "rank %d is index %d, the lowest with score %.9g, but index %d was selected", j, best.index,
                         (double)best.score, got.index);
        }
    }
    return 0;
}

int verify(const verify_job *job, verify_report *report) {
    memset(report, 0, sizeof *report);
    size_t columns = job->max_length > 0 ? (size_t)job->max_length : 1;
    oracle o = {malloc(columns * sizeof(entry)), malloc(columns * sizeof(entry)), malloc(columns * sizeof(entry)),
                calloc(columns, sizeof(int))};
    int result = -1;
    if (o.sorted != NULL && o.selected != NULL && o.scratch != NULL && o.last_row != NULL) {
        for (int row = 0; row < job->rows; row++) {
            int length = job->lengths != NULL ? job->lengths[row] : job->max_length;
            int found = length < job->k ? length : job->k;
            if (check_slots(job, row, length, &o, report) || check_order(job, row, &o, found, report) ||
                check_set(job, row, length, &o, report)) {
                report->wrong_rows++;
            } else {
                report->indices += found;
            }
        }
        result = report->wrong_rows > 0;
    }
    free(o.sorted);
    free(o.selected);
    free(o.scratch);
    free(o.last_row);
    return result;
}

float *verify_widen(const unsigned short *halves, size_t count) {
    float *wide = malloc((count > 0 ? count : 1) * sizeof *wide);
    for (size_t i = 0; wide != NULL && i < count; i++) {
        unsigned bits = halves[i];
        unsigned exponent = bits >> 10 & 31u;
        unsigned mantissa = bits & 1023u;
        float value = ldexpf((float)(exponent > 0 ? mantissa + 1024u : mantissa), (int)(exponent > 0 ? exponent : 1u) - 25);
        unsigned word;
        memcpy(&word, &value, sizeof word);
        if (exponent == 31u) {
            word = 0x7f800000u | mantissa << 13;
        }
        word |= bits >> 15 << 31;
        memcpy(&wide[i], &word, sizeof word);
    }
    return wide;
}
