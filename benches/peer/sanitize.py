#!/usr/bin/env python3
"""Runs every bench executable once, in Criterion's test mode and at small sizes, under compute-sanitizer's tools.

BUNDLE is a folder of bench executables (`poolbench bundle`); PLANTED is what nvcc made of planted_faults.cu, whose
faults each tool must find, or its silence about the benches says nothing. Prints a line for each run: what the tool
found, and in which cases; then a table. Exit 1 where a tool found something in a bench, missed a planted fault, or did
not end.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# What matters most here comes first, and with it the slowest, so that a limit on the time cuts the rest.
TOOLS = {
    # Of an allocation's use, its allocation and its free: whether the streams order them. About eight times as slow
    # as memcheck alone.
    "stream_order": ["--tool", "memcheck", "--track-stream-ordered-races", "all"],
    "memcheck": ["--tool", "memcheck", "--leak-check", "full"],
    "initcheck": ["--tool", "initcheck"],
    "racecheck": ["--tool", "racecheck"],
}
# Name, executable, filter on the ids. A capture of `sync` is refused on purpose, and the tools report each refusal.
# Of the traces, the two that take the least time: a training step takes initcheck ten seconds a strategy. The longest
# comes first, so that no run is left alone at the end.
BENCHES = [
    ("trace_replay", "trace_replay", "/(inference|survivors)$"),
    ("scratch_loop", "scratch_loop", "/(4KiB|64KiB|1MiB)$"),
    ("variable_size", "variable_size", "/(64KiB|1MiB)$"),
    ("graph_replay", "graph_replay", "/(hoisted|stream_ordered),(eager|graph)/(4KiB|64KiB|1MiB)$"),
    ("multi_stream", "streams", "^streams/.*,64KiB/"),
    ("cross_stream", "streams", "^cross_stream_reuse/.*/1MiB$"),
    ("release_threshold", "release_threshold", "/1MiB$"),
    ("call_latency", "call_latency", "/(0B|4KiB|1MiB)$"),
]
# A tool's filters where it has its own.
NARROWER = {
    # Only what comes from a pool has an order.
    "stream_order": {
        "trace_replay": "/(stream_ordered|owned_pool)/(inference|survivors)$",
        "scratch_loop": "/(stream_ordered|owned_pool)/(4KiB|64KiB|1MiB)$",
        "variable_size": "/(stream_ordered|owned_pool)/(64KiB|1MiB)$",
        "graph_replay": "/stream_ordered,(eager|graph)/(4KiB|64KiB|1MiB)$",
        "multi_stream": "^streams/(shared_pool|own_pools),64KiB/",
    },
    # It watches shared memory. The kernels, the same two everywhere, have none, and should they get some, a few cases
    # of each workload show it.
    "racecheck": {
        "trace_replay": "/(hoisted|stream_ordered)/inference$",
        "scratch_loop": "/(hoisted|stream_ordered)/(4KiB|64KiB)$",
        "variable_size": "/(hoisted|stream_ordered)/64KiB$",
        "graph_replay": "/stream_ordered,(eager|graph)/4KiB$",
        "multi_stream": "^streams/(shared_pool|own_pools),64KiB/streams=2$",
        "cross_stream": "^cross_stream_reuse/policy=(all|none),event/1MiB$",
    },
}
# Which tool must find it, and in which words: another report is no proof. False asks whether it does, since not every
# version looks there.
PLANTED = {
    "out_of_bounds": ("memcheck", True, "Invalid __global__ read"),
    "leak": ("memcheck", True, "Leaked"),
    "race": ("racecheck", True, "Race reported"),
    "uninitialised": ("initcheck", True, "Uninitialized __global__ memory read"),
    "uninitialised_from_pool": ("initcheck", False, "Uninitialized __global__ memory read"),
    "use_before_alloc": ("stream_order", True, "potentially accessed before it is allocated"),
    "use_after_free": ("stream_order", False, "Use-after-free"),
}
FOUND_CODE = 9


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("planted", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=4, help="runs at a time (default: 4)")
    parser.add_argument("--seconds", type=float, default=60, help="the time of one run (default: 60)")
    parser.add_argument("--all-seconds", type=float, default=float("inf"), help="no run begins or goes on later")
    parser.add_argument("--logs", type=pathlib.Path, help="a folder for what each run said")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="only this tool; may be given again")
    parser.add_argument("--sanitizer", default="compute-sanitizer")
    return parser.parse_args()


class Run:
    """A program under a tool."""

    def __init__(self, tool, name, command):
        self.tool, self.name, self.command = tool, name, command
        self.seconds, self.code, self.is_cut, self.text = 0.0, None, False, ""
        self.process = None

    def execute(self, asked, deadline):
        limit = min(asked.seconds, deadline - time.monotonic())
        if limit <= 1:
            return
        begun = time.monotonic()
        command = [asked.sanitizer, *TOOLS[self.tool], "--error-exitcode", str(FOUND_CODE), "--print-limit", "20", *self.command]
        # A file and no pipe: what outlives the sanitizer would hold a pipe open.
        with tempfile.TemporaryDirectory() as home, tempfile.TemporaryFile() as said:
            self.process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
                                            env={**os.environ, "CRITERION_HOME": home})
            try:
                self.process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                self.is_cut = True
                self.kill()
            self.seconds, self.code = time.monotonic() - begun, self.process.returncode
            said.seek(0)
            self.text = said.read().decode(errors="replace")
        if asked.logs:
            (asked.logs / f"{self.tool}-{self.name}.txt").write_text(f"{' '.join(command)}\nexit {self.code}, {self.seconds:.1f} s\n{self.text}")

    def kill(self):
        """Ends the sanitizer and what it started."""
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def summaries(self):
        return [line.removeprefix("========= ") for line in self.text.splitlines() if re.match(r"=+ (ERROR|LEAK|RACECHECK) SUMMARY", line)]

    def found(self):
        """How many errors, hazards and leaked allocations the summaries count; None without a summary."""
        counts = [int(number) for line in self.summaries() for number in re.findall(r"(\d+) errors?\b|(\d+) hazards?\b|(\d+) allocations?\b", line)
                  for number in number if number]
        return sum(counts) if self.summaries() else None

    def cases(self):
        """The cases that ran to their end, and those that were skipped."""
        skipped = len(re.findall(r"^poolbench: skipped ", self.text, re.MULTILINE))
        return len(re.findall(r"^Success$", self.text, re.MULTILINE)), skipped

    def where(self):
        """How many reports stand below each case's line."""
        case, reports = "before the first case", collections.Counter()
        for line in self.text.splitlines():
            if line.startswith("Testing "):
                case = line.removeprefix("Testing ")
            elif re.match(r"=+ (Invalid|Uninitialized|Error|Program hit|Leaked|Potential|Race|Use-|Free-|Warning)", line):
                reports[(case, re.sub(r"0x[0-9a-f]+|\d[\d,]*", "N", line.removeprefix("========= ")))] += 1
        return reports

    def verdict(self):
        if self.code is None:
            return "not run"
        if self.is_cut:
            return f"cut at {self.seconds:.0f} s"
        if self.found() is None:
            return f"no summary, exit {self.code}"
        if self.code != 0 or self.found() > 0:
            return f"FOUND, exit {self.code}"
        return "clean"


def benches_of(tool):
    """Name, executable and filter of each bench that a tool runs."""
    own = NARROWER.get(tool, {})
    return [(name, executable, own.get(name, wanted)) for name, executable, wanted in BENCHES]


def show(run):
    ended, skipped = run.cases()
    print(f"{run.tool:13} {run.name:18} {ended:3} cases {skipped:2} skipped {run.seconds:6.1f} s  {run.verdict():22} {'; '.join(run.summaries())}")
    if run.verdict() != "clean":
        for (case, what), count in run.where().most_common(8):
            print(f"    {count:4} x {case}: {what}")
        if not run.summaries():
            for line in [line for line in run.text.splitlines() if line][-5:]:
                print(f"    {line}")


def show_planted(run, must_be_found, report):
    seen = re.search(f"^=+ .*{report}", run.text, re.MULTILINE) is not None
    word = "found" if seen else "MISSED" if must_be_found else "not looked for by this version"
    if not seen and run.verdict() != "clean":
        word = f"{word} ({run.verdict()})"
    print(f"{run.tool:13} planted {run.name:24} {run.seconds:6.1f} s  {word:22} {'; '.join(run.summaries())}")
    return seen or not must_be_found


def matrix(runs, tools):
    print(f"{'':18}" + "".join(f"{tool:>24}" for tool in tools))
    for name, _, _ in BENCHES:
        by_tool = {run.tool: f"{run.verdict()}, {run.cases()[0]} cases" for run in runs if run.name == name}
        cells = [by_tool.get(tool, "-") for tool in tools]
        print(f"{name:18}" + "".join(f"{cell:>24}" for cell in cells))


def main():
    asked = arguments()
    if not shutil.which(asked.sanitizer):
        sys.exit(f"sanitize.py: no {asked.sanitizer}; it comes with the CUDA toolkit")
    if asked.logs:
        asked.logs.mkdir(parents=True, exist_ok=True)
    tools = asked.tool or list(TOOLS)
    planted = [Run(tool, fault, [str(asked.planted.resolve()), fault]) for fault, (tool, _, _) in PLANTED.items() if tool in tools]
    benches = [Run(tool, name, [str((asked.bundle / executable).resolve()), wanted, "--bench", "--test"])
               for tool in tools for name, executable, wanted in benches_of(tool)]
    deadline = time.monotonic() + asked.all_seconds

    def stop(*_):
        for run in planted + benches:
            run.kill()
        os._exit(1)

    signal.signal(signal.SIGTERM, stop)
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(lambda run: run.execute(asked, deadline), planted + benches))
    seen = [show_planted(run, *PLANTED[run.name][1:]) for run in planted]
    for run in benches:
        show(run)
    print()
    matrix(benches, tools)
    # A run without a case has shown nothing.
    clean = sum(run.verdict() == "clean" and run.cases()[0] > 0 for run in benches)
    print(f"{clean} of {len(benches)} runs are clean; {sum(seen)} of {len(planted)} planted faults came out as they must")
    sys.exit(0 if clean == len(benches) and all(seen) else 1)


if __name__ == "__main__":
    main()
