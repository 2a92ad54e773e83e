"""What of many runs a person should see first. Pure: the order of every live list."""

from __future__ import annotations

from holdfast.lean import StrEnum
from holdfast.manage.words.reasons import over_budget
from holdfast.run.facts import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.info import RunInfo


class Urgency(StrEnum):
    """Why a run comes before others, the most urgent first."""

    ATTENTION = "attention"  # its agent waits for a person
    ORPHANED = "orphaned"
    UNKNOWN = "unknown"
    ANOMALY = "anomaly"  # a rule fired, or something survived the end
    LIMIT = "limit"  # a quota is used up, or it is paused at its budget
    RUNNING = "running"
    QUEUED = "queued"
    ENDED = "ended"

    @property
    def place(self) -> int:
        """From 0, the most urgent."""
        return _PLACES[self]


_PLACES = {urgency: place for place, urgency in enumerate(Urgency)}
_BY_STATE = {
    State.ORPHANED: Urgency.ORPHANED,
    State.UNKNOWN: Urgency.UNKNOWN,
    State.QUEUED: Urgency.QUEUED,
}


def urgency_of(info: RunInfo) -> Urgency:
    """The first reason that holds."""
    if info.attention is not None:
        return Urgency.ATTENTION
    known = _BY_STATE.get(info.state)
    if known is not None:
        return known
    if info.has_survivors:
        return Urgency.ANOMALY
    if info.state is State.ENDED:
        return Urgency.ENDED
    if info.anomaly_count:
        return Urgency.ANOMALY
    is_spent = info.paused is not None and bool(over_budget(info))
    return Urgency.LIMIT if is_spent or info.limit is not None else Urgency.RUNNING
