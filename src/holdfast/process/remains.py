"""A process that has ended but was not reaped still shows how it ended, and whether it began.

PID 1 of a container may never reap, and a stopped shim does not. The zombie pins its PID, so
what /proc says about it is about that process.
"""

from __future__ import annotations

import os

from holdfast.errors import ProcessGone, ProcessUnreadable
from holdfast.process import here, pidfd, procfs
from holdfast.process.identity import HeldProcess, ProcessIdentity
from holdfast.process.verdict import Look, Proof, Verdict


def hold_remains(identity: ProcessIdentity) -> HeldProcess | None:
    """The zombie of that identity, proven by its inode; None when there is none to be seen."""
    place = here.place()
    theirs = (identity.host, identity.boot_id, identity.pid_ns)
    if place.is_portable or theirs != (place.host, place.boot_id, place.pid_ns):
        return None
    if identity.pidfd_inode is None or not pidfd.has_inodes():
        return None
    try:
        fd = os.pidfd_open(identity.pid)
    except OSError:
        return None
    is_ours = os.fstat(fd).st_ino == identity.pidfd_inode
    if not is_ours or not pidfd.has_exited(fd) or pidfd.is_reaped(fd):
        os.close(fd)
        return None
    return HeldProcess(identity, fd, Look(Verdict.GONE, Proof.INODE, "has exited, not yet reaped"))


def has_execed(held: HeldProcess) -> bool | None:
    """Whether a process that was forked for a command became it; None: nobody can tell any more.

    The kernel's own flag, which a zombie still shows. Its PID is pinned until the reap.
    """
    if not here.place().proc_is_ours:
        return None
    try:
        answer = procfs.has_execed(held.identity.pid)
    except (ProcessGone, ProcessUnreadable, ValueError, IndexError):
        return None
    return None if pidfd.is_reaped(held.fd) else answer
