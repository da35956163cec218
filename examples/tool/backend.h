/* backend.h: where the selection runs. One source, backend.cu, compiled for two machines:
 *
 *   topkit_backend_cuda   by nvcc, with the CUDA runtime and the operator's GPU build
 *   topkit_backend_cpu    by the C++ compiler, with the executor's miniature runtime and the same kernels run on the CPU
 *
 * A backend is a table of functions, so that main.c, which is C11, neither knows which of them the build has nor includes CUDA.
 * Functions that return text return null on success and otherwise a sentence with static storage.
 */
#ifndef TOPKIT_TOOL_BACKEND_H
#define TOPKIT_TOOL_BACKEND_H

#include "plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct topkit_backend {
    /* Takes the first device and tells its facts and name. The other functions come after it. */
    const char *(*open)(topkit_device_facts *facts, char *name, size_t name_size);

    const char *(*alloc)(void **memory, size_t bytes); /* of at least one byte, so that an empty buffer has an address too */
    const char *(*upload)(void *device, const void *host, size_t bytes);
    const char *(*download)(void *host, const void *device, size_t bytes);
    const char *(*fill)(void *device, int byte, size_t bytes);
    void (*release)(void *memory);

    /* The operator's two functions. run waits for the result; `status` is the operator's, the text the runtime's. */
    int (*workspace)(const topkit_select_params *params, size_t *bytes);
    const char *(*run)(const topkit_select_params *params, int *status, double *milliseconds);

    void (*close)(void);

    int nan_highest; /* the NaN policy that the operator was built with */
} topkit_backend;

extern const topkit_backend topkit_backend_cpu;
extern const topkit_backend topkit_backend_cuda;

#ifdef __cplusplus
}
#endif
#endif
