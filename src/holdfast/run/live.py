"""What a run uses now, and has used so far: from the newest row of its trace, and no other.

Each row has, beside its own figures, the peaks that are above them. So one row is enough, however
long the trace is. A row that is not sound (`trace_rows.py`), or about another process, is ignored.
"""

from __future__ import annotations

from holdfast.process.clock import boottime
from holdfast.process.sampling.figures import NOW
from holdfast.process.sampling.samples import tree_figures
from holdfast.record import Record
from holdfast.run.trace import PEAKS, usage_in
from holdfast.run.trace_rows import last_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    Json = dict[str, Any]

_STALE_INTERVALS = 3


class Live(Record):
    """Figures of a run without a recorded ending. None: nothing is known."""

    now: Json | None = None  # the contract's `now`
    usage: Json | None = None  # the measured part of the contract's `usage`


def read_live(
    trace_path: str,
    workloads: Collection[str],
    interval_seconds: float,
    *,
    with_usage: bool = True,
) -> Live:
    """From the newest sample; one that is too old to be about now still shows what was used.

    `workloads`: the tokens of all that the run resolved to.
    """
    row = last_row(trace_path)
    if row is None or not _is_ours(row, workloads) or not isinstance(row.get("tree"), dict):
        return Live()
    is_unresolved = row.get("resolution") == "unresolved"  # it counts wrappers alone
    figures = {} if is_unresolved else tree_figures(row)
    now = None
    if figures and is_recent(row, interval_seconds):
        now = {"at": row["at"], **{name: figures.get(name) for name in NOW}}
    return Live(now, _so_far(row, figures) if with_usage else None)


def _is_ours(row: Json, workloads: Collection[str]) -> bool:
    """Whether it is about a workload of the run; an unresolved row is about none."""
    token = row.get("token")
    return token is None or token in workloads


def is_recent(row: Json, interval_seconds: float) -> bool:
    """Whether a row is new enough to be about now."""
    at = row.get("boottime")
    stale = _STALE_INTERVALS * max(interval_seconds, 1.0)
    return at is not None and 0 <= boottime() - at <= stale


def _so_far(row: Json, figures: Json) -> Json | None:
    peaks = row.get(PEAKS)
    if not isinstance(peaks, dict):
        return None  # of an earlier version: it does not have what was before
    own = usage_in(figures)
    beyond = {name: peaks[name] for name in own if name in peaks}
    usage = {**own, **beyond}
    return usage if any(value is not None for value in usage.values()) else None
