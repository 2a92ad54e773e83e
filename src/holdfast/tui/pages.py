"""What the pages about one run say, read and made into lines away from the screen's thread."""

from __future__ import annotations

from holdfast.manage.info import read_run
from holdfast.manage.plaintext import printable, wrapped
from holdfast.manage.processes import look_at_processes
from holdfast.manage.reading.run_status import read_status
from holdfast.manage.report.report import read_report
from holdfast.manage.state import read_facts
from holdfast.manage.words.status_page import (
    EVENTS,
    EVIDENCE,
    NEEDS_YOU,
    NEXT,
    OUTPUT,
    PROCESSES,
    WHY,
    lines_of,
)
from holdfast.manage.words.tree_lines import lines_of_tree
from holdfast.process.verdict import Verdict
from holdfast.run.output import read_from
from holdfast.run.units import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from holdfast.manage.processes import Processes
    from holdfast.run.directory import RunDirectory
    from holdfast.tui.table import Spans

_LABELS = 11
_TAIL_LINES = 10
_MOST_EVENTS = 500
_VERDICTS = {Verdict.SAME.value: "good", Verdict.UNKNOWN.value: "warn"}
FIRST = (WHY, NEEDS_YOU, EVIDENCE)  # who is alive, proven how
_ELSEWHERE = (PROCESSES, EVENTS, OUTPUT, NEXT)  # sections of their own, or keys


def detail_lines(directory: RunDirectory, room: int) -> list[Spans]:
    """Evidence first, then the tree, what it used, what happened and the end of its log."""
    known = read_status(directory)
    said = dict(lines_of(known))
    lines: list[Spans] = [((printable(known.headline()), "bold"),)]
    for label in FIRST:
        lines += labelled(label, said.pop(label, ""), room)
    lines += [(), *heading("tree"), *_tree(known.processes)]
    lines += [(), *heading("use")]
    for label, text in said.items():
        if label not in _ELSEWHERE:
            lines += labelled(label, text, room)
    lines += [(), *heading("over time"), *_charts(directory, room, is_plotted=False)]
    lines += [(), *heading("output"), *_log_tail(directory, directory.output_path)]
    if (known.info.wanted or {}).get("split_stderr"):
        lines += [(), *heading("stderr"), *_log_tail(directory, directory.stderr_path)]
    return lines


def tree_page(directory: RunDirectory, room: int) -> list[Spans]:
    """As `holdfast tree` prints it."""
    del room
    found = look_at_processes(directory, read_facts(directory))
    inner = [read_run(one, closely=False) for one in directory.inner_runs() if one.exists()]
    return [
        *_tree(found),
        *(
            (("inner run ", "label"), (printable(f"{one.name} ({one.id}) {one.state}"), ""))
            for one in inner
        ),
    ]


def charts_page(directory: RunDirectory, room: int) -> list[Spans]:
    """As `holdfast report --plot` prints it."""
    return _charts(directory, room, is_plotted=True)


def events_page(directory: RunDirectory, room: int) -> list[Spans]:
    """Every event and every signal, in the order in which they happened, the newest last."""
    del room
    events = [(one.at, one.kind.value, one.facts, "") for one in directory.read_events().events]
    signals = [
        (str(row.get("at")), f"signal {row.get('signal')}", _of_signal(row), "warn")
        for row in directory.read_signals()
    ]
    return event_lines([*events, *signals])


def event_lines(known: Iterable[tuple[str, str, dict[str, Any], str]]) -> list[Spans]:
    """When, what, its facts and how it looks: the last ones."""
    import time

    found, now = sorted(known, key=lambda one: one[0]), time.time()
    left_out = len(found) - _MOST_EVENTS
    lines: list[Spans] = []
    if left_out > 0:
        lines.append(((f"({left_out} earlier: holdfast events)", "dim"),))
    for at, kind, facts, look in found[-_MOST_EVENTS:]:
        lines.append(
            ((f"{clock(at, now)}  ", "dim"), (f"{kind:<18} ", look or "label"), (_facts(facts), ""))
        )
    return lines


def _of_signal(row: dict[str, Any]) -> dict[str, Any]:
    pid = str(row.get("to")).split(".")[1:2]
    to = pid[0] if pid else row.get("to")
    return {"to": to, "fate": row.get("fate"), "why": row.get("why"), "proof": row.get("proof")}


def _facts(facts: dict[str, Any]) -> str:
    shown = (f"{name}={_value(value)}" for name, value in facts.items() if value is not None)
    return printable(" ".join(shown))


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("pid", "{...}"))
    text = str(value)
    return text if len(text) <= 100 else f"{text[:99]}…"


def heading(text: str) -> Iterator[Spans]:
    """Of a section."""
    yield ((f"── {text} ", "label"),)


def labelled(label: str, text: str, room: int) -> Iterator[Spans]:
    """A label, and its text in as many lines as it needs."""
    if not text:
        return
    look = "ask" if label == NEEDS_YOU else ""
    for place, line in enumerate(wrapped(text, max(room - _LABELS - 1, 20))):
        yield ((f"{label if place == 0 else '':<{_LABELS}}", "label"), (line, look))


def _tree(found: Processes) -> Iterator[Spans]:
    for line in lines_of_tree(found):
        look = _VERDICTS.get(line.verdict, "dim")
        yield ((printable(line.head), ""), (f"{line.verdict}  ", look), (line.tail, ""))


def _charts(directory: RunDirectory, room: int, *, is_plotted: bool) -> list[Spans]:
    report = read_report(directory)
    if is_plotted:
        return [((line, ""),) for line in report.text(room - 1, plot=True).split("\n")]
    from holdfast.manage.report.document import BRIEF, TimeCharts
    from holdfast.manage.report.sections import sections
    from holdfast.manage.report.text_charts import sparklines

    blocks = [one.block for one in sections(report, BRIEF) if isinstance(one.block, TimeCharts)]
    return [((line, ""),) for block in blocks for line in sparklines(block)]


def _log_tail(directory: RunDirectory, path: str) -> list[Spans]:
    kept = directory.first_kept_byte(path)
    found = read_from(path, tail=_TAIL_LINES, first_kept=kept)
    data = b"".join(chunk.data for chunk in found)
    if not data:
        return [(("nothing yet", "dim"),)]
    from holdfast.tui.log_lines import shown_line

    return [shown_line(line) for line in data.removesuffix(b"\n").split(b"\n")]


PAGES: dict[str, Callable[[RunDirectory, int], list[Spans]]] = {
    "detail": detail_lines,
    "tree": tree_page,
    "charts": charts_page,
    "events": events_page,
}
