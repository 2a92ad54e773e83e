"""Charts of plain characters, for a terminal or a fenced block. Pure.

All charts share their time axis, column by column, so that a mark stands below what it is about.
"""

from __future__ import annotations

from holdfast.manage.report.gaps import Lack
from holdfast.manage.report.marks import MarkKind
from holdfast.manage.report.scale import limit_text, peak_text, time_axis, time_text, value_axis
from holdfast.manage.report.series import columns
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.report.document import TimeCharts
    from holdfast.manage.report.figures import Chart

HEIGHT = 6  # rows of a chart
_LABELS = 8  # columns of numbers left of it
_NARROWEST = 30
_TICK_COLUMNS = 12
_SPARK_COLUMNS = 40
_SIGNS = dict(zip(MarkKind, "!#x>s'", strict=True))


class Ink(Record):
    """The characters that a terminal can show."""

    bars: str  # from empty to full
    side: str
    tick: str
    corner: str
    floor: str
    gaps: dict[Lack, str]


UNICODE = Ink(" ▁▂▃▄▅▆▇█", "│", "┤", "└", "─", dict(zip(Lack, "?··×", strict=True)))
ASCII = Ink(" .:|#", "|", "+", "+", "-", dict(zip(Lack, "?~~x", strict=True)))


def plot(block: TimeCharts, width: int = 80, ink: Ink = UNICODE) -> list[str]:
    """All charts one below the other, with axes, and what the signs below them mean."""
    if not block.charts:
        return [block.nothing]
    count = max(width - _LABELS - 2, _NARROWEST)
    gaps = _gaps(block, count, ink)
    footer = [_axis_line(block, count, ink), _mark_line(block, count)]
    lines: list[str] = []
    for chart in block.charts:
        lines += [*_chart(chart, block.seconds, gaps, ink), *footer, ""]
    lines.append("  ".join(f"{sign} {kind}" for kind, sign in _SIGNS.items()))
    return [line.rstrip() for line in lines]


def sparklines(block: TimeCharts, ink: Ink = UNICODE) -> list[str]:
    """Each chart as one line of text, as high as its highest value; with its name."""
    if not block.charts:
        return [block.nothing]
    gaps = _gaps(block, _SPARK_COLUMNS, ink)
    indent = max(len(chart.title) for chart in block.charts) + 2
    lines = []
    for chart in block.charts:
        top = chart.main.peak()
        shares = _shares(chart, block.seconds, _SPARK_COLUMNS, top[1] if top else 0.0)
        cells = (_cell(share, 0, gap, ink, 1) for share, gap in zip(shares, gaps, strict=True))
        lines.append(f"{chart.title:<{indent}}{''.join(cells)}".rstrip())
    end = time_text(block.seconds)
    return [*lines, f"{'':<{indent}}{'0s':<{_SPARK_COLUMNS - 8}}{end:>8}"]


def _chart(chart: Chart, seconds: float, gaps: list[str], ink: Ink) -> list[str]:
    line = chart.main
    axis = value_axis(chart.replace(lines=(line,), limit=None), most_steps=3)
    shares = _shares(chart, seconds, len(gaps), axis.top)
    labels = {round(share * HEIGHT): text for share, text in axis.ticks()}
    words = [f"{line.name}: {peak_text(chart.measure, line)}", limit_text(chart)]
    title = f"{chart.title} ({axis.unit})  {'; '.join(filter(None, words))}"
    return [_cut(title, _LABELS + 2 + len(gaps))] + [
        f"{labels.get(row + 1, ''):>{_LABELS}}{ink.tick if row + 1 in labels else ink.side}"
        + "".join(_cell(share, row, gap, ink) for share, gap in zip(shares, gaps, strict=True))
        for row in reversed(range(HEIGHT))
    ]


def _shares(chart: Chart, seconds: float, count: int, top: float) -> list[float | None]:
    """How high each column is; None where nothing is known."""
    values = columns(chart.main, seconds, count)
    return [None if value is None else value / top if top else 0.0 for value in values]


def _cell(share: float | None, row: int, gap: str, ink: Ink, height: int = HEIGHT) -> str:
    if share is None:
        return gap if row == 0 else " "
    levels = len(ink.bars) - 1
    filled = share * height * levels - row * levels
    least = 1 if row == 0 else 0  # a known 0 is not a gap
    return ink.bars[max(least, min(levels, round(filled)))]


def _gaps(block: TimeCharts, count: int, ink: Ink) -> list[str]:
    signs = [" "] * count
    width = block.seconds / count
    for stretch in block.stretches:
        for place in range(int(stretch.begin / width), min(int(stretch.end / width) + 1, count)):
            signs[place] = ink.gaps[stretch.lack]
    return signs


def _axis_line(block: TimeCharts, count: int, ink: Ink) -> str:
    line = [ink.floor] * count
    for share, text in time_axis(block.seconds, max(2, count // _TICK_COLUMNS)):
        place = min(int(share * count), count - len(text))
        line[place : place + len(text)] = text
    return f"{0:>{_LABELS}}{ink.corner}{''.join(line)}"


def _mark_line(block: TimeCharts, count: int) -> str:
    """Below each column the most important of what happened there."""
    signs = [" "] * count
    for mark in sorted(block.marks, key=lambda mark: -list(_SIGNS).index(mark.kind)):
        signs[min(int(mark.seconds / block.seconds * count), count - 1)] = _SIGNS[mark.kind]
    return f"{'':>{_LABELS}} {''.join(signs)}"


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 4]} ..."
