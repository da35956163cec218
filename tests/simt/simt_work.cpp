/* simt_work.cpp: what the miniature CUDA runtime does to memory, and its launches: allocation, copies, occupancy, checks of a launch.
 *
 * New memory is filled with 0xA5. Under ASan an allocation ends exactly where the caller asked, so that one byte too far is found.
 */
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "simt.h"
#include "simt_launch.h"

enum { MAX_CLUSTER = 8, MAX_CLUSTER_NON_PORTABLE = 16 };

/* ---- memory ---- */

cudaError_t simt_malloc(void **pointer, size_t bytes, bool device)
{
    *pointer = nullptr;
    if (device && simt_refuse_in_capture()) return cudaErrorStreamCaptureUnsupported;
    if (bytes == 0) return cudaSuccess;
    if (posix_memalign(pointer, 256, bytes)) return simt_result(cudaErrorMemoryAllocation);
    memset(*pointer, 0xa5, bytes);
    return cudaSuccess;
}

cudaError_t simt_free(void *pointer, bool device)
{
    if (device && simt_refuse_in_capture()) return cudaErrorStreamCaptureUnsupported;
    free(pointer);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    *free_bytes = *total = (size_t)8 << 30;
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind, cudaStream_t stream)
{
    if (bytes && (!dst || !src)) return simt_result(cudaErrorInvalidValue);
    return simt_enqueue(stream, [dst, src, bytes]() { return memmove(dst, src, bytes), cudaSuccess; });
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height, cudaMemcpyKind,
                              cudaStream_t stream)
{
    if (width > dst_pitch || width > src_pitch || (width && height && (!dst || !src))) return simt_result(cudaErrorInvalidValue);
    return simt_enqueue(stream, [=]() {
        for (size_t y = 0; y < height; ++y) memmove((char *)dst + y * dst_pitch, (const char *)src + y * src_pitch, width);
        return cudaSuccess;
    });
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t stream)
{
    if (bytes && !dst) return simt_result(cudaErrorInvalidValue);
    return simt_enqueue(stream, [=]() { return memset(dst, value, bytes), cudaSuccess; });
}

/* The synchronous forms use the legacy stream. */
cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind)
{
    return cudaMemcpyAsync(dst, src, bytes, kind, nullptr);
}
cudaError_t cudaMemcpy2D(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height, cudaMemcpyKind kind)
{
    return cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch, width, height, kind, nullptr);
}
cudaError_t cudaMemset(void *dst, int value, size_t bytes) { return cudaMemsetAsync(dst, value, bytes, nullptr); }

/* ---- kernels ---- */

struct function_limits {
    const void *kernel;
    int max_shared;
    bool large_cluster;
};
static std::vector<function_limits> functions;

static function_limits *limits_of(const void *kernel)
{
    for (function_limits &f : functions) {
        if (f.kernel == kernel) return &f;
    }
    functions.push_back({kernel, SIMT_SHARED_DEFAULT, false});
    return &functions.back();
}

static unsigned shared_limits_lowered;
unsigned simt_shared_limits_lowered(void) { return shared_limits_lowered; }

cudaError_t simt_set_function(const void *kernel, cudaFuncAttribute attribute, int value)
{
    function_limits *f = limits_of(kernel);
    switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || value > SIMT_SHARED_OPT_IN) return simt_result(cudaErrorInvalidValue);
        if (value < f->max_shared) ++shared_limits_lowered;
        f->max_shared = value;
        return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed: f->large_cluster = value != 0; return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout: return cudaSuccess;
    }
    return simt_result(cudaErrorInvalidValue);
}

cudaError_t simt_get_function(cudaFuncAttributes *attributes, const void *kernel)
{
    *attributes = cudaFuncAttributes{};
    attributes->maxThreadsPerBlock = SIMT_MAX_THREADS;
    attributes->numRegs = 32;
    attributes->maxDynamicSharedSizeBytes = limits_of(kernel)->max_shared;
    return cudaSuccess;
}

cudaError_t simt_occupancy(int *blocks, const void *kernel, int threads, size_t shared)
{
    *blocks = 0;
    if (threads < 1 || threads > SIMT_MAX_THREADS) return simt_result(cudaErrorInvalidValue);
    if (shared > (size_t)limits_of(kernel)->max_shared) return cudaSuccess;
    int by_threads = SIMT_THREADS_SM / ((threads + 31) / 32 * 32), by_shared = (int)(SIMT_SHARED_SM / (shared + SIMT_SHARED_RESERVED));
    *blocks = by_threads < by_shared ? by_threads : by_shared;
    if (*blocks > SIMT_BLOCKS_SM) *blocks = SIMT_BLOCKS_SM;
    return cudaSuccess;
}

static bool read_config(const cudaLaunchConfig_t *config, simt_launch_shape *shape)
{
    *shape = {config->gridDim, config->blockDim, dim3(1, 1, 1), config->dynamicSmemBytes, false};
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        const cudaLaunchAttribute *a = &config->attrs[i];
        if (a->id == cudaLaunchAttributeCooperative) shape->cooperative = a->val.cooperative != 0;
        simt_cluster_dimension c = a->val.clusterDim;
        if (a->id == cudaLaunchAttributeClusterDimension) shape->cluster = dim3(c.x, c.y, c.z);
    }
    dim3 g = shape->grid, b = shape->threads, c = shape->cluster;
    if (!g.x || !g.y || !g.z || g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535) return false;
    if (!b.x || !b.y || !b.z || b.z > 64 || (size_t)b.x * b.y * b.z > SIMT_MAX_THREADS) return false;
    return c.x && c.y && c.z && g.x % c.x == 0 && g.y % c.y == 0 && g.z % c.z == 0;
}

cudaError_t simt_cluster_occupancy(int *clusters, const void *kernel, const cudaLaunchConfig_t *config)
{
    simt_launch_shape shape;
    int blocks;
    *clusters = 0;
    if (!read_config(config, &shape)) return simt_result(cudaErrorInvalidConfiguration);
    cudaError_t error = simt_occupancy(&blocks, kernel, (int)(shape.threads.x * shape.threads.y * shape.threads.z), shape.shared);
    *clusters = blocks * simt_multiprocessors() / (int)(shape.cluster.x * shape.cluster.y * shape.cluster.z);
    return error;
}

cudaError_t simt_launch(const cudaLaunchConfig_t *config, const void *kernel, const std::function<void()> &body)
{
    simt_launch_shape shape;
    int blocks;
    const function_limits *f = limits_of(kernel);
    if (!read_config(config, &shape)) return simt_result(cudaErrorInvalidConfiguration);
    if (shape.shared > (size_t)f->max_shared) return simt_result(cudaErrorInvalidValue);
    unsigned cluster = shape.cluster.x * shape.cluster.y * shape.cluster.z;
    if (cluster > (f->large_cluster ? (unsigned)MAX_CLUSTER_NON_PORTABLE : (unsigned)MAX_CLUSTER)) {
        return simt_result(cudaErrorInvalidConfiguration);
    }
    cudaError_t error = simt_occupancy(&blocks, kernel, (int)(shape.threads.x * shape.threads.y * shape.threads.z), shape.shared);
    if (error != cudaSuccess) return error;
    unsigned long long resident = (unsigned long long)blocks * (unsigned long long)simt_multiprocessors();
    if (simt_cooperative_blocks() > 0) resident = (unsigned long long)simt_cooperative_blocks(); /* others have the rest of the device */
    if (shape.cooperative && (unsigned long long)shape.grid.x * shape.grid.y * shape.grid.z > resident) {
        return simt_result(cudaErrorCooperativeLaunchTooLarge);
    }
    return simt_enqueue(config->stream, [shape, body]() {
        if (simt_run(&shape, body)) return cudaSuccess;
        simt_launch_failed();
        return cudaErrorLaunchFailure;
    });
}
