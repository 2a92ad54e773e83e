"""Kernel file locks: the authority on which process supervises a run.

A lock belongs to the open file description, is true across PID namespaces, and goes with its
holder on any death. A fork in another thread copies the description, so a lock is given up by
F_UNLCK and not by close (tests/system/test_run_locks.py).
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time

from holdfast.errors import HomeUnusable, LockBusy, UnsafeFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

_FLOCK_BYTES = 32  # struct flock: the type in 2 bytes; all else 0, for the whole file
_HAS_OFD = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW
WAIT_SECONDS = 10.0


class HeldLock:
    """A lock that this process holds until `release`."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def is_held(self) -> bool:
        return self.fd >= 0

    def release(self) -> None:
        """Give it up. Twice is as good as once."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            try:
                _unlock(fd)
            finally:
                os.close(fd)


def take_lock(path: str) -> HeldLock | None:
    """Take the lock if it is free; None: another process holds it. Makes the file if need be."""
    while True:
        fd = _open(path)
        try:
            if not _lock(fd):
                os.close(fd)
                return None
            if _is_still(path, fd):
                return HeldLock(path, fd)
        except BaseException:
            os.close(fd)
            raise
        # The file was removed or replaced between open and lock: this lock guards nothing.
        os.close(fd)


def wait_for_lock(path: str, timeout_seconds: float = WAIT_SECONDS) -> HeldLock:
    """Take the lock, waiting while others hold it. LockBusy when that takes too long."""
    deadline = time.monotonic() + timeout_seconds
    pause = 0.001
    while True:
        lock = take_lock(path)
        if lock is not None:
            return lock
        if time.monotonic() >= deadline:
            raise LockBusy(
                f"{path} has been locked by another process for {timeout_seconds:g} s",
                hint="try again; if it lasts, see who has it open: `lsof` names the process",
                path=path,
            )
        # A blocking lock has no timeout without signals. The spread keeps waiters out of step.
        time.sleep(pause * (0.5 + os.urandom(1)[0] / 255))
        pause = min(pause * 2, 0.05)


def lock_is_held(path: str) -> bool:
    """Whether the lock is held. Takes nothing, writes nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _FLAGS)
    except FileNotFoundError:
        return False
    try:
        return _is_locked(fd)
    finally:
        os.close(fd)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | _FLAGS, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR):
            what = "a symbolic link" if error.errno == errno.ELOOP else "a directory"
            raise UnsafeFile(
                f"{path} is {what}; locks are plain files",
                hint="look who made it, and remove it",
                path=path,
            ) from None
        raise


def _is_still(path: str, fd: int) -> bool:
    try:
        named = os.lstat(path)
    except FileNotFoundError:
        return False
    opened = os.fstat(fd)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def _lock(fd: int) -> bool:
    try:
        if _HAS_OFD:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _request(fcntl.F_WRLCK))
        else:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise HomeUnusable(
            f"locks don't work here: {error.strerror}",
            hint="set HOLDFAST_HOME to a directory on a local disk",
        ) from error
    return True


def _unlock(fd: int) -> None:
    if _HAS_OFD:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _request(fcntl.F_UNLCK))
    else:
        fcntl.flock(fd, fcntl.LOCK_UN)


def _is_locked(fd: int) -> bool:
    if _HAS_OFD:
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _request(fcntl.F_WRLCK))
        return int.from_bytes(answer[:2], sys.byteorder) != fcntl.F_UNLCK
    # No way to ask: a shared lock for an instant disturbs no other reader.
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


def _request(kind: int) -> bytes:
    return kind.to_bytes(2, sys.byteorder) + bytes(_FLOCK_BYTES - 2)
