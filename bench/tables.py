#!/usr/bin/env python3
"""Writes the tables of docs/performance.md, docs/fused.md and README.md from bench/results/*.json, between their markers.

    python3 bench/tables.py            rewrites the files
    python3 bench/tables.py --check    changes nothing; exit code 1 where a file differs from the results

A table lies between `<!-- table NAME -->` and `<!-- end -->`. Goals and peers come from bench/peers.json.
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
        self.by_key = {tuple(r[n] for n in names): r for r in load("results/h200.json")["results"]}
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
    lines = ["| input | rows | columns | causal | mixed |", "|---|---|---|---|---|"]
    for name in ("normal", "dsa"):
        for rows in (1024, 4096):
            for columns in (131072, 524288, 1048576):
                both = [results.get("mixed", name, lengths, rows, columns) for lengths in ("causal", "mixed")]
                lines.append(f"| {name} | {rows} | {width(columns)} | " + " | ".join(share(r) for r in both) + " |")
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
        lines.append(f"| {r['queries']} | {width(r['keys'])} | {r['heads']} | {r['input']} | {ms[0]:.3g} ms | {100 * r['tensor_share']:.1f} % | "
                     f"{ms[1]:.3g} ms | {ms[2]:.3g} ms | {peer} | {goal} |")
    return lines


def tables():
    results = Results()
    return {
        "prefill-normal": prefill(results, "normal"),
        "prefill-dsa": prefill(results, "dsa"),
        "prefill-capture": prefill(results, "capture"),
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
