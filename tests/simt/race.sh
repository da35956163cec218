#!/bin/sh
# race.sh: builds race.cu with ThreadSanitizer and checks that it reports the wrong kernels, and those alone.
#
#   tests/simt/race.sh [library [compiler]]     library: the executor built with -DSIMT_TSAN=1; none or '': built here
#
# The compiler is clang++ by default. Exits with 77 (skipped) where there is none, or it lacks TSan or Boost.Context.
here=$(cd "$(dirname "$0")" && pwd)
compiler=${2:-clang++}
library=${1:-}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

echo 'int main() { return 0; }' >"$work/probe.cpp"
if ! "$compiler" -fsanitize=thread "$work/probe.cpp" -lboost_context -o "$work/probe" 2>/dev/null || ! "$work/probe"; then
    echo "SKIP: $compiler with ThreadSanitizer and Boost.Context is not here"
    exit 77
fi

if [ -z "$library" ]; then
    for source in "$here"/simt*.cpp; do
        "$compiler" -std=c++17 -O2 -g -DSIMT_TSAN=1 -c "$source" -o "$work/$(basename "$source" .cpp).o" || exit 1
    done
    library=$work/libsimt.a
    ar rcs "$library" "$work"/*.o || exit 1
fi
"$compiler" -fsanitize=thread -std=c++17 -O1 -g1 -ffp-contract=off -include "$here/simt_cuda.h" -I"$here" \
    -x c++ "$here/race.cu" -x none "$library" -lboost_context -o "$work/race" || exit 1

# A report is known by the exit code. Meson's harness asks sanitizers to abort instead, in UBSAN_OPTIONS, and clang's TSan holds a UBSan
# that reads them behind TSAN_OPTIONS.
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
