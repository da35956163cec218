/* fused.cu: topkit-fused-bench, the fused indexer beside the two-kernel pipeline of the same scoring code.
 *
 *   topkit-fused-bench [options]
 *
 *   --queries N[,N..]    8192                --keys N[,N..]       262144,1048576       --heads N[,N..]   32,64
 *   --input NAME[,..]    random,clustered    --k N                2048                 --rounds N        20
 *   --matrix-mib N       scores that the two-kernel pipeline may hold; it works in chunks of queries (6144)
 *   --only fused|two     one of them         --json FILE          results              --commit STR         --seed N    1
 *
 * Ranges are causal: query t of m sees the positions below keys - m + t + 1. `random` has e4m3 codes of Gaussian-like entries. `clustered`
 * keys drift between 512 centres, queries lie near a few centres and favour recent ones, so that scores concentrate with a long upper tail.
 * Times are medians of calls between events, after two to warm up; "scores" is the first kernel of the pipeline alone, so that
 * the difference to "two" is what selecting from memory costs. "tensor" is the products' operations over the fused time against the 1979
 * TFLOP/s that the H200's datasheet gives for dense FP8. "exact" says that the fused kernel and the pipeline give the same indices for all
 * queries under lowest-index ties; the operator behind the pipeline has tests of its own. Exit code: 0 all exact, 1 not, 2 a wrong
 * command line, 77 no device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "fused.h"
#include "launch.h"
#ifdef TOPKIT_SIMT
#include "simt.h"
#endif

enum { MOST = 8 };
typedef struct options {
    int queries[MOST], keys[MOST], heads[MOST], query_count, key_count, head_count;
    bool inputs[2]; /* random, clustered */
    int k, rounds, seed;
    long long matrix_mib;
    bool fused, two;
    const char *json, *commit;
} options;

typedef struct result {
    int queries, keys, heads, input;
    double fused_us, two_us, scores_us; /* below 0: not measured */
    double tensor_share, tops;
    bool exact, compared;
    size_t workspace, matrix;
    topkit_select_stats stats;
} result;

static const char *const INPUTS[2] = {"random", "clustered"};

static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "topkit-fused-bench: %s\n", what);
    exit(1);
}

static void *device_memory(size_t bytes) {
    void *p;
    require(cudaMalloc(&p, bytes) == cudaSuccess, "no device memory");
    return p;
}

/* ---- inputs, made on the device ---- */

static __device__ __forceinline__ unsigned mixed(unsigned long long x) { /* splitmix64's finaliser */
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return (unsigned)((x ^ x >> 31) >> 16);
}
/* About a standard normal: the sum of four uniforms, centred and scaled. */
static __device__ __forceinline__ float bell(unsigned long long x) {
    float sum = 0.0f;
    for (int i = 0; i < 4; i++) sum += (float)(mixed(x * 4 + (unsigned long long)i) >> 8) * 0x1p-24f;
    return (sum - 2.0f) * 1.7320508f;
}
/* The nearest e4m3 code towards zero of a number below 448 in size. */
static __device__ __forceinline__ unsigned char code_of(float x) {
    const unsigned bits = __float_as_uint(x), sign = bits >> 24 & 0x80;
    const int exponent = (int)(bits >> 23 & 255) - 127;
    if (exponent < -6) return (unsigned char)sign;
    return (unsigned char)(sign | (unsigned)(exponent + 7) << 3 | (bits >> 20 & 7));
}

static __global__ void fill_vectors(unsigned char *out, long long vectors, int per_row, long long rows, int clustered, unsigned seed) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < vectors * 128; i += (long long)gridDim.x * blockDim.x) {
        const long long row = i / 128 / per_row;
        const int depth = (int)(i % 128);
        float x = bell((unsigned long long)i + ((unsigned long long)seed << 40));
        if (clustered) { /* of `rows` rows: a centre for each stretch, with noise; those of queries (per_row > 1) near the last ones */
            const long long back = (long long)(mixed((unsigned long long)(i / 128)) % 8) * (mixed((unsigned long long)row) % 60);
            const long long stretch = per_row > 1 ? 511 - back : row * 512 / rows;
            x = 0.6f * x + bell((unsigned long long)(stretch * 128 + depth) + (77ull << 40));
        }
        out[i] = code_of(x);
    }
}
static __global__ void fill_floats(float *out, long long count, float low, float high, unsigned seed) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (long long)gridDim.x * blockDim.x)
        out[i] = low + (high - low) * (float)(mixed((unsigned long long)i + ((unsigned long long)seed << 40)) >> 8) * 0x1p-24f;
}

static cudaLaunchConfig_t filler(void) {
    cudaLaunchConfig_t config = {};
#ifdef TOPKIT_SIMT
    config.gridDim = dim3(2);
    config.blockDim = dim3(64);
#else
    config.gridDim = dim3(2048);
    config.blockDim = dim3(256);
#endif
    return config;
}

/* ---- one case ---- */

typedef struct bench_case {
    topkit_fused_params p;
    float *matrix; /* (chunk x keys) */
    int chunk;     /* queries that the pipeline works on at a time */
    int *two;      /* (queries x k) its indices */
    void *select_workspace;
    size_t select_bytes;
} bench_case;

static bool call_fused(bench_case *c) { return topkit_fused(&c->p, nullptr) == TOPKIT_OK; }

/* The pipeline: scores of a chunk of queries, and with `selects` the operator behind them. */
static bool call_two(bench_case *c, bool selects) {
    for (int first = 0; first < c->p.tokens; first += c->chunk) {
        topkit_fused_params p = c->p;
        topkit_select_params s = {};
        p.tokens = c->p.tokens - first < c->chunk ? c->p.tokens - first : c->chunk;
        p.queries = (const unsigned char *)p.queries + (size_t)first * (size_t)p.heads * 128;
        p.weights += (size_t)first * (size_t)p.heads;
        p.ends += first;
        if (topkit_fused_scores(&p, c->matrix, p.positions, nullptr) != TOPKIT_OK) return false;
        s.scores = c->matrix;
        s.row_stride = p.positions;
        s.lengths = p.ends;
        s.rows = p.tokens;
        s.max_length = p.positions;
        s.k = p.k;
        s.ties = p.ties;
        s.order = p.order;
        s.indices = c->two + (size_t)first * (size_t)p.k;
        s.workspace = c->select_workspace;
        s.workspace_bytes = c->select_bytes;
        if (selects && topkit_select(&s, nullptr) != TOPKIT_OK) return false;
    }
    return true;
}

static int smaller_first(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static double median_us(bench_case *c, int rounds, int what) {
    float *times = (float *)malloc((size_t)rounds * sizeof(float));
    cudaEvent_t start, stop;
    require(times && cudaEventCreate(&start) == cudaSuccess && cudaEventCreate(&stop) == cudaSuccess, "events");
    for (int round = -2; round < rounds; round++) {
        float ms = 0.0f;
        require(cudaEventRecord(start, nullptr) == cudaSuccess, "event");
        require(what == 0 ? call_fused(c) : call_two(c, what == 1), "a call was refused");
        require(cudaEventRecord(stop, nullptr) == cudaSuccess && cudaEventSynchronize(stop) == cudaSuccess, "a kernel failed");
        require(cudaEventElapsedTime(&ms, start, stop) == cudaSuccess, "event");
        if (round >= 0) times[round] = ms * 1e3f;
    }
    qsort(times, (size_t)rounds, sizeof(float), smaller_first);
    const double us = times[rounds / 2];
    free(times);
    cudaEventDestroy(start);
    cudaEventDestroy(stop);
    return us;
}

static void run_case(const options *o, result *r) {
    bench_case c;
    memset(&c, 0, sizeof c);
    const size_t m = (size_t)r->queries, n = (size_t)r->keys, h = (size_t)r->heads, k = (size_t)o->k;
    unsigned char *q = (unsigned char *)device_memory(m * h * 128), *keys = (unsigned char *)device_memory(n * 128);
    float *weights = (float *)device_memory(m * h * 4), *scales = (float *)device_memory(n * 4);
    topkit_select_stats *stats = (topkit_select_stats *)device_memory(sizeof *stats);
    int *ends = (int *)malloc(m * sizeof(int)), *fused = (int *)malloc(m * k * 4), *two = (int *)malloc(m * k * 4);
    require(ends && fused && two, "no memory");
    for (int t = 0; t < r->queries; t++) ends[t] = r->keys - r->queries + t + 1;
    int *device_ends = (int *)device_memory(m * 4);
    require(cudaMemcpy(device_ends, ends, m * 4, cudaMemcpyHostToDevice) == cudaSuccess, "ranges");
    const cudaLaunchConfig_t fill = filler();
    const long long rows = r->queries, positions = r->keys;
    const unsigned seed = (unsigned)o->seed * 4;
    require(cudaLaunchKernelEx(&fill, fill_vectors, q, rows * r->heads, r->heads, rows, r->input, seed) == cudaSuccess &&
                cudaLaunchKernelEx(&fill, fill_vectors, keys, positions, 1, positions, r->input, seed + 1) == cudaSuccess &&
                cudaLaunchKernelEx(&fill, fill_floats, weights, rows * r->heads, 0.0f, 1.0f, seed + 2) == cudaSuccess &&
                cudaLaunchKernelEx(&fill, fill_floats, scales, positions, 0.5f, 1.5f, seed + 3) == cudaSuccess,
            "inputs");
    c.p.queries = q;
    c.p.keys = keys;
    c.p.weights = weights;
    c.p.key_scales = scales;
    c.p.ends = device_ends;
    c.p.tokens = r->queries;
    c.p.heads = r->heads;
    c.p.positions = r->keys;
    c.p.k = o->k;
    c.p.indices = (int *)device_memory(m * k * 4);
    require(topkit_fused_workspace(&c.p, &c.p.workspace_bytes) == TOPKIT_OK, "workspace");
    c.p.workspace = device_memory(c.p.workspace_bytes);
    require(cudaMemset(c.p.workspace, 0, c.p.workspace_bytes) == cudaSuccess, "workspace");
    r->workspace = c.p.workspace_bytes;
    r->fused_us = r->two_us = r->scores_us = -1.0;
    if (o->fused) r->fused_us = median_us(&c, o->rounds, 0);
    if (o->two) {
        const long long fit = o->matrix_mib * 1048576 / ((long long)n * 4);
        topkit_select_params s = {};
        c.chunk = fit < 1 ? 1 : fit < r->queries ? (int)fit : r->queries;
        r->matrix = (size_t)c.chunk * n * 4;
        c.matrix = (float *)device_memory(r->matrix);
        c.two = (int *)device_memory(m * k * 4);
        s.rows = c.chunk;
        s.max_length = r->keys;
        s.k = o->k;
        require(topkit_select_workspace(&s, &c.select_bytes) == TOPKIT_OK, "workspace");
        c.select_workspace = device_memory(c.select_bytes);
        require(cudaMemset(c.select_workspace, 0, c.select_bytes) == cudaSuccess, "workspace");
        r->two_us = median_us(&c, o->rounds, 1);
        r->scores_us = median_us(&c, o->rounds, 2);
    }
    double pairs = 0.0;
    for (int t = 0; t < r->queries; t++) pairs += ends[t];
    r->tops = pairs * (double)h * 256.0 * 1e-12;
    if (r->fused_us > 0.0) r->tensor_share = r->tops / (r->fused_us * 1e-6) / 1979.0;

    if (o->fused && o->two) { /* not timed: the same set, deterministically, and the statistics */
        c.p.ties = TOPKIT_TIES_LOWEST_INDEX;
        c.p.order = TOPKIT_ORDER_INDEX;
        c.p.stats = stats;
        require(cudaMemset(stats, 0, sizeof *stats) == cudaSuccess && call_fused(&c) && call_two(&c, true), "a call was refused");
        require(cudaMemcpy(fused, c.p.indices, m * k * 4, cudaMemcpyDeviceToHost) == cudaSuccess &&
                    cudaMemcpy(two, c.two, m * k * 4, cudaMemcpyDeviceToHost) == cudaSuccess &&
                    cudaMemcpy(&r->stats, stats, sizeof r->stats, cudaMemcpyDeviceToHost) == cudaSuccess,
                "results");
        r->compared = true;
        r->exact = memcmp(fused, two, m * k * 4) == 0;
    }
    void *all[] = {q, keys, weights, scales, stats, device_ends, c.p.indices, c.p.workspace, c.matrix, c.two, c.select_workspace};
    for (void *p : all) cudaFree(p);
    free(ends);
    free(fused);
    free(two);
}

/* ---- the command line, the report ---- */

static int read_list(const char *text, int *list) {
    int count = 0;
    while (*text && count < MOST) {
        char *end;
        const long n = strtol(text, &end, 10);
        if (end == text || n < 1 || n > 1 << 30) return 0;
        list[count++] = (int)n;
        text = *end == ',' ? end + 1 : end;
        if (*end && *end != ',') return 0;
    }
    return count;
}

static bool read_option(options *o, const char *name, const char *value) {
    int one[MOST];
    if (strcmp(name, "--queries") == 0) return (o->query_count = read_list(value, o->queries)) > 0;
    if (strcmp(name, "--keys") == 0) return (o->key_count = read_list(value, o->keys)) > 0;
    if (strcmp(name, "--heads") == 0) return (o->head_count = read_list(value, o->heads)) > 0;
    if (strcmp(name, "--input") == 0) {
        for (int i = 0; i < 2; i++) o->inputs[i] = strstr(value, INPUTS[i]) != nullptr;
        return o->inputs[0] || o->inputs[1];
    }
    if (strcmp(name, "--only") == 0) {
        o->fused = strcmp(value, "fused") == 0;
        o->two = strcmp(value, "two") == 0;
        return o->fused || o->two;
    }
    if (strcmp(name, "--json") == 0) o->json = value;
    else if (strcmp(name, "--commit") == 0 && bench_plain(value)) o->commit = value;
    else if (read_list(value, one) != 1) return false;
    else if (strcmp(name, "--k") == 0) o->k = one[0];
    else if (strcmp(name, "--rounds") == 0) o->rounds = one[0];
    else if (strcmp(name, "--seed") == 0) o->seed = one[0];
    else if (strcmp(name, "--matrix-mib") == 0) o->matrix_mib = one[0];
    else return false;
    return true;
}

static void write_line(FILE *f, const options *o, const result *r) {
    fprintf(f, "    {\"kernel\": \"topkit-fused\", \"queries\": %d, \"keys\": %d, \"heads\": %d, \"k\": %d, ", r->queries,
            r->keys, r->heads, o->k);
    fprintf(f, "\"input\": \"%s\", ", INPUTS[r->input]);
    fprintf(f, "\"us\": %.1f, \"two_kernel_us\": %.1f, \"scores_us\": %.1f, \"exact\": %s, ", r->fused_us, r->two_us, r->scores_us,
            !r->compared ? "null" : r->exact ? "true" : "false");
    fprintf(f, "\"tera_operations\": %.3f, \"tensor_share\": %.4f, ", r->tops, r->tensor_share);
    fprintf(f, "\"workspace_bytes\": %zu, \"matrix_bytes\": %zu, ", r->workspace, r->matrix);
    fprintf(f, "\"admitted_per_query\": %.1f, \"compactions\": %llu, \"recoveries\": %llu, \"rounds\": %d, \"commit\": \"%s\"}",
            (double)r->stats.admitted / r->queries, r->stats.compactions, r->stats.recoveries, o->rounds, o->commit);
}

int main(int argc, char **argv) {
    options o = {{8192}, {262144, 1048576}, {32, 64}, 1, 2, 2, {true, true}, 2048, 20, 1, 6144, true, true, nullptr, "unknown"};
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc || !read_option(&o, argv[i], argv[i + 1])) {
            fprintf(stderr, "topkit-fused-bench: '%s'; the head of bench/fused.cu lists the options\n", argv[i]);
            return 2;
        }
    }
    topkit_fused_params probe = {};
    probe.heads = 64;
    size_t bytes;
    int devices = 0;
    cudaDeviceProp properties;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0 || topkit_fused_workspace(&probe, &bytes) != TOPKIT_OK ||
        cudaGetDeviceProperties(&properties, 0) != cudaSuccess) {
        puts("topkit-fused-bench: skipped, there is no CUDA device of compute capability 9.0");
        return 77;
    }
    FILE *json = o.json ? fopen(o.json, "w") : nullptr;
    require(!o.json || json, "the JSON file can not be written");
    if (json)
        fprintf(json, "{\n  \"machine\": \"%s\",\n  \"sm_count\": %d,\n  \"results\": [", properties.name, properties.multiProcessorCount);
    int cases = 0, wrong = 0;
    printf("%8s %9s %5s %-10s %12s %12s %12s %7s %10s %6s  %s\n", "queries", "keys", "heads", "input", "fused us", "two us", "scores us",
           "tensor", "admitted", "again", "exact");
    for (int a = 0; a < o.query_count; a++) {
        for (int b = 0; b < o.key_count; b++) {
            for (int c = 0; c < o.head_count; c++) {
                for (int input = 0; input < 2; input++) {
                    result r;
                    memset(&r, 0, sizeof r);
                    r.queries = o.queries[a];
                    r.keys = o.keys[b];
                    r.heads = o.heads[c];
                    r.input = input;
                    if (!o.inputs[input] || r.keys < r.queries) continue;
                    run_case(&o, &r);
                    printf("%8d %9d %5d %-10s %12.1f %12.1f %12.1f %6.1f%% %10.1f %6llu  %s\n", r.queries, r.keys, r.heads, INPUTS[input],
                           r.fused_us, r.two_us, r.scores_us, r.tensor_share * 100.0, (double)r.stats.admitted / r.queries,
                           r.stats.recoveries, !r.compared ? "-" : r.exact ? "yes" : "NO");
                    fflush(stdout);
                    if (json) {
                        fprintf(json, "%s\n", cases ? "," : "");
                        write_line(json, &o, &r);
                        fflush(json);
                    }
                    wrong += r.compared && !r.exact;
                    cases++;
                }
            }
        }
    }
    if (json) {
        fprintf(json, "\n  ]\n}\n");
        fclose(json);
    }
    return wrong || cases == 0 ? 1 : 0;
}
