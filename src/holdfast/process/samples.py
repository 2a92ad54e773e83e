"""One measurement of a tree as records, and as a row of the trace. Pure.

Each row names the identity and comm that it describes. In JSON a figure that is absent is
unknown: it was not asked for in this row, or could not be read. It is never 0 instead.
"""

from __future__ import annotations

from holdfast.process.procfs import ProcessState
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.proc_shared import GroupFigures

_MOST_STUCK = 3  # processes in disk sleep that a row names


class ProcessSample(Record):
    """One process in one sample. All but the first five are None in a light one."""

    token: str
    comm: str
    state: ProcessState
    rss_bytes: int
    cpu_percent: float | None  # None in its first sample: there is no interval yet
    threads: int | None = None
    swap_bytes: int | None = None
    fds: int | None = None
    fd_limit: int | None = None
    switches: int | None = None
    involuntary_switches: int | None = None
    chars: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    oom_score: int | None = None
    peak_rss_bytes: int | None = None
    pending: int | None = None
    blocked: int | None = None
    caught: int | None = None
    wait_channel: str | None = None
    sockets: int | None = None

    @property
    def fd_ratio(self) -> float | None:
        """How much of its descriptors it has used up."""
        return None if self.fds is None or not self.fd_limit else self.fds / self.fd_limit


class TreeFigures(Record):
    """The sums of the processes that a sample counts: the workload and all below, no wrappers."""

    processes: int
    rss_bytes: int | None = None
    cpu_percent: float | None = None
    cpu_seconds: float | None = None  # since the start, of ended processes too
    threads: int | None = None
    swap_bytes: int | None = None
    chars: int | None = None  # through read and write calls; since the start
    read_bytes: int | None = None
    write_bytes: int | None = None
    zombies: int | None = None
    oom_score: int | None = None  # the highest
    fd_ratio: float | None = None  # the highest
    peak_rss_bytes: int | None = None  # the highest of one process, also between samples
    pss_bytes: int | None = None
    sockets: int | None = None


class Sample(Record):
    """One measurement. `processes[0]` is the workload where there is one alive."""

    at: str
    boottime: float
    unresolved: bool
    workload: ProcessSample | None
    processes: tuple[ProcessSample, ...]
    tree: TreeFigures
    is_slow: bool = False  # it has the rarely asked figures too
    quiet_seconds: float | None = None  # since the last output
    has_deleted_directory: bool | None = None
    group: GroupFigures | None = None

    def to_json(self) -> dict[str, Any]:
        """A row of trace.jsonl."""
        row: dict[str, Any] = {"at": self.at, "boottime": round(self.boottime, 3)}
        if self.unresolved:
            row["resolution"] = "unresolved"
        if self.workload is not None:
            row.update(self._workload_figures(self.workload))
        if self.quiet_seconds is not None:
            row["quiet_seconds"] = round(self.quiet_seconds, 1)
        if self.has_deleted_directory:
            row["cwd_deleted"] = True
        row["tree"] = self._tree_figures()
        row.update(self._exceptional())
        return row

    def _workload_figures(self, workload: ProcessSample) -> dict[str, Any]:
        row = {
            "token": workload.token,
            "comm": workload.comm,
            "state": workload.state.value,
            "cpu_percent": workload.cpu_percent,
            "rss_bytes": workload.rss_bytes,
            "swap_bytes": workload.swap_bytes,
            "threads": workload.threads,
            "fds": workload.fds,
            # Whether it ever waits matters while it runs; the rest is for the rarer rows.
            "switches": workload.switches if workload.state is ProcessState.RUNNING else None,
            "read_bytes": workload.read_bytes,
            "write_bytes": workload.write_bytes,
            "oom_score": workload.oom_score,
        }
        if self.is_slow or workload.pending:
            row |= {
                "fd_limit": workload.fd_limit,
                "switches": workload.switches,
                "involuntary_switches": workload.involuntary_switches,
                "pending": _hex(workload.pending),
                "blocked": _hex(workload.blocked),
                "caught": _hex(workload.caught),
                "wait_channel": workload.wait_channel,
                "sockets": workload.sockets,
            }
        return {name: value for name, value in row.items() if value is not None}

    def _tree_figures(self) -> dict[str, Any]:
        figures = {k: v for k, v in self.tree.as_dict().items() if v is not None}
        if self.tree.processes == 1 and self.workload is not None:
            for name in _SAME_FOR_ONE:
                # The tree's bytes are also those of processes that have ended.
                if figures.get(name) == getattr(self.workload, name):
                    figures.pop(name, None)
        if (self.tree.peak_rss_bytes or 0) < _NOTABLE_PEAK * (self.tree.rss_bytes or 0):
            figures.pop("peak_rss_bytes", None)
        if "fd_ratio" in figures:
            figures["fd_ratio"] = round(figures["fd_ratio"], 3)
        return figures

    def _exceptional(self) -> dict[str, Any]:
        """What is rare, and said of any process: the culprit need not be the workload."""
        found: dict[str, Any] = {}
        stuck = [p for p in self.processes if p.state is ProcessState.DISK_SLEEP]
        if stuck:
            found["stuck"] = [
                {
                    "token": p.token,
                    "comm": p.comm,
                    "wait_channel": p.wait_channel,
                    "switches": _add(p.switches, p.involuntary_switches),
                }
                for p in stuck[:_MOST_STUCK]
            ]
        if self.workload is not None and len(self.processes) > 1:
            found.update(_worst(self.processes, self.workload))
        if self.group is not None:
            found["group"] = {k: v for k, v in self.group.as_dict().items() if v is not None}
        return found


_SAME_FOR_ONE = frozenset(
    ("rss_bytes", "cpu_percent", "threads", "swap_bytes", "read_bytes", "write_bytes", "oom_score")
)
_NOTABLE_PEAK = 1.05  # a peak between samples is worth a place in the row


def _worst(processes: tuple[ProcessSample, ...], workload: ProcessSample) -> dict[str, Any]:
    """Who has the most threads and the fewest descriptors left, where it is another process."""
    found: dict[str, Any] = {}
    most = max(processes, key=lambda p: p.threads or 0)
    if (most.threads or 0) > 2 * (workload.threads or 0) and most is not workload:
        found["most_threads"] = {"threads": most.threads, "token": most.token, "comm": most.comm}
    fullest = max(processes, key=lambda p: p.fd_ratio or 0.0)
    if (fullest.fd_ratio or 0.0) > 0.5 and fullest is not workload:
        ratio = round(fullest.fd_ratio or 0.0, 3)
        found["fewest_fds"] = {"fd_ratio": ratio, "token": fullest.token, "comm": fullest.comm}
    return found


def _hex(mask: int | None) -> str | None:
    return None if mask is None else f"{mask:x}"


def _add(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def tree_figures(row: dict[str, Any]) -> dict[str, Any]:
    """Those of the whole tree; a tree of one process has some once, as the workload's."""
    tree: dict[str, Any] = row.get("tree") or {}
    if tree.get("processes") != 1:
        return tree
    return {**{name: row[name] for name in _SAME_FOR_ONE if name in row}, **tree}


def tree_figure(row: dict[str, Any], name: str) -> Any:
    """One of them; None: it is unknown."""
    tree = row.get("tree") or {}
    value = tree.get(name)
    if value is None and tree.get("processes") == 1 and name in _SAME_FOR_ONE:
        return row.get(name)
    return value
