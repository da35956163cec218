#!/bin/sh
# demo.sh: the main job on real input, from a fresh Debian 12 to a verified answer.
#
#   sh examples/demo.sh
#
# Selects the 2048 highest of each row of captured attention-indexer scores (bench/capture) with the tool topkit-select, on the GPU where
# there is one, else on the CPU executor, which runs the same kernel source. Then checks the answer against a sort. Installs Debian
# packages (as root or with sudo) and Meson from PyPI into .venv; says so, asks nothing, can be run again.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/setup.sh

need_packages g++ make pkg-config python3 libboost-context-dev
need_meson
find_cuda
device=cpu
if [ $cuda = enabled ] && [ "$gpu" != none ]; then
    device=cuda
    set -- -Dcuda=enabled -Dgpu_archs="$gpu"
else
    set -- -Dcuda=disabled
fi
configure build-demo "$@" -Dtests=disabled -Dexecutor=enabled
say "building topkit-select for $device"
"$meson" compile -C build-demo topkit-select >build-demo/compile.log 2>&1 || { tail -n 40 build-demo/compile.log; exit 1; }

set -- bench/capture/scores.npy --lengths bench/capture/lengths.npy --k 2048 --out build-demo/indices.npy --device $device --verify --time
say "topkit-select $*"
build-demo/examples/topkit-select "$@" || { say "failed: the answer is not exact, or there is none"; exit 1; }
say "the result is exact; indices are in build-demo/indices.npy"
