"""Real PID reuse: children at a chosen PID, and strangers that take the PID of the dead.

Works only inside a PID namespace of one's own (`kernel_lab.run_in`): there `ns_last_pid` may be
written, and nobody else forks in between.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

T = TypeVar("T")

LAST_PID = "/proc/sys/kernel/ns_last_pid"


class Child:
    """A forked child of ours that pauses with every signal at its default, until it is ended."""

    def __init__(self, pid: int, ticks: int):
        self.pid = pid
        self.ticks = ticks
        self.wait_status: int | None = None

    def untouched(self) -> bool:
        """Alive and not stopped: no signal of consequence ever reached it."""
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        if pid and not os.WIFSTOPPED(status):
            self.wait_status = status
        return pid == 0

    def end(self) -> int:
        """Kill and reap it, so that its PID is free. The wait status tells who was first."""
        if self.wait_status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait_status = os.waitpid(self.pid, 0)[1]
        return self.wait_status

    def ended_by(self) -> int:
        """Number of the signal that ended it (SIGKILL is ours)."""
        return os.WTERMSIG(self.end())


def start_ticks(pid: int) -> int:
    """Field 22 of stat, read here on purpose without the code under test."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def spawn(pid: int | None = None, action: Callable[[], object] | None = None) -> Child:
    """Fork a child, at `pid` if given. It runs `action` first, then pauses for ever."""
    while True:
        if pid is not None:
            with open(LAST_PID, "w") as file:
                file.write(str(pid - 1))
        born = os.fork()
        if born == 0:
            _pause(action)
        child = Child(born, start_ticks(born))
        if pid is None or born == pid:
            return child
        child.end()


def _pause(action: Callable[[], object] | None) -> NoReturn:
    try:
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            if signal.getsignal(number) not in (signal.SIG_DFL, None):
                signal.signal(number, signal.SIG_DFL)
        if action is not None:
            action()
        while True:
            signal.pause()
    finally:
        os._exit(99)


def recycle(victim: Child) -> Child:
    """End the victim and give its PID to a stranger at once."""
    victim.end()
    return spawn(victim.pid)


def recycle_in_the_same_tick(
    capture: Callable[[Child], object], attempts: int = 200
) -> tuple[object, Child, int]:
    """Recycle until the stranger has the victim's PID *and* start tick.

    `capture` sees each victim alive. Gives what it saw of the last one, the stranger, and the
    number of attempts. Without a gap 74-98 % collide.
    """
    for attempt in range(1, attempts + 1):
        victim = spawn()
        seen = capture(victim)
        stranger = recycle(victim)
        if stranger.ticks == victim.ticks:
            return seen, stranger, attempt
        stranger.end()
    raise AssertionError(f"no tick collision in {attempts} recycles")


def await_state(pid: int, letter: str) -> str:
    """Wait until /proc shows this state letter."""
    return _await(pid, lambda stat: stat.rpartition(b")")[2].split()[0].decode(), letter)


def await_comm(pid: int, comm: bytes) -> bytes:
    """Wait until the process has this name; the kernel cuts it to 15 bytes."""
    return _await(pid, lambda stat: stat[stat.index(b"(") + 1 : stat.rindex(b")")], comm[:15])


def _await(pid: int, read: Callable[[bytes], T], wanted: T) -> T:
    deadline = time.monotonic() + 10
    while True:
        with open(f"/proc/{pid}/stat", "rb") as file:
            seen = read(file.read())
        if seen == wanted:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"process {pid} has {seen!r}, not {wanted!r}")
        time.sleep(0.001)
