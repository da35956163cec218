/* probe.cpp: ends with 0 where there is a GPU, else says why on a line that begins with SKIP: and ends with 77. For tests that are scripts. */
#include <cstdio>

const char *missing_device();

int main() {
    const char *why = missing_device();
    if (why != nullptr) std::printf("SKIP: no CUDA device: %s\n", why);
    return why != nullptr ? 77 : 0;
}
