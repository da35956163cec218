/* simt_launch.h: the seams between the two files of the miniature CUDA runtime, and between it, which checks a launch, and the executor,
 * which runs it.
 */
#ifndef SIMT_LAUNCH_H
#define SIMT_LAUNCH_H

#include <functional>

#include "simt_runtime.h"

struct simt_launch_shape {
    dim3 grid, threads, cluster;
    size_t shared;
    bool cooperative; /* all blocks resident */
};

bool simt_run(const simt_launch_shape *shape, const std::function<void()> &body); /* false: abandoned after a failure */
int simt_multiprocessors(void);
int simt_cooperative_blocks(void);

enum { SIMT_SHARED_DEFAULT = 49152, SIMT_SHARED_OPT_IN = 232448, SIMT_SHARED_SM = 233472, SIMT_SHARED_RESERVED = 1024 };
enum { SIMT_MAX_THREADS = 1024, SIMT_THREADS_SM = 2048, SIMT_BLOCKS_SM = 32 };

typedef std::function<cudaError_t()> simt_operation;
cudaError_t simt_result(cudaError_t error);                                    /* also what cudaGetLastError says */
cudaError_t simt_enqueue(cudaStream_t stream, const simt_operation &work);     /* runs it, or records it */
cudaError_t simt_refuse_in_capture(void);
void simt_launch_failed(void);                                                 /* the next synchronisation says so too */

#endif
