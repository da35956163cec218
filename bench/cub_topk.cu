/* cub_topk.cu: CUB's batched Top-K as a peer, where the CUB in use has it; see callee.h.
 *
 * The toolkit's own CUB of CUDA 13.0 has none. A newer one comes as headers (CCCL); put its folder first among the include folders.
 * It returns a row's min(k, length) best as (score, index) pairs in no order.
 */
#include "callee.h"

#if __has_include(<cub/device/device_batched_topk.cuh>)

#include <cub/device/device_batched_topk.cuh>
#include <cuda/iterator>

extern "C" int bench_cub_available(void)
{
    return 1;
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
