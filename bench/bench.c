/* bench.c: topkit-bench, the benchmark driver.
 *
 *   topkit-bench [options] SUITE...            suites: matrix width decode hard mixed trace types any_k order peers one (cases.h)
 *
 *   --rounds N           samples a case (50)            --quick              10 rounds
 *   --warmup N           launches before them (10)      --budget-seconds S   stop in good order after S seconds, which is no failure
 *   --list               measures nothing and prints the cases
 *   --json FILE          results, rewritten after each group of cases
 *   --commit STR         is noted in the results
 *   --kernel LIST        what is measured, as topkit,cub,flashinfer: each shape by all of them in one rotation (topkit). The peers are in
 *                        builds that had their headers (device.sh); one that this build lacks is named and left out of a longer list
 *   --route auto|row|pipelined|split|direct|any-k, --ties any|lowest, --order none|index|score     of topkit; some suites have their own
 *   --type f32|bf16|fp16 of the scores, which are rounded to it (f32; `types` has all three)
 *   --rows N --columns N --input NAME     the shape of `one`; a filter for the other suites
 *   --k N --lengths full|causal|mixed     K of all suites (2048; a filter for `any_k`); lengths of `one` (causal)
 *   --capture FILE.npy [--capture-lengths FILE.npy]     captured rows of scores, the input `capture`
 *   --memory-gib N       scores that may be resident together (80);   --read-mib N   what the read rate is measured on (4096)
 *
 * The table of results goes to stdout, progress to stderr. run.h states the protocol. Exit code: 0 when everything of topkit was measured
 * and exact, 1 when not, 2 for a wrong command line. What cannot be allocated or is refused by the kernel is named and left out. A peer
 * that refuses a shape or is wrong there does not fail the run: the table and the results say so.
 */
#include "inputs.h"
#include "command.h"
#include "exact.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>

typedef struct options {
    bench_shape_options shape;
    bench_run_options run;
    const char *kernels, *route, *ties, *order, *type;
    const char *json, *commit, *capture, *capture_lengths;
    const char *suites[16];
    int suite_count, list_only;
    double budget;
    int read_mib;
    double memory_gib;
    char kernel_names[64];
} options;

/* The place of `name` in a null-ended list, or -1. */
static int find_name(const char *name, const char *const *names)
{
    for (int i = 0; names[i]; ++i)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static int wrong(const char *what, const char *value)
{
    fprintf(stderr, "topkit-bench: %s '%s'; the head of bench/bench.c lists the options\n", what, value);
    return 2;
}

static int read_option(options *o, const char *name, const char *value)
{
    const struct {
        const char *name;
        int *value;
    } numbers[] = {{"--rounds", &o->run.rounds}, {"--warmup", &o->run.warm_up},
                   {"--rows", &o->shape.rows},   {"--columns", &o->shape.columns}, {"--k", &o->shape.k}, {"--read-mib", &o->read_mib}};
    const struct {
        const char *name;
        const char **value;
    } strings[] = {{"--json", &o->json}, {"--commit", &o->commit}, {"--capture", &o->capture}, {"--capture-lengths", &o->capture_lengths},
                   {"--kernel", &o->kernels}, {"--route", &o->route}, {"--ties", &o->ties}, {"--order", &o->order}, {"--type", &o->type}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i)
        if (strcmp(name, numbers[i].name) == 0)
            return bench_positive(value, numbers[i].value) ? 0 : wrong(name, value);
    for (size_t i = 0; i < sizeof strings / sizeof *strings; ++i)
        if (strcmp(name, strings[i].name) == 0) {
            *strings[i].value = value;
            return strings[i].value == &o->commit && !bench_plain(value) ? wrong(name, value) : 0;
        }
    if (strcmp(name, "--input") == 0)
        return (o->shape.input = bench_find_input(value)) >= 0 ? 0 : wrong(name, value);
    if (strcmp(name, "--lengths") == 0)
        return (o->shape.lengths = bench_find_lengths(value)) >= 0 ? 0 : wrong(name, value);
    if (strcmp(name, "--budget-seconds") == 0)
        return (o->budget = atof(value)) > 0.0 ? 0 : wrong(name, value);
    if (strcmp(name, "--memory-gib") == 0)
        return (o->memory_gib = atof(value)) > 0.0 ? 0 : wrong(name, value);
    return wrong("no option is called", name);
}

/* Splits --kernel at its commas. Of several, those that this build lacks are left out. */
static int read_kernels(options *o)
{
    bench_shape_options *shape = &o->shape;
    if (strlen(o->kernels) >= sizeof o->kernel_names)
        return wrong("too many kernels:", o->kernels);
    strcpy(o->kernel_names, o->kernels);
    for (char *name = strtok(o->kernel_names, ","); name; name = strtok(NULL, ",")) {
        if (bench_find_callee(name) && shape->kernel_count < BENCH_KERNELS)
            shape->kernels[shape->kernel_count++] = name;
        else
            fprintf(stderr, "topkit-bench: kernel '%s' is unknown, not in this build, or one too many\n", name);
    }
    return shape->kernel_count > 0 ? 0 : wrong("no kernel is left of --kernel", o->kernels);
}

static int read_names(options *o)
{
    static const char *const routes[] = {"auto", "row", "pipelined", "split", "direct", "any-k", NULL};
    static const char *const ties[] = {"any", "lowest", NULL};
    static const char *const orders[] = {"none", "index", "score", NULL};
    static const char *const types[] = {"f32", "bf16", "fp16", NULL};
    const struct {
        const char *option, *value;
        const char *const *names;
        int *number;
    } all[] = {{"--route", o->route, routes, &o->shape.route}, {"--ties", o->ties, ties, &o->shape.ties},
               {"--order", o->order, orders, &o->shape.order}, {"--type", o->type, types, &o->shape.type}};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
        if (all[i].value && (*all[i].number = find_name(all[i].value, all[i].names)) < 0)
            return wrong(all[i].option, all[i].value);
    return read_kernels(o);
}

static int read_command_line(options *o, int argc, char **argv)
{
    *o = (options){.shape = {.type = -1, .input = -1, .lengths = BENCH_CAUSAL}, .run = {.rounds = 50, .warm_up = 10}, .kernels = "topkit",
                   .commit = "unknown", .budget = 1e9, .memory_gib = 80.0, .read_mib = 4096};
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--quick") == 0) {
            o->run.rounds = 10;
        } else if (strcmp(argv[i], "--list") == 0) {
            o->list_only = 1;
        } else if (argv[i][0] != '-') {
            if (o->suite_count == 16)
                return wrong("one suite too many:", argv[i]);
            o->suites[o->suite_count++] = argv[i];
        } else if (i + 1 == argc) {
            return wrong("no value for", argv[i]);
        } else {
            int status = read_option(o, argv[i], argv[i + 1]);
            if (status)
                return status;
            ++i;
        }
    }
    if (o->suite_count == 0)
        return wrong("no suite is named", "");
    return read_names(o);
}

/* JSON of what there is so far, with traces added up: results themselves stay as they are. */
static int save(const options *o, const bench_run *run, const bench_result *results, int count)
{
    if (!o->json)
        return 0;
    bench_result *copy = malloc(((size_t)count + 1) * sizeof *copy);
    if (!copy)
        return 1;
    memcpy(copy, results, (size_t)count * sizeof *copy);
    bench_add_traces(copy, &count);
    int bad = bench_write_json(o->json, run, copy, count);
    free(copy);
    return bad;
}

static int run_all(options *o, bench_run *run, const bench_case_list *list, bench_result *results, int *done)
{
    double begin = bench_seconds();
    double available = 0.85 * (double)run->machine.free_bytes, wanted = o->memory_gib * 1073741824.0;
    size_t memory = (size_t)(wanted < available ? wanted : available);
    o->run.deadline = begin + o->budget;
    for (*done = 0; *done < list->count;) {
        if (bench_seconds() > o->run.deadline) {
            fprintf(stderr, "topkit-bench: the time is up; %d of %d cases were not run\n", list->count - *done, list->count);
            return 0;
        }
        const bench_case *cases = list->cases + *done;
        int n = bench_group_size(cases, list->count - *done, memory);
        fprintf(stderr, "[%d/%d, %.0f s] %s: %d cases together\n", *done, list->count, bench_seconds() - begin, cases->suite, n);
        int broken = bench_run_group(cases, n, &o->run, results + *done);
        *done += n;
        if (broken || save(o, run, results, *done))
            return 1;
    }
    fprintf(stderr, "[%d/%d, %.0f s]\n", *done, list->count, bench_seconds() - begin);
    return 0;
}

static int print_cases(const bench_case_list *list, bench_result *results)
{
    for (int i = 0; i < list->count; ++i)
        results[i].shape = list->cases[i];
    bench_print_table(stdout, results, list->count);
    return 0;
}

/* Everything that needs the device. */
static int measure(options *o, bench_run *run, const bench_case_list *list, bench_result *results)
{
    bench_capture capture = {0};
    int done = 0;
    o->run.capture = &capture;
    int status = bench_gpu_open(&run->machine) || bench_replay_open(run->machine.sm_count) || bench_measure_run(run, o->read_mib) ||
                 (o->capture && bench_capture_open(&capture, o->capture, o->capture_lengths));
    if (status == 0) {
        printf("%s, %s, driver %s, SM %d MHz, memory %d MHz; read %.1f GB/s, empty launch %.2f us\n", run->machine.name,
               run->machine.compiler, run->driver, run->sm_mhz, run->memory_mhz, run->read_gb_s, run->empty_us);
        status = run_all(o, run, list, results, &done);
        bench_add_traces(results, &done);
        bench_print_table(stdout, results, done);
        for (int i = 0; i < done; ++i)
            status |= strcmp(results[i].shape.kernel, "topkit") == 0 && (!results[i].measured || !results[i].exact);
    }
    bench_capture_close(&capture);
    bench_replay_close();
    bench_gpu_close();
    return status;
}

int main(int argc, char **argv)
{
    options o;
    bench_run run = {0};
    bench_case_list list = {0};
    int status = read_command_line(&o, argc, argv);
    o.shape.capture = o.capture != NULL;
    for (int i = 0; i < o.suite_count && status == 0; ++i)
        status = bench_add_suite(&list, o.suites[i], &o.shape) ? 2 : 0;
    if (status)
        return status;
    if (list.count == 0)
        return wrong("no case is left by the filters of suite", o.suites[0]);
    run.commit = o.commit;
    run.warm_up = o.run.warm_up;
    bench_result *results = calloc((size_t)list.count, sizeof *results);
    if (!results)
        status = 1;
    else
        status = o.list_only ? print_cases(&list, results) : measure(&o, &run, &list, results);
    bench_free_cases(&list);
    free(results);
    return status;
}
