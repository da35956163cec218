#!/usr/bin/env python3
"""Sets results of topkit-bench beside the peers and goals of peers.json.

    python3 bench/summary.py [--kernel topkit-auto] [bench/results/h200.json]

A line for each result of the kernel: time, share of the ceiling (the valid scores at the rate of a plain read of the same buffer, measured
in the same run), the best exact peer's time over ours, and which goals are missed. Then geometric means and how many goals are met.
Peers' times hold for one machine; on any other only shares and ratios between our own results mean something, and peers are left out.
The suites that compare kernels, types, orders or k within themselves, and the ablations, have lines of their own, whatever the kernel.
"""
import json
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
KEY = ("suite", "input", "lengths", "rows", "columns")
HALF_SHARE = 0.75  # of the ceiling at 512K, read as 16-bit scores
ORDER_RATIO = 1.15  # time over that of no order, from 128K columns on


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def key(entry):
    return tuple(entry[k] for k in KEY)


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def find_goal(result, peers):
    """The entry of peers.json for a result; captured scores have the shares of `normal` to reach, and no peer."""
    entry = peers.get(key(result))
    if entry is None and result["suite"] == "matrix":
        entry = peers.get(key(dict(result, input="normal")))
        entry = entry and {"goal": {"share": entry["goal"]["share"]}}
    return entry or {"goal": {}}


def judge(result, entry, normal_us, with_peers):
    """The goals of one result as (text, met), those that can be told here."""
    goal, us, share = entry["goal"], result["us"], result["share"]
    peer = entry.get("peer_us") if with_peers else None
    verdicts = []
    if "share" in goal:
        verdicts.append((f"share >= {goal['share']:.0%}", share >= goal["share"]))
    if "speedup" in goal and peer:
        verdicts.append((f"speed-up >= {goal['speedup']:.2f}", peer / us >= goal["speedup"]))
    if "ratio" in goal and peer:
        other = goal.get("or_share")
        text = f"time <= {goal['ratio']:.2f} peer" + (f" or share >= {other:.0%}" if other else "")
        verdicts.append((text, us <= goal["ratio"] * peer or (other is not None and share >= other)))
    if "times_normal" in goal and normal_us:
        verdicts.append((f"time <= {goal['times_normal']} normal ({us / normal_us:.2f})", us <= goal["times_normal"] * normal_us))
    if "us" in goal and with_peers:
        verdicts.append((f"<= {goal['us'] / 1000:.0f} ms", us <= goal["us"]))
    return verdicts


def print_results(results, peers, with_peers):
    """Prints a line for each result; returns (met, missed) and the speed-ups by suite and input."""
    normal = {key(r)[2:]: r["us"] for r in results if r["suite"] == "hard" and r["input"] == "normal"}
    met = missed = 0
    speedups = {}
    print(f"{'suite':7} {'input':11} {'lengths':7} {'rows':>6} {'columns':>8} {'us':>11} {'share':>7} {'peer':>10} {'speed-up':>8}  goal")
    for r in results:
        entry = find_goal(r, peers)
        peer = entry.get("peer_us") if with_peers else None
        verdicts = judge(r, entry, normal.get(key(r)[2:]) if r["suite"] == "hard" else None, with_peers)
        verdicts += [] if r["exact"] else [("exact", False)]
        if peer:
            speedups.setdefault((r["suite"], "all" if r["suite"] == "hard" else r["input"]), []).append(peer / r["us"])
        met += sum(ok for _, ok in verdicts)
        missed += sum(not ok for _, ok in verdicts)
        text = ", ".join("MISSED " + what for what, ok in verdicts if not ok) or ("met" if verdicts else "")
        print(f"{r['suite']:7} {r['input']:11} {r['lengths']:7} {r['rows']:6d} {r['columns']:8d} {r['us']:11.2f} {r['share']:7.1%} "
              + (f"{peer:10.1f} {peer / r['us']:8.2f}" if peer else f"{'':10} {'':8}") + f"  {text}")
    return met, missed, speedups


def print_mixed(results):
    """Rows of very different lengths beside causal ones: the shares may differ by ten points. Returns (met, missed)."""
    shares = {key(r): r["share"] for r in results if r["suite"] == "mixed"}
    met = missed = 0
    for (suite, name, lengths, rows, columns), causal in shares.items():
        mixed = shares.get((suite, name, "mixed", rows, columns))
        if lengths != "causal" or mixed is None:
            continue
        ok = mixed >= causal - 0.10
        met, missed = met + ok, missed + (not ok)
        print(f"mixed {name} {rows} x {columns}: share {mixed:.1%}, causal {causal:.1%}: {'within 10 points' if ok else 'MISSED'}")
    return met, missed


def by_shape(results, suite, *names):
    """The results of a suite as lists, one for each value of the names."""
    groups = {}
    for r in results:
        if r["suite"] == suite:
            groups.setdefault(tuple(r[n] for n in names), []).append(r)
    return groups


def line_of(suite, shape, cells, verdicts):
    text = "; ".join(("met " if ok else "MISSED ") + what for what, ok in verdicts)
    print(f"{suite:6} " + " ".join(f"{value:>7}" for value in shape) + ": " + ", ".join(cells) + (f"  [{text}]" if text else ""))
    return sum(ok for _, ok in verdicts), sum(not ok for _, ok in verdicts)


def print_comparisons(results):
    """A line for each shape of the suites types, any_k, order and peers. Returns (met, missed)."""
    lines = []
    for shape, group in by_shape(results, "types", "input", "rows", "columns").items():
        verdicts = [(f"{r['type']} {r['share']:.0%} >= {HALF_SHARE:.0%}", r["share"] >= HALF_SHARE)
                    for r in group if r["type"] != "f32" and r["columns"] == 524288]
        lines.append(("types", shape, group, [f"{r['type']} {r['us']:.1f} us {r['share']:.1%}" for r in group], verdicts))
    for shape, group in by_shape(results, "any_k", "input", "rows", "columns").items():
        cells = [f"{r['k']}{' AUTO' if r['kernel'] == 'topkit-auto' else ''} {r['us']:.1f} us" for r in group]
        lines.append(("any_k", shape, group, cells, []))
    for shape, group in by_shape(results, "order", "input", "rows", "columns").items():
        plain = next((r["us"] for r in group if (r["order"], r["ties"]) == ("none", "any")), None)
        ratios = [(f"{r['order']}, {r['ties']} ties", r["us"], plain and r["us"] / plain) for r in group]
        verdicts = [(f"{what} <= {ORDER_RATIO}", ratio <= ORDER_RATIO) for what, _, ratio in ratios[1:] if ratio and shape[2] >= 131072]
        cells = [f"{what} {us:.1f} us" + (f" ({ratio:.2f})" if ratio else "") for what, us, ratio in ratios]
        lines.append(("order", shape, group, cells, verdicts))
    for shape, group in by_shape(results, "peers", "input", "lengths", "rows", "columns").items():
        lines.append(("peers", shape, group, [f"{r['kernel']} {r['us']:.1f} us" + ("" if r["exact"] else " NOT EXACT") for r in group], []))
    met = missed = 0
    for suite, shape, group, cells, verdicts in lines:
        wrong = [("exact", False) for r in group if not r["exact"] and r["kernel"].startswith("topkit")]
        more = line_of(suite, shape, cells, verdicts + wrong)
        met, missed = met + more[0], missed + more[1]
    return met, missed


def print_ablations(results):
    """The fastest of each shape beside what the row kernel takes. Returns (met, missed)."""
    missed = 0
    for shape, group in by_shape(results, "ablate", "input", "rows", "columns").items():
        usual = [r for r in group if (r["stride"], r["target"], r["secondary"]) == (128, 2, 0)]
        fastest = min(group, key=lambda r: r["us"])
        cells = [f"{what} stride {r['stride']} target {r['target']:g} second {r['secondary']:g} {r['us']:.1f} us, {r['recoveries']} again"
                 for what, r in [("fastest", fastest)] + [("usual", r) for r in usual]]
        missed += line_of("ablate", shape, cells, [("exact", False) for r in group if not r["exact"]])[1]
    return 0, missed


def main(arguments):
    kernel = "topkit-auto"
    if arguments[:1] == ["--kernel"]:
        kernel, arguments = arguments[1], arguments[2:]
    run = load(arguments[0] if arguments else os.path.join(HERE, "results", "h200.json"))
    table = load(os.path.join(HERE, "peers.json"))
    kernels = sorted({r["kernel"] for r in run["results"]})
    kernel = kernel if kernel in kernels or not kernels else kernels[0]
    with_peers = run["machine"] == table["machine"]
    alone = ("types", "any_k", "order", "peers", "ablate")
    results = [r for r in run["results"] if r["kernel"] == kernel and r["k"] == table["k"] and r.get("type", "f32") == "f32"
               and r["suite"] not in alone]
    peers = {key(e): e for e in table["entries"]}
    print(f"\n{run['machine']}, {run['compiler']}, commit {run['commit']}, {kernel}; read {run['read_gb_s']} GB/s, "
          f"empty launch {run['empty_launch_us']} us" + ("" if with_peers else "; the peers were measured elsewhere and are left out"))
    met, missed, speedups = print_results(results, peers, with_peers) if results else (0, 0, {})
    for more in (print_mixed(results), print_comparisons(run["results"]), print_ablations(run["results"])):
        met, missed = met + more[0], missed + more[1]
    wanted = table["matrix_geometric_mean_speedup"]
    for (suite, name), values in speedups.items():
        mean = geometric_mean(values)
        text = f"{suite} {name}: {mean:.2f} times as fast as the best exact peer (geometric mean of {len(values)}; least {min(values):.2f})"
        if suite == "matrix" and name in wanted:
            ok = mean >= wanted[name]
            met, missed = met + ok, missed + (not ok)
            text += f"; goal {wanted[name]:.2f}: {'met' if ok else 'MISSED'}"
        print(text)
    print(f"goals met: {met}, missed: {missed}")


if __name__ == "__main__":
    main(sys.argv[1:])
