"""A real program that is watched as a shim would: walked, resolved, sampled, judged.

The watcher is a subreaper of its own process, so that what a root leaves comes back to it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, Self

from holdfast.process.identity import ProcessIdentity, hold_pid
from holdfast.process.sampling.sampler import Sampler
from holdfast.process.signals import send_signal
from holdfast.process.tree import Tree
from holdfast.process.tree_stop import stop_tree
from holdfast.process.workload.finder import WorkloadFinder
from holdfast.process.workload.heirs import find_heirs
from holdfast.process.workload.resolution import Resolution, Sought
from holdfast.run.anomalies.rule import Anomaly, Context
from holdfast.run.anomalies.watch import AnomalyWatch
from holdfast.run.trace import UsagePeaks
from tests.support.waiting import eventually

_PR_SET_CHILD_SUBREAPER = 36
FAULTY = Path(__file__).parent / "faulty"
PYTHON = os.path.realpath(sys.executable)  # no launcher of a virtual environment in between


def faulty(name: str, *arguments: str) -> list[str]:
    """The command of one of the programs in tests/support/faulty."""
    return [PYTHON, "-S", str(FAULTY / f"{name}.py"), *arguments]


class Held:
    """A child that waits until its identity is known, and only then becomes the command."""

    def __init__(self, command: Sequence[str], cwd: Path | None, env: dict[str, str] | None):
        gate, self._gate = os.pipe()
        out, write_end = os.pipe()
        self._execed, closed_by_exec = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _become(command, gate, write_end, cwd, {**os.environ, **(env or {})})
        for fd in (gate, write_end, closed_by_exec):
            os.close(fd)
        self.output = os.fdopen(out, "rb")
        self._code: int | None = None

    def release(self) -> None:
        """Returns when it is the command: until then it looks like the test itself."""
        os.write(self._gate, b"x")
        os.close(self._gate)
        os.read(self._execed, 1)
        os.close(self._execed)

    def poll(self) -> int | None:
        """The exit code once it has ended; it is reaped with that."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def close(self) -> None:
        self.output.close()
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _become(
    command: Sequence[str], gate: int, out: int, cwd: Path | None, env: dict[str, str]
) -> NoReturn:
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        if cwd is not None:
            os.chdir(cwd)
        os.read(gate, 1)
        os.execvpe(command[0], list(command), env)
    finally:
        os._exit(127)


class Watched:
    """One command and everything that watching it showed."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        expected: str | None = None,
        sought: Sought | None = None,
        interval: float = 0.2,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        _be_subreaper(True)
        self.interval = interval
        with Tree(reaper=_ourselves()) as others:
            self._others = {process.identity for process in others.walk()}
        self.process = Held(command, cwd, env)
        self._held = hold_pid(self.process.pid)
        self.root = self._held.identity
        self._command = tuple(command)
        self.process.release()
        self.tree = Tree([self.root], reaper=_ourselves(), spare=self._others.__contains__)
        self.finder = WorkloadFinder(
            self.root,
            command=tuple(command),
            expected=expected,
            sought=sought,
        )
        self.sampler = Sampler(full_every_seconds=interval)
        self.watch = AnomalyWatch()
        self.peaks = UsagePeaks()
        self.rows: list[dict[str, Any]] = []
        self.anomalies: list[Anomaly] = []
        self._stepped_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()
        for held in self.tree.held():
            send_signal(held.identity, 9)
        self.tree.close()
        stop_tree(self.root, grace_seconds=0, reaper=_ourselves(), spare=self._others.__contains__)
        self.process.close()
        _reap()
        _be_subreaper(False)

    @property
    def resolution(self) -> Resolution:
        return self.finder.resolution

    def ready(self) -> Watched:
        """Wait until the program says so."""
        assert b"ready" in self.process.output.readline()
        return self

    def step(self) -> dict[str, Any]:
        """Look once, as the shim does at each interval."""
        if self._held.fd >= 0 and self._held.has_exited():
            heirs = find_heirs(self._held, self._command, self._others.__contains__)
            self._held.close()
            for heir in heirs:
                self.finder.take_root(heir.identity)
                heir.close()
        members = self.tree.walk()
        resolution = self.finder.look(members)
        workload = resolution.workload
        context = Context(
            workload.identity.token if workload else None,
            tuple(wrapper.identity.token for wrapper in resolution.wrappers),
            cpus=os.cpu_count() or 1,
        )
        row = self.sampler.sample(members, resolution).to_json()
        self.peaks.add(row)
        self.anomalies.extend(self.watch.feed(row, context))
        self.rows.append(row)
        return row

    def until(self, condition: Callable[[], Any], why: str, timeout: float = 30) -> None:
        """Sample at the interval until the condition holds."""

        def look() -> bool:
            if time.monotonic() - self._stepped_at >= self.interval:
                self._stepped_at = time.monotonic()
                self.step()
            return bool(condition())

        eventually(look, timeout=timeout, why=why)

    def for_samples(self, count: int) -> None:
        """So many more samples."""
        goal = len(self.rows) + count
        self.until(lambda: len(self.rows) >= goal, f"{count} more samples")


def _be_subreaper(wanted: bool) -> None:
    # Of the test alone: orphans of other tests in this process go their usual way.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def _ourselves() -> ProcessIdentity:
    return ProcessIdentity.current()


def _reap() -> None:
    """Orphans came to us, the subreaper: wait for those that have ended."""
    for thread in os.listdir("/proc/self/task"):
        for pid in Path(f"/proc/self/task/{thread}/children").read_text().split():
            try:
                os.waitpid(int(pid), os.WNOHANG)
            except ChildProcessError:
                continue
