/* gpu.cu: the machine, its memory and the one stream; see gpu.h. */
#include "gpu.h"
#include "launch.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static cudaStream_t the_stream;

extern "C" int bench_gpu_failed(int error, const char *what)
{
    if (error == cudaSuccess)
        return 0;
    fprintf(stderr, "topkit-bench: %s: %s\n", what, cudaGetErrorString((cudaError_t)error));
    return 1;
}

extern "C" int bench_gpu_open(bench_machine *machine)
{
    int device = 0, major = 0, minor = 0;
    cudaDeviceProp properties;
    if (bench_gpu_failed(cudaGetDevice(&device), "no CUDA device") ||
        bench_gpu_failed(cudaGetDeviceProperties(&properties, device), "device properties"))
        return 1;
    memset(machine, 0, sizeof *machine);
    snprintf(machine->name, sizeof machine->name, "%s", properties.name);
#ifdef __CUDACC__
    snprintf(machine->compiler, sizeof machine->compiler, "nvcc %d.%d.%d", __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__,
             __CUDACC_VER_BUILD__);
#else
    snprintf(machine->compiler, sizeof machine->compiler, "C++ %s", __VERSION__);
#endif
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    machine->arch = major * 10 + minor;
    machine->sm_count = properties.multiProcessorCount;
    cudaDeviceGetAttribute(&machine->l2_bytes, cudaDevAttrL2CacheSize, device);
    cudaDeviceGetAttribute(&machine->shared_per_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    cudaDeviceGetAttribute(&machine->shared_per_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
    cudaDeviceGetAttribute(&machine->threads_per_sm, cudaDevAttrMaxThreadsPerMultiProcessor, device);
    cudaDriverGetVersion(&machine->driver_version);
    cudaRuntimeGetVersion(&machine->runtime_version);
    return bench_gpu_failed(cudaMemGetInfo(&machine->free_bytes, &machine->memory_bytes), "memory") ||
           bench_gpu_failed(cudaStreamCreateWithFlags(&the_stream, cudaStreamNonBlocking), "stream");
}

extern "C" void bench_gpu_close(void)
{
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
    return bench_gpu_failed(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, the_stream), "upload") || bench_gpu_sync("upload");
}

extern "C" int bench_gpu_download(void *host, const void *device, size_t bytes)
{
    return bench_gpu_failed(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, the_stream), "download") ||
           bench_gpu_sync("download");
}

extern "C" int bench_gpu_set(void *device, int byte, size_t bytes)
{
    return bench_gpu_failed(cudaMemsetAsync(device, byte, bytes, the_stream), "memset") || bench_gpu_sync("memset");
}

extern "C" int bench_gpu_sync(const char *what)
{
    return bench_gpu_failed(cudaStreamSynchronize(the_stream), what);
}

extern "C" void *bench_gpu_stream(void)
{
    return the_stream;
}

extern "C" double bench_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
