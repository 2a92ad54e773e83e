"""Measures a tree, cheaply, through descriptors that are kept open.

Three rates: CPU and memory of every process in each sample; the rest of each process at most
every 5 s; what is dear (`process/dear.py`) every 30 s. It never blocks, and never raises for a
process that is gone or unreadable: unknown is None.
"""

from __future__ import annotations

import os
import time

from holdfast.process.clock import boottime, iso_time
from holdfast.process.dear import DearFigures, connections, pss_of
from holdfast.process.proc_details import Basics, KeptProcess
from holdfast.process.proc_shared import zombies_among
from holdfast.process.procfs import TICKS_PER_SECOND, ProcessState
from holdfast.process.samples import ProcessSample, Sample, TreeFigures
from holdfast.process.tracked import Keeper, Ledger, Tracked
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from holdfast.process.identity import ProcessIdentity
    from holdfast.process.members import Member
    from holdfast.process.resolution import Resolution

FULL_EVERY_SECONDS = 5.0
SLOW_EVERY_SECONDS = 30.0
_EARLY_BY = 0.9  # a timer that fires a little early still finds its turn
_PSS_SECONDS = 0.5  # for a tree that may be over its limit: it would be stopped otherwise
_MOST_ZOMBIES = 256
_MOST_PERCENT = 100.0 * (os.cpu_count() or 1)
_BOOTTIME_STEP_SECONDS = 1e-3
_LIGHT = (None,) * (len(ProcessSample._fields) - 5)


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
        self._counted: frozenset[ProcessIdentity] = frozenset()

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
        is_full = now - self._full_at >= self._full_every if full is None else full
        is_slow = is_full and now - self._slow_at >= self._slow_every
        self._full_at = now if is_full else self._full_at
        self._slow_at = now if is_slow else self._slow_at
        members = list(members)
        tracked = self._keeper.track(member.identity for member in members)
        counted = self._choose(members, tracked, resolution)
        measured = ((identity, _measure(t, now, is_full)) for identity, t in counted.items())
        rows = {identity: row for identity, row in measured if row is not None}
        tree = self._sums(rows, counted, now)
        if is_full and counted:
            tree = tree.replace(**self._full_sums(rows, counted, tracked))
        workload = counted.get(resolution.workload.identity) if resolution.workload else None
        subject = rows.get(workload.identity) if workload is not None else None
        sample = Sample(
            at,
            now,
            not resolution.has_subject,
            subject,
            tuple(sorted(rows.values(), key=lambda row: row is not subject)),
            tree if resolution.has_subject else TreeFigures(len(tracked)),
            is_slow,
            quiet_seconds,
            _has_deleted_directory(workload) if is_full and workload is not None else None,
            None,
        )
        return self._dear.add_to(sample, counted, workload, now) if is_slow and counted else sample

    def activity(self, members: Iterable[Member], now: float | None = None) -> Activity:
        """What the whole tree has done so far, wrappers too."""
        tracked = self._keeper.track(member.identity for member in members)
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
        tracked = self._keeper.track(member.identity for member in members)
        found = {identity: _resident_and_swapped(each) for identity, each in tracked.items()}
        total = sum(rss + swap for rss, swap in found.values())
        if limit_bytes is None or total <= limit_bytes or len(found) < 2:
            return MemoryUse(total, "rss") if found else None
        ends = time.monotonic() + _PSS_SECONDS
        for identity, each in tracked.items():
            pss = pss_of(each)
            total -= found[identity][0] - pss if pss is not None else 0
            if total <= limit_bytes or time.monotonic() > ends:
                break
        return MemoryUse(total, "pss")

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
        self,
        members: list[Member],
        tracked: dict[ProcessIdentity, Tracked],
        resolution: Resolution,
    ) -> dict[ProcessIdentity, Tracked]:
        """Nothing where no workload is known: a wrapper's figures are nobody's."""
        if not resolution.has_subject:
            return {}
        beside = _beside_the_workload(members, resolution)
        counted = {i: t for i, t in tracked.items() if i not in beside}
        if self._counted & beside:  # what was taken for the workload is a wrapper after all
            self._ledger.start_over()
            self._last_cpu = None
        self._counted = frozenset(counted)
        return counted

    def _sums(
        self,
        rows: dict[ProcessIdentity, ProcessSample],
        counted: dict[ProcessIdentity, Tracked],
        now: float,
    ) -> TreeFigures:
        self._ledger.settle(self._keeper.ended, {i.pid: t for i, t in counted.items()})
        self._keeper.ended.clear()
        cpu = self._ledger.cpu_seconds(counted.values())
        percent = None
        if self._last_cpu is not None:
            percent = _percent(cpu - self._last_cpu[1], now - self._last_cpu[0])
        self._last_cpu = (now, cpu)
        used = sum(row.rss_bytes for row in rows.values()) if rows else None
        return TreeFigures(len(rows), used, percent, round(cpu, 2))

    def _full_sums(
        self,
        rows: dict[ProcessIdentity, ProcessSample],
        counted: dict[ProcessIdentity, Tracked],
        tracked: dict[ProcessIdentity, Tracked],
    ) -> dict[str, Any]:
        moved = self._ledger.transferred(counted[identity] for identity in rows)
        values = list(rows.values())
        known = {identity.pid for identity in tracked}
        return {
            "threads": _sum(row.threads for row in values),
            "swap_bytes": _sum(row.swap_bytes for row in values),
            "chars": moved[0] if moved else None,
            "read_bytes": moved[1] if moved else None,
            "write_bytes": moved[2] if moved else None,
            "zombies": _zombies([counted[identity] for identity in rows], known),
            "oom_score": _highest(row.oom_score for row in values),
            "fd_ratio": _highest(row.fd_ratio for row in values),
            "peak_rss_bytes": _highest(row.peak_rss_bytes for row in values),
        }


def _beside_the_workload(members: list[Member], resolution: Resolution) -> set[ProcessIdentity]:
    """The wrappers, and what they run beside the workload: forks of theirs, filters, helpers.

    What came back to the reaper may have been the workload's: it counts.
    """
    wrappers = {wrapper.identity for wrapper in resolution.wrappers}
    subjects = {program.identity for program in resolution.candidates}
    if resolution.workload is not None:
        subjects.add(resolution.workload.identity)
    by_pid = {member.identity.pid: member for member in members}
    beside: set[ProcessIdentity] = set()
    decided: dict[int, bool] = {}
    for member in members:
        path: list[int] = []
        above: Member | None = member
        answer = False
        while above is not None and above.identity.pid not in path:
            path.append(above.identity.pid)
            if above.identity in subjects:
                break
            if above.identity in wrappers or above.identity.pid in decided:
                answer = decided.get(above.identity.pid, True)
                break
            above = by_pid.get(above.ppid)
        decided.update(dict.fromkeys(path, answer))
        if answer:
            beside.add(member.identity)
    return beside


def _measure(tracked: Tracked, now: float, is_full: bool) -> ProcessSample | None:
    """One process; None when it is gone or can't be read."""
    with tracked as files:
        basics = files.basics() if files is not None else None
        if files is None or basics is None:
            return None
        before, since = tracked.basics, tracked.counted_at
        tracked.before, tracked.basics, tracked.counted_at = before, basics, now
        percent = None
        if before is not None and since is not None and now > since:
            ticks = basics.cpu_ticks - before.cpu_ticks
            percent = _percent(ticks / TICKS_PER_SECOND, now - since)
        # Where a process hangs, and whether it was awake in between, is asked each time.
        if not is_full and basics.state is not ProcessState.DISK_SLEEP:
            return ProcessSample(
                tracked.token, basics.comm, basics.state, basics.rss_bytes, percent, *_LIGHT
            )
        return _measure_fully(tracked, files, basics, percent)


def _measure_fully(
    tracked: Tracked, files: KeptProcess, basics: Basics, percent: float | None
) -> ProcessSample:
    memory, transfer = files.memory(), files.transfer()
    tracked.transfer = transfer or tracked.transfer
    limit = files.read_fd_limit() if files.fd_limit is None else files.fd_limit
    hangs = basics.state is ProcessState.DISK_SLEEP
    return ProcessSample(
        tracked.token,
        basics.comm,
        basics.state,
        basics.rss_bytes,
        percent,
        basics.threads,
        memory.swap_bytes,
        files.open_files(),
        limit,
        memory.voluntary_switches,
        memory.involuntary_switches,
        transfer.chars if transfer else None,
        transfer.read_bytes if transfer else None,
        transfer.write_bytes if transfer else None,
        files.oom_score(),
        memory.peak_rss_bytes,
        memory.signals_pending,
        memory.signals_blocked,
        memory.signals_caught,
        files.wait_channel() if hangs or basics.state is ProcessState.SLEEPING else None,
        None,
    )


def _resident_and_swapped(tracked: Tracked) -> tuple[int, int]:
    with tracked as files:
        basics = files.basics() if files is not None else None
        if files is None or basics is None:
            return 0, 0
        return basics.rss_bytes, files.memory().swap_bytes or 0


def _zombies(counted: list[Tracked], known: set[int]) -> int:
    """Ended children that a member has not waited for; the walk does not list them."""
    count = 0
    for tracked in counted:
        with tracked as files:
            strangers = [pid for pid in files.children() if pid not in known] if files else []
        if strangers and count < _MOST_ZOMBIES:
            count += zombies_among(strangers, tracked.identity.pid, _MOST_ZOMBIES - count)
    return count


def _percent(cpu_seconds: float, seconds: float) -> float:
    """Whole ticks over a short interval can come to more than the machine has."""
    return min(round(100 * cpu_seconds / seconds, 1), _MOST_PERCENT)


def _has_deleted_directory(workload: Tracked) -> bool | None:
    with workload as files:
        return files.has_deleted_directory() if files is not None else None


def _sum(values: Iterable[int | None]) -> int | None:
    """A sum with an unknown part is unknown."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _highest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _micros_of(at: str) -> int:
    """Microseconds since the epoch of a row's time; 0 for what is none."""
    import calendar

    try:
        seconds = calendar.timegm(time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S"))
        return seconds * 1_000_000 + int(at[20:26])
    except ValueError:
        return 0
