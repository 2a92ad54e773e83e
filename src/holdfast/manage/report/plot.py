"""Charts for a terminal: 80 columns, plain characters. Pure: a snapshot in, lines out.

All charts share their time axis, column by column, so that a mark stands below what it is about.
"""

from __future__ import annotations

import textwrap

from holdfast.manage.plaintext import printable
from holdfast.manage.report.marks import MarkKind
from holdfast.manage.report.scale import axis_seconds, time_axis, time_text, value_axis
from holdfast.manage.report.series import Line, columns
from holdfast.manage.report.stretches import Lack
from holdfast.manage.report.wording import chart_words, lack_words
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.manage.report.figures import Chart
    from holdfast.manage.report.marks import Mark
    from holdfast.manage.report.timeline import Snapshot

    Value = float | None

HEIGHT = 6  # rows of a chart
_LABELS = 8  # columns of numbers left of it
_NARROWEST = 30
_MOST_MARKS = 30
_TICK_COLUMNS = 12
_SIGNS = {
    MarkKind.ANOMALY: "!",
    MarkKind.STOP: "#",
    MarkKind.EXIT: "x",
    MarkKind.START: ">",
    MarkKind.SIGNAL: "s",
    MarkKind.NOTE: "'",
}
_IMPORTANCE = list(MarkKind)


class Ink(Record):
    """The characters that a terminal can show."""

    bars: str  # from empty to full
    side: str
    tick: str
    corner: str
    floor: str
    gaps: dict[Lack, str]


UNICODE = Ink(
    " ▁▂▃▄▅▆▇█",
    "│",
    "┤",
    "└",
    "─",
    {Lack.UNRESOLVED: "?", Lack.NO_WORKLOAD: "·", Lack.NO_PROCESS: "·", Lack.NO_SAMPLES: "×"},
)
ASCII = Ink(
    " .:|#",
    "|",
    "+",
    "+",
    "-",
    {Lack.UNRESOLVED: "?", Lack.NO_WORKLOAD: ".", Lack.NO_PROCESS: ".", Lack.NO_SAMPLES: "x"},
)


def plot(snapshot: Snapshot, width: int = 80, ink: Ink = UNICODE) -> list[str]:
    """All charts, what the signs mean, and what happened when."""
    count = max(width - _LABELS - 2, _NARROWEST)
    if not snapshot.has_figures:
        return ["nothing was measured", *_marks(snapshot, width)]
    gaps = _gaps(snapshot, count, ink)
    footer = [_axis_line(snapshot, count, ink), _mark_line(snapshot, count)]
    lines: list[str] = []
    for chart in snapshot.charts:
        lines += [*_chart(chart, snapshot, count, gaps, ink), *footer, ""]
    return [line.rstrip() for line in lines + _legend(snapshot, width, ink)]


def sparkline(line: Line, snapshot: Snapshot, count: int, ink: Ink = UNICODE) -> str:
    """A line of text as high as its highest value; a blank is not known."""
    values = columns(line, axis_seconds(snapshot.seconds), count)
    top = max((value for value in values if value is not None), default=0.0)
    levels = len(ink.bars) - 1
    return "".join(
        " " if value is None else ink.bars[max(1, round(levels * value / top)) if top else 1]
        for value in values
    )


def _chart(chart: Chart, snapshot: Snapshot, count: int, gaps: list[str], ink: Ink) -> list[str]:
    chart = _one_line(chart)
    axis = value_axis(chart, most_steps=3)
    values = columns(chart.lines[0], axis_seconds(snapshot.seconds), count)
    shares = [None if value is None else axis.share(value) for value in values]
    labels = {round(share * HEIGHT): text for share, text in axis.ticks()}
    title = _cut(f"{chart.title} ({axis.unit})  {chart_words(chart)}", _LABELS + 2 + count)
    return [title] + [
        f"{labels.get(row + 1, ''):>{_LABELS}}{ink.tick if row + 1 in labels else ink.side}"
        + "".join(_cell(share, row, gap, ink) for share, gap in zip(shares, gaps, strict=True))
        for row in reversed(range(HEIGHT))
    ]


def _cell(share: Value, row: int, gap: str, ink: Ink) -> str:
    if share is None:
        return gap if row == 0 else " "
    levels = len(ink.bars) - 1
    filled = share * HEIGHT * levels - row * levels
    least = 1 if row == 0 else 0  # a known 0 is not a gap
    return ink.bars[max(least, min(levels, round(filled)))]


def _one_line(chart: Chart) -> Chart:
    """Reads and writes as their sum: bars can't show two lines."""
    if chart.key != "io":
        return chart.replace(lines=chart.lines[:1], limit=None)
    read, write = chart.lines
    together = tuple(
        (at, None if one is None or other is None else one + other)
        for (at, one), (_, other) in zip(read.points, write.points, strict=True)
    )
    line = Line("both", "read and written", read.shape, together)
    return chart.replace(lines=(line,))


def _gaps(snapshot: Snapshot, count: int, ink: Ink) -> list[str]:
    signs = [" "] * count
    width = axis_seconds(snapshot.seconds) / count
    for stretch in snapshot.stretches:
        for place in range(int(stretch.begin / width), min(int(stretch.end / width) + 1, count)):
            signs[place] = ink.gaps[stretch.lack]
    return signs


def _axis_line(snapshot: Snapshot, count: int, ink: Ink) -> str:
    line = [ink.floor] * count
    for share, text in time_axis(snapshot.seconds, max(2, count // _TICK_COLUMNS)):
        place = min(int(share * count), count - len(text))
        line[place : place + len(text)] = text
    return f"{0:>{_LABELS}}{ink.corner}{''.join(line)}"


def _mark_line(snapshot: Snapshot, count: int) -> str:
    chosen: dict[int, MarkKind] = {}
    width = axis_seconds(snapshot.seconds) / count
    for mark in _on_axis(snapshot):
        place = min(int(mark.seconds / width), count - 1)
        chosen[place] = min(mark.kind, chosen.get(place, mark.kind), key=_IMPORTANCE.index)
    signs = "".join(_SIGNS[chosen[place]] if place in chosen else " " for place in range(count))
    return f"{'':>{_LABELS}} {signs}"


def _on_axis(snapshot: Snapshot) -> Iterable[Mark]:
    return (mark for mark in snapshot.marks if mark.seconds <= snapshot.seconds)


def _legend(snapshot: Snapshot, width: int, ink: Ink) -> list[str]:
    used = {stretch.lack for stretch in snapshot.stretches}
    shown = [f"{ink.gaps[lack]} {lack.value}" for lack in Lack if lack in used]
    lines = [f"not measured:  {'   '.join(shown)}"] if shown else []
    for text in lack_words(snapshot):
        lines += textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ")
    return [*lines, *_marks(snapshot, width)]


def _marks(snapshot: Snapshot, width: int) -> list[str]:
    if not snapshot.marks:
        return []
    signs = "  ".join(f"{_SIGNS[kind]} {kind.value}" for kind in MarkKind)
    told = sorted(snapshot.marks, key=lambda mark: _IMPORTANCE.index(mark.kind))[:_MOST_MARKS]
    lines = ["marks, by the time since the start:", f"  {signs}"]
    for mark in sorted(told, key=lambda mark: mark.seconds):
        text = f": {mark.text}" if mark.text else ""
        line = f"{time_text(mark.seconds):>{_LABELS}} {_SIGNS[mark.kind]} {mark.label}{text}"
        lines.append(_cut(printable(line), width))
    left = len(snapshot.marks) - len(told)
    return [*lines, f"{'':>{_LABELS}}   and {left} more"] if left else lines


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 4]} ..."
