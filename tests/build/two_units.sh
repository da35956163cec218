# two_units.sh (D01): two translation units with the whole library link, as one program and as two shared libraries, with and without
# relocatable device code, and both select exactly. Runs on the GPU if there is one; on the CPU executor in any case. What no GPU will run
# and no linker of device code reads is not assembled.
. "${0%/*}/common.sh"

unit=$source/tests/build/two_units.cu
as_a="-DEVERY_CALL_UNIT=unit_a -DTWO_UNITS_RUN=run_a"
as_b="-DEVERY_CALL_UNIT=unit_b -DTWO_UNITS_RUN=run_b"
device=yes

# runs a program that ends with 77 where there is no device
run_device() {
    checks=$((checks + 1))
    "$1" >log 2>&1
    code=$?
    [ $code != 77 ] || device=no
    [ $code = 0 ] || [ $code = 77 ] || fail "$1 (exit code $code)"
}

# shellcheck disable=SC2086  # lists of flags
if [ -n "$nvcc" ]; then
    for mode in plain relocatable; do
        flags=$target
        [ $gpu$mode != noplain ] || flags=$target_ptx
        [ $mode = plain ] || flags="$flags -rdc=true"
        flags="$flags $quick -std=c++17 -I$source/include"
        check "unit a, $mode" "$nvcc" $flags $as_a -DTWO_UNITS_MAIN -Xcompiler -fPIC -c "$unit" -o a.o
        check "unit b, $mode" "$nvcc" $flags $as_b -Xcompiler -fPIC -c "$unit" -o b.o
        check "one program, $mode" "$nvcc" $flags a.o b.o -o program_$mode
        run_device ./program_$mode
        check "shared library b, $mode" "$nvcc" $flags -shared b.o -o libb_$mode.so
        check "shared library a, $mode" "$nvcc" $flags -shared a.o -L. -lb_$mode -o liba_$mode.so
        echo 'int run_a(void); int run_b(void); int main(void) { int a = run_a(), b = run_b(); return a > b ? a : b; }' >main.c
        check "two shared libraries, $mode" cc main.c -L. -la_$mode -lb_$mode -Wl,-rpath,"$work" -o shared_$mode
        run_device ./shared_$mode
    done
    [ $device = yes ] || echo "no CUDA device: compiled and linked for the GPU, not run there"
fi

# shellcheck disable=SC2086
if [ -n "$simt_lib" ]; then
    flags="-std=c++17 -O1 -x c++ -Wno-unknown-pragmas -ffp-contract=off -DTOPKIT_SIMT=1 -include $source/tests/simt/simt_cuda.h"
    flags="$flags -I$source/include -I$source/tests/simt"
    check "unit a, executor" c++ $flags $as_a -DTWO_UNITS_MAIN -c "$unit" -o a.o
    check "unit b, executor" c++ $flags $as_b -c "$unit" -o b.o
    check "one program, executor" c++ a.o b.o "$simt_lib" -lboost_context -o program_executor
    checks=$((checks + 1))
    ./program_executor >log 2>&1 || fail "on the executor"
fi
finish
