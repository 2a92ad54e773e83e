"""Which processes a process descends from, each proven while both are held.

Another process may have a PID by the time that it is looked at: a parent is proven by a child that
still names it after it was held. Nothing here sends a signal.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, IdentityUnproven
from holdfast.process import pidfd, this_host
from holdfast.process.identity import HeldProcess, hold_pid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DEEPEST = 200
_TRIES = 5  # a parent may end, and another take its place, at any time


def hold_peer(pid: int, peer_fd: int | None) -> HeldProcess:
    """The process at the other end of a connection; IdentityUnproven, or another HoldfastError.

    `peer_fd` is the kernel's own pidfd of it (Linux 6.5); without it, the number alone is left.
    """
    if pid <= 0 or not this_host.place().proc_is_ours:
        raise IdentityUnproven("the process that asks can't be seen from here")
    held = hold_pid(pid)
    is_same = peer_fd is None or not pidfd.has_inodes() or _inode(peer_fd) == _inode(held.fd)
    if not is_same or (peer_fd is not None and pidfd.has_exited(peer_fd)):
        held.close()
        raise IdentityUnproven("the process that asked has ended")
    return held


def _inode(fd: int) -> int:
    return os.fstat(fd).st_ino


def climb(held: HeldProcess) -> Iterator[HeldProcess]:
    """The process, its parent, and so on up to the first of its namespace; each while it is held.

    IdentityUnproven where one can't be seen. What is given is closed when the next one is asked
    for; the first is the caller's.
    """
    current = held
    try:
        for _ in range(_DEEPEST):
            yield current
            above = _parent_of(current)
            if above is None:
                return
            if current is not held:
                current.close()
            current = above
        raise IdentityUnproven("too many processes stand above it")
    finally:
        if current is not held:
            current.close()


def _parent_of(child: HeldProcess) -> HeldProcess | None:
    """Its parent, held; None: it is the first."""
    for _ in range(_TRIES):
        stat = child.read_stat()
        if stat is None or child.has_exited():
            raise IdentityUnproven(f"process {child.identity.pid} can't be seen, or has ended")
        if stat.ppid == 0:
            return None
        try:
            parent = hold_pid(stat.ppid)
        except HoldfastError:  # it ended just now, or is hidden
            continue
        again = child.read_stat()
        if again is not None and again.ppid == stat.ppid and not parent.has_exited():
            return parent
        parent.close()
    raise IdentityUnproven(f"the parent of process {child.identity.pid} can't be seen")
