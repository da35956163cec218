/* main.cpp: the main of every test program, one for the GPU and one for the executor.
 *
 * Without a usable device the program says why on a line that begins with SKIP: and returns 77, which Meson counts as skipped. A failure
 * returns 1 whatever the number of failed cases: Catch2 would return that number, and 77 of them would look like a skip.
 */
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>

#ifdef TOPKIT_TEST_GPU
#include <cuda_runtime_api.h>

static bool device_is_usable() {
    int devices = 0;
    cudaError_t status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess && devices > 0) return true;
    std::printf("SKIP: no CUDA device: %s\n", status == cudaSuccess ? "none is visible" : cudaGetErrorString(status));
    return false;
}
#else
static bool device_is_usable() {
    return true;
}
#endif

int main(int argc, char **argv) {
    if (!device_is_usable()) return 77;
    return Catch::Session().run(argc, argv) == 0 ? 0 : 1;
}
