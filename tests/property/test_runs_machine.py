"""Random lives of runs beside a model that knows what really happened to them.

Runs are started, replaced, stopped, removed and recovered in any order, while their shims and
workloads are killed. After each step every name says what the model says, no name has two live
workloads, and a bystander is as it was.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.errors import AlreadyRunning, HoldfastError, RunNotFound, StillAlive
from holdfast.manage.removal.remove import remove_run
from holdfast.manage.run import Run
from holdfast.manage.runs import Runs
from holdfast.process.identity import ProcessIdentity
from holdfast.process.stamped import find_stamped
from holdfast.run.facts import State
from tests.support.recovering import kill
from tests.support.running import delete_below_its_shim
from tests.support.waiting import eventually, wait_until_reaped

CODE = 7
NAMES = st.sampled_from(["one", "two"])


class Life:
    """What really happened to one run."""

    def __init__(self, run: Run, gate: Path) -> None:
        self.run = run
        self.gate = gate
        info = run.info()
        assert info.shim is not None
        assert info.workload is not None
        self.shim, self.root = info.shim, run.directory.read_events().events[1].facts["root"]
        self.has_shim = True
        self.is_alive = True
        self.ending: tuple[str, int | None, int | None] | None = None  # once nothing can change it

    def ended(self, outcome: str, code: int | None = None, number: int | None = None) -> None:
        self.is_alive = self.has_shim = False
        self.ending = (outcome, code, number)

    def is_adopted(self) -> bool:
        """Whether it has another shim than the one that was killed; then that is its shim."""
        shim = self.run.info().shim
        if shim is not None and shim["token"] != self.shim["token"]:
            self.shim, self.has_shim = shim, True
        return self.has_shim

    def wait_gone(self) -> None:
        identity = ProcessIdentity.from_json(self.root)
        wait_until_reaped(identity.pid)


class RunsMachine(RuleBasedStateMachine):
    """The rules; `lives` is the model: the latest run of each name."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="holdfast-machine-"))
        self.runs = Runs(str(self.root / "home"), notice=lambda _text: None)
        self.lives: dict[str, Life] = {}
        self.bystander = subprocess.Popen(["sleep", "1000"])
        self._number = 0

    def teardown(self) -> None:
        for life in self.lives.values():
            with contextlib.suppress(HoldfastError):
                life.run.stop(grace=0)
        self.bystander.kill()
        self.bystander.wait()
        delete_below_its_shim(self.root)

    # What a user does

    @rule(name=NAMES)
    def start(self, name: str) -> None:
        life = self.lives.get(name)
        if life is not None and life.is_alive:
            with pytest.raises(AlreadyRunning):
                self._start(name)
        else:
            self.lives[name] = self._start(name)

    @rule(name=NAMES)
    def replace(self, name: str) -> None:
        life = self.lives.get(name)
        self.lives[name] = self._start(name, replace=True)
        if life is not None and life.is_alive:
            assert life.run.info().outcome == "stopped"
            assert ProcessIdentity.from_json(life.root).look().is_gone

    def _start(self, name: str, **options: Any) -> Life:
        self._number += 1
        gate = self.root / f"gate-{self._number}"
        os.mkfifo(gate)
        script = f"read word < {gate}; exit {CODE}"
        return Life(self.runs.start(["sh", "-c", script], name=name, **options), gate)

    @precondition(lambda self: self.lives)
    @rule(name=NAMES, grace=st.sampled_from([0.0, 1.0]))
    def stop(self, name: str, grace: float) -> None:
        life = self.lives.get(name)
        if life is None:
            return
        cleanup = life.run.stop(grace=grace)
        assert cleanup.survivors == ()
        if life.is_alive:
            ending = life.run.info()
            assert ending.signal in (signal.SIGTERM, signal.SIGKILL)
            life.ended("stopped", None, ending.signal)

    @precondition(lambda self: self.lives)
    @rule()
    def recover(self) -> None:
        told = {one.id: one.action.value for one in self.runs.recover()}
        for life in self.lives.values():
            if life.is_alive and not life.has_shim:
                # Not told: the shim of the other run was faster (Q4).
                assert told.get(life.run.id, "adopted") == "adopted"
                eventually(life.is_adopted, why="it has another shim")
            elif life.is_alive:
                assert life.run.id not in told
        assert self.runs.recover() == []

    @precondition(lambda self: self.lives)
    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        life = self.lives.get(name)
        if life is None:
            return
        if life.is_alive:
            with pytest.raises(StillAlive):
                remove_run(life.run.directory)
            return
        remove_run(life.run.directory)
        del self.lives[name]

    # What happens

    @precondition(lambda self: any(life.has_shim for life in self.lives.values()))
    @rule(name=NAMES)
    def kill_shim(self, name: str) -> None:
        life = self.lives.get(name)
        if life is not None and life.has_shim:
            kill(life.shim)
            life.has_shim = False

    @precondition(lambda self: any(life.is_alive for life in self.lives.values()))
    @rule(name=NAMES)
    def kill_workload(self, name: str) -> None:
        life = self.lives.get(name)
        if life is not None and life.is_alive:
            kill(life.root)
            self._over(life, "killed", None, signal.SIGKILL)

    @precondition(lambda self: any(life.is_alive for life in self.lives.values()))
    @rule(name=NAMES)
    def let_end(self, name: str) -> None:
        life = self.lives.get(name)
        if life is not None and life.is_alive:
            with open(life.gate, "w") as gate:
                gate.write("\n")
            self._over(life, "failed", CODE, None)

    def _over(self, life: Life, outcome: str, code: int | None, number: int | None) -> None:
        """With a shim the true ending is seen; without one it is lost, once nobody can tell."""
        if life.has_shim:
            eventually(lambda: life.run.info().state is State.ENDED, why="its shim records it")
            life.ended(outcome, code, number)
        else:
            life.wait_gone()
            life.ended("lost")

    # What must be so

    @invariant()
    def every_name_says_what_the_model_says(self) -> None:
        for name, life in self.lives.items():
            is_supervised = life.is_alive and (life.has_shim or life.is_adopted())
            info = self.runs.get(name).info()
            assert info.id == life.run.id
            if life.is_alive:
                expected = State.RUNNING if is_supervised else State.ORPHANED
                assert info.state is expected, info.evidence
            else:
                assert info.state is State.ENDED, info.evidence
                assert (info.outcome, info.exit_code, info.signal) == life.ending, info.evidence

    @invariant()
    def removed_names_are_gone(self) -> None:
        for name in ("one", "two"):
            if name not in self.lives:
                with contextlib.suppress(RunNotFound):
                    older = self.runs.get(name).info()
                    assert older.state is State.ENDED, "only an earlier run may have the name"

    @invariant()
    def no_name_has_two_live_workloads(self) -> None:
        expected = {life.run.id for life in self.lives.values() if life.is_alive}
        # In the middle of an exec, which takes a moment, a process shows no stamp.
        eventually(lambda: self._stamped() >= expected, why="the live are seen")
        assert self._stamped() <= expected

    def _stamped(self) -> set[str]:
        ours = set(self.runs.home.run_ids())
        return {run_id for run_id, _member in find_stamped() if run_id in ours}

    @invariant()
    def nobody_else_was_touched(self) -> None:
        assert os.waitpid(self.bystander.pid, os.WNOHANG | os.WUNTRACED)[0] == 0


RunsMachine.TestCase.settings = settings(
    max_examples=int(os.environ.get("HOLDFAST_TEST_LIVES", "6")),
    stateful_step_count=14,
    suppress_health_check=list(HealthCheck),
)
TestRunsMachine = RunsMachine.TestCase
