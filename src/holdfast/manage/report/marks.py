"""What happened, as marks on the time line: events, anomalies, signals. Pure.

Words only; nothing is concluded here. Texts are one line each, and secrets are replaced.
"""

from __future__ import annotations

import enum

from holdfast.manage.report.runclock import boot_of, identity_of
from holdfast.manage.units import duration, size
from holdfast.process.signals import signal_name
from holdfast.record import Record
from holdfast.run.events import Kind
from holdfast.run.redaction import redact_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from holdfast.manage.report.reading import Material
    from holdfast.manage.report.runclock import RunClock

    Json = dict[str, Any]


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

    def to_json(self) -> Json:
        return {**self.as_dict(), "kind": self.kind.value}


class AnomalyRow(Record):
    """A rule that fired."""

    seconds: float
    at: str
    rule: str
    severity: str
    evidence: str
    process: str | None  # whom it is about: `4243 python3`

    def to_json(self) -> Json:
        return self.as_dict()


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

    def to_json(self) -> Json:
        return self.as_dict()


def one_line(value: object) -> str:
    """Text from outside, on one line and without secrets."""
    return redact_text(" ".join(str(value if value is not None else "").split()))


def process_name(token: object, comm: object) -> str:
    """`4243 python3`."""
    identity = identity_of(token)
    number = "?" if identity is None else str(identity.pid)
    return f"{number} {one_line(comm)}".rstrip()


def event_marks(material: Material, clock: RunClock) -> list[Mark]:
    """The events that say something about the run, in words."""
    marks = []
    boot_id: str | None = None
    for event in material.events:
        if event.kind is Kind.SUPERVISED:
            boot_id = event.facts["shim"].get("boot_id")
        words = _WORDS.get(event.kind)
        said = None if words is None else words(event.facts)
        if said is not None:
            seconds = clock.seconds(event.at, event.boottime, boot_id)
            kind = _KINDS.get(event.kind, MarkKind.NOTE)
            marks.append(Mark(seconds, event.at, kind, one_line(said[0]), one_line(said[1])))
    return marks


def _supervised(facts: Json) -> tuple[str, str] | None:
    if facts.get("how") != "adopted":
        return None
    return "adopted", str(facts.get("evidence") or "another shim took over")


def _attempt(facts: Json) -> tuple[str, str]:
    return f"attempt {facts.get('attempt')}", f"process {facts['root'].get('pid')} was made"


def _resolved(facts: Json) -> tuple[str, str]:
    workload = facts.get("workload") or {}
    if not workload:
        return "workload unresolved", str(facts.get("why") or "")
    return f"workload {workload.get('pid')} {workload.get('comm')}", str(facts.get("why") or "")


def _execed(facts: Json) -> tuple[str, str] | None:
    if facts.get("was") == facts.get("comm") and not facts.get("exe"):
        return None  # a process that is ending has no program any more
    return (
        "exec",
        f"{process_name(facts.get('token'), facts.get('was'))} is now {facts.get('comm')}",
    )


def _exited(who: str) -> Callable[[Json], tuple[str, str]]:
    def words(facts: Json) -> tuple[str, str]:
        core = ", core dumped" if facts.get("core_dumped") else ""
        how = f"seen by {facts['how']}" if facts.get("how") else ""
        return f"{who} {ending_words(facts.get('exit_code'), facts.get('signal'))}{core}", how

    return words


def ending_words(exit_code: object, signal: object) -> str:
    """`exited 3`, `ended by SIGTERM`; what was not seen is said."""
    if isinstance(signal, int):
        return f"ended by {signal_name(signal)}"
    return "ended, code not seen" if exit_code is None else f"exited {exit_code}"


def _restart(facts: Json) -> tuple[str, str]:
    delay = facts.get("delay_seconds")
    waits = f" in {duration(delay)}" if isinstance(delay, (int, float)) else ""
    return f"restart{waits}", str(facts.get("reason") or "")


def _cleaned(facts: Json) -> tuple[str, str]:
    survivors = facts.get("survivors") or []
    complete = facts.get("complete")
    whole = {True: "tree empty", None: "could not see every fork"}.get(complete, "not complete")
    left = f", {len(survivors)} survive" if survivors else ""
    return "cleaned", f"{facts.get('signalled')} signalled{left}, {whole}"


def _truncated(facts: Json) -> tuple[str, str]:
    return "output truncated", f"from {size(facts.get('was'))} to {size(facts.get('now'))}"


_WORDS: dict[Kind, Callable[[Json], tuple[str, str] | None]] = {
    Kind.SUPERVISED: _supervised,
    Kind.ATTEMPT_STARTED: _attempt,
    Kind.EXEC_FAILED: lambda f: ("could not be started", str(f.get("error") or "")),
    Kind.WORKLOAD_RESOLVED: _resolved,
    Kind.EXECED: _execed,
    Kind.SESSION_FOUND: lambda f: ("session found", str(f.get("id") or "")),
    Kind.COMPLETION_PROVEN: lambda f: ("completion proven", f"by {f.get('source')}"),
    Kind.LIMIT_HIT: lambda f: ("limit hit", str(f.get("text") or "")),
    Kind.STOP_BEGUN: lambda f: (f"stop: {f.get('cause')}", str(f.get("detail") or "")),
    Kind.ROOT_EXITED: _exited("root"),
    Kind.WORKLOAD_EXITED: _exited("workload"),
    Kind.RESTART_SCHEDULED: _restart,
    Kind.OUTPUT_TRUNCATED: _truncated,
    Kind.FAULT: lambda f: (f"fault: {f.get('where')}", str(f.get("error") or "")),
    Kind.CLEANED: _cleaned,
    Kind.ENDED: lambda f: (f"ended: {f.get('outcome')}", str(f.get("evidence") or "")),
}
_KINDS = {
    Kind.ATTEMPT_STARTED: MarkKind.START,
    Kind.STOP_BEGUN: MarkKind.STOP,
    Kind.ROOT_EXITED: MarkKind.EXIT,
    Kind.WORKLOAD_EXITED: MarkKind.EXIT,
    Kind.EXEC_FAILED: MarkKind.EXIT,
    Kind.ENDED: MarkKind.EXIT,
}


def anomaly_rows(material: Material, clock: RunClock) -> tuple[AnomalyRow, ...]:
    """From the anomalies' own file, which says about whom; and any that only the events have."""
    found = [
        _anomaly(row, row.get("boottime"), process_name(row["token"], row.get("comm")), clock)
        if row.get("token")
        else _anomaly(row, row.get("boottime"), None, clock)
        for row in material.anomalies
    ]
    said = {(row.rule, row.evidence) for row in found}
    for event in material.events:
        if event.kind is Kind.ANOMALY_FIRED:
            row = _anomaly({**event.facts, "at": event.at}, event.boottime, None, clock)
            if (row.rule, row.evidence) not in said:
                found.append(row)
    return tuple(sorted(found, key=lambda row: row.seconds))


def _anomaly(facts: Json, boottime: object, process: str | None, clock: RunClock) -> AnomalyRow:
    return AnomalyRow(
        clock.seconds(facts.get("at"), boottime, boot_of(facts.get("token"))),
        str(facts.get("at") or ""),
        one_line(facts.get("rule")),
        one_line(facts.get("severity")),
        one_line(facts.get("evidence")),
        process,
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
    found += [
        Mark(one.seconds, one.at, MarkKind.ANOMALY, f"{one.rule} ({one.severity})", one.evidence)
        for one in anomalies
    ]
    found += [
        Mark(one.seconds, one.at, MarkKind.SIGNAL, f"{one.signal} to {one.to}", _fate(one))
        for one in signals
    ]
    return tuple(sorted(found, key=lambda mark: mark.seconds))


def _fate(one: SignalRow) -> str:
    return ", ".join(filter(None, (one.fate, one.why)))
