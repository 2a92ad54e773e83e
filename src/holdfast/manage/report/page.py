"""The report as one HTML page: no network, readable without JavaScript, light and dark.

Pure but for its style and script, which lie beside it. Its policy allows those two alone, so that
nothing that slipped in could run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os

from holdfast import __version__
from holdfast.manage.report.drawing import (
    drawn_chart,
    drawn_time_line,
    gap_swatch,
    points_for_reading,
)
from holdfast.manage.report.markup import Markup, element, joined, raw
from holdfast.manage.report.page_tables import tables
from holdfast.manage.report.scale import axis_seconds, value_axis, volume
from holdfast.manage.report.wording import (
    command_line,
    exit_words,
    headline,
    lack_words,
    lacks,
    peaks,
    sample_words,
    staleness,
    time_words,
    utc,
)
from holdfast.run.facts import State
from holdfast.run.outcomes import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.manage.info import RunInfo
    from holdfast.manage.report.timeline import Snapshot

_HERE = os.path.dirname(os.path.abspath(__file__))
_GOOD = (Outcome.SUCCEEDED, Outcome.COMPLETED)
_CAUTIONS = (
    "CPU is in percent of one core: two busy cores are 200 %.",
    "Resident memory counts a page that processes share once for each of them; PSS counts it once.",
    "A sample is a moment: what came and went between two of them is not in the lines.",
    "I/O is what reached storage, as a mean between two readings; cached reads and pipes are not.",
    "A gap is a time that nothing is known about, never a 0.",
)


def page(snapshot: Snapshot) -> str:
    """The whole document."""
    style, script = _own("page.css"), _own("page.js")
    info = snapshot.info
    name = info.name or info.id
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("link", rel="icon", href="data:,"),
        element("title", f"{name}: {headline(info)}"),
        raw("style", style),
    )
    body = element(
        "body",
        _patterns(),
        _header(snapshot),
        element("main", _figures(snapshot), _charts(snapshot), *tables(snapshot), _cautions()),
        element(
            "footer",
            f"Made by Holdfast {__version__} from what it recorded, {utc(snapshot.looked_at)}.",
        ),
        raw("script", _data(snapshot), type="application/json", id="data"),
        raw("script", script),
    )
    return "<!DOCTYPE html>\n" + element("html", head, body, lang="en") + "\n"


def _own(name: str) -> str:
    with open(f"{_HERE}/{name}", encoding="utf-8") as file:
        return file.read()


def _policy(style: str, script: str) -> str:
    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; img-src data:; style-src {digest(style)}; "
        f"script-src {digest(script)}; base-uri 'none'; form-action 'none'"
    )


def _data(snapshot: Snapshot) -> str:
    """What the script reads. `<` is written so that no text can end the element."""
    seconds = axis_seconds(snapshot.seconds)
    charts = []
    for chart in snapshot.charts:
        axis = value_axis(chart)
        lines = [
            {"name": line.name, "segments": points_for_reading(line, seconds)}
            for line in chart.lines
        ]
        unit = "%" if chart.key == "cpu" else axis.unit
        charts.append({"key": chart.key, "unit": unit, "unitSize": axis.unit_size, "lines": lines})
    document = {"seconds": seconds, "charts": charts}
    return json.dumps(document, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _header(snapshot: Snapshot) -> Markup:
    info = snapshot.info
    said = info.outcome.value if info.outcome is not None else info.state.value
    top = element(
        "div",
        element("h1", info.name or info.id),
        element("span", said, class_=f"badge {_look(info)}"),
        element("span", info.id, class_="id number"),
        class_="top",
    )
    return element(
        "header",
        top,
        element("p", element("strong", "Evidence: "), info.evidence or "none"),
        element("pre", element("code", command_line(info)), aria_label="Command"),
        _list(_facts(snapshot), "facts"),
    )


def _look(info: RunInfo) -> str:
    if info.state is not State.ENDED:
        return "warn" if info.state in (State.ORPHANED, State.UNKNOWN) else "good"
    return "good" if info.outcome in _GOOD else "warn" if info.outcome is Outcome.STOPPED else "bad"


def _list(rows: Iterator[tuple[str, str]], look: str) -> Markup:
    parts = [part for dt, dd in rows for part in (element("dt", dt), element("dd", dd))]
    return element("dl", *parts, class_=look)


def _facts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    info = snapshot.info
    if info.state is State.ENDED:
        by = f"by {info.ended_by}, " if info.ended_by is not None else ""
        yield "ended", f"{by}{exit_words(info)}"
    yield "time", time_words(info)
    for label, value in (("directory", info.cwd), ("agent", info.agent)):
        if value:
            yield label, value
    if info.tags:
        yield "tags", " ".join(f"{key}={value}" for key, value in info.tags.items())
    if info.log_bytes is not None:
        yield "output", volume(info.log_bytes)
    yield "samples", sample_words(snapshot)
    stale = staleness(snapshot)
    if stale:
        yield "now", stale


def _figures(snapshot: Snapshot) -> Markup:
    cards = [
        element(
            "div", element("dt", one.name), element("dd", one.value), element("dd", one.note or " ")
        )
        for one in peaks(snapshot)
    ]
    return element("section", element("h2", "Figures"), element("dl", *cards, class_="cards"))


def _charts(snapshot: Snapshot) -> Markup:
    if not snapshot.has_figures:
        note = element("p", f"Nothing was measured (samples: {sample_words(snapshot)}).")
        drawn: list[Markup] = [note]
    else:
        drawn = [drawn_chart(chart, snapshot) for chart in snapshot.charts]
    caption = element("figcaption", element("h3", "What happened", id="happened-title"))
    told = f"{len(snapshot.marks)} marks, all of which are listed below"
    words = element("span", told, id="happened-words", class_="unseen")
    return element(
        "section",
        element("h2", "Over time ", element("small", "counted from the first attempt's start")),
        element("figure", caption, drawn_time_line(snapshot), words, class_="chart"),
        *drawn,
        _gap_legend(snapshot),
    )


def _gap_legend(snapshot: Snapshot) -> Markup | None:
    if not snapshot.stretches:
        return None
    items = [
        element("li", gap_swatch(lack), f" {words}")
        for (lack, _, _), words in zip(lacks(snapshot), lack_words(snapshot), strict=True)
    ]
    return joined(element("h3", "Not measured"), element("ul", *items, class_="legend"))


def _cautions() -> Markup:
    items = [element("li", text) for text in _CAUTIONS]
    title = element("summary", element("h2", "What these figures mean"))
    return element("details", title, element("ul", *items))


def _patterns() -> Markup:
    """Hatching for gaps, drawn once and used by all charts."""
    hatched = element("path", d="M-2,2L2,-2M0,8L8,0M6,10L10,6", class_="pattern")
    crossed = element("path", d="M0,0L8,8M0,8L8,0", class_="pattern")
    box: dict[str, str | float] = {"width": 8, "height": 8, "patternUnits": "userSpaceOnUse"}
    defs = element(
        "defs",
        element("pattern", hatched, id="hatched", **box),
        element("pattern", crossed, id="crossed", **box),
    )
    return element("svg", defs, width=0, height=0, class_="unseen", aria_hidden="true")
