"""Reads all that a report is made of, once. Takes no lock and writes nothing."""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.manage.info import examine_run
from holdfast.process.clock import wall_clock
from holdfast.record import Record
from holdfast.run.atomic_files import read_lines
from holdfast.run.facts import RunFacts
from holdfast.run.lifecycle import fold
from holdfast.run.trace_rows import StoredTrace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.run.directory import RunDirectory
    from holdfast.run.event_log import LoggedEvent

    Json = dict[str, Any]


class Material(Record):
    """A run's files as they were at one look."""

    info: RunInfo
    facts: RunFacts
    events: tuple[LoggedEvent, ...]
    rows: tuple[Json, ...]  # of the trace
    anomalies: tuple[Json, ...]
    signals: tuple[Json, ...]
    looked_at: str
    damaged_rows: int = 0  # of the trace, left out


def read_material(directory: RunDirectory) -> Material:
    """The run at one look. What can't be read is left out; the info's evidence says why."""
    info, view = examine_run(directory)
    # Of events that are damaged, those before the damage tell something.
    events = (view.read.events if view is not None else ()) or _events(directory)
    facts = fold(events) if events else RunFacts()
    wrappers = tuple(wrapper.identity.token for wrapper in facts.attempt.wrappers)
    # Without events, nothing tells whose rows they are.
    trace = StoredTrace(directory.trace_path, facts.workloads if events else None, wrappers)
    rows = tuple(row for row in trace if isinstance(row.get("tree"), dict))
    anomalies = _lines(directory.anomalies_path)
    said = {row.get("token") for row in anomalies if row.get("rule") in _ABOUT_IDENTITY}
    anomalies += [one.to_json() for one in trace.anomalies if one.token not in said]
    return Material(
        info,
        facts,
        events,
        rows,
        tuple(anomalies),
        tuple(_lines(directory.signals_path)),
        wall_clock(),
        trace.damaged,
    )


_ABOUT_IDENTITY = ("identity_drift", "wrapper_traced")


def _events(directory: RunDirectory) -> tuple[LoggedEvent, ...]:
    try:
        return directory.read_events().events
    except (HoldfastError, OSError):
        return ()


def _lines(path: str) -> list[Json]:
    try:
        return read_lines(path)
    except OSError:
        return []
