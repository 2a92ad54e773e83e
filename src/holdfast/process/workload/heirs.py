"""What a root such as `setsid CMD` leaves: the process that takes the root's place.

The kernel knows what a root was in the end: its name stays readable until it is reaped. When it
ended, its children became ours, since we are the subreaper; they stay until we reap them, alive or
ended. So nothing here depends on the moment.
"""

from __future__ import annotations

import os

from holdfast.process import pidfd, procfs, this_host
from holdfast.process.identity import HeldProcess, ProcessIdentity
from holdfast.process.verdict import Look, Proof, Verdict
from holdfast.process.workload.programs import base
from holdfast.wrappers import MULTI_CALL, WRAPPERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.process.procfs import ProcStat


def find_heirs(
    root: HeldProcess, command: tuple[str, ...], spare: Callable[[ProcessIdentity], bool]
) -> list[HeldProcess]:
    """The possible heirs of our own child that ended with 0 and is not reaped; []: it leaves none.

    One of them is; several can't be told apart. A zombie is held too: it is our child, so its
    number is its own until we reap it.
    """
    stat = procfs.stat_or_none(root.identity.pid)
    if stat is None:
        return []
    name, words = stat.comm, command
    if name in MULTI_CALL and len(words) > 1:  # `busybox setsid CMD`
        name, words = words[1], words[1:]
    known = WRAPPERS.get(name)
    was_it_from_the_start = base(words[0]) == name
    if known is None or not known.leaves or (was_it_from_the_start and _waits(words[1:])):
        return []
    found = [held for pid in procfs.children(os.getpid()) or () if (held := _hold_child(pid))]
    born = [one for one in found if _is_younger(one, root) and not spare(one.identity)]
    if was_it_from_the_start:
        # It started nothing else: whatever is here besides is the heir's own, and younger.
        heirs = sorted(born, key=lambda held: _age_key(held.identity))[:1]
    else:
        heirs = [held for held in born if _left_session(held, stat)]
    for held in found:
        if held not in heirs:
            held.close()
    return heirs


def _left_session(child: HeldProcess, root: ProcStat) -> bool:
    """A shell that became `setsid` may have started others before, in the session of the root.

    The heir is in a session of its own, or about to make one: then it is `setsid` by name.
    """
    stat = procfs.stat_or_none(child.identity.pid)
    if stat is None:
        return True  # not read: it may be the one
    return stat.session != root.session or stat.comm == root.comm


def _waits(words: tuple[str, ...]) -> bool:
    """`setsid --wait`: what stays is left by its program, not by itself."""
    for word in words:
        if not word.startswith("-"):
            return False
        if word == "--wait" or (word[1:2] != "-" and "w" in word):
            return True
    return False


def _is_younger(held: HeldProcess, root: HeldProcess) -> bool:
    return _age_key(held.identity) > _age_key(root.identity)


def _age_key(identity: ProcessIdentity) -> tuple[int, int]:
    # The inode is a counter, given at fork; without it, two of one tick go by their numbers.
    return identity.start_ticks or 0, identity.pidfd_inode or identity.pid


def _hold_child(pid: int) -> HeldProcess | None:
    place, stat = this_host.place(), procfs.stat_or_none(pid)
    if stat is None:
        return None
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    ticks = stat.start_ticks - (place.ticks_offset or 0)
    inode = pidfd.inode(fd)
    identity = ProcessIdentity(pid, ticks, inode, place.pid_ns, place.boot_id, place.host, None)
    return HeldProcess(identity, fd, Look(Verdict.SAME, Proof.INODE, "our own child"))
