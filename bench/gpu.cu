/* gpu.cu: see gpu.h. */
#include "gpu.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime.h>

static cudaStream_t the_stream;
static cudaEvent_t the_events[2];
static float *the_sink;
static int the_sm_count;

static int failed(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return 0;
    fprintf(stderr, "topkit-bench: %s: %s\n", what, cudaGetErrorString(error));
    return 1;
}

/* Waits, with one thread, until about `microseconds` have passed. */
__global__ void wait_kernel(unsigned microseconds)
{
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begin < 1000ull * microseconds);
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

extern "C" int bench_gpu_open(bench_machine *machine)
{
    int device = 0, major = 0, minor = 0;
    cudaDeviceProp properties;
    if (failed(cudaGetDevice(&device), "no CUDA device") || failed(cudaGetDeviceProperties(&properties, device), "device properties"))
        return 1;
    memset(machine, 0, sizeof *machine);
    snprintf(machine->name, sizeof machine->name, "%s", properties.name);
    snprintf(machine->compiler, sizeof machine->compiler, "nvcc %d.%d.%d", __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__,
             __CUDACC_VER_BUILD__);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    machine->arch = major * 10 + minor;
    machine->sm_count = the_sm_count = properties.multiProcessorCount;
    cudaDeviceGetAttribute(&machine->l2_bytes, cudaDevAttrL2CacheSize, device);
    cudaDeviceGetAttribute(&machine->shared_per_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    cudaDeviceGetAttribute(&machine->shared_per_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
    cudaDeviceGetAttribute(&machine->threads_per_sm, cudaDevAttrMaxThreadsPerMultiProcessor, device);
    cudaDriverGetVersion(&machine->driver_version);
    cudaRuntimeGetVersion(&machine->runtime_version);
    return failed(cudaMemGetInfo(&machine->free_bytes, &machine->memory_bytes), "memory") ||
           failed(cudaStreamCreateWithFlags(&the_stream, cudaStreamNonBlocking), "stream") ||
           failed(cudaEventCreate(&the_events[0]), "event") || failed(cudaEventCreate(&the_events[1]), "event") ||
           failed(cudaMalloc((void **)&the_sink, sizeof *the_sink), "memory");
}

extern "C" void bench_gpu_close(void)
{
    cudaFree(the_sink);
    cudaEventDestroy(the_events[0]);
    cudaEventDestroy(the_events[1]);
    cudaStreamDestroy(the_stream);
}

extern "C" void *bench_gpu_alloc(size_t bytes)
{
    void *memory = NULL;
    if (cudaMalloc(&memory, bytes ? bytes : 16) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    return memory;
}

extern "C" void bench_gpu_free(void *memory)
{
    cudaFree(memory);
}

extern "C" int bench_gpu_upload(void *device, const void *host, size_t bytes)
{
    /* on the one stream: cudaMemcpy's own stream would not be waited for by kernels on a non-blocking one */
    return failed(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, the_stream), "upload") || bench_gpu_sync("upload");
}

extern "C" int bench_gpu_download(void *host, const void *device, size_t bytes)
{
    return failed(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, the_stream), "download") || bench_gpu_sync("download");
}

extern "C" int bench_gpu_set(void *device, int byte, size_t bytes)
{
    return failed(cudaMemsetAsync(device, byte, bytes, the_stream), "memset") || bench_gpu_sync("memset");
}

extern "C" int bench_gpu_sync(const char *what)
{
    return failed(cudaStreamSynchronize(the_stream), what);
}

extern "C" void *bench_gpu_stream(void)
{
    return the_stream;
}

extern "C" int replay_capture(replay *r, replay_enqueue enqueue, void *context, int copies)
{
    memset(r, 0, sizeof *r);
    r->per_sample = 1;
    for (int i = 0; i < copies; ++i) {
        cudaGraph_t graph = NULL;
        cudaGraphExec_t exec = NULL;
        if (failed(cudaStreamBeginCapture(the_stream, cudaStreamCaptureModeGlobal), "begin capture"))
            return 1;
        int refused = enqueue(context, i, the_stream);
        if (failed(cudaStreamEndCapture(the_stream, &graph), "end capture"))
            return 1;
        if (refused) {
            cudaGraphDestroy(graph);
            return 1;
        }
        int bad = failed(cudaGraphInstantiate(&exec, graph, 0), "instantiate graph") ||
                  failed(cudaGraphUpload(exec, the_stream), "upload graph");
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
        if (failed(cudaGraphLaunch((cudaGraphExec_t)r->graphs[r->next], the_stream), "graph launch"))
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
    wait_kernel<<<1, 1, 0, the_stream>>>(20u + 6u * (unsigned)(r->per_sample + r->lead));
    if (failed(cudaGetLastError(), "wait") || failed(cudaEventRecord(the_events[0], the_stream), "event") ||
        replay_queue(r, r->per_sample) || failed(cudaEventRecord(the_events[1], the_stream), "event") ||
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

extern "C" int bench_read_enqueue(void *context, int copy, void *stream)
{
    const bench_read *read = (const bench_read *)context;
    read_kernel<<<read->blocks, 512, 0, (cudaStream_t)stream>>>((const float4 *)read->buffers[copy], read->bytes / 16, the_sink);
    return failed(cudaGetLastError(), "read");
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

extern "C" int bench_empty_enqueue(void *, int, void *stream)
{
    empty_kernel<<<1, 32, 0, (cudaStream_t)stream>>>();
    return failed(cudaGetLastError(), "empty launch");
}

extern "C" double bench_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
