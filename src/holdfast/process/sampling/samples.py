"""One measurement of a tree as a record, and as a row of the trace. Pure.

Each row names the identity and comm that it describes. In JSON a figure that is absent is
unknown: it was not read for this row, or could not be read. It is never 0 instead.
"""

from __future__ import annotations

from holdfast.process.procfs import ProcessState
from holdfast.process.sampling.figures import (
    EACH,
    FULL,
    OF_PROCESS,
    OF_TREE,
    ONCE,
    RARE,
    RUNNING,
    ProcessSample,
    TreeFigures,
)
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.cgroups import GroupFigures

_MOST_STUCK = 3  # processes in disk sleep that a row names


class Sample(Record):
    """One measurement. `processes[0]` is the workload where there is one alive."""

    at: str
    boottime: float
    unresolved: bool
    tree: TreeFigures
    workload: ProcessSample | None = None
    processes: tuple[ProcessSample, ...] = ()
    is_slow: bool = False  # it has the rarely read figures too
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

    def usual(self) -> Sample:
        """Without the rarely read figures: as the next one shows it, if nothing happens."""
        tree = self.tree.replace(pss_bytes=None, sockets=None)
        return self.replace(tree=tree, group=None, is_slow=False) if self.is_slow else self

    def _workload_figures(self, workload: ProcessSample) -> dict[str, Any]:
        is_rare = self.is_slow or bool(workload.pending)
        shown = (EACH, FULL, RUNNING, RARE) if is_rare else (EACH, FULL)
        if workload.state is ProcessState.RUNNING:
            shown = (*shown, RUNNING)
        row = {"token": workload.token, "comm": workload.comm, "state": workload.state.value}
        for figure in OF_PROCESS:
            value = getattr(workload, figure.name)
            if value is not None and figure.row in shown:
                row[figure.name] = figure.in_row(value)
        return row

    def _tree_figures(self) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for figure in OF_TREE:
            value = getattr(self.tree, figure.name)
            is_unknown = value is None or (figure.notable and not figure.notable(self.tree))
            if not is_unknown and not self._is_the_workloads(figure.name, value):
                row[figure.name] = figure.in_row(value)
        return row

    def _is_the_workloads(self, name: str, value: Any) -> bool:
        """Whether a tree of one process shows just what that one shows.

        The tree's bytes are also those of processes that have ended.
        """
        if name not in ONCE or self.tree.processes != 1 or self.workload is None:
            return False
        return bool(value == getattr(self.workload, name))

    def _exceptional(self) -> dict[str, Any]:
        """Rare figures, of any process: the cause need not be the workload."""
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


def _worst(processes: tuple[ProcessSample, ...], workload: ProcessSample) -> dict[str, Any]:
    """The process with the most threads, and that with the fewest descriptors left, if not this."""
    found: dict[str, Any] = {}
    most = max(processes, key=lambda p: p.threads or 0)
    if (most.threads or 0) > 2 * (workload.threads or 0) and most is not workload:
        found["most_threads"] = {"threads": most.threads, "token": most.token, "comm": most.comm}
    fullest = max(processes, key=lambda p: p.fd_ratio or 0.0)
    if (fullest.fd_ratio or 0.0) > 0.5 and fullest is not workload:
        ratio = round(fullest.fd_ratio or 0.0, 3)
        found["fewest_fds"] = {"fd_ratio": ratio, "token": fullest.token, "comm": fullest.comm}
    return found


def _add(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def tree_figures(row: dict[str, Any]) -> dict[str, Any]:
    """Those of the whole tree; a tree of one process has some once, as the workload's."""
    tree: dict[str, Any] = row.get("tree") or {}
    if tree.get("processes") != 1:
        return tree
    return {**{name: row[name] for name in ONCE if name in row}, **tree}


def tree_figure(row: dict[str, Any], name: str) -> Any:
    """One of them; None: it is unknown."""
    tree = row.get("tree") or {}
    value = tree.get(name)
    if value is None and tree.get("processes") == 1 and name in ONCE:
        return row.get(name)
    return value
