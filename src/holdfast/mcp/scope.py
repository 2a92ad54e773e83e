"""What one client may see and touch: the runs that have its tags, and no trace of the others.

Another's run is never told from one that does not exist: not by a name, an id, the beginning of an
id, a key, or a hint. Without tags all runs are in the scope.
"""

from __future__ import annotations

import os

from holdfast.errors import (
    HoldfastError,
    InvalidName,
    InvalidOption,
    Refused,
    RunNotFound,
    argument,
)
from holdfast.manage.aio import AsyncRun, AsyncRuns
from holdfast.manage.listing import select_runs
from holdfast.manage.run import Run
from holdfast.manage.runs import Runs
from holdfast.manage.selection import Selection
from holdfast.manage.starting.request import check_tags
from holdfast.process.this_host import STAMP
from holdfast.record import Record
from holdfast.run.directory import RunDirectory
from holdfast.run.names import check_name, is_id
from holdfast.run.references import SHORTEST_PREFIX, find_by_name, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from holdfast.run.home import Home


class Access(Record):
    """What the one who started the server allows."""

    acts: bool = False  # stop
    starts: bool = False  # start, resume, send: what makes code run
    is_near: bool = True  # the client has started the server: both are in one run, or in none


class Scope:
    """The runs of a home that have these tags."""

    def __init__(self, home: Home, tags: Mapping[str, str] | None = None) -> None:
        self.home = home
        self.tags = check_tags(tags)

    def runs(self, notice: Callable[[str], None]) -> AsyncRuns:
        """The library; `notice` gets what a start has to say."""
        return AsyncRuns(self.home.path, tags=self.tags, notice=notice)

    def run(self, reference: str) -> AsyncRun:
        """The run that is meant; RunNotFound also for one of others."""
        return AsyncRun(Runs(self.home.path, tags=self.tags), self.find(reference))

    def plain_run(self, run_id: str) -> Run:
        return Run(Runs(self.home.path, tags=self.tags), run_id)

    def selection(self, tags: Mapping[str, str] | None = None, **selectors: Any) -> Selection:
        """The selectors of a client within its scope."""
        return Selection.of(tags={**self._checked(tags or {}), **self.tags}, **selectors)

    def _checked(self, tags: Mapping[str, str]) -> dict[str, str]:
        """A client's own tags; InvalidOption where they lead out of the scope."""
        checked = check_tags(tags)
        for key, value in self.tags.items():
            if checked.get(key, value) != value:
                raise InvalidOption(
                    f"{argument('tags')}: {key} is {value} for every run here",
                    hint=f"leave out {key}",
                    option="tags",
                    value=checked[key],
                )
        return checked

    # Which run is meant

    def find(self, reference: str) -> str:
        """The id. InvalidName when malformed or ambiguous, RunNotFound when there is none."""
        if not self.tags:
            return resolve(self.home, reference)
        check_name(reference)
        try:
            found = resolve(self.home, reference)
        except (InvalidName, RunNotFound):
            found = ""  # among all: it may be plain among ours
        return found if found and self.holds(found) else self._find_among_ours(reference)

    def holds(self, run_id: str) -> bool:
        """Whether a run is in the scope; one that can't be read is not."""
        if not self.tags:
            return True
        try:
            tags = RunDirectory(self.home, run_id).read_spec().tags
        except (HoldfastError, OSError):
            return False
        return all(tags.get(key) == value for key, value in self.tags.items())

    def _find_among_ours(self, reference: str) -> str:
        wanted, by_id, named = reference.lower(), [], []
        for info in select_runs(self.home, self.selection(), closely=False):
            if (info.name or "").lower() == wanted:
                named.append(info)
            elif len(wanted) >= SHORTEST_PREFIX and info.id.startswith(wanted):
                by_id.append(info.id)
        if named:
            return next((info.id for info in named if info.is_active), named[0].id)
        if len(by_id) > 1:
            shown = ", ".join(sorted(by_id)[:5])
            raise InvalidName(
                f"{reference} is the beginning of {len(by_id)} ids", hint=f"say which: {shown}"
            )
        if not by_id:
            raise RunNotFound(
                f"there is no run {reference}", hint="list_runs shows every one", run=reference
            )
        return by_id[0]

    # What is started

    def within(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options of a start that stays within the scope."""
        within = dict(options)
        within["tags"] = {**self._checked(options.get("tags") or {}), **self.tags}
        if options.get("after"):
            within["after"] = [self.find(one) for one in options["after"]]
        if self.tags and options.get("key") is not None:
            within["key"] = f"{self._written()}:{options['key']}"
        if options.get("name") is not None:
            self.refuse_taken(check_name(options["name"]))
        return within

    def _written(self) -> str:
        """The tags as a text that no others have, without a colon: what follows one is the key."""
        pairs = (f"{key}={value}" for key, value in sorted(self.tags.items()))
        return ",".join(_escaped(pair) for pair in pairs)  # a key has no =

    def refuse_taken(self, name: str) -> None:
        """Refused: the name leads to a run of others, about which nothing is said."""
        if not self.tags:
            return
        known = find_by_name(self.home, name)
        if known is not None and not self.holds(known):
            raise Refused(f"the name {name} is not free", hint="choose another one, or give none")

    # Where this server itself runs

    def refuse_own(self, run_id: str) -> None:
        """Refused: this server is inside of that run, and would be stopped with it."""
        if run_id in self._own_runs():
            raise Refused(
                f"this server runs inside of {run_id}: it does not stop its own run",
                hint="end your turn; or a person stops it: holdfast stop",
                run=run_id,
            )

    def _own_runs(self) -> list[str]:
        """The run that we are in, the one that it was started in, and so on."""
        found: list[str] = []
        run_id = os.environ.get(STAMP)
        while run_id is not None and is_id(run_id) and run_id not in found:
            found.append(run_id)
            try:
                run_id = RunDirectory(self.home, run_id).read_spec().started_in
            except (HoldfastError, OSError):  # of another home: what is above it is not known
                break
        return found


def _escaped(text: str) -> str:
    for mark in "%,:":  # % first: it is what the others become
        text = text.replace(mark, f"%{ord(mark):02x}")
    return text
