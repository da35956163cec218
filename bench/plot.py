#!/usr/bin/env python3
"""Draws results of topkit-bench as SVG, with nothing but Python's own library.

    python3 bench/plot.py [--kernel topkit-auto] [--out docs/plots] [bench/results/h200.json]

share-INPUT.svg    share of the read ceiling by rows, a panel for each width of the prefill matrix; the goal is a dashed line
latency-INPUT.svg  time by rows, the same panels, logarithmic; the best exact peer and the read ceiling beside ours
width-INPUT.svg    time by width, short rows, a panel for each number of rows
decode-INPUT.svg   time by width, a panel for each number of rows

The background is transparent and the colours have middle tones, so that the pictures read on light and on dark pages; text takes the
reader's colour scheme. Peers and goals come from peers.json and are left out where the machine is another one.
"""
import json
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
KILO = 1024
OURS, PEER, CEILING, GOAL = "#2f81c7", "#d9822b", "#8a8f98", "#3aa35c"
PANEL_WIDTH, PANEL_HEIGHT, MARGIN_LEFT, MARGIN_TOP, GAP = 210, 170, 56, 64, 44
STYLE = ("<style>text{font:12px system-ui,sans-serif;fill:#444}.t{font-weight:600;font-size:14px}.s{font-size:11px}"
         "@media (prefers-color-scheme:dark){text{fill:#c9d1d9}}</style>")


def width_name(columns):
    return f"{columns // (KILO * KILO)}M" if columns % (KILO * KILO) == 0 else f"{columns // KILO}K"


def number(value):
    return f"{value:.0f}" if value >= 10 else f"{value:g}"


class Panel:
    """One set of axes. Points are (x, y) with x one of `xs`, evenly spaced; y is linear or logarithmic."""

    def __init__(self, left, top, title, xs, low, high, logarithmic):
        self.left, self.top, self.xs, self.low, self.high, self.logarithmic = left, top, xs, low, high, logarithmic
        self.parts = [f'<text class="t" x="{left}" y="{top - 8}">{title}</text>']

    def x(self, value):
        return self.left + 12 + (PANEL_WIDTH - 24) * self.xs.index(value) / max(1, len(self.xs) - 1)

    def y(self, value):
        scale = math.log if self.logarithmic else float
        return self.top + PANEL_HEIGHT * (1 - (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low)))

    def axes(self, ticks, labels, unit):
        for tick in ticks:
            y = self.y(tick)
            self.parts.append(f'<line x1="{self.left}" x2="{self.left + PANEL_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#8884" />')
            self.parts.append(f'<text class="s" text-anchor="end" x="{self.left - 5}" y="{y + 4:.1f}">{number(tick)}{unit}</text>')
        bottom = self.top + PANEL_HEIGHT + 16
        for value, label in zip(self.xs, labels):
            self.parts.append(f'<text class="s" text-anchor="middle" x="{self.x(value):.1f}" y="{bottom}">{label}</text>')

    def line(self, points, colour, dashes="", dots=True):
        points = [(self.x(x), self.y(y)) for x, y in sorted(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}" points="{path}" />')
        if dots:
            self.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}" />' for x, y in points]


def svg(title, panels, legend):
    width = MARGIN_LEFT + len(panels) * (PANEL_WIDTH + GAP)
    height = MARGIN_TOP + PANEL_HEIGHT + 30
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">', STYLE,
             f"<title>{title}</title>", f'<text class="t" x="8" y="18">{title}</text>']
    x = 8
    for name, colour, dashes in legend:
        parts.append(f'<line x1="{x}" x2="{x + 24}" y1="33" y2="33" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}" />')
        parts.append(f'<text class="s" x="{x + 29}" y="37">{name}</text>')
        x += 45 + 7 * len(name)
    for panel in panels:
        parts += panel.parts
    return "\n".join(parts + ["</svg>"]) + "\n"


def decades(low, high):
    """1, 2 and 5 times the powers of ten between two numbers."""
    ticks = [m * 10.0 ** e for e in range(-1, 7) for m in (1, 2, 5)]
    return [t for t in ticks if low <= t <= high]


def place(i):
    return MARGIN_LEFT + i * (PANEL_WIDTH + GAP), MARGIN_TOP


def share_panels(results, peers):
    panels = []
    low = min(0.5, math.floor(10 * min(r["share"] for r in results)) / 10)
    for i, columns in enumerate(sorted({r["columns"] for r in results})):
        mine = [r for r in results if r["columns"] == columns]
        rows = sorted({r["rows"] for r in mine})
        panel = Panel(*place(i), width_name(columns) + " columns", rows, low, 1.0, False)
        panel.axes([t / 10 for t in range(round(10 * low), 11)], rows, "")
        goals = [(r["rows"], peers[r["rows"], columns]["goal"]["share"]) for r in mine if (r["rows"], columns) in peers]
        if goals:
            panel.line(goals, GOAL, "5 4", dots=False)
        panel.line([(r["rows"], r["share"]) for r in mine], OURS)
        panels.append(panel)
    return panels


def time_panels(results, peers, panel_key, x_key, title, label):
    panels = []
    for i, value in enumerate(sorted({r[panel_key] for r in results})):
        mine = [r for r in results if r[panel_key] == value]
        xs = sorted({r[x_key] for r in mine})
        known = [(r[x_key], peers.get((r["rows"], r["columns"]), {})) for r in mine]
        others = [(x, entry["peer_us"]) for x, entry in known if "peer_us" in entry]
        ceilings = [(r[x_key], r["ceiling_us"]) for r in mine if not r["warm"]]  # of scores in the cache there is none
        times = [(r[x_key], r["us"]) for r in mine]
        every = [y for _, y in times + others + ceilings]
        low, high = 0.8 * min(every), 1.25 * max(every)
        panel = Panel(*place(i), title(value), xs, low, high, True)
        panel.axes(decades(low, high), [label(x) for x in xs], "")
        for points, colour, dashes in ((ceilings, CEILING, "2 3"), (others, PEER, "6 3"), (times, OURS, "")):
            if points:
                panel.line(points, colour, dashes)
        panels.append(panel)
    return panels


def draw(results, peers):
    """{file name: SVG} of one kernel's results; peers is a list of entries of peers.json, empty on another machine."""
    files = {}
    legend = [("topkit", OURS, "")] + ([("best exact peer", PEER, "6 3")] if peers else [])
    ceiling = [("read ceiling", CEILING, "2 3")]
    for name in sorted({r["input"] for r in results}):
        def of(suite):
            known = {(e["rows"], e["columns"]): e for e in peers if e["suite"] == suite and e["input"] == name}
            return [r for r in results if r["suite"] == suite and r["input"] == name], known

        mine, known = of("matrix")
        if mine:
            goal = [("goal", GOAL, "5 4")] if known else []
            files[f"share-{name}.svg"] = svg(f"Share of the read ceiling by rows, {name} scores, K = 2048", share_panels(mine, known),
                                             [legend[0]] + goal)
            files[f"latency-{name}.svg"] = svg(
                f"Microseconds by rows, {name} scores, K = 2048",
                time_panels(mine, known, "columns", "rows", lambda v: width_name(v) + " columns", str), legend + ceiling)
        for suite, text in (("width", "short rows"), ("decode", "scores in the L2 cache where they fit")):
            mine, known = of(suite)
            if mine:
                files[f"{suite}-{name}.svg"] = svg(
                    f"Microseconds by width, {text}, {name} scores, K = 2048",
                    time_panels(mine, known, "rows", "columns", lambda v: f"{v} row" + "s" * (v > 1), width_name),
                    legend + (ceiling if suite == "width" else []))
    return files


def main(arguments):
    settings = {"--kernel": "topkit-auto", "--out": os.path.join(os.path.dirname(HERE), "docs", "plots")}
    while arguments and arguments[0] in settings:
        settings[arguments[0]], arguments = arguments[1], arguments[2:]
    with open(arguments[0] if arguments else os.path.join(HERE, "results", "h200.json"), encoding="utf-8") as file:
        run = json.load(file)
    with open(os.path.join(HERE, "peers.json"), encoding="utf-8") as file:
        table = json.load(file)
    peers = table["entries"] if table["machine"] == run["machine"] else []
    results = [r for r in run["results"] if r["kernel"] == settings["--kernel"] and r["k"] == table["k"] and r.get("type", "f32") == "f32"]
    os.makedirs(settings["--out"], exist_ok=True)
    for name, text in draw(results, peers).items():
        with open(os.path.join(settings["--out"], name), "w", encoding="utf-8") as file:
            file.write(text)
        print(os.path.join(settings["--out"], name))


if __name__ == "__main__":
    main(sys.argv[1:])
