#!/usr/bin/env python3
"""Writes the tables of docs/performance.md, docs/fused.md and README.md from bench/results/*.json, between their markers.

    python3 bench/tables.py            rewrites the files
    python3 bench/tables.py --check    changes nothing; exit code 1 where a file differs from the results

A table lies between `<!-- table NAME -->` and `<!-- end -->`. Goals and peers come from bench/peers.json. In tables of the suites
types, any_k, order and peers, and of the ablations, what was not measured is a dash.
"""
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
WIDTHS = (131072, 262144, 524288, 1048576)
ROWS = (512, 1024, 2048, 4096, 8192)


def load(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return json.load(file)


def width(columns):
    return f"{columns >> 20}M" if columns % (1 << 20) == 0 else f"{columns >> 10}K"


class Results:
    def __init__(self):
        names = ("kernel", "suite", "input", "lengths", "rows", "columns")
        self.all = load("results/h200.json")["results"]
        self.by_key = {tuple(r[n] for n in names): r for r in self.all if r.get("type", "f32") == "f32" and r["k"] == 2048}
        self.peers = {(e["suite"], e["input"], e["lengths"], e["rows"], e["columns"]): e for e in load("peers.json")["entries"]}

    def get(self, suite, name, lengths, rows, columns, kernel="topkit-auto"):
        return self.by_key.get((kernel, suite, name, lengths, rows, columns))

    def peer(self, suite, name, lengths, rows, columns):
        entry = self.peers.get((suite, name, lengths, rows, columns))
        return entry["peer_us"] if entry else None


def share(r):
    return f"{100 * r['ceiling_us'] / r['us']:.1f} %"


def against(r, peer):
    return f"{peer / r['us']:.2f}" if peer else "-"


def prefill(results, name):
    lines = ["| rows | " + " | ".join(width(c) for c in WIDTHS) + " |", "|---|" + "---|" * len(WIDTHS)]
    for rows in ROWS:
        cells = []
        for columns in WIDTHS:
            r = results.get("matrix", name, "causal", rows, columns)
            peer = results.peer("matrix", name, "causal", rows, columns)
            cells.append(f"{r['us']:.0f} us, {share(r)}" + (f", {against(r, peer)}" if peer else ""))
        lines.append(f"| {rows} | " + " | ".join(cells) + " |")
    return lines


def of_both(r):
    """The time of a plain loop that reads the valid scores and writes as much as the answer, over ours."""
    return f"{100 * r['read_write_us'] / r['us']:.1f} %" if r and "read_write_us" in r else "-"


def read_write(results):
    lines = []
    for name in ("normal", "dsa"):
        for rows in ROWS:
            lines.append([name, str(rows)] + [of_both(results.get("matrix", name, "causal", rows, c)) for c in WIDTHS])
    return table_of(["input", "rows"] + [width(c) for c in WIDTHS], lines)


def width_read_write(results):
    columns = tuple(range(16384, 65537, 8192))
    lines = []
    for name in ("normal", "dsa"):
        for rows in (512, 4096):
            lines.append([name, str(rows)] + [of_both(results.get("width", name, "causal", rows, c)) for c in columns])
    return table_of(["input", "rows"] + [width(c) for c in columns], lines)


def row_kernel(results):
    lines = ["| input | " + " | ".join(width(c) for c in WIDTHS) + " |", "|---|" + "---|" * len(WIDTHS)]
    for name in ("normal", "dsa", "capture"):
        cells = []
        for columns in WIDTHS:
            r = results.get("matrix", name, "causal", 2048, columns, "topkit-row")
            peer = results.peer("matrix", name, "causal", 2048, columns)
            cells.append(f"{r['us']:.0f} us, {share(r)}" + (f", {against(r, peer)}" if peer else ""))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def grid(results, suite, lengths, rows_list, columns_list):
    lines = ["| input | rows | " + " | ".join(width(c) for c in columns_list) + " |", "|---|---|" + "---|" * len(columns_list)]
    for name in ("normal", "dsa"):
        for rows in rows_list:
            cells = []
            for columns in columns_list:
                r = results.get(suite, name, lengths, rows, columns)
                cells.append(f"{r['us']:.1f}, {against(r, results.peer(suite, name, lengths, rows, columns))}" if r else "-")
            lines.append(f"| {name} | {rows} | " + " | ".join(cells) + " |")
    return lines


def hard(results):
    usual = results.get("hard", "normal", "mixed", 1024, 131072)["us"]
    lines = ["| input | time | over normal | peer's time over ours |", "|---|---|---|---|"]
    for key, r in results.by_key.items():
        if key[:2] == ("topkit-auto", "hard"):
            peer = results.peer("hard", key[2], "mixed", 1024, 131072)
            lines.append(f"| {key[2]} | {r['us']:.0f} us | {r['us'] / usual:.2f} | {against(r, peer)} |")
    return lines


def mixed(results):
    lines = ["| input | rows | columns | causal | mixed | causal, of both | mixed, of both |", "|---|---|---|---|---|---|---|"]
    for name in ("normal", "dsa"):
        for rows in (1024, 4096):
            for columns in (131072, 524288, 1048576):
                both = [results.get("mixed", name, lengths, rows, columns) for lengths in ("causal", "mixed")]
                lines.append(f"| {name} | {rows} | {width(columns)} | " + " | ".join([share(r) for r in both] + [of_both(r) for r in both]) + " |")
    return lines


def trace(results):
    lines = ["| prompt | input | ours | goal | best exact peer |", "|---|---|---|---|---|"]
    for columns, label, goal in ((250880, "245K", 33), (440320, "430K", 98)):
        for name in ("normal", "dsa"):
            r = results.get("trace", name, "causal", columns, columns)
            peer = results.peer("trace", name, "causal", columns, columns)
            lines.append(f"| {label} | {name} | {r['us'] / 1000:.1f} ms | {goal} ms | {peer / 1000:.1f} ms |")
    return lines


def summary(results):
    lines = ["| 2048 rows, causal, k = 2048 | " + " | ".join(width(c) for c in WIDTHS) + " |", "|---|" + "---|" * len(WIDTHS)]
    for label, kernel in (("pipelined, `normal`", "topkit-auto"), ("row (the tutorial), `normal`", "topkit-row")):
        cells = [results.get("matrix", "normal", "causal", 2048, c, kernel) for c in WIDTHS]
        lines.append(f"| {label} | " + " | ".join(f"{r['us']:.0f} us, {share(r)}" for r in cells) + " |")
    return lines


# ---- suites that compare within themselves ----

def line(cells):
    return "| " + " | ".join(cells) + " |"


def table_of(heads, lines):
    return [line(heads), "|" + "---|" * len(heads)] + [line(cells) for cells in lines]


def find(results, **wanted):
    """The result that has these values, or None."""
    return next((r for r in results if all(r.get(name) == value for name, value in wanted.items())), None)


def time_and_share(r):
    return f"{r['us']:.0f} us, {share(r)}" if r else "-"


def time_and_ratio(r, base):
    """The time, and how many times that of `base` it is."""
    if not r:
        return "-"
    return f"{r['us']:.1f}" + (f", {r['us'] / base['us']:.2f}" if base and base is not r else "") + ("" if r["exact"] else ", NOT EXACT")


def types(results):
    lines = []
    suite = [r for r in results.all if r["suite"] == "types"]
    for name in ("normal", "dsa"):
        for rows in (1024, 4096):
            for kind in ("f32", "bf16", "fp16"):
                cells = [time_and_share(find(suite, input=name, rows=rows, columns=c, type=kind)) for c in (131072, 524288, 1048576)]
                lines.append([name, str(rows), kind] + cells)
    return table_of(["input", "rows", "scores", "128K", "512K", "1M"], lines)


def any_k(results):
    all_k = (4096, 4097, 8192, 16384, 16385, 65536, 131072, 262144)
    suite = [r for r in results.all if r["suite"] == "any_k"]
    lines = []
    for name in ("normal", "dsa"):
        for rows in (256, 16, 1):
            measured = [find(suite, input=name, rows=rows, k=4096, kernel="topkit-auto")]
            measured += [find(suite, input=name, rows=rows, k=k, kernel="topkit-any-k") for k in all_k]
            lines.append([name, str(rows)] + [f"{r['us']:.1f}" if r else "-" for r in measured])
    return table_of(["input", "rows", "4096 by `AUTO`"] + [str(k) for k in all_k], lines)


def order(results):
    shapes = ((4096, 131072, "pipelined"), (1024, 524288, "pipelined"), (1024, 131072, "pipelined"), (64, 131072, "split"),
              (4096, 16384, "direct"))
    suite = [r for r in results.all if r["suite"] == "order"]
    lines = []
    for rows, columns, route in shapes:
        for name in ("normal", "dsa"):
            ways = [find(suite, input=name, rows=rows, columns=columns, ties=ties, order=way)
                    for ties, way in (("any", "none"), ("lowest", "none"), ("any", "index"), ("any", "score"))]
            lines.append([f"{rows} x {width(columns)} ({route})", name] + [time_and_ratio(r, ways[0]) for r in ways])
    return table_of(["shape", "input", "in no order", "lowest indices of equals", "by index", "by score"], lines)


def peers_beside(results):
    kernels = ("topkit-auto", "cub", "flashinfer")
    shapes = [("causal", *s) for s in ((1024, 131072), (4096, 131072), (1024, 524288), (2048, 1048576))]
    shapes += [("full", rows, columns) for columns in (8192, 32768, 131072, 524288, 1048576) for rows in (1, 4, 16, 64, 128)]
    shapes += [("causal", rows, columns) for rows in (512, 4096) for columns in (16384, 32768, 49152, 65536)]
    suite = [r for r in results.all if r["suite"] == "peers"]
    lines = []
    for lengths, rows, columns in shapes:
        cells = [f"{rows} x {width(columns)}, {lengths}"]
        for name in ("normal", "dsa"):
            measured = [find(suite, input=name, lengths=lengths, rows=rows, columns=columns, kernel=k) for k in kernels]
            cells += [time_and_ratio(r, measured[0]) for r in measured]
        lines.append(cells)
    return table_of(["shape"] + [f"{label}, {name}" for name in ("`normal`", "`dsa`") for label in ("topkit", "CUB", "FlashInfer")], lines)


# ---- ablations: every combination of bench/ablate.cu ----

STRIDES, TARGETS, SECOND = (16, 32, 64, 128, 256), (1.25, 1.5, 1.75, 2), 2.5


def load_ablations():
    try:
        return load("results/h200_ablation.json")["results"]
    except FileNotFoundError:
        return []


def again(r):
    """The time, and how many rows of a thousand were read again."""
    return f"{r['us']:.0f}, {1000 * r['recoveries'] / r['rows']:.0f}" if r else "-"


def ablation(results):
    lines = []
    for columns in (131072, 524288):
        for name in ("normal", "dsa", "capture"):
            for stride in STRIDES:
                lines.append([width(columns), name, str(stride)] + [
                    again(find(results, columns=columns, input=name, stride=stride, target=target, secondary=second))
                    for target in TARGETS for second in (0, SECOND)])
    gates = [f"{target:g}k{second}" for target in TARGETS for second in ("", f", {SECOND:g}k")]
    return table_of(["columns", "input", "stride"] + gates, lines)


def steps(results):
    """Of a gate for 2k, and of what is read again for one for 1.25k."""
    lines = []
    for columns in (131072, 524288):
        for name in ("normal", "dsa", "capture"):
            for stride in STRIDES:
                usual, tight, banded = (find(results, columns=columns, input=name, stride=stride, target=target, secondary=second)
                                        for target, second in ((2, 0), (1.25, 0), (1.25, SECOND)))
                cells = ["-"] * 4
                if usual:
                    cells = [f"{x:.0f}" for x in [usual["samples"]] + [usual["cycles"][s] for s in ("propose", "scan", "refine")]]
                cells += [f"{r['cycles']['recover']:.0f}" if r else "-" for r in (tight, banded)]
                lines.append([width(columns), name, str(stride)] + cells)
    heads = ["columns", "input", "stride", "samples", "propose", "scan", "refine", "again, of 1.25k", f"again, 1.25k and {SECOND:g}k"]
    return table_of(heads, lines)


# The best exact pipeline of others (heads, keys), ms; a goal is 0.75 of it.
FUSED_PEERS = {(64, 262144): (38.2, 28.5), (64, 1048576): (156.5, 117), (32, 262144): (20.1, 15), (32, 1048576): (75.1, 56)}


def fused(queries_at_least):
    lines = ["| queries | keys | heads | input | fused | tensor rate | two kernels | of these, scores | best of others | goal |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for r in load("results/h200_fused.json")["results"]:
        if (r["queries"] >= 1024) != queries_at_least:
            continue
        peer, goal = FUSED_PEERS.get((r["heads"], r["keys"]), ("-", "-")) if queries_at_least else ("-", "-")
        ms = [r[n] / 1000 for n in ("us", "two_kernel_us", "scores_us")]
        lines.append(f"| {r['queries']} | {width(r['keys'])} | {r['heads']} | {r['input']} | {ms[0]:.3g} ms | "
                     f"{100 * r['tensor_share']:.1f} % | {ms[1]:.3g} ms | {ms[2]:.3g} ms | {peer} | {goal} |")
    return lines


def tables():
    results = Results()
    ablations = load_ablations()
    return {
        "types": types(results),
        "any-k": any_k(results),
        "order": order(results),
        "peers": peers_beside(results),
        "ablation": ablation(ablations),
        "ablation-steps": steps(ablations),
        "prefill-normal": prefill(results, "normal"),
        "prefill-dsa": prefill(results, "dsa"),
        "prefill-capture": prefill(results, "capture"),
        "read-write": read_write(results),
        "width-read-write": width_read_write(results),
        "row": row_kernel(results),
        "width": grid(results, "width", "causal", (512, 4096), tuple(range(16384, 65537, 8192))),
        "decode": grid(results, "decode", "full", (1, 4, 16, 64, 128), (8192, 32768, 131072, 524288, 1048576)),
        "hard": hard(results),
        "mixed": mixed(results),
        "trace": trace(results),
        "summary": summary(results),
        "fused": fused(True),
        "fused-decode": fused(False),
    }


def main(arguments):
    stale = 0
    content = tables()
    for name in ("docs/performance.md", "docs/fused.md", "README.md"):
        path = os.path.join(ROOT, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        new = re.sub(r"(<!-- table ([a-z-]+) -->\n).*?(<!-- end -->)", lambda m: m[1] + "\n".join(content[m[2]]) + "\n" + m[3], text,
                     flags=re.S)
        if new == text:
            continue
        stale = 1
        if "--check" in arguments:
            print(f"{name} differs from bench/results: run python3 bench/tables.py")
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(new)
    return stale if "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
