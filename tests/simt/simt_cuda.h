/* simt_cuda.h: CUDA for a plain C++17 compiler. Force-include it before a CUDA C++ source to run that source's kernels on the CPU.
 *
 *   g++ -x c++ -std=c++17 -ffp-contract=off -include tests/simt/simt_cuda.h kernel.cu ... -lboost_context
 *
 * This file defines the keywords; simt_types.h the vector types, simt_device.h the intrinsics, simt_runtime.h a miniature CUDA runtime.
 * Not covered: <<<>>>, textures, half and bfloat16, extern __shared__ (use simt_dynamic_shared()), inline PTX.
 */
#ifndef SIMT_CUDA_H
#define SIMT_CUDA_H

/* Headers that a CUDA source gets for free, all of them before the keywords below are defined. */
#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <functional>
#include <tuple>

#define __device__
#define __global__
#define __host__
#define __managed__
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

/* Static shared memory lies in one ELF section, which is filled with 0xA5 before each block. Legal for one resident block only.
 * `used` keeps the optimiser from concluding that the variable holds nothing but what the program stores. */
#define __shared__ static __attribute__((section("simt_shared"), used))

#include "simt_types.h"

#include "simt_device.h"
#include "simt_runtime.h"

#endif
