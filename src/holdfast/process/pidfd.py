"""Process file descriptors: open, inode, "has it ended", and the exit status of a non-child.

A pidfd is bound to one process for good: it never follows a recycled PID. Each feature is
found by trying it, never by the kernel's version.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
from sys import byteorder

_GET_INFO = 0xC040FF0B  # PIDFD_GET_INFO: _IOWR(0xFF, 11, 64 bytes)
_INFO_BYTES = 64  # a mask of 8, the control group of 8, and words of 4
_PID_AT, _EXIT_AT = 4, 15  # words
_INFO_PID = 1  # PIDFD_INFO_PID, always given
_INFO_EXIT = 8  # PIDFD_INFO_EXIT, Linux 6.15+

_has_inodes: bool | None = None


def has_inodes() -> bool:
    """Whether each pidfd has an inode of its own (pidfs, Linux 6.9+).

    Before that all pidfds shared the one anonymous inode, on the device that eventfds use.
    """
    global _has_inodes
    if _has_inodes is None:
        pidfd, eventfd = os.pidfd_open(os.getpid()), os.eventfd(0)
        try:
            _has_inodes = os.fstat(pidfd).st_dev != os.fstat(eventfd).st_dev
        finally:
            os.close(pidfd)
            os.close(eventfd)
    return _has_inodes


def inode(fd: int) -> int | None:
    """The pidfd's inode: unique for the boot, or None on a kernel that has none."""
    return os.fstat(fd).st_ino if has_inodes() else None


def has_exited(fd: int) -> bool:
    """Whether every thread of the process has ended (reaped or not).

    State `Z` in /proc is not that: a leader whose other threads live on shows it too.
    """
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def wait_exited(fd: int, timeout_seconds: float | None) -> bool:
    """Wait until the process has ended; False when the time is up."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(None if timeout_seconds is None else max(0, timeout_seconds) * 1000))


def is_reaped(fd: int) -> bool:
    """A zombie polls readable; only after the reap is there a hang-up as well."""
    poll = select.poll()
    poll.register(fd, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def exit_status(fd: int) -> int | None:
    """The wait status of a process that is not our child; None before its reap or without 6.15.

    Decode with os.waitstatus_to_exitcode or WIFSIGNALED.
    """
    answer = _ask(fd, _INFO_EXIT)
    return answer[_EXIT_AT] if answer else None


def number_here(fd: int) -> int | None:
    """The PID in our namespace; None: it has none here, has been reaped, or without 6.13."""
    answer = _ask(fd, _INFO_PID)
    return (answer[_PID_AT] or None) if answer else None


def _ask(fd: int, mask: int) -> list[int] | None:
    """The answer in words of 4 bytes; None where it lacks what was asked for."""
    buffer = bytearray(mask.to_bytes(8, byteorder) + bytes(_INFO_BYTES - 8))
    try:
        fcntl.ioctl(fd, _GET_INFO, buffer, True)
    except OSError as error:
        # ESRCH: reaped before any exit information was kept. ENOTTY, EINVAL: an older kernel.
        if error.errno in (errno.ESRCH, errno.ENOTTY, errno.EINVAL):
            return None
        raise
    has_it = int.from_bytes(buffer[:8], byteorder) & mask
    return memoryview(buffer).cast("i").tolist() if has_it else None
