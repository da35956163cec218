#!/bin/sh
# Builds and runs the GPU's tests with nvcc alone (no Meson, no network), then a reduced set under compute-sanitizer's four tools.
#
#   CATCH2=DIR sh tests/device.sh [all|sanitize|soak]     DIR holds catch2/catch.hpp; default: the compiler's own path
#
# soak builds and runs nothing but test_select_soak: random problems under load, for SOAK_SECONDS, from problem sequence SOAK_SEED on.
#
# Settings, all optional, in the environment:
#   TEST_ARCH      architecture to build for (90a)
#   TEST_BUILD     folder of the build (build/tests)
#   TEST_TIMEOUT   seconds for one program (120, and those of the soak); one that runs out has failed
#   SOAK_SECONDS   how long random problems go on (60), SOAK_RUNS how often a question is repeated (1000), SOAK_SEED (1)
#   OUT            where the logs go (TEST_BUILD)
# Ends with a line `N passed, N failed`. Exit code: 0 when nothing failed.
set -u
cd "$(dirname "$0")/.."
arch=${TEST_ARCH:-90a}
build=${TEST_BUILD:-build/tests}
out=${OUT:-$build}
limit=${TEST_TIMEOUT:-120}
what=${1:-all}
soak=${SOAK_SECONDS:-60}
[ "$what" != soak ] || limit=$((limit + soak))
mkdir -p "$build" "$out"
flags="-O2 -std=c++17 -lineinfo -gencode arch=compute_$arch,code=sm_$arch -Iinclude -Iexamples -Itests ${CATCH2:+-I$CATCH2}"

c++ -O0 -std=c++17 ${CATCH2:+-I"$CATCH2"} -c tests/main.cpp -o "$build/main.o" &
nvcc -O1 -std=c++17 -x cu -DTOPKIT_TEST_GPU -c tests/device.cpp -o "$build/device.o" &
cc -O2 -std=c11 -Iexamples -c examples/plan.c -o "$build/plan.o" &
nvcc $flags -c examples/05_select.cu -o "$build/select.o" &
[ "$what" = soak ] || nvcc $flags -DTOPKIT_NAN=1 -c examples/05_select.cu -o "$build/select_nan.o" &
names=
sources=tests/test_*.cu
[ "$what" != soak ] || sources=tests/test_select_soak.cu
for source in $sources; do
    name=$(basename "$source" .cu)
    [ "$name" = test_exact ] && continue # the benchmark's own check has a program of its own
    names="$names $name"
    nvcc $flags -c "$source" -o "$build/$name.o" >"$build/$name.log" 2>&1 || cat "$build/$name.log" &
done
[ "$what" = soak ] || for name in test_select_values test_select_random; do
    nvcc $flags -DTOPKIT_NAN=1 -c "tests/$name.cu" -o "$build/${name}_nan.o" &
    names="$names ${name}_nan"
done
wait
for name in $names; do
    operator=
    case $name in
        *_nan) operator="$build/select_nan.o $build/plan.o" ;;
        test_select_* | test_usage_select) operator="$build/select.o $build/plan.o" ;;
    esac
    nvcc -gencode "arch=compute_$arch,code=sm_$arch" "$build/$name.o" "$build/main.o" "$build/device.o" $operator -o "$build/$name" &
done
wait

passed=0 failed=0
judge() { # name, then the command
    name=$1
    shift
    begin=$(date +%s)
    if timeout "$limit" "$@" >"$out/$name.txt" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $name ($(($(date +%s) - begin)) s)"
    else
        failed=$((failed + 1))
        echo "FAILED  $name ($(($(date +%s) - begin)) s)"
        tail -n 25 "$out/$name.txt"
    fi
}

if [ "$what" = soak ]; then
    judge test_select_soak env TOPKIT_SOAK_SECONDS="$soak" TOPKIT_SOAK_RUNS="${SOAK_RUNS:-1000}" TOPKIT_TEST_SEED="${SOAK_SEED:-1}" \
        "$build/test_select_soak"
    grep '^soak:' "$out/test_select_soak.txt"
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
fi
[ "$what" = sanitize ] || for name in $names; do judge "$name" "$build/$name"; done

for tool in memcheck racecheck synccheck initcheck; do
    for name in test_collector test_refiner test_scheduler test_signal test_threshold test_select_errors test_select_random; do
        judge "$name-$tool" env TOPKIT_TEST_CASES=3 compute-sanitizer --tool $tool --report-api-errors no --error-exitcode 9 "$build/$name"
    done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
