#!/bin/sh
# cli.sh: topkit-select as its user meets it.
#
#   sh tests/tool/cli.sh TOPKIT_SELECT MAKE_NPY [DEVICE]        DEVICE: cpu (default) or cuda
#
# Every refusal is checked for five things: exit code 2, nothing on stdout, exactly one line on stderr, that line's words, and a folder in
# which not a file has appeared, vanished, changed or been replaced (names, inodes and checksums). Every success is verified by the tool's
# own oracle and, where a number is known by hand, against that number. Prints one line for each failed check and a count.
set -u
if [ $# -lt 2 ]; then
    echo 'usage: cli.sh TOPKIT_SELECT MAKE_NPY [DEVICE]' >&2
    exit 2
fi
tool=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
make_npy=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
device=${3:-cpu}
if [ ! -x "$tool" ] || [ ! -x "$make_npy" ]; then
    echo "cli.sh: $1 or $2 is not a program" >&2
    exit 2
fi
base=$(mktemp -d)
trap 'chmod -R u+w "$base"; rm -rf "$base"' EXIT
trap 'exit 130' INT TERM
mkdir "$base/work"
cd "$base/work" || exit 2
passed=0
failed=0

pass() { passed=$((passed + 1)); }
flunk() {
    failed=$((failed + 1))
    printf 'FAILED %s: %s\n' "$1" "$2"
    sed 's/^/    /' "$base/err"
}
snapshot() { ls -Ai . folder; cksum ./*.npy; }
count_lines() { wc -l <"$1" | tr -d ' '; }

# refused NAME WORDS ARGUMENT...: WORDS is a basic regular expression that the line must match
refused() {
    name=$1
    words=$2
    shift 2
    snapshot >"$base/before"
    "$tool" "$@" >"$base/out" 2>"$base/err"
    code=$?
    settle
}
# the five checks, on $name, $words, $code and the files that a run left
settle() {
    snapshot >"$base/after"
    if [ $code -ne 2 ]; then
        flunk "$name" "exit code $code, not 2"
    elif [ -s "$base/out" ]; then
        flunk "$name" 'it printed to stdout'
    elif [ "$(count_lines "$base/err")" -ne 1 ]; then
        flunk "$name" 'not exactly one line on stderr'
    elif ! grep -q "^topkit-select: .*$words" "$base/err"; then
        flunk "$name" "the line does not say: $words"
    elif ! cmp -s "$base/before" "$base/after"; then
        flunk "$name" 'the folder has changed'
    else
        pass
    fi
}
# accepted NAME ARGUMENT...
accepted() {
    name=$1
    shift
    "$tool" --device "$device" "$@" >"$base/out" 2>"$base/err"
    code=$?
    if [ $code -ne 0 ] || [ -s "$base/err" ]; then
        flunk "$name" "exit code $code"
    else
        pass
    fi
}
# printed NAME WORDS: of the last run's summary
printed() {
    if grep -q "$2" "$base/out"; then pass; else flunk "$1" "the summary does not say: $2"; fi
}
# holds NAME FILE TYPE EXPECTED: the elements of a .npy file that the tool wrote, as od prints them
holds() {
    found=$(od -An -v -j128 -t "$3" "$2" | tr -s ' \n' ' ' | sed 's/^ //; s/ $//')
    if [ "$found" = "$4" ]; then pass; else flunk "$1" "$2 holds $found, not $4"; fi
}

mkdir folder
"$make_npy" scores s.npy 4 1000
"$make_npy" floats tiny.npy 3 6  5 1 5 5 2 -0  nan 3 -inf 3 0 -0  -1 -2 -3 -4 -5 -6
"$make_npy" lengths l4.npy i4 1000 0 -7 300
"$make_npy" lengths l8.npy i8 1000 0 -9000000000 300
"$make_npy" lengths three.npy i4 6 5 2
"$make_npy" halves half.npy 2 7  3c00 7e01 c000 0001 8000 7c00 fc00  0000 3c01 3c00 bc00 fe55 0400 8001
"$make_npy" halves halves.npy 3 30000
printf 'an older result' >old.npy

# ---- the command line
refused 'no arguments' 'no scores file given'
refused 'k missing' '--k is missing' s.npy
refused 'k without value' '--k needs a value' s.npy --k
refused 'k swallowing an option' '--k needs a value' s.npy --k --verify
refused 'k empty' '--k needs a value' s.npy --k ''
refused 'k=' '--k needs a value' s.npy --k=
for k in -1 -0x1 abc 1.5 1e3 ' 3' +3 3x 0x10 - 2147483648 4294967297 99999999999999999999; do
    refused "k is '$k'" '--k takes a whole number from 0' s.npy --k "$k"
done
refused 'k above the route' 'k' s.npy --k 2147483647 --route row --out i.npy --device "$device"
refused 'repeat 0' '--repeat takes a whole number from 1' s.npy --k 3 --repeat 0
refused 'unknown option' "unknown option '--frobnicate'" s.npy --k 3 --frobnicate
refused 'unknown short option' "unknown option '-k'" s.npy -k 3
refused 'abbreviated option' "unknown option '--len'" s.npy --k 3 --len l4.npy
refused 'a flag with a value' '--verify takes no value' s.npy --k 3 --verify=yes
refused 'two scores files' 'one scores file is read' s.npy tiny.npy --k 3
refused 'ties' '--ties is any or lowest' s.npy --k 3 --ties highest
refused 'order' '--order is none, index or score' s.npy --k 3 --order value
refused 'route' '--route is auto, row, pipelined, split, direct or any-k' s.npy --k 3 --route fast
refused 'device' '--device is auto, cuda or cpu' s.npy --k 3 --device tpu
refused 'out without value' '--out needs a value' s.npy --k 3 --out

# ---- scores
refused 'no such file' 'nowhere.npy: No such file' nowhere.npy --k 3 --out i.npy
refused 'a folder' 'folder: Is a directory' folder --k 3 --out i.npy
refused 'a newline in a name' 'no?where: No such file' 'no
where' --k 3
: >empty.npy
refused 'an empty file' 'empty.npy: not a .npy file' empty.npy --k 3 --out i.npy
refused 'not npy' 'old.npy: not a .npy file' old.npy --k 3 --out i.npy
size=$(wc -c <s.npy)
for cut in 7 9 10 40 100 $((size - 4001)) $((size - 1)); do
    dd if=s.npy of=cut.npy bs=1 count="$cut" 2>"$base/err"
    refused "truncated to $cut bytes" 'cut.npy: .*\(file ends\|truncated\)' cut.npy --k 3 --out i.npy
done
cp s.npy long.npy
printf x >>long.npy
refused 'trailing garbage' 'long.npy: the file goes on behind' long.npy --k 3 --out i.npy
bad_header() { # NAME WORDS MAJOR BYTES HEADER
    "$make_npy" raw bad.npy "$3" "$4" "$5"
    refused "$1" "bad.npy: .*$2" bad.npy --k 3 --out i.npy
}
bad_header 'float64' "dtype is '<f8'" 1 48 "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }"
bad_header 'bfloat16, which has no dtype of its own' "dtype is '<V2'" 1 12 "{'descr': '<V2', 'fortran_order': False, 'shape': (2, 3), }"
bad_header 'int32 scores' "dtype is '<i4'" 1 24 "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }"
bad_header 'objects' "dtype is '|O'" 1 24 "{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }"
bad_header 'big-endian' 'big-endian' 1 24 "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }"
bad_header 'structured' 'structured' 1 24 "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }"
bad_header 'Fortran order' 'Fortran order' 1 24 "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }"
bad_header 'a vector' '1 dimension; scores have 2' 1 24 "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }"
bad_header 'a scalar' '0 dimensions' 1 4 "{'descr': '<f4', 'fortran_order': False, 'shape': (), }"
bad_header 'three dimensions' '3 dimensions' 1 24 "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }"
bad_header 'nine dimensions' 'too many dimensions' 1 4 "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }"
bad_header 'negative side' 'not a tuple' 1 24 "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }"
bad_header 'huge side' 'number that is too large' 1 24 "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 99999999999999999999), }"
bad_header 'huge product' 'too large for this machine' 1 24 "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"
bad_header 'a lie about the size' 'truncated' 1 24 "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000), }"
bad_header 'rows above int' 'at most' 1 0 "{'descr': '<f4', 'fortran_order': False, 'shape': (2147483648, 0), }"
bad_header 'columns above the limit' 'at most' 1 0 "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2147483647), }"
bad_header 'a missing key' 'lacks' 1 24 "{'descr': '<f4', 'shape': (2, 3), }"
bad_header 'a key twice' 'other keys' 1 24 "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
bad_header 'a foreign key' 'other keys' 1 24 "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 1}"
bad_header 'no dictionary' 'not the dictionary' 1 24 '[1, 2]'
bad_header 'text behind the dictionary' 'goes on behind its dictionary' 1 24 "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } x"
bad_header 'version 4' 'format version' 4 24 "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
rm bad.npy cut.npy long.npy empty.npy

# ---- lengths
refused 'no lengths file' 'nowhere.npy: No such file' s.npy --k 3 --lengths nowhere.npy --out i.npy
refused 'lengths of another row count' 'one number for each of the 4 rows' s.npy --k 3 --lengths three.npy --out i.npy
refused 'lengths as floats' "dtype is '<f4'" s.npy --k 3 --lengths s.npy --out i.npy
"$make_npy" lengths over.npy i4 1000 1001 3 3
refused 'a length above the columns' 'row 1 has length 1001' s.npy --k 3 --lengths over.npy --out i.npy
"$make_npy" lengths over.npy i8 1000 3 3 4294967297
refused 'a length that is 1 modulo 2^32' 'row 3 has length 4294967297' s.npy --k 3 --lengths over.npy --out i.npy
"$make_npy" raw over.npy 1 16 "{'descr': '<i4', 'fortran_order': False, 'shape': (4, 1), }"
refused 'lengths as a column' 'in 2 dimensions' s.npy --k 3 --lengths over.npy --out i.npy
rm over.npy

# ---- outputs
refused 'an output folder that is not there' 'No such file' s.npy --k 3 --out nowhere/i.npy
refused 'an output below a file' 'Not a directory' s.npy --k 3 --out old.npy/i.npy
refused 'an output that is a folder' 'is a folder' s.npy --k 3 --out folder
refused 'an output that is to be a folder' 'No such file' s.npy --k 3 --out i.npy/
refused 'an output that is a device' 'not a regular file' s.npy --k 3 --out /dev/null
refused 'an output that is the scores' 'is an input' s.npy --k 3 --out s.npy
refused 'an output that is the scores, spelt otherwise' 'is an input' s.npy --k 3 --out folder/../s.npy
refused 'values over the lengths' 'is an input' s.npy --k 3 --lengths l4.npy --values l4.npy
ln -s s.npy alias.npy
refused 'an output that is a link to the scores' 'is an input' s.npy --k 3 --out alias.npy
rm alias.npy
refused 'both outputs one file' 'are the same file' s.npy --k 3 --out i.npy --values folder/../i.npy
refused 'a good and a bad output' 'No such file' s.npy --k 3 --out old.npy --values nowhere/v.npy
if [ "$(id -u)" -ne 0 ]; then
    chmod a-w folder
    refused 'a folder that must not be written' 'Permission denied' s.npy --k 3 --out folder/i.npy
    chmod u+w folder
    chmod a-w old.npy
    refused 'a file that must not be written' 'Permission denied' s.npy --k 3 --out old.npy
    chmod u+w old.npy
fi
# A disk that fills up, played by a limit on file sizes.
name='a write that fails half-way'
snapshot >"$base/before"
(ulimit -f 1; exec "$tool" tiny.npy --k 100 --out old.npy --values v.npy --device "$device") >"$base/out" 2>"$base/err"
code=$?
words='old.npy: File too large'
settle
name='a summary that can not be printed'
words='summary'
if [ -w /dev/full ]; then
    : >"$base/out"
    "$tool" s.npy --k 3 --out old.npy --device "$device" >/dev/full 2>"$base/err"
    code=$?
    settle
fi

# Where there is a GPU this is no refusal.
name='no GPU'
words='--device cuda: '
snapshot >"$base/before"
"$tool" s.npy --k 3 --device cuda >"$base/out" 2>"$base/err"
code=$?
if [ $code -eq 0 ]; then pass; else settle; fi

# ---- what works
accepted 'the summary' s.npy --k 10 --lengths l4.npy --verify --time --repeat 3
printed 'the shape' '^scores .*s.npy: 4 x 1000 float32, lengths 0 to 1000$'
printed 'the request' '^select .*k 10, ties any, order none$'
printed 'the route' '^route .*\(row\|pipelined\|split\|direct\|any-k\): [0-9]* block'
printed 'the device' "^device .*$device: "
printed 'the time' '^time .* ms, median of 3'
printed 'the candidates' '^candidates [0-9]* admitted in 2 rows longer than k, [0-9]* compactions, [0-9]* recoveries$'
printed 'the verdict' '^exact: 4 rows, 20 indices checked$'
for ties in any lowest; do
    for order in none index score; do
        for k in 0 1 31 32 33 300 999 1000 1001; do
            accepted "k $k, ties $ties, order $order" s.npy --k "$k" --ties "$ties" --order "$order" --lengths l8.npy \
                --values v.npy --verify
        done
    done
done
accepted 'known numbers' tiny.npy --k 4 --ties lowest --order score --lengths three.npy --out i.npy --values v.npy --verify
holds 'known indices' i.npy d4 '0 2 3 4 1 3 4 2 0 1 -1 -1'
holds 'known values' v.npy x4 '40a00000 40a00000 40a00000 40000000 40400000 40400000 00000000 ff800000 bf800000 c0000000 ff800000 ff800000'
accepted 'its own values as scores' v.npy --k=2 --order=index --ties=lowest --out=old.npy --verify
holds 'an old result replaced' old.npy d4 '0 1 0 1 0 1'
accepted 'k above the columns' tiny.npy --k 8 --order index --out i.npy --verify
holds 'padding' i.npy d4 '0 1 2 3 4 5 -1 -1 0 1 2 3 4 5 -1 -1 0 1 2 3 4 5 -1 -1'
accepted 'float16' half.npy --k 3 --ties lowest --order score --out i.npy --values v.npy --verify
printed 'the type' '^scores .*half.npy: 2 x 7 float16$'
printed 'the route for float16' '^route *row: '
holds 'float16: indices' i.npy d4 '5 0 3 1 2 5'
holds 'float16: values' v.npy x2 '7c00 3c00 0001 3c01 3c00 0400'
accepted 'float16: NaNs come last, with their bits' half.npy --k 8 --ties lowest --order score --values v.npy --verify
holds 'float16: all values' v.npy x2 '7c00 3c00 0001 8000 c000 fc00 7e01 fc00 3c01 3c00 0400 0000 8001 bc00 fe55 fc00'
accepted 'float16: long rows' halves.npy --k 2048 --order index --verify
refused 'float16 on a route that does not read it' 'scores of that type' half.npy --k 3 --route pipelined --device "$device"
"$make_npy" raw none.npy 2 0 "{'shape': (0, 7), 'fortran_order': False, 'descr': '<f4'}"
accepted 'no rows, version 2' none.npy --k 3 --out i.npy --verify
printed 'nothing to do' 'none: nothing to do'
holds 'no results' i.npy d4 ''
"$make_npy" raw none.npy 3 0 '{"descr": "<f4", "fortran_order": False, "shape": (2, 0)}'
accepted 'no columns, version 3' none.npy --k 2 --out i.npy --values v.npy --verify
holds 'only padding' i.npy d4 '-1 -1 -1 -1'
holds 'only padding values' v.npy x4 'ff800000 ff800000 ff800000 ff800000'
accepted 'the summary without a file' s.npy --k 0
ln -s ../i.npy folder/link.npy
accepted 'an output through a link' tiny.npy --k 1 --ties lowest --out folder/link.npy --verify
holds 'the file behind the link' i.npy d4 '0 1 0'
if [ -h folder/link.npy ]; then pass; else flunk 'an output through a link' 'the link was replaced'; fi
chmod 640 i.npy
accepted 'permissions' tiny.npy --k 1 --out i.npy
case $(ls -l i.npy) in -rw-r-----*) pass ;; *) flunk permissions 'they were not kept' ;; esac
cp tiny.npy ./--odd.npy
accepted 'an odd name' --k 1 --verify --out odd.npy -- --odd.npy
tail -c +1 s.npy | "$tool" /dev/stdin --k 5 --verify --device "$device" >"$base/out" 2>"$base/err"
printed 'scores from a pipe' '^exact: 4 rows, 20 indices checked$'
cat s.npy s.npy | "$tool" /dev/stdin --k 5 >"$base/out" 2>"$base/err"
if grep -q 'goes on behind' "$base/err"; then pass; else flunk 'two files in a pipe' 'the second was not seen'; fi
"$tool" --version >"$base/out" 2>"$base/err"
printed 'the version' '^topkit-select [0-9]*\.[0-9]*\.[0-9]*$'
"$tool" --help >"$base/out" 2>"$base/err"
printed 'the help' '^usage: topkit-select'
for option in --k --lengths --out --values --ties --order --route --device --verify --time --repeat --help --version; do
    printed "the help on $option" "^ .*$option"
done
# nobody reads the summary any more: the pipe's other end is closed long before it is printed
{ sleep 1; "$tool" tiny.npy --k 1 --out unread.npy --device "$device" 2>"$base/err"; } | true
if [ -z "$(find . -name '.topkit-select*' -o -name unread.npy)" ]; then pass; else flunk 'a closed pipe' 'a temporary file is left'; fi
if [ -n "$(find . -name '.topkit-select*')" ]; then flunk 'temporary files' 'some are left'; else pass; fi

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
