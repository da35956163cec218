#!/bin/sh
# Builds and runs the GPU's tests with nvcc alone (no Meson, no network), then a reduced set under compute-sanitizer's four tools.
#
#   CATCH2=DIR sh tests/device.sh [all|plain|sanitize|soak|build]     DIR holds catch2/catch.hpp; default: the compiler's own path
#
# plain leaves the sanitizers out, sanitize everything else.
# soak builds and runs nothing but test_select_soak: random problems under load, for SOAK_SECONDS, from problem sequence SOAK_SEED on.
# build compiles and runs nothing: where time on a GPU is short, do that elsewhere, carry TEST_BUILD over and go on there with TEST_BUILT=1.
#
# Settings, all optional, in the environment:
#   TEST_ARCH      architecture to build for (90a)
#   TEST_BUILD     folder of the build (build/tests); TEST_BUILT=1 links the objects that are there
#   TEST_JOBS      programs at a time (all processors)
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
jobs=${TEST_JOBS:-$(nproc)}
what=${1:-all}
soak=${SOAK_SECONDS:-60}
[ "$what" != soak ] || limit=$((limit + soak))
mkdir -p "$build" "$out"
flags="-O2 -std=c++17 -lineinfo -gencode arch=compute_$arch,code=sm_$arch -Iinclude -Iexamples -Itests ${CATCH2:+-I$CATCH2}"

names=
sources=tests/test_*.cu
[ "$what" != soak ] || sources=tests/test_select_soak.cu
for source in $sources; do
    name=$(basename "$source" .cu)
    [ "$name" = test_exact ] || names="$names $name" # the benchmark's own check has a program of its own
done
sanitized="test_collector test_refiner test_scheduler test_signal test_split test_team test_threshold test_select_errors test_select_random"
nan_names=
[ "$what" = soak ] || nan_names="test_select_values test_select_random"
for name in $nan_names; do names="$names ${name}_nan"; done

# Each line that the list prints is a job of its own; what it has to say is shown when it fails.
at_once() { xargs -P "$(nproc)" -I{} sh -c '{} >"$0.$$" 2>&1 || cat "$0.$$"; rm -f "$0.$$"' "$build/log"; }

compile_list() {
    echo "nvcc $flags -c examples/05_select.cu -o $build/select.o"
    [ -z "$nan_names" ] || echo "nvcc $flags -DTOPKIT_NAN=1 -c examples/05_select.cu -o $build/select_nan.o"
    [ "$what" = soak ] || echo "nvcc $flags -c examples/fused.cu -o $build/fused.o"
    echo "c++ -O0 -std=c++17 ${CATCH2:+-I$CATCH2} -c tests/main.cpp -o $build/main.o"
    echo "nvcc -O1 -std=c++17 -x cu -DTOPKIT_TEST_GPU -c tests/device.cpp -o $build/device.o"
    echo "cc -O2 -std=c11 -Iexamples -c examples/plan.c -o $build/plan.o"
    for name in $names; do
        case $name in
            *_nan) echo "nvcc $flags -DTOPKIT_NAN=1 -c tests/${name%_nan}.cu -o $build/$name.o" ;;
            *) echo "nvcc $flags -c tests/$name.cu -o $build/$name.o" ;;
        esac
    done
}

link_list() {
    for name in $names; do
        operator=
        case $name in
            *_nan) operator="$build/select_nan.o $build/plan.o" ;;
            test_fused*) operator="$build/fused.o $build/select.o $build/plan.o" ;;
            test_select_* | test_usage_select) operator="$build/select.o $build/plan.o" ;;
        esac
        echo "nvcc -gencode arch=compute_$arch,code=sm_$arch $build/$name.o $build/main.o $build/device.o $operator -o $build/$name"
    done
}

[ -n "${TEST_BUILT:-}" ] || rm -f "$build"/*.o # what does not build is not what an earlier build left
[ -n "${TEST_BUILT:-}" ] || compile_list | at_once
[ "$what" != build ] || exit 0
for name in $names; do rm -f "$build/$name"; done
link_list | at_once

# Programs run beside one another, TEST_JOBS at a time: few of them keep the GPU busy. Each line of the list is a name, then a command.
judge() {
    xargs -P "$jobs" -L 1 sh -c '
        name=$1 begin=$(date +%s) said=ok
        shift
        timeout "$limit" "$@" >"$out/$name.txt" 2>&1 || said=FAILED
        echo "$said  $name ($(($(date +%s) - begin)) s)"
        [ "$said" = ok ] || tail -n 25 "$out/$name.txt"' judge
}
export limit out

test_list() {
    if [ "$what" = soak ]; then
        echo "test_select_soak env TOPKIT_SOAK_SECONDS=$soak TOPKIT_SOAK_RUNS=${SOAK_RUNS:-1000} TOPKIT_TEST_SEED=${SOAK_SEED:-1}" \
            "$build/test_select_soak"
        return
    fi
    [ "$what" = sanitize ] || for name in $names; do echo "$name $build/$name"; done
    [ "$what" = plain ] || for tool in memcheck racecheck synccheck initcheck; do
        for name in $sanitized; do
            echo "$name-$tool env TOPKIT_TEST_CASES=3 compute-sanitizer --tool $tool --report-api-errors no --error-exitcode 9 $build/$name"
        done
    done
}
test_list | judge | tee "$out/judged"
[ "$what" != soak ] || grep '^soak:' "$out/test_select_soak.txt"
failed=$(grep -c '^FAILED' "$out/judged")
echo "$(grep -c '^ok' "$out/judged") passed, $failed failed"
[ "$failed" -eq 0 ]
