# common.sh: sourced by the build tests. meson.build hands in: source (top folder), build (its build folder), meson, nvcc, arch (the one to
# compile for), compilers (C++), installed (headers), simt_lib, version.
#
# A build test works in a folder of its own that goes away. `check WHAT COMMAND...` runs a command that must succeed and must print
# nothing: a warning is a failure. `refuse WHAT TEXT COMMAND...` runs one that must fail with TEXT in its message. `finish` ends the test.
# $quick holds nvcc's flags for compiling fast where the code that comes out is of no interest, if this nvcc has such a thing. $target and
# $target_ptx are those for $arch, assembled or not; with -arch=sm_90a nvcc would make PTX for sm_90 as well. $gpu is yes or no.
set -u
quick='-Ofc max'
[ -z "${nvcc:-}" ] || "$nvcc" --dryrun $quick -c "$source/tests/build/empty.cu" -o unit.o >/dev/null 2>&1 || quick=
target=-gencode=arch=compute_${arch:-},code=sm_${arch:-}
target_ptx=-gencode=arch=compute_${arch:-},code=compute_${arch:-}
gpu=yes
nvidia-smi -L >/dev/null 2>&1 || gpu=no
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
checks=0
failures=0

fail() {
    failures=$((failures + 1))
    echo "FAIL: $1"
    [ ! -s log ] || head -n 20 log
}

check() {
    what=$1
    shift
    checks=$((checks + 1))
    "$@" >log 2>&1
    code=$?
    if [ $code != 0 ] || [ -s log ]; then
        fail "$what (exit code $code)"
    fi
}

refuse() {
    what=$1
    text=$2
    shift 2
    checks=$((checks + 1))
    if "$@" >log 2>&1; then
        fail "$what: accepted"
    elif ! grep -q -e "$text" log; then
        fail "$what: refused, but not with '$text'"
    fi
}

finish() {
    echo "$checks checks, $failures failed"
    [ $failures = 0 ] && [ $checks != 0 ]
    exit
}
