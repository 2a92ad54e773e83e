"""Puts a run's facts and samples together into one frozen snapshot, which a report describes.

Pure aggregation: it reads no file and no clock (`reading.py` does), and prints nothing.
"""

from __future__ import annotations

import statistics

from holdfast.manage.report.figures import Samples, charts, mean_cpu_percent
from holdfast.manage.report.gaps import Stretch, steps_between, unmeasured
from holdfast.manage.report.marks import (
    AnomalyRow,
    SignalRow,
    anomaly_rows,
    event_marks,
    marks,
    one_line,
    signal_rows,
)
from holdfast.manage.report.runclock import boot_of, clock_of, timed
from holdfast.process.clock import seconds_of
from holdfast.record import Record
from holdfast.run.events import Kind
from holdfast.run.facts import State
from holdfast.run.redaction import redact_argv, redact_text
from holdfast.run.trace import UsagePeaks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.manage.report.figures import Chart
    from holdfast.manage.report.marks import Mark
    from holdfast.manage.report.reading import Material
    from holdfast.manage.report.runclock import RunClock, TimedEvent
    from holdfast.run.event_log import LoggedEvent

    Json = dict[str, Any]


class WorkloadFinding(Record):
    """Which process was taken for the workload from some time on, and why."""

    seconds: float
    resolution: str
    workload: str | None
    wrappers: tuple[str, ...]
    why: str


class AttemptRow(Record):
    """One start of the command."""

    attempt: int
    seconds: float
    started_at: str
    lasted_seconds: float | None
    root_pid: int | None
    exit_code: int | None
    signal: int | None
    outcome: str | None


class Snapshot(Record):
    """A run over time, at one look. All times are seconds since its first attempt's start."""

    info: RunInfo
    looked_at: str
    origin_at: str | None
    seconds: float  # how long the axis is
    interval_seconds: float | None
    sample_count: int
    damaged_count: int  # rows of the trace that can't be read as samples
    charts: tuple[Chart, ...]
    stretches: tuple[Stretch, ...]
    marks: tuple[Mark, ...]
    attempts: tuple[AttemptRow, ...]
    anomalies: tuple[AnomalyRow, ...]
    signals: tuple[SignalRow, ...]
    findings: tuple[WorkloadFinding, ...]
    usage: Json  # the contract's; None: not known
    mean_cpu_percent: float | None

    def chart(self, key: str) -> Chart:
        """One of the four."""
        return next(chart for chart in self.charts if chart.key == key)

    @property
    def has_figures(self) -> bool:
        """Whether anything was measured."""
        lines = (*self.chart("cpu").lines, *self.chart("memory").lines)
        return any(line.is_known for line in lines)

    def to_json(self) -> Json:
        """The document of `report --json`."""
        return {
            "schema": 1,
            "run": self.info.to_json(),
            "looked_at": self.looked_at,
            "origin_at": self.origin_at,
            "seconds": self.seconds,
            "interval_seconds": self.interval_seconds,
            "samples": self.sample_count,
            "damaged_samples": self.damaged_count,
            "usage": self.usage,
            "mean_cpu_percent": self.mean_cpu_percent,
            "charts": [chart.to_json() for chart in self.charts],
            "unmeasured": [stretch.to_json() for stretch in self.stretches],
            "attempts": [attempt.as_dict() for attempt in self.attempts],
            "anomalies": [anomaly.as_dict() for anomaly in self.anomalies],
            "signals": [signal.as_dict() for signal in self.signals],
            "workloads": [finding.as_dict() for finding in self.findings],
            "marks": [mark.as_dict() for mark in self.marks],
        }


def snapshot(material: Material) -> Snapshot:
    """What the material adds up to."""
    info, clock = _public(material.info), clock_of(material)
    events, times = timed(material.events, clock), _times(material.rows, clock)
    seconds = _length(material, events, clock, times)
    interval = _interval(info, times, material.rows)
    adopted = [seconds for seconds, event in events if _is_adoption(event)]
    stretches = unmeasured(times, material.rows, seconds, interval or 0.0, adopted)
    samples = Samples(times, material.rows, stretches)
    anomalies, signals = anomaly_rows(material, clock), signal_rows(material, clock)
    return Snapshot(
        info=info,
        looked_at=material.looked_at,
        origin_at=clock.at,
        seconds=seconds,
        interval_seconds=interval,
        sample_count=sum(row.get("looks", 1) for row in material.rows),
        damaged_count=material.damaged_rows,
        charts=charts(samples, (info.wanted or {}).get("memory_max_bytes")),
        stretches=stretches,
        marks=marks(event_marks(events), anomalies, signals),
        attempts=_attempts(material, events),
        anomalies=anomalies,
        signals=signals,
        findings=tuple(
            _finding(seconds, event.facts)
            for seconds, event in events
            if event.kind is Kind.WORKLOAD_RESOLVED
        ),
        usage=_usage(material),
        mean_cpu_percent=mean_cpu_percent(samples),
    )


def _public(info: RunInfo) -> RunInfo:
    """Without secrets: a report is made to be shown to others."""
    return info.replace(
        name=redact_text(info.name) if info.name is not None else None,
        evidence=redact_text(info.evidence),
        command=redact_argv(info.command) if info.command is not None else None,
        cwd=redact_text(info.cwd) if info.cwd is not None else None,
        result=_redacted_result(info.result),
        tags={redact_text(name): redact_text(value) for name, value in info.tags.items()},
    )


def _redacted_result(result: Json | None) -> Json | None:
    if result is None or not isinstance(result.get("text"), str):
        return result
    return {**result, "text": redact_text(result["text"])}


def _times(rows: Sequence[Json], clock: RunClock) -> list[float]:
    """Of the samples; they never go back, as the samples don't."""
    times: list[float] = []
    boot_id = None
    for row in rows:
        boot_id = boot_of(row["token"]) if row.get("token") else boot_id
        at = clock.seconds(row["at"], row.get("boottime"), boot_id)
        times.append(max(at, times[-1]) if times else at)
    return times


def _interval(info: RunInfo, times: Sequence[float], rows: Sequence[Json]) -> float | None:
    """What was asked for; where that can't be read, what the samples show. 0: none were wanted."""
    asked = (info.wanted or {}).get("sample_interval_seconds")
    if isinstance(asked, (int, float)):
        return float(asked)
    steps = [step for step in steps_between(times, rows) if step]
    return round(statistics.median(steps), 3) if steps else None


def _length(
    material: Material, events: Sequence[TimedEvent], clock: RunClock, times: Sequence[float]
) -> float:
    """Until the end. An ending that was not seen has no time: then until the last sign of life."""
    info = material.info
    if info.ended_at is not None:
        ends = (seconds for seconds, event in reversed(events) if event.at == info.ended_at)
        return next(ends, clock.by_wall_clock(info.ended_at))
    has_ended = info.state is State.ENDED  # then what recorded it, later, is no sign of life
    signs = [
        seconds
        for seconds, event in events
        if (event.kind in _SIGNS_OF_LIFE if has_ended else not _is_adoption(event))
    ]
    last_seen = (material.facts.ending or {}).get("last_seen_at")
    if isinstance(last_seen, str):
        signs.append(clock.by_wall_clock(last_seen))
    return max((*signs, *times[-1:]), default=0.0)


_SIGNS_OF_LIFE = frozenset(
    (
        Kind.ATTEMPT_STARTED,
        Kind.RUNNING,
        Kind.WORKLOAD_RESOLVED,
        Kind.EXECED,
        Kind.MEMBERS_SEEN,
        Kind.ANOMALY_FIRED,
        Kind.USAGE_READ,
    )
)


def _is_adoption(event: LoggedEvent) -> bool:
    return event.kind is Kind.SUPERVISED and event.facts.get("how") == "adopted"


def _usage(material: Material) -> Json:
    """As recorded at the end; before that, and where it is missing, as the samples say."""
    peaks = UsagePeaks()
    for row in material.rows:
        peaks.add(row)
    recorded = {k: v for k, v in (material.info.usage or {}).items() if v is not None}
    usage = {**peaks.usage(), **recorded}
    # None alive at any sample: how many there were in between was not seen.
    return {**usage, "peak_processes": usage["peak_processes"] or None}


def _attempts(material: Material, events: Sequence[TimedEvent]) -> tuple[AttemptRow, ...]:
    started = {
        event.facts["attempt"]: seconds
        for seconds, event in events
        if event.kind is Kind.ATTEMPT_STARTED
    }
    return tuple(
        AttemptRow(
            attempt=one.number,
            seconds=started.get(one.number, 0.0),
            started_at=one.started_at,
            lasted_seconds=_between(one.started_at, one.ended_at),
            root_pid=None if one.first_root is None else one.first_root.pid,
            exit_code=one.exit_code,
            signal=one.signal,
            outcome=one.outcome,
        )
        for one in material.facts.attempts
    )


def _between(start: str, end: str | None) -> float | None:
    return None if end is None else round(max(0.0, seconds_of(end) - seconds_of(start)), 3)


def _finding(seconds: float, facts: Json) -> WorkloadFinding:
    workload = facts.get("workload")
    wrappers = [one for one in facts.get("wrappers") or () if isinstance(one, dict)]
    return WorkloadFinding(
        seconds,
        one_line(facts.get("resolution")),
        _process(workload) if isinstance(workload, dict) else None,
        tuple(map(_process, wrappers)),
        one_line(facts.get("why")),
    )


def _process(process: Json) -> str:
    return f"{process.get('pid')} {one_line(process.get('comm'))}"
