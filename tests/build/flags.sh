# flags.sh (D05): debug, line information, fast math and the library's own switches compile. That results stay exact under them is the
# part of the GPU tests, which link operators built so.
. "${0%/*}/common.sh"

for flag in -G -lineinfo --use_fast_math -DTOPKIT_DEBUG=1 -DTOPKIT_NAN=TOPKIT_NAN_HIGHEST; do
    fast=$quick
    [ "$flag" != -G ] || fast= # debug code is never optimised, and nvcc says so
    for unit in tests/build/every_call.cu examples/05_select.cu; do
        # shellcheck disable=SC2086 # a list of flags
        check "$unit with $flag" "$nvcc" $fast -std=c++17 -arch="sm_$arch" $flag -I"$source/include" -I"$source/examples" \
            -c "$source/$unit" -o unit.o
    done
done
finish
