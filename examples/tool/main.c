/* topkit-select: exact Top-K of a matrix of scores in a .npy file.
 *
 *   topkit-select scores.npy --k 2048 --lengths lengths.npy --out indices.npy --verify --time
 *
 * This file is the flow: load, check the outputs, open a device, select, verify, stage the outputs, print the summary, commit. What can be
 * refused is refused before the selection starts. Every failure is one line on stderr and exit code 2, whatever went wrong, and a result
 * that is not exact is one line and exit code 1; in both cases no output file has been created or changed (output.h).
 *
 * The parts: options.c the command line, npy.c and output.c the files, backend.cu the device (built once for the CPU executor, and
 * with TOPKIT_HAVE_CUDA once more for the GPU), verify.c the oracle. The plan is asked for the route that the summary names.
 */
#include "backend.h"
#include "npy.h"
#include "options.h"
#include "output.h"
#include "topkit/version.h"
#include "verify.h"

#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { OUT_INDICES = 0, OUT_VALUES = 1, OUTPUTS = 2 };
enum { MEMORY_SCORES, MEMORY_LENGTHS, MEMORY_INDICES, MEMORY_VALUES, MEMORY_STATS, MEMORY_WORKSPACE, MEMORIES };

typedef struct job {
    options options;
    npy_array scores;
    int *lengths;             /* (rows) 0 to columns; null without --lengths */
    int rows;
    int columns;
    output_file outputs[OUTPUTS];
    const topkit_backend *backend; /* open, or null */
    const char *backend_name;
    char device[256];
    topkit_device_facts facts;
    topkit_plan plan;
    void *memory[MEMORIES];   /* on the device */
    int *indices;             /* (rows x k) */
    void *values;             /* (rows x k) of the scores' type; null without --values */
    size_t results;           /* rows x k */
    topkit_select_stats stats; /* of the first run */
    double milliseconds;      /* median of the timed runs */
    int timed_runs;
    verify_report report;
} job;

/* Prints one line, whatever a file name in it contains. Returns the exit code of a failure. */
static int fail(const char *format, ...) {
    char line[2 * NPY_MESSAGE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (char *c = line; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = '?';
        }
    }
    fprintf(stderr, "topkit-select: %s\n", line);
    return 2;
}

static int is_half(const job *j) {
    return j->scores.type == NPY_FLOAT16;
}

/* Of a score, and of a value. */
static size_t score_bytes(const job *j) {
    return is_half(j) ? 2 : 4;
}

static int load_scores(job *j) {
    char message[NPY_MESSAGE];
    const char *path = j->options.scores;
    if (npy_read(path, &j->scores, message, sizeof message) != 0) {
        return fail("%s", message);
    }
    if (j->scores.type != NPY_FLOAT32 && j->scores.type != NPY_FLOAT16) {
        return fail("%s: the dtype is '%s'; scores are float32 ('<f4') or float16 ('<f2')", path, j->scores.dtype);
    }
    if (j->scores.rank != 2) {
        return fail("%s: the array has %d dimension%s; scores have 2, rows and columns", path, j->scores.rank,
                    j->scores.rank == 1 ? "" : "s");
    }
    if (j->scores.shape[0] > INT_MAX || j->scores.shape[1] > TOPKIT_MAX_LENGTH) {
        return fail("%s: %lld x %lld scores; at most %d rows and %d columns are selected from", path, j->scores.shape[0],
                    j->scores.shape[1], INT_MAX, TOPKIT_MAX_LENGTH);
    }
    j->rows = (int)j->scores.shape[0];
    j->columns = (int)j->scores.shape[1];
    return 0;
}

/* Checks a lengths array against the scores and brings it to int; a length below 0 counts as 0. */
static int take_lengths(job *j, const npy_array *array) {
    const char *path = j->options.lengths;
    if (array->type != NPY_INT32 && array->type != NPY_INT64) {
        return fail("%s: the dtype is '%s'; lengths are int32 ('<i4') or int64 ('<i8')", path, array->dtype);
    }
    if (array->rank != 1 || array->shape[0] != j->rows) {
        return fail("%s: lengths are one number for each of the %d rows, not %zu in %d dimension%s", path, j->rows, array->count,
                    array->rank, array->rank == 1 ? "" : "s");
    }
    j->lengths = malloc((array->count > 0 ? array->count : 1) * sizeof *j->lengths);
    if (j->lengths == NULL) {
        return fail("%s: not enough memory", path);
    }
    for (int row = 0; row < j->rows; row++) {
        int64_t length = array->type == NPY_INT32 ? ((const int32_t *)array->data)[row] : ((const int64_t *)array->data)[row];
        if (length > j->columns) {
            return fail("%s: row %d has length %lld, but the scores have %d columns", path, row, (long long)length, j->columns);
        }
        j->lengths[row] = length > 0 ? (int)length : 0;
    }
    return 0;
}

static int load_lengths(job *j) {
    char message[NPY_MESSAGE];
    npy_array array;
    if (j->options.lengths == NULL) {
        return 0;
    }
    if (npy_read(j->options.lengths, &array, message, sizeof message) != 0) {
        return fail("%s", message);
    }
    int code = take_lengths(j, &array);
    npy_free(&array);
    return code;
}

static int check_outputs(job *j) {
    const char *paths[OUTPUTS] = {j->options.out, j->options.values};
    char message[NPY_MESSAGE];
    for (int i = 0; i < OUTPUTS; i++) {
        if (paths[i] == NULL) {
            continue;
        }
        if (output_check(&j->outputs[i], paths[i], message, sizeof message) != 0) {
            return fail("%s", message);
        }
        if (output_replaces(&j->outputs[i], j->options.scores) ||
            (j->options.lengths != NULL && output_replaces(&j->outputs[i], j->options.lengths))) {
            return fail("%s: is an input, and would be overwritten", paths[i]);
        }
    }
    if (output_same(&j->outputs[OUT_INDICES], &j->outputs[OUT_VALUES])) {
        return fail("%s: --out and --values are the same file", j->options.out);
    }
    return 0;
}

static int open_device(job *j) {
    const char *error = NULL;
#ifdef TOPKIT_HAVE_CUDA
    if (j->options.device != DEVICE_CPU) {
        error = topkit_backend_cuda.open(&j->facts, j->device, sizeof j->device);
        if (error == NULL) {
            j->backend = &topkit_backend_cuda;
            j->backend_name = "cuda";
            return 0;
        }
    }
#else
    error = "this build has no CUDA";
#endif
    if (j->options.device == DEVICE_CUDA) {
        return fail("--device cuda: %s", error);
    }
    error = topkit_backend_cpu.open(&j->facts, j->device, sizeof j->device);
    if (error != NULL) {
        return fail("--device cpu: %s", error);
    }
    j->backend = &topkit_backend_cpu;
    j->backend_name = "cpu";
    return 0;
}

static int make_plan(job *j) {
    int route = j->options.route;
    int status = topkit_score_route(is_half(j) ? TOPKIT_SCORE_F16 : TOPKIT_SCORE_F32, &route);
    if (status == TOPKIT_OK) {
        status = topkit_make_plan(j->rows, j->columns, j->options.k, j->options.order, route, &j->facts, &j->plan);
    }
    if (status != TOPKIT_OK) {
        return fail("%s: %d x %d scores, --k %d, --route %s", topkit_status_text(status), j->rows, j->columns, j->options.k,
                    options_route_name(j->options.route));
    }
    /* a product of two ints fits in 64 bits; its bytes may not */
    j->results = (size_t)j->rows * (size_t)j->options.k;
    if (j->results > PTRDIFF_MAX / sizeof(float)) {
        return fail("not enough memory for %d x %d results", j->rows, j->options.k);
    }
    return 0;
}

/* Allocates on the device and fills in the parameters. */
static const char *prepare(job *j, topkit_select_params *p, int *status) {
    const topkit_backend *b = j->backend;
    const char *error = NULL;
    size_t lengths_bytes = (size_t)j->rows * sizeof(int);
    size_t result_bytes = j->results * sizeof(int);
    *p = (topkit_select_params){.score_type = is_half(j) ? TOPKIT_SCORE_F16 : TOPKIT_SCORE_F32,
                                .row_stride = j->columns,
                                .rows = j->rows,
                                .max_length = j->columns,
                                .k = j->options.k,
                                .ties = j->options.ties,
                                .order = j->options.order,
                                .route = j->options.route};
    *status = b->workspace(p, &p->workspace_bytes);
    if (*status != TOPKIT_OK) {
        return NULL;
    }
    void **m = j->memory;
    if ((error = b->alloc(&m[MEMORY_SCORES], j->scores.bytes)) != NULL ||
        (error = b->upload(m[MEMORY_SCORES], j->scores.data, j->scores.bytes)) != NULL ||
        (j->lengths != NULL && ((error = b->alloc(&m[MEMORY_LENGTHS], lengths_bytes)) != NULL ||
                                (error = b->upload(m[MEMORY_LENGTHS], j->lengths, lengths_bytes)) != NULL)) ||
        (error = b->alloc(&m[MEMORY_INDICES], result_bytes)) != NULL ||
        (j->values != NULL && (error = b->alloc(&m[MEMORY_VALUES], j->results * score_bytes(j))) != NULL) ||
        (error = b->alloc(&m[MEMORY_STATS], sizeof j->stats)) != NULL || (error = b->fill(m[MEMORY_STATS], 0, sizeof j->stats)) != NULL ||
        (error = b->alloc(&m[MEMORY_WORKSPACE], p->workspace_bytes)) != NULL ||
        (error = b->fill(m[MEMORY_WORKSPACE], 0, p->workspace_bytes)) != NULL) {
        return error;
    }
    p->scores = m[MEMORY_SCORES];
    p->lengths = m[MEMORY_LENGTHS];
    p->indices = m[MEMORY_INDICES];
    p->values = m[MEMORY_VALUES];
    p->stats = m[MEMORY_STATS];
    p->workspace = m[MEMORY_WORKSPACE];
    return NULL;
}

/* One run over outputs that hold no earlier result, so that what comes back was written by the last run. */
static const char *run_once(job *j, const topkit_select_params *p, int *status, double *milliseconds) {
    const char *error = j->backend->fill(p->indices, 0x7f, j->results * sizeof(int));
    if (error == NULL && p->values != NULL) {
        error = j->backend->fill(p->values, 0x7f, j->results * score_bytes(j));
    }
    return error != NULL ? error : j->backend->run(p, status, milliseconds);
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The first run counts, the others are timed; the result is the last one's. */
static const char *run_all(job *j, int *status) {
    topkit_select_params p;
    double first = 0.0;
    const char *error = prepare(j, &p, status);
    if (error != NULL || *status != TOPKIT_OK || (error = run_once(j, &p, status, &first)) != NULL || *status != TOPKIT_OK ||
        (error = j->backend->download(&j->stats, p.stats, sizeof j->stats)) != NULL) {
        return error;
    }
    p.stats = NULL;
    j->timed_runs = j->options.repeat > 0 ? j->options.repeat : !j->options.time ? 0 : j->backend != &topkit_backend_cpu ? 10 : 1;
    double *times = malloc(((size_t)j->timed_runs + 1) * sizeof *times);
    if (times == NULL) {
        return "not enough memory for the times";
    }
    for (int i = 0; i < j->timed_runs && error == NULL && *status == TOPKIT_OK; i++) {
        error = run_once(j, &p, status, &times[i]);
    }
    if (j->timed_runs > 0) {
        qsort(times, (size_t)j->timed_runs, sizeof *times, compare_doubles);
        j->milliseconds = (times[(j->timed_runs - 1) / 2] + times[j->timed_runs / 2]) / 2;
    }
    free(times);
    if (error == NULL) {
        error = j->backend->download(j->indices, p.indices, j->results * sizeof(int));
    }
    if (error == NULL && j->values != NULL) {
        error = j->backend->download(j->values, p.values, j->results * score_bytes(j));
    }
    return error;
}

static int select_rows(job *j) {
    size_t bytes = (j->results > 0 ? j->results : 1) * sizeof(int);
    j->indices = malloc(bytes);
    j->values = j->options.values != NULL ? malloc(bytes) : NULL;
    if (j->indices == NULL || (j->options.values != NULL && j->values == NULL)) {
        return fail("not enough memory for %d x %d results", j->rows, j->options.k);
    }
    int status = TOPKIT_OK;
    const char *error = run_all(j, &status);
    if (error != NULL || status != TOPKIT_OK) {
        return fail("%s: %s", j->device, error != NULL ? error : topkit_status_text(status));
    }
    return 0;
}

static int check_result(job *j) {
    if (!j->options.verify) {
        return 0;
    }
    /* the oracle knows floats: halves are checked as the floats that they stand for, no two of which have the same bits */
    float *wide_scores = is_half(j) ? verify_widen(j->scores.data, j->scores.count) : NULL;
    float *wide_values = is_half(j) && j->values != NULL ? verify_widen(j->values, j->results) : NULL;
    verify_job v = {.scores = is_half(j) ? wide_scores : j->scores.data,
                    .row_stride = j->columns,
                    .lengths = j->lengths,
                    .rows = j->rows,
                    .max_length = j->columns,
                    .k = j->options.k,
                    .ties = j->options.ties,
                    .order = j->options.order,
                    .nan_highest = j->backend->nan_highest,
                    .indices = j->indices,
                    .values = is_half(j) ? wide_values : j->values};
    int short_of_memory = is_half(j) && (wide_scores == NULL || (j->values != NULL && wide_values == NULL));
    int wrong = short_of_memory ? -1 : verify(&v, &j->report);
    free(wide_scores);
    free(wide_values);
    if (wrong < 0) {
        return fail("not enough memory to verify");
    }
    if (wrong > 0) {
        fail("not exact: %d of %d rows wrong; %s", j->report.wrong_rows, j->rows, j->report.text);
        return 1;
    }
    return 0;
}

static int stage_outputs(job *j) {
    char message[NPY_MESSAGE];
    unsigned char header[NPY_HEADER_BYTES];
    const long long shape[2] = {j->rows, j->options.k};
    const void *data[OUTPUTS] = {j->indices, j->values};
    const npy_type types[OUTPUTS] = {NPY_INT32, j->scores.type};
    const size_t bytes[OUTPUTS] = {j->results * sizeof(int), j->results * score_bytes(j)};
    for (int i = 0; i < OUTPUTS; i++) {
        npy_format_header(types[i], 2, shape, header);
        if (output_stage(&j->outputs[i], header, sizeof header, data[i], bytes[i], message, sizeof message) != 0) {
            return fail("%s", message);
        }
    }
    return 0;
}

static void print_summary(const job *j) {
    const options *o = &j->options;
    long long total = 0;
    int shortest = j->columns;
    int longest = 0;
    for (int row = 0; row < j->rows; row++) {
        int length = j->lengths != NULL ? j->lengths[row] : j->columns;
        total += length;
        shortest = length < shortest ? length : shortest;
        longest = length > longest ? length : longest;
    }
    printf("scores     %s: %d x %d %s", o->scores, j->rows, j->columns, is_half(j) ? "float16" : "float32");
    if (j->lengths != NULL && j->rows > 0) {
        printf(", lengths %d to %d", shortest, longest);
    }
    static const char *const ties[] = {"any", "lowest index"};
    static const char *const orders[] = {"none", "index", "score"};
    printf("\nselect     k %d, ties %s, order %s\n", o->k, ties[o->ties], orders[o->order]);
    if (j->plan.route == 0) {
        printf("route      none: nothing to do\n");
    } else {
        printf("route      %s: %d block%s of %d threads, %d bytes of shared memory each, %zu bytes of workspace\n",
               options_route_name(j->plan.route), j->plan.blocks, j->plan.blocks == 1 ? "" : "s", j->plan.threads, j->plan.shared_bytes,
               j->plan.workspace_bytes);
    }
    printf("device     %s: %s\n", j->backend_name, j->device);
    if (o->time) {
        printf("time       %.4f ms, median of %d", j->milliseconds, j->timed_runs);
        if (j->milliseconds > 0.0 && j->backend != &topkit_backend_cpu) {
            printf(" (%.1f GB/s of scores)", (double)total * (double)score_bytes(j) / j->milliseconds * 1e-6);
        }
        printf("\n");
    }
    printf("candidates %llu admitted in %llu rows longer than k, %llu compactions, %llu recoveries\n", j->stats.admitted, j->stats.rows,
           j->stats.compactions, j->stats.recoveries);
    if (o->verify) {
        printf("exact: %d rows, %lld indices checked\n", j->rows, j->report.indices);
    }
}

static int finish(job *j) {
    char message[NPY_MESSAGE];
    print_summary(j);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return fail("the summary can not be printed");
    }
    if (output_commit(j->outputs, OUTPUTS, message, sizeof message) != 0) {
        return fail("%s", message);
    }
    return 0;
}

static void clean_up(job *j) {
    output_discard(j->outputs, OUTPUTS);
    if (j->backend != NULL) {
        for (int i = 0; i < MEMORIES; i++) {
            if (j->memory[i] != NULL) {
                j->backend->release(j->memory[i]);
            }
        }
        j->backend->close();
    }
    npy_free(&j->scores);
    free(j->lengths);
    free(j->indices);
    free(j->values);
}

int main(int argc, char **argv) {
    static job j;
    static int (*const steps[])(job *) = {load_scores, load_lengths, check_outputs, open_device,   make_plan,
                                          select_rows, check_result, stage_outputs, finish};
    char message[NPY_MESSAGE];
    if (options_parse(argc, argv, &j.options, message, sizeof message) != 0) {
        return fail("%s", message);
    }
    if (j.options.help || j.options.version) {
        if (j.options.help) {
            printf("%s", options_help);
        } else {
            printf("topkit-select %d.%d.%d\n", TOPKIT_VERSION_MAJOR, TOPKIT_VERSION_MINOR, TOPKIT_VERSION_PATCH);
        }
        return fflush(stdout) != 0 ? fail("the text can not be printed") : 0;
    }
    int code = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && code == 0; i++) {
        code = steps[i](&j);
    }
    clean_up(&j);
    return code;
}
