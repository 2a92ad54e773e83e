"""The lines of `holdfast status` about what happened, in the order in which it did."""

from __future__ import annotations

from holdfast.manage.plaintext import unbroken
from holdfast.run.events import Kind
from holdfast.run.units import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.words.status_page import StatusFacts
    from holdfast.run.event_log import LoggedEvent

_MOST_EVENTS = 12
_WORDS = {
    Kind.SUPERVISED: "supervised",
    Kind.RUNNING: "started",
    Kind.EXEC_FAILED: "could not be started",
    Kind.SESSION_FOUND: "session found",
    Kind.COMPLETION_PROVEN: "completion proven",
    Kind.LIMIT_HIT: "limit hit",
    Kind.BUDGET_REACHED: "budget used up",
    Kind.ADJUSTED: "adjusted",
    Kind.PAUSED: "paused",
    Kind.UNPAUSED: "unpaused",
    Kind.STOP_BEGUN: "stop begun",
    Kind.ROOT_EXITED: "exited",
    Kind.RESTART_SCHEDULED: "restart scheduled",
    Kind.OUTPUT_TRUNCATED: "output truncated",
    Kind.WATCHING: "watching changed",
    Kind.ANOMALY_FIRED: "anomaly",
    Kind.CLEANED: "cleaned",
    Kind.ENDED: "ended",
}


def happened(known: StatusFacts) -> str:
    """The newest events that say something to a person, with their times."""
    told = [event for event in known.events if event.kind in _WORDS and _is_news(event)]
    sessions = {e.facts.get("id"): e for e in reversed(told) if e.kind is Kind.SESSION_FOUND}
    # A session's transcript is found later than its id, which is not news.
    told = [e for e in told if e.kind is not Kind.SESSION_FOUND or e in sessions.values()]
    left_out = len(told) - _MOST_EVENTS
    said = [
        unbroken(f"{clock(event.at, known.now)} {_word(event)}") for event in told[-_MOST_EVENTS:]
    ]
    return (f"({left_out} earlier)  " if left_out > 0 else "") + "  ".join(said)


def _is_news(event: LoggedEvent) -> bool:
    return event.kind is not Kind.SUPERVISED or event.facts.get("how") == "adopted"


def _word(event: LoggedEvent) -> str:
    facts = event.facts
    if event.kind is Kind.SUPERVISED:
        return "adopted"
    if event.kind is Kind.STOP_BEGUN:
        return f"stop begun: {facts.get('cause')}"
    if event.kind is Kind.ANOMALY_FIRED:
        return f"anomaly: {facts.get('rule')}"
    if event.kind is Kind.ENDED:
        return f"ended: {facts.get('outcome')}"
    return _WORDS[event.kind]


def anomalies(known: StatusFacts) -> str:
    """Each that fired, and why."""
    fired = [event.facts for event in known.events if event.kind is Kind.ANOMALY_FIRED]
    return "; ".join(
        f"{one.get('rule')} ({one.get('severity')}): {one.get('evidence')}" for one in fired
    )
