"""The members of a tree: every descendant, also those that called setsid or double-forked.

A member is held by a pidfd from the moment it is seen, and its parent is proven while both are
held. It owns that pidfd and the files in /proc that are kept open of it, for walks and samples
alike; all files of a tree have one budget. This file looks; `process/tree_stop.py` stops.
"""

from __future__ import annotations

import os
import select

from holdfast.errors import HoldfastError, Unavailable
from holdfast.process import pidfd, procfs
from holdfast.process.held import hold_here
from holdfast.process.identity import HeldProcess, ProcessIdentity, hold_pid
from holdfast.process.proc_files import SAMPLED, WALKED, Budget, ProcessFiles
from holdfast.process.procfs import ProcessState, ProcStat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

_CHILDREN = ("children",)  # of the reaper, nothing else is read
_OUR_SHARE = 2  # of our descriptors a half; more are for pidfds alone


class Member:
    """One process of the tree. `stat` and `children` are what the last look at it showed.

    They stay when it has left the tree and is closed. `on_leave` is called before that: a zombie
    still shows what it has used.
    """

    __slots__ = ("_budget", "children", "files", "held", "identity", "on_leave", "stat")

    def __init__(self, held: HeldProcess, budget: Budget | None = None) -> None:
        self.held = held
        self.identity = held.identity
        self.files = ProcessFiles(held.identity.pid, budget)
        self.stat: ProcStat | None = None  # it was gone, or hidden
        self.children: list[int] = []
        self.on_leave: Callable[[], None] | None = None
        self._budget = budget
        if budget is not None:
            budget.count_pidfd(+1)

    @property
    def ppid(self) -> int:
        """Its parent; 0 where that is hidden."""
        return 0 if self.stat is None else self.stat.ppid

    @property
    def comm(self) -> str:
        """The name that it has now."""
        return "?" if self.stat is None else self.stat.comm

    @property
    def state(self) -> ProcessState:
        """What it does."""
        return ProcessState.UNKNOWN if self.stat is None else self.stat.state

    @property
    def image(self) -> int | None:
        """Where its stack starts: another place after each exec."""
        return None if self.stat is None else self.stat.stack_start

    @property
    def has_left(self) -> bool:
        """Whether its descriptors are closed: it has ended, or is not of this tree."""
        return self.held.fd < 0

    def has_ended(self) -> bool:
        """Whether its number may be another's by now: what was read by number is not proven."""
        return self.has_left or self.held.has_exited()

    def is_proven(self, name: str) -> bool:
        """Whether what was just read from that file is its own."""
        return self.files.keeps(name) or not self.has_ended()

    def look(self) -> list[int] | None:
        """Read what it is now; its children. None: it lives, and could not be seen."""
        stat = self.read_stat()
        if stat is None:
            self.children = []
            return [] if self.has_ended() else None
        found = self.files.children(stat.threads)
        self.children = found or []
        return found

    def read_stat(self) -> ProcStat | None:
        """Read its state now; opens nothing else."""
        files = self.files
        if not files.keeps("stat"):
            self._keep(WALKED)
        stat = files.stat()
        self.stat = stat if stat is not None and self.is_proven("stat") else None
        return self.stat

    def keep_for_samples(self) -> None:
        """Keep what a full sample reads, if there is room."""
        if not self.files.keeps(SAMPLED[0]):
            self._keep(SAMPLED)

    def _keep(self, names: tuple[str, ...]) -> None:
        if self.files.keep(names) and self.has_ended():
            self.files.close()  # the number may have meant another process by then

    def close(self) -> None:
        """Close its descriptors; the process is not affected."""
        self.files.close()
        self.held.close()
        if self._budget is not None:
            self._budget.count_pidfd(-1)


class Tree:
    """The members of one tree. `walk` looks again; a member that has ended is dropped.

    `reaper` is the subreaper above the tree (a shim, not a member): orphans of the tree come back
    to it. Without one, a fork whose parent ended between two walks can be missed:
    `sees_every_fork` says so. `spare` keeps a process and all below it out of the tree.
    `saw_all`, `was_blind` (something could not be opened or read, and looking again may not help)
    and `is_proven_empty` are about the last walk. Beyond `most_descriptors` no files are kept open.
    """

    def __init__(
        self,
        roots: Iterable[ProcessIdentity] = (),
        *,
        reaper: ProcessIdentity | None = None,
        spare: Callable[[ProcessIdentity], bool] = lambda _identity: False,
        most_descriptors: int | None = None,
    ) -> None:
        self.reaper = reaper
        self.sees_every_fork = reaper is not None
        # Another process's number is only proven while we hold it; our own is ours.
        ours = reaper is None or reaper.pid == os.getpid()
        self._held_reaper = None if reaper is None or ours else reaper.hold()
        self._spare = spare
        self.saw_all = False
        self.was_blind = False
        self.is_proven_empty = False
        self._members: dict[int, Member] = {}
        self._exits = select.poll()
        self._by_descriptor: dict[int, int] = {}
        self._budget = Budget(most_descriptors or os.sysconf("SC_OPEN_MAX") // _OUR_SHARE)
        self._reaper_files = None
        if reaper is not None:
            self._reaper_files = ProcessFiles(reaper.pid, Budget(len(_CHILDREN)))
        self._came_back: list[int] | None = None  # below the reaper at the last `shows_the_same`
        self._ended: set[tuple[int, int | None]] = set()  # zombies that the last walk met
        self._spared: dict[int, ProcessIdentity] = {}
        for root in roots:
            self.add(root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all members' descriptors; the processes are not affected."""
        for member in self._members.values():
            member.close()
        self._members.clear()
        self._by_descriptor.clear()
        self._exits = select.poll()
        if self._reaper_files is not None:
            self._reaper_files.close()
        if self._held_reaper is not None:
            self._held_reaper.close()

    def add(self, identity: ProcessIdentity) -> bool:
        """Hold a process that is known to be ours, if it is proven alive."""
        try:
            held = hold_here(identity)
        except HoldfastError:  # gone, recycled or unproven: not a member that we can vouch for
            return False
        known = self._members.get(held.identity.pid)
        if known is not None and not known.held.has_exited():
            held.close()  # the same: a number means one live process
            return True
        if known is not None:
            self._forget(held.identity.pid)
        self._take(held)
        return True

    def held(self) -> list[HeldProcess]:
        """Members that have not ended, without looking for new ones."""
        self._drop_ended()
        return [member.held for member in self._members.values()]

    def descriptors(self) -> list[int]:
        """A pidfd for each member of the last walk; that of one which ended since is readable."""
        return list(self._by_descriptor)

    def held_as(self, identity: ProcessIdentity) -> HeldProcess | None:
        """The member with that identity, if it is held."""
        member = self._members.get(identity.pid)
        return member.held if member is not None and member.identity == identity else None

    def walk(self, on_new: Callable[[HeldProcess], object] | None = None) -> list[Member]:
        """Look at the whole tree now. `on_new` gets each new member at once.

        Empty is proven only by a walk that began with no member and met nothing but zombies that
        were zombies before it: a process that forks and ends at once is in no listing, yet its
        child is in the reaper's next one (test_S2, the comet).
        """
        self._drop_ended()
        was_empty = not self._members
        known_ended, self._ended = self._ended, set()
        self.saw_all, self.was_blind = True, False
        todo = [self.reaper.pid] if self.reaper else []
        todo.extend(self._members)
        looked_at = set()
        while todo:
            parent = todo.pop()
            if parent in looked_at:
                continue
            looked_at.add(parent)
            # The newest first: it is the most likely to fork again before it is stopped.
            for child in reversed(self._children_of(parent)):
                if child not in looked_at and self._adopt(child, parent, known_ended, on_new):
                    todo.append(child)  # noqa: PERF401 - _adopt has effects
        members = list(filter(_is_alive, self._members.values()))
        # A member that was met and has ended again is still held: the tree was not empty.
        self.is_proven_empty = was_empty and self.saw_all and not self._members
        return members

    def shows_the_same(self) -> bool:
        """Whether no member has come or gone and each shows what it showed at the last call.

        A look that parses nothing. Counters of the kernel only rise: what reads the same was not
        changed in between.
        """
        before = self._came_back
        self._came_back = None if self.reaper is None else self._look(self.reaper.pid)
        # Each is read: the next call compares with what it showed now.
        same = [member.files.shows_the_same() for member in self._members.values()]
        is_blind = self.reaper is not None and self._came_back is None
        return all(same) and before == self._came_back and not is_blind

    def _children_of(self, pid: int) -> list[int]:
        found = self._look(pid)
        if found is None:
            self.saw_all, self.was_blind = False, True
        return found or []

    def _look(self, pid: int) -> list[int] | None:
        member = self._members.get(pid)
        if member is not None:
            return member.look()
        files, held = self._reaper_files, self._held_reaper
        if files is None or self.reaper is None or pid != self.reaper.pid:
            return []  # it has left since the walk began
        is_new = not files.keeps(_CHILDREN[0]) and files.keep(_CHILDREN)
        if is_new and held is not None and held.has_exited():
            files.close()  # the number may have meant another process by then
        threads = files.threads()  # not of its stat, which is another at each look
        return None if threads is None else files.children(threads)

    def is_empty(self) -> bool:
        """Whether no member is left, proven: one that ended just now takes a second walk."""
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
        if pid in self._members:
            return not self._members[pid].held.has_exited() or self._forget(pid)
        try:
            held = hold_pid(pid)
        except HoldfastError as error:  # it ended, or can't be opened: the next walk sees
            self.was_blind = self.was_blind or isinstance(error, Unavailable)
            self.saw_all = self._had_ended(pid, known_ended) and self.saw_all
            return False
        if not self._is_child(held, parent):
            held.close()
            self.saw_all = False
            return False
        if self._is_spared(held.identity):
            held.close()
            return False
        self._take(held)
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
        stat = procfs.stat_or_none(held.identity.pid)
        if held.has_exited():
            return False
        if stat is None:
            self.was_blind = True
            return False
        if self.reaper is not None and stat.ppid == self.reaper.pid:
            return self._held_reaper is None or not self._held_reaper.has_exited()
        above = self._members.get(stat.ppid)
        # The parent is held and alive *after* the child named it: the number meant that process.
        return stat.ppid == parent and above is not None and not above.held.has_exited()

    def _is_spared(self, identity: ProcessIdentity) -> bool:
        if self._spared.get(identity.pid) == identity:
            return True
        if self._spare(identity):
            self._spared[identity.pid] = identity
            return True
        return False

    def let_go_of_spared(self) -> None:
        """The shim of an inner run can be met before anything says whose it is: ask again."""
        for pid, member in list(self._members.items()):
            if self._is_spared(member.identity):
                self._forget(pid)

    def _drop_ended(self) -> None:
        for fd, _ in self._exits.poll(0):
            self._forget(self._by_descriptor[fd])

    def _take(self, held: HeldProcess) -> None:
        self._members[held.identity.pid] = Member(held, self._budget)
        self._by_descriptor[held.fd] = held.identity.pid
        self._exits.register(held.fd, select.POLLIN)

    def _forget(self, pid: int) -> bool:
        member = self._members.pop(pid)
        del self._by_descriptor[member.held.fd]
        self._exits.unregister(member.held.fd)
        if member.on_leave is not None:
            member.on_leave()
            member.on_leave = None  # it refers to the member: no circle is left
        member.close()
        return False


def _is_alive(member: Member) -> bool:
    """Z is shown of a leader whose other threads live on, too; and a hidden process lives."""
    stat = member.stat
    return not (stat is None or stat.state is ProcessState.ZOMBIE) or not member.held.has_exited()
