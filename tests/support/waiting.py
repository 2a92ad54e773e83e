"""Waiting on a condition. Tests never sleep and hope.

What the kernel tells is awaited: a change below a directory (inotify), the end of a process (a
pidfd), a reader of a FIFO. Only what nothing tells is looked at again and again.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
Paths = Callable[[], Iterable[str | Path]]

POLL_SECONDS = 0.01
# With a watch. The kernel tells that a lock's file was closed just before it lets go of the lock.
WATCHED_POLL_SECONDS = 0.1

_libc = ctypes.CDLL(None, use_errno=True)
_CHANGES = 0x2 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
"""IN_MODIFY, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF, MOVE_SELF."""


def eventually(
    condition: Callable[[], T | None],
    timeout: float = 60,
    why: str = "",
    *,
    ignoring: tuple[type[Exception], ...] = (),
    watching: Paths | None = None,
) -> T:
    """The first truthy value of `condition`; fails with `why` when there is none in time.

    Exceptions named in `ignoring` count as "not yet"; all others pass through. With `watching`,
    which names files and directories, it looks again whenever one of them has changed.
    """
    deadline = time.monotonic() + timeout
    with _changes(watching) as wait_for_change:
        while True:
            seen: object
            try:
                value = condition()
            except ignoring as error:
                seen = error
            else:
                if value:
                    return value
                seen = value
            if time.monotonic() >= deadline:
                told = why or condition
                raise AssertionError(f"not within {timeout} s: {told}; last saw {seen!r}")
            wait_for_change()


@contextlib.contextmanager
def _changes(watching: Paths | None) -> Iterator[Callable[[], None]]:
    """What waits for the next change. A change since the last call counts: none is missed."""
    if watching is None:
        yield lambda: time.sleep(POLL_SECONDS)
        return
    fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:  # a test that takes them all away
        yield lambda: time.sleep(POLL_SECONDS)
        return

    last_look = time.monotonic()

    def add() -> None:
        for path in watching():
            _libc.inotify_add_watch(fd, os.fsencode(path), _CHANGES)

    def wait() -> None:
        nonlocal last_look
        add()  # those that have come into being meanwhile
        if select.select([fd], [], [], WATCHED_POLL_SECONDS)[0]:
            # A log that is written all the time is not read all the time.
            time.sleep(max(0.0, last_look + POLL_SECONDS - time.monotonic()))
            os.read(fd, 65536)
        last_look = time.monotonic()

    try:
        add()
        yield wait
    finally:
        os.close(fd)


def wait_for_exit(pid: int, timeout: float = 60, why: str = "") -> None:
    """Until the process has ended; a zombie has."""
    _poll_pidfd(pid, select.POLLIN, timeout, why or f"{pid} has ended")


def wait_until_reaped(pid: int, timeout: float = 60, why: str = "") -> None:
    """Until its parent has reaped it as well: POLLHUP, from Linux 6.9."""
    _poll_pidfd(pid, 0, timeout, why or f"{pid} is reaped")


def _poll_pidfd(pid: int, events: int, timeout: float, why: str) -> None:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(fd, events)
        is_over = lambda: poll.poll(100) or not os.path.exists(f"/proc/{pid}")  # noqa: E731
        eventually(is_over, timeout, why)
    finally:
        os.close(fd)


def open_for_reader(fifo: str | Path, timeout: float = 60) -> int:
    """The FIFO's writing end, once a process opens it for reading."""
    opened: list[int] = []
    opening = threading.Thread(
        target=lambda: opened.append(os.open(fifo, os.O_WRONLY | os.O_CLOEXEC)), daemon=True
    )
    opening.start()
    opening.join(timeout)
    if opening.is_alive():
        os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))  # which lets it return
        opening.join()
        os.close(opened[0])
        raise AssertionError(f"not within {timeout} s: a reader of {fifo}")
    return opened[0]
