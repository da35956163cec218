/* cases.c: see cases.h. */
#include "cases.h"
#include "inputs.h"
#include "select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KILO = 1024,
    TRACE_STEP = 65536 /* query tokens in a step */
};
static const long long trace_workspace = 6ll << 30; /* bytes of scores that a call may need */

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

static int append(bench_case_list *list, bench_case c)
{
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
    list->cases[list->count++] = c;
    return 0;
}

/* A case once for each kernel, unless the filters leave it out. */
static int add(bench_case_list *list, const bench_shape_options *options, bench_case c)
{
    if ((options->rows && options->rows != c.rows && !c.prompt) || (options->columns && options->columns != c.columns && !c.prompt) ||
        (options->input >= 0 && options->input != c.input) || (c.input == BENCH_CAPTURE && !options->capture))
        return 0;
    c.type = options->type < 0 ? TOPKIT_SCORE_F32 : options->type;
    c.route = options->route;
    c.ties = options->ties;
    c.order = options->order;
    c.k = options->k ? options->k : 2048;
    if (!c.prompt)
        c.first = c.columns - c.rows;
    for (int i = 0; i < options->kernel_count; ++i) {
        c.kernel = options->kernels[i];
        c.mate = i > 0;
        if (append(list, c))
            return 1;
    }
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

static int add_few(bench_case_list *list, const bench_shape_options *options, const char *suite)
{
    static const int all_rows[] = {1, 4, 16, 64, 128};
    static const int all_columns[] = {8 * KILO, 32 * KILO, 128 * KILO, 512 * KILO, 1024 * KILO};
    for (int j = 0; j < COUNT(all_columns); ++j)
        for (int i = 0; i < COUNT(all_rows); ++i)
            for (int input = BENCH_NORMAL; input <= BENCH_DSA; ++input)
                if (add(list, options,
                        (bench_case){.suite = suite, .input = input, .lengths = BENCH_FULL, .rows = all_rows[i],
                                     .columns = all_columns[j], .warm = 1}))
                    return 1;
    return 0;
}

static int add_decode(bench_case_list *list, const bench_shape_options *options)
{
    return add_few(list, options, "decode");
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
    for (int i = 0; i < options->kernel_count; ++i) { /* a kernel's calls must follow one another: they are added up */
        bench_shape_options o = *options;
        o.kernels[0] = options->kernels[i];
        o.kernel_count = 1;
        for (int input = BENCH_NORMAL; input <= BENCH_DSA; ++input)
            if (add_trace(list, &o, 245 * KILO, input) || add_trace(list, &o, 430 * KILO, input))
                return 1;
    }
    return 0;
}

static int add_types(bench_case_list *list, const bench_shape_options *options)
{
    static const int all_columns[] = {512 * KILO, 128 * KILO, 1024 * KILO}; /* the first has a goal */
    bench_shape_options o = *options;
    o.route = TOPKIT_ROUTE_ROW;
    for (int j = 0; j < COUNT(all_columns); ++j)
        for (int rows = 1024; rows <= 4096; rows *= 4)
            for (int input = BENCH_NORMAL; input <= BENCH_DSA; ++input)
                for (o.type = TOPKIT_SCORE_F32; o.type <= TOPKIT_SCORE_F16; ++o.type)
                    if ((options->type < 0 || options->type == o.type) &&
                        add(list, &o,
                            (bench_case){.suite = "types", .input = input, .lengths = BENCH_CAUSAL, .rows = rows,
                                         .columns = all_columns[j]}))
                        return 1;
    return 0;
}

static int add_any_k(bench_case_list *list, const bench_shape_options *options)
{
    static const int all_rows[] = {256, 16, 1};
    static const int all_k[] = {4096, 4097, 8192, 16384, 16385, 65536, 131072, 262144};
    bench_shape_options o = *options;
    for (int i = 0; i < COUNT(all_rows); ++i)
        for (int input = BENCH_NORMAL; input <= BENCH_DSA; ++input)
            for (int j = -1; j < COUNT(all_k); ++j) {
                o.route = j < 0 ? TOPKIT_ROUTE_AUTO : TOPKIT_ROUTE_ANY_K;
                o.k = all_k[j < 0 ? 0 : j];
                if ((options->k == 0 || options->k == o.k) &&
                    add(list, &o,
                        (bench_case){.suite = "any_k", .input = input, .lengths = BENCH_FULL, .rows = all_rows[i], .columns = 512 * KILO,
                                     .warm = all_rows[i] <= 16}))
                    return 1;
            }
    return 0;
}

static int add_order(bench_case_list *list, const bench_shape_options *options)
{
    static const struct {
        int rows, columns, few;
    } shapes[] = {{4096, 128 * KILO, 0}, {1024, 512 * KILO, 0}, {1024, 128 * KILO, 0}, {64, 128 * KILO, 1}, {4096, 16 * KILO, 0}};
    static const struct {
        int ties, order;
    } ways[] = {{TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE}, {TOPKIT_TIES_LOWEST_INDEX, TOPKIT_ORDER_NONE},
                {TOPKIT_TIES_ANY, TOPKIT_ORDER_INDEX}, {TOPKIT_TIES_ANY, TOPKIT_ORDER_SCORE}};
    bench_shape_options o = *options;
    for (int i = 0; i < COUNT(shapes); ++i)
        for (int input = BENCH_NORMAL; input <= BENCH_DSA; ++input)
            for (int j = 0; j < COUNT(ways); ++j) {
                o.ties = ways[j].ties;
                o.order = ways[j].order;
                if (add(list, &o,
                        (bench_case){.suite = "order", .input = input, .lengths = shapes[i].few ? BENCH_FULL : BENCH_CAUSAL,
                                     .rows = shapes[i].rows, .columns = shapes[i].columns, .warm = shapes[i].few}))
                    return 1;
            }
    return 0;
}

static int add_peers(bench_case_list *list, const bench_shape_options *options)
{
    static const int prefill[][2] = {{1024, 128 * KILO}, {4096, 128 * KILO}, {1024, 512 * KILO}, {2048, 1024 * KILO}};
    for (int i = 0; i < COUNT(prefill); ++i)
        for (int input = BENCH_NORMAL; input <= BENCH_DSA; ++input)
            if (add(list, options,
                    (bench_case){.suite = "peers", .input = input, .lengths = BENCH_CAUSAL, .rows = prefill[i][0],
                                 .columns = prefill[i][1]}))
                return 1;
    if (add_few(list, options, "peers"))
        return 1;
    for (int rows = 512; rows <= 4096; rows *= 8)
        for (int columns = 16 * KILO; columns <= 64 * KILO; columns += 16 * KILO)
            for (int input = BENCH_NORMAL; input <= BENCH_DSA; ++input)
                if (add(list, options,
                        (bench_case){.suite = "peers", .input = input, .lengths = BENCH_CAUSAL, .rows = rows, .columns = columns}))
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
                  {"mixed", add_mixed},   {"trace", add_traces}, {"types", add_types},   {"any_k", add_any_k},
                  {"order", add_order},   {"peers", add_peers},  {"one", add_one}};
    for (int i = 0; i < COUNT(suites); ++i)
        if (strcmp(suite, suites[i].name) == 0)
            return suites[i].add(list, options);
    fprintf(stderr, "topkit-bench: no suite is called '%s'; bench/cases.h lists them\n", suite);
    return 1;
}

void bench_free_cases(bench_case_list *list)
{
    free(list->cases);
    *list = (bench_case_list){0};
}
