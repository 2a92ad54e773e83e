"""A chart as inline SVG, and the time line of what happened. Pure.

Nothing is scaled but the lines: text and marks are placed by percent, so that they keep their
size on a narrow screen. Everything that is known here by colour is known by shape or text too.
"""

from __future__ import annotations

import json

from holdfast.manage.report.gaps import MEANING, Lack
from holdfast.manage.report.marks import MarkKind
from holdfast.manage.report.markup import Markup, element, joined, raw
from holdfast.manage.report.scale import limit_text, peak_text, time_axis, time_text, value_axis
from holdfast.manage.report.series import CurveShape, lone_points, thin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.manage.report.document import TimeCharts
    from holdfast.manage.report.figures import Chart
    from holdfast.manage.report.gaps import Stretch
    from holdfast.manage.report.marks import Mark
    from holdfast.manage.report.scale import Axis
    from holdfast.manage.report.series import Curve, Known

_BUCKETS = 500  # of time: about as many as a screen has room for, four points each
_HEIGHT = 150.0
_TOP = 8.0  # room for half a line of text above the highest number
_FOOT = 26.0
_WIDE = 1000.0
_TICKS = 6
_LANE = 22.0
_MOST_NAMED = 6  # marks that one spot names
_SPOTS = 120
_SHAPES = {
    MarkKind.START: "M-5,-6L6,0L-5,6Z",
    MarkKind.STOP: "M-5,-5H5V5H-5Z",
    MarkKind.EXIT: "M-5,-5L5,5M5,-5L-5,5",
    MarkKind.ANOMALY: "M0,-7L7,0L0,7L-7,0Z",
    MarkKind.SIGNAL: "M-5,0A5,5 0 1 1 5,0A5,5 0 1 1 -5,0Z",
    MarkKind.NOTE: "M-3,0A3,3 0 1 1 3,0A3,3 0 1 1 -3,0Z",
}
_ACROSS = (MarkKind.ANOMALY, MarkKind.STOP, MarkKind.START)  # drawn through the charts too
_GAP_LOOKS = {
    Lack.UNRESOLVED: "hatched",
    Lack.NO_WORKLOAD: "plain",
    Lack.NO_PROCESS: "plain",
    Lack.NO_SAMPLES: "crossed",
}
# Hatching for gaps, drawn once and used by all charts.
_PATTERNS = Markup(
    '<svg width="0" height="0" class="unseen" aria-hidden="true"><defs>'
    '<pattern id="hatched" width="8" height="8" patternUnits="userSpaceOnUse">'
    '<path d="M-2,2L2,-2M0,8L8,0M6,10L10,6" class="pattern"></path></pattern>'
    '<pattern id="crossed" width="8" height="8" patternUnits="userSpaceOnUse">'
    '<path d="M0,0L8,8M0,8L8,0" class="pattern"></path></pattern></defs></svg>'
)


def drawn_charts(block: TimeCharts) -> Markup:
    """The time line of what happened, and below it all charts on the same axis."""
    drawn = [_chart(chart, block) for chart in block.charts]
    data = raw("script", _data_for_reading(block), type="application/json", id="data")
    return joined(_PATTERNS, _time_line(block), *(drawn or [element("p", block.nothing)]), data)


def _chart(chart: Chart, block: TimeCharts) -> Markup:
    """Title, legend, axes and lines."""
    axis = value_axis(chart)
    title = element("h3", chart.title, " ", element("small", axis.unit), id=f"{chart.key}-title")
    spots = ((kind, x) for kind in _ACROSS for x, _ in _spots(block, kind))
    plot = _plot(
        [(_y(share), text) for share, text in axis.ticks()],
        *_gaps(block, _TOP, _HEIGHT),
        None if chart.limit is None else _level("limit", _y(axis.share(chart.limit))),
        *(_upright(f"across {_look(kind)}", x, _TOP, _HEIGHT) for kind, x in spots),
        _data(chart, axis, block.seconds),
        *_dots(chart, axis, block.seconds),
        *_time_labels(block.seconds, _TOP + _HEIGHT),
        _upright("cursor", "0", _TOP, _HEIGHT),
        height=_TOP + _HEIGHT + _FOOT,
        aria_labelledby=f"{chart.key}-title",
        aria_describedby=f"{chart.key}-words",
        data_chart=chart.key,
    )
    readout = element("p", class_="readout", aria_live="polite")
    caption = element("figcaption", title, _legend(chart))
    return element("figure", caption, plot, readout, class_="chart")


def _plot(
    levels: list[tuple[float, str]],
    *parts: Markup | None,
    height: float,
    **attributes: str,
) -> Markup:
    """Levels with their names on the left, and what is drawn over them."""
    names = [
        element("text", name, x="100%", dx=-11, y=y + 4, text_anchor="end") for y, name in levels
    ]
    side = element("svg", *names, class_="side", height=height, aria_hidden="true")
    grid = [_level("grid", y) for y, _ in levels]
    area = element("svg", *grid, *parts, class_="area", height=height, role="img", **attributes)
    return element("div", side, area, class_="plot")


def _level(look: str, y: float) -> Markup:
    return element("line", class_=look, x1=0, x2="100%", y1=y, y2=y)


def _upright(look: str, x: str, top: float, height: float) -> Markup:
    return element("line", class_=look, x1=x, x2=x, y1=top, y2=top + height)


def _y(share: float) -> float:
    return _TOP + _HEIGHT * (1 - share)


def _legend(chart: Chart) -> Markup:
    """It is also what describes the chart to those who can't see it."""
    items = [
        element(
            "li",
            _swatch_of(line, place),
            f" {line.name}: ",
            element("span", peak_text(chart.measure, line)),
        )
        for place, line in enumerate(chart.lines)
    ]
    limit = limit_text(chart)
    if limit is not None:
        items.append(element("li", _swatch("limit"), f" {limit}"))
    return element("ul", *items, class_="legend", id=f"{chart.key}-words")


def _swatch_of(line: Curve, place: int) -> Markup:
    if line.shape is CurveShape.POINTS:
        return _boxed(element("circle", class_=f"dot line{place}", cx=12, cy=5, r=3))
    return _swatch(f"line line{place}")


def _swatch(look: str) -> Markup:
    return _boxed(element("path", d="M0,5H24", class_=look))


def _boxed(sign: Markup) -> Markup:
    return element("svg", sign, class_="swatch", width=24, height=10, aria_hidden="true")


def _time_labels(seconds: float, below: float) -> list[Markup]:
    found = []
    for place, (share, text) in enumerate(time_axis(seconds, _TICKS)):
        anchor = "start" if share < 0.02 else "end" if share > 0.97 else "middle"
        x = _percent(share)
        look = "odd" if place % 2 else None
        found.append(_upright("tick", x, below, 5))
        found.append(element("text", text, x=x, y=below + 19, text_anchor=anchor, class_=look))
    return found


def _percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.3f}".rstrip("0").rstrip(".") + "%"


def _gaps(block: TimeCharts, top: float, height: float) -> list[Markup]:
    return [
        element(
            "rect",
            element("title", f"{stretch.lack.value}: {MEANING[stretch.lack]}"),
            class_=f"gap {_GAP_LOOKS[stretch.lack]}",
            x=_percent(stretch.begin / block.seconds),
            width=_percent(stretch.seconds / block.seconds),
            y=top,
            height=height,
        )
        for stretch in _drawn_apart(block.stretches, block.seconds)
    ]


def _drawn_apart(stretches: Iterable[Stretch], seconds: float) -> list[Stretch]:
    """Stretches of a kind that no screen shows apart, as one."""
    found: list[Stretch] = []
    latest: dict[Lack, int] = {}
    for stretch in stretches:
        place = latest.get(stretch.lack)
        if place is not None and stretch.begin - found[place].end < seconds / _BUCKETS:
            found[place] = found[place].replace(end=max(found[place].end, stretch.end))
        else:
            latest[stretch.lack] = len(found)
            found.append(stretch)
    return found


def _look(kind: MarkKind) -> str:
    return kind.name.lower()


def _data(chart: Chart, axis: Axis, seconds: float) -> Markup:
    """The lines. This part alone is stretched to the width that there is."""
    paths = [
        element("path", class_=f"line line{place}", d=_path(line, axis, seconds))
        for place, line in reversed(list(enumerate(chart.lines)))
    ]
    first = element("path", class_="fill", d=_path(chart.lines[0], axis, seconds, filled=True))
    return element(
        "svg",
        first,
        *paths,
        viewBox=f"0 0 {_WIDE:.0f} {_HEIGHT:.0f}",
        preserveAspectRatio="none",
        width="100%",
        height=_HEIGHT,
        y=_TOP,
        class_="data",
    )


def _path(line: Curve, axis: Axis, seconds: float, *, filled: bool = False) -> str:
    parts = []
    for segment in line.segments():
        corners = [
            (_WIDE * at / seconds, _HEIGHT * (1 - axis.share(value)))
            for at, value in thin(segment, seconds, _BUCKETS)
        ]
        if corners[0][0] == corners[-1][0]:
            continue  # drawn as a dot
        drawn = "L".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        ends = f"L{corners[-1][0]:.1f},{_HEIGHT:.0f}L{corners[0][0]:.1f},{_HEIGHT:.0f}Z"
        parts.append(f"M{drawn}{ends if filled else ''}")
    return "".join(parts)


def _dots(chart: Chart, axis: Axis, seconds: float) -> Iterator[Markup]:
    for place, line in enumerate(chart.lines):
        for at, value in lone_points(line.segments(), seconds, _BUCKETS):
            x, y = _percent(at / seconds), _y(axis.share(value))
            yield element("circle", class_=f"dot line{place}", cx=x, cy=y, r=3)


def _time_line(block: TimeCharts) -> Markup:
    """What happened when, in lanes above the charts that share their time axis."""
    height = _LANE * len(MarkKind)
    lanes = {kind: _LANE * (place + 0.5) for place, kind in enumerate(MarkKind)}
    plot = _plot(
        [(y, kind.value) for kind, y in lanes.items()],
        *_gaps(block, 0.0, height),
        *(
            _spot(kind, x, y, marks)
            for kind, y in lanes.items()
            for x, marks in _spots(block, kind)
        ),
        *_time_labels(block.seconds, height),
        height=height + _FOOT,
        aria_label=f"{len(block.marks)} marks, listed in the history",
    )
    return element("figure", plot, class_="chart")


def gap_swatch(lack: Lack) -> Markup:
    """How a stretch without figures looks, for a legend."""
    box = element("rect", class_=f"gap {_GAP_LOOKS[lack]}", width=24, height=12)
    return element("svg", box, class_="swatch", width=24, height=12, aria_hidden="true")


def _spot(kind: MarkKind, x: str, y: float, marks: list[Mark]) -> Markup:
    lines = [f"{time_text(mark.seconds)}  {mark.words}" for mark in marks[:_MOST_NAMED]]
    more = len(marks) - len(lines)
    title = "\n".join([*lines, f"and {more} more"] if more else lines)
    path = element("path", element("title", title), d=_SHAPES[kind], class_=f"mark {_look(kind)}")
    return element("svg", path, x=x, y=y, class_="spot")


def _spots(block: TimeCharts, wanted: MarkKind) -> list[tuple[str, list[Mark]]]:
    """Where marks of a kind stand; those that would cover each other stand as one."""
    found: dict[int, list[Mark]] = {}
    for mark in block.marks:
        if mark.kind is wanted:
            found.setdefault(int(_SPOTS * mark.seconds / block.seconds), []).append(mark)
    return [(_percent(marks[0].seconds / block.seconds), marks) for marks in found.values()]


def _data_for_reading(block: TimeCharts) -> str:
    """What the script reads values from. `<` is written so that no text can end the element."""
    charts = []
    for chart in block.charts:
        axis = value_axis(chart)
        lines = [{"name": one.name, "segments": _points(one, block.seconds)} for one in chart.lines]
        unit = {"unit": axis.sign, "unitSize": axis.unit_size}
        charts.append({"key": chart.key, **unit, "lines": lines})
    data = {"seconds": block.seconds, "charts": charts}
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _points(line: Curve, seconds: float) -> list[list[Known]]:
    return [
        [(round(at, 3), value) for at, value in thin(segment, seconds, _BUCKETS)]
        for segment in line.segments()
    ]
