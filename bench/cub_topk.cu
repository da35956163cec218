/* cub_topk.cu: CUB's Top-K as a peer, where the CUB in use has it; see callee.h.
 *
 * The toolkit's own CUB of CUDA 13.0 has none. A newer one comes as headers (CCCL); put its folder first among the include folders.
 * Its batched form takes segments that one block can hold, here up to 8192 columns; longer rows go to the form for one
 * sequence, a row after another, which is no batch: up to 16 full rows. Everything else is refused.
 * Both give a row's min(k, length) best as (score, index) pairs in no order. The scores go to the workspace.
 */
#include "callee.h"

#if __has_include(<cub/device/device_batched_topk.cuh>)

#include "gpu.h"
#include "inputs.h"

#include <cub/device/device_batched_topk.cuh>
#include <cub/device/device_topk.cuh>
#include <cuda/iterator>

static constexpr int BATCHED_COLUMNS = 8192, BATCHED_K = 2048, SINGLE_ROWS = 16;

static auto environment(cudaStream_t stream)
{
    auto loose = cuda::execution::require(cuda::execution::determinism::not_guaranteed, cuda::execution::tie_break::unspecified,
                                          cuda::execution::output_ordering::unsorted);
    return cuda::std::execution::env{cuda::stream_ref{stream}, loose};
}

/* scratch null: tells the bytes that it needs. */
static cudaError_t batched(const bench_call *call, void *scratch, size_t *bytes, float *values, cudaStream_t stream)
{
    const bench_case *c = call->shape;
    auto scores = cuda::make_strided_iterator(cuda::make_counting_iterator(call->scores), c->columns);
    auto indices_in = cuda::make_constant_iterator(cuda::make_counting_iterator(0));
    auto values_out = cuda::make_strided_iterator(cuda::make_counting_iterator(values), c->k);
    auto indices_out = cuda::make_strided_iterator(cuda::make_counting_iterator(call->indices), c->k);
    auto lengths = cuda::args::deferred_sequence{call->lengths, cuda::args::bounds<0, BATCHED_COLUMNS>()};
    auto k = cuda::args::immediate{c->k, cuda::args::bounds<1, BATCHED_K>()};
    auto rows = cuda::args::immediate{cuda::std::int64_t{c->rows}};
    return cub::DeviceBatchedTopK::MaxPairs(scratch, *bytes, scores, values_out, indices_in, indices_out, lengths, k, rows,
                                            environment(stream));
}

static cudaError_t single(const bench_call *call, void *scratch, size_t *bytes, float *values, cudaStream_t stream)
{
    const bench_case *c = call->shape;
    cudaError_t error = cudaSuccess;
    for (int r = 0; r < (scratch ? c->rows : 1) && error == cudaSuccess; ++r)
        error = cub::DeviceTopK::MaxPairs(scratch, *bytes, call->scores + (size_t)r * (size_t)c->columns, values + (size_t)r * (size_t)c->k,
                                          cuda::make_counting_iterator(0), call->indices + (size_t)r * (size_t)c->k, c->columns, c->k,
                                          environment(stream));
    return error;
}

static int run(const bench_call *call, void *scratch, size_t *bytes, float *values, cudaStream_t stream)
{
    const bench_case *c = call->shape;
    if (c->columns <= BATCHED_COLUMNS && c->k <= BATCHED_K)
        return bench_gpu_failed(batched(call, scratch, bytes, values, stream), "CUB's batched Top-K");
    if (c->lengths == BENCH_FULL && c->rows <= SINGLE_ROWS && c->k <= c->columns)
        return bench_gpu_failed(single(call, scratch, bytes, values, stream), "CUB's Top-K");
    return bench_gpu_failed(cudaErrorNotSupported, "CUB's Top-K");
}

static size_t values_bytes(const bench_call *call)
{
    return ((size_t)call->shape->rows * (size_t)call->shape->k * sizeof(float) + 255) & ~(size_t)255;
}

extern "C" int bench_cub_available(void)
{
    return 1;
}

extern "C" int bench_cub_workspace(const bench_call *call, size_t *bytes)
{
    if (run(call, NULL, bytes, NULL, (cudaStream_t)bench_gpu_stream()))
        return 1;
    *bytes += values_bytes(call) + 256; /* a scratch of no bytes would ask for its size again */
    return 0;
}

extern "C" int bench_cub_enqueue(const bench_call *call, void *stream)
{
    size_t bytes = call->workspace_bytes - values_bytes(call);
    return run(call, (char *)call->workspace + values_bytes(call), &bytes, (float *)call->workspace, (cudaStream_t)stream);
}

#else

extern "C" int bench_cub_available(void)
{
    return 0;
}

extern "C" int bench_cub_workspace(const bench_call *, size_t *)
{
    return 1;
}

extern "C" int bench_cub_enqueue(const bench_call *, void *)
{
    return 1;
}

#endif
