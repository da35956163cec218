/* backend.cu: a backend out of CUDA runtime calls; no kernels. See backend.h.
 *
 *   nvcc -DTOPKIT_BACKEND=topkit_backend_cuda ...                      against topkit_select
 *   g++ -x c++ -DTOPKIT_BACKEND=topkit_backend_cpu -DTOPKIT_SIMT=1 -include simt_cuda.h \
 *       -Dtopkit_select=topkit_select_cpu -Dtopkit_select_workspace=topkit_select_workspace_cpu ...
 *
 * One stream and one pair of events serve the whole program. Times are taken between two events around the launch.
 */
#include "backend.h"
#include "topkit/config.cuh"

#include <cstdio>

static cudaStream_t stream;
static cudaEvent_t begin;
static cudaEvent_t end;

static const char *text_of(cudaError_t error) {
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

static const char *device_attribute(int *value, cudaDeviceAttr attribute) {
    return text_of(cudaDeviceGetAttribute(value, attribute, 0));
}

static const char *open_device(topkit_device_facts *facts, char *name, size_t name_size) {
    int devices = 0;
    const char *error = text_of(cudaGetDeviceCount(&devices));
    if (error == nullptr && devices == 0) {
        error = "no device";
    }
    int major = 0;
    int minor = 0;
    if (error != nullptr || (error = text_of(cudaSetDevice(0))) != nullptr ||
        (error = device_attribute(&major, cudaDevAttrComputeCapabilityMajor)) != nullptr ||
        (error = device_attribute(&minor, cudaDevAttrComputeCapabilityMinor)) != nullptr ||
        (error = device_attribute(&facts->sm_count, cudaDevAttrMultiProcessorCount)) != nullptr ||
        (error = device_attribute(&facts->shared_per_block, cudaDevAttrMaxSharedMemoryPerBlockOptin)) != nullptr ||
        (error = device_attribute(&facts->shared_per_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor)) != nullptr ||
        (error = device_attribute(&facts->threads_per_sm, cudaDevAttrMaxThreadsPerMultiProcessor)) != nullptr) {
        return error;
    }
    facts->arch = major * 10 + minor;
    static cudaDeviceProp properties; /* a kilobyte: not on the stack */
    if ((error = text_of(cudaGetDeviceProperties(&properties, 0))) != nullptr) {
        return error;
    }
    snprintf(name, name_size, "%s", properties.name);
    if ((error = text_of(cudaStreamCreate(&stream))) != nullptr || (error = text_of(cudaEventCreate(&begin))) != nullptr) {
        return error;
    }
    return text_of(cudaEventCreate(&end));
}

static const char *alloc_memory(void **memory, size_t bytes) {
    return text_of(cudaMalloc(memory, bytes > 0 ? bytes : 1));
}

static const char *upload(void *device, const void *host, size_t bytes) {
    return text_of(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}

static const char *download(void *host, const void *device, size_t bytes) {
    return text_of(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

static const char *fill(void *device, int byte, size_t bytes) {
    const char *error = text_of(cudaMemset(device, byte, bytes));
    return error != nullptr ? error : text_of(cudaDeviceSynchronize());
}

static void release(void *memory) {
    cudaFree(memory);
}

static int workspace(const topkit_select_params *params, size_t *bytes) {
    return topkit_select_workspace(params, bytes);
}

static const char *run(const topkit_select_params *params, int *status, double *milliseconds) {
    const char *error = text_of(cudaEventRecord(begin, stream));
    if (error != nullptr) {
        return error;
    }
    *status = topkit_select(params, stream);
    float elapsed = 0.0f;
    if (*status != TOPKIT_OK || (error = text_of(cudaEventRecord(end, stream))) != nullptr ||
        (error = text_of(cudaStreamSynchronize(stream))) != nullptr ||
        (error = text_of(cudaEventElapsedTime(&elapsed, begin, end))) != nullptr) {
        return error;
    }
    *milliseconds = static_cast<double>(elapsed);
    return nullptr;
}

static void close_device(void) {
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaStreamDestroy(stream);
}

extern "C" const topkit_backend TOPKIT_BACKEND = {open_device, alloc_memory, upload, download, fill, release, workspace, run, close_device,
                                                  TOPKIT_NAN == TOPKIT_NAN_HIGHEST};
