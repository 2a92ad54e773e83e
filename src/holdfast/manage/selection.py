"""Which runs are meant: the selectors of every interface.

Of one selector any of its values will do; different selectors must all hold.
"""

from __future__ import annotations

import time

from holdfast.errors import InvalidOption
from holdfast.process.clock import seconds_of
from holdfast.record import Record
from holdfast.run.facts import State
from holdfast.run.home import RECENT_SECONDS, RECENT_SLACK_SECONDS
from holdfast.run.outcomes import Outcome
from holdfast.run.units import is_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self, TypeAlias

    from holdfast.lean import StrEnum
    from holdfast.manage.info import RunInfo
    from holdfast.run.home import Home

    Either: TypeAlias = str | Iterable[str] | None  # one value, or several of which any will do
    Tags: TypeAlias = Mapping[str, Either]
    Values = frozenset[str] | None


class Selection(Record):
    """What a run must be. None: anything. Made by `Selection.of`, which checks what it is given."""

    active: bool | None = None
    states: Values = None
    outcomes: Values = None
    agents: Values = None
    names: Values = None  # globs, in lower case: names are unique without regard to case
    tags: Mapping[str, Values] = {}  # None: with any value
    since: float | None = None  # active, or ended at or after that time: seconds since the epoch

    @classmethod
    def of(
        cls,
        *,
        active: bool | None = None,
        state: Either = None,
        outcome: Either = None,
        agent: Either = None,
        name: Either = None,
        tags: Tags | None = None,
        since: float | None = None,
    ) -> Self:
        """From the selectors as callers give them; InvalidOption for what is no such word."""
        names = _values(name, "name")
        return cls(
            active,
            _words(state, "state", State),
            _words(outcome, "outcome", Outcome),
            _values(agent, "agent"),
            None if names is None else frozenset(one.lower() for one in names),
            {key: _values(value, "tags") for key, value in (tags or {}).items()},
            _time(since),
        )

    def or_active(self, active: bool | None) -> Self:
        """The selection with `active` set, unless it restricts state, outcome or `active`."""
        says_so = self.states is not None or self.outcomes is not None
        return self if says_so or self.active is not None else self.replace(active=active)

    @property
    def is_narrow(self) -> bool:
        """Whether it looks for something other than a time."""
        return self.replace(since=None) != Selection()

    def fits(self, info: RunInfo) -> bool:
        """Whether the run is one of them."""
        return (
            (self.active is None or info.is_active is self.active)
            and (self.outcomes is None or info.outcome in self.outcomes)
            and (self.states is None or info.state in self.states)
            and self._is_since(info)
            and self.fits_spec(info.name or info.id, info.agent, info.tags)
        )

    def fits_spec(self, name: str, agent: str | None, tags: Mapping[str, str]) -> bool:
        """Whether name, agent and tags fit: what the spec alone tells of a run."""
        return (
            (self.agents is None or agent in self.agents)
            and all(_has_tag(tags, key, values) for key, values in self.tags.items())
            and (self.names is None or self.is_called(name.lower()))
        )

    @property
    def is_of_active(self) -> bool:
        """Whether it asks for active runs, and for nothing else about how they stand."""
        return bool(self.active) and self.states is None and self.outcomes is None

    def is_called(self, name: str) -> bool:
        """Whether one of the globs fits a name in lower case."""
        from fnmatch import fnmatchcase

        return any(fnmatchcase(name, glob) for glob in self.names or ())

    @property
    def can_be_ended(self) -> bool:
        """Whether a run whose ending is recorded can fit."""
        return not self.active and (self.states is None or State.ENDED in self.states)

    @property
    def is_of_ended(self) -> bool:
        """Whether, of ended runs, only those fit whose record is not damaged."""
        return self.states is None or self.states == {State.ENDED}

    @property
    def is_recent(self) -> bool:
        """Whether nothing older than a day is asked for."""
        oldest = time.time() - RECENT_SECONDS - RECENT_SLACK_SECONDS / 2
        return self.since is not None and self.since >= oldest

    def candidates(self, home: Home, entries: set[str] | None = None) -> set[str]:
        """The ids of the runs that can fit. If any run can: all names in `runs/`, ids or not.

        `entries`: the names in `runs/`, if the caller has just listed them.
        """
        marked = self.marked_candidates(home)
        if marked is not None:
            return marked
        every = home.entries() if entries is None else set(entries)
        every.update(home.run_ids(active=True))
        return every

    def marked_candidates(self, home: Home) -> set[str] | None:
        """The ids of the runs that can fit, where markers tell them; None: any run may fit."""
        states = self.states
        if self.active or (states is not None and all(State(one).is_under_way for one in states)):
            return set(home.run_ids(active=True))
        if self.since is not None and self.is_recent:
            return {*home.run_ids(active=True), *home.recent_ids(self.since)}
        return None

    def _is_since(self, info: RunInfo) -> bool:
        if self.since is None or info.is_active:
            return True
        # An ending that was not seen has no time. Found lately, it counts as recent.
        at = info.ended_at or (None if self.is_recent else info.last_output_at or info.created_at)
        return at is None or seconds_of(at) >= self.since


def _has_tag(tags: Mapping[str, str], key: str, values: Values) -> bool:
    return key in tags and (values is None or tags[key] in values)


def _values(given: Either, option: str) -> Values:
    if given is None:
        return None
    values = frozenset((given,) if isinstance(given, str) else given)
    for value in values:
        if not isinstance(value, str):
            raise _unusable(option, value, "is not a text", "a text")
    return values


def _time(since: object) -> float | None:
    if since is None:
        return None
    if not is_number(since):
        raise _unusable("since", since, "is not a time", "seconds since the epoch")
    return since


def _words(given: Either, option: str, words: type[StrEnum]) -> Values:
    values = _values(given, option)
    for value in values or ():
        if value not in [*words]:
            expected = ", ".join(words)
            raise _unusable(option, value, f"is none of {expected}", expected)
    return values


def _unusable(option: str, value: object, why: str, expected: str) -> InvalidOption:
    return InvalidOption(
        f"{option}: {value!r} {why}", option=option, value=value, expected=expected
    )
