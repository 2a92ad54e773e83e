"""Lines over time: values, breaks, peaks, fewer points of the same shape. Pure.

A point without a value is a break: nothing is drawn across it and nothing is guessed.
"""

from __future__ import annotations

import enum
import itertools

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Known = tuple[float, float]  # seconds since the start, value
    Point = tuple[float, float | None]


class CurveShape(enum.StrEnum):
    """What a value says about the time around it."""

    LEVEL = "level"  # measured at that moment
    COUNT = "count"  # the same, in whole numbers: it holds until the next one
    MEAN = "mean"  # over the time since the point before
    POINTS = "points"  # measured at that moment, too rarely to say anything about between


class Curve(Record):
    """One figure over time."""

    key: str
    name: str
    shape: CurveShape
    points: tuple[Point, ...]

    @property
    def is_known(self) -> bool:
        """Whether there is any value at all."""
        return any(value is not None for _, value in self.points)

    def peak(self) -> Known | None:
        """The highest value, and when it was first seen."""
        known = [(at, value) for at, value in self.points if value is not None]
        return max(known, key=lambda point: point[1]) if known else None

    def segments(self) -> list[list[Known]]:
        """The stretches without a break, as the corners of what is to be drawn."""
        found: list[list[Known]] = [[]]
        before: float | None = None
        for at, value in self.points:
            if value is None or self.shape is CurveShape.POINTS:
                found.append([])
            if value is not None:
                found[-1].extend(self._corners(found[-1], before, at, value))
            before = at
        return [segment for segment in found if segment]

    def _corners(
        self, segment: list[Known], before: float | None, at: float, value: float
    ) -> Iterable[Known]:
        if self.shape is CurveShape.MEAN and before is not None:
            return ((before, value), (at, value))
        if self.shape is CurveShape.COUNT and segment:
            return ((at, segment[-1][1]), (at, value))
        return ((at, value),)

    def to_json(self) -> dict[str, object]:
        """Its name and all of its points; a break is null."""
        points = [[at, value] for at, value in self.points]
        return {"key": self.key, "name": self.name, "shape": self.shape.value, "points": points}


def thin(segment: list[Known], seconds: float, buckets: int) -> list[Known]:
    """At most four points of each bucket: its first, lowest, highest and last. No peak is lost."""
    if len(segment) <= 4 or seconds <= 0:
        return segment
    kept: list[Known] = []
    for group in _bucketed(segment, seconds, buckets):
        low = min(range(len(group)), key=lambda place: group[place][1])
        high = max(range(len(group)), key=lambda place: group[place][1])
        kept.extend(group[place] for place in sorted({0, low, high, len(group) - 1}))
    return kept


def _bucketed(segment: list[Known], seconds: float, buckets: int) -> list[list[Known]]:
    groups: dict[int, list[Known]] = {}
    for point in segment:
        groups.setdefault(int(point[0] / seconds * buckets), []).append(point)
    return list(groups.values())


def lone_points(segments: list[list[Known]], seconds: float, buckets: int) -> list[Known]:
    """Values with a break on either side; the highest of each bucket."""
    highest: dict[int, Known] = {}
    for segment in segments:
        if segment[0][0] == segment[-1][0]:
            point = max(segment, key=lambda one: one[1])
            bucket = int(point[0] / seconds * buckets) if seconds > 0 else 0
            if bucket not in highest or point[1] > highest[bucket][1]:
                highest[bucket] = point
    return [highest[bucket] for bucket in sorted(highest)]


def columns(line: Curve, seconds: float, count: int) -> list[float | None]:
    """The highest value in each column; None where nothing is known."""
    found: list[float | None] = [None] * count
    width = seconds / count if seconds > 0 else 1.0

    def raise_to(place: int, value: float) -> None:
        place = min(max(place, 0), count - 1)
        before = found[place]
        found[place] = value if before is None else max(before, value)

    for segment in line.segments():
        for at, value in segment:
            raise_to(int(at / width), value)
        for (start, low), (end, high) in itertools.pairwise(segment):
            for place in range(int(start / width) + 1, min(int(end / width), count)):
                share = ((place + 0.5) * width - start) / (end - start)
                raise_to(place, low + (high - low) * share)
    return found
