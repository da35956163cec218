# refusals.sh: what cannot work is refused when it is compiled, by a message that says what is wanted.
. "${0%/*}/common.sh"

echo '#include "topkit/topkit.cuh"' >unit.cu
cp unit.cu unit.cpp
printf '#include "topkit/version.h"\n#undef TOPKIT_VERSION\n#define TOPKIT_VERSION 1\n#include "topkit/version.h"\n' >mixed.cpp
refuse "device headers without a device compiler" "device headers need nvcc" c++ -std=c++17 -I"$source/include" -c unit.cpp -o unit.o
refuse "two versions in one unit" "two versions of topkit" c++ -std=c++17 -I"$source/include" -c mixed.cpp -o unit.o
if [ -n "$nvcc" ]; then
    compile="$nvcc -std=c++17 -I$source/include -c unit.cu -o unit.o"
    # shellcheck disable=SC2086 # a command and its arguments
    refuse "an unknown NaN policy" "TOPKIT_NAN must be" $compile -arch="sm_$arch" -DTOPKIT_NAN=2
    # shellcheck disable=SC2086
    refuse "a device that is too old" "compute capability 8.0 or later" $compile -arch=sm_75
fi
finish
