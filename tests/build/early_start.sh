# early_start.sh: every kernel that topkit_select can launch waits for the kernel ahead of it (griddepcontrol), once, on sm_90a.
#
# Without the wait a launch with early_start reads scores before they are written, which only a GPU would show.
. "${0%/*}/common.sh"

checks=$((checks + 1))
if "$nvcc" -std=c++17 -arch=sm_90a -ptx -I"$source/include" -I"$source/examples" "$source/examples/05_select.cu" -o unit.ptx >log 2>&1; then
    kernels=$(grep -c '^\.visible \.entry\|^\.entry' unit.ptx)
    waits=$(grep -c 'griddepcontrol\.wait' unit.ptx)
    echo "$kernels kernels, $waits waits"
    { [ "$kernels" -gt 0 ] && [ "$kernels" = "$waits" ]; } || fail "a kernel does not wait, or waits twice"
else
    fail "05_select.cu does not compile"
fi
finish
