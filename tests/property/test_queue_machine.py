"""Random lives of a queue beside a model of it.

Runs are submitted, cancelled, moved, paused and let end, the queue is paused and its limit changed,
while waiting and active shims are killed and recovered. Always: never more at once than the limit
allows, none started twice, none lost. While nobody's shim is missing, exactly those run that the
model lets run; where one is, others may go past it, and only their number is known.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.errors import HoldfastError
from holdfast.manage.operations import run_steps
from holdfast.manage.queueing.changes import change_queue, move_in_line
from holdfast.manage.run import Run
from holdfast.manage.runs import Runs
from holdfast.run.facts import State
from tests.support.recovering import kill
from tests.support.running import delete_below_its_shim, is_alive
from tests.support.waiting import eventually

CODE = 7
QUEUE = "main"
MOST_ALIVE = 6
PRIORITIES = st.integers(-1, 1)
CHOICES = st.integers(0, MOST_ALIVE - 1)


class Job:
    """What the model knows of one run."""

    def __init__(self, run: Run, place: tuple[int, int], gate: Path, told: Path) -> None:
        self.run = run
        self.place = place  # a listing by it is the line
        self.gate = gate
        self.told = told  # a line for each start, with the PID
        self.is_active = self.is_paused = False
        self.outcome: str | None = None

    @property
    def is_over(self) -> bool:
        return self.outcome is not None

    @property
    def waits(self) -> bool:
        return not self.is_over and not self.is_active

    def starts(self) -> list[int]:
        """The PID of each start that has happened."""
        try:
            return [int(pid) for pid in self.told.read_text().split()]
        except FileNotFoundError:
            return []


class QueueMachine(RuleBasedStateMachine):
    """The rules; `jobs` is the model."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="holdfast-queue-machine-"))
        self.runs = Runs(str(self.root / "home"), notice=lambda _text: None)
        self.jobs: list[Job] = []
        self.limit, self.is_paused = 1, False
        self.is_clean = True  # nobody was killed since the last look at all
        self.allowed = 1  # how many may be alive: more than the limit after that was lowered

    @initialize(limit=st.integers(1, 2))
    def begin(self, limit: int) -> None:
        self._change(limit=limit)

    def teardown(self) -> None:
        for job in self.jobs:
            with contextlib.suppress(HoldfastError):
                job.run.stop(grace=0)
        delete_below_its_shim(self.root)

    # What a user does

    @precondition(lambda self: len(self._alive()) < MOST_ALIVE)
    @rule(priority=PRIORITIES)
    def submit(self, priority: int) -> None:
        number = len(self.jobs)
        gate, told = self.root / f"gate-{number}", self.root / f"told-{number}"
        os.mkfifo(gate)
        script = f"echo $$ >> {told}; read word < {gate}; exit {CODE}"
        run = self.runs.start(
            ["sh", "-c", script], name=f"job{number}", queue=QUEUE, priority=priority
        )
        self.jobs.append(Job(run, (-priority, number), gate, told))

    @precondition(lambda self: self._alive())
    @rule(which=CHOICES)
    def cancel(self, which: int) -> None:
        job = self._choose(self._alive(), which)
        job.run.stop(grace=0)
        self._over(job, "stopped")

    @precondition(lambda self: self._waiting())
    @rule(which=CHOICES, priority=st.none() | PRIORITIES)
    def move(self, which: int, priority: int | None) -> None:
        self.recover()
        waiting = self._waiting()
        if not waiting:
            return
        job = self._choose(waiting, which)
        run_steps(move_in_line(job.run.directory, first=priority is None, priority=priority))
        if priority is not None:
            job.place = (-priority, job.place[1])
            return
        # A paused run has left the line: there it is nobody that one could be put before.
        line = [one.place for one in waiting if one is not job and not one.is_paused]
        if line:
            ahead = min(line)
            job.place = (ahead[0], ahead[1] - 1)

    @precondition(lambda self: self._alive())
    @rule(which=CHOICES)
    def pause(self, which: int) -> None:
        self.recover()
        job = self._choose(self._alive(), which)
        if job.is_paused:
            job.run.unpause()
        else:
            job.run.pause()
        job.is_paused = not job.is_paused

    @rule()
    def pause_the_queue(self) -> None:
        self.is_paused = not self.is_paused
        self._change(paused=self.is_paused)

    @rule(limit=st.integers(1, 3))
    def change_the_limit(self, limit: int) -> None:
        self._change(limit=limit)

    def _change(self, **changes: Any) -> None:
        change_queue(self.runs.home, QUEUE, **changes)
        self.limit = changes.get("limit", self.limit)
        self.allowed = max(self.limit, len(self._running()))

    @precondition(lambda self: not self.is_clean)
    @rule()
    def recover(self) -> None:
        """Everybody has a shim again, and all that may run does."""
        if self.is_clean:
            return
        self.runs.recover()
        eventually(self._all_have_shims, why="everybody has a shim")
        waiting = [job for job in self._alive() if not job.is_paused or job.starts()]
        expected = min(self.limit, len(waiting))
        if not self.is_paused:
            enough = lambda: len(self._started()) >= expected  # noqa: E731
            eventually(enough, why=f"{expected} of them run")
        for job in self._alive():
            job.is_active = bool(job.starts())
        self.is_clean = True

    # What happens

    @precondition(lambda self: self._alive())
    @rule(which=CHOICES)
    def kill_shim(self, which: int) -> None:
        shim = self._choose(self._alive(), which).run.info().shim
        assert shim is not None
        with contextlib.suppress(HoldfastError):  # of one that was killed just before
            kill(shim)
        self.is_clean = False

    @precondition(lambda self: self._alive())
    @rule(which=CHOICES)
    def let_end(self, which: int) -> None:
        self.recover()
        running = [job for job in self._alive() if job.is_active and not job.is_paused]
        if not running:
            return
        job = self._choose(running, which)
        with open(job.gate, "w") as gate:
            gate.write("\n")
        eventually(lambda: job.run.info().state is State.ENDED, why="its shim records it")
        self._over(job, "failed")

    def _over(self, job: Job, outcome: str) -> None:
        job.outcome, job.is_active = outcome, False

    # What must be so

    @invariant()
    def never_more_at_once_than_allowed(self) -> None:
        running = self._running()
        assert len(running) <= self.allowed, [job.run.id for job in running]
        self.allowed = max(self.limit, len(running))

    @invariant()
    def none_is_started_twice_and_none_is_lost(self) -> None:
        for job in self.jobs:
            info = job.run.info()
            assert len(job.starts()) <= 1
            assert len(info.attempts) <= 1
            if job.is_over:
                assert (info.state, info.outcome) == (State.ENDED, job.outcome), info.evidence
            else:
                assert info.state is not State.ENDED, info.evidence

    @invariant()
    def while_nobody_is_missing_exactly_those_run_that_may(self) -> None:
        if not self.is_clean:
            return
        for job in sorted(self._waiting(), key=lambda job: job.place):
            is_free = sum(one.is_active for one in self.jobs) < self.limit
            job.is_active = is_free and not self.is_paused and not job.is_paused
        expected = {job.run.id for job in self.jobs if job.is_active}
        eventually(lambda: {job.run.id for job in self._started()} == expected, why="as planned")

    # How it is

    def _choose(self, jobs: list[Job], which: int) -> Job:
        return jobs[which % len(jobs)]

    def _alive(self) -> list[Job]:
        return [job for job in self.jobs if not job.is_over]

    def _waiting(self) -> list[Job]:
        return [job for job in self.jobs if job.waits]

    def _started(self) -> list[Job]:
        return [job for job in self._alive() if job.starts()]

    def _running(self) -> list[Job]:
        return [job for job in self.jobs if any(map(is_alive, job.starts()))]

    def _all_have_shims(self) -> bool:
        return all(job.run.directory.lock_is_held() for job in self._alive())


QueueMachine.TestCase.settings = settings(
    max_examples=100 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 12,
    stateful_step_count=12,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink real lives takes hours
    suppress_health_check=list(HealthCheck),
)
TestQueueMachine = QueueMachine.TestCase
