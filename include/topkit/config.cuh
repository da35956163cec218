/* topkit/config.cuh: build-time choices and the few macros that every header uses.
 *
 * The library includes nothing outside itself, so that NVRTC compiles it with no include path. Define before the first include:
 *
 *   TOPKIT_NAN    TOPKIT_NAN_LOWEST (default): every NaN ranks below -inf. TOPKIT_NAN_HIGHEST: above +inf, as torch.topk does.
 *   TOPKIT_DEBUG  1 turns device-side precondition checks on (a failed one traps). They are always on in the CPU executor.
 *   TOPKIT_FN     linkage of every function. Internal by default: no duplicate symbols, with or without -rdc=true.
 *
 * The tie policy is a template argument of the blocks that it concerns, TOPKIT_ANY or TOPKIT_LOWEST_INDEX. Both are exact; the second
 * makes the selected set deterministic: of equal scores at the boundary the lowest indices win.
 */
#ifndef TOPKIT_CONFIG_CUH
#define TOPKIT_CONFIG_CUH

#include "topkit/version.h"

#if !defined(__CUDACC__) && !defined(__CUDACC_RTC__) && !defined(TOPKIT_SIMT)
#error "topkit: device headers need nvcc, NVRTC or the CPU executor (tests/simt); host code wants topkit/version.h and examples/select.h"
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "topkit: compile for compute capability 8.0 or later, such as -arch=sm_80"
#endif

#define TOPKIT_NAN_LOWEST 0
#define TOPKIT_NAN_HIGHEST 1
#ifndef TOPKIT_NAN
#define TOPKIT_NAN TOPKIT_NAN_LOWEST
#endif
#if TOPKIT_NAN != TOPKIT_NAN_LOWEST && TOPKIT_NAN != TOPKIT_NAN_HIGHEST
#error "topkit: TOPKIT_NAN must be TOPKIT_NAN_LOWEST or TOPKIT_NAN_HIGHEST"
#endif

/* Tie policies at the boundary of the selection. */
#define TOPKIT_ANY 0
#define TOPKIT_LOWEST_INDEX 1

#ifndef TOPKIT_FN
#define TOPKIT_FN static __device__ __forceinline__ __attribute__((unused))
#endif

#ifndef TOPKIT_DEBUG
#ifdef TOPKIT_SIMT
#define TOPKIT_DEBUG 1
#else
#define TOPKIT_DEBUG 0
#endif
#endif
#if TOPKIT_DEBUG
#define TOPKIT_ASSERT(condition) ((condition) ? (void)0 : __trap())
#else
#define TOPKIT_ASSERT(condition) ((void)0)
#endif

#define TOPKIT_WARP 32u
#define TOPKIT_FULL_MASK 0xffffffffu

#endif
