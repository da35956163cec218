/* flashinfer_topk.cu: FlashInfer's Top-K as a peer, where its headers are at hand (0.7; on PyPI in flashinfer-python, data/include); see
 * callee.h.
 *
 * What is called is the function behind flashinfer.top_k_ragged_transform, the one that takes lengths: its filtered kernel or its radix
 * kernel of several blocks a row, as its own rule says. Where its Python part would choose CUB instead, look at the peer "cub". That
 * part passes 1 MB of state, zeroed once, and an offset to be added to each row's indices: zeros here. Rows are padded with -1. FP32
 * scores without an order or a rule on ties; everything else is refused.
 */
#include "callee.h"

#if __has_include(<flashinfer/topk.cuh>)

#include "gpu.h"

#include <cstring>

/* topk.cuh uses the C library's strings and math.cuh, and includes neither */
#include <flashinfer/math.cuh>
#include <flashinfer/topk.cuh>

static const size_t STATE_BYTES = 1 << 20;

extern "C" int bench_flashinfer_available(void)
{
    return 1;
}

extern "C" int bench_flashinfer_workspace(const bench_call *call, size_t *bytes)
{
    const bench_case *c = call->shape;
    *bytes = STATE_BYTES + (size_t)c->rows * sizeof(int);
    if (c->type != TOPKIT_SCORE_F32 || c->order != TOPKIT_ORDER_NONE || c->ties != TOPKIT_TIES_ANY)
        return bench_gpu_failed(cudaErrorNotSupported, "FlashInfer's Top-K");
    return 0;
}

extern "C" int bench_flashinfer_enqueue(const bench_call *call, void *stream)
{
    namespace peer = flashinfer::sampling;
    const bench_case *c = call->shape;
    const int *offsets = (const int *)((char *)call->workspace + STATE_BYTES);
    cudaError_t error = peer::TopKRaggedTransformDispatch<float, int>(
        (float *)call->scores, call->indices, offsets, (int *)call->lengths, nullptr, (uint32_t)c->rows, (uint32_t)c->k,
        (uint32_t)c->columns, (peer::RadixRowState *)call->workspace, false, peer::TopKTieBreak::None, (cudaStream_t)stream);
    return bench_gpu_failed(error, "FlashInfer's Top-K");
}

#else

extern "C" int bench_flashinfer_available(void)
{
    return 0;
}

extern "C" int bench_flashinfer_workspace(const bench_call *, size_t *)
{
    return 1;
}

extern "C" int bench_flashinfer_enqueue(const bench_call *, void *)
{
    return 1;
}

#endif
