"""Control groups for tests: a limit for fork bombs, and the freezer that even SIGKILL waits for.

Handles cgroup v1 and v2; each group is ours alone, made for one test and removed after it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

_numbers = itertools.count()


class CGroup:
    """One control group directory."""

    def __init__(self, path: Path):
        self.path = path

    def add(self, pid: int) -> None:
        (self.path / "cgroup.procs").write_text(str(pid))

    def add_self(self) -> None:
        """For a child between fork and its work: it and all that it forks are inside."""
        self.add(os.getpid())

    def pids(self) -> list[int]:
        return [int(line) for line in (self.path / "cgroup.procs").read_text().split()]

    def freeze(self) -> None:
        """v1 only: tasks stay in D state, and SIGKILL has no effect until they are thawed."""
        self._set_freezer("FROZEN")

    def thaw(self) -> None:
        self._set_freezer("THAWED")

    def _set_freezer(self, state: str) -> None:
        file = self.path / "freezer.state"
        file.write_text(state)
        deadline = time.monotonic() + 10
        while file.read_text().strip() != state:
            if time.monotonic() > deadline:
                raise AssertionError(f"freezer is {file.read_text().strip()}, not {state}")
            time.sleep(0.001)


def mount_point(controller: str) -> Path | None:
    """Where groups with this controller can be made, or None."""
    v2: Path | None = None
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup" and controller in options.split(","):
            return Path(point) if os.access(point, os.W_OK) else None
        if kind == "cgroup2":
            v2 = Path(point)
    if v2 is None or controller == "freezer" or not os.access(v2, os.W_OK):
        return None
    if controller not in (v2 / "cgroup.controllers").read_text().split():
        return None
    return v2


@contextlib.contextmanager
def pids_cgroup(limit: int) -> Iterator[CGroup]:
    """A group of at most `limit` tasks. What is left in it afterwards is killed."""
    with _cgroup("pids") as group:
        (group.path / "pids.max").write_text(str(limit))
        yield group


@contextlib.contextmanager
def memory_cgroup(limit_bytes: int) -> Iterator[CGroup]:
    """A group of at most so much memory: the kernel's OOM killer strikes in it."""
    with _cgroup("memory") as group:
        v1 = group.path / "memory.limit_in_bytes"
        (v1 if v1.exists() else group.path / "memory.max").write_text(str(limit_bytes))
        yield group


@contextlib.contextmanager
def freezer_cgroup() -> Iterator[CGroup]:
    """A v1 freezer group; thawed and emptied afterwards."""
    with _cgroup("freezer") as group:
        try:
            yield group
        finally:
            group.thaw()


@contextlib.contextmanager
def _cgroup(controller: str) -> Iterator[CGroup]:
    point = mount_point(controller)
    if point is None:
        raise AssertionError(f"no writable {controller} control group here")
    if (point / "cgroup.subtree_control").exists():
        (point / "cgroup.subtree_control").write_text(f"+{controller}")
    ours = f"{os.readlink('/proc/self/ns/pid')[5:-1]}-{os.getpid()}-{next(_numbers)}"
    path = point / f"holdfast-test-{ours}"
    path.mkdir()
    group = CGroup(path)
    try:
        yield group
    finally:
        _empty(group)
        path.rmdir()


def _empty(group: CGroup) -> None:
    """Kill what a failed test left. A PID listed in our own group can only be ours."""
    limit = group.path / "pids.max"
    if limit.exists():
        limit.write_text("0")  # nothing forks any more, so killing once around is enough
    deadline = time.monotonic() + 20
    while pids := group.pids():
        if time.monotonic() > deadline:
            raise AssertionError(f"{group.path} still holds {pids}")
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.002)
