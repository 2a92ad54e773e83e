"""The tables of the page: attempts, workload, anomalies, signals, all that happened. Pure."""

from __future__ import annotations

from holdfast.manage.report.markup import Markup, element, joined
from holdfast.manage.report.scale import time_text
from holdfast.manage.report.wording import ATTEMPT_COLUMNS, attempt_cells, utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.manage.report.timeline import Snapshot

_MOST_ROWS = 400
_LONG = frozenset(("evidence", "why", "what"))
_NUMBERS = frozenset(("when", "began", "lasted", "root", "attempt"))


def tables(snapshot: Snapshot) -> list[Markup]:
    """In the order in which one asks."""
    return [
        _section("Attempts", ATTEMPT_COLUMNS, _attempts(snapshot), "none was started"),
        _section(
            "Workload",
            ("when", "workload", "behind", "found", "why"),
            _workloads(snapshot),
            "nobody was taken for the workload",
        ),
        _section(
            "Anomalies",
            ("when", "rule", "severity", "process", "evidence"),
            _anomalies(snapshot),
            "no rule fired" if snapshot.has_figures else "unknown: nothing was measured",
        ),
        _section(
            "Signals",
            ("when", "signal", "to", "fate", "proof", "why", "evidence"),
            _signals(snapshot),
            "none were sent or refused",
        ),
        _events(snapshot),
    ]


def _section(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], nothing: str
) -> Markup:
    content = _table(title, head, rows) if rows else element("p", nothing)
    return element("section", element("h2", title), content)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    top = element("tr", *(element("th", name, scope="col") for name in head))
    told = rows[:_MOST_ROWS]
    body = [
        element("tr", *(_cell(name, cell) for name, cell in zip(head, row, strict=True)))
        for row in told
    ]
    table = element("table", element("thead", top), element("tbody", *body))
    left = len(rows) - len(told)
    note = element("p", f"and {left:,} more: holdfast events says them all") if left else None
    scroll = element("div", table, class_="scroll", role="region", aria_label=title, tabindex=0)
    return joined(scroll, note)


def _cell(name: str, text: str) -> Markup:
    look = "number" if name in _NUMBERS else "long" if name in _LONG else None
    return element("td", text, class_=look)


def _attempts(snapshot: Snapshot) -> list[tuple[str, ...]]:
    return [attempt_cells(one, snapshot.info) for one in snapshot.attempts]


def _workloads(snapshot: Snapshot) -> list[tuple[str, ...]]:
    return [
        (
            time_text(one.seconds),
            one.workload or "nobody",
            ", ".join(one.wrappers) or "nothing",
            one.resolution,
            one.why,
        )
        for one in snapshot.findings
    ]


def _anomalies(snapshot: Snapshot) -> list[tuple[str, ...]]:
    return [
        (time_text(one.seconds), one.rule, one.severity, one.process or "", one.evidence)
        for one in snapshot.anomalies
    ]


def _signals(snapshot: Snapshot) -> list[tuple[str, ...]]:
    return [
        (
            time_text(one.seconds),
            one.signal,
            one.to,
            one.fate,
            one.proof or "none",
            one.why,
            one.evidence,
        )
        for one in snapshot.signals
    ]


def _events(snapshot: Snapshot) -> Markup:
    rows = [
        (time_text(mark.seconds), utc(mark.at), mark.kind.value, mark.label, mark.text)
        for mark in snapshot.marks
    ]
    title = element("summary", element("h2", f"All that happened ({len(rows):,})"))
    head = ("when", "time of day", "kind", "mark", "what")
    content = _table("All that happened", head, rows) if rows else element("p", "nothing recorded")
    return element("details", title, content)
