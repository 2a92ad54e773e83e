"""A run at one look: its recorded facts, and the lock. Where these do not tell, `derived.py` looks.

Takes no lock and writes nothing. What can't be proven is `unknown`. A `RunView` is handed
on: an operation looks once before it acts and once after, and then reads only the new events.
"""

from __future__ import annotations

from holdfast.errors import DamagedRecord, LaterVersion
from holdfast.record import Record
from holdfast.run.event_log import EventsRead
from holdfast.run.facts import RunFacts, State
from holdfast.run.lifecycle import fold
from holdfast.run.trust import doubt_length, doubt_origin, has_summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.verdict import Look
    from holdfast.run.directory import RunDirectory
    from holdfast.run.outcomes import Outcome
    from holdfast.run.spec import RunSpec

    Json = dict[str, Any]

NOTHING_READ = EventsRead((), 0, 1)


class Standing(Record):
    """A run's state, and why that is believed."""

    state: State
    outcome: Outcome | None
    evidence: str
    looks: dict[str, Look]  # by token: what was looked at on the way
    hint: str | None = None  # what to do about a record that is not believed
    ending: Json | None = None  # the `ended` event; as recorded, or as it would be
    is_recorded: bool = True  # False: it is over, but no ending is recorded


class RunView(Record):
    """What was asked, what is recorded, and how the run stands: all of one moment.

    The spec has the limits as they are now, adjusted since the start or not.
    """

    directory: RunDirectory
    spec: RunSpec
    facts: RunFacts
    standing: Standing
    read: EventsRead  # the events, and where the next look goes on

    @property
    def is_final(self) -> bool:
        """Whether nothing about it changes any more: an ending is recorded, and believed."""
        return self.facts.has_ended and self.standing.state is State.ENDED


def view_run(
    directory: RunDirectory,
    *,
    spec: RunSpec | None = None,
    since: RunView | None = None,
    members: bool = True,
    closely: bool = True,
) -> RunView:
    """The run as it is now. RunNotFound, LaterVersion or DamagedRecord if it can't be read.

    `spec`: if it was read before. `since`: an earlier look, of which spec and events are kept.
    `members=False` skips the `members_seen` events. `closely=False`: the processes of a run whose
    lock is held are not looked at.
    """
    spec = spec or (directory.read_spec() if since is None else since.spec)
    read = _read(directory, NOTHING_READ if since is None else since.read, members)
    facts = fold(read.events)
    doubt = doubt_origin(directory, spec)
    spec = spec.adjusted(facts.adjusted)
    if doubt is not None and (doubt.of_ending_too or not facts.has_ended):
        hint = f"holdfast status {directory.id}; act on it where it was recorded"
        standing = unknown(f"{doubt.why}: not believed, kept and not touched", hint=hint)
        return RunView(directory, spec, facts, standing, read)
    if facts.has_ended:
        return RunView(directory, spec, facts, _ended(facts), read)
    if directory.lock_is_held():
        # An adopter may have become the shim meanwhile; the newest facts name it.
        return RunView(directory, spec, facts, _locked(facts, closely), read)
    # The shim may have recorded the ending and released the lock since we read: read what is new.
    had_summary = has_summary(directory)
    newer = _read(directory, read, members)
    if newer.offset > read.offset:
        read, facts = newer, fold(newer.events)
        spec = spec.adjusted(facts.adjusted)
    if facts.has_ended:
        return RunView(directory, spec, facts, _ended(facts), read)
    standing = _without_shim(directory, spec, facts, had_summary)
    return RunView(directory, spec, facts, standing, read)


def read_facts(directory: RunDirectory) -> RunFacts:
    """The fold of the recorded events alone; DamagedRecord when they can't be read to their end,
    or LaterVersion."""
    return fold(_read(directory, NOTHING_READ, members=True).events)


def _read(directory: RunDirectory, since: EventsRead, members: bool) -> EventsRead:
    """All events, of which those of an earlier look are not read again."""
    read = directory.read_events(since.offset, since.next_seq, members=members)
    if read.is_later:
        raise LaterVersion(
            f"the events of run {directory.id} are of a later version: {read.damage}",
            hint="use the Holdfast that wrote them, or a newer one",
        )
    if read.damage is not None:
        raise DamagedRecord(f"the events of run {directory.id} are damaged: {read.damage}")
    return read.replace(events=(*since.events, *read.events)) if since.events else read


def unknown(
    evidence: str, looks: dict[str, Look] | None = None, hint: str | None = None
) -> Standing:
    """Not proven either way."""
    return Standing(State.UNKNOWN, None, evidence, looks or {}, hint)


def _ended(facts: RunFacts) -> Standing:
    ending = {
        **(facts.ending or {}),
        "loss": facts.loss,
        "vouched": facts.vouched,
        "stop_reason": facts.stop_reason,
    }
    evidence = str(ending.get("evidence") or "")
    return Standing(State.ENDED, facts.outcome, evidence, {}, ending=ending)


def _locked(facts: RunFacts, closely: bool) -> Standing:
    if not closely:
        return Standing(State(facts.phase.value), None, "its shim holds the lock", {})
    from holdfast.manage.derived import with_shim

    return with_shim(facts)


def _without_shim(
    directory: RunDirectory, spec: RunSpec, facts: RunFacts, had_summary: bool
) -> Standing:
    if not facts.last_seq and not directory.exists():
        raise directory.not_found()  # it was removed since
    cut = doubt_length(directory, facts, had_summary)
    if cut is not None:
        raise DamagedRecord(f"the events of run {directory.id} are not whole: {cut}")
    from holdfast.manage.derived import without_shim

    return without_shim(directory, spec, facts)
