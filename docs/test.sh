#!/bin/sh
# test.sh: the documentation agrees with the sources.
#
#   sh docs/test.sh
#
# What docs/make.sh would write is what is there; every link to a file leads to one; every test that is named in README.md or docs/*.md, as
# `tests/FILE` "CASE" or as `test_NAME`, exists; every program of tests of the operator is named in docs/contract.md; docs/testing.md lists
# the mutations that tests/mutate.py makes.
set -u
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
}

sh docs/make.sh "$work" || fail "docs/make.sh"
diff -r docs/blocks "$work/docs/blocks" || fail "docs/blocks is not what its sources say: run docs/make.sh"
for page in README.md docs/*.md; do
    diff "$page" "$work/$page" || fail "$page quotes what its sources do not say: run docs/make.sh"
done

python3 bench/tables.py --check || fail "a table is not what bench/results/h200.json says"

links=0
for page in README.md docs/*.md docs/blocks/*.md; do
    folder=$(dirname "$page")
    for link in $(awk '/^```/ { code = !code } !code {
        while (match($0, /\]\([^)#]+/)) { print substr($0, RSTART + 2, RLENGTH - 2); $0 = substr($0, RSTART + RLENGTH) }
    }' "$page"); do
        case $link in http://* | https://*) continue ;; esac
        links=$((links + 1))
        [ -e "$folder/$link" ] || fail "$page: there is no $link"
    done
done

awk '{
    while (match($0, /`tests\/[A-Za-z0-9_\/.]+` "[^"]+"/)) {
        named = substr($0, RSTART + 1, RLENGTH - 2)
        $0 = substr($0, RSTART + RLENGTH)
        split(named, part, /` "/)
        print part[1] "\t" part[2]
    }
}' README.md docs/*.md | sort -u >"$work/named"
while IFS='	' read -r file name; do
    [ -f "$file" ] && grep -q -F -e "TEST_CASE(\"$name\"" "$file" || fail "no test case \"$name\" in $file"
done <"$work/named"
named=$(wc -l <"$work/named")

for name in $(grep -o -h '`test_[a-z0-9_]*`' README.md docs/*.md | tr -d '`' | sort -u); do
    [ -f "tests/$name.cu" ] || [ -f "tests/$name.cpp" ] || fail "there is no test $name"
done
for path in tests/test_select_*.cu; do
    grep -q -F "\`$path\`" docs/contract.md || fail "docs/contract.md names nothing of $path"
done
python3 tests/mutate.py --list >"$work/mutations" || fail "tests/mutate.py --list"
awk -F ' *[|] *' '/^## Mutation check/ { on = 1 } /^## Adding/ { on = 0 } on && NF == 5 && $2 !~ /^(what is broken|---)$/ { print $2 }' \
    docs/testing.md | diff "$work/mutations" - || fail "docs/testing.md does not list what tests/mutate.py breaks"
[ "$links" != 0 ] && [ "$named" != 0 ] || fail "no links or no tests were found: this test looks for the wrong thing"
echo "$links links, $((named)) named tests, $failures failures"
[ $failures = 0 ]
