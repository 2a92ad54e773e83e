"""What one sample of a tree costs, beside psutil, and what 50 sampled runs cost in all.

    python -m bench.sampling [--sizes 1,10,100,1000] [--rounds N] [--only trees|runs]

light: the members, with CPU and RSS of every process. psutil: children(recursive=True), then
cpu_times and memory_info of each in oneshot, which is how a tree is asked for there.
full: state, name, memory with swap, threads, descriptors, context switches, CPU, I/O, working
directory of each process, from kept objects on both sides. psutil tells swap only in
memory_full_info; "lean" is its time without that and without the directory. Ours has a walk for
new members, signals, OOM score, zombies and the sums on top. walk: the walk alone, a part of both.
runs: the CPU time of the shims of 200 runs of `sleep` at the default interval, over a whole minute
(the rare figures are read once in it), and of 50 that are sampled each second.
Exits 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import compileall
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.launch import Bar, cpu_seconds, interpreter, sleepers, stage
from holdfast.process.identity import ProcessIdentity
from holdfast.process.sampling.sampler import Sampler
from holdfast.process.tree import Tree
from holdfast.process.workload.finder import WorkloadFinder

LIGHT_BAR, FULL_BAR = 8.0, 2.0
# How many runs, seconds between samples, seconds that are measured, % of a core at most.
RUN_BARS = ((200, "5", 60.0, 1.5), (50, "1", 20.0, 2.5))
PSUTIL_LEAN = [
    "status",
    "name",
    "memory_info",
    "num_threads",
    "num_fds",
    "num_ctx_switches",
    "cpu_times",
    "cpu_percent",
    "io_counters",
]
PSUTIL_FULL = [*PSUTIL_LEAN, "memory_full_info", "cwd"]
PARENT = """
import subprocess, sys, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
sleep = {"args": ["sleep", "3600"], "stdout": subprocess.DEVNULL}
children = [subprocess.Popen(**sleep) for _ in range(int(sys.argv[1]) - 1)]
print("ready", flush=True)
signal.sigwait([signal.SIGTERM])
for child in children:
    child.kill()
for child in children:
    child.wait()
"""


def milliseconds(action: Callable[[], object], rounds: int) -> float:
    """CPU time: the median of some rounds, after one that warms up. Others' load is not in it."""
    action()
    taken = []
    for _ in range(rounds):
        start = time.thread_time()
        action()
        taken.append((time.thread_time() - start) * 1000)
    return statistics.median(taken)


def psutil_light(root: int) -> None:
    process = psutil.Process(root)
    for each in [process, *process.children(recursive=True)]:
        with each.oneshot():
            each.cpu_times()
            each.memory_info()


class Costs(NamedTuple):
    """Of one sample of one tree, in ms."""

    light: float
    psutil_light: float
    full: float
    psutil_full: float
    psutil_lean: float
    walk: float


def psutil_all(processes: list[psutil.Process], attributes: list[str]) -> None:
    for each in processes:
        each.as_dict(attributes)


def measure(size: int, rounds: int) -> Costs:
    """All of them on the same tree, one after the other."""
    command = [sys.executable, "-S", "-c", PARENT, str(size)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        parent.stdout.readline()
        identity = ProcessIdentity.of(parent.pid)
        with Tree([identity]) as tree:
            return _measure(tree, identity, tuple(command), size, rounds)
    finally:
        parent.terminate()
        parent.communicate()


def _measure(
    tree: Tree, root: ProcessIdentity, command: tuple[str, ...], size: int, rounds: int
) -> Costs:
    members = tree.walk()
    assert len(members) == size, len(members)
    resolution = WorkloadFinder(root, command=command).look(members)
    assert resolution.workload is not None
    kept = [psutil.Process(member.identity.pid) for member in members]
    sampler = Sampler(slow_every_seconds=1e9)  # the costly figures have a budget of their own
    sampler.sample(members, resolution)
    return Costs(
        milliseconds(lambda: sampler.sample(tree.walk(), resolution, full=False), rounds),
        milliseconds(lambda: psutil_light(root.pid), rounds),
        milliseconds(lambda: sampler.sample(tree.walk(), resolution, full=True), rounds),
        milliseconds(lambda: psutil_all(kept, PSUTIL_FULL), rounds),
        milliseconds(lambda: psutil_all(kept, PSUTIL_LEAN), rounds),
        milliseconds(tree.walk, rounds),
    )


def measure_runs(count: int, interval: str, seconds: float) -> float:
    """The CPU time of the shims of so many runs, in % of a core."""
    with stage() as place, sleepers(place, count, "--sample-interval", interval) as shims:
        assert len(shims) == count, len(shims)
        time.sleep(5 * float(interval))  # the looks at a start are over, and rows repeat
        before, began = sum(map(cpu_seconds, shims)), time.monotonic()
        time.sleep(seconds)
        return (sum(map(cpu_seconds, shims)) - before) / (time.monotonic() - began) * 100


def compare_trees(sizes: list[int], rounds: int) -> list[str]:
    """Print a row for each size; what was missed."""
    about = f"psutil {psutil.__version__}, {os.cpu_count()} cores"
    print(f"one sample of a tree, ms of CPU (median); {about}")
    print("processes    light   psutil  ratio     full   psutil  ratio     lean     walk")
    missed = []
    for size in sizes:
        cost = measure(size, rounds or max(5, min(200, 2000 // size)))
        light, full = cost.psutil_light / cost.light, cost.psutil_full / cost.full
        print(
            f"{size:9} {cost.light:8.3f} {cost.psutil_light:8.2f} {light:5.1f}x"
            f" {cost.full:8.3f} {cost.psutil_full:8.2f} {full:5.1f}x"
            f" {cost.psutil_lean:8.2f} {cost.walk:8.3f}",
            flush=True,
        )
        if light < LIGHT_BAR:
            missed.append(f"light at {size}: {light:.1f}x, not {LIGHT_BAR:g}x")
        if full < FULL_BAR:
            missed.append(f"full at {size}: {full:.1f}x, not {FULL_BAR:g}x")
    return missed


def watch_runs() -> list[str]:
    """Print what sampled runs cost; what was missed."""
    compileall.compile_dir(Path(__file__).parents[1] / "src", quiet=2)
    missed = []
    for count, interval, seconds, bar in RUN_BARS:
        percent = measure_runs(count, interval, seconds)
        what = f"CPU of {count} runs sampled every {interval} s"
        a_look = percent * 10 * float(interval) / count
        print(f"{Bar(what, percent, bar, '% of a core')}, {a_look:.2f} ms a look", flush=True)
        if percent > bar:
            missed.append(f"{what}: {percent:.2f} %, not {bar:g} %")
    return missed


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description="cost of one sample of a tree, beside psutil")
    parser.add_argument("--sizes", default="1,10,100,1000")
    parser.add_argument("--rounds", type=int, default=0, help="0: fewer for larger trees")
    parser.add_argument("--only", choices=["trees", "runs"], help="one part alone")
    options = parser.parse_args(arguments)
    print(interpreter(), flush=True)
    missed = []
    if options.only in (None, "runs"):
        missed += watch_runs()
    if options.only in (None, "trees"):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        missed += compare_trees([int(size) for size in options.sizes.split(",")], options.rounds)
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
