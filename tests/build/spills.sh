# spills.sh: no kernel of examples/ spills registers on sm_90a, and every one that topkit_select can launch waits for the kernel ahead of
# it, once (griddepcontrol). Prints what each takes: registers, stack, shared memory.
#
# A spill in the collecting loop costs half of the speed and no test of results would tell. Nor would one tell of matrix products that the
# compiler has put one behind the other, which it says in a line of its own. Without the wait a launch with early_start reads scores before
# they are written, which only a GPU would show.
. "${0%/*}/common.sh"

for path in "$source"/examples/*.cu; do
    name=${path##*/}
    case $name in
    01_row_select.cu | 06_fused_indexer.cu) continue ;; # their kernels are in 05_select.cu and fused.cu
    esac
    checks=$((checks + 1))
    if ! "$nvcc" -std=c++17 -O2 -lineinfo -arch=sm_90a -cubin --keep -Xptxas -v -I"$source/include" -I"$source/examples" "$path" \
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
