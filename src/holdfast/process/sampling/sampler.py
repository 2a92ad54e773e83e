"""Measures a tree, cheaply: what the walk has read, and more from the files of its members.

Three rates: CPU and memory of every process in each sample; the rest of each process as often as
that stays cheap, at least every 5 s; what is costly (`costly_figures.py`) every minute. It never
blocks, and never raises for a process that is gone or unreadable: unknown is None.
"""

from __future__ import annotations

import time

from holdfast.process.clock import boottime, iso_time, seconds_of
from holdfast.process.proc_files import SAMPLED
from holdfast.process.procfs import TICKS_PER_SECOND
from holdfast.process.sampling.costly_figures import CostlyFigures, pss_of
from holdfast.process.sampling.figures import ProcessSample, TreeFigures
from holdfast.process.sampling.measuring import (
    beside_the_workload,
    count_zombies,
    has_deleted_directory,
    measure,
    resident_and_swapped,
    totals,
)
from holdfast.process.sampling.samples import Sample
from holdfast.process.sampling.usage_ledger import Ledger
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.process.sampling.usage_ledger import Account
    from holdfast.process.tree import Member
    from holdfast.process.workload.resolution import Resolution

FULL_EVERY_SECONDS = 5.0
SLOW_EVERY_SECONDS = 60.0
_FULL_SECONDS_EACH = 0.01  # a full look at one process takes 0.06 ms: below 1 % of a core
_EARLY_BY = 0.9  # a timer that fires a little early still finds its turn
_PSS_SECONDS = 0.5  # for a tree that may be over its limit: it would be stopped otherwise
_BOOTTIME_STEP_SECONDS = 1e-3  # as rows show it


class Activity(Record):
    """How much a tree has done so far: for telling a quiet run from an idle one."""

    at: float
    cpu_seconds: float
    io_bytes: int  # through read and write calls: pipes and terminals too


class Sampler:
    """The meter of one run. Call `sample` with the members of a walk, soon after it."""

    def __init__(
        self,
        *,
        full_every_seconds: float = FULL_EVERY_SECONDS,
        slow_every_seconds: float = SLOW_EVERY_SECONDS,
        last_at: str = "",
    ) -> None:
        """`last_at`: the time of the last row that an earlier shim wrote."""
        self._ledger = Ledger()
        self._costly = CostlyFigures(slow_every_seconds)
        self._full_every = full_every_seconds * _EARLY_BY
        self._slow_every = slow_every_seconds * _EARLY_BY
        self._full_at = self._slow_at = self._last_boottime = float("-inf")
        self._last_micros = _micros_of(last_at) if last_at else 0
        self._members: list[Member] = []  # of the last sample

    def sample(
        self,
        members: Iterable[Member],
        resolution: Resolution,
        *,
        quiet_seconds: float | None = None,
        now: float | None = None,
        wall: float | None = None,
        full: bool | None = None,
    ) -> Sample:
        """One measurement of the workload and all below it. Wrappers are not counted.

        Times strictly increase whatever the clocks do. `full` overrides the rate.
        """
        now, at = self._times(now, wall)
        members = self._members = list(members)
        is_full = now - self._full_at >= self._pause(len(members)) if full is None else full
        is_slow = is_full and now - self._slow_at >= self._slow_every
        self._full_at = now if is_full else self._full_at
        self._slow_at = now if is_slow else self._slow_at
        blank = Sample(
            at=at,
            boottime=now,
            unresolved=not resolution.has_subject,
            tree=TreeFigures(processes=len(members)),
            is_slow=is_slow,
            quiet_seconds=quiet_seconds,
        )
        # Figures of a wrapper are not the run's.
        return blank if blank.unresolved else self._measured(blank, resolution, is_full)

    def _measured(self, blank: Sample, resolution: Resolution, is_full: bool) -> Sample:
        now, is_slow = blank.boottime, blank.is_slow
        beside = beside_the_workload(self._members, resolution)
        counted = [one for one in self._members if one.identity.pid not in beside]
        accounts = self._ledger.count(counted)
        rows = {pid: measure(one, now, is_full, is_slow) for pid, one in accounts.items()}
        workload = _find(accounts, resolution)
        subject = None if workload is None else rows.pop(workload.identity.pid)
        processes = tuple(row for row in (subject, *rows.values()) if row is not None)
        sample = blank.replace(
            workload=subject,
            processes=processes,
            tree=self._tree_figures(processes, counted, now, is_full),
        )
        if is_full and workload is not None:
            sample = sample.replace(has_deleted_directory=has_deleted_directory(workload))
        return self._costly.add_to(sample, counted, workload, now) if is_slow else sample

    def is_idle(self, now: float) -> bool:
        """Whether a full sample is due that may show what the last one did: nothing ran there.

        Then `Tree.shows_the_same` tells; what it compares has to be kept open.
        """
        return (
            self._ledger.is_idle()
            and now - self._full_at >= self._pause(len(self._members))
            and now - self._slow_at < self._slow_every
            and all(one.member.files.keeps(SAMPLED[-1]) for one in self._ledger.accounts.values())
        )

    def go_on(self, now: float) -> tuple[float, str]:
        """The last sample holds for now as well: both of its times."""
        now, at = self._times(now, None)
        self._full_at = now
        self._ledger.go_on(now)
        return now, at

    def activity(self, members: Iterable[Member]) -> Activity:
        """What the whole tree has done so far, wrappers too."""
        members = list(members)
        ticks = io_bytes = 0
        for member in members:
            stat, transfer = member.stat, member.files.transfer()
            ticks += stat.cpu_ticks + stat.waited_ticks if stat else 0
            io_bytes += transfer.chars if transfer and member.is_proven("io") else 0
        return Activity(boottime(), ticks / TICKS_PER_SECOND, io_bytes)

    def memory_bytes(self, members: Iterable[Member], limit_bytes: int) -> int | None:
        """Resident and swapped memory of the whole tree, wrappers too: at most so much.

        The sum of RSS counts pages that a fork shares many times over. So where it is over the
        limit, PSS is read, one process after the other, until it is not or all were read.
        """
        found = [(member, *resident_and_swapped(member)) for member in members]
        total = sum(rss + swap for _, rss, swap in found)
        if total <= limit_bytes or len(found) < 2:
            return total if found else None
        ends = time.monotonic() + _PSS_SECONDS
        for member, rss, _ in found:
            pss = pss_of(member)
            total -= rss - pss if pss is not None else 0
            if total <= limit_bytes or time.monotonic() > ends:
                break
        return total

    def _pause(self, count: int) -> float:
        """Between two full samples of so many processes."""
        return min(self._full_every, count * _FULL_SECONDS_EACH)

    def _times(self, now: float | None, wall: float | None) -> tuple[float, str]:
        """Both clocks, made to go on where they stand still or step back."""
        now = boottime() if now is None else now
        now = self._last_boottime = max(now, self._last_boottime + _BOOTTIME_STEP_SECONDS)
        wall = time.time() if wall is None else wall
        # In whole microseconds: a float of so many seconds can't be raised by one.
        self._last_micros = max(int(wall * 1e6), self._last_micros + 1)
        seconds, micros = divmod(self._last_micros, 1_000_000)
        return now, f"{iso_time(seconds)[:19]}.{micros:06d}Z"

    def _tree_figures(
        self, rows: tuple[ProcessSample, ...], counted: list[Member], now: float, is_full: bool
    ) -> TreeFigures:
        cpu_seconds, figures = self._ledger.cpu_seconds(now), totals(rows, is_full)
        if rows and is_full:
            figures["zombies"] = count_zombies(counted, {m.identity.pid for m in self._members})
            figures.update(self._ledger.transferred())
        return TreeFigures(
            processes=len(rows),
            cpu_percent=self._ledger.cpu_percent,
            cpu_seconds=round(cpu_seconds, 2),
            **figures,
        )


def _find(accounts: dict[int, Account], resolution: Resolution) -> Member | None:
    """The workload, if it is alive."""
    if resolution.workload is None:
        return None
    wanted = resolution.workload.identity
    found = accounts.get(wanted.pid)
    return found.member if found is not None and found.member.identity == wanted else None


def _micros_of(at: str) -> int:
    """Microseconds since the epoch of a row's time; 0 for what is none."""
    try:
        return round(seconds_of(at[:19])) * 1_000_000 + int(at[20:26])
    except ValueError:
        return 0
