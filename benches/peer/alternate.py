#!/usr/bin/env python3
"""Runs poolbench's benches and the C++ peer in alternation and prints the ratio of each case.

Usage: alternate.py BENCH_EXECUTABLE[,BENCH_EXECUTABLE...] PEER_EXECUTABLE [PAIRS] [RESULTS.json] [FILTER]

Each bench executable runs in a process of its own. FILTER is a part of the ids; without it, all that both programs have is measured.

Each pair is one process of each, in random order; a case's value is the median over a process's
samples. The table gives, per case, the median over pairs of poolbench / C++, its 95 % interval (order
statistics of the pairs) and the largest ratio.
"""

import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

WARM_UP_MS, MEASUREMENT_MS, SAMPLES = 50, 150, 10
# What both programs have.
COMMON = "/(hoisted|sync|stream_ordered|owned_pool|hoisted,graph|stream_ordered,graph)/"


def poolbench(executables, wanted):
    """{id: median ns} of one process a bench, from Criterion's files."""
    values = {}
    for executable in executables.split(","):
        values.update(bench(executable, wanted))
    return values


def bench(executable, wanted):
    with tempfile.TemporaryDirectory() as home:
        command = [executable, wanted or COMMON, "--bench", "--noplot", "--nresamples", "1000", "--warm-up-time", str(WARM_UP_MS / 1e3),
                   "--measurement-time", str(MEASUREMENT_MS / 1e3), "--sample-size", str(SAMPLES)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "CRITERION_HOME": home})
        values = {}
        for path in pathlib.Path(home).glob("*/*/*/new/sample.json"):
            sample = json.loads(path.read_text())
            times = sorted(time / iters for time, iters in zip(sample["times"], sample["iters"]))
            middle = len(times) // 2
            median = times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2
            values["/".join(path.parts[-5:-2])] = median
        return values


def peer(executable, wanted):
    """{id: median ns} of one process, from its lines."""
    command = [executable, str(WARM_UP_MS), str(MEASUREMENT_MS), str(SAMPLES), wanted]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {name: float(value) for name, value in (line.rsplit(",", 1) for line in lines)}


def interval(sorted_values):
    """Order statistics that hold the median with at least 95 % probability, None for too few values."""
    count = len(sorted_values)
    for rank in range(count // 2, -1, -1):
        outside = 2 * sum(math.comb(count, k) for k in range(rank + 1)) / 2**count
        if outside <= 0.05:
            return sorted_values[rank], sorted_values[count - 1 - rank]
    return None


def middle(values):
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def table(runs):
    print(f"{'case':40} {'poolbench us':>12} {'C++ us':>10} {'ratio':>7} {'95 % interval':>16} {'max':>6}   {len(runs)} pairs")
    for name in runs[0]["peer"]:
        found = [run for run in runs if name in run["poolbench"]]
        if not found:
            continue
        ratios = sorted(run["poolbench"][name] / run["peer"][name] for run in found)
        bounds = interval(ratios)
        bounds = f"{bounds[0]:.3f} to {bounds[1]:.3f}" if bounds else "-"
        print(f"{name:40} {middle([run['poolbench'][name] for run in found]) / 1e3:12.2f} "
              f"{middle([run['peer'][name] for run in found]) / 1e3:10.2f} {middle(ratios):7.3f} {bounds:>16} "
              f"{ratios[-1]:6.3f}")


def main():
    ours, theirs = sys.argv[1], sys.argv[2]
    pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 12
    wanted = sys.argv[5] if len(sys.argv) > 5 else ""
    # A run that is cut short still shows the pairs that it finished.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    runs = []
    try:
        for index in range(pairs):
            order = [("poolbench", poolbench, ours), ("peer", peer, theirs)]
            random.Random(index).shuffle(order)
            runs.append({name: run(executable, wanted) for name, run, executable in order})
            print(f"pair {index + 1} of {pairs}", file=sys.stderr)
            if len(sys.argv) > 4:
                pathlib.Path(sys.argv[4]).write_text(json.dumps(runs))
    finally:
        if runs:
            table(runs)


main()
