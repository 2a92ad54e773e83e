"""Where a run was not measured, and why. Pure.

A stretch is said, and drawn as a gap: not knowing is neither 0 nor the value before.
"""

from __future__ import annotations

import enum

from holdfast.process.sampling.samples import tree_figure
from holdfast.record import Record
from holdfast.run.anomalies.rule import UNCHANGED_SINCE
from holdfast.run.trace import late_after

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Json = dict[str, Any]

_SHORTEST = 0.05  # seconds; what is shorter is only the order in which things were seen
_WHOLE_ROWS = 1000  # a trace is thinned at thousands of rows, and keeps more than half of them
_NEIGHBOURS = 8  # samples on either side, that tell whether the trace was thinned here
_WIDE = 1.5  # intervals: further apart than it was measured
_THINNED = 2  # this many wide steps on one side are no accident


class Lack(enum.StrEnum):
    """Why there are no figures."""

    UNRESOLVED = "unresolved"
    NO_WORKLOAD = "no workload"
    NO_PROCESS = "no process"
    NO_SAMPLES = "no samples"


MEANING = {
    Lack.UNRESOLVED: "it was not known which process is the workload",
    Lack.NO_WORKLOAD: "the workload had ended; only wrappers were left",
    Lack.NO_PROCESS: "no process was alive",
    Lack.NO_SAMPLES: "nothing was measured",
}


class Stretch(Record):
    """A time without figures, in seconds since the start."""

    lack: Lack
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin

    def to_json(self) -> Json:
        """With its meaning in words."""
        why = MEANING[self.lack]
        return {"lack": self.lack.value, "from": self.begin, "to": self.end, "why": why}


def lack_of(row: Json) -> Lack | None:
    """Why a row has no figures; None where it has."""
    if tree_figure(row, "rss_bytes") is not None:
        return None
    if row.get("resolution") == "unresolved":
        return Lack.UNRESOLVED
    if (row.get("tree") or {}).get("processes") == 0:
        return Lack.NO_PROCESS
    return Lack.NO_WORKLOAD


def unmeasured(
    times: Sequence[float],
    rows: Sequence[Json],
    seconds: float,
    interval_seconds: float,
    adopted: Sequence[float] = (),
) -> tuple[Stretch, ...]:
    """All stretches in order: rows without figures, and times without rows.

    `adopted`: when another shim took over; nothing was measured since the last sample before that.
    """
    found = _without_figures(times, rows, seconds)
    found += _holes(times, rows, interval_seconds, adopted)
    late = late_after(interval_seconds)
    first, last = (times[0], times[-1]) if times else (seconds, seconds)
    if first > late or not times:
        found.append(Stretch(Lack.NO_SAMPLES, 0.0, first))
    if seconds - last > late:
        found.append(Stretch(Lack.NO_SAMPLES, last, seconds))
    told = [stretch for stretch in found if stretch.seconds > _SHORTEST]
    return tuple(sorted(told, key=lambda stretch: stretch.begin))


def _without_figures(times: Sequence[float], rows: Sequence[Json], seconds: float) -> list[Stretch]:
    """Each lasts until the row that says something else, the last one until it is over."""
    found: list[Stretch] = []
    now: Lack | None = None
    for at, row in zip(times, rows, strict=True):
        lack = lack_of(row)
        if lack is not now:
            if now is not None:
                found[-1] = found[-1].replace(end=at)
            if lack is not None:
                found.append(Stretch(lack, at, at))
        now = lack
    if now is not None:
        found[-1] = found[-1].replace(end=max(seconds, found[-1].begin))
    return found


def steps_between(times: Sequence[float], rows: Sequence[Json]) -> list[float]:
    """From each row to the next look: a row that repeats the one before stands for many looks."""
    return [
        max(0.0, after - before - _unchanged_seconds(row))
        for before, after, row in zip(times, times[1:], rows[1:], strict=False)
    ]


def _unchanged_seconds(row: Json) -> float:
    since, now = row.get(UNCHANGED_SINCE), row.get("boottime")
    return 0.0 if since is None or now is None else max(0.0, now - since)


def _holes(
    times: Sequence[float],
    rows: Sequence[Json],
    interval_seconds: float,
    adopted: Sequence[float],
) -> list[Stretch]:
    """Times between two samples that are longer than the interval accounts for.

    Where a long trace was thinned, missing samples say nothing: only an adoption is proof there.
    """
    steps = steps_between(times, rows)
    found = []
    for place, step in enumerate(steps):
        if step <= late_after(interval_seconds):
            continue
        begin, end = times[place], times[place] + step
        sides = (steps[max(0, place - _NEIGHBOURS) : place], steps[place + 1 :][:_NEIGHBOURS])
        wide = max(sum(step > _WIDE * interval_seconds for step in side) for side in sides)
        is_whole = len(times) < _WHOLE_ROWS or wide < _THINNED
        if is_whole or any(begin < at <= end for at in adopted):
            found.append(Stretch(Lack.NO_SAMPLES, begin, end))
    return found
