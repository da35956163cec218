/* guarded.h: device memory between guard words, and waiting for the device with a watchdog. For host code of tests, on the GPU and on
 * the executor.
 *
 *   guarded out(bytes);                 64 guard words before and behind; out.data is 256-byte aligned
 *   out.fill(0x7f);                     the inside, byte by byte
 *   out.read(host)                      copies the inside; false when a guard word has changed
 *   settle(stream);                     waits; a launch that takes more than 20 seconds ends the program, a failed one fails the test
 */
#ifndef TOPKIT_TESTS_GUARDED_H
#define TOPKIT_TESTS_GUARDED_H

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#ifdef TOPKIT_SIMT
#include "simt.h"
#else
#include <cuda_runtime.h>
#endif

#define CUDA_OK(call) REQUIRE((call) == cudaSuccess)

/* The size for the GPU, or the smaller one for the executor, whose every thread is a fiber. */
static inline int test_size(int gpu, int cpu) {
#ifdef TOPKIT_SIMT
    (void)gpu;
    return cpu;
#else
    (void)cpu;
    return gpu;
#endif
}

enum { GUARD_BYTES = 256, GUARD_BYTE = 0xa7 };

struct guarded {
    size_t bytes;
    unsigned char *base, *data;

    explicit guarded(size_t size) : bytes(size), base(nullptr) {
        CUDA_OK(cudaMalloc(&base, bytes + 2 * GUARD_BYTES));
        CUDA_OK(cudaMemset(base, GUARD_BYTE, bytes + 2 * GUARD_BYTES));
        data = base + GUARD_BYTES;
        CUDA_OK(cudaStreamSynchronize(nullptr)); /* streams that do not wait for the legacy one come next */
    }
    ~guarded() { cudaFree(base); }
    guarded(const guarded &) = delete;
    guarded &operator=(const guarded &) = delete;

    void fill(int byte) {
        CUDA_OK(cudaMemset(data, byte, bytes));
        CUDA_OK(cudaStreamSynchronize(nullptr));
    }

    template <class T> bool read(std::vector<T> *inside) const {
        std::vector<unsigned char> all(bytes + 2 * GUARD_BYTES);
        CUDA_OK(cudaMemcpy(all.data(), base, all.size(), cudaMemcpyDeviceToHost));
        inside->resize(bytes / sizeof(T));
        if (bytes) memcpy(inside->data(), all.data() + GUARD_BYTES, bytes / sizeof(T) * sizeof(T));
        for (size_t i = 0; i < GUARD_BYTES; i++) {
            if (all[i] != GUARD_BYTE || all[GUARD_BYTES + bytes + i] != GUARD_BYTE) return false;
        }
        return true;
    }
};

/* Memory that ends where it says: the first byte behind it belongs to nobody (AddressSanitizer and compute-sanitizer watch it). */
template <class T> struct exact {
    T *data;
    size_t count;

    explicit exact(const std::vector<T> &host, size_t displaced = 0) : data(nullptr), count(host.size()), base(nullptr) {
        if (count + displaced == 0) return;
        CUDA_OK(cudaMalloc(&base, (count + displaced) * sizeof(T)));
        data = base + displaced;
        write(host);
        CUDA_OK(cudaStreamSynchronize(nullptr));
    }
    ~exact() { cudaFree(base); }
    exact(const exact &) = delete;
    exact &operator=(const exact &) = delete;

    void write(const std::vector<T> &host, cudaStream_t stream = nullptr) {
        if (count) CUDA_OK(cudaMemcpyAsync(data, host.data(), count * sizeof(T), cudaMemcpyHostToDevice, stream));
    }
    bool still(const std::vector<T> &host) const {
        std::vector<T> now(count);
        if (count) CUDA_OK(cudaMemcpy(now.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
        return count == 0 || memcmp(now.data(), host.data(), count * sizeof(T)) == 0;
    }

private:
    T *base;
};

static inline void settle(cudaStream_t stream) {
#ifdef TOPKIT_SIMT
    CUDA_OK(cudaStreamSynchronize(stream));
    if (simt_failures()) {
        const std::string what = simt_failure(0);
        simt_clear_failures();
        FAIL(what);
    }
#else
    const auto begin = std::chrono::steady_clock::now();
    cudaError_t status;
    while ((status = cudaStreamQuery(stream)) == cudaErrorNotReady) {
        if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(20)) {
            fprintf(stderr, "a launch has not ended after 20 seconds: it hangs\n");
            fflush(nullptr);
            _Exit(1); /* nothing on this device can be used any more, not even to clean up */
        }
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    CUDA_OK(status);
#endif
    CUDA_OK(cudaGetLastError());
}

#endif
