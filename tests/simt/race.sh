#!/bin/sh
# race.sh: builds race.cu with ThreadSanitizer and checks that it reports the wrong kernels, and those alone.
#
#   tests/simt/race.sh [compiler]        clang++ by default; exits with 77 (skipped) where there is none, or it lacks TSan or Boost.Context
here=$(cd "$(dirname "$0")" && pwd)
compiler=${1:-clang++}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

echo 'int main() { return 0; }' >"$work/probe.cpp"
if ! "$compiler" -fsanitize=thread "$work/probe.cpp" -lboost_context -o "$work/probe" 2>/dev/null || ! "$work/probe"; then
    echo "skipped: $compiler with ThreadSanitizer and Boost.Context is not here"
    exit 77
fi

for source in simt simt_launch simt_collective simt_async simt_report simt_runtime simt_work; do
    "$compiler" -std=c++17 -O2 -g -DSIMT_TSAN=1 -c "$here/$source.cpp" -o "$work/$source.o" || exit 1
done
"$compiler" -fsanitize=thread -std=c++17 -O1 -g -ffp-contract=off -include "$here/simt_cuda.h" -I"$here" \
    -x c++ "$here/race.cu" -x none "$work"/*.o -lboost_context -o "$work/race" || exit 1

# A report is known by the exit code. Meson's harness asks sanitizers to abort instead, in UBSAN_OPTIONS, and clang's TSan holds a UBSan that
# reads them behind TSAN_OPTIONS.
unset UBSAN_OPTIONS
TSAN_OPTIONS=exitcode=66:abort_on_error=0:halt_on_error=0
export TSAN_OPTIONS

bad=0
for number in 0 1 2 3 4 5 6 7 8 9 10 11; do
    "$work/race" $number >"$work/log" 2>&1
    code=$?
    if [ $((number % 2)) -eq 0 ]; then
        [ $code -eq 0 ] && continue
        echo "kernel $number is right, but exit code $code:"
    else
        [ $code -eq 66 ] && grep -q 'data race' "$work/log" && grep -q 'race\.cu:' "$work/log" && continue
        echo "kernel $number has a race, which was not reported; exit code $code:"
    fi
    head -n 40 "$work/log"
    bad=1
done
[ $bad -eq 0 ] && echo "all races were reported, and nothing else"
exit $bad
