/* device.cpp: why a test program has nothing to run on, or null. Built once with TOPKIT_TEST_GPU and once, for the executor, without. */
const char *missing_device();

#ifdef TOPKIT_TEST_GPU
#include <cuda_runtime_api.h>

const char *missing_device() {
    int devices = 0;
    cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess) return cudaGetErrorString(status);
    return devices > 0 ? nullptr : "none is visible";
}
#else
const char *missing_device() { return nullptr; }
#endif
