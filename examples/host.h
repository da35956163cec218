/* host.h: what the operators' host sides share: the device's facts, and how an argument is aligned.
 *
 * For sources that launch kernels (05_select.cu, fused.cu): it calls the CUDA runtime, on the GPU's or the executor's.
 */
#ifndef TOPKIT_HOST_H
#define TOPKIT_HOST_H

#include "launch.h"
#include "plan.h"

static inline bool topkit_host_aligned(const void *p, size_t bytes) { return ((size_t)p & (bytes - 1)) == 0; }

/* Of the current device. TOPKIT_OK or TOPKIT_ERROR_DEVICE. */
static inline int topkit_host_facts(topkit_device_facts *facts) {
    int device = 0, major = 0, minor = 0;
    if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&facts->sm_count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&facts->shared_per_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&facts->shared_per_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&facts->threads_per_sm, cudaDevAttrMaxThreadsPerMultiProcessor, device) != cudaSuccess) {
        cudaGetLastError(); /* reported as our status: must not surface again in the caller's next check */
        return TOPKIT_ERROR_DEVICE;
    }
    facts->arch = major * 10 + minor;
    return TOPKIT_OK;
}

#endif
