/* cub_topk.cu: CUB's batched Top-K as a peer, where the CUB in use has it; see callee.h.
 *
 * The toolkit's own CUB of CUDA 13.0 has none. A newer one comes as headers (CCCL 3.5 or later; on PyPI in cuda-cccl and nvidia-cuda-cccl);
 * put its folder first among the include folders. It takes segments of up to 2^21 scores and reads their lengths on the device.
 * Rows that one block can hold, up to 8192 columns, have an instantiation of their own, as CUB advises. It writes a row's min(k, length)
 * best in no order, here indices alone: the scores go nowhere. FP32 scores without an order or a rule on ties; everything else is refused.
 */
#include "callee.h"

#if __has_include(<cub/device/device_batched_topk.cuh>)

#include "gpu.h"

#include <cub/device/device_batched_topk.cuh>
#include <cuda/argument>
#include <cuda/iterator>

static const int BLOCK_COLUMNS = 8192, MOST_COLUMNS = 1 << 21;

/* scratch null: tells the bytes that it needs. */
template <int MOST>
static cudaError_t select(const bench_call *call, void *scratch, size_t *bytes, cudaStream_t stream)
{
    namespace ask = cuda::execution;
    const bench_case *c = call->shape;
    const cuda::std::int64_t columns = c->columns, stride = c->k;
    auto scores = cuda::make_strided_iterator(cuda::make_counting_iterator((const float *)call->scores), columns);
    auto no_scores = cuda::make_constant_iterator(cuda::discard_iterator{});
    auto positions = cuda::make_constant_iterator(cuda::make_counting_iterator(0));
    auto indices = cuda::make_strided_iterator(cuda::make_counting_iterator(call->indices), stride);
    /* the second bound is of this launch: it sizes the grid, which the device's lengths can not */
    auto lengths = cuda::args::deferred_sequence{call->lengths, cuda::args::bounds<0, MOST>(), cuda::args::bounds(0, c->columns)};
    auto k = cuda::args::immediate{stride < columns ? stride : columns,
                                   cuda::args::bounds<cuda::std::int64_t{1}, cuda::std::int64_t{MOST}>()};
    auto rows = cuda::args::immediate{cuda::std::int64_t{c->rows}};
    auto loose = ask::require(ask::determinism::not_guaranteed, ask::tie_break::unspecified, ask::output_ordering::unsorted);
    auto environment = cuda::std::execution::env{loose, cuda::stream_ref{stream}};
    return cub::DeviceBatchedTopK::MaxPairs(scratch, *bytes, scores, no_scores, positions, indices, lengths, k, rows, environment);
}

static int run(const bench_call *call, void *scratch, size_t *bytes, cudaStream_t stream)
{
    const bench_case *c = call->shape;
    if (c->type != TOPKIT_SCORE_F32 || c->order != TOPKIT_ORDER_NONE || c->ties != TOPKIT_TIES_ANY || c->columns > MOST_COLUMNS)
        return bench_gpu_failed(cudaErrorNotSupported, "CUB's Top-K");
    return bench_gpu_failed(c->columns <= BLOCK_COLUMNS ? select<BLOCK_COLUMNS>(call, scratch, bytes, stream)
                                                        : select<MOST_COLUMNS>(call, scratch, bytes, stream), "CUB's Top-K");
}

extern "C" int bench_cub_available(void)
{
    return 1;
}

extern "C" int bench_cub_workspace(const bench_call *call, size_t *bytes)
{
    if (run(call, NULL, bytes, (cudaStream_t)bench_gpu_stream()))
        return 1;
    *bytes += 256; /* a scratch of no bytes would ask for its size again */
    return 0;
}

extern "C" int bench_cub_enqueue(const bench_call *call, void *stream)
{
    size_t bytes = call->workspace_bytes;
    return run(call, call->workspace, &bytes, (cudaStream_t)stream);
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
