/* ablate.cu: topkit-ablate, what the sample's density, the threshold's rank and a second threshold cost and save in a row kernel.
 *
 *   topkit-ablate [options]
 *
 *   --rows N             1024                    --columns N[,N..]    131072,524288      --k N        2048
 *   --input NAME[,..]    normal,dsa,capture (the last where --capture FILE.npy [--capture-lengths FILE.npy] is given)
 *   --strides N[,N..]    16,32,64,128,256        scores for one sample; 24576 samples at most, `samples` says how many there were
 *   --targets X[,X..]    1.25,1.5,1.75,2         candidates to expect, as multiples of k
 *   --secondary X[,X..]  0,2.5                   those of the second threshold; 0: none
 *   --rounds N, --warmup N, --quick, --budget-seconds S, --json FILE, --commit STR, --read-mib N      as topkit-bench has them
 *
 * All combinations on one matrix of causal lengths, in one rotation with a plain read of it; ablate.cuh is the kernel. Times are of graph
 * replays; counts and cycles of another launch, which no time is taken of. `recoveries` are rows that were read again, `opened`
 * those of them that needed an open gate. Every row is judged before and after timing. Exit code: 0 all exact, 1 not, 2 a wrong command
 * line.
 */
#include "ablate.cuh"
#include "command.h"
#include "exact.h"
#include "fill.h"
#include "gpu.h"
#include "report.h"

#include <algorithm>
#include <vector>

#ifdef TOPKIT_SIMT
#include "simt.h"
#endif

enum { LEAST_ROUNDS = 5 };

typedef struct options {
    int rows, k, rounds, warm_up, read_mib;
    std::vector<double> columns, strides, targets, secondary;
    std::vector<int> inputs;
    const char *json, *commit, *capture, *capture_lengths;
    double budget;
} options;

/* One combination on one matrix, and what came of it. */
typedef struct trial {
    int stride;
    double target, secondary;
    ablate_job job;
    replay call;
    std::vector<double> us;
    ablate_counts counts;
    bool exact;
} trial;

/* A matrix with all that is on the device for it. */
typedef struct bed {
    bench_matrix matrix;
    bench_rank *ranks;
    int *indices;
    topkit_queue *queue;
    ablate_counts *counts;
    bench_read read;
    replay read_call;
    double valid_bytes;
    int blocks;
} bed;

typedef struct result {
    int input, columns, rounds;
    trial t;
    double read_us, ceiling_us;
} result;

static int wrong(const char *what, const char *value)
{
    fprintf(stderr, "topkit-ablate: %s '%s'; the head of bench/ablate.cu lists the options\n", what, value);
    return 2;
}

static int read_numbers(const char *text, double least, double most, std::vector<double> *numbers)
{
    numbers->clear();
    for (;;) {
        char *end;
        const double x = strtod(text, &end);
        if (end == text || !(x >= least && x <= most))
            return 1;
        numbers->push_back(x);
        if (*end == '\0')
            return 0;
        if (*end != ',')
            return 1;
        text = end + 1;
    }
}

static int read_inputs(const char *text, std::vector<int> *inputs)
{
    char names[256];
    inputs->clear();
    snprintf(names, sizeof names, "%s", text);
    for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
        inputs->push_back(bench_find_input(name));
        if (inputs->back() < 0)
            return 1;
    }
    return inputs->empty();
}

static int read_option(options *o, const char *name, const char *value)
{
    struct {
        const char *name;
        int *value;
    } const counts[] = {{"--rows", &o->rows}, {"--k", &o->k}, {"--rounds", &o->rounds}, {"--warmup", &o->warm_up},
                        {"--read-mib", &o->read_mib}};
    struct {
        const char *name;
        std::vector<double> *values;
        double least, most;
    } const lists[] = {{"--columns", &o->columns, 1, 1 << 30}, {"--strides", &o->strides, 1, 1 << 20},
                       {"--targets", &o->targets, 1e-3, 100}, {"--secondary", &o->secondary, 0, 100}};
    struct {
        const char *name;
        const char **value;
    } const strings[] = {{"--json", &o->json}, {"--commit", &o->commit}, {"--capture", &o->capture},
                         {"--capture-lengths", &o->capture_lengths}};
    for (const auto &c : counts)
        if (strcmp(name, c.name) == 0)
            return bench_positive(value, c.value) ? 0 : wrong(name, value);
    for (const auto &l : lists)
        if (strcmp(name, l.name) == 0)
            return read_numbers(value, l.least, l.most, l.values) ? wrong(name, value) : 0;
    for (const auto &s : strings)
        if (strcmp(name, s.name) == 0) {
            *s.value = value;
            return s.value == &o->commit && !bench_plain(value) ? wrong(name, value) : 0;
        }
    if (strcmp(name, "--input") == 0)
        return read_inputs(value, &o->inputs) ? wrong(name, value) : 0;
    if (strcmp(name, "--budget-seconds") == 0)
        return (o->budget = atof(value)) > 0.0 ? 0 : wrong(name, value);
    return wrong("no option is called", name);
}

static int read_command_line(options *o, int argc, char **argv)
{
    *o = {1024, 2048, 50, 10, 4096, {131072, 524288}, {16, 32, 64, 128, 256}, {1.25, 1.5, 1.75, 2.0}, {0.0, 2.5},
          {BENCH_NORMAL, BENCH_DSA, BENCH_CAPTURE}, NULL, "unknown", NULL, NULL, 1e9};
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--quick") == 0) {
            o->rounds = 10;
            continue;
        }
        if (i + 1 == argc)
            return wrong("no value for", argv[i]);
        int status = read_option(o, argv[i], argv[i + 1]);
        if (status)
            return status;
        ++i;
    }
    if (o->k > ABLATE_CAPACITY - TOPKIT_TILE)
        return wrong("too large for the buffer:", "--k");
    if (!o->capture)
        o->inputs.erase(std::remove(o->inputs.begin(), o->inputs.end(), (int)BENCH_CAPTURE), o->inputs.end());
    return o->inputs.empty() ? wrong("no file for the input", "capture") : 0;
}

static int launch(const ablate_job *job, int blocks, void *stream)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3(ABLATE_THREADS);
    config.dynamicSmemBytes = ABLATE_SHARED;
    config.stream = (cudaStream_t)stream;
    return bench_gpu_failed(cudaFuncSetAttribute(ablate_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, ABLATE_SHARED), "ablate") ||
           bench_gpu_failed(cudaLaunchKernelEx(&config, ablate_kernel, *job), "ablate");
}

/* What a graph captures of a trial. */
typedef struct capture {
    const ablate_job *job;
    int blocks;
} capture;

static int enqueue(void *context, int, void *stream)
{
    const capture *c = (const capture *)context;
    return launch(c->job, c->blocks, stream);
}

static int make_bed(bed *b, const options *o, const bench_run *run, const bench_capture *captured, int input, int columns)
{
    const size_t count = (size_t)o->rows * (size_t)columns;
    std::vector<int> lengths((size_t)o->rows);
    int *device_lengths = (int *)bench_gpu_alloc(lengths.size() * sizeof(int));
    *b = {};
    b->matrix = {bench_gpu_alloc(count * sizeof(float)), TOPKIT_SCORE_F32, device_lengths, o->rows, columns};
    b->ranks = (bench_rank *)bench_gpu_alloc((size_t)o->rows * sizeof(bench_rank));
    b->indices = (int *)bench_gpu_alloc((size_t)o->rows * (size_t)o->k * sizeof(int));
    b->queue = (topkit_queue *)bench_gpu_alloc(sizeof(topkit_queue));
    b->counts = (ablate_counts *)bench_gpu_alloc(sizeof(ablate_counts));
    b->read = {};
    b->read.buffers[0] = b->matrix.scores;
    b->read.bytes = count * sizeof(float) & ~(size_t)15;
    const int resident = run->machine.shared_per_sm / (ABLATE_SHARED + 1024);
    b->blocks = std::min(o->rows, run->machine.sm_count * (resident < 1 ? 1 : resident > 2 ? 2 : resident));
    if (!device_lengths || !b->matrix.scores || !b->ranks || !b->indices || !b->queue || !b->counts) {
        fprintf(stderr, "topkit-ablate: no device memory for %d x %d scores\n", o->rows, columns);
        return 1;
    }
    for (int r = 0; r < o->rows; ++r) {
        lengths[(size_t)r] = bench_length(BENCH_CAUSAL, BENCH_SEED, r, columns, columns - o->rows);
        b->valid_bytes += 4.0 * lengths[(size_t)r];
    }
    return bench_gpu_upload(device_lengths, lengths.data(), lengths.size() * sizeof(int)) ||
           (input == BENCH_CAPTURE ? bench_fill_capture(&b->matrix, captured, BENCH_SEED)
                                   : bench_fill(&b->matrix, input, BENCH_SEED, 0)) ||
           bench_oracle_ranks(b->ranks, &b->matrix, o->k) || bench_gpu_set(b->queue, 0, sizeof(topkit_queue)) ||
           bench_read_tune(&b->read, 1) || replay_capture(&b->read_call, bench_read_enqueue, &b->read, 1) ||
           replay_warm_up(&b->read_call, o->warm_up);
}

static void free_bed(bed *b)
{
    replay_free(&b->read_call);
    bench_gpu_free((void *)b->matrix.lengths);
    bench_gpu_free(b->matrix.scores);
    bench_gpu_free(b->ranks);
    bench_gpu_free(b->indices);
    bench_gpu_free(b->queue);
    bench_gpu_free(b->counts);
}

/* Launches once and judges every row. */
static int judge(const bed *b, const options *o, trial *t)
{
    bench_verdict verdict;
    if (bench_gpu_set(b->indices, 0x7F, (size_t)o->rows * (size_t)o->k * sizeof(int)) || replay_launch(&t->call, 0) ||
        bench_oracle_check(&verdict, b->ranks, &b->matrix, b->indices, o->k, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE))
        return 1;
    if (verdict.bad_rows && t->exact)
        fprintf(stderr, "topkit-ablate: NOT EXACT: stride %d, target %g, secondary %g, %d columns: %d rows, as row %d: %s\n", t->stride,
                t->target, t->secondary, b->matrix.columns, verdict.bad_rows, verdict.row, bench_fault_text(verdict.fault));
    t->exact = t->exact && verdict.bad_rows == 0;
    return 0;
}

static int count(const bed *b, trial *t)
{
    ablate_job job = t->job;
    job.counts = b->counts;
    return bench_gpu_set(b->counts, 0, sizeof *b->counts) || launch(&job, b->blocks, bench_gpu_stream()) || bench_gpu_sync("counts") ||
           bench_gpu_download(&t->counts, b->counts, sizeof *b->counts);
}

static std::vector<trial> make_trials(const bed *b, const options *o)
{
    std::vector<trial> trials;
    for (double stride : o->strides)
        for (double target : o->targets)
            for (double secondary : o->secondary) {
                if (secondary > 0.0 && secondary <= target)
                    continue; /* the band between them would be empty */
                trial t = {};
                t.stride = (int)stride;
                t.target = target;
                t.secondary = secondary;
                t.exact = true;
                t.job = {(const float *)b->matrix.scores, b->matrix.lengths, o->rows, b->matrix.columns, o->k, t.stride, (float)target,
                         (float)secondary, b->indices, b->queue, nullptr};
                trials.push_back(t);
            }
    return trials;
}

static double percentile(std::vector<double> samples, double share)
{
    std::sort(samples.begin(), samples.end());
    const size_t rank = (size_t)ceil(share * (double)samples.size());
    return samples[rank > 0 ? rank - 1 : 0];
}

/* All trials on one matrix. Appends to `results`; 1 when the device failed. */
static int run_bed(const bed *b, const options *o, int input, double deadline, std::vector<result> *results)
{
    std::vector<trial> trials = make_trials(b, o);
    std::vector<double> read_us;
    bool bad = false;
    for (size_t i = 0; i < trials.size() && !bad; ++i) {
        trial *t = &trials[i];
        capture c = {&t->job, b->blocks};
        bad = count(b, t) || replay_capture(&t->call, enqueue, &c, 1) || judge(b, o, t) || replay_warm_up(&t->call, o->warm_up);
    }
    for (int round = 0; round < o->rounds && !bad && !(round >= LEAST_ROUNDS && bench_seconds() > deadline); ++round) {
        read_us.push_back(replay_sample(&((bed *)b)->read_call));
        bad = read_us.back() < 0.0;
        for (size_t i = 0; i < trials.size() && !bad; ++i) {
            trial *t = &trials[(i + (size_t)round) % trials.size()];
            t->us.push_back(replay_sample(&t->call));
            bad = t->us.back() < 0.0;
        }
    }
    for (size_t i = 0; i < trials.size() && !bad; ++i) {
        bad = judge(b, o, &trials[i]);
        const double median = percentile(read_us, 0.5);
        results->push_back({input, b->matrix.columns, (int)read_us.size(), trials[i], median,
                            median * b->valid_bytes / (4.0 * (double)o->rows * (double)b->matrix.columns)});
    }
    for (trial &t : trials)
        replay_free(&t.call);
    return bad;
}

static double per_row(unsigned long long sum, const ablate_counts &c)
{
    return c.rows ? (double)sum / (double)c.rows : 0.0;
}

static int save(const options *o, const bench_run *run, const std::vector<result> &results)
{
    FILE *f = o->json ? fopen(o->json, "w") : NULL;
    if (!f) {
        if (o->json)
            perror(o->json);
        return o->json != NULL;
    }
    fprintf(f, "{\n");
    bench_write_machine(f, run);
    fprintf(f, "  \"results\": [");
    for (size_t i = 0; i < results.size(); ++i) {
        const result &r = results[i];
        const ablate_counts &c = r.t.counts;
        const double us = percentile(r.t.us, 0.5);
        fprintf(f, "%s\n    {\"kernel\": \"ablate\", \"suite\": \"ablate\", \"rows\": %d, \"columns\": %d, \"k\": %d, \"type\": \"f32\", ",
                i ? "," : "", o->rows, r.columns, o->k);
        fprintf(f, "\"input\": \"%s\", \"lengths\": \"causal\", \"stride\": %d, \"width\": %d, \"target\": %g, \"secondary\": %g, ",
                bench_input_name(r.input), r.t.stride, ABLATE_WIDTH, r.t.target, r.t.secondary);
        fprintf(f, "\"us\": %.3f, \"p95_us\": %.3f, \"p99_us\": %.3f, \"read_us\": %.3f, \"ceiling_us\": %.3f, \"share\": %.4f, ", us,
                percentile(r.t.us, 0.95), percentile(r.t.us, 0.99), r.read_us, r.ceiling_us, r.ceiling_us / us);
        fprintf(f, "\"exact\": %s, \"samples\": %.1f, \"admitted_per_row\": %.1f, ", r.t.exact ? "true" : "false", per_row(c.samples, c),
                per_row(c.admitted, c));
        fprintf(f, "\"recoveries\": %llu, \"opened\": %llu, \"compactions\": %llu, ", c.recoveries, c.opened, c.compactions);
        fprintf(f, "\"cycles\": {\"propose\": %.0f, \"scan\": %.0f, \"recover\": %.0f, \"refine\": %.0f}, ",
                per_row(c.cycles[ABLATE_PROPOSE], c), per_row(c.cycles[ABLATE_SCAN], c), per_row(c.cycles[ABLATE_RECOVER], c),
                per_row(c.cycles[ABLATE_REFINE], c));
        fprintf(f, "\"rounds\": %d, \"commit\": \"%s\"}", r.rounds, o->commit);
    }
    fprintf(f, "\n  ]\n}\n");
    return fclose(f) != 0;
}

static int print_results(const std::vector<result> &results)
{
    int status = 0;
    printf("%-11s %8s %6s %6s %6s %9s %9s %7s %9s %6s %6s %6s %9s %9s %9s %9s  %s\n", "input", "columns", "stride", "target", "second",
           "us", "p95", "share", "admitted", "recov.", "open", "comp.", "propose", "scan", "recover", "refine", "exact");
    for (const result &r : results) {
        const ablate_counts &c = r.t.counts;
        const double us = percentile(r.t.us, 0.5);
        printf("%-11s %8d %6d %6g %6g %9.2f %9.2f %6.1f%% %9.1f %6llu %6llu %6llu ", bench_input_name(r.input), r.columns, r.t.stride,
               r.t.target, r.t.secondary, us, percentile(r.t.us, 0.95), 100.0 * r.ceiling_us / us, per_row(c.admitted, c), c.recoveries,
               c.opened, c.compactions);
        printf("%9.0f %9.0f %9.0f %9.0f  %s\n", per_row(c.cycles[ABLATE_PROPOSE], c), per_row(c.cycles[ABLATE_SCAN], c),
               per_row(c.cycles[ABLATE_RECOVER], c), per_row(c.cycles[ABLATE_REFINE], c), r.t.exact ? "yes" : "NO");
        status |= !r.t.exact;
    }
    return status;
}

int main(int argc, char **argv)
{
    options o;
    bench_run run = {};
    bench_capture captured = {};
    std::vector<result> results;
    int status = read_command_line(&o, argc, argv);
    if (status)
        return status;
    const double deadline = bench_seconds() + o.budget;
    run.commit = o.commit;
    run.warm_up = o.warm_up;
    status = bench_gpu_open(&run.machine) || bench_replay_open(run.machine.sm_count) || bench_measure_run(&run, o.read_mib) ||
             (o.capture && bench_capture_open(&captured, o.capture, o.capture_lengths));
    for (double columns : o.columns)
        for (int input : o.inputs) {
            if (status || bench_seconds() > deadline)
                continue;
            fprintf(stderr, "topkit-ablate: %s, %d x %.0f\n", bench_input_name(input), o.rows, columns);
            bed b;
            status = make_bed(&b, &o, &run, &captured, input, (int)columns) || run_bed(&b, &o, input, deadline, &results) ||
                     save(&o, &run, results);
            free_bed(&b);
        }
    if (results.size() == 0 || bench_seconds() > deadline)
        fprintf(stderr, "topkit-ablate: the time is up, or the device failed; not everything was measured\n");
    status |= print_results(results);
    bench_capture_close(&captured);
    bench_replay_close();
    bench_gpu_close();
    return status;
}
