"""The facts of one run or of all, oldest first, each with a cursor to go on from.

History is merged by time, with only the runs of that time in memory; at first no more runs are
looked for than are soon needed. Then new facts are given as they are recorded. Between a cursor and
the next reader nothing is left out or given twice.
"""

from __future__ import annotations

import heapq
import os
import time

from holdfast.errors import HoldfastError, RunNotFound
from holdfast.manage.operations import run_steps
from holdfast.manage.reading.cursor import SETTLE_SECONDS, CursorPosition, parse_cursor
from holdfast.manage.reading.inotify import FileWatch, run_id_of
from holdfast.manage.reading.oldest_runs import oldest_runs
from holdfast.manage.state import view_run
from holdfast.process.clock import seconds_of
from holdfast.record import Record
from holdfast.run.directory import RunDirectory
from holdfast.run.events import Kind
from holdfast.run.facts import State
from holdfast.run.names import id_seconds, last_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Self

    from holdfast.manage.operations import Steps
    from holdfast.run.event_log import LoggedEvent
    from holdfast.run.home import Home

NOW = "now"
_SOON = 256  # runs that are found at first
_LOOK_SECONDS = 1.0  # what no change of a file tells: a home that is made, a shim that died


class Event(Record):
    """One fact of one run."""

    run: str  # id
    name: str | None
    seq: int
    at: str
    boottime: float
    kind: Kind
    facts: dict[str, Any]
    cursor: str  # for `since`: everything after this event

    def to_json(self) -> dict[str, Any]:
        """One line of `holdfast events`."""
        head = {"run": self.run, "name": self.name, "seq": self.seq, "at": self.at}
        tail = {"boottime": self.boottime, "kind": self.kind.value}
        return {**head, **tail, **self.facts, "cursor": self.cursor}


class _Reading:
    """How far one run's events were read."""

    def __init__(self, directory: RunDirectory, name: str | None) -> None:
        self.directory = directory
        self.name = name
        self.next_seq = 1
        self.has_ended = False
        self.damage: str | None = None
        self._offset = 0
        self._latest = ""

    def read(self) -> list[tuple[str, LoggedEvent]]:
        """What is new, each with the time that it is sorted by."""
        if self.damage is not None:
            return []
        found = self.directory.read_events(self._offset, self.next_seq)
        self._offset, self.next_seq, self.damage = found.offset, found.next_seq, found.damage
        fresh = []
        for event in found.events:
            self.has_ended = self.has_ended or event.kind is Kind.ENDED
            self._latest = max(self._latest, event.at)  # the clock may have been set back
            fresh.append((self._latest, event))
        return fresh

    def is_last(self, seq: int) -> bool:
        """Whether no event can follow this one."""
        return seq == self.next_seq - 1 and (self.has_ended or self.damage is not None)


class EventStream:
    """The events of a home, or of one `run` of it. A context manager."""

    def __init__(
        self,
        home: Home,
        *,
        since: str | None = None,
        follow: bool = True,
        tags: Mapping[str, str] | None = None,
        run: str | None = None,
    ) -> None:
        self._home = home
        self._tags = dict(tags or {})
        self._only = run
        self._place = CursorPosition() if since in (None, NOW) else parse_cursor(str(since))
        self._watch = FileWatch() if follow else None
        self._hears_of_new_runs = False
        self._known: set[str] = set()
        self._unread: list[str] = []  # newest first: the next is at the end
        self._has_more = False  # runs, newer than those that were found at first
        self._readings: dict[str, _Reading] = {}
        self._ready: list[tuple[str, str, int, LoggedEvent]] = []  # a heap: the oldest first
        self.damage: dict[str, str] = {}  # run id -> why the rest of its events can't be read
        if since == NOW:
            self._skip_to_now()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()

    def next_event(self) -> Steps[Event | None]:
        """The next fact; None: that was the last, or without `follow` all that there is."""
        has_looked = False
        changed: set[str] | None = None
        while True:
            self._read_due()
            if self._ready:
                return self._give()
            if has_looked:
                if self._watch is None or self._is_over():
                    return None
                ready = yield self._watch.until_change(seconds=self._seconds())
                told = self._watch.take()
                changed = told if ready else None  # the time is over: look at all
            if changed is None:
                self._look()
            else:
                self._look_at({run_id_of(self._home, path) for path in changed})
            has_looked = True

    def _look(self) -> None:
        """Find new runs, and new events of those that are not done with."""
        if self._watch is not None and self._only is None:
            self._hears_of_new_runs = self._watch.add(self._home.runs_path)
        if self._only is None:
            self._find_oldest()
        else:
            self._find([self._only])
        for reading in list(self._readings.values()):
            self._go_on(reading)

    def _look_at(self, run_ids: set[str | None]) -> None:
        """The same where it is known which runs have changed."""
        for run_id in filter(None, run_ids):
            reading = self._readings.get(run_id)
            if reading is not None:
                self._go_on(reading)
            elif not os.path.lexists(RunDirectory(self._home, run_id).path):
                self._place.forget(run_id)
            elif self._only in (None, run_id):
                self._find([run_id])

    def _find_oldest(self) -> None:
        """Those that are not done with; of many only the first, and the rest when it is needed."""
        for run_id in self._place.begun:
            if not os.path.lexists(RunDirectory(self._home, run_id).path):
                self._place.forget(run_id)  # it was removed
        found = oldest_runs(self._home, after=self._place.done_until, most=_SOON)
        self._has_more = len(found) == _SOON
        begun = [one for one in self._place.begun if not self._has_more or one < found[-1]]
        self._find([*begun, *found])

    def _find_rest(self) -> bool:
        """Whether there are runs to read beyond those that were found at first."""
        if self._has_more:
            self._has_more = False
            self._find([one for one in self._home.run_ids() if one > self._place.done_until])
        return bool(self._unread)

    def _find(self, run_ids: list[str]) -> None:
        fresh = [run_id for run_id in run_ids if run_id not in self._known]
        if fresh:
            self._known.update(fresh)
            self._unread = sorted({*fresh, *self._unread}, reverse=True)

    def _go_on(self, reading: _Reading) -> None:
        if reading.directory.exists():
            self._take(reading)
        else:
            self._let_go(reading)
            self._place.forget(reading.directory.id)

    def _read_due(self) -> None:
        """Read every run that may have an event before the next one that we would give."""
        while self._unread or self._find_rest():
            # An id is made before its run's first event; the second is its own, cut off.
            if self._ready and id_seconds(self._unread[-1]) > seconds_of(self._ready[0][0]):
                return
            self._begin(self._unread.pop())

    def _begin(self, run_id: str) -> None:
        directory = RunDirectory(self._home, run_id)
        try:
            spec = directory.read_spec()
        except RunNotFound:
            self._look_again(directory)
            return
        except (HoldfastError, OSError):  # of a later version, or damaged: its events may be fine
            spec = None
        tags = {} if spec is None else spec.tags
        is_ours = all(tags.get(name) == value for name, value in self._tags.items())
        if is_ours and self._place.begin(run_id) is not None:
            self._readings[run_id] = _Reading(directory, None if spec is None else spec.name)
            self._take(self._readings[run_id])

    def _look_again(self, directory: RunDirectory) -> None:
        """A directory without a spec is being made, or never will be: its next change tells."""
        if self._watch is not None and self._watch.add(directory.path):
            self._known.discard(directory.id)

    def _take(self, reading: _Reading) -> None:
        run_id = reading.directory.id
        if self._watch is not None and not reading.has_ended:
            # The directory, because the log may not be there yet.
            self._watch.add(reading.directory.path)
            self._watch.add(reading.directory.events_path)
        given = self._place.begin(run_id) or 0
        for at, event in reading.read():
            if event.seq > given:
                heapq.heappush(self._ready, (at, run_id, event.seq, event))
        if reading.damage is not None:
            self.damage[run_id] = reading.damage
        if reading.is_last(given):
            self._place.give(run_id, given, is_last=True)
            self._let_go(reading)

    def _let_go(self, reading: _Reading) -> None:
        self._readings.pop(reading.directory.id, None)
        if self._watch is not None:
            self._watch.remove(reading.directory.path)
            self._watch.remove(reading.directory.events_path)

    def _give(self) -> Event:
        _at, run_id, seq, event = heapq.heappop(self._ready)
        reading = self._readings[run_id]
        is_last = reading.is_last(seq)
        self._place.give(run_id, seq, is_last=is_last)
        if is_last:
            self._let_go(reading)
        if self._only is None:
            self._place.settle(time.time(), self._unread[-1] if self._unread else None)
        return Event(
            run_id,
            reading.name,
            seq,
            event.at,
            event.boottime,
            event.kind,
            event.facts,
            str(self._place),
        )

    def _skip_to_now(self) -> None:
        """Everything that is recorded already counts as given; history is not read for that."""
        active = set(self._home.run_ids(active=True))
        settled = last_id(time.time() - SETTLE_SECONDS)
        run_ids = [self._only] if self._only is not None else self._home.run_ids()
        for run_id in run_ids:
            if run_id in active or run_id > settled or self._only is not None:
                read = RunDirectory(self._home, run_id).read_events()
                self._place.begin(run_id)
                self._place.give(run_id, read.next_seq - 1, is_last=False)
        if self._only is None:
            self._place.finish_until(max((one for one in run_ids if one <= settled), default=""))

    def _seconds(self) -> float | None:
        """How long to wait at most: the home may not be there yet, and a run alone may be over
        without another event."""
        return None if self._hears_of_new_runs else _LOOK_SECONDS

    def _is_over(self) -> bool:
        """Whether the one run that was asked for will have no more events."""
        if self._only is None:
            return False
        reading = self._readings.get(self._only)
        if reading is None:  # all is given, or it was removed
            return True
        try:
            view = view_run(reading.directory, members=False, closely=False)
        except (HoldfastError, OSError):
            return True
        return view.standing.state is State.ENDED and not view.facts.has_ended


def all_events(
    home: Home,
    *,
    since: str | None = None,
    follow: bool = True,
    tags: Mapping[str, str] | None = None,
) -> Iterator[Event]:
    """The facts of all runs, from the cursor on. `since="now"` leaves out history."""
    return _iterate(EventStream(home, since=since, follow=follow, tags=tags))


def _iterate(stream: EventStream) -> Iterator[Event]:
    with stream:
        while (event := run_steps(stream.next_event())) is not None:
            yield event
