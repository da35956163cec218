# architectures.sh (D04): every function of the library compiles for all architectures, from the oldest to the newest, into one object.
#
# ptxas assembles the code, so an instruction that an architecture lacks is found here. What this nvcc does not know is left out.
. "${0%/*}/common.sh"

all=
for each in 80 86 89 90 90a 100 100a 120; do
    flag=-gencode=arch=compute_$each,code=sm_$each
    if ! "$nvcc" --dryrun $flag -c "$source/tests/build/empty.cu" -o unit.o >/dev/null 2>&1; then
        echo "left out: this nvcc does not know sm_$each"
        continue
    fi
    all="$all $flag"
done
# shellcheck disable=SC2086 # a list of flags
check "all together" "$nvcc" $quick -std=c++17 $all -I"$source/include" -c "$source/tests/build/every_call.cu" -o unit.o
finish
