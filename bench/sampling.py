"""What one sample of a tree costs, beside psutil. Exits 1 when a bar is missed.

    python -m bench.sampling [--sizes 1,10,100,1000] [--rounds N]

light: CPU and RSS of every process. psutil: children(recursive=True), then cpu_times and
memory_info of each in oneshot, which is how a tree is asked for there.
full: state, name, memory with swap, threads, descriptors, context switches, CPU, I/O, working
directory of each process, from kept objects on both sides. psutil tells swap only in
memory_full_info; "lean" is its time without that and without the directory. Ours has signals,
OOM score, zombies and the sums on top. walk: finding the members, which a psutil user does with
children().
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import psutil

from holdfast.process.finder import WorkloadFinder
from holdfast.process.identity import ProcessIdentity
from holdfast.process.members import Tree
from holdfast.process.sampling import Sampler

LIGHT_BAR, FULL_BAR = 8.0, 2.0
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
    sampler = Sampler(slow_every_seconds=1e9)  # the dear figures have a budget of their own
    sampler.sample(members, resolution)
    try:
        return Costs(
            milliseconds(lambda: sampler.sample(members, resolution, full=False), rounds),
            milliseconds(lambda: psutil_light(root.pid), rounds),
            milliseconds(lambda: sampler.sample(members, resolution, full=True), rounds),
            milliseconds(lambda: psutil_all(kept, PSUTIL_FULL), rounds),
            milliseconds(lambda: psutil_all(kept, PSUTIL_LEAN), rounds),
            milliseconds(tree.walk, rounds),
        )
    finally:
        sampler.close()


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description="cost of one sample of a tree, beside psutil")
    parser.add_argument("--sizes", default="1,10,100,1000")
    parser.add_argument("--rounds", type=int, default=0, help="0: fewer for larger trees")
    options = parser.parse_args(arguments)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    about = f"psutil {psutil.__version__}, {os.cpu_count()} cores"
    print(f"one sample of a tree, ms of CPU (median); {about}")
    print("processes    light   psutil  ratio     full   psutil  ratio     lean     walk")
    missed = []
    for size in map(int, options.sizes.split(",")):
        cost = measure(size, options.rounds or max(5, min(200, 2000 // size)))
        light, full = cost.psutil_light / cost.light, cost.psutil_full / cost.full
        print(
            f"{size:9} {cost.light:8.3f} {cost.psutil_light:8.2f} {light:5.1f}x"
            f" {cost.full:8.3f} {cost.psutil_full:8.2f} {full:5.1f}x"
            f" {cost.psutil_lean:8.2f} {cost.walk:8.3f}"
        )
        if light < LIGHT_BAR:
            missed.append(f"light at {size}: {light:.1f}x, not {LIGHT_BAR:g}x")
        if full < FULL_BAR:
            missed.append(f"full at {size}: {full:.1f}x, not {FULL_BAR:g}x")
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
