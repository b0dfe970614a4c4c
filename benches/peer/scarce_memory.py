#!/usr/bin/env python3
"""Shows what poolbench does on a GPU whose memory another process holds: nearly all of it, all of it, and half of it.

BUNDLE is a folder of bench executables with poolbench (`poolbench bundle`); MEMORY_HOLDER is what nvcc made of
memory_holder.cu. What must be seen is printed as `holds` or `FAILS` (exit 1), with what the programs said; times are
shown beside those from before, and not judged.
"""

import argparse
import contextlib
import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile
import time

from alternate import Failed, bench

MIB = 1 << 20
SMALL_STRATEGIES, LARGE_STRATEGIES = "hoisted|sync|stream_ordered|owned_pool|arena|vmm", "hoisted|stream_ordered"
# Eight pools of their own reserve eight times 32 MiB, which no case asks for beforehand: the driver refuses it. The
# case of the next size needs little.
REFUSED, FOLLOWING = "streams/own_pools,64KiB/streams=8", "streams/hoisted,4MiB/streams=1"
ANSWER_SECONDS = 60


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("memory_holder", type=pathlib.Path)
    parser.add_argument("--small", default="4KiB", help="the size of cases that still fit (default: 4KiB)")
    parser.add_argument("--large", default="256MiB", help="the size of cases that do not (default: 256MiB)")
    parser.add_argument("--scarce-mib", type=int, default=400, help="what a bench finds where large cases do not fit (default: 400)")
    parser.add_argument("--tight-mib", type=int, default=200, help="what it finds where the driver refuses an allocation (default: 200)")
    parser.add_argument("--first-mib", type=int, default=1100, help="what is left at first, to see what a context takes (default: 1100)")
    return parser.parse_args()


class Holder:
    """The process that holds the memory."""

    def __init__(self, executable):
        self.process = subprocess.Popen([executable.resolve()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def leave(self, what):
        """Leaves so many MiB, or `half`, and returns what is then (held, free, total) in bytes."""
        self.ask(what)
        # What a process that has just ended held may come back a moment later.
        time.sleep(0.3)
        held, free, total = self.ask(what)
        print(f"another process holds {held / MIB:.0f} of {total / MIB:.0f} MiB, {free / MIB:.0f} MiB are free", flush=True)
        return held, free, total

    def ask(self, what):
        try:
            self.process.stdin.write(f"{what}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"the holder ended with {self.process.wait()}") from None
        if not select.select([self.process.stdout], [], [], ANSWER_SECONDS)[0]:
            raise Failed(f"the holder does not answer within {ANSWER_SECONDS} s")
        line = self.process.stdout.readline()
        found = re.fullmatch(r"holding (\d+), free (\d+), total (\d+)\n", line)
        if not found:
            raise Failed(f"the holder ended, or said {line!r}")
        return tuple(map(int, found.groups()))

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(timeout=ANSWER_SECONDS)


class Checks:
    def __init__(self):
        self.failures = 0

    def expect(self, claim, is_so):
        self.failures += not is_so
        print(f"{'holds' if is_so else 'FAILS'}  {claim}", flush=True)


class Benches:
    """The bench executables, and the cases that are looked at."""

    def __init__(self, asked):
        self.folder = asked.bundle.resolve()
        self.large = re.compile(f"^scratch_loop/({LARGE_STRATEGIES})/{asked.large}$")
        small = f"scratch_loop/({SMALL_STRATEGIES})/{asked.small}$"
        self.scratch = f"{small}|scratch_loop/({LARGE_STRATEGIES})/{asked.large}$"
        self.any_large = f"scratch_loop/hoisted/{asked.large}$"
        self.streams = f"{REFUSED}$|{FOLLOWING}$"
        self.seed = self.large_first()

    def executable(self, name):
        return str(self.folder / name)

    def large_first(self):
        """An order in which cases that do not fit come before cases that do."""
        for seed in range(10_000):
            listed = subprocess.run([self.executable("scratch_loop"), "--list", self.scratch], capture_output=True, text=True, check=True,
                                    env={**os.environ, "POOLBENCH_ORDER_SEED": str(seed)}).stdout
            order = [bool(self.large.match(line.split(":")[0])) for line in listed.splitlines() if line.endswith(": benchmark")]
            if len(order) < 3 or not any(order):
                sys.exit(f"scarce_memory.py: scratch_loop has too few of the cases {self.scratch}")
            if all(order[: sum(order)]):
                return seed
        sys.exit("scarce_memory.py: no seed puts the large cases first")

    def run_scratch(self):
        return self.run("scratch_loop", self.scratch)

    def run(self, name, wanted):
        """({id: median ns}, {id: reason of its skip}); what was said is printed."""
        values, said = bench(self.executable(name), wanted, 20, 60, {"POOLBENCH_ORDER_SEED": str(self.seed)})
        skipped = dict(re.findall(r"^poolbench: skipped (\S+): (.*)$", said, re.MULTILINE))
        for case, reason in skipped.items():
            print(f"    skipped {case}: {reason}")
        print(f"    {name}: {len(values)} cases measured, {len(skipped)} skipped", flush=True)
        return values, skipped

    def free_bytes(self):
        """What a bench process finds, by its own words; None where it finds enough."""
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run([self.executable("scratch_loop"), self.any_large, "--bench", "--test"], capture_output=True, text=True,
                                  env={**os.environ, "CRITERION_HOME": home})
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        found = re.search(r"needs \d+ bytes of device memory, (\d+) are free", done.stderr)
        return int(found[1]) if found else None

    def doctor(self):
        done = subprocess.run([self.executable("poolbench"), "doctor"], capture_output=True, text=True)
        print("\n".join(f"    doctor: {line}" for line in (done.stdout + done.stderr).splitlines()), flush=True)
        return done.returncode, done.stdout


def context_mib(benches, holder, leave_mib):
    """What a bench process takes of the device before its first case."""
    for _ in range(8):
        _, free, _ = holder.leave(leave_mib)
        try:
            found = benches.free_bytes()
        except Failed as failure:
            print(f"    {failure}")
            leave_mib += 400
            continue
        if found is not None:
            print(f"    a bench process takes {(free - found) / MIB:.0f} MiB for itself", flush=True)
            return -(-(free - found) // MIB)
        leave_mib = max(leave_mib - 150, 16)
    raise Failed("no amount of memory left makes a large case be skipped")


def scarce(benches, holder, checks, own_mib, asked):
    holder.leave(own_mib + asked.scarce_mib)
    values, skipped = benches.run_scratch()
    large = [case for case in skipped if benches.large.match(case)]
    checks.expect("every large case is skipped, with what it needs and what is free",
                  len(large) == len(LARGE_STRATEGIES.split("|")) and all(re.match(r"needs \d+ bytes .* are free", skipped[case]) for case in large))
    checks.expect("no large case has a number", not any(benches.large.match(case) for case in values))
    checks.expect("the cases after them are measured", len(values) == len(SMALL_STRATEGIES.split("|")))
    benches.doctor()
    return values


def tight(benches, holder, checks, own_mib, asked):
    holder.leave(own_mib + asked.tight_mib)
    values, skipped = benches.run("streams", benches.streams)
    checks.expect("what the driver refuses is skipped with its code", "CUDA_ERROR_OUT_OF_MEMORY (2)" in skipped.get(REFUSED, ""))
    checks.expect("the refused case has no number", REFUSED not in values)
    checks.expect("the case after it is measured", FOLLOWING in values)
    return values


def nothing(benches, holder, checks):
    """Not even a context fits."""
    holder.leave(16)
    try:
        benches.run_scratch()
        checks.expect("a bench that finds no memory at all ends well, with skips only", True)
    except Failed as failure:
        lines = [line for line in str(failure).splitlines() if line.startswith("poolbench:")]
        print("\n".join(f"    {line}" for line in str(failure).splitlines()))
        checks.expect("a bench that finds no memory at all ends with exit 3 and a line that says so",
                      "exit 3" in str(failure) and len(lines) >= 1 and "panicked" not in str(failure))


def half(benches, holder, checks, is_host):
    holder.leave("half")
    code, said = benches.doctor()
    if is_host:
        print("SKIPPED  doctor names the other process: the host device has none")
    else:
        checks.expect("doctor says that other processes use the GPU", code == 0 and "other processes use the GPU" in said)
    values, skipped = benches.run_scratch()
    checks.expect("every case is measured while half the memory is held", not skipped and bool(values))
    return values


def table(columns):
    before = columns["before"]
    print(f"{'median, us':40}" + "".join(f"{title:>10}{'':9}" for title in columns))
    for case in sorted(before):
        cells = (f"{values[case] / 1e3:10.2f} {values[case] / before[case]:6.3f}x " if case in values else f"{'-':>10}{'':9}" for values in columns.values())
        print(f"{case:40}" + "".join(cells))


def main():
    asked = arguments()
    benches, checks = Benches(asked), Checks()
    print("before")
    code, said = benches.doctor()
    is_host = "measuring the host device" in said
    checks.expect("doctor sees no other process", code == 0 and "other processes use the GPU" not in said)
    before = {**benches.run_scratch()[0], **benches.run("streams", benches.streams)[0]}
    columns = {"before": before}
    holder = Holder(asked.memory_holder)
    try:
        own_mib = context_mib(benches, holder, asked.first_mib)
        columns["scarce"] = scarce(benches, holder, checks, own_mib, asked)
        columns["scarce"].update(tight(benches, holder, checks, own_mib, asked))
        nothing(benches, holder, checks)
        columns["half"] = half(benches, holder, checks, is_host)
    finally:
        holder.close()
    print("after")
    columns["after"] = {**benches.run_scratch()[0], **benches.run("streams", benches.streams)[0]}
    checks.expect("afterwards every case is measured as before", columns["after"].keys() == before.keys())
    table(columns)
    sys.exit(1 if checks.failures else 0)


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"scarce_memory.py: {failure}")
