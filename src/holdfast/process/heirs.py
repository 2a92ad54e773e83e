"""What a root such as `setsid CMD` leaves: the process that takes the root's place.

The kernel knows what a root was in the end: its name stays readable until it is reaped. What it
started came back to us, the subreaper, when it ended, is still there though it may have ended
too, and is older than anything that it started itself. So nothing here depends on the moment.
"""

from __future__ import annotations

import os

from holdfast.errors import ProcessGone, ProcessUnreadable
from holdfast.process import here, pidfd, procfs
from holdfast.process.identity import HeldProcess, ProcessIdentity
from holdfast.process.programs import MULTI_CALL, base
from holdfast.process.verdict import Look, Proof, Verdict
from holdfast.process.wrappers import TABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def find_heir(
    root: HeldProcess, command: tuple[str, ...], spare: Callable[[ProcessIdentity], bool]
) -> HeldProcess | None:
    """The heir of our own child that ended with 0 and is not reaped; None: it leaves none.

    A zombie is held too: it is our child, so its number is its own until we reap it.
    """
    try:
        comm = procfs.read_stat(root.identity.pid).comm
    except (ProcessGone, ProcessUnreadable):
        return None
    if not _leaves_by_design(comm, command):
        return None
    candidates = [held for pid in procfs.children(os.getpid()) if (held := _hold_child(pid))]
    heirs = [
        held
        for held in candidates
        if _age_key(held.identity) > _age_key(root.identity) and not spare(held.identity)
    ]
    heir = min(heirs, key=lambda held: _age_key(held.identity), default=None)
    for held in candidates:
        if held is not heir:
            held.close()
    return heir


def _leaves_by_design(comm: str, command: tuple[str, ...]) -> bool:
    if comm in MULTI_CALL and len(command) > 1:  # `busybox setsid CMD`
        comm, command = command[1], command[1:]
    known = TABLE.get(comm)
    if known is None or not known.leaves:
        return False
    return base(command[0]) != comm or not _waits(command[1:])


def _waits(words: tuple[str, ...]) -> bool:
    """`setsid --wait`: what stays is left by its program, not by itself."""
    for word in words:
        if not word.startswith("-"):
            return False
        if word == "--wait" or (word[1:2] != "-" and "w" in word):
            return True
    return False


def _age_key(identity: ProcessIdentity) -> tuple[int, int]:
    # The inode is a counter, given at fork; without it, two of one tick go by their numbers.
    return identity.start_ticks or 0, identity.pidfd_inode or identity.pid


def _hold_child(pid: int) -> HeldProcess | None:
    place = here.place()
    try:
        ticks = procfs.read_stat(pid).start_ticks - (place.ticks_offset or 0)
        fd = os.pidfd_open(pid)
    except (ProcessGone, ProcessUnreadable, OSError):
        return None
    inode = pidfd.inode(fd)
    identity = ProcessIdentity(pid, ticks, inode, place.pid_ns, place.boot_id, place.host, None)
    return HeldProcess(identity, fd, Look(Verdict.SAME, Proof.INODE, "our own child"))
