#!/usr/bin/env python3
"""Checks poolbench's API summary against CUPTI: the same calls, and medians within 10 %.

Usage: check_api_summary.py POOLBENCH_EXECUTABLE LIBCUPTI_CALLS.so [--pairs 5] [--iterations 400]
           [--size 4KiB] [--threshold max] [--strategy NAME]... [--json RESULTS.json]

LIBCUPTI_CALLS.so is built from cupti_calls.cpp, which says how. For each strategy `poolbench api-summary`
runs in pairs, once alone and once with CUPTI, in alternating order.

Calls: per function, the number in poolbench's log (set-up and loop) must be CUPTI's for the same process.
One cuInit may be missing from CUPTI's, which is loaded inside it.

Medians: CUPTI makes each call slower, so poolbench alone and CUPTI cannot be compared. In a process with
CUPTI, poolbench's clock stands around CUPTI's callbacks, and those read the same clock first thing at the
call's entry and last thing at its exit ("outer"). So both measured the same call with the same cost in it;
only the driver's way to the callbacks lies between them, which is the same for every call (seen on an H200:
121 to 126 ns, for calls from 0.3 to 6 us). It is taken from the other functions and subtracted. Functions are compared that the loop calls at least 100 times and the set-up hardly ever, since
CUPTI does not know the phases.
"""

import argparse
import collections
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

TOLERANCE = 0.10
LOOP_CALLS_MIN = 100
# Of the calls of a function that is compared, at most this share may be the set-up's.
SET_UP_SHARE_MAX = 0.05


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("poolbench")
    parser.add_argument("library")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=400)
    parser.add_argument("--size", default="4KiB")
    parser.add_argument("--threshold", default="max")
    parser.add_argument("--strategy", action="append")
    parser.add_argument("--json")
    asked = parser.parse_args()
    if asked.pairs < 1 or asked.iterations < LOOP_CALLS_MIN:
        parser.error(f"at least one pair, and at least {LOOP_CALLS_MIN} iterations")
    asked.strategy = asked.strategy or ["stream_ordered", "owned_pool", "sync"]
    return asked


def summary(asked, strategy, environment=None):
    """poolbench's own summary of one process."""
    command = [asked.poolbench, "api-summary", "--strategy", strategy, "--size", asked.size, "--threshold",
               asked.threshold, "--iterations", str(asked.iterations), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def with_cupti(asked, strategy):
    """poolbench's summary and CUPTI's calls, {function: [(outer ns, inner ns)]}, of the same process."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "calls.csv"
        environment = {"CUDA_INJECTION64_PATH": str(pathlib.Path(asked.library).resolve()),
                       "POOLBENCH_CUPTI_CSV": str(path)}
        ours = summary(asked, strategy, environment)
        if not path.is_file():
            sys.exit("CUPTI recorded nothing: does the driver load the library? "
                     "It needs a GPU, and the libcupti that the library was linked with.")
        calls = collections.defaultdict(list)
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                calls[row["function"]].append((int(row["outer_ns"]), int(row["inner_ns"])))
        return ours, dict(calls)


def counts(document):
    """{function: calls in set-up and loop}"""
    total = collections.Counter()
    for line in document["functions"]:
        total[line["function"]] += line["calls"]
    return total


def loop(document):
    """{function: line} of the functions whose medians can be compared."""
    total = counts(document)
    return {line["function"]: line for line in document["functions"]
            if line["phase"] == "loop" and line["calls"] >= LOOP_CALLS_MIN
            and total[line["function"]] - line["calls"] <= SET_UP_SHARE_MAX * total[line["function"]]}


def count_differences(ours, calls):
    """Lines that say which functions were not counted alike."""
    ours, theirs = counts(ours), collections.Counter({name: len(times) for name, times in calls.items()})
    differences = []
    for name in sorted(ours | theirs):
        missing = ours[name] - theirs[name]
        if missing != 0 and not (name == "cuInit" and missing == 1):
            differences.append(f"{name}: poolbench {ours[name]}, CUPTI {theirs[name]}")
    return differences


def measure(asked, strategy):
    """The medians of each pair, {function: [{alone, ours, outer, inner}]}, the calls of the last pair with
    CUPTI, and the lines of all differences in number."""
    medians, differences, compared = collections.defaultdict(list), [], 0
    for pair in range(asked.pairs):
        if pair % 2 == 0:
            alone = summary(asked, strategy)
            ours, calls = with_cupti(asked, strategy)
        else:
            ours, calls = with_cupti(asked, strategy)
            alone = summary(asked, strategy)
        differences += count_differences(ours, calls)
        if counts(alone) != counts(ours):
            differences.append("poolbench counts other calls with CUPTI than without")
        compared = sum(map(len, calls.values()))
        for name, line in loop(ours).items():
            if name in calls:
                medians[name].append({
                    "alone": loop(alone)[name]["median_ns"],
                    "ours": line["median_ns"],
                    "outer": statistics.median(outer for outer, _ in calls[name]),
                    "inner": statistics.median(inner for _, inner in calls[name]),
                    "calls": line["calls"],
                })
    return dict(medians), compared, sorted(set(differences))


def added(pairs):
    """What CUPTI adds to a call outside its own two clock reads, in nanoseconds."""
    return statistics.median(pair["ours"] - pair["outer"] for pair in pairs)


def judge(pairs, cost):
    """poolbench's time less CUPTI's cost over CUPTI's time, in the same process, and the verdict.

    `cost` comes from the other functions, so that a function's own error cannot hide in it."""
    middle = lambda key: statistics.median(pair[key] for pair in pairs)
    ratio = statistics.median((pair["ours"] - cost) / pair["outer"] for pair in pairs)
    if not middle("inner") <= middle("outer") <= middle("ours"):
        return ratio, "NOT NESTED"
    return ratio, "agrees" if abs(ratio - 1) <= TOLERANCE else "DIFFERS"


def main():
    asked = arguments()
    failed, results = False, {}
    for strategy in asked.strategy:
        medians, compared, differences = measure(asked, strategy)
        results[strategy] = {"medians": medians, "count_differences": differences}
        print(f"\n{strategy}, {asked.size}, threshold {asked.threshold}, {asked.iterations} iterations, "
              f"{asked.pairs} pairs")
        print("\n".join(f"  DIFFERS: {line}" for line in differences) if differences
              else f"  calls: the same for every function ({compared} calls in CUPTI's last process)")
        print(f"  {'median ns of a call':26} {'alone':>8} {'+CUPTI':>8} {'outer':>8} {'inner':>8} {'cost':>6} "
              f"{'(+CUPTI-cost)/outer':>20}")
        for name, pairs in sorted(medians.items()):
            others = [added(other) for key, other in medians.items() if key != name]
            cost = statistics.median(others) if others else 0.0
            ratio, verdict = judge(pairs, cost)
            failed |= verdict != "agrees"
            columns = " ".join(f"{statistics.median(pair[key] for pair in pairs):8.0f}"
                               for key in ("alone", "ours", "outer", "inner"))
            print(f"  {name:26} {columns} {cost:6.0f} {ratio:20.3f}  {verdict}")
        failed |= bool(differences) or not medians
    if asked.json:
        pathlib.Path(asked.json).write_text(json.dumps(results, indent=1))
    print("\nFAILED" if failed else "\nThe API summary agrees with CUPTI.")
    sys.exit(1 if failed else 0)


main()
