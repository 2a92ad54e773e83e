"""Crash points on the way through a queue, each with other runs in the same queue.

The others tell when they ran. Judged: each ran once, none is lost, never two at a time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

from holdfast.run.crashpoints import POINTS
from tests.support.crash_trials import OF_A_QUEUE, CrashTrial, until_dead_or_over
from tests.support.neighbours import watched_by
from tests.support.queues import Told, overlap, recording, told_in
from tests.support.trials import NAME, QUEUE, Trial, Violation
from tests.support.waiting import eventually

NEED = ("--needs-memory", "1M")  # so it comes by the points of admission by memory


def crowd_trials() -> Iterator[CrashTrial]:
    """Every point of submission, look, admission and rescue, with others in the same queue."""
    for point in POINTS:
        if point.startswith("launcher."):
            yield CrashTrial(point, "launcher", submitted)
        elif point in OF_A_QUEUE:
            yield CrashTrial(point, "shim", in_a_crowd)
            yield CrashTrial(point, "adopter", in_a_crowd_again)
        elif point.startswith("shim.rescue-"):
            yield CrashTrial(point, "shim", rescued_while_it_waits)


def submitted(trial: Trial, crash_at: str) -> None:
    """Whoever submits a run to a queue dies; the others of the queue do not wait for it."""
    crowd = QueueCrowd(trial, 2)
    trial.start("-Q", "main", "--key", "k", crash_at=crash_at)
    crowd.go()


def in_a_crowd(trial: Trial, crash_at: str) -> None:
    """The shim of a run in the middle of a queue dies on its way to its start."""
    crowd = QueueCrowd(trial, 2)
    trial.start("-Q", "main", *NEED, crash_at=crash_at)
    crowd.submit()
    trial.gate.touch()
    crowd.go()
    until_dead_or_over(trial)


def in_a_crowd_again(trial: Trial, crash_at: str) -> None:
    """The adopter of such a run does."""
    crowd = QueueCrowd(trial, 2)
    trial.start("-Q", "main", *NEED)
    crowd.submit()
    # The others must not be faster than the adopter that is to die: nobody is left to rescue it.
    crowd.kill_shims()
    trial.kill_shim()
    trial.holdfast("recover", crash_at=crash_at)
    trial.gate.touch()
    crowd.go()
    until_dead_or_over(trial)


def rescued_while_it_waits(trial: Trial, crash_at: str) -> None:
    """A waiting shim dies while it has its neighbour, which waits too, adopted."""
    crowd = QueueCrowd(trial, 0)
    trial.start("-Q", "main", *NEED)
    crowd.submit(crash_at=crash_at)
    watching, watched = trial.runs.get(crowd.names[-1]).info().shim, trial.info()
    assert watching is not None
    assert watched is not None
    assert watched.shim is not None
    pid = watched.shim["pid"]
    eventually(lambda: pid in watched_by(watching["pid"]), why="it has a neighbour")
    trial.kill_shim()
    eventually(lambda: trial.crashed, why="the neighbour is dead")
    trial.gate.touch()
    crowd.go()


class QueueCrowd:
    """Other runs of the subject's queue, of which at most one runs at a time: they tell."""

    def __init__(self, trial: Trial, count: int) -> None:
        self._trial = trial
        self._told = trial.root / "crowd"
        self.names: list[str] = []
        trial.judges.append(self.judge)
        trial.holdfast("queue", "set", "main", "--limit", "1")
        trial.holdfast("queue", "pause", "main")
        for _ in range(count):
            self.submit()

    def submit(self, crash_at: str | None = None) -> None:
        name = f"crowd{len(self.names)}"
        self.names.append(name)
        words = ("run", "-n", name, "-Q", "main", *recording(self._told, name))
        assert self._trial.holdfast(*words, crash_at=crash_at) == 0

    def kill_shims(self) -> None:
        shims = [self._trial.runs.get(name).info().shim for name in self.names]
        for shim in shims:
            os.kill((shim or {})["pid"], signal.SIGSTOP)  # nobody rescues another
        for shim in shims:
            self._trial.kill(shim)

    def go(self) -> None:
        self._trial.holdfast("queue", "unpause", "main")

    def judge(self) -> None:
        """After all has settled: each ran, once, and never two at a time."""
        told = told_in(self._told) if self._told.exists() else []
        if sorted(one.name for one in told) != sorted(self.names):
            raise Violation(QUEUE, f"{self.names} were submitted, and {told} ran")
        if overlap([*told, *self._of_the_subject()]) > 1:
            raise Violation(QUEUE, "more than one ran at a time")

    def _of_the_subject(self) -> list[Told]:
        """When its command ran, if that is on record from its start to its exit."""
        started, exited = (self._trial.events(kind) for kind in ("attempt_started", "root_exited"))
        if len(started) > 1:
            raise Violation(QUEUE, "the subject was started twice")
        now = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
        times = [int((event["boottime"] - now) * 1e9) for event in (*started, *exited)]
        return [Told(times[0], times[1], NAME)] if len(times) == 2 else []
