"""Axes: round numbers for values and times, and the unit that they are in. Pure."""

from __future__ import annotations

import math

from holdfast.manage.report.figures import Measure
from holdfast.record import Record
from holdfast.run.units import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.report.figures import Chart
    from holdfast.manage.report.series import Curve

_KIB, _MIB, _GIB, _TIB = 1024.0, 1024.0**2, 1024.0**3, 1024.0**4
# Measure: (unit, its size, the highest value that is still shown in it)
_UNITS: dict[Measure, tuple[tuple[str, float, float], ...]] = {
    Measure.PERCENT: (("% of one core", 1.0, math.inf),),
    Measure.BYTES: (("MiB", _MIB, 20 * _GIB), ("GiB", _GIB, 20 * _TIB), ("TiB", _TIB, math.inf)),
    Measure.BYTES_PER_SECOND: (
        ("bytes/s", 1.0, 1000.0),
        ("KiB/s", _KIB, 1000 * _KIB),
        ("MiB/s", _MIB, 1000 * _MIB),
        ("GiB/s", _GIB, math.inf),
    ),
    Measure.NUMBER: (("number", 1.0, math.inf),),
}
_TIME_STEPS = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30,
    60, 120, 300, 600, 900, 1800,
    3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip
_SHORTEST = 0.1


class Axis(Record):
    """A scale from 0 to its top, in steps that people count in."""

    unit: str
    unit_size: float
    step: float  # in units
    count: int  # of steps

    @property
    def sign(self) -> str:
        """What follows a number: `%`, `MiB`, nothing for a count."""
        return {"% of one core": "%", "number": ""}.get(self.unit, self.unit)

    @property
    def top(self) -> float:
        """The highest value that fits, as it was measured."""
        return self.step * self.count * self.unit_size

    def ticks(self) -> list[tuple[float, str]]:
        """Share of the height from the bottom, and the number there."""
        digits = max(0, -math.floor(math.log10(self.step)))
        shown = (f"{self.step * place:,.{digits}f}" for place in range(self.count + 1))
        return [(place / self.count, text) for place, text in enumerate(shown)]

    def share(self, value: float) -> float:
        """How far up a value is; 1 is the top."""
        return min(1.0, max(0.0, value / self.top))


def value_axis(chart: Chart, most_steps: int = 4) -> Axis:
    """Fits the highest value of the chart. Without any, it is one step high."""
    highest = max(chart.highest() or 0.0, chart.limit or 0.0)
    unit, unit_size, _ = next(unit for unit in _UNITS[chart.measure] if highest <= unit[2])
    least = 1.0 if chart.measure is Measure.NUMBER else 0.01
    step = _round_up(max(highest / unit_size / most_steps, least if highest else 1.0))
    return Axis(unit, unit_size, step, max(1, math.ceil(round(highest / unit_size / step, 9))))


def _round_up(value: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    for factor in (1, 2, 5, 10):
        if value <= factor * power * 1.000001:
            return factor * power
    return 10 * power


def amount(measure: Measure, value: float | None) -> str:
    """One value with its unit: `38 %`, `287 MiB`, `1.4 MiB/s`, `4`. Unknown is said."""
    if value is None:
        return "unknown"
    if measure is Measure.NUMBER:
        return f"{value:,.0f}"
    if measure is Measure.PERCENT:
        return "<0.1 %" if 0 < value < 0.05 else f"{_rounded(value)} %"
    return volume(value) + ("/s" if measure is Measure.BYTES_PER_SECOND else "")


def volume(value: float | None) -> str:
    """How many bytes in all: `812 bytes`, `4 KiB`, `103 MiB`. Unknown is said."""
    if value is None:
        return "unknown"
    sizes = (("bytes", 1.0), ("KiB", _KIB), ("MiB", _MIB), ("GiB", _GIB), ("TiB", _TIB))
    unit, unit_size = next((s for s in sizes if value < 999.5 * s[1]), sizes[-1])
    if unit_size == 1.0:
        return "<1 byte" if 0 < value < 0.5 else f"{value:.0f} bytes"
    return f"{_rounded(value / unit_size)} {unit}"


def _rounded(value: float) -> str:
    """`1,234`, `287`, `1.4`, `4`."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}".removesuffix(".0")


def peak_text(measure: Measure, line: Curve) -> str:
    """`at most 287 MiB, at 12s`."""
    peak = line.peak()
    if peak is None:
        return "never known"
    return f"at most {amount(measure, peak[1])}, at {time_text(peak[0])}"


def limit_text(chart: Chart) -> str | None:
    """`limit 600 MiB`."""
    return None if chart.limit is None else f"limit {amount(chart.measure, chart.limit)}"


def time_axis(seconds: float, most_ticks: int) -> list[tuple[float, str]]:
    """Share of the width, and the time since the start there."""
    length = max(seconds, _SHORTEST)
    week = _TIME_STEPS[-1]
    step = next((s for s in _TIME_STEPS if length / s <= most_ticks), None)
    if step is None:
        step = week * math.ceil(length / week / most_ticks)
    places = range(int(length / step + 1e-9) + 1)
    return [(place * step / length, time_text(place * step)) for place in places]


def time_text(seconds: float) -> str:
    """`0s`, `0.5s`, `40s`, `1m30s`, `2h`."""
    return duration(seconds).replace(".0s", "s")


def axis_seconds(seconds: float) -> float:
    """How long the time axis is: something, even for a run of no length."""
    return max(seconds, _SHORTEST)
