"""A run's samples as the four charts: CPU, memory, I/O, processes. Pure. Unknown stays unknown."""

from __future__ import annotations

import enum
import itertools

from holdfast.manage.report.gaps import Lack, lack_of
from holdfast.manage.report.series import Curve, CurveShape
from holdfast.process.sampling.samples import tree_figure
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.manage.report.gaps import Stretch
    from holdfast.manage.report.series import Point

    Json = dict[str, Any]
    Read = Callable[[Json], float | None]


class Measure(enum.StrEnum):
    """What the numbers of a chart are."""

    PERCENT = "percent of one core"
    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes per second"
    NUMBER = "number"


class Chart(Record):
    """Lines that share an axis. The first is the one that matters most."""

    key: str
    title: str
    measure: Measure
    lines: tuple[Curve, ...]
    limit: float | None = None  # what was asked for as the most
    total: Curve | None = None  # the sum of all lines, where that means something

    @property
    def main(self) -> Curve:
        """The line to draw where there is room for one."""
        return self.total or self.lines[0]

    def highest(self) -> float | None:
        """Of all lines."""
        peaks = [peak[1] for line in self.lines if (peak := line.peak()) is not None]
        return max(peaks, default=None)

    def to_json(self) -> Json:
        """All of its points."""
        return {
            "key": self.key,
            "title": self.title,
            "unit": self.measure.value,
            "limit": self.limit,
            "lines": [line.to_json() for line in self.lines],
        }


class Samples:
    """The rows of a trace on the run's own clock, and when there was nothing to measure."""

    def __init__(
        self, times: Sequence[float], rows: Sequence[Json], stretches: Sequence[Stretch]
    ) -> None:
        self.times = times
        self.rows = rows
        self.stretches = stretches
        self._holes = {one.begin for one in stretches if one.lack is Lack.NO_SAMPLES}

    def line(
        self, key: str, name: str, shape: CurveShape, read: Read, *, is_rare: bool = False
    ) -> Curve:
        """One figure of every row. A row without it, and a hole between rows, is a break.

        Most rows don't ask for a rare figure: those are no break, what was not measured is.
        """
        points: list[Point] = []
        for at, row in zip(self.times, self.rows, strict=True):
            value = read(row)
            if value is not None or not is_rare or lack_of(row) is not None:
                points.append((at, value))
            if at in self._holes:
                points.append((at, None))
        return Curve(key, name, shape, tuple(points))

    def rate(self, key: str, name: str, figure: str) -> Curve:
        """How fast a count since the start grows: a mean between two rows that have it."""
        points: list[Point] = [(0.0, None)]
        begin, before, passed = 0.0, 0.0, 0
        for at, row in zip(self.times, self.rows, strict=True):
            total = _transferred(row, figure)
            if total is None:
                continue
            while passed < len(self.stretches) and self.stretches[passed].end <= begin:
                passed += 1
            between = self._between(begin, at, passed)
            rate = _rate(total - before, at - begin, between)
            for one in between:  # nothing is drawn where nothing was measured
                if points[-1][0] < one.begin:
                    points.append((one.begin, rate))
                points.append((min(one.end, at), None))
            points.append((at, rate))
            begin, before = at, total
        return Curve(key, name, CurveShape.MEAN, tuple(points) if begin else ())

    def _between(self, begin: float, end: float, first: int) -> list[Stretch]:
        """The stretches that reach into that time; they are in order of their begin."""
        later = itertools.islice(self.stretches, first, None)
        near = itertools.takewhile(lambda one: one.begin < end, later)
        return [one for one in near if one.end > begin]


def _rate(grown: float, seconds: float, between: Sequence[Stretch]) -> float | None:
    """Over the time that a process was alive. None where that is not known.

    A count that fell began anew: other processes are counted since, or by another shim.
    """
    if grown < 0 or any(one.lack is Lack.NO_SAMPLES for one in between):
        return None
    seconds -= sum(one.seconds for one in between if one.lack is not Lack.UNRESOLVED)
    return round(grown / seconds, 1) if seconds > 0 else None


def _transferred(row: Json, figure: str) -> float | None:
    # `chars` is in every row that added up the whole tree; others may have one process alone.
    if (row.get("tree") or {}).get("chars") is None:
        return None
    return _number(tree_figure(row, figure))


def charts(samples: Samples, memory_max_bytes: float | None) -> tuple[Chart, ...]:
    """The four charts; lines that never had a value, or nothing to add, are left out."""
    return (
        Chart("cpu", "CPU", Measure.PERCENT, _with_workload(samples, "cpu_percent")),
        Chart("memory", "Memory", Measure.BYTES, _memory(samples), memory_max_bytes),
        _io(samples),
        Chart("processes", "Processes", Measure.NUMBER, _processes(samples)),
    )


def _with_workload(samples: Samples, figure: str) -> tuple[Curve, ...]:
    tree = samples.line("tree", "whole tree", CurveShape.LEVEL, _of_tree(figure))
    own = samples.line(
        "workload", "workload alone", CurveShape.LEVEL, lambda row: _number(row.get(figure))
    )
    return (tree, own) if own.is_known and own.points != tree.points else (tree,)


def _memory(samples: Samples) -> tuple[Curve, ...]:
    lines = [
        line.replace(name=f"{line.name}, resident") for line in _with_workload(samples, "rss_bytes")
    ]
    pss = _rare(samples, "pss", "whole tree, shared pages once (PSS)", "pss_bytes")
    swap = _rare(samples, "swap", "whole tree, swapped out", "swap_bytes")
    return (*lines, *([pss] if pss.is_known else []), *_above_0(swap))


def _io(samples: Samples) -> Chart:
    read = samples.rate("read", "read from storage", "read_bytes")
    written = samples.rate("write", "written to storage", "write_bytes")
    points = tuple(
        (at, None if one is None or other is None else one + other)
        for (at, one), (_, other) in zip(read.points, written.points, strict=True)
    )
    total = Curve("both", "read and written", read.shape, points)
    return Chart("io", "I/O", Measure.BYTES_PER_SECOND, (read, written), total=total)


def _processes(samples: Samples) -> tuple[Curve, ...]:
    alive = samples.line("tree", "whole tree, without wrappers", CurveShape.COUNT, _count)
    zombies = _rare(samples, "zombies", "ended and not waited for", "zombies", CurveShape.COUNT)
    return (alive, *_above_0(zombies))


def _rare(
    samples: Samples, key: str, name: str, figure: str, shape: CurveShape = CurveShape.POINTS
) -> Curve:
    return samples.line(key, name, shape, _of_tree(figure), is_rare=True)


def _above_0(line: Curve) -> tuple[Curve, ...]:
    """A line that says something."""
    return (line,) if (line.peak() or (0, 0))[1] > 0 else ()


def _count(row: Json) -> float | None:
    """Wrappers without a workload are not counted; that no process is left is known."""
    if lack_of(row) not in (None, Lack.NO_PROCESS):
        return None
    return _number((row.get("tree") or {}).get("processes"))


def _of_tree(figure: str) -> Read:
    return lambda row: _number(tree_figure(row, figure))


def _number(value: object) -> float | None:
    """A figure of a file that may have been edited."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if value >= 0 and value != float("inf") else None


def mean_cpu_percent(samples: Samples) -> float | None:
    """From CPU time, not from the samples: a thinned trace keeps more of the high ones."""
    used = passed = 0.0
    before: tuple[float, float] | None = None
    for at, row in zip(samples.times, samples.rows, strict=True):
        seconds = _number(tree_figure(row, "cpu_seconds"))
        if seconds is None:
            before = None if lack_of(row) is not None else before
            continue
        if before is not None and seconds >= before[1]:
            used, passed = used + seconds - before[1], passed + at - before[0]
        before = (at, seconds)
    return round(100 * used / passed, 1) if passed > 0 else None
