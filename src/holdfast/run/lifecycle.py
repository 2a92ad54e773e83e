"""The life of a run: one table, and a pure fold of events by it. No OS, clock or I/O.

`cell_of` says for every phase and every kind of event what the phase becomes, or why the event is
ignored (the cells are declared with the kinds, in `events.py`). Nothing leads out of `ended`.
`EventFold` takes events one by one, so that a shim keeps its facts in memory; `fold` is the same
over a whole log.
"""

from __future__ import annotations

from holdfast.run.events import KINDS, Ignored
from holdfast.run.facts import AttemptFacts, Phase, RunFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from holdfast.run.event_log import LoggedEvent
    from holdfast.run.events import Kind

    Facts = dict[str, Any]

_PLACES = {phase: place for place, phase in enumerate(Phase)}


def cell_of(phase: Phase, kind: Kind) -> Phase | Ignored:
    """What such an event makes of a run in that phase."""
    return KINDS[kind].cells[_PLACES[phase]]


class EventFold:
    """Adds events up. `facts` is a snapshot that later events don't change."""

    def __init__(self, events: Iterable[LoggedEvent] = ()) -> None:
        self._run: Facts = {**RunFacts._defaults, "members": {}}
        self._attempt: Facts = dict(AttemptFacts._defaults)  # the latest
        self._snapshot: RunFacts | None = None
        for event in events:
            self.apply(event)

    @property
    def facts(self) -> RunFacts:
        if self._snapshot is None:
            own = {"attempt": AttemptFacts(**self._attempt), "members": {**self._run["members"]}}
            self._snapshot = RunFacts(**{**self._run, **own})
        return self._snapshot

    def apply(self, event: LoggedEvent) -> None:
        """Take one event into account, as the table says."""
        self._snapshot = None
        run = self._run
        if event.is_recorded:
            run["last_seq"] = event.seq
        cell = cell_of(run["phase"], event.kind)
        if isinstance(cell, Ignored):
            return
        run["last_at"] = event.at
        KINDS[event.kind].change(run, self._attempt, event)
        run["phase"] = cell


def fold(events: Iterable[LoggedEvent]) -> RunFacts:
    """What the events add up to."""
    return EventFold(events).facts
