"""Every kind of fact that can be recorded about a run, and one such fact. Pure.

A new meaning of an old kind needs a new schema number in the spec. A reader that meets a kind
that it does not know takes the log for a later version's, and reads no further.
"""

from __future__ import annotations

from holdfast.lean import StrEnum
from holdfast.record import Record
from holdfast.run.durable import encode
from holdfast.run.outcomes import Outcome, StopCause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Kind(StrEnum):
    """Every fact that can be recorded about a run."""

    SUPERVISED = "supervised"
    ATTEMPT_STARTED = "attempt_started"
    EXEC_FAILED = "exec_failed"
    RUNNING = "running"
    WORKLOAD_RESOLVED = "workload_resolved"
    EXECED = "execed"
    MEMBERS_SEEN = "members_seen"
    SESSION_FOUND = "session_found"
    COMPLETION_PROVEN = "completion_proven"
    USAGE_READ = "usage_read"
    RESULT_READ = "result_read"
    LIMIT_HIT = "limit_hit"
    STOP_BEGUN = "stop_begun"
    ROOT_EXITED = "root_exited"
    WORKLOAD_EXITED = "workload_exited"
    RESTART_SCHEDULED = "restart_scheduled"
    OUTPUT_TRUNCATED = "output_truncated"
    OUTPUT_TRIMMED = "output_trimmed"
    WATCHING = "watching"
    LINE_GIVEN_UP = "line_given_up"
    ANOMALY_FIRED = "anomaly_fired"
    FAULT = "fault"
    CLEANED = "cleaned"
    ENDED = "ended"


class UnknownKind(ValueError):
    """A whole event, of a kind that only a later version can have written."""

    def __init__(self, kind: str, seq: int) -> None:
        super().__init__(f"an event of the unknown kind {kind}")
        self.seq = seq


class Event(Record):
    """One fact, as it was appended."""

    seq: int
    at: str
    boottime: float
    kind: Kind
    facts: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The line's document."""
        head = {"seq": self.seq, "at": self.at, "boottime": self.boottime, "kind": self.kind.value}
        return {**head, **self.facts}

    def to_line(self) -> bytes:
        """The line as it is, or would be, in the log."""
        return encode(self.to_json()) + b"\n"

    @property
    def is_recorded(self) -> bool:
        """False while it waits for room on a full disk."""
        return self.seq > 0

    @classmethod
    def from_json(cls, document: object) -> Event:
        """Read a line back. ValueError for anything that is not a whole event of a known kind."""
        if not isinstance(document, dict):
            raise ValueError("not an object")
        facts = dict(document)
        try:
            seq, at, boottime = facts.pop("seq"), facts.pop("at"), facts.pop("boottime")
            named = facts.pop("kind")
        except KeyError as missing:
            raise ValueError(f"no {missing.args[0]}") from None
        whole = isinstance(seq, int) and isinstance(at, str) and isinstance(boottime, (int, float))
        if not whole or isinstance(seq, bool):
            raise ValueError("seq, at or boottime is of a wrong type")
        try:
            kind = Kind(named)
        except ValueError:
            if isinstance(named, str) and named.isidentifier():
                raise UnknownKind(named, seq) from None
            raise
        check_facts(kind, facts)
        return cls(seq, at, boottime, kind, facts)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_list_of_objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


# What the fold relies on. Everything else in an event is kept as it is and may be missing.
REQUIRED: dict[Kind, dict[str, Callable[[object], bool]]] = {
    Kind.SUPERVISED: {"shim": _is_object},
    Kind.ATTEMPT_STARTED: {"attempt": _is_count, "root": _is_object},
    Kind.MEMBERS_SEEN: {"members": _is_list_of_objects},
    Kind.STOP_BEGUN: {"cause": tuple(StopCause).__contains__},
    Kind.OUTPUT_TRIMMED: {"first_byte": _is_count},
    Kind.WATCHING: {"degraded": _is_list_of_texts},
    Kind.ENDED: {"outcome": tuple(Outcome).__contains__},
}


def check_facts(kind: Kind, facts: dict[str, Any]) -> None:
    """ValueError when an event lacks what its kind is about."""
    for name, fits in REQUIRED.get(kind, {}).items():
        if not fits(facts.get(name)):
            raise ValueError(f"{kind} with {name} {facts.get(name)!r}")
