"""The report as Markdown, to paste into a bug report. Pure: a snapshot in, text out.

What ran, how it ended and on what proof, what it used, what was odd. Secrets are replaced; the
environment and the host are left out.
"""

from __future__ import annotations

import re

from holdfast import __version__
from holdfast.manage.plaintext import printable
from holdfast.manage.report.plot import UNICODE, plot
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
    utc,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.manage.report.plot import Ink
    from holdfast.manage.report.timeline import Snapshot

_MOST_COMMAND = 4000
_MOST_ROWS = 30
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~@&$-])")


def paper(snapshot: Snapshot, *, with_plot: bool = False, ink: Ink = UNICODE) -> str:
    """The whole text; charts are in it as a block that can be unfolded."""
    info = snapshot.info
    parts = [
        f"## Run {_plain(info.name or info.id)}: {_plain(headline(info))}",
        _bullets(_facts(snapshot)),
        "**Command** (secrets replaced)",
        _fenced(printable(command_line(info, _MOST_COMMAND)), "sh"),
        "**Figures**",
        _table(("figure", "value", ""), [(p.name, p.value, p.note) for p in peaks(snapshot)]),
        *_listed("Not measured", filter(None, (*lack_words(snapshot), staleness(snapshot)))),
        *_listed("Workload", (_when(f.seconds, finding_words(f)) for f in snapshot.findings)),
        *_listed(
            "Anomalies",
            _anomalies(snapshot),
            "none" if snapshot.has_figures else "unknown: nothing was measured",
        ),
        *_attempts(snapshot),
        *_listed("Signals", _signals(snapshot), "none sent or refused"),
    ]
    if with_plot:
        drawn = _fenced("\n".join(plot(snapshot, ink=ink)))
        parts.append(f"<details><summary>Charts</summary>\n\n{drawn}\n\n</details>")
    parts.append(f"_Holdfast {__version__}, {utc(snapshot.looked_at)}; id {_plain(info.id)}_")
    return "\n\n".join(parts) + "\n"


def _facts(snapshot: Snapshot) -> list[str]:
    info = snapshot.info
    said = [f"evidence: {info.evidence or 'none'}", time_words(info)]
    if info.agent:
        said.append(f"agent: {info.agent}")
    return [*said, f"samples: {sample_words(snapshot)}"]


def _when(seconds: float, text: str) -> str:
    return f"{time_text(seconds)}: {text}"


def _anomalies(snapshot: Snapshot) -> list[str]:
    return [
        _when(one.seconds, f"{one.rule} ({one.severity})")
        + (f", {one.process}" if one.process else "")
        + f": {one.evidence}"
        for one in snapshot.anomalies
    ]


def _signals(snapshot: Snapshot) -> list[str]:
    return [
        _when(one.seconds, f"{one.signal} to {one.to}: {one.fate}")
        + f" (proof: {one.proof or 'none'}; {one.evidence}); {one.why}"
        for one in snapshot.signals
    ]


def _attempts(snapshot: Snapshot) -> list[str]:
    rows = [attempt_cells(one, snapshot.info) for one in snapshot.attempts]
    if not rows:
        return ["**Attempts**: none was started"]
    shown = _table(ATTEMPT_COLUMNS, rows[-_MOST_ROWS:])
    earlier = len(rows) - _MOST_ROWS
    return ["**Attempts**" + (f" (the last {_MOST_ROWS}, of {len(rows)})" * (earlier > 0)), shown]


def _listed(title: str, rows: Iterable[str], nothing: str | None = None) -> list[str]:
    found = list(rows)
    if not found:
        return [] if nothing is None else [f"**{title}**: {nothing}"]
    left = len(found) - _MOST_ROWS
    told = [*found[:_MOST_ROWS], f"and {left} more"] if left > 0 else found
    return [f"**{title}**", _bullets(told)]


def _bullets(rows: Iterable[str]) -> str:
    return "\n".join(f"- {_plain(row)}" for row in rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *(map(_plain, row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    """Text that Markdown takes as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", printable(" ".join(text.split())))


def _fenced(text: str, language: str = "") -> str:
    """A block that ends where it should, whatever is in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
