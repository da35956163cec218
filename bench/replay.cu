/* replay.cu: calls replayed from graphs and timed, and the plain read; see gpu.h. */
#include "gpu.h"
#include "launch.h"

#include <string.h>

static cudaStream_t stream(void)
{
    return (cudaStream_t)bench_gpu_stream();
}

static int failed(cudaError_t error, const char *what)
{
    return bench_gpu_failed(error, what);
}

static cudaLaunchConfig_t launch(int blocks, int threads, void *on)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3((unsigned)threads);
    config.stream = (cudaStream_t)on;
    return config;
}

/* The fastest clock of any GPU of today: a wait is never shorter than it says. */
static const long long WAIT_CYCLES_PER_US = 3000;

static cudaEvent_t the_events[2];
static float *the_sink;
static int the_sm_count;

/* Waits, with one thread, for that many clock cycles. */
__global__ void wait_kernel(long long cycles)
{
    long long begin = clock64();
    while (clock64() - begin < cycles)
        continue;
}

__global__ void empty_kernel()
{
}

/* The ceiling: nothing but 16-byte loads, four in flight a thread. */
__global__ void __launch_bounds__(512) read_kernel(const float4 *data, size_t count, float *sink)
{
    size_t stride = (size_t)gridDim.x * blockDim.x;
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (; i + 3 * stride < count; i += 4 * stride) {
        float4 a = data[i], b = data[i + stride], c = data[i + 2 * stride], d = data[i + 3 * stride];
        sum += ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w)) + ((c.x + c.y) + (c.z + c.w)) + ((d.x + d.y) + (d.z + d.w));
    }
    for (; i < count; i += stride) {
        float4 a = data[i];
        sum += (a.x + a.y) + (a.z + a.w);
    }
    if (sum == 0.12345678f)
        *sink = sum; /* the compiler must believe that the sum is wanted */
}

/* The same, and a sixteen-byte store now and then: each block writes its share of `out` behind every four loads. */
__global__ void __launch_bounds__(512) read_write_kernel(const float4 *data, size_t count, float4 *out, size_t out_count)
{
    size_t stride = (size_t)gridDim.x * blockDim.x, first = (size_t)blockIdx.x * blockDim.x;
    size_t loops = (count + 4 * stride - 1) / (4 * stride);
    size_t share = (out_count + loops * gridDim.x - 1) / (loops * gridDim.x); /* of a block and loop */
    const float4 none = {0.0f, 0.0f, 0.0f, 0.0f};
    for (size_t loop = 0; loop < loops; ++loop) {
        size_t i = loop * 4 * stride + first + threadIdx.x;
        float4 a = i < count ? data[i] : none, b = i + stride < count ? data[i + stride] : none;
        float4 c = i + 2 * stride < count ? data[i + 2 * stride] : none, d = i + 3 * stride < count ? data[i + 3 * stride] : none;
        float4 sum = {a.x + b.x + c.x + d.x, a.y + b.y + c.y + d.y, a.z + b.z + c.z + d.z, a.w + b.w + c.w + d.w};
        size_t begin = (loop * gridDim.x + blockIdx.x) * share, end = begin + share < out_count ? begin + share : out_count;
        for (size_t o = begin + threadIdx.x; o < end; o += blockDim.x)
            out[o] = sum;
        if (sum.x + sum.y + sum.z + sum.w == 0.12345678f && out_count)
            out[0] = sum;
    }
}

extern "C" int bench_replay_open(int sm_count)
{
    the_sm_count = sm_count;
    return failed(cudaEventCreate(&the_events[0]), "event") || failed(cudaEventCreate(&the_events[1]), "event") ||
           failed(cudaMalloc((void **)&the_sink, sizeof *the_sink), "memory");
}

extern "C" void bench_replay_close(void)
{
    cudaFree(the_sink);
    cudaEventDestroy(the_events[0]);
    cudaEventDestroy(the_events[1]);
}

extern "C" int replay_capture(replay *r, replay_enqueue enqueue, void *context, int copies)
{
    memset(r, 0, sizeof *r);
    r->per_sample = 1;
    for (int i = 0; i < copies; ++i) {
        cudaGraph_t graph = NULL;
        cudaGraphExec_t exec = NULL;
        if (failed(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeGlobal), "begin capture"))
            return 1;
        int refused = enqueue(context, i, stream());
        if (failed(cudaStreamEndCapture(stream(), &graph), "end capture"))
            return 1;
        if (refused) {
            cudaGraphDestroy(graph);
            return 1;
        }
        int bad = failed(cudaGraphInstantiate(&exec, graph, 0), "instantiate graph");
        cudaGraphDestroy(graph);
        r->graphs[i] = exec;
        r->copies = i + 1;
        if (bad)
            return 1;
    }
    return 0;
}

extern "C" int replay_queue(replay *r, int launches)
{
    for (int i = 0; i < launches; ++i) {
        if (failed(cudaGraphLaunch((cudaGraphExec_t)r->graphs[r->next], stream()), "graph launch"))
            return 1;
        r->next = (r->next + 1) % r->copies;
    }
    return 0;
}

extern "C" int replay_launch(replay *r, int copy)
{
    r->next = copy;
    return replay_queue(r, 1) || bench_gpu_sync("replay");
}

extern "C" double replay_sample(replay *r)
{
    float milliseconds = 0.0f;
    if (replay_queue(r, r->lead))
        return -1.0;
    cudaLaunchConfig_t wait = launch(1, 1, stream());
    long long cycles = WAIT_CYCLES_PER_US * (20 + 6 * (long long)r->per_sample);
    if (failed(cudaLaunchKernelEx(&wait, wait_kernel, cycles), "wait") || failed(cudaEventRecord(the_events[0], stream()), "event") ||
        replay_queue(r, r->per_sample) || failed(cudaEventRecord(the_events[1], stream()), "event") ||
        failed(cudaEventSynchronize(the_events[1]), "timed replay") ||
        failed(cudaEventElapsedTime(&milliseconds, the_events[0], the_events[1]), "elapsed time"))
        return -1.0;
    return 1000.0 * milliseconds / r->per_sample;
}

extern "C" int replay_warm_up(replay *r, int launches)
{
    if (replay_queue(r, launches) || bench_gpu_sync("warm-up"))
        return 1;
    r->per_sample = 4;
    double us = replay_sample(r);
    if (us < 0.0)
        return 1;
    r->per_sample = us >= 200.0 ? 1 : us <= 6.0 ? 32 : (int)(200.0 / us);
    return 0;
}

extern "C" void replay_free(replay *r)
{
    for (int i = 0; i < r->copies; ++i)
        cudaGraphExecDestroy((cudaGraphExec_t)r->graphs[i]);
    r->copies = 0;
}

extern "C" int bench_read_enqueue(void *context, int copy, void *on)
{
    const bench_read *read = (const bench_read *)context;
    cudaLaunchConfig_t config = launch(read->blocks, 512, on);
    if (read->out)
        return failed(cudaLaunchKernelEx(&config, read_write_kernel, (const float4 *)read->buffers[copy], read->bytes / 16,
                                         (float4 *)read->out, read->out_bytes / 16), "read and write");
    return failed(cudaLaunchKernelEx(&config, read_kernel, (const float4 *)read->buffers[copy], read->bytes / 16, the_sink), "read");
}

extern "C" int bench_read_tune(bench_read *read, int copies)
{
    static const int blocks_per_sm[] = {2, 4, 8, 16, 32};
    double best = 1e30;
    int best_blocks = 0;
    for (size_t i = 0; i < sizeof blocks_per_sm / sizeof *blocks_per_sm; ++i) {
        replay r;
        double us = 1e30;
        read->blocks = blocks_per_sm[i] * the_sm_count;
        int bad = replay_capture(&r, bench_read_enqueue, read, copies) || replay_warm_up(&r, 2);
        for (int sample = 0; sample < 3 && !bad; ++sample) {
            double now = replay_sample(&r);
            bad = now < 0.0;
            us = now < us ? now : us;
        }
        replay_free(&r);
        if (bad)
            return 1;
        if (us < best) {
            best = us;
            best_blocks = read->blocks;
        }
    }
    read->blocks = best_blocks;
    return 0;
}

extern "C" int bench_empty_enqueue(void *, int, void *on)
{
    cudaLaunchConfig_t config = launch(1, 32, on);
    return failed(cudaLaunchKernelEx(&config, empty_kernel), "empty launch");
}
