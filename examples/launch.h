/* launch.h: what lets one kernel source run on a GPU and on the CPU executor (tests/simt).
 *
 *   TOPKIT_SHARED(name)   declares `name`, the block's dynamic shared memory, aligned to 1024 bytes
 *
 * Everything else is plain CUDA: launches are written with cudaLaunchKernelEx, which the executor provides too.
 */
#ifndef TOPKIT_LAUNCH_H
#define TOPKIT_LAUNCH_H

#ifdef TOPKIT_SIMT
#define TOPKIT_SHARED(name) unsigned char *name = (unsigned char *)simt_dynamic_shared()
#else
#include <cuda_runtime.h>
#define TOPKIT_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
#endif

#endif
