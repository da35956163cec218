#!/usr/bin/env python3
"""Times torch.topk, and FlashInfer's top_k where it is installed, by the protocol of topkit-bench and on the same scores.

    python3 bench/peers.py [--quick] [--budget-seconds S] [--json bench/results/peers_run.json] [matrix] [width] [decode]

The scores come from bench/inputs.cu, which this script builds with nvcc as a library into build/bench, and the read ceiling from
bench/replay.cu. Each call is captured in a CUDA graph; a sample is an event, some replays and an event, with a waiting kernel ahead of
it. Below 256 MB of scores there are several matrices, which the replays take in turn, so that none is still in the L2 cache (except in
decode). Neither kernel takes lengths: they read whole rows, -inf behind the length included. Every row's answer is checked.
FlashInfer's Python part chooses among its own kernels and CUB's; topkit-bench calls the two by themselves, from C++, and in one rotation
with ours: the peers `flashinfer` and `cub` of bench/callee.h. Results have the form of topkit-bench's and merge with them (bench/merge.py).
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import time

import torch

try:
    import flashinfer
except ImportError:
    flashinfer = None

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
SEED = 1234
K = 2048
KILO = 1024
INPUTS = ("normal", "dsa")  # their numbers in inputs.h are 0 and 1
COLD_BYTES = 256 << 20
COPIES = 16
CYCLES_PER_US = 3000


class Machine(ctypes.Structure):
    """bench_machine of gpu.h."""
    _fields_ = [("name", ctypes.c_char * 256), ("compiler", ctypes.c_char * 64)] + [
        (f, ctypes.c_int) for f in ("arch", "sm_count", "l2_bytes", "shared_per_block", "shared_per_sm", "threads_per_sm", "driver_version",
                                    "runtime_version")] + [("memory_bytes", ctypes.c_size_t), ("free_bytes", ctypes.c_size_t)]


class Replay(ctypes.Structure):
    """replay of gpu.h."""
    _fields_ = [("graphs", ctypes.c_void_p * COPIES)] + [(f, ctypes.c_int) for f in ("copies", "next", "lead", "per_sample")]


class Matrix(ctypes.Structure):
    """bench_matrix of matrix.h; type 0 is FP32."""
    _fields_ = [("scores", ctypes.c_void_p), ("type", ctypes.c_int), ("lengths", ctypes.c_void_p), ("rows", ctypes.c_int),
                ("columns", ctypes.c_int)]


class Read(ctypes.Structure):
    """bench_read of gpu.h."""
    _fields_ = [("buffers", ctypes.c_void_p * COPIES), ("bytes", ctypes.c_size_t), ("blocks", ctypes.c_int), ("out", ctypes.c_void_p),
                ("out_bytes", ctypes.c_size_t)]


def build_library():
    path = os.path.join(TOP, "build", "bench", "libbench_inputs.so")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    major, minor = torch.cuda.get_device_capability()
    arch = f"{major}{minor}"
    subprocess.run(["nvcc", "-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC", f"-gencode=arch=compute_{arch},code=sm_{arch}",
                    "-I" + os.path.join(TOP, "examples")] + [os.path.join(HERE, f) for f in ("gpu.cu", "replay.cu", "inputs.cu")]
                   + ["-o", path], check=True)
    library = ctypes.CDLL(path)
    library.bench_fill.argtypes = [ctypes.POINTER(Matrix), ctypes.c_int, ctypes.c_uint64, ctypes.c_int]
    library.replay_sample.restype = ctypes.c_double
    return library


def check(status):
    if status:
        raise SystemExit("peers.py: a call into the library failed; see above")


def shapes(suites):
    """(suite, input, lengths, rows, columns), as bench/cases.c lists them."""
    matrix = [(m, n * KILO) for n in (128, 256, 512, 1024) for m in (512, 1024, 2048, 4096, 8192)]
    width = [(m, n * KILO) for m in (512, 4096) for n in range(16, 65, 8)]
    decode = [(m, n * KILO) for n in (8, 32, 128, 512, 1024) for m in (1, 4, 16, 64, 128)]
    lists = {"matrix": ("causal", matrix), "width": ("causal", width), "decode": ("full", decode)}
    for suite in suites:
        lengths, pairs = lists[suite]
        for rows, columns in pairs:
            for name in INPUTS:
                yield suite, name, lengths, rows, columns


def kernels():
    yield "torch.topk", lambda scores: torch.topk(scores, K, dim=1, sorted=False)
    if flashinfer is not None:
        yield "flashinfer.top_k", lambda scores: flashinfer.top_k(scores, K, sorted=False)


def is_exact(scores, indices):
    """Every row: K different indices; as many scores above the least chosen one among them as in the whole row."""
    indices = indices.long()
    if not bool((torch.diff(torch.sort(indices, dim=1).values, dim=1) > 0).all()):
        return False
    chosen = torch.gather(scores, 1, indices)
    least = chosen.min(dim=1, keepdim=True).values
    above = torch.cat([(part > bound).sum(dim=1) for part, bound in zip(scores.split(256), least.split(256))])
    return bool(((chosen > least).sum(dim=1) == above).all())


class Call:
    """One kernel on the copies of one case, replayed from graphs."""

    def __init__(self, function, copies, warm, warm_up):
        self.graphs, self.outputs, self.next, self.lead = [], [], 0, 2 if warm else 0
        for scores in copies:
            function(scores)  # whatever it builds or tunes happens outside of the capture
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.outputs.append(function(scores)[1])
            self.graphs.append(graph)
        self.replay(warm_up)
        self.per_sample = 4
        us = self.sample()
        self.per_sample = 1 if us >= 200 else 32 if us <= 6 else int(200 / us)

    def replay(self, count):
        for _ in range(count):
            self.graphs[self.next].replay()
            self.next = (self.next + 1) % len(self.graphs)

    def sample(self):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.replay(self.lead)
        torch.cuda._sleep(CYCLES_PER_US * (100 + 20 * self.per_sample))
        begin.record()
        self.replay(self.per_sample)
        end.record()
        end.synchronize()
        return 1000.0 * begin.elapsed_time(end) / self.per_sample


def read_us(library, copies, warm, rounds):
    """Median time of a plain read of the same buffers."""
    read, replay = Read(), Replay()
    for i, scores in enumerate(copies):
        read.buffers[i] = scores.data_ptr()
    read.bytes = copies[0].numel() * 4
    check(library.bench_read_tune(ctypes.byref(read), len(copies)))
    check(library.replay_capture(ctypes.byref(replay), library.bench_read_enqueue, ctypes.byref(read), len(copies)))
    check(library.replay_warm_up(ctypes.byref(replay), 10))
    replay.lead = 2 if warm else 0
    us = statistics.median(library.replay_sample(ctypes.byref(replay)) for _ in range(rounds))
    library.replay_free(ctypes.byref(replay))
    return us


def measure(library, case, rounds):
    """The results of all kernels on one case; their rounds alternate."""
    suite, name, kind, rows, columns = case
    warm = suite == "decode"
    first = columns - rows if kind == "causal" else columns - 1
    lengths = torch.clamp(first + 1 + torch.arange(rows, device="cuda", dtype=torch.int32), max=columns).int()
    count = 1 if warm else min(COPIES, -(-COLD_BYTES // (rows * columns * 4)))
    copies = [torch.empty((rows, columns), device="cuda") for _ in range(count)]
    for i, scores in enumerate(copies):
        matrix = Matrix(scores.data_ptr(), 0, lengths.data_ptr(), rows, columns)
        check(library.bench_fill(ctypes.byref(matrix), INPUTS.index(name), SEED + i, 0))
    valid = 4.0 * int(lengths.long().sum())
    calls = {}
    for kernel, function in kernels():
        try:
            calls[kernel] = Call(function, copies, warm, 10)
        except (RuntimeError, ValueError) as error:
            print(f"{kernel} does not do {case}: {str(error).splitlines()[0]}", flush=True)
    samples = {kernel: [] for kernel in calls}
    for i in range(rounds):
        order = list(calls)
        for kernel in order[i % len(order):] + order[:i % len(order)] if order else []:
            samples[kernel].append(calls[kernel].sample())
    ceiling = read_us(library, copies, warm, rounds) * valid / (4.0 * rows * columns)
    for kernel, us in samples.items():
        us.sort()
        last = (calls[kernel].next - 1) % count
        median = us[(len(us) - 1) // 2]
        yield {"kernel": kernel, "route": kernel, "suite": suite, "rows": rows, "columns": columns, "k": K, "type": "f32", "ties": "any",
               "order": "none", "input": name, "lengths": kind,
               "us": median, "p95_us": us[-(-95 * len(us) // 100) - 1], "p99_us": us[-(-99 * len(us) // 100) - 1],
               "ceiling_us": ceiling, "exact": is_exact(copies[last], calls[kernel].outputs[last]), "share": ceiling / median,
               "valid_bytes": valid, "calls": 1, "rounds": len(us), "warm": warm}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", default=["matrix", "width", "decode"], help="matrix, width, decode; all three unless named")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--budget-seconds", type=float, default=1e9)
    parser.add_argument("--json", default=os.path.join(HERE, "results", "peers_run.json"))
    options = parser.parse_args()
    begin, library, machine = time.monotonic(), build_library(), Machine()
    check(library.bench_gpu_open(ctypes.byref(machine)))
    check(library.bench_replay_open(machine.sm_count))
    print(f"torch {torch.__version__}, FlashInfer {flashinfer.__version__ if flashinfer else 'not installed'}")
    results = []
    for case in shapes(options.suites):
        if time.monotonic() - begin > options.budget_seconds:
            print("the time is up; the other cases were not run")
            break
        for result in measure(library, case, 10 if options.quick else 50):
            results.append(result)
            print(f"{result['kernel']:16} {case[0]:7} {case[1]:7} {case[3]:5} x {case[4]:7} {result['us']:10.2f} us {result['share']:6.1%} "
                  f"{'exact' if result['exact'] else 'NOT EXACT'}", flush=True)
        torch.cuda.empty_cache()
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump({"machine": machine.name.decode(), "compiler": machine.compiler.decode(), "torch": torch.__version__,
                   "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
