#!/bin/sh
# run.sh: sets up what the tests need, builds them, runs them, and ends with `N passed, N failed, N skipped` alone on a line.
#
#   sh tests/run.sh [FOLDER]     FOLDER: where to build, build-tests by default
#
# Installs Debian packages (as root or with sudo) and Meson from PyPI into .venv; says so, asks nothing, can be run again. A test here
# is one of `meson test`: a test program with all its cases, or a build check. What needs a GPU is skipped without one, by name.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/setup.sh

folder=${1:-build-tests}
need_packages g++ make pkg-config python3 libboost-context-dev catch2 clang llvm libclang-rt-14-dev cmake
need_meson
find_cuda
arch=$gpu
[ "$arch" = none ] && arch=90a
quick= # without a GPU nobody runs the GPU's code here, and tests/build/spills.sh looks at the optimised one
if [ "$gpu" = none ] && [ $cuda = enabled ] && echo | nvcc --Ofast-compile=max -x cu -E - >/dev/null 2>&1; then
    quick=-Dcuda_args=--Ofast-compile=max
fi
[ "$gpu" != none ] || quick="$quick -Ddebug=false" # half of some compilations; tests and sanitizers have line numbers all the same
configure "$folder" -Dcuda=$cuda -Dgpu_archs="$arch" -Dtests=enabled -Dexecutor=enabled $quick

say "building"
if ! "$meson" compile -C "$folder" >"$folder/compile.log" 2>&1; then
    grep -v '^\[' "$folder/compile.log" | tail -n 60
    echo '0 passed, 1 failed, 0 skipped'
    exit 1
fi
say "testing"
"$meson" test -C "$folder" --print-errorlogs
status=$?

# one JSON object a line; a quote inside a string is escaped, so these patterns match the object's own members only
log=$folder/meson-logs/testlog.json
[ -s "$log" ] || { say "no test was run"; exit 1; }
count() {
    grep -c -E "\"result\": \"($1)\"" "$log"
}
skipped=$(count SKIP)
passed=$(count 'OK|EXPECTEDFAIL')
failed=$(($(wc -l <"$log") - passed - skipped))
[ "$skipped" = 0 ] || say "skipped:"
grep '"result": "SKIP"' "$log" | sed -e 's/^.*"name": "\([^"]*\)".*SKIP: \([^\\"]*\).*$/   \1: \2/' \
    -e 's/^{.*"name": "\([^"]*\)".*"stdout": "\([^\\"]*\).*$/   \1: \2/' -e 's/^{.*"name": "\([^"]*\)".*$/   \1: no reason given/'
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$status" = 0 ]
