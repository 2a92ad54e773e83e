"""The node's side of an export: its facts after a cursor, in batches.

The home keeps which cursors it has given out. One that it does not know is of another past: the
home was restored from a copy. Then everything is given again, and the database compares.
"""

from __future__ import annotations

import hashlib

from holdfast.errors import HoldfastError
from holdfast.fleet.export.batches import ExportedEvent, FactBatch, RunLook
from holdfast.lean import read_json
from holdfast.manage.reading.events import EventStream
from holdfast.manage.run import Run
from holdfast.process.clock import boottime, wall_clock
from holdfast.run.atomic_files import atomic_write, encode, make_directory, read_file
from holdfast.run.locks import wait_for_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from holdfast.manage.operations import Steps
    from holdfast.manage.reading.events import Event
    from holdfast.manage.runs import Runs
    from holdfast.run.home import Home

LOOK_SECONDS = 30.0  # active runs are looked at so often: no fact tells that a shim has died
_MOST_EVENTS = 500  # of one batch
_MOST_CURSORS = 256


class FactReader:
    """The facts of a home after a cursor. A context manager."""

    def __init__(self, runs: Runs, cursor: str | None, *, follow: bool) -> None:
        self._runs = runs
        self._follow = follow
        self._is_reread = cursor is not None and _digest(cursor) not in _given(runs.home)
        since = None if self._is_reread else cursor
        self._stream = EventStream(runs.home, since=since, follow=follow)
        self._look_at = boottime()  # when active runs are to be looked at
        self._is_over = False
        self._damaged: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def next_batch(self) -> Steps[FactBatch | None]:
        """What is new; None: without `follow` that was all. The last has no facts, or looks."""
        if self._is_over:
            return None
        found = yield from self._events()
        run_ids = {event.run for event in found}
        if len(found) < _MOST_EVENTS and (not self._follow or boottime() >= self._look_at):
            self._is_over = not self._follow
            self._look_at = boottime() + LOOK_SECONDS
            run_ids.update(self._runs.home.run_ids(active=True))
        looks = tuple(look for run_id in sorted(run_ids) for look in self._look(run_id))
        cursor = found[-1].cursor if found else None
        if cursor is not None:
            _note_given(self._runs.home, cursor)
        is_reread, self._is_reread = self._is_reread, False
        events = tuple(map(ExportedEvent.of, found))
        return FactBatch(events, looks, cursor, is_reread, self._new_damage())

    def _events(self) -> Steps[list[Event]]:
        """Those that are there; if there are none, the first that comes before the next look."""
        found: list[Event] = []
        while len(found) < _MOST_EVENTS:
            event = yield from _within(self._stream, 0.0 if found else self._look_at)
            if event is None:
                break
            found.append(event)
        return found

    def _look(self, run_id: str) -> list[RunLook]:
        at = wall_clock()
        try:
            document = Run(self._runs, run_id).info().to_json()
        except (HoldfastError, OSError):  # it was removed, or can't be read: no look
            return []
        return [RunLook.of(run_id, at, document)]

    def _new_damage(self) -> dict[str, str]:
        fresh = self._stream.damage.keys() - self._damaged
        self._damaged.update(fresh)
        return {run_id: self._stream.damage[run_id] for run_id in fresh}


def _within(stream: EventStream, deadline: float) -> Steps[Event | None]:
    """The next fact; None: there is none by then."""
    steps = stream.next_event()
    ready: set[int] | None = None
    try:
        while True:
            wait = next(steps) if ready is None else steps.send(ready)
            left = deadline - boottime()
            if left <= 0:
                return None
            ready = yield wait.replace(
                seconds=left if wait.seconds is None else min(left, wait.seconds)
            )
    except StopIteration as done:
        found: Event | None = done.value
        return found
    finally:
        steps.close()


# The cursors that this home has given out


def _given(home: Home) -> list[str]:
    try:
        document = read_json(read_file(_path(home)).decode())
        return [str(one) for one in document["given"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []  # then everything is compared once


def _note_given(home: Home, cursor: str) -> None:
    """Before anybody gets it: a database that has it was filled from this home."""
    make_directory(home.fleet_path)
    with wait_for_lock(f"{_path(home)}.lock"):
        known = [*_given(home), _digest(cursor)][-_MOST_CURSORS:]
        atomic_write(_path(home), encode({"schema": 1, "given": known}))


def _path(home: Home) -> str:
    return f"{home.fleet_path}/exported.json"


def _digest(cursor: str) -> str:
    return hashlib.sha256(cursor.encode()).hexdigest()[:16]
