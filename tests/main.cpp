/* main.cpp: the main of every test program; device.cpp says whether there is something to run it on.
 *
 * Without that the program says why on a line that begins with SKIP: and returns 77, which Meson counts as skipped. A failure returns 1
 * whatever the number of failed cases: Catch2 would return that number, and 77 of them would look like a skip.
 */
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>

const char *missing_device();

int main(int argc, char **argv) {
    if (const char *why = missing_device()) {
        std::printf("SKIP: no CUDA device: %s\n", why);
        return 77;
    }
    return Catch::Session().run(argc, argv) == 0 ? 0 : 1;
}
