"""The runs of a home, kept fresh: the one model behind every screen and door.

`run_steps(live.next_changes())` waits and tells what changed; docs/architecture.md has an example.
It shows what `ls` shows, in the same words; takes no lock, writes nothing and starts no thread.
inotify only hastens: every active run is looked at again every 2 s, since a killed shim changes
no file. One thread drives `next_changes`; the others may call what stands under "From any thread".
Nothing about a home is raised: `trouble` says why what is shown may be old. What is read of a
disk that hangs, hangs: a screen that must answer drives the model in a thread of its own.
"""

from __future__ import annotations

import os
import time
from collections import deque
from itertools import chain

from holdfast.errors import HoldfastError, HomeUnusable, RunNotFound
from holdfast.manage.listing import select_runs
from holdfast.manage.operations import Wait
from holdfast.manage.overview import WINDOW
from holdfast.manage.reading.folder_changes import FolderChanges
from holdfast.manage.reading.inotify import FileWatch, run_id_of
from holdfast.manage.reading.live_run import LiveRun
from holdfast.manage.reading.open_outputs import OpenOutputs
from holdfast.manage.selection import Selection
from holdfast.manage.words.views import failed_at_once, row_of
from holdfast.process.clock import boottime
from holdfast.record import Record
from holdfast.run.directory import RunDirectory
from holdfast.run.units import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps
    from holdfast.manage.words.views import Row
    from holdfast.run.home import Home

LOOK_SECONDS = 2.0
_UNWATCHED_SECONDS = 1.0  # between looks where the kernel has no watch for us
_SLICE_SECONDS = 0.04  # of work, then what was found is returned and other work gets its turn
_BREATH_SECONDS = 0.05  # between two answers: a flood of output is reported twenty times a second
_RELEASE_SECONDS = 0.1  # a dying shim's files are closed before its lock is free
_OLD_SECONDS = 60.0  # between looks for rows that ended too long ago by now


class LiveChanges(Record):
    """What changed since the answer before, and what holds now."""

    rows: tuple[Row, ...] = ()  # of runs that appeared or changed
    gone: tuple[str, ...] = ()  # ids: removed, or not to be shown any more
    grown: tuple[str, ...] = ()  # ids: of those that were opened, whose output has more
    is_whole: bool = False  # all that there is was read at least once
    trouble: HoldfastError | None = None  # why the home can't be read; rows are as they were before
    looked_at: float = 0.0  # the last time that it could, in seconds since the epoch
    unstarted: int = 0  # runs that a plain list leaves out


class _News:
    """What is to be returned. The keys are ids, in the order of the changes."""

    def __init__(self) -> None:
        self.changed: dict[str, None] = {}
        self.gone: dict[str, None] = {}
        self.grown: dict[str, None] = {}
        self.is_any = False

    def tell(self, ids: dict[str, None], run_id: str) -> None:
        ids[run_id] = None
        self.is_any = True


class LiveRuns:
    """The rows of a home. `selection`, `window` and `is_plain` are those of `Overview`."""

    def __init__(
        self,
        home: Home,
        selection: Selection | None = None,
        *,
        window: str | None = WINDOW,
        is_plain: bool = False,
    ) -> None:
        self.rows: dict[str, Row] = {}  # by id; changes between two answers
        self._home = home
        self._selection = selection or Selection()
        self._window = None if window is None else parse_duration(window, "--since")
        self._is_plain = is_plain
        self._watch = FileWatch(look_seconds=_UNWATCHED_SECONDS)
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._asked: deque[tuple[str, str]] = deque()
        self._active: dict[str, LiveRun] = {}  # what is looked at again and again
        self._due: dict[str, None] = {}  # to be looked at now, in this order
        self._later: dict[str, float] = {}  # to be looked at then
        self._history: Iterator[RunInfo] | None = None  # ended runs that are being read
        self._unshown: set[str] = set()  # ended runs that do not fit
        self._unstarted: set[str] = set()
        self._folders = FolderChanges()
        self._outputs = OpenOutputs(home, self._watch)
        self._news = _News()
        self._is_whole = False
        self._trouble: HoldfastError | None = None
        self._looked_at = 0.0
        self._next_round = 0.0
        self._next_clearing = 0.0
        self._answered_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.close()
        for fd in (self._wake_read, self._wake_write):
            os.close(fd)

    # From any thread

    def open_output(self, run_id: str) -> None:
        """Tell when this run's output grows."""
        self._ask("open", run_id)

    def close_output(self, run_id: str) -> None:
        """Stop reporting it."""
        self._ask("close", run_id)

    def look_again(self, run_id: str) -> None:
        """At once: something was done to it."""
        self._ask("look", run_id)

    def wake(self) -> None:
        """Have `next_changes` answer now."""
        self._ask("answer", "")

    def _ask(self, verb: str, run_id: str) -> None:
        self._asked.append((verb, run_id))
        try:
            os.write(self._wake_write, b"x")
        except OSError:  # full: it is awake; or closed
            pass

    # In the thread that drives it

    def next_changes(self, seconds: float | None = None) -> Steps[LiveChanges]:
        """What changed since the last answer. Waits until something has, so long at most."""
        deadline = None if seconds is None else boottime() + seconds
        breath = self._answered_at + _BREATH_SECONDS - boottime()
        if breath > 0 and not self._is_busy:
            yield Wait((), breath)
        while True:
            self._hear()
            self._work()
            if self._news.is_any or (deadline is not None and boottime() >= deadline):
                return self._answer()
            yield Wait((), 0.0) if self._is_busy else self._until(deadline)

    @property
    def _is_busy(self) -> bool:
        return bool(self._due) or self._history is not None

    def _until(self, deadline: float | None) -> Wait:
        ends = [self._next_round, *self._later.values()]
        if deadline is not None:
            ends.append(deadline)
        return self._watch.until_change(self._wake_read, seconds=max(0.0, min(ends) - boottime()))

    def _answer(self) -> LiveChanges:
        news, self._news = self._news, _News()
        self._answered_at = boottime()
        return LiveChanges(
            tuple(self.rows[run_id] for run_id in news.changed),
            tuple(news.gone),
            tuple(news.grown),
            self._is_whole,
            self._trouble,
            self._looked_at,
            len(self._unstarted),
        )

    # What is to be looked at

    def _hear(self) -> None:
        """What was asked, what has changed, what is due again."""
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            pass
        while self._asked:
            self._heed(*self._asked.popleft())
        changed, now = self._watch.take(), boottime()
        for path in changed or ():
            self._note(path)
        was_lost = changed is None and self._watch.is_whole
        if was_lost or now >= self._next_round:
            self._begin_round(now)
        for run_id in [one for one, at in self._later.items() if at <= now]:
            del self._later[run_id]
            self._due[run_id] = None

    def _heed(self, verb: str, run_id: str) -> None:
        if verb == "answer":
            self._news.is_any = True
        elif verb == "look":
            self._due[run_id] = None
        elif verb == "open":
            self._outputs.open(run_id)
        else:
            self._outputs.close(run_id)

    def _note(self, path: str) -> None:
        run_id = run_id_of(self._home, path)
        if run_id is None:
            return
        if self._outputs.note(path):
            self._news.tell(self._news.grown, run_id)
            return
        is_marker = not path.startswith(self._home.runs_path)
        # A directory that is being made is no run yet: its marker comes when it is.
        if is_marker or run_id in self.rows or run_id in self._active:
            self._due[run_id] = None
            self._later[run_id] = boottime() + _RELEASE_SECONDS

    def _begin_round(self, now: float) -> None:
        """Look at every active run, and for what nothing told of."""
        self._next_round = now + (LOOK_SECONDS if self._watch.is_whole else _UNWATCHED_SECONDS)
        if self._window is not None:
            self._selection = self._selection.replace(since=time.time() - self._window)
        try:
            self._find()
        except HoldfastError as error:
            self._set_trouble(error)
            return
        except OSError as error:
            why = f"the state directory {self._home.path} can't be read: {error.strerror}"
            self._set_trouble(HomeUnusable(why, path=self._home.path))
            return
        self._set_trouble(None)
        self._looked_at = time.time()
        self._due.update(dict.fromkeys(self._active))
        for run_id in self._outputs.look():
            self._news.tell(self._news.grown, run_id)
        if now >= self._next_clearing:
            self._next_clearing = now + _OLD_SECONDS
            self._drop_old()

    def _set_trouble(self, error: HoldfastError | None) -> None:
        if str(error) != str(self._trouble):
            self._trouble = error
            self._news.is_any = True

    def _find(self) -> None:
        """What came and went, where the folders changed since they were listed."""
        home = self._home
        if not home.check():
            self._due.update(dict.fromkeys(self.rows))  # a look shows that they are gone
            self._folders.forget()
            self._set_whole()
            return
        history = home.runs_path if self._window is None else home.recent_path
        folders = (home.active_path, home.recent_path, home.runs_path)
        for path in folders:
            self._watch.add(path)
        changed = self._folders.take(folders)
        if home.active_path in changed:
            fresh = set(home.run_ids(active=True)).difference(self._active)
            self._due.update(dict.fromkeys(sorted(fresh, reverse=True)))
        if history in changed:
            self._read_ended(self._ended_ids())
        elif self._history is None and not self._is_whole:
            self._history = iter(())  # there is no such folder yet: nothing has ended
        if home.runs_path in changed:
            there = home.entries()
            self._due.update((run_id, None) for run_id in self.rows if run_id not in there)

    def _ended_ids(self) -> set[str]:
        if self._window is None:
            return self._home.entries()
        return set(self._home.recent_ids(time.time() - self._window))

    def _read_ended(self, ids: set[str]) -> None:
        fresh = {one for one in ids if one not in self.rows and one not in self._unshown}
        fresh.difference_update(self._active)
        found = select_runs(self._home, ids=fresh, closely=False) if fresh else iter(())
        self._history = found if self._history is None else chain(self._history, found)

    def _drop_old(self) -> None:
        since = self._selection.since or 0.0
        old = [one.id for one in self.rows.values() if one.ended and one.ended < since]
        for run_id in old:
            self._hide(run_id)

    # Looks

    def _work(self) -> None:
        """For a moment; what is going on comes before what has ended."""
        ends = time.monotonic() + _SLICE_SECONDS
        while self._is_busy:
            if self._due:
                run_id = next(iter(self._due))
                del self._due[run_id]
                self._look_at(run_id)
            elif self._history is not None:
                self._read_on(self._history)
            if time.monotonic() >= ends:
                return

    def _read_on(self, history: Iterator[RunInfo]) -> None:
        try:
            info = next(history, None)
        except (HoldfastError, OSError):  # the next round says why, and lists again
            self._history = None
            self._folders.forget()
            return
        if info is None:
            self._history = None
            self._set_whole()
        elif info.is_active or _has_left_something(info):
            self._due[info.id] = None
        else:
            self._show(info, row_of(info))

    def _set_whole(self) -> None:
        self._news.is_any = self._news.is_any or not self._is_whole
        self._is_whole = True

    def _look_at(self, run_id: str) -> None:
        run = self._active.get(run_id) or LiveRun(RunDirectory(self._home, run_id))
        try:
            run.look()
        except RunNotFound:
            self._let_go(run_id)
            self._hide(run_id)
            self._unshown.discard(run_id)
            self._unstarted.discard(run_id)
            return
        except (HoldfastError, OSError):  # it changed under the look: the next one tells
            self._later[run_id] = boottime() + _UNWATCHED_SECONDS
            return
        if run.is_final:
            self._let_go(run_id)
        else:
            self._active[run_id] = run
            self._watch_run(run.directory)
        if run.info is not None and run.row is not None and run.row is not self.rows.get(run_id):
            self._show(run.info, run.row)

    def _watch_run(self, directory: RunDirectory) -> None:
        """Its events; the directory until there are any."""
        if self._watch.add(directory.events_path):
            self._watch.remove(directory.path)
        else:
            self._watch.add(directory.path)

    def _let_go(self, run_id: str) -> None:
        self._later.pop(run_id, None)
        if self._active.pop(run_id, None) is not None:
            directory = RunDirectory(self._home, run_id)
            self._watch.remove(directory.events_path)
            self._watch.remove(directory.path)

    def _show(self, info: RunInfo, row: Row) -> None:
        is_unstarted = self._is_plain and failed_at_once(info)
        if is_unstarted and info.id not in self._unstarted:
            self._unstarted.add(info.id)
            self._news.is_any = True
        if is_unstarted or not self._selection.fits(info):
            self._hide(info.id)
            if not info.is_active:
                self._unshown.add(info.id)
            return
        before, self.rows[info.id] = self.rows.get(info.id), row
        if before != row:
            self._news.gone.pop(info.id, None)
            self._news.tell(self._news.changed, info.id)

    def _hide(self, run_id: str) -> None:
        if self.rows.pop(run_id, None) is not None:
            self._news.changed.pop(run_id, None)
            self._news.tell(self._news.gone, run_id)


def _has_left_something(info: RunInfo) -> bool:
    """Whether it ended, and a look may show something else later."""
    return info.is_recorded is False or info.has_survivors
