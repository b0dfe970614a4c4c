#!/usr/bin/env python3
"""Shows whether the order of the cases becomes part of a result.

Each round is a launch of every bench in the default order, one in shuffled order (POOLBENCH_ORDER_SEED, another seed
each round), and one process for each of a few cases alone, these arms in random order. A case's value is the median
over a process's samples; the table gives |log ratio| between launches, within each arm and from arm to arm. Order
does not matter where the arms differ by no more than launches of one arm do. A run that is cut short by SIGTERM shows
what it has.
"""

import argparse
import itertools
import json
import math
import pathlib
import random
import re
import signal
import sys
import time

from alternate import Failed, bench, middle

ARMS = ("default", "shuffled", "alone")
# Where there are more, so many are drawn.
DIVISIONS_MAX = 1000


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benches", help="bench executables, separated by commas")
    parser.add_argument("--filter", default="", help="a regular expression on the ids")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--alone", type=int, default=6, help="how many cases also run alone (default: 6)")
    parser.add_argument("--warm-up-ms", type=int, default=5)
    parser.add_argument("--measurement-ms", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=math.inf, help="no round begins that would end later")
    parser.add_argument("--results", help="a JSON file for all values")
    asked = parser.parse_args()
    if asked.rounds < 2 or asked.alone < 0:
        parser.error("at least 2 rounds, and not less than 0 cases alone")
    return asked


class Launches:
    """What was measured: for each arm and round, {id: median ns}."""

    def __init__(self, asked):
        self.asked = asked
        self.executables = asked.benches.split(",")
        self.found = {arm: [] for arm in ARMS}
        self.chosen = None

    def launch(self, executable, wanted, environment=None):
        return bench(executable, wanted, self.asked.warm_up_ms, self.asked.measurement_ms, environment)[0]

    def whole(self, environment=None):
        values = {}
        for executable in self.executables:
            values.update(self.launch(executable, self.asked.filter, environment))
        return values

    def alone(self):
        values = {}
        for executable, name in self.chosen:
            values.update(self.launch(executable, f"^{re.escape(name)}$"))
        return values

    def choose(self):
        """Cases that will run alone, from what a first launch finds; that launch counts for nothing."""
        found = [(executable, name) for executable in self.executables for name in sorted(self.launch(executable, self.asked.filter))]
        if not found:
            sys.exit(f"order.py: no case matches {self.asked.filter!r}")
        self.chosen = random.Random(2026).sample(found, min(self.asked.alone, len(found)))

    def round(self, index):
        runs = {
            "default": self.whole,
            "shuffled": lambda: self.whole({"POOLBENCH_ORDER_SEED": str(1000 + index)}),
            "alone": self.alone,
        }
        order = list(ARMS)
        random.Random(index).shuffle(order)
        for arm in order:
            self.found[arm].append(runs[arm]())


def distances(first, second, names):
    """|log ratio| of each case, between launches of two arms, or of one with itself."""
    pairs = itertools.combinations(first, 2) if first is second else itertools.product(first, second)
    return [abs(math.log(a[name] / b[name])) for a, b in pairs for name in names]


def shared(*arms):
    """Ids that every launch of these arms has."""
    return sorted(set.intersection(*(set(launch) for arm in arms for launch in arm)))


def row(title, values):
    ordered = sorted(values)
    if ordered:
        print(f"{title:42} {middle(ordered):8.4f} {ordered[int(0.9 * (len(ordered) - 1))]:8.4f} {ordered[-1]:8.4f}")


def excess_across(one, other, names):
    """By how much launches of two arms differ more than launches of one do; the case in the middle."""
    excesses = []
    for name in names:
        within = [distances(arm, arm, [name]) for arm in (one, other)]
        across = distances(one, other, [name])
        excesses.append(sum(across) / len(across) - sum(sum(part) / len(part) for part in within) / 2)
    return middle(excesses)


def permuted(one, other, names):
    """The share of the divisions of the launches in two arms that differ at least as much as these do."""
    launches = one + other
    seen = excess_across(one, other, names)
    if math.comb(len(launches), len(one)) <= DIVISIONS_MAX:
        divisions = list(itertools.combinations(range(len(launches)), len(one)))
    else:
        source = random.Random(2026)
        divisions = [source.sample(range(len(launches)), len(one)) for _ in range(DIVISIONS_MAX)]
    as_much = 0
    for division in divisions:
        parts = [[launches[i] for i in range(len(launches)) if (i in division) == inside] for inside in (True, False)]
        as_much += excess_across(*parts, names) >= seen
    return as_much / len(divisions), len(divisions)


def apart(one, other, names):
    """Cases whose values in one arm all lie on one side of those in the other, and how many chance gives."""
    found = []
    for name in names:
        a, b = ([launch[name] for launch in arm] for arm in (one, other))
        if max(a) < min(b) or max(b) < min(a):
            found.append((name, middle(b) / middle(a)))
    return found, len(names) * 2 / math.comb(len(one) + len(other), len(one))


def report(found):
    default, shuffled, alone = (found[arm] for arm in ARMS)
    whole, single = shared(default, shuffled), shared(default, alone)
    print(f"{min(len(default), len(shuffled))} rounds; |log ratio| between launches        median     90 %      max")
    for arms, names in ((("default", "shuffled"), whole), (("default", "alone"), single)):
        for one, other in itertools.combinations_with_replacement(arms, 2):
            row(f"{one} / {other} ({len(names)} cases)", distances(found[one], found[other], names))
    for title, arm, names in (("shuffled", shuffled, whole), ("alone", alone, single)):
        if not names:
            continue
        share, divisions = permuted(default, arm, names)
        print(f"default against {title}: of {divisions} divisions of these launches in two arms {100 * share:.0f} % differ as much or more")
        cases, by_chance = apart(default, arm, names)
        print(f"default against {title}: {len(cases)} of {len(names)} cases lie apart in all launches; chance gives {by_chance:.1f}")
        for name, ratio in cases:
            print(f"    {name}: {title} / default {ratio:.3f}")


def main():
    asked = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    begun, longest = time.monotonic(), 0.0
    launches = Launches(asked)
    try:
        launches.choose()
        for index in range(asked.rounds):
            started = time.monotonic()
            if started - begun + longest > asked.seconds:
                print(f"out of time after {index} of {asked.rounds} rounds", file=sys.stderr)
                break
            launches.round(index)
            longest = max(longest, time.monotonic() - started)
            print(f"round {index + 1} of {asked.rounds}, {time.monotonic() - begun:.0f} s", file=sys.stderr)
            if asked.results:
                pathlib.Path(asked.results).write_text(json.dumps(launches.found))
    except Failed as failure:
        sys.exit(f"order.py: {failure}")
    finally:
        if min(len(launches.found[arm]) for arm in ARMS) >= 2:
            report(launches.found)
        else:
            print("order.py: fewer than two rounds, nothing to compare", file=sys.stderr)


if __name__ == "__main__":
    main()
