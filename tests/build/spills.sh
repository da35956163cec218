# spills.sh: no kernel of examples/ spills registers on sm_90a, and every one that topkit_select can launch waits for the kernel ahead of
# it, once (griddepcontrol). Prints what each takes: registers, stack, shared memory.
#
# A spill in the collecting loop costs half of the speed and no test of results would tell. Nor would one tell of matrix products that the
# compiler has put one behind the other, which it says in a line of its own. Without the wait a launch with early_start reads scores before
# they are written, which only a GPU would show.
#
# The operators have each kernel for both tie policies, and to optimise all of them takes minutes. Without a GPU those for any ties are left
# out: the others do what they do and more. $as_well names the ones that need more registers all the same. With a GPU in the machine, or
# with TOPKIT_SPILLS=all in the environment, all are looked at.
. "${0%/*}/common.sh"

as_well=topkit_any_k_select_kernel
all=${TOPKIT_SPILLS:-}
[ $gpu = no ] || all=all

for path in "$source"/examples/*.cu; do
    name=${path##*/}
    case $name in
    01_row_select.cu | 06_fused_indexer.cu) continue ;; # their kernels are in 05_select.cu and fused.cu
    esac
    unit=$path
    if [ "$all" != all ] && grep -q TOPKIT_LOWEST_INDEX "$path"; then
        # Behind the headers there is no use of TOPKIT_ANY but to name a kernel.
        grep '^#include ".*\.cuh"' "$path" >"$name"
        for kernel in $as_well; do
            ! grep -q "$kernel<" "$path" || echo "template __global__ void $kernel<TOPKIT_ANY>(topkit_select_job);" >>"$name"
        done
        printf '#define TOPKIT_ANY TOPKIT_LOWEST_INDEX\n#include "%s"\n' "$path" >>"$name"
        unit=$name
        echo "$name: kernels for any ties left out, but for those that need more (TOPKIT_SPILLS=all has all)"
    fi
    checks=$((checks + 1))
    if ! "$nvcc" -std=c++17 -O2 -lineinfo -arch=sm_90a -cubin --keep -Xptxas -v -I"$source/include" -I"$source/examples" "$unit" \
            -o unit.cubin >log 2>&1; then
        fail "$name does not compile"
        continue
    fi
    grep -q 'instructions are serialized' log && fail "$name has matrix products that wait for each other"
    # ptxas says for each kernel: Compiling entry function 'NAME' ..., N bytes spill stores, ..., Used N registers, ...
    awk -v file="$name" '
        /Compiling entry function/ { split($0, part, "\047"); kernel = part[2]; kernels++ }
        /bytes spill stores/ { spill = $0; sub(/^.*frame, /, "", spill); if ($0 !~ / 0 bytes spill stores, 0 bytes spill loads/) spilled++ }
        /Used [0-9]+ registers/ { used = $0; sub(/^.*Used /, "", used); print file " " kernel ": " used "; " spill }
        END { exit kernels == 0 || spilled > 0 }' log || { : >log; fail "$name has a kernel that spills, or none"; }
done
kernels=$(grep -c '^\.visible \.entry\|^\.entry' 05_select.ptx)
waits=$(grep -c 'griddepcontrol\.wait' 05_select.ptx)
checks=$((checks + 1))
echo "05_select.cu: $kernels kernels, $waits waits"
{ [ "$kernels" -gt 0 ] && [ "$kernels" = "$waits" ]; } || fail "a kernel of 05_select.cu does not wait, or waits twice"
finish
