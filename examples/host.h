/* host.h: what the operators' host sides share: the device's facts, how an argument is aligned, and a seed where none is given.
 *
 * For sources that launch kernels (05_select.cu, fused.cu): it calls the CUDA runtime, on the GPU's or the executor's.
 */
#ifndef TOPKIT_HOST_H
#define TOPKIT_HOST_H

#include "launch.h"
#include "plan.h"

#include <time.h>

static inline bool topkit_host_aligned(const void *p, size_t bytes) { return ((size_t)p & (bytes - 1)) == 0; }

/* splitmix64's finaliser. */
static inline unsigned long long topkit_host_mix(unsigned long long x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The seed that was given, or for 0 a new one, of a counter that begins where the clock and this process's addresses say. Any thread. */
static inline unsigned topkit_host_seed(unsigned given) {
    static unsigned long long counter;
    if (given) return given;
    if (__atomic_load_n(&counter, __ATOMIC_RELAXED) == 0) { /* threads that come at the same time may all begin: nobody minds */
        struct timespec now = {};
        timespec_get(&now, TIME_UTC);
        const unsigned long long seconds = (unsigned long long)now.tv_sec, place = (unsigned long long)&counter ^ (unsigned long long)&now;
        const unsigned long long first = topkit_host_mix(topkit_host_mix(seconds * 1000000000u + (unsigned long long)now.tv_nsec) + place);
        __atomic_store_n(&counter, first | 1, __ATOMIC_RELAXED);
    }
    const unsigned long long mine = __atomic_fetch_add(&counter, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED);
    return (unsigned)(topkit_host_mix(mine) >> 32);
}

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
