#!/bin/sh
# The whole driver on the CPU executor, at sizes that it can do: every input exact, JSON that merges, a summary; wrong options refused.
#   sh bench/test.sh BUILD/bench/topkit-bench-cpu
set -e
driver=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

bench() {
    "$driver" one --read-mib 1 --rounds 3 --warmup 1 --memory-gib 0.25 "$@" 2>"$work/stderr" || { cat "$work/stderr" >&2; return 1; }
}

for input in normal dsa uniform sorted_asc sorted_desc equal twoval period128 heavy neginf denorm narrow worst_rising worst_alike worst_huge; do
    bench --input $input --rows 2 --columns 4500 --k 300 --lengths mixed --json "$work/$input.json" >"$work/table" || fail "$input"
    tail -n 1 "$work/table" | grep -q "^one  *$input  *mixed .* yes$" || fail "$input is not in the table as exact: $(tail -n 1 "$work/table")"
done
bench --input dsa --rows 2 --columns 3000 --k 200 --ties lowest --order index --json "$work/lowest.json" >/dev/null || fail "lowest ties"
bench --input capture --capture "$here/capture/scores.npy" --capture-lengths "$here/capture/lengths.npy" --rows 2 --columns 9000 --k 512 \
    --json "$work/capture.json" >/dev/null || fail "captured scores"

for arguments in "" "no_such_suite" "one --rounds 0" "one --input no_such_input" "one --k 100000" "one --no-such-option 1" "matrix --rows 7"; do
    status=0
    "$driver" $arguments >/dev/null 2>&1 || status=$?
    [ $status -eq 2 ] || fail "'$arguments' gives exit code $status"
done

command -v python3 >/dev/null || { echo "SKIP of merge.py and summary.py: there is no python3"; exit 0; }
python3 "$here/merge.py" "$work/all.json" "$work"/*.json
python3 "$here/merge.py" "$work/all.json" "$work/dsa.json" # replaces its own
python3 - "$work/all.json" <<'PYTHON' || fail "merged results"
import json, sys
results = json.load(open(sys.argv[1]))["results"]
assert len(results) == 17, len(results)
assert {r["kernel"] for r in results} == {"topkit-auto", "topkit-auto+lowest+index"}
for r in results:
    assert r["exact"] is True and 0 < r["us"] <= r["p95_us"] <= r["p99_us"] and r["ceiling_us"] > 0 and r["valid_bytes"] > 0, r
    assert r["admitted_per_row"] >= min(r["k"], 1), r
PYTHON
python3 "$here/summary.py" "$work/all.json" | grep -q "^goals met: 0, missed: 0$" || fail "summary"
echo "the driver is exact on the executor; its results merge"
