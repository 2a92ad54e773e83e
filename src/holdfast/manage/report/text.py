"""The report as text for a terminal. Pure: a snapshot in, lines out."""

from __future__ import annotations

import textwrap

from holdfast.manage.plaintext import printable
from holdfast.manage.report.plot import UNICODE, sparkline
from holdfast.manage.report.scale import time_text
from holdfast.manage.report.wording import (
    ATTEMPT_COLUMNS,
    attempt_cells,
    command_line,
    finding_words,
    headline,
    lack_words,
    peaks,
    sample_words,
    staleness,
    time_words,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.manage.report.plot import Ink
    from holdfast.manage.report.timeline import Snapshot

_INDENT = 11
_NARROWEST = 40
_MOST_COMMAND = 600
_MOST_ROWS = 12
_SPARK = 40


def text(snapshot: Snapshot, width: int = 80, ink: Ink = UNICODE) -> list[str]:
    """Headline first, then a line or more for each thing that is known."""
    info = snapshot.info
    title = printable(f"{info.name or '?'} ({info.id})  {headline(info)}")
    lines = [title] if len(title) <= width else textwrap.wrap(title, width)
    for label, said in _facts(snapshot):
        lines += _wrapped(label, said, width)
    lines += _figures(snapshot, ink)
    for label, rows in _lists(snapshot):
        lines += _listed(label, rows, width)
    return lines


def _facts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    info = snapshot.info
    yield "evidence", info.evidence
    yield "command", command_line(info, _MOST_COMMAND)
    yield "time", time_words(info)
    yield "samples", sample_words(snapshot)
    for place, said in enumerate(filter(None, (*lack_words(snapshot), staleness(snapshot)))):
        yield "" if place else "unmeasured", said


def _figures(snapshot: Snapshot, ink: Ink) -> list[str]:
    lines = [f"{peak.name:<17}{peak.value:>14}  {peak.note}".rstrip() for peak in peaks(snapshot)]
    drawn = []
    for chart in snapshot.charts if snapshot.has_figures else ():
        line = chart.lines[0] if chart.key != "io" else chart.lines[1]
        name = chart.title if chart.key != "io" else "Written"
        drawn.append(f"{name:<{_INDENT}}{sparkline(line, snapshot, _SPARK, ink)}".rstrip())
    if drawn:
        end = time_text(snapshot.seconds)
        drawn = ["", *drawn, f"{'':<{_INDENT}}{'0s':<{_SPARK - 8}}{end:>8}"]
    return ["", *lines, *drawn, ""]


def _lists(snapshot: Snapshot) -> Iterator[tuple[str, list[str]]]:
    yield (
        "workload",
        [f"{time_text(one.seconds)}  {finding_words(one)}" for one in snapshot.findings],
    )
    yield (
        "anomalies",
        [
            f"{time_text(one.seconds)}  {one.rule} ({one.severity})"
            + (f", {one.process}" if one.process else "")
            + f": {one.evidence}"
            for one in snapshot.anomalies
        ]
        or ["none" if snapshot.has_figures else "unknown: nothing was measured"],
    )
    cells = [attempt_cells(one, snapshot.info) for one in snapshot.attempts]
    yield "attempts", _table(ATTEMPT_COLUMNS, cells) if cells else ["none"]
    yield (
        "signals",
        [
            f"{time_text(one.seconds)}  {one.signal} to {one.to}: {one.fate}"
            + (f" ({one.proof})" if one.proof else "")
            + f"; {one.why}"
            for one in snapshot.signals
        ]
        or ["none sent"],
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    return [
        "  ".join(f"{cell:<{room}}" for cell, room in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]


def _listed(label: str, rows: list[str], width: int) -> list[str]:
    """A label and its rows, of which the first and the last are told."""
    told = rows
    if len(rows) > _MOST_ROWS:
        half = _MOST_ROWS // 2
        told = [*rows[:half], f"... {len(rows) - 2 * half} more ...", *rows[-half:]]
    lines: list[str] = []
    for row in told:
        lines += _wrapped("" if lines else label, row, width)
    return lines


def _wrapped(label: str, said: str, width: int) -> list[str]:
    room = max(width - _INDENT, _NARROWEST)
    shown = printable(said)
    parts = [shown] if len(shown) <= room else textwrap.wrap(shown, room, break_on_hyphens=False)
    first, *rest = parts or [""]
    return [f"{label:<{_INDENT}}{first}".rstrip(), *(" " * _INDENT + part for part in rest)]
