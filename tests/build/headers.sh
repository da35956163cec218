# headers.sh (D02): every public header compiles when it is the only include.
#
# Device headers: under nvcc, and as C++ with the executor's prelude under each C++ compiler that is here. Host headers (version.h,
# select.h, plan.h): as C11 and C++17 with no other help. That the installed list and the single header are complete is checked too.
. "${0%/*}/common.sh"

for path in "$source"/include/topkit/*; do
    header=${path##*/}
    grep -q "topkit/$header\b" "$source/include/topkit/topkit.cuh" || [ "$header" = topkit.cuh ] || grep -rq "#include \"topkit/$header\"" "$source/include/topkit" ||
        fail "$header is reached from no other header"
    case " $installed " in *" $header "*) ;; *) fail "$header is not in include/meson.build" ;; esac
    printf '#include "topkit/%s"\n' "$header" >unit.cu
    [ -z "$NVCC" ] || check "$header under nvcc" "$NVCC" -std=c++17 -arch="sm_$ARCH" -I"$source/include" -c unit.cu -o unit.o
    cp unit.cu unit.cpp
    for cxx in $CXX; do
        check "$header under $cxx with the executor" "$cxx" -std=c++17 -Wall -Wextra -Werror -ffp-contract=off -DTOPKIT_SIMT=1 \
            -include "$source/tests/simt/simt_cuda.h" -I"$source/include" -c unit.cpp -o unit.o
    done
done

for header in topkit/version.h select.h plan.h; do
    printf '#include "%s"\nextern int unit;\nint unit = 0;\n' "$header" >unit.c
    cp unit.c unit.cpp
    for cxx in $CXX; do
        check "$header as C++ under $cxx" "$cxx" -std=c++17 -Wall -Wextra -Wpedantic -Werror -I"$source/include" -I"$source/examples" -c unit.cpp -o unit.o
    done
    check "$header as C11" cc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$source/include" -I"$source/examples" -c unit.c -o unit.o
done
finish
