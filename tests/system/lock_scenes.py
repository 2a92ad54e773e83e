"""Scenes about locks, for other processes and other PID namespaces."""

from __future__ import annotations

import os

from holdfast.run.claims import claim_name
from holdfast.run.home import Home
from holdfast.run.locks import lock_is_held, take_lock, wait_for_lock
from tests.support.kernel_lab import announce


def count_up(home: str, counter: str, times: int) -> None:
    """Add to a number that only the holder of a claim may touch."""
    for _ in range(times):
        with claim_name(Home(home), "counter", 60):
            with open(counter) as file:
                number = int(file.read())
            with open(counter, "w") as file:
                file.write(str(number + 1))


def hold_until_killed(path: str) -> None:
    """Take the lock, say so, and wait for the end."""
    lock = take_lock(path)
    announce(lock is not None)
    os.read(os.pipe()[0], 1)


def look(path: str) -> list[bool]:
    """Whether it is held, and whether it could be taken."""
    return [lock_is_held(path), take_lock(path) is not None]


def wait_and_keep(path: str) -> list[bool]:
    """Wait for a lock; whether the file that is locked is the one that the path names."""
    announce("waiting")
    with wait_for_lock(path, 60) as lock:
        return [os.stat(path).st_ino == os.fstat(lock.fd).st_ino, lock_is_held(path)]
