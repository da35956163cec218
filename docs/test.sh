#!/bin/sh
# test.sh: the documentation agrees with the sources.
#
#   sh docs/test.sh
#
# What docs/make.sh would write is what is there; every link to a file leads to one; every test that is named in README.md or docs/*.md, as
# `tests/FILE` "CASE", exists.
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
[ "$links" != 0 ] && [ "$named" != 0 ] || fail "no links or no tests were found: this test looks for the wrong thing"
echo "$links links, $((named)) named tests, $failures failures"
[ $failures = 0 ]
