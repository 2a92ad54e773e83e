"""The processes that a sampler keeps open, and totals that do not fall when one of them ends.

A process is opened while it is held by a pidfd that is proven to be its identity; from then on
its descriptors mean that process alone. How many are kept is bounded by our own limit.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.process import here
from holdfast.process.identity import ProcessIdentity
from holdfast.process.proc_details import DESCRIPTORS_EACH, Basics, KeptProcess
from holdfast.process.procfs import TICKS_PER_SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.process.members import Member
    from holdfast.process.proc_details import Transfer

_LEAST_DESCRIPTORS = 2  # directory and stat
_ROUNDING_TICKS = 2  # user and system time are cut to whole ticks each


class Tracked:
    """One process and what it had used when last looked at. `with` gives its open files."""

    __slots__ = (
        "_descriptors",
        "_kept",
        "_once",
        "basics",
        "before",
        "counted_at",
        "identity",
        "token",
        "transfer",
    )

    def __init__(
        self, identity: ProcessIdentity, kept: KeptProcess | None, descriptors: int
    ) -> None:
        self.identity = identity
        self._descriptors = descriptors
        self.token = identity.token
        self._kept = kept
        self._once: KeptProcess | None = None
        self.basics: Basics | None = None
        self.before: Basics | None = None
        self.transfer: Transfer | None = None
        self.counted_at: float | None = None  # of the last sample that counted it

    def __enter__(self) -> KeptProcess | None:
        """Its files: kept, or opened for this once; None when it can't be proven or read."""
        if self._kept is None:
            self._once = self._open_once()
            return self._once
        return self._kept

    def __exit__(self, *_: object) -> None:
        if self._once is not None:
            self._once.close()
            self._once = None

    def _open_once(self) -> KeptProcess | None:
        try:
            files = KeptProcess(self.identity.pid, keep_all=False)
        except OSError:
            return None
        basics, offset = files.basics(), here.place().ticks_offset
        start = self.identity.start_ticks
        if basics is None or offset is None or basics.start_ticks - offset != start:
            files.close()  # not provably the same process any more
            return None
        return files

    def close(self) -> int:
        """Let go of the process. The number of descriptors that this freed."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None
        return self._descriptors

    def look_once_more(self) -> None:
        """A zombie that nobody has waited for still shows what it used in all its life."""
        if self._kept is not None:
            self.basics = self._kept.basics() or self.basics
            self.transfer = self._kept.transfer() or self.transfer

    @property
    def total_ticks(self) -> int:
        """Its CPU time, and that of the children that it waited for."""
        return self.basics.cpu_ticks + self.basics.waited_ticks if self.basics else 0


class Keeper:
    """Opens members once, keeps them open, and lets go of those that have left the tree."""

    def __init__(self, most_descriptors: int | None = None) -> None:
        self._most = _share_of_our_limit() if most_descriptors is None else most_descriptors
        self._used = 0
        self._tracked: dict[int, Tracked] = {}  # by PID: hashing an identity costs more
        self.ended: list[Tracked] = []  # that were counted, for the ledger to settle

    def track(self, members: Iterable[Member]) -> dict[int, Tracked]:
        """Those of the members that can be followed now, by PID."""
        before: dict[int, Tracked] = self._tracked
        present: dict[int, Tracked] = {}
        for member in members:
            identity = member.identity
            known = before.get(identity.pid)
            if known is None or (known.identity is not identity and known.identity != identity):
                known = self._open(identity)
            if known is not None:
                present[identity.pid] = known
        for pid, left in before.items():
            if present.get(pid) is not left:
                self._let_go(left)
        self._tracked = present
        return present

    def close(self) -> None:
        """Let go of all."""
        for tracked in self._tracked.values():
            tracked.close()
        self._tracked = {}
        self._used = 0

    def _let_go(self, tracked: Tracked) -> None:
        if tracked.counted_at is not None:
            tracked.look_once_more()
        self._used -= tracked.close()
        if tracked.counted_at is not None:
            self.ended.append(tracked)

    def _open(self, identity: ProcessIdentity) -> Tracked | None:
        room = self._most - self._used
        wanted = DESCRIPTORS_EACH if room >= DESCRIPTORS_EACH else _LEAST_DESCRIPTORS
        if room < _LEAST_DESCRIPTORS:
            return Tracked(identity, None, 0)
        try:
            with identity.hold() as held:
                files = KeptProcess(identity.pid, keep_all=wanted == DESCRIPTORS_EACH)
                if held.has_exited():  # the number may have meant another by then
                    files.close()
                    return None
        except (HoldfastError, OSError):
            return None
        self._used += wanted
        return Tracked(identity, files, wanted)


def _share_of_our_limit() -> int:
    """A third of the descriptors that we may open: the shim needs some for other things."""
    ours = KeptProcess(os.getpid(), keep_all=False)
    try:
        return max(60, (ours.read_fd_limit() or 1024) // 3)
    finally:
        ours.close()


class Ledger:
    """CPU time and bytes of a tree since its start, ended processes included.

    The kernel adds an ended child's figures to its parent's when the parent waits for it. What
    nobody in the tree waited for is added here, as it was last seen.
    """

    def __init__(self) -> None:
        self._lost_ticks = 0
        self._lost = (0, 0, 0)
        self._highest_ticks = 0
        self._highest = (0, 0, 0)

    def settle(self, ended: list[Tracked], alive: dict[int, Tracked]) -> None:
        """Account for processes that have left the tree since the last sample."""
        by_parent: dict[int, list[Tracked]] = {}
        for tracked in ended:
            parent = tracked.basics.ppid if tracked.basics else 0
            by_parent.setdefault(parent, []).append(tracked)
        for pid, children in by_parent.items():
            if not _was_handed_on(alive.get(pid), children):
                self._lost_ticks += sum(child.total_ticks for child in children)
                for child in children:
                    self._lost = _plus(self._lost, child.transfer)

    def cpu_seconds(self, alive: Iterable[Tracked]) -> float:
        """CPU time so far."""
        ticks = self._lost_ticks + sum(tracked.total_ticks for tracked in alive)
        self._highest_ticks = max(self._highest_ticks, ticks)
        return self._highest_ticks / TICKS_PER_SECOND

    def transferred(self, alive: Iterable[Tracked]) -> tuple[int, int, int] | None:
        """Characters, bytes read and written so far; None while any part is unknown."""
        total = self._lost
        for tracked in alive:
            if tracked.transfer is None:
                return None
            total = _plus(total, tracked.transfer)
        now, so_far = total, self._highest
        self._highest = (max(now[0], so_far[0]), max(now[1], so_far[1]), max(now[2], so_far[2]))
        return self._highest

    def start_over(self) -> None:
        """Other processes are counted from here on: what was counted may have been too much."""
        self._highest_ticks = 0
        self._highest = (0, 0, 0)


def _was_handed_on(parent: Tracked | None, children: list[Tracked]) -> bool:
    if parent is None or parent.basics is None or parent.before is None:
        return False
    gained = parent.basics.waited_ticks - parent.before.waited_ticks
    return gained + _ROUNDING_TICKS >= sum(child.total_ticks for child in children)


def _plus(total: tuple[int, int, int], transfer: Transfer | None) -> tuple[int, int, int]:
    if transfer is None:
        return total
    return (
        total[0] + transfer.chars,
        total[1] + transfer.read_bytes,
        total[2] + transfer.write_bytes,
    )
