#!/usr/bin/env python3
"""Runs `poolbench replay` and the bare loop in C++ in alternation on one trace, and prints the ratio and the
difference per event.

Usage: alternate_replay.py POOLBENCH REPLAY_PEER TRACE [PAIRS] [ROUNDS] [OPTION OF poolbench replay...]

Each pair is one process of each, in random order, at release threshold max; a process's value is the median over
its rounds. The table gives the median over pairs of poolbench's and C++'s time per event, their ratio, and their
difference in nanoseconds per event with its 95 % interval (order statistics of the pairs).
"""

import json
import math
import random
import signal
import subprocess
import sys
import tempfile

STRATEGIES = {"sync": "sync", "stream_ordered": "stream_ordered@max"}


def middle(values):
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def interval(values):
    """Order statistics that hold the median with at least 95 % probability, None for too few values."""
    ordered, count = sorted(values), len(values)
    for rank in range(count // 2, -1, -1):
        outside = 2 * sum(math.comb(count, k) for k in range(rank + 1)) / 2**count
        if outside <= 0.05:
            return ordered[rank], ordered[count - 1 - rank]
    return None


def output(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def poolbench(executable, trace, rounds, options):
    """{strategy: ns per event} of one process."""
    wanted = [part for strategy in STRATEGIES for part in ("--strategy", strategy)]
    report = json.loads(output([executable, "replay", trace, "--format", "json", "--repeats", str(rounds), "--threshold",
                                "max", *wanted, *options]))
    events = report["replayed"]["events"]
    times = {found["name"]: middle(found["times_ns"]) / events for found in report["combinations"]}
    return {strategy: times[name] for strategy, name in STRATEGIES.items()}


def peer(executable, operations, rounds):
    """{strategy: ns per event} of one process."""
    values = {}
    for line in output([executable, operations, str(rounds)]).splitlines():
        strategy, events, times = line.split(",")
        values[strategy] = middle([int(time) for time in times.split()]) / int(events)
    return values


def table(pairs):
    print(f"{'strategy':16} {'poolbench ns':>13} {'C++ ns':>10} {'ratio':>7} {'difference ns per event':>24} "
          f"{'95 % interval':>18}   {len(pairs)} pairs")
    for strategy in STRATEGIES:
        ours, theirs = ([pair[who][strategy] for pair in pairs] for who in ("poolbench", "peer"))
        differences = [a - b for a, b in zip(ours, theirs)]
        bounds = interval(differences)
        bounds = f"{bounds[0]:.1f} to {bounds[1]:.1f}" if bounds else "-"
        ratio = middle([a / b for a, b in zip(ours, theirs)])
        print(f"{strategy:16} {middle(ours):13.1f} {middle(theirs):10.1f} {ratio:7.3f} {middle(differences):24.1f} {bounds:>18}")


def main():
    ours, theirs, trace = sys.argv[1:4]
    pairs = int(sys.argv[4]) if len(sys.argv) > 4 else 12
    rounds = int(sys.argv[5]) if len(sys.argv) > 5 else 6
    options = sys.argv[6:]
    measured = []
    # A run that is cut short still shows the pairs that it finished.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.NamedTemporaryFile(suffix=".operations") as operations:
        output([ours, "replay", trace, "--dump-operations", operations.name, *options])
        runs = {
            "poolbench": lambda: poolbench(ours, trace, rounds, options),
            "peer": lambda: peer(theirs, operations.name, rounds),
        }
        try:
            for index in range(pairs):
                order = list(runs)
                random.Random(index).shuffle(order)
                measured.append({name: runs[name]() for name in order})
        finally:
            if measured:
                table(measured)


main()
