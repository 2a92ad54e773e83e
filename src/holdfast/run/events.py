"""Every kind of fact that can be recorded about a run. Each is declared here, and nowhere else.

`KINDS` says of each kind: for every phase what that becomes, or why the event is ignored; how it
changes the facts (`event_changes.py`); what it must hold; how much of the reserve it leaves on a
full disk. Pure: no OS, clock or I/O. A new meaning of an old kind needs a new schema number in the
spec. A reader that meets a kind that it does not know takes the log for a later version's, and
reads no further.
"""

from __future__ import annotations

from holdfast.errors import InvalidToken
from holdfast.lean import StrEnum
from holdfast.process.identity import ProcessIdentity
from holdfast.record import Record
from holdfast.run import event_changes as change
from holdfast.run.facts import Phase
from holdfast.run.outcomes import Outcome, StopCause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.run.event_changes import Change

    Facts = dict[str, Any]
    Check = Callable[[object], bool]


class Kind(StrEnum):
    """Every fact that can be recorded about a run."""

    SUPERVISED = "supervised"
    QUEUED = "queued"
    REQUEUED = "requeued"
    ADMITTED = "admitted"
    PAUSED = "paused"
    UNPAUSED = "unpaused"
    ADJUSTED = "adjusted"
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
    BUDGET_REACHED = "budget_reached"
    ATTENTION_NEEDED = "attention_needed"
    ATTENTION_OVER = "attention_over"
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


# --- what an event must hold -----------------------------------------------------------
# What the fold relies on. Everything else in an event is kept as it is and may be missing.


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_process(value: object) -> bool:
    try:
        return isinstance(value, dict) and bool(ProcessIdentity.from_json(value))
    except InvalidToken:
        return False


def _is_process_or_none(value: object) -> bool:
    return value is None or _is_process(value)


def _are_processes_or_none(value: object) -> bool:
    return value is None or (isinstance(value, list) and all(map(_is_process, value)))


# --- the table -------------------------------------------------------------------------


class Ignored(Record):
    """A cell of the table: the event changes nothing, for this reason."""

    why: str


class KindRule(Record):
    """One kind of event."""

    cells: tuple[Phase | Ignored, ...]  # what each phase becomes
    change: Change
    leaves_bytes: int  # of the reserve, for those that matter more
    holds: dict[str, Check]


def _rule(
    cells: tuple[Phase | Ignored, ...], leaves_kib: int, change: Change, **holds: Check
) -> KindRule:
    return KindRule(cells, change, leaves_kib * 1024, holds)


_Q, _S, _R, _P, _E = tuple(Phase)
_NO = Ignored("it waits: nothing of it was started")
_GO = Ignored("it does not wait: its command was started, or is being stopped")
_OVER = Ignored("the run has ended: its first ending stands")
_LATE = Ignored("exec of this attempt was confirmed before")
PLAIN_LEAVES_BYTES = 32 * 1024  # the run's life does not hang on it: it does not use the reserve

KINDS: dict[Kind, KindRule] = {
    # In the phases queued, starting, running, stopping, ended; the KiB that it leaves; what it
    # changes, and must hold.
    Kind.SUPERVISED:        _rule((_Q,  _S, _R,    _P, _OVER), 16, change.supervised,
                                  shim=_is_process, previous_shim=_is_process_or_none),
    Kind.QUEUED:            _rule((_Q,  _Q, _GO,   _GO, _OVER), 16, change.queued),
    Kind.REQUEUED:          _rule((_Q,  _GO, _GO,  _GO, _OVER), 16, change.keep("requeued")),
    Kind.ADMITTED:          _rule((_S,  _GO, _GO,  _GO, _OVER), 16, change.admitted),
    Kind.PAUSED:            _rule((_Q,  _S, _R,    _GO, _OVER), 16, change.paused,
                                  stopped=_are_texts),
    Kind.UNPAUSED:          _rule((_Q,  _S, _R,    _GO, _OVER), 16, change.unpaused),
    Kind.ADJUSTED:          _rule((_Q,  _S, _R,    _P, _OVER), 16, change.adjusted,
                                  changes=_is_object),
    Kind.ATTEMPT_STARTED:   _rule((_S,  _S, _S,    _P, _OVER), 16, change.attempt_started,
                                  attempt=_is_count, root=_is_process),
    Kind.EXEC_FAILED:       _rule((_NO, _S, _LATE, _P, _OVER),  8, change.exec_failed),
    Kind.RUNNING:           _rule((_NO, _R, _R,    _P, _OVER),  8, change.running),
    Kind.WORKLOAD_RESOLVED: _rule((_NO, _S, _R,    _P, _OVER), 32, change.workload_resolved,
                                  workload=_is_process_or_none, wrappers=_are_processes_or_none),
    Kind.EXECED:            _rule((_NO, _S, _R,    _P, _OVER), 32, change.execed),
    Kind.MEMBERS_SEEN:      _rule((_NO, _S, _R,    _P, _OVER), 32, change.members_seen,
                                  members=_are_objects),
    Kind.SESSION_FOUND:     _rule((_NO, _S, _R,    _P, _OVER), 32, change.keep("session")),
    Kind.COMPLETION_PROVEN: _rule((_NO, _S, _R,    _P, _OVER),  8, change.of_attempt("completion")),
    Kind.USAGE_READ:        _rule((_NO, _S, _R,    _P, _OVER), 32, change.usage_read),
    Kind.RESULT_READ:       _rule((_NO, _S, _R,    _P, _OVER), 32, change.of_attempt("result")),
    Kind.LIMIT_HIT:         _rule((_NO, _S, _R,    _P, _OVER), 32, change.of_attempt("limit")),
    Kind.BUDGET_REACHED:    _rule((_NO, _S, _R,    _P, _OVER), 16, change.budget_reached),
    Kind.ATTENTION_NEEDED:  _rule((_NO, _S, _R,    _P, _OVER), 32, change.attention_needed,
                                  id=_is_text, about=_is_text),
    Kind.ATTENTION_OVER:    _rule((_NO, _S, _R,    _P, _OVER), 32, change.attention_over,
                                  id=_is_text),
    Kind.STOP_BEGUN:        _rule((_P,  _P, _P,    _P, _OVER),  8, change.stop_begun,
                                  cause=tuple(StopCause).__contains__),
    Kind.ROOT_EXITED:       _rule((_NO, _S, _R,    _P, _OVER),  8, change.root_exited,
                                  heir=_is_process_or_none),
    Kind.WORKLOAD_EXITED:   _rule((_NO, _S, _R,    _P, _OVER),  8, change.workload_exited),
    # Leftovers of one attempt are stopped before the next one starts.
    Kind.RESTART_SCHEDULED: _rule((_NO, _S, _S,    _S, _OVER), 16, change.restart_scheduled),
    Kind.OUTPUT_TRUNCATED:  _rule((_NO, _S, _R,    _P, _OVER), 32, change.output_truncated),
    Kind.OUTPUT_TRIMMED:    _rule((_NO, _S, _R,    _P, _OVER), 32, change.output_trimmed,
                                  first_byte=_is_count),
    Kind.WATCHING:          _rule((_Q,  _S, _R,    _P, _OVER), 32, change.watching,
                                  degraded=_are_texts),
    Kind.LINE_GIVEN_UP:     _rule((_NO, _S, _R,    _P, _OVER), 32,
                                  change.collect("lines_given_up")),
    Kind.ANOMALY_FIRED:     _rule((_NO, _S, _R,    _P, _OVER), 32, change.anomaly_fired),
    # A disk that does not sync is known only after the ending is written.
    Kind.FAULT:             _rule((_Q,  _S, _R,    _P, _E),    32, change.collect("faults")),
    # Survivors of a stop may be stopped again later.
    Kind.CLEANED:           _rule((_Q,  _S, _R,    _P, _E),     0, change.keep("cleanup")),
    Kind.ENDED:             _rule((_E,  _E, _E,    _E, _OVER),  0, change.ended,
                                  outcome=tuple(Outcome).__contains__),
}  # fmt: skip


def check_facts(kind: Kind, facts: Facts) -> None:
    """ValueError when an event lacks what its kind is about."""
    for name, fits in KINDS[kind].holds.items():
        if not fits(facts.get(name)):
            raise ValueError(f"{kind} with {name} {facts.get(name)!r}")
