"""What one process uses now, and which belong to the workload: the inner part of a sample."""

from __future__ import annotations

from holdfast.process.procfs import ProcessState, ProcStat, stat_or_none
from holdfast.process.sampling.figures import EACH, OF_PROCESS, OF_TREE, ProcessSample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from holdfast.process.sampling.usage_ledger import Account
    from holdfast.process.tree import Member
    from holdfast.process.workload.programs import Program
    from holdfast.process.workload.resolution import Resolution

_MOST_ZOMBIES = 256
_BLANK = ProcessSample().as_dict()
_READ_FULLY = tuple((one.name, one.read) for one in OF_PROCESS if one.read is not None)
_READ_LIGHTLY = tuple(
    (one.name, one.read) for one in OF_PROCESS if one.read is not None and one.row is EACH
)
_TOTALS = tuple((one.name, one.row, one.total) for one in OF_TREE if one.total is not None)


class Reading:
    """What was read of one process for one sample: figures are taken from it.

    All but the first two is there in a full one only.
    """

    __slots__ = ("cpu_percent", "fd_limit", "fds", "files", "io", "is_slow", "stat", "status")

    def __init__(self, stat: ProcStat, cpu_percent: float | None) -> None:
        self.stat = stat
        self.cpu_percent = cpu_percent

    def read_fully(self, member: Member, is_slow: bool) -> None:
        """Read what a light sample goes without; each file once."""
        member.keep_for_samples()
        files = self.files = member.files
        self.is_slow = is_slow
        self.status = files.status()
        self.io = files.transfer()  # None for a process of another user
        self.fds = files.open_files()
        self.fd_limit = files.fd_limit(again=is_slow)


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


def measure(account: Account, now: float, is_full: bool, is_slow: bool) -> ProcessSample | None:
    """One process, as the walk has shown it and more; None when it is gone or can't be read."""
    member, stat = account.member, account.member.stat
    if stat is None:
        return None
    reading = Reading(stat, account.cpu_percent(stat, now))
    # Where a process hangs, and whether it was awake in between, is read each time.
    if not is_full and stat.state is not ProcessState.DISK_SLEEP:
        return _sample(account, stat, {name: read(reading) for name, read in _READ_LIGHTLY})
    reading.read_fully(member, is_slow)
    sample = _sample(account, stat, {name: read(reading) for name, read in _READ_FULLY})
    if member.has_ended():
        return None
    account.transfer = reading.io or account.transfer
    return sample


def _sample(account: Account, stat: ProcStat, figures: dict[str, Any]) -> ProcessSample:
    sample = object.__new__(ProcessSample)  # without a call: a tree may have thousands
    named = {"token": account.token, "comm": stat.comm, "state": stat.state}
    sample.__dict__.update({**_BLANK, **named, **figures})
    return sample


def totals(rows: tuple[ProcessSample, ...], is_full: bool) -> dict[str, Any]:
    """Those of the tree's figures that are made of its processes'; none for an empty tree."""
    return {
        name: total([getattr(row, name) for row in rows])
        for name, when, total in _TOTALS
        if rows and (is_full or when is EACH)
    }


def resident_and_swapped(member: Member) -> tuple[int, int]:
    """Its memory; nothing of a process that is gone."""
    if member.stat is None:
        return 0, 0
    swapped = member.files.status().swap_bytes
    return member.stat.rss_bytes, swapped if swapped and member.is_proven("status") else 0


def has_deleted_directory(member: Member) -> bool | None:
    """Whether its working directory was removed; None: unknown."""
    found = member.files.has_deleted_directory()
    return None if member.has_ended() else found


def count_zombies(counted: Iterable[Member], known: set[int]) -> int:
    """Ended children that a member has not waited for; the walk does not list them."""
    count = 0
    for member in counted:
        strangers = [child for child in member.children if child not in known]
        if strangers and count < _MOST_ZOMBIES:
            count += _zombies_among(strangers, member.identity.pid, _MOST_ZOMBIES - count)
    return count


def _zombies_among(pids: list[int], parent: int, most: int) -> int:
    count = 0
    for pid in pids:
        stat = stat_or_none(pid)
        # A leader whose threads live on shows Z too, but one of our members would be known.
        if stat is not None and stat.state is ProcessState.ZOMBIE and stat.ppid == parent:
            count += 1
            if count >= most:
                break
    return count
