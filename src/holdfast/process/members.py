"""The members of a tree: every descendant, also those that called setsid or double-forked.

A member is held by a pidfd from the moment it is seen, and its parent is proven while both are
held. This file looks; `process/tree.py` stops.
"""

from __future__ import annotations

import os
import select

from holdfast.errors import HoldfastError, ProcessGone, ProcessUnreadable
from holdfast.process import pidfd, procfs
from holdfast.process.identity import HeldProcess, ProcessIdentity, hold_pid
from holdfast.process.local import hold_here
from holdfast.process.proc_kin import Kin
from holdfast.process.procfs import ProcessState
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

STAMP = "HOLDFAST_RUN_ID"
STAMP_HOME = "HOLDFAST_RUN_HOME"  # where that run is: HOLDFAST_HOME may be set to another
_MOST_KIN = 32  # two descriptors each, and never more than a part of ours
_KIN_SHARE = 16
_MOST_LOOKS = 50  # a busy machine: each is for the few who came to be since the last
_MOST_BLANK_LOOKS = 5  # then it has no environment, and is not in the middle of an exec


class Member(Record):
    """One process of the tree, as last seen."""

    identity: ProcessIdentity
    ppid: int
    comm: str
    state: ProcessState
    image: int | None = None  # where its stack starts: another one after each exec


class Tree:
    """The members of one tree. `walk` looks again; who has ended is let go of.

    `reaper` is the subreaper above the tree (a shim, not a member): orphans of the tree come back
    to it. Without one, a fork whose parent ended between two walks can be missed:
    `sees_every_fork` says so. `spare` keeps a process and all below it out of the tree.
    `saw_all` and `is_proven_empty` are about the last walk.
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
        # Another process's number is only proven while we hold it; our own is ours.
        ours = reaper is None or reaper.pid == os.getpid()
        self._held_reaper = None if reaper is None or ours else reaper.hold()
        self._spare = spare
        self.saw_all = False
        self.is_proven_empty = False
        self._held: dict[int, HeldProcess] = {}
        self._kin: dict[int, Kin] = {}  # of those that are held, and of the reaper
        self._most_kin = min(_MOST_KIN, os.sysconf("SC_OPEN_MAX") // _KIN_SHARE)
        self._ended: set[tuple[int, int | None]] = set()  # zombies that the last walk met
        self._spared: dict[int, ProcessIdentity] = {}
        for root in roots:
            self.add(root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all members; none of them is affected."""
        for held in self._held.values():
            held.close()
        for kin in self._kin.values():
            kin.close()
        self._held.clear()
        self._kin.clear()
        if self._held_reaper is not None:
            self._held_reaper.close()

    def add(self, identity: ProcessIdentity) -> bool:
        """Hold a process that is known to be ours, if it is proven alive."""
        try:
            held = hold_here(identity)
        except HoldfastError:  # gone, recycled or unproven: not a member that we can vouch for
            return False
        known = self._held.get(held.identity.pid)
        if known is not None and not known.has_exited():
            held.close()  # the same: a number means one live process
            return True
        if known is not None:
            self._forget(held.identity.pid)
        self._held[held.identity.pid] = held
        return True

    def held(self) -> list[HeldProcess]:
        """Members that have not ended, without looking for new ones."""
        self._drop_ended()
        return list(self._held.values())

    def descriptors(self) -> list[int]:
        """A pidfd for each member of the last walk; that of one which ended since is readable."""
        return [held.fd for held in self._held.values()]

    def held_as(self, identity: ProcessIdentity) -> HeldProcess | None:
        """The member with that identity, if it is held."""
        held = self._held.get(identity.pid)
        return held if held is not None and held.identity == identity else None

    def walk(self, on_new: Callable[[HeldProcess], object] | None = None) -> list[Member]:
        """Look at the whole tree now. `on_new` gets each new member at once.

        Empty is proven only by a walk that began with nobody and met nobody but zombies that
        were zombies before it: a process that forks and ends at once is in no listing, yet its
        child is in the reaper's next one (test_S2, the comet).
        """
        self._drop_ended()
        nobody_before = not self._held
        known_ended, self._ended = self._ended, set()
        self.saw_all = True
        todo = [self.reaper.pid] if self.reaper else []
        todo.extend(self._held)
        looked_at = set()
        while todo:
            parent = todo.pop()
            if parent in looked_at:
                continue
            looked_at.add(parent)
            # The newest first: it is the most likely to fork again before it is stopped.
            for child in reversed(self._children(parent)):
                if child not in looked_at and self._adopt(child, parent, known_ended, on_new):
                    todo.append(child)  # noqa: PERF401 - _adopt has effects
        described = map(self._describe, list(self._held.values()))
        members = [member for member in described if member is not None]
        # Whoever was met and has ended again is still held here: that was not nobody.
        self.is_proven_empty = nobody_before and self.saw_all and not self._held
        return members

    def _children(self, pid: int) -> list[int]:
        kin = self._kin.get(pid)
        if kin is None and len(self._kin) < self._most_kin:
            kin = self._open(pid)
        return procfs.children(pid) if kin is None else kin.look()

    def _open(self, pid: int) -> Kin | None:
        """Its files to keep; None where the number is not proven to have meant it all the while."""
        held = self._held.get(pid, self._held_reaper)
        try:
            kin = Kin(pid)
        except OSError:
            return None
        if held is not None and held.has_exited():
            kin.close()
            return None
        self._kin[pid] = kin
        return kin

    def _describe(self, held: HeldProcess) -> Member | None:
        kin = self._kin.get(held.identity.pid)
        basics = None if kin is None else kin.basics
        if basics is None or basics.state is ProcessState.ZOMBIE:  # a leader, or all of it
            return _describe(held)
        return Member(held.identity, basics.ppid, basics.comm, basics.state, basics.stack_start)

    def is_empty(self) -> bool:
        """Whether nobody is left, proven: who ended just now takes a second walk."""
        self.let_go_of_spared()
        for _ in range(2):
            if self.walk():
                return False
            if self.is_proven_empty:
                return True
        return False

    def _adopt(
        self,
        pid: int,
        parent: int,
        known_ended: set[tuple[int, int | None]],
        on_new: Callable[[HeldProcess], object] | None,
    ) -> bool:
        """Hold a child, if it is proven to be a child of the tree. True: look below it."""
        if pid in self._held:
            return not self._held[pid].has_exited() or self._forget(pid)
        try:
            held = hold_pid(pid)
        except HoldfastError:  # it ended, or can't be opened: the next walk sees what is left
            self.saw_all = self._had_ended(pid, known_ended) and self.saw_all
            return False
        if not self._is_child(held, parent):
            held.close()
            self.saw_all = False
            return False
        if self._is_spared(held.identity):
            held.close()
            return False
        self._held[pid] = held
        if on_new is not None:
            on_new(held)
        return True

    def _had_ended(self, pid: int, known_ended: set[tuple[int, int | None]]) -> bool:
        """Whether this child was a zombie before this walk: then all its children were listed."""
        try:
            fd = os.pidfd_open(pid)
        except OSError:  # reaped, or no descriptor is left: what it forked may have been missed
            return False
        try:
            zombie = (pid, pidfd.inode(fd))
            if not pidfd.has_exited(fd):
                return False
        finally:
            os.close(fd)
        self._ended.add(zombie)
        return zombie in known_ended

    def _is_child(self, held: HeldProcess, parent: int) -> bool:
        """The PID that /proc listed may have been recycled before it was held: ask again."""
        try:
            ppid = procfs.read_stat(held.identity.pid).ppid
        except (ProcessGone, ProcessUnreadable):
            return False
        if held.has_exited():
            return False
        if self.reaper is not None and ppid == self.reaper.pid:
            return self._held_reaper is None or not self._held_reaper.has_exited()
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

    def let_go_of_spared(self) -> None:
        """The shim of an inner run can be met before anything says whose it is: ask again."""
        for pid, held in list(self._held.items()):
            if self._is_spared(held.identity):
                self._forget(pid)

    def _drop_ended(self) -> None:
        by_descriptor = {held.fd: pid for pid, held in self._held.items()}
        poll = select.poll()
        for fd in by_descriptor:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(0):
            self._forget(by_descriptor[fd])

    def _forget(self, pid: int) -> bool:
        self._held.pop(pid).close()
        kin = self._kin.pop(pid, None)
        if kin is not None:
            kin.close()
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
    for stamp, member in find_stamped():
        if stamp == run_id and not known(member.identity):
            yield member


def find_stamped() -> Iterator[tuple[str, Member]]:
    """Every process that carries a run's stamp, ourselves aside, with that stamp.

    Looks until all who came to be since the last look have shown their environment: whoever ended
    before it was read, or was in the middle of an exec, may live on in a child that is younger
    than the listing (test_L10, one child after the other).
    """
    looked_at = {os.getpid(): _MOST_BLANK_LOOKS}
    for _ in range(_MOST_LOOKS):
        is_calm = True
        fresh = (pid for pid in procfs.all_pids() if looked_at.get(pid, 0) < _MOST_BLANK_LOOKS)
        for pid in list(fresh):
            environment = _environment(pid)
            looks = 1 if environment is None else _MOST_BLANK_LOOKS
            looked_at[pid] = looked_at.get(pid, 0) + looks
            stamp = environment.get(STAMP) if environment else None
            member = None if stamp is None else _stamped_member(pid, stamp)
            if stamp is not None and member is not None:
                yield stamp, member
            is_calm = is_calm and bool(environment) and (member is None) == (stamp is None)
        if is_calm:
            return


def _environment(pid: int) -> dict[str, str] | None:
    """None: it shows nothing now, and may be in the middle of an exec. A kernel thread never is."""
    try:
        found = procfs.environment(pid)
    except HoldfastError:  # ended, or another user's
        return {}
    return found if found or procfs.executable(pid) is None else None


def _stamped_member(pid: int, stamp: str) -> Member | None:
    try:
        with hold_pid(pid) as held:
            member = _describe(held)
            # Read again: the number may have become another's before it was held.
            is_still = procfs.environment(pid).get(STAMP) == stamp
            return member if is_still else None
    except HoldfastError:
        return None
