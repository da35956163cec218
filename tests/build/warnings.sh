# warnings.sh (D03): no diagnostic of any kind from the library when all are errors, in C++17 and C++20, under gcc and clang hosts.
#
# every_call.cu calls every function of the library, so that templates are instantiated. Its code is assembled once, which depends on
# neither; of clang's own opinion of C++17 headers.sh hears. A host compiler that is missing, or that this nvcc refuses even with
# -allow-unsupported-compiler, is named and left out.
. "${0%/*}/common.sh"

for host in g++ clang++; do
    allow=
    if ! command -v $host >/dev/null; then
        echo "left out: no $host"
        continue
    elif ! "$nvcc" -std=c++17 -ccbin $host -c "$source/tests/build/empty.cu" -o empty.o >/dev/null 2>&1; then
        allow=-allow-unsupported-compiler
        if ! "$nvcc" -std=c++17 -ccbin $host $allow -c "$source/tests/build/empty.cu" -o empty.o >log 2>&1; then
            echo "left out: nvcc refuses $host: $(head -n 1 log)"
            continue
        fi
    fi
    for std in c++17 c++20; do
        code=$target_ptx
        [ $host$std != g++c++17 ] || code=$target
        [ $host$std != clang++c++17 ] || continue
        # shellcheck disable=SC2086 # lists of flags
        check "every call, $host, $std" "$nvcc" $quick -std=$std $code -ccbin $host $allow -Werror all-warnings \
            -Xcompiler -Wall,-Wextra,-Wshadow,-Werror -I"$source/include" -c "$source/tests/build/every_call.cu" -o unit.o
    done
done
# shellcheck disable=SC2086
check "the operator" "$nvcc" $quick -std=c++17 $target -Werror all-warnings -Xcompiler -Wall,-Wextra,-Wshadow,-Werror \
    -I"$source/include" -I"$source/examples" -c "$source/examples/05_select.cu" -o unit.o
finish
