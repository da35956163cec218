#!/usr/bin/env python3
"""Merges results of several runs of topkit-bench into one file.

    python3 bench/merge.py bench/results/h200.json run.json...

A new result replaces the old one of the same kernel, suite, shape, input, lengths and type of score; of topkit-ablate, of the same
sampling and threshold as well; of topkit-fused-bench, of the same queries, keys and heads. What is said of the machine comes from the
last run named that says it; every result keeps the commit it was measured at. Runs on another kind of machine are refused: times do not
mix.
"""
import json
import os
import sys

KEY = ("kernel", "suite", "rows", "columns", "k", "input", "lengths", "type", "stride", "target", "secondary", "queries", "keys", "heads")


def key(result):
    """Results from before there were other types have none."""
    return tuple({"type": "f32", **result}.get(name) for name in KEY)


def merge(into, run):
    """Returns `run` with the results of `into` that it does not replace placed in front, in a stable order."""
    if into and into["machine"] != run["machine"]:
        raise SystemExit(f"merge.py: results of {run['machine']} do not belong to those of {into['machine']}")
    results = {key(r): r for r in (into or {}).get("results", [])}
    results.update({key(r): r for r in run["results"]})
    return {**(into or {}), **run, "results": list(results.values())}


def write(path, data):
    """One result a line, so that a change of one is a change of one line."""
    head = {key: value for key, value in data.items() if key != "results"}
    text = json.dumps(head, indent=2)[:-2] + ',\n  "results": [\n'
    text += ",\n".join("    " + json.dumps(r) for r in data["results"]) + "\n  ]\n}\n"
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def main(arguments):
    if len(arguments) < 2:
        raise SystemExit(__doc__)
    data = None
    for path in ([arguments[0]] if os.path.exists(arguments[0]) else []) + arguments[1:]:
        with open(path, encoding="utf-8") as file:
            data = merge(data, json.load(file))
    write(arguments[0], data)


if __name__ == "__main__":
    main(sys.argv[1:])
