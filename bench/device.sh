#!/bin/sh
# Builds topkit-bench and topkit-fused-bench with nvcc alone (no Meson, no network) and runs suites of the first on the GPU of this machine.
#
#   sh bench/device.sh matrix width decode        suites as bench/cases.h lists them; none: builds only
#   BENCH_OPTIONS='--quick --route row' sh bench/device.sh matrix
#
# Settings, all optional, in the environment:
#   OUT            folder of the results (bench/results): bench.json and bench.txt of this run, h200.json with it merged in
#   BENCH_OPTIONS  options of the driver, as the head of bench/bench.c lists them
#   BENCH_ARCH     architecture to build for (90a)
#   BENCH_FLAGS    further options of nvcc, such as -DNAME=VALUE for an ablation
#   BENCH_BUILD    folder of the build (build/bench); BENCH_BUILT=1 takes the program that is there
#   BENCH_COMMIT   what the results are said to be of (git's HEAD)
#   CCCL           include folder of a CCCL that has CUB's batched Top-K, for --kernel cub
set -e
cd "$(dirname "$0")/.."
build=${BENCH_BUILD:-build/bench}
out=${OUT:-bench/results}
arch=${BENCH_ARCH:-90a}
mkdir -p "$build" "$out"

# Each line is a job of its own. One that fails leaves no object, and the link then says so.
compile_list() {
    for source in examples/05_select.cu bench/gpu.cu bench/replay.cu bench/inputs.cu bench/exact.cu bench/exact_sort.cu bench/cub_topk.cu \
        examples/fused.cu bench/fused.cu; do
        name=$(echo "$source" | tr / _)
        newer_cub=
        [ "$name" != bench_cub_topk.cu ] || newer_cub=${CCCL:+-I$CCCL}
        echo "nvcc $newer_cub $nvcc_flags -c $source -o $build/$name.o >$build/$name.log 2>&1 || cat $build/$name.log"
    done
    for source in examples/plan.c examples/tool/npy.c bench/bench.c bench/callee.c bench/capture.c bench/cases.c bench/report.c bench/run.c; do
        echo "cc -O2 -std=c11 -Wall -Wextra $includes -c $source -o $build/$(echo "$source" | tr / _).o"
    done
}

build() {
    includes="-Iinclude -Iexamples -Iexamples/tool -Ibench"
    nvcc_flags="-O3 -std=c++17 -lineinfo -gencode arch=compute_$arch,code=sm_$arch -Xptxas -v $includes $BENCH_FLAGS"
    rm -f "$build"/*.o "$build"/topkit-*bench
    compile_list | xargs -P "$(nproc)" -I{} sh -c '{}'
    link="nvcc -gencode arch=compute_$arch,code=sm_$arch $build/examples_05_select.cu.o $build/examples_plan.c.o"
    $link "$build"/bench_fused.cu.o "$build"/examples_fused.cu.o -o "$build/topkit-fused-bench"
    $link $(ls "$build"/*.o | grep -v -e fused -e 05_select -e plan.c) -o "$build/topkit-bench"
    grep -E "[1-9][0-9]* bytes spill" "$build"/examples_*.log && echo "note: a kernel spills registers"
    return 0
}

[ -n "${BENCH_BUILT:-}" ] || build
[ $# -gt 0 ] || exit 0

commit=${BENCH_COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}
capture=
[ -f bench/capture/scores.npy ] && capture="--capture bench/capture/scores.npy"
[ -n "$capture" ] && [ -f bench/capture/lengths.npy ] && capture="$capture --capture-lengths bench/capture/lengths.npy"

status=0
"$build/topkit-bench" --commit "$commit" --json "$out/bench.json" $capture $BENCH_OPTIONS "$@" >"$out/bench.txt" || status=$?
[ "$status" -eq 0 ] || cat "$out/bench.txt"
if [ -f "$out/bench.json" ]; then
    [ -f "$out/h200.json" ] || ! [ -f bench/results/h200.json ] || cp bench/results/h200.json "$out/h200.json"
    python3 bench/merge.py "$out/h200.json" "$out/bench.json"
    python3 bench/summary.py "$out/bench.json"
fi
exit $status
