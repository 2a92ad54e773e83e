"""A campaign of single faults, each judged by what really happened.

At least 300 faults: every crash point with every victim, deaths at random times, PID reuse after
a crash, another boot, a full disk, a damaged index, torn events. Bars: no wrong signal, no ending
that did not happen, no output lost, no name left blocked. A quick one takes a few of each kind.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from bench.faults import scenes
from bench.faults.trials import AT_RANDOM, Fault
from tests.support.crash_trials import CrashTrial, crash_trials
from tests.support.kernel_lab import Place, run_in
from tests.support.queue_trials import crowd_trials
from tests.support.trials import KINDS, Violation, trial

CRASH = "crash point"
REUSE = "PID reuse after a crash"
OTHER = "trials that failed"
# How often each random fault is done in a whole campaign, and in a quick one.
COUNTS = {
    "launcher killed at a random time": (30, 1),
    "shim killed at a random time": (40, 2),
    "workload killed, with or without its shim": (30, 2),
    "adopter killed at a random time": (30, 1),
    "stop killed at a random time": (20, 1),
    "removal killed at a random time": (10, 1),
    "torn events": (20, 1),
    "damaged index": (10, 1),
    "another boot id": (12, 1),
    "full disk": (20, 1),
}
REUSE_SCENES, REUSE_ROUNDS = (5, 1), (8, 2)
QUICK_CRASHES = 6


class Job(NamedTuple):
    """Some faults of one kind."""

    kind: str
    name: str
    faults: int
    run: Callable[[], list[tuple[str, str]]]  # violations: kind and text


def run(quick: bool, seed: int, workers: int, only: str) -> bool:
    """Do them all, say what came of them; whether nothing was wrong."""
    jobs = [job for job in _jobs(quick, seed) if only in f"{job.kind} {job.name}"]
    total = sum(job.faults for job in jobs)
    print(f"{total} faults, seed {seed}, {workers} at once", flush=True)
    began = time.monotonic()
    done: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    with ThreadPoolExecutor(workers) as pool:
        for job, violations in pool.map(lambda job: (job, job.run()), jobs):
            done[job.kind] += job.faults
            for kind, text in violations:
                wrong[kind if kind in KINDS else OTHER] += 1
                print(f"VIOLATION in {job.kind}, {job.name}: {text}", file=sys.stderr, flush=True)
    _report(done, wrong, time.monotonic() - began)
    return not wrong


def _report(done: Counter[str], wrong: Counter[str], seconds: float) -> None:
    width = max(len(kind) for kind in (*done, *KINDS, OTHER))
    for kind, count in done.items():
        print(f"{kind:<{width}}  {count:>5}")
    print(f"{'faults':<{width}}  {done.total():>5}   in {seconds:.0f} s")
    for kind in (*KINDS, OTHER):
        if kind != OTHER or wrong[kind]:
            print(f"{kind:<{width}}  {wrong[kind]:>5}")


def _jobs(quick: bool, seed: int) -> Iterator[Job]:
    rng = random.Random(seed)
    crashes = [*crash_trials(), *crowd_trials()]
    if quick:
        crashes = rng.sample(crashes, QUICK_CRASHES)
    for crash in crashes:
        yield Job(CRASH, crash.name, 1, _crash(crash))
    for kind, counts in COUNTS.items():
        for _ in range(counts[quick]):
            own = rng.randrange(1 << 30)
            yield Job(kind, f"seed {own}", 1, _random(AT_RANDOM[kind], own))
    for _ in range(REUSE_SCENES[quick]):
        own = rng.randrange(1 << 30)
        yield Job(REUSE, f"seed {own}", REUSE_ROUNDS[quick], _reuse(REUSE_ROUNDS[quick], own))


def _crash(crash: CrashTrial) -> Callable[[], list[tuple[str, str]]]:
    def fault(root: Path) -> None:
        with trial(root) as one:
            crash.run(one)
            one.settle()
            one.judge()
            if not one.crashed:
                raise AssertionError("nobody came by the crash point")

    return lambda: _guarded(fault)


def _random(fault: Fault, seed: int) -> Callable[[], list[tuple[str, str]]]:
    def once(root: Path) -> None:
        with trial(root) as one:
            fault(one, random.Random(seed))
            one.settle()
            one.judge()

    return lambda: _guarded(once)


def _reuse(rounds: int, seed: int) -> Callable[[], list[tuple[str, str]]]:
    def play() -> list[tuple[str, str]]:
        try:
            found = run_in(Place(), scenes.recycled, timeout=600, rounds=rounds, seed=seed)
        except AssertionError as error:
            return [(OTHER, str(error))]
        return [(kind, text) for kind, text in found]

    return play


def _guarded(fault: Callable[[Path], None]) -> list[tuple[str, str]]:
    """One fault in a directory of its own, which is kept when something was wrong."""
    root = Path(tempfile.mkdtemp(prefix="holdfast-fault-"))
    try:
        fault(root / "trial")
    except Violation as violation:
        return [(violation.kind, f"{violation} (kept: {root})")]
    except Exception as error:  # noqa: BLE001 - a trial that fails is told, and counted
        return [(OTHER, f"{type(error).__name__}: {error} (kept: {root})")]
    shutil.rmtree(root, ignore_errors=True)
    return []
