#!/usr/bin/env python3
"""Runs poolbench's benches and the C++ peer in alternation and prints the ratio of each case.

Each bench executable runs in a process of its own. Each pair is one process of each, in random order; a case's value
is the median over a process's samples. The table gives, per case, the median over pairs of poolbench / C++, its 95 %
interval (order statistics of the pairs) and the largest ratio. A run that is cut short by SIGTERM shows the pairs that
it finished.
"""

import argparse
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

SAMPLES = 10
# What both programs have.
COMMON = "/(hoisted|sync|stream_ordered|owned_pool|hoisted,graph|stream_ordered,graph)/"


class Failed(Exception):
    """A program that ended with another code than 0, and what it said."""


def output(command, **settings):
    """(standard output, standard error) of a program that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", **settings)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr.strip()[-2000:]}")
    return done.stdout, done.stderr


def bench(executable, wanted, warm_up_ms=50, measurement_ms=150, environment=None):
    """({id: median ns}, standard error) of one process, the first from Criterion's files."""
    with tempfile.TemporaryDirectory() as home:
        command = [executable, wanted, "--bench", "--noplot", "--nresamples", "1000", "--warm-up-time", str(warm_up_ms / 1e3),
                   "--measurement-time", str(measurement_ms / 1e3), "--sample-size", str(SAMPLES)]
        _, said = output(command, env={**os.environ, **(environment or {}), "CRITERION_HOME": home})
        values = {}
        for path in pathlib.Path(home).glob("*/*/*/new/sample.json"):
            sample = json.loads(path.read_text())
            values["/".join(path.parts[-5:-2])] = middle([time / iters for time, iters in zip(sample["times"], sample["iters"])])
        return values, said


def poolbench(asked):
    """{id: median ns} of one process a bench."""
    values = {}
    for executable in asked.benches.split(","):
        values.update(bench(executable, asked.filter or COMMON, asked.warm_up_ms, asked.measurement_ms)[0])
    return values


def peer(asked):
    """{id: median ns} of one process, from its lines."""
    lines, _ = output([asked.peer, str(asked.warm_up_ms), str(asked.measurement_ms), str(SAMPLES), asked.filter])
    return {name: float(value) for name, value in (line.rsplit(",", 1) for line in lines.splitlines())}


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


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benches", help="bench executables, separated by commas")
    parser.add_argument("peer", help="what nvcc made of peer.cu")
    parser.add_argument("pairs", nargs="?", type=int, default=12)
    parser.add_argument("results", nargs="?", help="a JSON file for the pairs' values")
    parser.add_argument("filter", nargs="?", default="",
                        help="a regular expression on the ids, for both programs; otherwise all that both have")
    parser.add_argument("--warm-up-ms", type=int, default=50)
    parser.add_argument("--measurement-ms", type=int, default=150)
    return parser.parse_args()


def main():
    asked = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    runs = []
    try:
        for index in range(asked.pairs):
            order = [("poolbench", poolbench), ("peer", peer)]
            random.Random(index).shuffle(order)
            runs.append({name: run(asked) for name, run in order})
            print(f"pair {index + 1} of {asked.pairs}", file=sys.stderr)
            if asked.results:
                pathlib.Path(asked.results).write_text(json.dumps(runs))
    except Failed as failure:
        sys.exit(f"alternate.py: {failure}")
    finally:
        if runs:
            table(runs)


if __name__ == "__main__":
    main()
