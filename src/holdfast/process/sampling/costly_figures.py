"""The figures that cost milliseconds: PSS, established connections, the control group.

Each has a bound. What would go over it is None, and is tried less often from then on.
"""

from __future__ import annotations

import time

from holdfast.process.cgroups import ControlGroup
from holdfast.process.proc_files import established_inodes
from holdfast.process.procfs import ProcessState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from holdfast.process.cgroups import GroupFigures
    from holdfast.process.proc_files import ProcessFiles
    from holdfast.process.sampling.samples import Sample
    from holdfast.process.tree import Member

_PSS_BUDGET_SECONDS = 0.05  # walking the pages of a large process holds us up
_LONGEST_PAUSE_SECONDS = 3600.0
_MOST_DESCRIPTORS = 512
_MOST_TABLE_BYTES = 1 << 20


class CostlyFigures:
    """Adds them to samples, on a budget."""

    def __init__(self, every_seconds: float) -> None:
        self._pause = every_seconds
        self._pss_at = float("-inf")
        self._group_text = b""
        self._group: ControlGroup | None = None

    def add_to(
        self,
        sample: Sample,
        counted: Collection[Member],
        workload: Member | None,
        now: float,
    ) -> Sample:
        """The sample with what could be found in time."""
        if not counted:
            return sample
        pss = self._pss(counted, now)
        sockets = connections(counted)
        rows = tuple(
            row.replace(sockets=sockets.get(row.token)) if sockets is not None else row
            for row in sample.processes
        )
        total = None if sockets is None else sum(sockets.values())
        return sample.replace(
            processes=rows,
            workload=rows[0] if sample.workload is not None else None,
            tree=sample.tree.replace(pss_bytes=pss, sockets=total),
            group=self._group_figures(workload),
        )

    def _pss(self, counted: Iterable[Member], now: float) -> int | None:
        if now - self._pss_at < self._pause * 0.9:
            return None
        self._pss_at = now
        found = pss_bytes(counted, _PSS_BUDGET_SECONDS)
        if found is None:
            self._pause = min(self._pause * 2, _LONGEST_PAUSE_SECONDS)
        return found

    def _group_figures(self, workload: Member | None) -> GroupFigures | None:
        if workload is None:
            return None
        text = workload.files.control_groups()
        if workload.has_ended():
            return None
        if text != self._group_text:
            self._group_text, self._group = text, ControlGroup.of(text)
        return self._group.figures() if self._group is not None else None


def pss_bytes(processes: Iterable[Member], budget_seconds: float) -> int | None:
    """The sum of PSS; None when a part is unknown or the budget is spent."""
    total, ends = 0, time.monotonic() + budget_seconds
    for member in processes:
        found = pss_of(member) if time.monotonic() <= ends else None
        if found is None:
            return None
        total += found
    return total


def pss_of(member: Member) -> int | None:
    """Of one process; None where it is unknown, or would have to be waited for."""
    stat = member.files.stat()
    # A process that hangs in the kernel may hold the lock that PSS needs.
    if stat is None or stat.state is ProcessState.DISK_SLEEP:
        return None
    found = member.files.pss_bytes()
    return None if member.has_ended() else found


def connections(members: Iterable[Member]) -> dict[str, int] | None:
    """Established connections by the token of their process; None when there is too much to read.

    The table of all connections takes milliseconds, so it is read only where there are sockets.
    """
    established: dict[int, set[int] | None] = {}
    found: dict[str, int] = {}
    for member in members:
        inodes = member.files.socket_inodes(_MOST_DESCRIPTORS)
        network = member.files.network_namespace() if inodes else None
        if inodes is None or member.has_ended():
            continue
        found[member.identity.token] = 0
        if network is None:
            continue
        if network not in established:
            established[network] = _established(member.files)
        peers = established[network]
        if peers is None:
            return None
        found[member.identity.token] = len(inodes & peers)
    return found


def _established(files: ProcessFiles) -> set[int] | None:
    tables = files.connection_tables(_MOST_TABLE_BYTES)
    if any(len(table) >= _MOST_TABLE_BYTES for table in tables):
        return None
    return established_inodes(tables)
