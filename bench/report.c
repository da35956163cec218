/* report.c: see report.h. */
#define _POSIX_C_SOURCE 200809L

#include "report.h"
#include "matrix.h"
#include "plan.h"

#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int median_of_replays(replay *r, double *us)
{
    double samples[31];
    for (int i = 0; i < 31; ++i) {
        samples[i] = replay_sample(r);
        if (samples[i] < 0.0)
            return 1;
    }
    qsort(samples, 31, sizeof *samples, by_value);
    *us = samples[15];
    return 0;
}

/* nvidia-smi is asked while reads are queued, so that the clocks are those of a working device. */
static void ask_clocks(bench_run *run)
{
    FILE *pipe = popen("nvidia-smi --query-gpu=driver_version,clocks.sm,clocks.mem --format=csv,noheader,nounits 2>/dev/null", "r");
    if (!pipe)
        return;
    if (fscanf(pipe, "%63[^,], %d, %d", run->driver, &run->sm_mhz, &run->memory_mhz) != 3)
        run->sm_mhz = run->memory_mhz = 0;
    pclose(pipe);
}

int bench_measure_run(bench_run *run, int read_mib)
{
    const int columns = 1 << 18; /* 1 MiB */
    const int most = (int)(run->machine.free_bytes / 4 >> 20), rows = read_mib < most ? read_mib : most;
    bench_read read = {.bytes = (size_t)rows << 20};
    void *buffer = bench_gpu_alloc(read.bytes);
    int *host = calloc((size_t)rows, sizeof *host), *lengths = bench_gpu_alloc((size_t)rows * sizeof(int));
    const bench_matrix matrix = {.scores = buffer, .type = TOPKIT_SCORE_F32, .lengths = lengths, .rows = rows, .columns = columns};
    replay reads = {0}, empty = {0};
    double us = 0.0;
    int bad = rows < 1 || !buffer || !host || !lengths;
    read.buffers[0] = buffer;
    if (bad)
        fprintf(stderr, "topkit-bench: no memory to measure the read rate\n");
    for (int r = 0; r < rows && !bad; ++r)
        host[r] = columns;
    bad = bad || bench_gpu_upload(lengths, host, (size_t)rows * sizeof(int)) ||
          bench_fill(&matrix, BENCH_NORMAL, BENCH_SEED, 0) || bench_read_tune(&read, 1) ||
          replay_capture(&reads, bench_read_enqueue, &read, 1) || replay_warm_up(&reads, run->warm_up) || median_of_replays(&reads, &us);
    if (!bad) {
        run->read_gb_s = 1e-3 * (double)read.bytes / us;
        if (read_mib >= 64) /* most of a second of load; the tests' buffer is none, and nor are their clocks a GPU's */
            bad = replay_queue(&reads, 1 + (int)(800000.0 / us));
        ask_clocks(run);
    }
    bad = bad || bench_gpu_sync("read rate") || replay_capture(&empty, bench_empty_enqueue, NULL, 1) ||
          replay_warm_up(&empty, run->warm_up) || median_of_replays(&empty, &run->empty_us);
    replay_free(&reads);
    replay_free(&empty);
    bench_gpu_free(buffer);
    bench_gpu_free(lengths);
    free(host);
    return bad;
}

/* A trace's time is the sum of its calls' medians (and 95th and 99th percentiles). One that lacks a call was not measured. */
void bench_add_traces(bench_result *results, int *count)
{
    int kept = 0;
    for (int i = 0; i < *count; ++i) {
        bench_result r = results[i];
        if (r.shape.prompt && r.measured && kept && results[kept - 1].shape.prompt == r.shape.prompt &&
            results[kept - 1].shape.input == r.shape.input && strcmp(results[kept - 1].shape.kernel, r.shape.kernel) == 0) {
            bench_result *sum = &results[kept - 1];
            double rows = sum->shape.rows, more = r.shape.rows;
            sum->admitted_per_row = (rows * sum->admitted_per_row + more * r.admitted_per_row) / (rows + more);
            sum->shape.rows += r.shape.rows;
            sum->shape.columns = r.shape.columns > sum->shape.columns ? r.shape.columns : sum->shape.columns;
            sum->us += r.us;
            sum->p95_us += r.p95_us;
            sum->p99_us += r.p99_us;
            sum->read_us += r.read_us;
            sum->ceiling_us += r.ceiling_us;
            sum->both_us += r.both_us;
            sum->valid_bytes += r.valid_bytes;
            sum->compactions += r.compactions;
            sum->recoveries += r.recoveries;
            sum->exact &= r.exact;
            sum->rounds = r.rounds < sum->rounds ? r.rounds : sum->rounds;
            sum->workspace_bytes = r.workspace_bytes > sum->workspace_bytes ? r.workspace_bytes : sum->workspace_bytes;
            ++sum->calls;
        } else if (!r.shape.prompt || r.measured) {
            results[kept++] = r;
        }
    }
    *count = kept;
    for (int i = 0; i < kept; ++i)
        if (results[i].shape.prompt)
            results[i].measured = results[i].calls == results[i].shape.calls;
}

static const char *route_name(int route)
{
    static const char *const names[] = {"auto", "row", "pipelined", "split", "direct", "any-k"};
    return route >= 0 && route <= TOPKIT_ROUTE_ANY_K ? names[route] : "unknown";
}

static const char *const ties_names[] = {"any", "lowest"}, *const order_names[] = {"none", "index", "score"};

static void write_kernel(FILE *f, const bench_case *c)
{
    if (strcmp(c->kernel, "topkit") != 0)
        fprintf(f, "%s", c->kernel);
    else
        fprintf(f, "topkit-%s%s%s%s%s", route_name(c->route), c->ties ? "+" : "", c->ties ? ties_names[c->ties] : "", c->order ? "+" : "",
                c->order ? order_names[c->order] : "");
}

/* The route that the plan gives to a case; a trace may have several and is named by its first call. */
static const char *planned_route(const bench_run *run, const bench_case *c)
{
    const bench_machine *m = &run->machine;
    topkit_device_facts facts = {.arch = m->arch, .sm_count = m->sm_count, .shared_per_block = m->shared_per_block,
                                 .shared_per_sm = m->shared_per_sm, .threads_per_sm = m->threads_per_sm};
    topkit_plan plan;
    int route = c->route;
    if (strcmp(c->kernel, "topkit") != 0)
        return c->kernel;
    if (topkit_score_route(c->type, &route) != TOPKIT_OK ||
        topkit_make_plan(c->rows, c->columns, c->k, c->order, route, &facts, &plan) != TOPKIT_OK)
        return "refused";
    return route_name(plan.route);
}

static void write_result(FILE *f, const bench_run *run, const bench_result *r)
{
    const bench_case *c = &r->shape;
    fprintf(f, "    {\"kernel\": \"");
    write_kernel(f, c);
    fprintf(f, "\", \"route\": \"%s\", \"suite\": \"%s\", \"rows\": %d, \"columns\": %d, \"k\": %d, ", planned_route(run, c), c->suite,
            c->rows, c->columns, c->k);
    fprintf(f, "\"type\": \"%s\", \"ties\": \"%s\", \"order\": \"%s\", ", bench_type_name(c->type), ties_names[c->ties],
            order_names[c->order]);
    fprintf(f, "\"input\": \"%s\", \"lengths\": \"%s\", ", bench_input_name(c->input), bench_lengths_name(c->lengths));
    fprintf(f, "\"us\": %.3f, \"p95_us\": %.3f, \"p99_us\": %.3f, \"ceiling_us\": %.3f, \"exact\": %s, ", r->us, r->p95_us, r->p99_us,
            r->ceiling_us, r->exact ? "true" : "false");
    fprintf(f, "\"share\": %.4f, \"read_us\": %.3f, \"run_ceiling_us\": %.3f, \"read_write_us\": %.3f, \"valid_bytes\": %.0f, ",
            r->ceiling_us / r->us, r->read_us, 1e-3 * r->valid_bytes / run->read_gb_s, r->both_us, r->valid_bytes);
    fprintf(f, "\"admitted_per_row\": %.1f, \"compactions\": %llu, \"recoveries\": %llu, \"workspace_bytes\": %zu, ", r->admitted_per_row,
            r->compactions, r->recoveries, r->workspace_bytes);
    fprintf(f, "\"calls\": %d, \"rounds\": %d, \"warm\": %s, \"commit\": \"%s\"}", r->calls, r->rounds, c->warm ? "true" : "false",
            run->commit);
}

void bench_write_machine(FILE *f, const bench_run *run)
{
    const bench_machine *m = &run->machine;
    fprintf(f, "  \"machine\": \"%s\",\n  \"sm_count\": %d,\n  \"l2_bytes\": %d,\n  \"memory_bytes\": %zu,\n", m->name, m->sm_count,
            m->l2_bytes, m->memory_bytes);
    fprintf(f, "  \"clocks\": {\"sm_mhz\": %d, \"memory_mhz\": %d},\n  \"driver\": \"%s\",\n", run->sm_mhz, run->memory_mhz, run->driver);
    fprintf(f, "  \"compiler\": \"%s\",\n  \"cuda_runtime\": %d,\n  \"cuda_driver\": %d,\n  \"commit\": \"%s\",\n", m->compiler,
            m->runtime_version, m->driver_version, run->commit);
    fprintf(f, "  \"read_gb_s\": %.1f,\n  \"empty_launch_us\": %.3f,\n  \"warm_up\": %d,\n", run->read_gb_s, run->empty_us, run->warm_up);
}

int bench_write_json(const char *path, const bench_run *run, const bench_result *results, int count)
{
    const char *comma = "";
    FILE *f = fopen(path, "w");
    if (!f) {
        perror(path);
        return 1;
    }
    fprintf(f, "{\n");
    bench_write_machine(f, run);
    fprintf(f, "  \"results\": [");
    for (int i = 0; i < count; ++i) {
        if (!results[i].measured)
            continue;
        fprintf(f, "%s\n", comma);
        write_result(f, run, &results[i]);
        comma = ",";
    }
    fprintf(f, "\n  ]\n}\n");
    if (fclose(f)) {
        perror(path);
        return 1;
    }
    return 0;
}

void bench_print_table(FILE *file, const bench_result *results, int count)
{
    fprintf(file, "%-7s %-11s %-7s %-4s %7s %8s %7s %11s %11s %11s %7s %11s %9s %6s %6s  %-5s %s\n", "suite", "input", "lengths", "type",
            "rows", "columns", "k", "us", "p95", "ceiling", "share", "read+write", "admitted", "comp.", "recov.", "exact", "kernel");
    for (int i = 0; i < count; ++i) {
        const bench_result *r = &results[i];
        const bench_case *c = &r->shape;
        fprintf(file, "%-7s %-11s %-7s %-4s ", c->suite, bench_input_name(c->input), bench_lengths_name(c->lengths),
                bench_type_name(c->type));
        fprintf(file, "%7d %8d %7d ", c->rows, c->columns, c->k);
        if (r->measured)
            fprintf(file, "%11.2f %11.2f %11.2f %6.1f%% %11.2f %9.1f %6llu %6llu  %-5s ", r->us, r->p95_us, r->ceiling_us,
                    100.0 * r->ceiling_us / r->us, r->both_us, r->admitted_per_row, r->compactions, r->recoveries, r->exact ? "yes" : "NO");
        else
            fprintf(file, "not measured by ");
        write_kernel(file, c);
        fprintf(file, "\n");
    }
}
