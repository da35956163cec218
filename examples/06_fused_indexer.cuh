/* 06_fused_indexer.cuh: scores that never reach memory: FP8 query-key products on the tensor cores, with exact Top-K in their epilogue.
 *
 * One persistent block a multiprocessor takes runs of queries from a queue (fused_job.cuh) and streams their keys past them, once:
 *
 *     producer (1 warp)        [1] claims runs; copies queries, and key tiles into a ring of stages
 *     relay (1 warp)               makes landed tiles visible to the tensor cores and passes them on
 *     consumers (3 x 4 warps)  [2] products of all tiles with 128 columns each; ReLU, weights, sum over heads while others' products go on;
 *                              [4] in the scan pass, scores that reach their query's gate go to that query's candidates
 *     service (2 warps)        [3] proposes a gate for each query from its sample; [5] certifies, refines and delivers; compacts on demand
 *
 *       keys ==copies==> ring ==wgmma==> accumulators --epilogue--> scores --gate--> candidates --> service --> indices
 *                                                                     |                ^              |
 *                                                                     +---- sample ----|--- gates <---+
 *
 * Passes are interleaved so that nobody waits: sample of run 0, sample of 1, scan of 0, sample of 2, scan of 1, .. While run r is scanned,
 * the service proposes for run r + 1 and refines run r - 1. Queries, candidates and samples therefore exist twice.
 *
 * Candidates lie in the workspace (they stay in L2: a few thousand a query are written, once), their counters in shared memory. A warp that
 * finds a query's buffer full asks the service to compact it, waits for that query's gate to rise and offers its scores again; those that
 * need no room go on. Nothing is ever dropped, and a run whose gates were too high goes round once more.
 *
 *   heads         32 or 64, d = 128; k 1 .. 4096
 *   device        sm_90a (fused_product.cuh); elsewhere the kernel traps, and topkit_fused refuses
 *   shared        about 216 KB, one block a multiprocessor
 *   workspace     16 KB, 64 KB for each query in flight (two runs a block), and of split queries k pairs for each split
 *   reads         each key once a run, that is once for 384 / heads queries, and a sample of them once more
 *   determinism   as select.h: the set under lowest-index ties
 *
 * Keys come by 16-byte asynchronous copies of one warp, which writes the swizzle itself. That serves contiguous and paged keys, single
 * keys of a sample and ragged ends alike, needs no tensor map from the driver, and costs about 90 instructions a tile in all. A plain bulk
 * copy can not swizzle.
 */
#ifndef TOPKIT_06_FUSED_INDEXER_CUH
#define TOPKIT_06_FUSED_INDEXER_CUH

#include "fused_consume.cuh"
#include "fused_produce.cuh"
#include "fused_serve.cuh"

template <int TIES, int HEADS>
static __global__ void __launch_bounds__(TOPKIT_FUSED_THREADS, 1) topkit_fused_kernel(const __grid_constant__ topkit_fused_job job) {
#if TOPKIT_HAS_WGMMA
    TOPKIT_SHARED(memory);
    unsigned char *ring = memory, *queries = ring + TOPKIT_FUSED_STAGES * TOPKIT_FUSED_STAGE_BYTES;
    topkit_fused_storage *s = (topkit_fused_storage *)(queries + 2 * TOPKIT_FUSED_QUERY_BYTES);
    const topkit_group block = topkit_group_block();
    topkit_refiner_init(block, &s->refiner);
    for (unsigned i = block.thread; i < TOPKIT_FUSED_STAGES * 2 * TOPKIT_FUSED_TILE; i += block.size) (&s->scales[0][0][0])[i] = 1.0f;
    for (unsigned i = block.thread; i < 2 * TOPKIT_FUSED_QUERIES; i += block.size) {
        (&s->gate[0][0])[i] = 0;
        (&s->epoch[0][0])[i] = 0;
        s->collected[i / TOPKIT_FUSED_QUERIES][i % TOPKIT_FUSED_QUERIES].dropped = 0;
        s->collected[i / TOPKIT_FUSED_QUERIES][i % TOPKIT_FUSED_QUERIES].compactions = 0;
    }
    if (block.thread == 0) {
        s->asked = s->served = 0;
        s->feed.next = s->feed.end = s->feed.split = 0;
        s->feed.idle = 0;
        s->feed.dry = false;
        for (int i = 0; i < TOPKIT_FUSED_STAGES; i++) {
            topkit_signal_init(&s->landed[i], 32);
            topkit_signal_init(&s->full[i], 1);
            topkit_signal_init(&s->empty[i], TOPKIT_FUSED_CONSUMER_WARPS);
        }
        for (int i = 0; i < TOPKIT_FUSED_SLOTS; i++) {
            topkit_signal_init(&s->announced[i], 1);
            topkit_signal_init(&s->settled[i], 1);
        }
        for (int b = 0; b < 2; b++) {
            topkit_signal_init(&s->sampled[b], TOPKIT_FUSED_CONSUMER_WARPS);
            topkit_signal_init(&s->ready[b], 1);
            topkit_signal_init(&s->scanned[b], TOPKIT_FUSED_CONSUMER_WARPS + 1); /* and the relay */
        }
    }
    topkit_group_sync(block);
    const unsigned warp = topkit_warp_rank(block);
    if (warp < TOPKIT_FUSED_CONSUMER_WARPS) {
        topkit_fused_more_registers<TOPKIT_FUSED_CONSUMER_REGISTERS>();
        topkit_fused_consumers<HEADS>(job, s, ring, queries);
    } else {
        topkit_fused_fewer_registers<TOPKIT_FUSED_SERVICE_REGISTERS>();
        if (warp == TOPKIT_FUSED_CONSUMER_WARPS) topkit_fused_produce<HEADS>(job, s, ring, queries);
        else if (warp == TOPKIT_FUSED_CONSUMER_WARPS + 1) topkit_fused_relay(s);
        else topkit_fused_serve<TIES, HEADS>(job, s);
    }
#else
    __trap(); /* compiled for another device; topkit_fused does not get here */
#endif
}

#endif
