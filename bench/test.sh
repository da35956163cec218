#!/bin/sh
# Both programs on the CPU executor, at sizes that it can do: every input exact, JSON that merges, a summary; wrong options refused.
#   sh bench/test.sh BUILD/bench/topkit-bench-cpu BUILD/bench/topkit-ablate-cpu
set -e
driver=$1
ablate=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

bench() {
    "$driver" one --read-mib 1 --rounds 2 --warmup 1 --memory-gib 0.25 "$@" 2>"$work/stderr" || { cat "$work/stderr" >&2; return 1; }
}

for input in normal dsa uniform sorted_asc sorted_desc equal twoval period128 heavy neginf denorm narrow worst_rising worst_alike \
    worst_huge; do
    bench --input $input --rows 2 --columns 4500 --k 300 --lengths mixed --json "$work/$input.json" >"$work/table" || fail "$input"
    tail -n 1 "$work/table" | grep -q "^one  *$input  *mixed  *f32 .* yes  *topkit-auto$" ||
        fail "$input is not in the table as exact: $(tail -n 1 "$work/table")"
done
bench --input dsa --rows 2 --columns 3000 --k 200 --ties lowest --order index --json "$work/lowest.json" >/dev/null || fail "lowest ties"
bench --input capture --capture "$here/capture/scores.npy" --capture-lengths "$here/capture/lengths.npy" --rows 2 --columns 9000 --k 512 \
    --json "$work/capture.json" >/dev/null || fail "captured scores"

if bench --input capture --capture "$here/capture/scores.npy" --capture-lengths "$here/capture/scores.npy" --rows 2 --columns 9000 --k 512 \
    >/dev/null 2>&1 || ! grep -q "not one int32 or int64 for each row" "$work/stderr"; then
    fail "lengths that are none"
fi

for type in bf16 fp16; do
    bench --type $type --input dsa --rows 2 --columns 9000 --k 512 --lengths mixed --json "$work/$type.json" >/dev/null || fail "$type"
done
for order in index score; do # of a long row that is collected, sampled and sorted, too
    bench --input twoval --rows 2 --columns 9000 --k 300 --route row --order $order --json "$work/$order.json" >/dev/null ||
        fail "order $order"
done
bench --input normal --rows 2 --columns 70000 --k 18433 --lengths full --json "$work/large_k.json" >/dev/null || fail "a large k"
bench --kernel topkit,cub,flashinfer --rows 2 --columns 600 --k 30 --json "$work/peers.json" >/dev/null || fail "peers that are not built"
grep -q "'cub' is unknown" "$work/stderr" && grep -q "'flashinfer' is unknown" "$work/stderr" ||
    fail "a peer that is not built is not named"
status=0 # bfloat16 by a route that does not read it: named, counted as a failure of ours, and not in the results
bench --type bf16 --route split --rows 2 --columns 600 --k 30 --json "$work/refused.json" >"$work/table" 2>/dev/null || status=$?
[ $status -eq 1 ] && grep -q "not measured by topkit-split" "$work/table" || fail "a refusal gives exit code $status"

# The suites' shapes are for a GPU: only their lists are looked at.
cases() {
    "$driver" --list "$@" | tail -n +2
}
count() {
    wanted=$1
    shift
    found=$(cases "$@" | wc -l)
    [ "$found" -eq "$wanted" ] || fail "$*: $found cases, not $wanted"
}
count 36 types
count 12 --type bf16 types
count 54 any_k
count 6 --k 16385 any_k
count 40 order
count 74 peers
count 4 --kernel topkit,topkit --rows 1 --columns 1048576 decode
cases types | grep -qv " topkit-row$" && fail "types has another route than row"
[ "$(cases order | grep -c " topkit-auto+lowest$")" -eq 10 ] || fail "order lacks the lowest indices"

for arguments in "" "no_such_suite" "one --rounds 0" "one --input no_such_input" "one --type f64" \
    "one --kernel nobody" "one --k 0" "one --no-such-option 1" "matrix --rows 7" 'one --commit a"b' \
    "one --rows 4294967297"; do
    status=0
    "$driver" $arguments >/dev/null 2>&1 || status=$?
    [ $status -eq 2 ] || fail "'$arguments' gives exit code $status"
done

# Gates that are surely too high: with a second threshold the band suffices, without one all is read again. And one that is surely right.
"$ablate" --rows 3 --columns 9000,20001 --k 600 --input dsa,capture --capture "$here/capture/scores.npy" --strides 16,64 \
    --targets 0.01,6 --secondary 0,4,7 --rounds 2 --warmup 1 --read-mib 1 --json "$work/ablation.txt" >"$work/table" 2>"$work/stderr" ||
    { cat "$work/stderr" >&2; fail "ablations"; }
for arguments in "--strides 0" "--targets 1,x" "--k 8000" "--input no_such_input" "--rows 0" "--no-such-option 1" "--json" \
    "--rows 4294967297" "--k 10x" '--commit a"b'; do
    status=0
    "$ablate" $arguments >/dev/null 2>&1 || status=$?
    [ $status -eq 2 ] || fail "ablate '$arguments' gives exit code $status"
done

command -v python3 >/dev/null || { echo "SKIP of merge.py and summary.py: there is no python3"; exit 0; }
python3 "$here/merge.py" "$work/all.json" "$work"/*.json
python3 "$here/merge.py" "$work/all.json" "$work/dsa.json" # replaces its own
python3 - "$work/all.json" <<'PYTHON' || fail "merged results"
import json, sys
results = json.load(open(sys.argv[1]))["results"]
assert len(results) == 23, len(results)
assert {r["kernel"] for r in results} == {"topkit-auto", "topkit-auto+lowest+index", "topkit-row+index", "topkit-row+score"}
assert {(r["type"], r["route"]) for r in results if r["type"] != "f32"} == {("bf16", "row"), ("fp16", "row")}
for r in results: # the same scores in half the bytes
    other = [s for s in results if s["type"] == "bf16" and s["input"] == r["input"] and s["columns"] == r["columns"]]
    assert not other or r["type"] == "bf16" or r["valid_bytes"] == other[0]["valid_bytes"] * (1 if r["type"] == "fp16" else 2)
assert [r["route"] for r in results if r["k"] == 18433] == ["any-k"]
assert {(r["order"], r["ties"]) for r in results} == {("none", "any"), ("index", "lowest"), ("index", "any"), ("score", "any")}
for r in results:
    assert r["exact"] is True and 0 < r["us"] <= r["p95_us"] <= r["p99_us"] and r["ceiling_us"] > 0 and r["valid_bytes"] > 0, r
    assert r["read_write_us"] > 0, r
    assert r["admitted_per_row"] >= min(r["k"], 1), r
PYTHON
python3 "$here/merge.py" "$work/ablated.txt" "$work/ablation.txt" "$work/ablation.txt" # is a file of its own; replaces its own
python3 - "$work/ablated.txt" <<'PYTHON' || fail "ablations' results"
import json, sys
results = json.load(open(sys.argv[1]))["results"]
assert len(results) == 2 * 2 * 2 * (3 + 2), len(results)
for r in results:
    assert r["exact"] is True and 0 < r["us"] <= r["p95_us"] and r["ceiling_us"] > 0 and r["samples"] > 0, r
    assert r["recoveries"] == (3 if r["target"] < 1 else 0) and r["opened"] == (r["recoveries"] if r["secondary"] == 0 else 0), r
    assert r["admitted_per_row"] >= 600 and all(r["cycles"][step] > 0 for step in ("propose", "scan", "recover", "refine")), r
dense, sparse = ([r["samples"] for r in results if r["stride"] == stride] for stride in (16, 64))
assert all(3.5 < d / s < 4.5 for d, s in zip(dense, sparse)), (dense, sparse)
PYTHON
python3 "$here/summary.py" "$work/all.json" | grep -q "^goals met: 0, missed: 0$" || fail "summary"
echo "both programs are exact on the executor; their results merge"
