/* probe.cpp: for tests that are scripts. Ends with 0 where there is a GPU; else says why on a line that begins with SKIP:, ends with 77. */
#include <cstdio>

const char *missing_device();

int main() {
    const char *why = missing_device();
    if (why != nullptr) std::printf("SKIP: no CUDA device: %s\n", why);
    return why != nullptr ? 77 : 0;
}
