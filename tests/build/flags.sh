# flags.sh (D05): debug, line information, fast math and the library's own switches compile. That results stay exact under them is the
# part of the GPU tests, which link operators built so.
#
# Debug code and the operator's are compiled and not assembled: that takes minutes, is what the GPU tests begin with, the operator's debug
# code too, and spills.sh does it once with line information.
. "${0%/*}/common.sh"

compile() { # unit, what comes out, flags
    unit=$1
    out=$2
    shift 2
    check "$unit with $*" "$nvcc" -std=c++17 $target "$@" -I"$source/include" -I"$source/examples" "-$out" "$source/$unit" \
        -o "unit.$out"
}

compile tests/build/every_call.cu ptx -G # never optimised, and nvcc says so if it is asked to be quick about it
for flags in '-lineinfo --use_fast_math' -DTOPKIT_DEBUG=1 -DTOPKIT_NAN=TOPKIT_NAN_HIGHEST; do
    # shellcheck disable=SC2086 # a list of flags
    compile tests/build/every_call.cu cubin $quick $flags
done
# shellcheck disable=SC2086
compile examples/05_select.cu ptx $quick --use_fast_math -DTOPKIT_DEBUG=1 -DTOPKIT_NAN=TOPKIT_NAN_HIGHEST
finish
