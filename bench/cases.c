/* cases.c: see cases.h. */
#include "cases.h"
#include "inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KILO = 1024,
    TRACE_STEP = 65536 /* query tokens in a step */
};
static const long long trace_workspace = 6ll << 30; /* bytes of scores that a call may need */

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

static int add(bench_case_list *list, const bench_shape_options *options, bench_case c)
{
    if ((options->rows && options->rows != c.rows && !c.prompt) || (options->columns && options->columns != c.columns && !c.prompt) ||
        (options->input >= 0 && options->input != c.input) || (c.input == BENCH_CAPTURE && !options->capture))
        return 0;
    if (list->count == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 64;
        bench_case *cases = realloc(list->cases, (size_t)capacity * sizeof *cases);
        if (!cases) {
            fprintf(stderr, "topkit-bench: no memory for the list of cases\n");
            return 1;
        }
        list->cases = cases;
        list->capacity = capacity;
    }
    c.k = options->k;
    if (!c.prompt)
        c.first = c.columns - c.rows;
    list->cases[list->count++] = c;
    return 0;
}

static int add_matrix(bench_case_list *list, const bench_shape_options *options)
{
    static const int inputs[] = {BENCH_NORMAL, BENCH_DSA, BENCH_CAPTURE};
    for (int columns = 128 * KILO; columns <= 1024 * KILO; columns *= 2)
        for (int rows = 512; rows <= 8192; rows *= 2)
            for (int i = 0; i < COUNT(inputs); ++i)
                if (add(list, options,
                        (bench_case){.suite = "matrix", .input = inputs[i], .lengths = BENCH_CAUSAL, .rows = rows, .columns = columns}))
                    return 1;
    return 0;
}

static int add_width(bench_case_list *list, const bench_shape_options *options)
{
    for (int rows = 512; rows <= 4096; rows *= 8)
        for (int columns = 16 * KILO; columns <= 64 * KILO; columns += 8 * KILO)
            for (int input = BENCH_NORMAL; input <= BENCH_DSA; ++input)
                if (add(list, options,
                        (bench_case){.suite = "width", .input = input, .lengths = BENCH_CAUSAL, .rows = rows, .columns = columns}))
                    return 1;
    return 0;
}

static int add_decode(bench_case_list *list, const bench_shape_options *options)
{
    static const int all_rows[] = {1, 4, 16, 64, 128};
    static const int all_columns[] = {8 * KILO, 32 * KILO, 128 * KILO, 512 * KILO, 1024 * KILO};
    for (int j = 0; j < COUNT(all_columns); ++j)
        for (int i = 0; i < COUNT(all_rows); ++i)
            for (int input = BENCH_NORMAL; input <= BENCH_DSA; ++input)
                if (add(list, options,
                        (bench_case){.suite = "decode", .input = input, .lengths = BENCH_FULL, .rows = all_rows[i],
                                     .columns = all_columns[j], .warm = 1}))
                    return 1;
    return 0;
}

static int add_hard(bench_case_list *list, const bench_shape_options *options)
{
    for (int input = BENCH_NORMAL; input <= BENCH_CAPTURE; ++input)
        if (add(list, options,
                (bench_case){.suite = "hard", .input = input, .lengths = BENCH_MIXED, .rows = 1024, .columns = 128 * KILO}))
            return 1;
    return 0;
}

static int add_mixed(bench_case_list *list, const bench_shape_options *options)
{
    static const int all_columns[] = {128 * KILO, 512 * KILO, 1024 * KILO};
    for (int j = 0; j < COUNT(all_columns); ++j)
        for (int rows = 1024; rows <= 4096; rows *= 4)
            for (int input = BENCH_NORMAL; input <= BENCH_DSA; ++input)
                for (int lengths = BENCH_CAUSAL; lengths <= BENCH_MIXED; ++lengths)
                    if (add(list, options,
                            (bench_case){.suite = "mixed", .input = input, .lengths = lengths, .rows = rows, .columns = all_columns[j]}))
                        return 1;
    return 0;
}

/* Query q attends to positions 0 to q. A step's calls are as wide as its last position and take as many rows as the workspace holds. */
static int add_trace(bench_case_list *list, const bench_shape_options *options, int prompt, int input)
{
    int before = list->count;
    for (int begin = 0; begin < prompt; begin += TRACE_STEP) {
        int end = begin + TRACE_STEP < prompt ? begin + TRACE_STEP : prompt;
        int most = (int)(trace_workspace / (4ll * end));
        for (int row = begin; row < end; row += most)
            if (add(list, options,
                    (bench_case){.suite = "trace", .input = input, .lengths = BENCH_CAUSAL, .rows = end - row < most ? end - row : most,
                                 .columns = end, .first = row, .first_row = row, .prompt = prompt}))
                return 1;
    }
    for (int i = before; i < list->count; ++i)
        list->cases[i].calls = list->count - before;
    return 0;
}

static int add_traces(bench_case_list *list, const bench_shape_options *options)
{
    for (int input = BENCH_NORMAL; input <= BENCH_DSA; ++input)
        if (add_trace(list, options, 245 * KILO, input) || add_trace(list, options, 430 * KILO, input))
            return 1;
    return 0;
}

static int add_one(bench_case_list *list, const bench_shape_options *options)
{
    return add(list, options,
               (bench_case){.suite = "one", .input = options->input < 0 ? BENCH_NORMAL : options->input, .lengths = options->lengths,
                            .rows = options->rows ? options->rows : 4096, .columns = options->columns ? options->columns : 128 * KILO});
}

int bench_add_suite(bench_case_list *list, const char *suite, const bench_shape_options *options)
{
    static const struct {
        const char *name;
        int (*add)(bench_case_list *list, const bench_shape_options *options);
    } suites[] = {{"matrix", add_matrix}, {"width", add_width}, {"decode", add_decode}, {"hard", add_hard},
                  {"mixed", add_mixed},   {"trace", add_traces}, {"one", add_one}};
    for (int i = 0; i < COUNT(suites); ++i)
        if (strcmp(suite, suites[i].name) == 0)
            return suites[i].add(list, options);
    fprintf(stderr, "topkit-bench: no suite is called '%s'; there are matrix, width, decode, hard, mixed, trace and one\n", suite);
    return 1;
}

void bench_free_cases(bench_case_list *list)
{
    free(list->cases);
    *list = (bench_case_list){0};
}
