"""What happened, as marks on the time line: events, anomalies, signals. Pure.

Words only; nothing is concluded here. Texts are one line each, and secrets are replaced.
"""

from __future__ import annotations

import enum
from collections import Counter

from holdfast.manage.report.runclock import boot_of, identity_of
from holdfast.process.signals import signal_name
from holdfast.record import Record
from holdfast.run.events import Kind
from holdfast.run.redaction import redact_text
from holdfast.run.units import duration, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from holdfast.manage.report.reading import Material
    from holdfast.manage.report.runclock import RunClock, TimedEvent

    Json = dict[str, Any]
    Words = tuple[str, object]  # a label and what there is to say about it
    Marker = tuple["MarkKind", Callable[[Json], Words | None]]

_TIME_ROUNDING_SECONDS = 0.01  # a row's time has three places, an event's six


class MarkKind(enum.StrEnum):
    """What a mark is about; the most important first."""

    ANOMALY = "anomaly"
    STOP = "stop begun"
    EXIT = "exit"
    START = "start"
    SIGNAL = "signal"
    NOTE = "note"


class Mark(Record):
    """One thing that happened."""

    seconds: float  # since the start
    at: str
    kind: MarkKind
    label: str
    text: str = ""

    @property
    def words(self) -> str:
        """`stop: user: asked by uid 0`."""
        return f"{self.label}: {self.text}" if self.text else self.label


class AnomalyRow(Record):
    """A rule that fired."""

    seconds: float
    at: str
    rule: str
    severity: str
    evidence: str
    process: str | None  # which it is about: `4243 python3`


class SignalRow(Record):
    """A signal that was sent or refused."""

    seconds: float
    at: str
    signal: str
    to: str  # `4243 python3`
    why: str
    fate: str
    proof: str | None
    evidence: str


def one_line(value: object) -> str:
    """Text from outside, on one line and without secrets."""
    return redact_text(" ".join(str(value if value is not None else "").split()))


def process_name(token: object, comm: object) -> str:
    """`4243 python3`."""
    identity = identity_of(token)
    number = "?" if identity is None else str(identity.pid)
    return f"{number} {one_line(comm)}".rstrip()


def event_marks(events: Iterable[TimedEvent]) -> list[Mark]:
    """The events that say something about the run, in words."""
    found = []
    for seconds, event in events:
        kind, words = _MARKS.get(event.kind, _NO_MARK)
        said = words(event.facts)
        if said is not None:
            found.append(Mark(seconds, event.at, kind, one_line(said[0]), one_line(said[1])))
    return found


def _supervised(facts: Json) -> Words | None:
    if facts.get("how") != "adopted":
        return None
    return "adopted", facts.get("evidence") or "another shim took over"


def _resolved(facts: Json) -> Words:
    workload = facts.get("workload") or {}
    name = f"{workload.get('pid')} {workload.get('comm')}" if workload else "unresolved"
    return f"workload {name}", facts.get("why")


def _execed(facts: Json) -> Words | None:
    if facts.get("was") == facts.get("comm") and not facts.get("exe"):
        return None  # a process that is ending has no program any more
    before = process_name(facts.get("token"), facts.get("was"))
    return "exec", f"{before} is now {facts.get('comm')}"


def _exited(process: str) -> Callable[[Json], Words]:
    def words(facts: Json) -> Words:
        core = ", core dumped" if facts.get("core_dumped") else ""
        how = f"seen by {facts['how']}" if facts.get("how") else None
        return f"{process} {_ending(facts.get('exit_code'), facts.get('signal'))}{core}", how

    return words


def _ending(exit_code: object, signal: object) -> str:
    """`exited 3`, `ended by SIGTERM`; what was not seen is said."""
    if isinstance(signal, int):
        return f"ended by {signal_name(signal)}"
    return "ended, code not seen" if exit_code is None else f"exited {exit_code}"


def _restart(facts: Json) -> Words:
    delay = facts.get("delay_seconds")
    waits = f" in {duration(delay)}" if isinstance(delay, (int, float)) else ""
    return f"restart{waits}", facts.get("reason")


def _cleaned(facts: Json) -> Words:
    survivors = facts.get("survivors") or []
    complete = facts.get("complete")
    whole = {True: "tree empty", None: "could not see every fork"}.get(complete, "not complete")
    left = f", {len(survivors)} survive" if survivors else ""
    return "cleaned", f"{facts.get('signalled')} signalled{left}, {whole}"


def _truncated(facts: Json) -> Words:
    return "output truncated", f"from {size(facts.get('was'))} to {size(facts.get('now'))}"


_NOTE, _EXIT = MarkKind.NOTE, MarkKind.EXIT
_NO_MARK: Marker = (_NOTE, lambda _: None)
_MARKS: dict[Kind, Marker] = {
    Kind.SUPERVISED: (_NOTE, _supervised),
    Kind.ATTEMPT_STARTED: (
        MarkKind.START,
        lambda f: (f"attempt {f.get('attempt')}", f"process {f['root'].get('pid')} was made"),
    ),
    Kind.EXEC_FAILED: (_EXIT, lambda f: ("could not be started", f.get("error"))),
    Kind.WORKLOAD_RESOLVED: (_NOTE, _resolved),
    Kind.EXECED: (_NOTE, _execed),
    Kind.SESSION_FOUND: (_NOTE, lambda f: ("session found", f.get("id"))),
    Kind.COMPLETION_PROVEN: (_NOTE, lambda f: ("completion proven", f"by {f.get('source')}")),
    Kind.LIMIT_HIT: (_NOTE, lambda f: ("limit hit", f.get("text"))),
    Kind.STOP_BEGUN: (MarkKind.STOP, lambda f: (f"stop: {f.get('cause')}", f.get("detail"))),
    Kind.ROOT_EXITED: (_EXIT, _exited("root")),
    Kind.WORKLOAD_EXITED: (_EXIT, _exited("workload")),
    Kind.RESTART_SCHEDULED: (_NOTE, _restart),
    Kind.OUTPUT_TRUNCATED: (_NOTE, _truncated),
    Kind.FAULT: (_NOTE, lambda f: (f"fault: {f.get('where')}", f.get("error"))),
    Kind.CLEANED: (_NOTE, _cleaned),
    Kind.ENDED: (_EXIT, lambda f: (f"ended: {f.get('outcome')}", f.get("evidence"))),
}


def anomaly_rows(material: Material, clock: RunClock) -> tuple[AnomalyRow, ...]:
    """From the anomalies' own file, which names the process; and any that only the events have.

    Each row is followed by the event of the same rule. An event that follows none has lost its row.
    """
    rows = [_anomaly(row, row.get("boottime"), clock) for row in material.anomalies]
    events = [
        _anomaly({**event.facts, "at": event.at}, event.boottime, clock)
        for event in material.events
        if event.kind is Kind.ANOMALY_FIRED
    ]
    line = [(row.seconds, False, row) for row in rows]
    line += [(row.seconds + _TIME_ROUNDING_SECONDS, True, row) for row in events]
    unfollowed: Counter[str] = Counter()
    for _, is_event, row in sorted(line, key=lambda entry: entry[:2]):
        if not is_event:
            unfollowed[row.rule] += 1
        elif unfollowed[row.rule]:
            unfollowed[row.rule] -= 1
        else:
            rows.append(row)
    return tuple(sorted(rows, key=lambda row: row.seconds))


def _anomaly(facts: Json, boottime: object, clock: RunClock) -> AnomalyRow:
    token = facts.get("token")
    return AnomalyRow(
        clock.seconds(facts.get("at"), boottime, boot_of(token)),
        str(facts.get("at") or ""),
        one_line(facts.get("rule")),
        one_line(facts.get("severity")),
        one_line(facts.get("evidence")),
        process_name(token, facts.get("comm")) if token else None,
    )


def signal_rows(material: Material, clock: RunClock) -> tuple[SignalRow, ...]:
    """Every signal of the run's history."""
    members = material.facts.members
    return tuple(
        SignalRow(
            clock.seconds(row.get("at"), row.get("boottime"), boot_of(row.get("by"))),
            str(row.get("at") or ""),
            one_line(row.get("signal")),
            process_name(row.get("to"), members.get(str(row.get("to")))),
            one_line(row.get("why")),
            one_line(row.get("fate")),
            one_line(row.get("proof")) or None,
            one_line(row.get("evidence")),
        )
        for row in material.signals
    )


def marks(
    events: Iterable[Mark], anomalies: Iterable[AnomalyRow], signals: Iterable[SignalRow]
) -> tuple[Mark, ...]:
    """Everything on one time line."""
    found = list(events)
    for row in anomalies:
        label = f"{row.rule} ({row.severity})"
        found.append(Mark(row.seconds, row.at, MarkKind.ANOMALY, label, row.evidence))
    for sent in signals:
        label, text = f"{sent.signal} to {sent.to}", ", ".join(filter(None, (sent.fate, sent.why)))
        found.append(Mark(sent.seconds, sent.at, MarkKind.SIGNAL, label, text))
    return tuple(sorted(found, key=lambda mark: mark.seconds))
