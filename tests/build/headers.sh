# headers.sh (D02): every public header compiles when it is the only include.
#
# Device headers: under nvcc (down to PTX: code for the host has none of them), and as C++ with the executor's prelude under each C++
# compiler that is here. Host headers (version.h, select.h, plan.h, fused.h): as C11 and C++17 with no other help. That the installed list
# and the single header are complete is checked too.
. "${0%/*}/common.sh"

for path in "$source"/include/topkit/*; do
    header=${path##*/}
    [ "$header" = topkit.cuh ] || grep -q "#include \"topkit/$header\"" "$source"/include/topkit/*.cuh ||
        fail "$header is included by no other"
    case " $installed " in *" $header "*) ;; *) fail "$header is not in include/meson.build" ;; esac
    printf '#include "topkit/%s"\n' "$header" >unit.cu
    # shellcheck disable=SC2086 # a list of flags
    [ -z "$nvcc" ] || check "$header under nvcc" "$nvcc" $quick -std=c++17 $target -I"$source/include" -ptx unit.cu -o unit.ptx
done
for cxx in $compilers; do
    executor="$cxx -std=c++17 -Wall -Wextra -Werror -Wno-unknown-pragmas -ffp-contract=off -DTOPKIT_SIMT=1"
    # The prelude is the most of each unit: precompiled, which both compilers look for beside the header.
    echo "#include \"$source/tests/simt/simt_cuda.h\"" >prelude.h
    # shellcheck disable=SC2086 # a command and its arguments
    check "the prelude under $cxx" $executor -x c++-header prelude.h -o prelude.h.gch
    for path in "$source"/include/topkit/*; do
        header=${path##*/}
        printf '#include "topkit/%s"\n' "$header" >unit.cpp
        # shellcheck disable=SC2086
        check "$header under $cxx with the executor" $executor -include prelude.h -I"$source/include" -fsyntax-only unit.cpp
    done
done

# every public function (one underscore in a row) must be called in every_call.cu, or the other build tests never see its code
for name in $(sed -n 's/^TOPKIT_FN.* \**\(topkit_[a-z0-9_]*\)(.*/\1/p' "$source"/include/topkit/*.cuh | grep -v __ | sort -u); do
    checks=$((checks + 1))
    grep -q "$name[(<]" "$source/tests/build/every_call.cu" || fail "every_call.cu does not call $name"
done

for header in topkit/version.h select.h plan.h fused.h; do
    printf '#include "%s"\nextern int unit;\nint unit = 0;\n' "$header" >unit.c
    cp unit.c unit.cpp
    for cxx in $compilers; do
        check "$header as C++ under $cxx" "$cxx" -std=c++17 -Wall -Wextra -Wpedantic -Werror -I"$source/include" -I"$source/examples" \
            -c unit.cpp -o unit.o
    done
    check "$header as C11" cc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$source/include" -I"$source/examples" -c unit.c -o unit.o
done
finish
