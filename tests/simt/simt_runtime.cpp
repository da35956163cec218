/* simt_runtime.cpp: the miniature CUDA runtime: errors, device attributes, streams, events and graphs. simt_work.cpp has the rest.
 *
 * Everything runs at once on the host thread, except while its stream captures: then it is recorded as a closure in the graph.
 */
#include "simt_runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vector>

#include "simt.h"
#include "simt_launch.h"

typedef simt_operation operation;

struct CUgraph_st {
    std::vector<operation> nodes;
    cudaStreamCaptureMode mode;
    bool invalid, blocking;
};
struct CUgraphExec_st {
    std::vector<operation> nodes;
};
struct CUstream_st {
    CUgraph_st *capture; /* null: not capturing */
    bool origin;         /* of the capture; the others have joined by an event */
    bool blocking;
};
struct CUevent_st {
    CUgraph_st *captured;
    double milliseconds;
    bool timing, recorded;
};

static cudaError_t last_error, async_error; /* async_error: of a launch, also returned by the next synchronisation */
static std::vector<CUstream_st *> streams;
static std::vector<CUgraph_st *> captures;  /* in progress */

cudaError_t simt_result(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
    return error;
}

template <class T> static void forget(std::vector<T> *list, T item)
{
    for (size_t i = 0; i < list->size(); ++i) {
        if ((*list)[i] == item) return (void)list->erase(list->begin() + (long)i);
    }
}

void simt_launch_failed(void) { async_error = cudaErrorLaunchFailure; }

/* ---- errors ---- */

cudaError_t cudaPeekAtLastError(void) { return last_error; }
cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = async_error = cudaSuccess;
    return error;
}

static const struct {
    cudaError_t code;
    const char *name, *text;
} ERRORS[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure (see simt_failure)"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "capture was not initiated in this stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit", "operation would make the legacy stream depend on a capturing one"},
};

const char *cudaGetErrorString(cudaError_t error)
{
    for (const auto &e : ERRORS) {
        if (e.code == error) return e.text;
    }
    return "unrecognized error code";
}
const char *cudaGetErrorName(cudaError_t error)
{
    for (const auto &e : ERRORS) {
        if (e.code == error) return e.name;
    }
    return "unrecognized error code";
}

/* ---- device ---- */

static cudaError_t check_device(int device) { return simt_result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaGetDeviceCount(int *count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return check_device(device); }
cudaError_t cudaDriverGetVersion(int *version) { return *version = 12000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { return *version = 12000, cudaSuccess; }
cudaError_t cudaDeviceReset(void) { return cudaSuccess; }

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    if (check_device(device)) return cudaErrorInvalidDevice;
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = SIMT_MAX_THREADS; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = SIMT_SHARED_DEFAULT; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = 65536; break;
    case cudaDevAttrClockRate: *value = 1000000; break;
    case cudaDevAttrMultiProcessorCount: *value = simt_multiprocessors(); break;
    case cudaDevAttrL2CacheSize: *value = 50 << 20; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = SIMT_THREADS_SM; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = SIMT_SHARED_SM; break;
    case cudaDevAttrCooperativeLaunch: *value = 1; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = SIMT_SHARED_OPT_IN; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = SIMT_BLOCKS_SM; break;
    case cudaDevAttrReservedSharedMemoryPerBlock: *value = SIMT_SHARED_RESERVED; break;
    case cudaDevAttrClusterLaunch: *value = 1; break;
    default: return simt_result(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device)
{
    if (check_device(device)) return cudaErrorInvalidDevice;
    *p = cudaDeviceProp{};
    snprintf(p->name, sizeof p->name, "CPU SIMT executor");
    p->totalGlobalMem = (size_t)8 << 30;
    p->sharedMemPerBlock = SIMT_SHARED_DEFAULT;
    p->sharedMemPerBlockOptin = SIMT_SHARED_OPT_IN;
    p->sharedMemPerMultiprocessor = SIMT_SHARED_SM;
    p->reservedSharedMemPerBlock = SIMT_SHARED_RESERVED;
    p->regsPerBlock = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = SIMT_MAX_THREADS;
    p->maxThreadsDim[2] = 64;
    p->maxThreadsPerMultiProcessor = SIMT_THREADS_SM;
    p->maxBlocksPerMultiProcessor = SIMT_BLOCKS_SM;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->major = 9;
    p->multiProcessorCount = simt_multiprocessors();
    p->l2CacheSize = 50 << 20;
    p->memoryBusWidth = 5120;
    p->cooperativeLaunch = 1;
    return cudaSuccess;
}

/* ---- capture ---- */

static CUgraph_st *strict_capture(void) /* one that forbids unsafe calls, such as an allocation or a synchronisation */
{
    for (CUgraph_st *g : captures) {
        if (g->mode != cudaStreamCaptureModeRelaxed) return g;
    }
    return nullptr;
}

cudaError_t simt_refuse_in_capture(void)
{
    CUgraph_st *g = strict_capture();
    if (!g) return cudaSuccess;
    g->invalid = true;
    return simt_result(cudaErrorStreamCaptureUnsupported);
}

static bool legacy(cudaStream_t stream) { return !stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread; }

static cudaError_t check_stream(cudaStream_t stream)
{
    if (legacy(stream)) return cudaSuccess;
    for (CUstream_st *s : streams) {
        if (s == stream) return cudaSuccess;
    }
    return simt_result(cudaErrorInvalidResourceHandle);
}

static CUgraph_st *capture_of(cudaStream_t stream) { return legacy(stream) ? nullptr : stream->capture; }

cudaError_t simt_enqueue(cudaStream_t stream, const operation &work)
{
    if (check_stream(stream)) return cudaErrorInvalidResourceHandle;
    CUgraph_st *g = capture_of(stream);
    if (g) {
        if (g->invalid) return simt_result(cudaErrorStreamCaptureInvalidated);
        g->nodes.push_back(work);
        return cudaSuccess;
    }
    for (CUgraph_st *other : captures) { /* the legacy stream waits for all blocking streams, which cannot be while one captures */
        if (!stream && other->blocking) {
            other->invalid = true;
            return simt_result(cudaErrorStreamCaptureImplicit);
        }
    }
    return simt_result(work());
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    if (check_stream(stream)) return cudaErrorInvalidResourceHandle;
    if (legacy(stream)) return simt_result(cudaErrorStreamCaptureUnsupported);
    if (stream->capture) return simt_result(cudaErrorIllegalState);
    stream->capture = new CUgraph_st{{}, mode, false, stream->blocking};
    stream->origin = true;
    captures.push_back(stream->capture);
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    if (check_stream(stream)) return cudaErrorInvalidResourceHandle;
    CUgraph_st *g = capture_of(stream);
    *graph = nullptr;
    if (!g) return simt_result(cudaErrorIllegalState);
    if (!stream->origin) return simt_result(cudaErrorStreamCaptureUnmatched);
    forget(&captures, g);
    for (CUstream_st *s : streams) {
        if (s->capture == g) s->capture = nullptr, s->origin = false;
    }
    if (g->invalid) {
        delete g;
        return simt_result(cudaErrorStreamCaptureInvalidated);
    }
    *graph = g;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
{
    CUgraph_st *g = capture_of(stream);
    *status = !g ? cudaStreamCaptureStatusNone : g->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
    return check_stream(stream);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    if (!graph) return simt_result(cudaErrorInvalidValue);
    *exec = new CUgraphExec_st{graph->nodes};
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    if (!exec) return simt_result(cudaErrorInvalidValue);
    std::vector<operation> nodes = exec->nodes;
    return simt_enqueue(stream, [nodes]() {
        for (const operation &node : nodes) {
            cudaError_t error = node();
            if (error != cudaSuccess) return error;
        }
        return cudaSuccess;
    });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return delete exec, cudaSuccess; }
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }

/* ---- streams and events ---- */

static cudaError_t synchronise(void)
{
    if (simt_refuse_in_capture()) return cudaErrorStreamCaptureUnsupported;
    return async_error;
}

cudaError_t cudaDeviceSynchronize(void) { return synchronise(); }
cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    *stream = new CUstream_st{nullptr, false, flags != cudaStreamNonBlocking};
    streams.push_back(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    if (check_stream(stream) || legacy(stream)) return simt_result(cudaErrorInvalidResourceHandle);
    if (stream->capture && stream->origin) {
        forget(&captures, stream->capture);
        delete stream->capture;
    }
    forget(&streams, stream);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (check_stream(stream)) return cudaErrorInvalidResourceHandle;
    if (capture_of(stream)) {
        stream->capture->invalid = true;
        return simt_result(cudaErrorStreamCaptureUnsupported);
    }
    return synchronise();
}

cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    if (check_stream(stream)) return cudaErrorInvalidResourceHandle;
    if (event->captured && !legacy(stream) && !stream->capture) stream->capture = event->captured; /* the stream joins the capture */
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = new CUevent_st{nullptr, 0, !(flags & cudaEventDisableTiming), false};
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (check_stream(stream)) return cudaErrorInvalidResourceHandle;
    event->captured = capture_of(stream);
    if (event->captured) return cudaSuccess;
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->milliseconds = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
    event->recorded = true;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return event->captured ? simt_result(cudaErrorStreamCaptureUnsupported) : synchronise();
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t stop)
{
    if (!start->timing || !stop->timing || !start->recorded || !stop->recorded) return simt_result(cudaErrorInvalidResourceHandle);
    *milliseconds = (float)(stop->milliseconds - start->milliseconds);
    return cudaSuccess;
}
