"""Places of the kernel lab by name, for tests; each says what it needs of this machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator

from tests.support.features import needs
from tests.support.kernel_lab import OTHER_UID, Place

USERS = ("root", "ordinary user")


def namespace_of(user: str) -> Place:
    """A fresh PID namespace made by root, or by an ordinary user through a user namespace."""
    if user == "root":
        needs("root", "pid_namespace")
        return Place()
    needs("user_namespace")
    return Place(uid=uid_of(user))


def uid_of(user: str) -> int | None:
    """The user id to play as; None: the one that we have."""
    if user == "root":
        needs("root")
        return None
    return OTHER_UID if os.geteuid() == 0 else None


@contextlib.contextmanager
def sleeper(uid: int | None = None, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that sleeps until the block ends; of another user if asked."""
    started = subprocess.Popen(command or ("sleep", "600"), user=uid, group=uid)
    try:
        yield started
    finally:
        started.kill()
        started.wait()
