"""A chart as inline SVG, and the time line of what happened. Pure.

Nothing is scaled but the lines: text and marks are placed by percent, so that they keep their
size on a narrow screen. Everything that is known here by colour is known by shape or text too.
"""

from __future__ import annotations

from holdfast.manage.report.marks import MarkKind
from holdfast.manage.report.markup import Markup, element, joined
from holdfast.manage.report.scale import (
    amount,
    axis_seconds,
    time_axis,
    time_text,
    value_axis,
)
from holdfast.manage.report.series import lone_points, thin
from holdfast.manage.report.stretches import MEANING, Lack
from holdfast.manage.report.wording import chart_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.manage.report.figures import Chart
    from holdfast.manage.report.marks import Mark
    from holdfast.manage.report.scale import Axis
    from holdfast.manage.report.series import Known, Line
    from holdfast.manage.report.stretches import Stretch
    from holdfast.manage.report.timeline import Snapshot

BUCKETS = 500  # of time: about as many as a screen has room for, four points each
_HEIGHT = 150.0
_TOP = 8.0  # room for half a line of text above the highest number
_FOOT = 26.0
_WIDE = 1000.0
_TICKS = 6
_LANE = 22.0
_MOST_TOLD = 6  # marks that one spot names
_SPOTS = 120
_LANES = {
    MarkKind.START: "Starts",
    MarkKind.STOP: "Stops",
    MarkKind.EXIT: "Exits",
    MarkKind.ANOMALY: "Anomalies",
    MarkKind.SIGNAL: "Signals",
    MarkKind.NOTE: "Other",
}
_SHAPES = {
    MarkKind.START: "M-5,-6L6,0L-5,6Z",
    MarkKind.STOP: "M-5,-5H5V5H-5Z",
    MarkKind.EXIT: "M-5,-5L5,5M5,-5L-5,5",
    MarkKind.ANOMALY: "M0,-7L7,0L0,7L-7,0Z",
    MarkKind.SIGNAL: "M-5,0A5,5 0 1 1 5,0A5,5 0 1 1 -5,0Z",
    MarkKind.NOTE: "M-3,0A3,3 0 1 1 3,0A3,3 0 1 1 -3,0Z",
}
_ACROSS = (MarkKind.ANOMALY, MarkKind.STOP, MarkKind.START)  # drawn through the charts too


def drawn_chart(chart: Chart, snapshot: Snapshot) -> Markup:
    """Title, legend, axes and lines of one chart."""
    axis, seconds = value_axis(chart), axis_seconds(snapshot.seconds)
    title = element("h3", chart.title, " ", element("small", axis.unit), id=f"{chart.key}-title")
    area = element(
        "svg",
        *_grid(axis),
        *_gaps(snapshot, _TOP, _HEIGHT),
        _limit(chart, axis),
        *_across(snapshot),
        _data(chart, axis, seconds),
        *_dots(chart, axis, seconds),
        *_time_labels(snapshot, _TOP + _HEIGHT),
        element("line", class_="cursor", y1=_TOP, y2=_TOP + _HEIGHT, x1=0, x2=0),
        class_="area",
        height=_TOP + _HEIGHT + _FOOT,
        role="img",
        aria_labelledby=f"{chart.key}-title",
        aria_describedby=f"{chart.key}-words",
        data_chart=chart.key,
    )
    return element(
        "figure",
        element("figcaption", title, _legend(chart)),
        element("div", _value_labels(axis), area, class_="plot"),
        element("p", class_="readout", aria_live="polite"),
        class_="chart",
    )


def _legend(chart: Chart) -> Markup:
    items = [
        element("li", _swatch(place), f" {line.name}", element("span", _peak(chart, line)))
        for place, line in enumerate(chart.lines)
    ]
    if chart.limit is not None:
        limit = f" limit {amount(chart.measure, chart.limit)}"
        items.append(element("li", _swatch_of("limit"), limit))
    words = element("span", chart_words(chart), id=f"{chart.key}-words", class_="unseen")
    return joined(element("ul", *items, class_="legend"), words)


def _peak(chart: Chart, line: Line) -> str:
    peak = line.peak()
    if peak is None:
        return " never known"
    return f" highest {amount(chart.measure, peak[1])} at {time_text(peak[0])}"


def _swatch(place: int) -> Markup:
    return _swatch_of(f"line line{place}")


def _swatch_of(look: str) -> Markup:
    stroke = element("path", d="M0,5H24", class_=look)
    return element("svg", stroke, class_="swatch", width=24, height=10, aria_hidden="true")


def _value_labels(axis: Axis) -> Markup:
    texts = [
        element("text", text, x="100%", dx=-8, y=_y(share) + 4, text_anchor="end")
        for share, text in axis.ticks()
    ]
    return element("svg", *texts, class_="side", height=_TOP + _HEIGHT + _FOOT, aria_hidden="true")


def _y(share: float) -> float:
    return _TOP + _HEIGHT * (1 - share)


def _grid(axis: Axis) -> list[Markup]:
    return [
        element("line", class_="grid", x1=0, x2="100%", y1=_y(share), y2=_y(share))
        for share, _ in axis.ticks()
    ]


def _limit(chart: Chart, axis: Axis) -> Markup | None:
    if chart.limit is None:
        return None
    at = _y(axis.share(chart.limit))
    return element("line", class_="limit", x1=0, x2="100%", y1=at, y2=at)


def _time_labels(snapshot: Snapshot, below: float) -> list[Markup]:
    found = []
    for place, (share, text) in enumerate(time_axis(snapshot.seconds, _TICKS)):
        anchor = "start" if share < 0.02 else "end" if share > 0.97 else "middle"
        x = _percent(share)
        look = "odd" if place % 2 else None
        found.append(element("line", class_="tick", x1=x, x2=x, y1=below, y2=below + 5))
        found.append(element("text", text, x=x, y=below + 19, text_anchor=anchor, class_=look))
    return found


def _percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.3f}".rstrip("0").rstrip(".") + "%"


def _gaps(snapshot: Snapshot, top: float, height: float) -> list[Markup]:
    seconds = axis_seconds(snapshot.seconds)
    return [
        element(
            "rect",
            element("title", f"{stretch.lack.value}: {MEANING[stretch.lack]}"),
            class_=f"gap {gap_look(stretch.lack)}",
            x=_percent(stretch.begin / seconds),
            width=_percent(stretch.seconds / seconds),
            y=top,
            height=height,
        )
        for stretch in _drawn_apart(snapshot.stretches, seconds)
    ]


def _drawn_apart(stretches: Iterable[Stretch], seconds: float) -> list[Stretch]:
    """Stretches of a kind that no screen shows apart, as one."""
    found: list[Stretch] = []
    latest: dict[Lack, int] = {}
    for stretch in stretches:
        place = latest.get(stretch.lack)
        if place is not None and stretch.begin - found[place].end < seconds / BUCKETS:
            found[place] = found[place].replace(end=max(found[place].end, stretch.end))
        else:
            latest[stretch.lack] = len(found)
            found.append(stretch)
    return found


def gap_look(lack: Lack) -> str:
    """How a stretch of that kind is drawn."""
    if lack is Lack.UNRESOLVED:
        return "hatched"
    return "crossed" if lack is Lack.NO_SAMPLES else "plain"


def _across(snapshot: Snapshot) -> list[Markup]:
    return [
        element("line", class_=f"across {_look(kind)}", x1=x, x2=x, y1=_TOP, y2=_TOP + _HEIGHT)
        for kind in _ACROSS
        for x, _ in _spots(snapshot, kind)
    ]


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


def _path(line: Line, axis: Axis, seconds: float, *, filled: bool = False) -> str:
    parts = []
    for segment in line.segments():
        corners = [
            (_WIDE * at / seconds, _HEIGHT * (1 - axis.share(value)))
            for at, value in thin(segment, seconds, BUCKETS)
        ]
        if corners[0][0] == corners[-1][0]:
            continue  # drawn as a dot
        drawn = "L".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        ends = f"L{corners[-1][0]:.1f},{_HEIGHT:.0f}L{corners[0][0]:.1f},{_HEIGHT:.0f}Z"
        parts.append(f"M{drawn}{ends if filled else ''}")
    return "".join(parts)


def _dots(chart: Chart, axis: Axis, seconds: float) -> list[Markup]:
    return [
        element(
            "circle",
            class_=f"dot line{place}",
            cx=_percent(at / seconds),
            cy=_y(axis.share(v)),
            r=3,
        )
        for place, line in enumerate(chart.lines)
        for at, v in lone_points(line.segments(), seconds, BUCKETS)
    ]


def drawn_time_line(snapshot: Snapshot) -> Markup:
    """What happened when, in lanes above the charts that share their time axis."""
    height = _LANE * len(_LANES)
    labels = [
        element("text", name, x="100%", dx=-11, y=_LANE * place + 15, text_anchor="end")
        for place, name in enumerate(_LANES.values())
    ]
    middles = {kind: _LANE * (place + 0.5) for place, kind in enumerate(_LANES)}
    lanes = [element("line", class_="grid", x1=0, x2="100%", y1=y, y2=y) for y in middles.values()]
    marks = [
        _spot(kind, x, y, told) for kind, y in middles.items() for x, told in _spots(snapshot, kind)
    ]
    area = element(
        "svg",
        *lanes,
        *_gaps(snapshot, 0.0, height),
        *marks,
        *_time_labels(snapshot, height),
        class_="area",
        height=height + _FOOT,
        role="img",
        aria_labelledby="happened-title",
        aria_describedby="happened-words",
    )
    side = element("svg", *labels, class_="side", height=height + _FOOT, aria_hidden="true")
    return element("div", side, area, class_="plot")


def gap_swatch(lack: Lack) -> Markup:
    """How a stretch without figures looks, for a legend."""
    box = element("rect", class_=f"gap {gap_look(lack)}", width=24, height=12)
    return element("svg", box, class_="swatch", width=24, height=12, aria_hidden="true")


def _spot(kind: MarkKind, x: str, y: float, told: list[Mark]) -> Markup:
    lines = [
        f"{time_text(mark.seconds)}  {mark.label}" + (f": {mark.text}" if mark.text else "")
        for mark in told[:_MOST_TOLD]
    ]
    more = len(told) - len(lines)
    title = "\n".join([*lines, f"and {more} more"] if more else lines)
    path = element("path", element("title", title), d=_SHAPES[kind], class_=f"mark {_look(kind)}")
    return element("svg", path, x=x, y=y, class_="spot")


def _spots(snapshot: Snapshot, wanted: MarkKind) -> list[tuple[str, list[Mark]]]:
    """Where marks of a kind stand; those that would cover each other stand as one."""
    seconds = axis_seconds(snapshot.seconds)
    found: dict[int, list[Mark]] = {}
    for mark in snapshot.marks:
        if mark.kind is wanted and mark.seconds <= seconds:
            found.setdefault(int(_SPOTS * mark.seconds / seconds), []).append(mark)
    return [(_percent(told[0].seconds / seconds), told) for told in found.values()]


def points_for_reading(line: Line, seconds: float) -> list[list[Known]]:
    """The points that the page's script reads values from."""
    return [
        [(round(at, 3), value) for at, value in thin(segment, seconds, BUCKETS)]
        for segment in line.segments()
    ]
