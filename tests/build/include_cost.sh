# include_cost.sh: including the library costs little and adds nothing.
#
# An empty kernel with topkit.cuh compiles in less than 1.2 times the processor time of one without: the least of two alternating runs
# of each, and a round that says otherwise is repeated four times before it is believed, for other tests run beside this one. All headers
# together add no device code or data.
. "${0%/*}/common.sh"

cp "$source/tests/build/empty.cu" plain.cu
{ echo '#include "topkit/topkit.cuh"'; cat plain.cu; } >with.cu

# sets `ms` to the processor time of all ended children; `times` must not run in a subshell, whose own it would tell
children_ms() {
    times >clock
    ms=$(awk 'NR == 2 { gsub(/[ms]/, " "); printf "%d", ($1 * 60 + $2 + $3 * 60 + $4) * 1000 }' clock)
}

# sets `cost` to what compiling $1 takes
measure() {
    children_ms
    before=$ms
    check "$1" "$nvcc" -std=c++17 -arch="sm_$arch" -I"$source/include" -c "$1" -o unit.o
    children_ms
    cost=$((ms - before))
}

for round in 1 2 3 4 5; do
    least_plain=1000000
    least_with=1000000
    for run in 1 2; do
        measure plain.cu
        [ $cost -ge $least_plain ] || least_plain=$cost
        measure with.cu
        [ $cost -ge $least_with ] || least_with=$cost
    done
    echo "round $round: empty kernel $least_plain ms, with topkit.cuh $least_with ms"
    [ $((least_with * 10)) -ge $((least_plain * 12)) ] || break
    [ $round != 5 ] || fail "topkit.cuh costs 1.2 times an empty kernel or more"
done

# without any kernel there must be nothing in the PTX but its head
echo '#include "topkit/topkit.cuh"' >only.cu
check "only includes" "$nvcc" -std=c++17 -arch="sm_$arch" -I"$source/include" -ptx only.cu -o only.ptx
grep -v -e '^//' -e '^[[:space:]]*$' -e '^\.version' -e '^\.target' -e '^\.address_size' only.ptx >log &&
    fail "the headers add device code or data"
finish
