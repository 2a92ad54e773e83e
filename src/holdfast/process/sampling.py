"""Measures a tree, cheaply, through descriptors that are kept open.

Three rates: CPU and memory of every process in each sample; the rest of each process as often as
that stays cheap, at least every 5 s; what is dear (`process/dear.py`) every minute. It never
blocks, and never raises for a process that is gone or unreadable: unknown is None.
"""

from __future__ import annotations

import time

from holdfast.process.clock import boottime, iso_time
from holdfast.process.dear import DearFigures, connections, pss_of
from holdfast.process.measuring import (
    beside_the_workload,
    count_zombies,
    has_deleted_directory,
    highest,
    measure,
    percent_of,
    resident_and_swapped,
    sum_of,
)
from holdfast.process.procfs import TICKS_PER_SECOND
from holdfast.process.samples import ProcessSample, Sample, TreeFigures
from holdfast.process.tracked import Keeper, Ledger, Tracked
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.process.members import Member
    from holdfast.process.resolution import Resolution

FULL_EVERY_SECONDS = 5.0
SLOW_EVERY_SECONDS = 60.0
_FULL_SECONDS_EACH = 0.01  # a full look at one process takes 0.06 ms: below 1 % of a core
_EARLY_BY = 0.9  # a timer that fires a little early still finds its turn
_PSS_SECONDS = 0.5  # for a tree that may be over its limit: it would be stopped otherwise
_NOT_ASKED = (None,) * (len(TreeFigures._fields) - 4)
_BOOTTIME_STEP_SECONDS = 1e-3  # as rows show it


class Activity(Record):
    """How much a tree has done so far: for telling a quiet run from an idle one."""

    at: float
    cpu_seconds: float
    io_bytes: int  # through read and write calls: pipes and terminals too
    connections: int  # established


class MemoryUse(Record):
    """Resident and swapped memory of a whole tree: at most so much."""

    bytes: int
    how: str  # "rss" counts a shared page once for each process; "pss" once, as far as it was asked


class Sampler:
    """The meter of one run. Call `sample` with each walk's members; `close` at the end."""

    def __init__(
        self,
        *,
        full_every_seconds: float = FULL_EVERY_SECONDS,
        slow_every_seconds: float = SLOW_EVERY_SECONDS,
        most_descriptors: int | None = None,
        last_at: str = "",
    ) -> None:
        """`last_at`: the time of the last row that an earlier shim wrote."""
        self._keeper = Keeper(most_descriptors)
        self._ledger = Ledger()
        self._dear = DearFigures(slow_every_seconds)
        self._full_every = full_every_seconds * _EARLY_BY
        self._slow_every = slow_every_seconds * _EARLY_BY
        self._full_at = self._slow_at = self._last_boottime = float("-inf")
        self._last_micros = _micros_of(last_at) if last_at else 0
        self._last_cpu: tuple[float, float] | None = None  # when, and CPU seconds of the tree
        self._last_percent: float | None = None
        self._tracked: dict[int, Tracked] = {}
        self._counted: dict[int, Tracked] = {}

    def close(self) -> None:
        """Give all descriptors back."""
        self._keeper.close()

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
        members = list(members)
        is_full = now - self._full_at >= self._pause(len(members)) if full is None else full
        is_slow = is_full and now - self._slow_at >= self._slow_every
        self._full_at = now if is_full else self._full_at
        self._slow_at = now if is_slow else self._slow_at
        tracked = self._tracked = self._keeper.track(members)
        if not resolution.has_subject:  # a wrapper's figures are nobody's
            tree = TreeFigures(len(tracked))
            return Sample(at, now, True, None, (), tree, is_slow, quiet_seconds, None, None)
        counted = self._choose(members, tracked, resolution)
        rows: dict[int, ProcessSample] = {}
        for pid, each in counted.items():
            row = measure(each, now, is_full, is_slow)
            if row is not None:
                rows[pid] = row
        workload = _find(counted, resolution)
        subject = rows.pop(workload.identity.pid, None) if workload is not None else None
        processes = tuple(rows.values()) if subject is None else (subject, *rows.values())
        sample = Sample(
            at,
            now,
            False,
            subject,
            processes,
            self._sums(processes, counted, now, is_full, tracked),
            is_slow,
            quiet_seconds,
            has_deleted_directory(workload) if is_full and workload is not None else None,
            None,
        )
        return self._dear.add_to(sample, counted.values(), workload, now) if is_slow else sample

    def times_if_unchanged(self, members: list[Member], now: float) -> tuple[float, str] | None:
        """The times of a full sample that would say what the last one said; None: take one.

        Most processes idle most of the time. Counters only rise, so files that read the same
        were not changed in between.
        """
        before, idle = self._last_cpu, self._last_percent == 0.0
        is_full_due = now - self._full_at >= self._pause(len(members))
        is_slow_due = now - self._slow_at >= self._slow_every
        if before is None or not idle or not is_full_due or is_slow_due:
            return None
        tracked = self._keeper.track(members)
        if tracked != self._tracked or len(tracked) != len(members) or self._keeper.ended:
            return None
        # All are asked: the next answer is about what each showed now.
        changed = [each for each in tracked.values() if not each.is_unchanged()]
        if changed:
            return None
        now, at = self._times(now, None)
        self._full_at, self._last_cpu = now, (now, before[1])
        for each in self._counted.values():
            each.counted_at = now
        return now, at

    def activity(self, members: Iterable[Member], now: float | None = None) -> Activity:
        """What the whole tree has done so far, wrappers too."""
        tracked = self._keeper.track(members)
        ticks = io_bytes = 0
        for each in tracked.values():
            with each as files:
                basics = files.basics() if files else None
                transfer = files.transfer() if files else None
            ticks += basics.cpu_ticks + basics.waited_ticks if basics else 0
            io_bytes += transfer.chars if transfer else 0
        at = boottime() if now is None else now
        sockets = connections(tracked.values()) or {}
        return Activity(at, ticks / TICKS_PER_SECOND, io_bytes, sum(sockets.values()))

    def memory(self, members: Iterable[Member], limit_bytes: int | None = None) -> MemoryUse | None:
        """Resident and swapped memory of the whole tree, wrappers too.

        The sum of RSS counts pages that a fork shares many times over. So where it is over the
        limit, PSS is asked, one process after the other, until it is not or all were asked.
        """
        tracked = self._keeper.track(members)
        found = {pid: resident_and_swapped(each) for pid, each in tracked.items()}
        total = sum(rss + swap for rss, swap in found.values())
        if limit_bytes is None or total <= limit_bytes or len(found) < 2:
            return MemoryUse(total, "rss") if found else None
        ends = time.monotonic() + _PSS_SECONDS
        for pid, each in tracked.items():
            pss = pss_of(each)
            total -= found[pid][0] - pss if pss is not None else 0
            if total <= limit_bytes or time.monotonic() > ends:
                break
        return MemoryUse(total, "pss")

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

    def _choose(
        self, members: list[Member], tracked: dict[int, Tracked], resolution: Resolution
    ) -> dict[int, Tracked]:
        beside = beside_the_workload(members, resolution)
        if not beside:
            self._counted = tracked
            return tracked
        if any(self._counted.get(pid) is tracked.get(pid) for pid in beside):
            # What was taken for the workload is a wrapper after all.
            self._ledger.start_over()
            self._last_cpu = None
        self._counted = {pid: each for pid, each in tracked.items() if pid not in beside}
        return self._counted

    def _sums(
        self,
        rows: tuple[ProcessSample, ...],
        counted: dict[int, Tracked],
        now: float,
        is_full: bool,
        tracked: dict[int, Tracked],
    ) -> TreeFigures:
        if self._keeper.ended:
            self._ledger.settle(self._keeper.ended, counted)
            self._keeper.ended.clear()
        cpu = self._ledger.cpu_seconds(counted.values())
        before, self._last_cpu = self._last_cpu, (now, cpu)
        percent = None if before is None else percent_of(cpu - before[1], now - before[0])
        self._last_percent = percent
        used = sum(row.rss_bytes for row in rows) if rows else None
        if not is_full or not rows:
            return TreeFigures(len(rows), used, percent, round(cpu, 2), *_NOT_ASKED)
        chars, read, written = self._ledger.transferred(counted.values()) or (None, None, None)
        return TreeFigures(
            len(rows),
            used,
            percent,
            round(cpu, 2),
            sum_of(row.threads for row in rows),
            sum_of(row.swap_bytes for row in rows),
            chars,
            read,
            written,
            count_zombies(counted, tracked),
            highest([row.oom_score for row in rows]),
            highest([row.fd_ratio for row in rows]),
            highest([row.peak_rss_bytes for row in rows]),
            None,
            None,
        )


def _find(counted: dict[int, Tracked], resolution: Resolution) -> Tracked | None:
    if resolution.workload is None:
        return None
    found = counted.get(resolution.workload.identity.pid)
    return found if found and found.identity == resolution.workload.identity else None


def _micros_of(at: str) -> int:
    """Microseconds since the epoch of a row's time; 0 for what is none."""
    import calendar

    try:
        seconds = calendar.timegm(time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S"))
        return seconds * 1_000_000 + int(at[20:26])
    except ValueError:
        return 0
