# flags.sh (D05): debug, line information, fast math and the library's own switches compile. tests/meson.build builds the operator with
# them too, and tests it: that results stay exact is the GPU tests' part.
. "${0%/*}/common.sh"

for flag in -G -lineinfo --use_fast_math -DTOPKIT_DEBUG=1 -DTOPKIT_NAN=TOPKIT_NAN_HIGHEST; do
    fast=$quick
    [ "$flag" != -G ] || fast= # debug code is never optimised, and nvcc says so
    # shellcheck disable=SC2086 # a list of flags
    check "every call with $flag" "$nvcc" $fast -std=c++17 -arch="sm_$arch" $flag -I"$source/include" -c "$source/tests/build/every_call.cu" -o unit.o
done
finish
