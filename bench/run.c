/* run.c: see run.h. */
#include "run.h"
#include "inputs.h"
#include "exact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SORTED_ROWS = 3, LEAST_ROUNDS = 5 };
static const size_t cold_bytes = 256u << 20; /* of copies together: well above any L2 cache */

/* A case with all that is on the device for it. */
typedef struct live {
    const bench_case *shape;
    const bench_run_options *options;
    const bench_callee *callee;
    size_t matrix_bytes;
    int copies;
    bench_matrix matrix[REPLAY_COPIES];
    bench_rank *ranks[REPLAY_COPIES];
    int *lengths;
    int *indices;
    void *workspace;
    topkit_select_stats *stats;
    size_t workspace_bytes;
    double valid_bytes;
    bench_read read, both; /* .. of the valid scores, and an answer's bytes written */
    replay call_replay;
    replay read_replay;
    replay both_replay;
    double *us;
    double *read_us;
    double *both_us;
    int samples;
    int usable;
} live;

static size_t matrix_bytes(const bench_case *c)
{
    return (size_t)c->rows * (size_t)c->columns * bench_type_bytes(c->type);
}

static int copies_of(const bench_case *c)
{
    size_t copies = c->warm ? 1 : (cold_bytes + matrix_bytes(c) - 1) / matrix_bytes(c);
    return copies > REPLAY_COPIES ? REPLAY_COPIES : (int)copies;
}

int bench_group_size(const bench_case *cases, int count, size_t memory)
{
    size_t used = 0;
    int n = 0;
    for (; n < count && (n < BENCH_GROUP || cases[n].mate); ++n) {
        used += matrix_bytes(&cases[n]) * (size_t)copies_of(&cases[n]) + 2 * (size_t)cases[n].rows * (size_t)cases[n].k * sizeof(int);
        if (used > memory)
            break;
    }
    int whole = n;
    while (whole > 0 && whole < count && cases[whole].mate)
        --whole;
    return whole ? whole : n ? n : 1;
}

static bench_call call_of(const live *l, int copy)
{
    return (bench_call){.shape = l->shape, .scores = l->matrix[copy].scores, .lengths = l->lengths, .indices = l->indices,
                        .workspace = l->workspace, .workspace_bytes = l->workspace_bytes};
}

static int enqueue_call(void *context, int copy, void *stream)
{
    const live *l = context;
    bench_call call = call_of(l, copy);
    return l->callee->enqueue(&call, stream);
}

static void describe(const bench_case *c, char *text, size_t size)
{
    snprintf(text, size, "%s %s %s %s %s %d x %d, k %d", c->kernel, c->suite, bench_type_name(c->type), bench_input_name(c->input),
             bench_lengths_name(c->lengths), c->rows, c->columns, c->k);
}

static void complain(const live *l, const char *what)
{
    char text[160];
    describe(l->shape, text, sizeof text);
    fprintf(stderr, "topkit-bench: %s: %s\n", text, what);
}

static int make_lengths(live *l)
{
    const bench_case *c = l->shape;
    size_t bytes = (size_t)c->rows * sizeof(int);
    int *lengths = malloc(bytes);
    l->lengths = bench_gpu_alloc(bytes);
    int bad = !lengths || !l->lengths;
    for (int r = 0; r < c->rows && !bad; ++r) {
        lengths[r] = bench_length(c->lengths, BENCH_SEED, r, c->columns, c->first);
        l->valid_bytes += (double)bench_type_bytes(c->type) * lengths[r];
    }
    bad = bad || bench_gpu_upload(l->lengths, lengths, bytes);
    free(lengths);
    return bad;
}

static int fill(const live *l, int copy)
{
    const bench_case *c = l->shape;
    uint64_t seed = BENCH_SEED + (uint64_t)copy;
    if (c->input == BENCH_CAPTURE)
        return bench_fill_capture(&l->matrix[copy], l->options->capture, seed);
    return bench_fill(&l->matrix[copy], c->input, seed, c->first_row);
}

static int make_matrices(live *l)
{
    const bench_case *c = l->shape;
    l->us = malloc((size_t)l->options->rounds * sizeof *l->us);
    l->read_us = malloc((size_t)l->options->rounds * sizeof *l->read_us);
    l->both_us = malloc((size_t)l->options->rounds * sizeof *l->both_us);
    l->indices = bench_gpu_alloc((size_t)c->rows * (size_t)c->k * sizeof(int));
    l->both.out_bytes = (size_t)c->rows * (size_t)c->k * sizeof(int) & ~(size_t)15;
    l->both.out = bench_gpu_alloc(l->both.out_bytes + 16);
    l->stats = bench_gpu_alloc(sizeof *l->stats);
    int bad = !l->us || !l->read_us || !l->both_us || !l->indices || !l->both.out || !l->stats || make_lengths(l);
    for (int i = 0; i < l->copies && !bad; ++i) {
        void *scores = bench_gpu_alloc(l->matrix_bytes);
        l->matrix[i] = (bench_matrix){.scores = scores, .type = c->type, .lengths = l->lengths, .rows = c->rows, .columns = c->columns};
        l->ranks[i] = bench_gpu_alloc((size_t)c->rows * sizeof(bench_rank));
        l->read.buffers[i] = l->both.buffers[i] = scores;
        bad = !scores || !l->ranks[i] || fill(l, i) || bench_oracle_ranks(l->ranks[i], &l->matrix[i], c->k);
    }
    l->read.bytes = l->matrix_bytes & ~(size_t)15;
    l->both.bytes = (size_t)l->valid_bytes & ~(size_t)15;
    return bad;
}

/* Allocates and fills; 1 means that this case cannot be run, not that the device is broken. */
static int prepare(live *l, const bench_case *c, const bench_run_options *options)
{
    *l = (live){.shape = c, .options = options, .callee = bench_find_callee(c->kernel), .matrix_bytes = matrix_bytes(c),
                .copies = copies_of(c)};
    bench_call call = call_of(l, 0);
    if (l->callee->workspace(&call, &l->workspace_bytes)) {
        complain(l, "refused");
        return 1;
    }
    if (make_matrices(l)) {
        complain(l, "no memory, or the scores could not be made");
        return 1;
    }
    l->workspace = l->workspace_bytes ? bench_gpu_alloc(l->workspace_bytes) : NULL;
    if (l->workspace_bytes && (!l->workspace || bench_gpu_set(l->workspace, 0, l->workspace_bytes))) {
        complain(l, "no memory for the workspace");
        return 1;
    }
    /* once outside of a capture: what a first call loads may not be loaded in one */
    if (enqueue_call(l, 0, bench_gpu_stream()) || bench_gpu_sync("first call") ||
        replay_capture(&l->call_replay, enqueue_call, l, l->copies)) {
        complain(l, "refused");
        return 1;
    }
    l->call_replay.lead = c->warm ? 2 : 0;
    l->usable = 1;
    return 0;
}

static void release(live *l)
{
    replay_free(&l->call_replay);
    replay_free(&l->read_replay);
    replay_free(&l->both_replay);
    for (int i = 0; i < l->copies; ++i) {
        bench_gpu_free(l->matrix[i].scores);
        bench_gpu_free(l->ranks[i]);
    }
    bench_gpu_free(l->lengths);
    bench_gpu_free(l->indices);
    bench_gpu_free(l->both.out);
    bench_gpu_free(l->workspace);
    bench_gpu_free(l->stats);
    free(l->us);
    free(l->read_us);
    free(l->both_us);
}

/* Judges what is in l->indices now as the answer to one copy. */
static int judge(live *l, int copy, int sort, bench_result *result)
{
    const bench_case *c = l->shape;
    bench_verdict verdict;
    if (bench_oracle_check(&verdict, l->ranks[copy], &l->matrix[copy], l->indices, c->k, c->ties, c->order))
        return 1;
    if (sort && verdict.bad_rows == 0 && bench_oracle_sort(&verdict, &l->matrix[copy], l->indices, c->k, SORTED_ROWS))
        return 1;
    if (verdict.bad_rows) {
        char text[160];
        snprintf(text, sizeof text, "NOT EXACT: %d rows, as row %d: %s", verdict.bad_rows, verdict.row, bench_fault_text(verdict.fault));
        if (result->exact) /* once a case is enough */
            complain(l, text);
        result->exact = 0;
    }
    return 0;
}

static int check_before(live *l, bench_result *result)
{
    const bench_case *c = l->shape;
    size_t bytes = (size_t)c->rows * (size_t)c->k * sizeof(int);
    result->exact = 1;
    for (int i = 0; i < l->copies; ++i)
        if (bench_gpu_set(l->indices, l->callee->writes_padding ? 0x7F : 0xFF, bytes) || replay_launch(&l->call_replay, i) ||
            judge(l, i, i == 0, result))
            return 1;
    return bench_gpu_set(l->indices, l->callee->writes_padding ? 0x7F : 0xFF, bytes);
}

static int count_candidates(live *l, bench_result *result)
{
    topkit_select_stats stats = {0};
    bench_call call = call_of(l, 0);
    call.stats = l->stats;
    if (bench_gpu_set(l->stats, 0, sizeof stats) || l->callee->enqueue(&call, bench_gpu_stream()) ||
        bench_gpu_sync("call with statistics") || bench_gpu_download(&stats, l->stats, sizeof stats))
        return 1;
    result->admitted_per_row = stats.rows ? (double)stats.admitted / (double)stats.rows : 0.0;
    result->compactions = stats.compactions;
    result->recoveries = stats.recoveries;
    return 0;
}

/* All that happens once, before the rounds. */
static int start(live *l, bench_result *result)
{
    if (check_before(l, result) || count_candidates(l, result) || replay_warm_up(&l->call_replay, l->options->warm_up) ||
        bench_read_tune(&l->read, l->copies) || replay_capture(&l->read_replay, bench_read_enqueue, &l->read, l->copies) ||
        replay_warm_up(&l->read_replay, l->options->warm_up))
        return 1;
    l->both.blocks = l->read.blocks;
    if (replay_capture(&l->both_replay, bench_read_enqueue, &l->both, l->copies) || replay_warm_up(&l->both_replay, l->options->warm_up))
        return 1;
    l->read_replay.lead = l->both_replay.lead = l->call_replay.lead;
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The nearest rank: the smallest sample that at least `share` of the samples do not exceed. The samples are sorted. */
static double percentile(const double *samples, int count, double share)
{
    int rank = (int)(share * count);
    rank += (double)rank < share * count;
    return samples[rank > 0 ? rank - 1 : 0];
}

static int finish(live *l, bench_result *result)
{
    int last = (l->call_replay.next + l->copies - 1) % l->copies;
    if (judge(l, last, 0, result))
        return 1;
    qsort(l->us, (size_t)l->samples, sizeof *l->us, by_value);
    qsort(l->read_us, (size_t)l->samples, sizeof *l->read_us, by_value);
    qsort(l->both_us, (size_t)l->samples, sizeof *l->both_us, by_value);
    result->us = percentile(l->us, l->samples, 0.5);
    result->p95_us = percentile(l->us, l->samples, 0.95);
    result->p99_us = percentile(l->us, l->samples, 0.99);
    result->read_us = percentile(l->read_us, l->samples, 0.5);
    result->ceiling_us = result->read_us * (l->valid_bytes / (double)l->matrix_bytes);
    result->both_us = percentile(l->both_us, l->samples, 0.5);
    result->valid_bytes = l->valid_bytes;
    result->workspace_bytes = l->workspace_bytes;
    result->rounds = l->samples;
    result->measured = 1;
    return 0;
}

static int one_round(live *all, int count, int round)
{
    for (int i = 0; i < count; ++i) {
        live *l = &all[(i + round) % count];
        if (!l->usable)
            continue;
        double us = replay_sample(&l->call_replay);
        double read_us = us < 0.0 ? us : replay_sample(&l->read_replay);
        double both_us = read_us < 0.0 ? read_us : replay_sample(&l->both_replay);
        if (both_us < 0.0)
            return 1;
        l->us[l->samples] = us;
        l->both_us[l->samples] = both_us;
        l->read_us[l->samples++] = read_us;
    }
    return 0;
}

int bench_run_group(const bench_case *cases, int count, const bench_run_options *options, bench_result *results)
{
    live *all = calloc((size_t)count, sizeof *all);
    int broken = !all, ready = 0;
    for (int i = 0; i < count && !broken; ++i, ++ready) {
        results[i] = (bench_result){.shape = cases[i], .calls = 1};
        if (prepare(&all[i], &cases[i], options))
            broken = bench_gpu_sync("preparing"); /* a refusal leaves the device alone, a fault does not */
        else
            broken = start(&all[i], &results[i]);
    }
    for (int round = 0; round < options->rounds && !broken; ++round) {
        if (round >= LEAST_ROUNDS && bench_seconds() > options->deadline)
            break;
        broken = one_round(all, count, round);
    }
    for (int i = 0; i < count && !broken; ++i)
        if (all[i].usable)
            broken = finish(&all[i], &results[i]);
    for (int i = 0; i < ready; ++i)
        release(&all[i]);
    free(all);
    return broken;
}
