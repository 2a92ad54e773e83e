"""What each counted process has used, and totals that do not fall when one of them ends.

The kernel adds an ended child's figures to its parent's when the parent waits for it. Until then,
and where no process of the tree will, they are added here as they were last seen.
"""

from __future__ import annotations

import os

from holdfast.process.proc_files import Transfer
from holdfast.process.procfs import TICKS_PER_SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.process.procfs import ProcStat
    from holdfast.process.tree import Member

_ROUNDING_TICKS = 2  # user and system time are cut to whole ticks each
_NO_BYTES = (0, 0, 0)
_MOST_PERCENT = 100.0 * (os.cpu_count() or 1)


class Account:
    """One counted process, and what it had used when it was last looked at."""

    __slots__ = (
        "_credit",
        "_waited",
        "counted_at",
        "member",
        "owed_bytes",
        "owed_ticks",
        "stat",
        "token",
        "transfer",
    )

    def __init__(self, member: Member) -> None:
        self.member = member
        self.token = member.identity.token
        member.on_leave = self._look_once_more
        self.stat: ProcStat | None = None
        self.transfer: Transfer | None = None
        self.counted_at: float | None = None
        self.owed_ticks = 0  # of children that have ended, and that it has not waited for yet
        self.owed_bytes = _NO_BYTES
        self._waited: int | None = None  # of its `waited_ticks`: what is settled
        self._credit = 0

    def cpu_percent(self, stat: ProcStat, now: float) -> float | None:
        """Since it was counted last, which it is again now; None the first time."""
        before, since = self.stat, self.counted_at
        self.stat, self.counted_at = stat, now
        if before is None or since is None or now <= since:
            return None
        return percent_of((stat.cpu_ticks - before.cpu_ticks) / TICKS_PER_SECOND, now - since)

    def _look_once_more(self) -> None:
        """A zombie that is not yet waited for still shows what it used in all its life."""
        files = self.member.files
        if files.keeps("stat"):
            self.stat = files.stat() or self.stat
        if files.keeps("io"):
            self.transfer = files.transfer() or self.transfer

    @property
    def total_ticks(self) -> int:
        """Its CPU time, and that of its ended children, whether it waited for them or not."""
        if self.stat is None:
            return self.owed_ticks
        return self.stat.cpu_ticks + self.stat.waited_ticks + self.owed_ticks

    @property
    def total_bytes(self) -> tuple[int, int, int]:
        """Characters, bytes read and bytes written, by it and by its ended children."""
        if self.transfer is None:
            return self.owed_bytes
        used = self.transfer
        return _plus(self.owed_bytes, (used.chars, used.read_bytes, used.write_bytes))

    def inherit(self, child: Account) -> None:
        """A child has ended. Its use is added here until this process has waited for it."""
        self.owed_ticks += child.total_ticks
        self.owed_bytes = _plus(self.owed_bytes, child.total_bytes)

    def settle(self) -> None:
        """What it has waited for since the last time is not owed any more.

        It may have waited after the walk and before its own figures were read, while the child
        is missed only in the next walk: so what is over is kept for one more time.
        """
        waited = self.stat.waited_ticks if self.stat is not None else 0
        gained = 0 if self._waited is None else waited - self._waited
        self._waited = waited
        paid = min(self._credit + gained, self.owed_ticks)
        self.owed_ticks -= paid
        self._credit = min(gained, self._credit + gained - paid)
        if self.owed_ticks <= _ROUNDING_TICKS:
            self.owed_ticks, self.owed_bytes = 0, _NO_BYTES


class Ledger:
    """CPU time and bytes of the counted processes since the start, ended ones included."""

    def __init__(self) -> None:
        self.accounts: dict[int, Account] = {}  # by PID: hashing an identity costs more
        self.cpu_percent: float | None = None  # between the last two samples
        self._ended: list[Account] = []
        self._lost_ticks = 0
        self._lost_bytes = _NO_BYTES
        self._highest_ticks = 0
        self._highest_bytes = _NO_BYTES
        self._last_cpu: tuple[float, float] | None = None  # when, and the CPU seconds of then

    def count(self, members: Iterable[Member]) -> dict[int, Account]:
        """The accounts of those that are counted from now on."""
        before, accounts = self.accounts, {}
        for member in members:
            pid = member.identity.pid
            known = before.get(pid)
            accounts[pid] = known if known and known.member is member else Account(member)
        for pid, account in before.items():
            if accounts.get(pid) is account:
                continue
            if account.member.has_left:
                self._ended.append(account)
            else:  # what was taken for the workload is a wrapper after all
                account.member.on_leave = None
                self._start_over()
        self.accounts = accounts
        return accounts

    def cpu_seconds(self, now: float) -> float:
        """CPU time so far, as the accounts show it; `cpu_percent` is worked out with it."""
        self._settle_ended()
        ticks = self._lost_ticks
        for account in self.accounts.values():
            account.settle()
            ticks += account.total_ticks
        self._highest_ticks = max(self._highest_ticks, ticks)
        seconds, before = self._highest_ticks / TICKS_PER_SECOND, self._last_cpu
        self._last_cpu = (now, seconds)
        self.cpu_percent = None
        if before is not None:
            self.cpu_percent = percent_of(seconds - before[1], now - before[0])
        return seconds

    def transferred(self) -> dict[str, int]:
        """Characters, bytes read and written so far; none while any part is unknown."""
        total = self._lost_bytes
        for account in self.accounts.values():
            if account.transfer is None:
                return {}
            total = _plus(total, account.total_bytes)
        now, so_far = total, self._highest_bytes
        highest = (max(now[0], so_far[0]), max(now[1], so_far[1]), max(now[2], so_far[2]))
        self._highest_bytes = highest
        return dict(zip(Transfer._fields, highest, strict=True))

    def is_idle(self) -> bool:
        """Whether nothing has run between the last two samples."""
        return self._last_cpu is not None and self.cpu_percent == 0.0

    def go_on(self, now: float) -> None:
        """Nothing has changed since the last sample: it holds for now as well."""
        if self._last_cpu is not None:
            self._last_cpu = (now, self._last_cpu[1])
        for account in self.accounts.values():
            account.counted_at = now

    def _settle_ended(self) -> None:
        """Account for processes that have left the tree since the last sample."""
        around = {each.member.identity.pid: each for each in self._ended} | self.accounts
        for account in reversed(self._ended):  # in the order of a walk: children after parents
            account.settle()
            parent = around.get(account.stat.ppid) if account.stat else None
            if parent is not None and parent is not account:
                parent.inherit(account)
            else:
                self._lost_ticks += account.total_ticks
                self._lost_bytes = _plus(self._lost_bytes, account.total_bytes)
        self._ended.clear()

    def _start_over(self) -> None:
        """Other processes are counted from here on: what was counted may have been too much."""
        self._highest_ticks = 0
        self._highest_bytes = _NO_BYTES
        self._last_cpu = None


def percent_of(cpu_seconds: float, seconds: float) -> float:
    """Whole ticks over a short interval can come to more than the machine has."""
    return min(round(100 * cpu_seconds / seconds, 1), _MOST_PERCENT)


def _plus(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]
