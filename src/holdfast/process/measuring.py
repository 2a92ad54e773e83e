"""What one process uses now, and who belongs to the workload: the inner part of a sample."""

from __future__ import annotations

import os

from holdfast.process.proc_details import Basics, KeptProcess
from holdfast.process.proc_shared import zombies_among
from holdfast.process.procfs import TICKS_PER_SECOND, ProcessState
from holdfast.process.samples import ProcessSample
from holdfast.process.tracked import Tracked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeVar

    from holdfast.process.members import Member
    from holdfast.process.programs import Program
    from holdfast.process.resolution import Resolution

    _Number = TypeVar("_Number", int, float)

_MOST_ZOMBIES = 256
_MOST_PERCENT = 100.0 * (os.cpu_count() or 1)
_LIGHT = (None,) * (len(ProcessSample._fields) - 5)


def beside_the_workload(members: Iterable[Member], resolution: Resolution) -> set[int]:
    """The PIDs of wrappers, and of what they run beside the workload: forks, filters, helpers.

    What came back to the reaper may have been the workload's: it counts.
    """
    if not resolution.wrappers:
        return set()
    by_pid = {member.identity.pid: member for member in members}
    wrappers = {w.identity.pid for w in resolution.wrappers if _is_in(by_pid, w)}
    subjects = {c.identity.pid for c in resolution.candidates}
    if resolution.workload is not None:
        subjects.add(resolution.workload.identity.pid)
    decided = {**dict.fromkeys(wrappers, True), **dict.fromkeys(subjects, False)}
    for pid in by_pid:
        path = []
        above: int = pid
        while above in by_pid and above not in decided:
            path.append(above)
            decided[above] = False  # until the end of the path says otherwise; ends a circle
            above = by_pid[above].ppid
        decided.update(dict.fromkeys(path, decided.get(above, False)))
    return {pid for pid in by_pid if decided[pid]}


def _is_in(by_pid: dict[int, Member], program: Program) -> bool:
    member = by_pid.get(program.identity.pid)
    return member is not None and member.identity == program.identity


def measure(tracked: Tracked, now: float, is_full: bool, is_slow: bool) -> ProcessSample | None:
    """One process; None when it is gone or can't be read."""
    with tracked as files:
        basics = files.basics() if files is not None else None
        if files is None or basics is None:
            return None
        before, since = tracked.basics, tracked.counted_at
        tracked.basics, tracked.counted_at = basics, now
        percent = None
        if before is not None and since is not None and now > since:
            ticks = basics.cpu_ticks - before.cpu_ticks
            percent = percent_of(ticks / TICKS_PER_SECOND, now - since)
        # Where a process hangs, and whether it was awake in between, is asked each time.
        if not is_full and basics.state is not ProcessState.DISK_SLEEP:
            return ProcessSample(
                tracked.token, basics.comm, basics.state, basics.rss_bytes, percent, *_LIGHT
            )
        return _measure_fully(tracked, files, basics, percent, is_slow)


def _measure_fully(
    tracked: Tracked, files: KeptProcess, basics: Basics, percent: float | None, is_slow: bool
) -> ProcessSample:
    memory, transfer = files.memory(), files.transfer()
    tracked.transfer = transfer or tracked.transfer
    limit = files.read_fd_limit() if is_slow or files.fd_limit is None else files.fd_limit
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
        files.wait_channel() if hangs or is_slow else None,
        None,
    )


def resident_and_swapped(tracked: Tracked) -> tuple[int, int]:
    with tracked as files:
        basics = files.basics() if files is not None else None
        if files is None or basics is None:
            return 0, 0
        return basics.rss_bytes, files.memory().swap_bytes or 0


def count_zombies(counted: dict[int, Tracked], known: dict[int, Tracked]) -> int:
    """Ended children that a member has not waited for; the walk does not list them."""
    count = 0
    for pid, tracked in counted.items():
        with tracked as files:
            strangers = [child for child in files.children() if child not in known] if files else []
        if strangers and count < _MOST_ZOMBIES:
            count += zombies_among(strangers, pid, _MOST_ZOMBIES - count)
    return count


def percent_of(cpu_seconds: float, seconds: float) -> float:
    """Whole ticks over a short interval can come to more than the machine has."""
    return min(round(100 * cpu_seconds / seconds, 1), _MOST_PERCENT)


def has_deleted_directory(workload: Tracked) -> bool | None:
    with workload as files:
        return files.has_deleted_directory() if files is not None else None


def sum_of(values: Iterable[int | None]) -> int | None:
    """A sum with an unknown part is unknown."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def highest(values: list[_Number | None]) -> _Number | None:
    """The highest of those that are known."""
    return max((value for value in values if value is not None), default=None)
