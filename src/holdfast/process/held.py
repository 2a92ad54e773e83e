"""Holds a recorded process: under its number in *our* PID namespace, or as the zombie it left.

An identity recorded in a container names its PID there. Its pidfd inode proves that it is the same
process, but that number belongs to another process here: reading /proc by it, or walking down from
it, would look at the other one (tests/system/test_other_namespaces.py). A process that ended and
was not reaped (PID 1 of a container may never reap) pins its PID, so /proc still shows how it ended
and whether it became the command. Nothing here sends a signal.
"""

from __future__ import annotations

import os

from holdfast.errors import IdentityUnproven
from holdfast.process import pidfd, this_host
from holdfast.process.identity import HeldProcess, ProcessIdentity, hold_pid
from holdfast.process.verdict import Look, Proof, Verdict


def hold_here(identity: ProcessIdentity) -> HeldProcess:
    """Like `identity.hold()`; the identity of what is held is as it would be captured here."""
    return seen_from_here(identity.hold())


def seen_from_here(held: HeldProcess) -> HeldProcess:
    """The held process, named for this namespace. Takes the descriptor over, also if it raises."""
    recorded = held.identity
    if recorded.pid_ns is None or recorded.pid_ns == this_host.place().pid_ns:
        return held
    with held:
        number = pidfd.number_here(held.fd)
        if number is None:
            raise IdentityUnproven(
                f"process {recorded.pid} of another PID namespace has no number here",
                hint="look at it from the namespace that it runs in",
            )
        local = hold_pid(number)
        # Held all the while: had it ended and been reaped, the number could name any process.
        if local.identity.pidfd_inode != recorded.pidfd_inode or held.has_exited():
            local.close()
            raise IdentityUnproven(f"process {recorded.pid} ended while it was looked at")
    return local


def hold_remains(identity: ProcessIdentity) -> HeldProcess | None:
    """The zombie of that identity, proven by its inode; None when there is none to be seen."""
    place = this_host.place()
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
    """Whether a process that was forked for a command became it; None: nothing shows it any more.

    The kernel's own flag, which a zombie still shows. Its PID is pinned until the reap.
    """
    if not this_host.place().proc_is_ours:
        return None
    stat = held.read_stat()
    return None if stat is None else stat.has_execed
