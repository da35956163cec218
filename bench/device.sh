#!/bin/sh
# Builds topkit-bench, topkit-ablate and topkit-fused-bench with nvcc alone (no Meson, no network) and runs suites of the first two on the
# GPU of this machine, each in a process of its own, so that one that fails leaves the others their results.
#
#   sh bench/device.sh matrix width decode                   suites as bench/cases.h lists them, and `ablate`; none: builds only
#   BENCH_OPTIONS='--quick --route row' sh bench/device.sh matrix
#   BENCH_OPTIONS=--quick sh bench/device.sh --budget-seconds 120 types any_k order ablate peers       of which each gets its share
#
# A machine without a compiler or a network runs what another has built: sh bench/device.sh there, then, with the folder of the build
# carried over, BENCH_BUILT=1 sh bench/device.sh SUITE...
#
# Settings, all optional, in the environment:
#   OUT             folder of the results (bench/results): bench_SUITE.json and .txt of this run, and with them merged in h200.json, of
#                   `ablate` h200_ablation.json
#   BENCH_OPTIONS   options of topkit-bench, as the head of bench/bench.c lists them
#   ABLATE_OPTIONS  options of topkit-ablate, as the head of bench/ablate.cu lists them; --quick comes from BENCH_OPTIONS
#   BENCH_ARCH      architecture to build for (90a)
#   BENCH_FLAGS     further options of nvcc, such as -DNAME=VALUE for a variant
#   BENCH_BUILD     folder of the build (build/bench); BENCH_BUILT=1 takes the programs that are there
#   BENCH_JOBS      compilers at a time (as many as there are processors)
#   BENCH_COMMIT    what the results are said to be of (git's HEAD)
#   CCCL            include folder of a CCCL that has CUB's batched Top-K, for --kernel cub
#   FLASHINFER      include folder of FlashInfer, for --kernel flashinfer
# The suite `peers` measures both of these, where they are built in, beside topkit.
set -e
cd "$(dirname "$0")/.."
build=${BENCH_BUILD:-build/bench}
out=${OUT:-bench/results}
arch=${BENCH_ARCH:-90a}
budget=
if [ "${1:-}" = --budget-seconds ]; then
    budget=$2
    shift 2
fi
mkdir -p "$build" "$out"

# Each line is a job of its own. One that fails leaves no object, and the link then says so. The slowest come first.
compile_list() {
    for source in examples/05_select.cu bench/flashinfer_topk.cu bench/cub_topk.cu examples/fused.cu bench/fused.cu bench/ablate.cu \
        bench/exact_sort.cu bench/gpu.cu bench/replay.cu bench/inputs.cu bench/exact.cu; do
        name=$(echo "$source" | tr / _)
        peer=
        [ "$name" != bench_cub_topk.cu ] || peer=${CCCL:+-I$CCCL}
        [ "$name" != bench_flashinfer_topk.cu ] || peer=${FLASHINFER:+-I$FLASHINFER}
        echo "nvcc $peer $nvcc_flags -c $source -o $build/$name.o >$build/$name.log 2>&1 || cat $build/$name.log"
    done
    for source in examples/plan.c examples/tool/npy.c bench/bench.c bench/callee.c bench/capture.c bench/cases.c bench/report.c \
        bench/run.c; do
        echo "cc -O2 -std=c11 -Wall -Wextra $includes -c $source -o $build/$(echo "$source" | tr / _).o"
    done
}

# link PROGRAM SOURCE.. (with _ for /)
link() {
    program=$1
    shift
    objects=
    for name in "$@"; do
        objects="$objects $build/$name.o"
    done
    nvcc -gencode arch="compute_$arch,code=sm_$arch" $objects -o "$build/$program"
}

build() {
    includes="-Iinclude -Iexamples -Iexamples/tool -Ibench"
    nvcc_flags="-O3 -std=c++17 -lineinfo -gencode arch=compute_$arch,code=sm_$arch -Xptxas -v $includes $BENCH_FLAGS"
    rm -f "$build"/*.o "$build"/topkit-*bench "$build"/topkit-ablate
    compile_list | xargs -P "${BENCH_JOBS:-$(nproc)}" -I{} sh -c '{}'
    link topkit-fused-bench bench_fused.cu examples_fused.cu examples_05_select.cu examples_plan.c
    parts="bench_gpu.cu bench_replay.cu bench_inputs.cu bench_exact.cu bench_capture.c bench_report.c examples_tool_npy.c examples_plan.c"
    link topkit-ablate bench_ablate.cu $parts
    link topkit-bench bench_bench.c bench_callee.c bench_cases.c bench_run.c bench_exact_sort.cu bench_cub_topk.cu \
        bench_flashinfer_topk.cu examples_05_select.cu $parts
    grep -E "[1-9][0-9]* bytes spill" "$build"/examples_*.log && echo "note: a kernel spills registers"
    return 0
}

[ -n "${BENCH_BUILT:-}" ] || build
[ $# -gt 0 ] || exit 0

commit=${BENCH_COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}
capture=
[ -f bench/capture/scores.npy ] && capture="--capture bench/capture/scores.npy"
[ -n "$capture" ] && [ -f bench/capture/lengths.npy ] && capture="$capture --capture-lengths bench/capture/lengths.npy"
quick=
case " $BENCH_OPTIONS " in *" --quick "*) quick=--quick ;; esac

# run_suite SUITE LIMIT OPTIONS..: a suite that hangs is ended a minute after its time
run_suite() {
    suite=$1
    limit=$2
    shift 2
    program="$build/topkit-bench"
    [ "$suite" != ablate ] || program="$build/topkit-ablate"
    ${limit:+timeout -k 5 $((limit + 60))} "$program" --commit "$commit" --json "$out/bench_$suite.json" $capture \
        ${limit:+--budget-seconds "$limit"} "$@" >"$out/bench_$suite.txt"
}

# keep SUITE FILE: merges the suite's results into that file
keep() {
    [ -f "$out/$2" ] || ! [ -f "bench/results/$2" ] || cp "bench/results/$2" "$out/$2"
    python3 bench/merge.py "$out/$2" "$out/bench_$1.json"
}

status=0
end=$(($(date +%s) + ${budget:-0}))
while [ $# -gt 0 ]; do
    limit=
    if [ -n "$budget" ]; then
        limit=$(((end - $(date +%s)) / $#))
        [ $limit -ge 1 ] || limit=1
    fi
    rm -f "$out/bench_$1.json"
    failed=0
    case $1 in
    ablate) run_suite ablate "$limit" $quick $ABLATE_OPTIONS || failed=$? ;;
    peers) run_suite peers "$limit" --kernel topkit,cub,flashinfer $BENCH_OPTIONS peers || failed=$? ;;
    *) run_suite "$1" "$limit" $BENCH_OPTIONS "$1" || failed=$? ;;
    esac
    if [ $failed -ne 0 ]; then
        status=$failed
        echo "$1: exit code $failed"
        grep -e "not measured" -e " NO" "$out/bench_$1.txt" || tail -n 5 "$out/bench_$1.txt"
    fi
    if ! command -v python3 >/dev/null; then
        echo "there is no python3: merge $out/bench_$1.json elsewhere, by bench/merge.py"
    elif [ -f "$out/bench_$1.json" ]; then
        case $1 in ablate) kept=h200_ablation.json ;; *) kept=h200.json ;; esac
        keep "$1" "$kept" || status=1
        python3 bench/summary.py "$out/bench_$1.json"
    fi
    shift
done
exit $status
