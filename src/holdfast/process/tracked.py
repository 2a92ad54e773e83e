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
_NO_BYTES = (0, 0, 0)


class Tracked:
    """One process and what it had used when last looked at. `with` gives its open files."""

    __slots__ = (
        "_credit",
        "_descriptors",
        "_kept",
        "_once",
        "_waited",
        "basics",
        "counted_at",
        "fingerprint",
        "identity",
        "owed_bytes",
        "owed_ticks",
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
        self.transfer: Transfer | None = None
        self.counted_at: float | None = None  # of the last sample that counted it
        self.fingerprint: tuple[object, ...] | None = None  # when it was last looked at
        self.owed_ticks = 0  # of children that have ended, and that it has not waited for yet
        self.owed_bytes = _NO_BYTES
        self._waited: int | None = None  # of its `waited_ticks`: what is settled
        self._credit = 0

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

    def is_unchanged(self) -> bool:
        """Whether it shows exactly what it showed when this was last asked."""
        before = self.fingerprint
        self.fingerprint = self._kept.fingerprint() if self._kept is not None else None
        return before is not None and before == self.fingerprint

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
        """Its CPU time, and that of its ended children, whether it waited for them or not."""
        if self.basics is None:
            return self.owed_ticks
        return self.basics.cpu_ticks + self.basics.waited_ticks + self.owed_ticks

    @property
    def total_bytes(self) -> tuple[int, int, int]:
        """The same for characters, bytes read and bytes written."""
        if self.transfer is None:
            return self.owed_bytes
        used = self.transfer
        return _plus(self.owed_bytes, (used.chars, used.read_bytes, used.write_bytes))

    def inherit(self, child: Tracked) -> None:
        """A child has ended. What it used is owed until this process is seen to wait for it."""
        self.owed_ticks += child.total_ticks
        self.owed_bytes = _plus(self.owed_bytes, child.total_bytes)

    def settle(self) -> None:
        """What it has waited for since the last time is not owed any more.

        It may have waited after the walk and before its own figures were read, while the child
        is missed only in the next walk: so what is over is kept for one more time.
        """
        waited = self.basics.waited_ticks if self.basics is not None else 0
        gained = 0 if self._waited is None else waited - self._waited
        self._waited = waited
        paid = min(self._credit + gained, self.owed_ticks)
        self.owed_ticks -= paid
        self._credit = min(gained, self._credit + gained - paid)
        if self.owed_ticks <= _ROUNDING_TICKS:
            self.owed_ticks, self.owed_bytes = 0, _NO_BYTES


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

    The kernel adds an ended child's figures to its parent's when the parent waits for it. Until
    then, and where nobody in the tree will, they are added here as they were last seen.
    """

    def __init__(self) -> None:
        self._lost_ticks = 0
        self._lost_bytes = _NO_BYTES
        self._highest_ticks = 0
        self._highest_bytes = _NO_BYTES

    def settle(self, ended: list[Tracked], alive: dict[int, Tracked]) -> None:
        """Account for processes that have left the tree since the last sample."""
        around = {tracked.identity.pid: tracked for tracked in ended} | alive
        for tracked in reversed(ended):  # in the order of a walk: children come after parents
            tracked.settle()
            parent = around.get(tracked.basics.ppid) if tracked.basics else None
            if parent is not None and parent is not tracked:
                parent.inherit(tracked)
            else:
                self._lost_ticks += tracked.total_ticks
                self._lost_bytes = _plus(self._lost_bytes, tracked.total_bytes)

    def cpu_seconds(self, alive: Iterable[Tracked]) -> float:
        """CPU time so far."""
        ticks = self._lost_ticks
        for tracked in alive:
            tracked.settle()
            ticks += tracked.total_ticks
        self._highest_ticks = max(self._highest_ticks, ticks)
        return self._highest_ticks / TICKS_PER_SECOND

    def transferred(self, alive: Iterable[Tracked]) -> tuple[int, int, int] | None:
        """Characters, bytes read and written so far; None while any part is unknown."""
        total = self._lost_bytes
        for tracked in alive:
            if tracked.transfer is None:
                return None
            total = _plus(total, tracked.total_bytes)
        now, so_far = total, self._highest_bytes
        highest = (max(now[0], so_far[0]), max(now[1], so_far[1]), max(now[2], so_far[2]))
        self._highest_bytes = highest
        return highest

    def start_over(self) -> None:
        """Other processes are counted from here on: what was counted may have been too much."""
        self._highest_ticks = 0
        self._highest_bytes = _NO_BYTES


def _plus(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]
