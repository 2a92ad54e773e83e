"""Finds and ends processes that a test started and left behind.

A process is a test's own when the test's tag is in its environment, or when it is a direct child
that was not there before. A forked child that never ran exec shows the environment of its parent's
start, so the tag alone would miss it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from typing import NamedTuple

TAG_VARIABLE = "HOLDFAST_TEST_TAG"


class Leftover(NamedTuple):
    pid: int
    what: str
    how: str  # it is: what a failure that can't be repeated has to tell


class TestProcesses:
    """What one test started, from its setup to its teardown."""

    __test__ = False  # not a test class

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._before = set(_all_pids())

    def left(self) -> list[Leftover]:
        """The test's processes that are alive now."""
        needle = f"{TAG_VARIABLE}={self.tag}".encode()
        new = set(_all_pids()) - self._before  # a look at every process would cost each test 3 ms
        tagged = {pid for pid in new if needle in _environ(pid)}
        own = new & set(_children())
        found = filter(_is_alive, sorted(tagged | own))
        return [Leftover(pid, _describe(pid), _standing(pid)) for pid in found]

    def left_after(self, seconds: float) -> list[Leftover]:
        """Those still alive when the ones that were just ending had time to."""
        deadline = time.monotonic() + seconds
        while (left := self.left()) and time.monotonic() < deadline:
            with _pidfd(left[0].pid) as fd:
                if fd is not None:
                    select.select([fd], [], [], deadline - time.monotonic())
        return left

    def end(self) -> None:
        """Kills them, until a look finds none: a shim may restart what it lost."""
        deadline = time.monotonic() + 10
        while (left := self.left()) and time.monotonic() < deadline:
            for process in left:
                self._kill(process.pid)

    def _kill(self, pid: int) -> None:
        with _pidfd(pid) as fd:
            # The descriptor was opened first; look again, so that a recycled PID is not hit.
            if fd is None or pid not in {process.pid for process in self.left()}:
                return
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            select.select([fd], [], [], 5)
        if pid in _children():
            os.waitpid(pid, 0)


@contextlib.contextmanager
def _pidfd(pid: int) -> Iterator[int | None]:
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        yield None
        return
    try:
        yield fd
    except ProcessLookupError:
        pass  # reaped meanwhile
    finally:
        os.close(fd)


def _all_pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:  # not Linux: nothing to look at
        return []


def _children() -> list[int]:
    pids: list[int] = []
    with contextlib.suppress(FileNotFoundError):
        for thread in os.listdir("/proc/self/task"):
            pids += map(int, _read(f"/proc/self/task/{thread}/children").split())
    return pids


def _environ(pid: int) -> list[bytes]:
    return _read(f"/proc/{pid}/environ").split(b"\0")


def _is_alive(pid: int) -> bool:
    state = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return bool(state) and state[0] not in (b"Z", b"X")


def _describe(pid: int) -> str:
    return _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


def _standing(pid: int) -> str:
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].decode().split()
    if not fields:
        return "gone meanwhile"
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    waits = [_read(f"/proc/{pid}/task/{task}/wchan").decode() for task in _threads(pid)]
    above = f"{fields[1]} ({_describe(int(fields[1]))})"
    return f"{fields[0]}, {age:.1f} s old, below {above}, threads in {' '.join(waits)}"


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:  # gone
        return []


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # gone, or not ours to read
        return b""
