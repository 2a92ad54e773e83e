"""The members of a tree: every descendant, also those that called setsid or double-forked.

A member is held by a pidfd from the moment it is seen, and its parent is proven while both are
held. This file looks; `process/tree.py` stops.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, ProcessGone, ProcessUnreadable
from holdfast.process import procfs
from holdfast.process.identity import HeldProcess, ProcessIdentity, hold_pid
from holdfast.process.procfs import ProcessState
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

STAMP = "HOLDFAST_RUN_ID"


class Member(Record):
    """One process of the tree, as last seen."""

    identity: ProcessIdentity
    ppid: int
    comm: str
    state: ProcessState


class Tree:
    """The members of one tree. `walk` looks again; who has ended is let go of.

    `reaper` is the subreaper above the tree (the shim itself, not a member): orphans of the tree
    come back to it. Without one, a fork whose parent ended between two walks can be missed:
    `sees_every_fork` says so. `spare` keeps a process and all below it out of the tree.
    """

    def __init__(
        self,
        roots: Iterable[ProcessIdentity] = (),
        *,
        reaper: ProcessIdentity | None = None,
        spare: Callable[[ProcessIdentity], bool] = lambda _identity: False,
    ) -> None:
        self.reaper = reaper
        self.sees_every_fork = reaper is not None
        self._spare = spare
        self._held: dict[int, HeldProcess] = {}
        self._spared: dict[int, ProcessIdentity] = {}
        for root in roots:
            self.add(root)

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all members; none of them is affected."""
        for held in self._held.values():
            held.close()
        self._held.clear()

    def add(self, identity: ProcessIdentity) -> bool:
        """Hold a process that is known to be ours, if it is proven alive."""
        if identity.pid in self._held:
            return True
        try:
            self._held[identity.pid] = identity.hold()
        except HoldfastError:  # gone, recycled or unproven: not a member that we can vouch for
            return False
        return True

    def held(self) -> list[HeldProcess]:
        """Members that have not ended, without looking for new ones."""
        self._drop_ended()
        return list(self._held.values())

    def held_as(self, identity: ProcessIdentity) -> HeldProcess | None:
        """The member with that identity, if it is held."""
        held = self._held.get(identity.pid)
        return held if held is not None and held.identity == identity else None

    def walk(self) -> list[Member]:
        """Look at the whole tree now."""
        self._drop_ended()
        members: dict[int, Member] = {}
        todo = [self.reaper.pid] if self.reaper else []
        todo.extend(self._held)
        looked_at = set()
        while todo:
            parent = todo.pop()
            if parent in looked_at:
                continue
            looked_at.add(parent)
            for child in procfs.children(parent):
                if child not in looked_at and self._adopt(child, parent):
                    todo.append(child)
        for held in list(self._held.values()):
            member = _describe(held)
            if member is not None:
                members[held.identity.pid] = member
        return list(members.values())

    def _adopt(self, pid: int, parent: int) -> bool:
        """Hold a child, if it is proven to be a child of the tree. True: look below it."""
        if pid in self._held:
            return not self._held[pid].has_exited() or self._forget(pid)
        try:
            held = hold_pid(pid)
        except HoldfastError:  # it ended, or can't be opened: the next walk sees what is left
            return False
        if not self._is_child(held, parent) or self._is_spared(held.identity):
            held.close()
            return False
        self._held[pid] = held
        return True

    def _is_child(self, held: HeldProcess, parent: int) -> bool:
        """The PID that /proc listed may have been recycled before it was held: ask again."""
        try:
            ppid = procfs.read_stat(held.identity.pid).ppid
        except (ProcessGone, ProcessUnreadable):
            return False
        if held.has_exited():
            return False
        if self.reaper is not None and ppid == self.reaper.pid:
            return True
        above = self._held.get(ppid)
        # The parent is held and alive *after* the child named it: the number meant that process.
        return ppid == parent and above is not None and not above.has_exited()

    def _is_spared(self, identity: ProcessIdentity) -> bool:
        if self._spared.get(identity.pid) == identity:
            return True
        if self._spare(identity):
            self._spared[identity.pid] = identity
            return True
        return False

    def _drop_ended(self) -> None:
        for pid in [pid for pid, held in self._held.items() if held.has_exited()]:
            self._forget(pid)

    def _forget(self, pid: int) -> bool:
        self._held.pop(pid).close()
        return False


def _describe(held: HeldProcess) -> Member | None:
    try:
        stat = procfs.read_stat(held.identity.pid)
    except (ProcessGone, ProcessUnreadable):
        stat = None
    if held.has_exited():
        return None
    if stat is None:
        return Member(held.identity, 0, "?", ProcessState.UNKNOWN)
    return Member(held.identity, stat.ppid, stat.comm, stat.state)


def find_suspects(run_id: str, known: Callable[[ProcessIdentity], bool]) -> Iterator[Member]:
    """Processes that carry the run's stamp but are not known to be its own.

    The stamp is inherited, copied and forged with ease: it makes a suspect, never a target.
    """
    for pid in procfs.all_pids():
        try:
            if pid == os.getpid() or procfs.environment(pid).get(STAMP) != run_id:
                continue
            with hold_pid(pid) as held:
                member = _describe(held)
                if member is not None and not known(member.identity):
                    yield member
        except HoldfastError:  # ended, or another user's
            continue
