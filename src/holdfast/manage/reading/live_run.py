"""One run of the live model. A look costs little where nothing happened: some stats and its lock.

Its record is read again when its files or its lock changed, and at every look while only a look
can tell how it stands (queued, orphaned, unknown). Takes no lock and writes nothing.
"""

from __future__ import annotations

import os

from holdfast.manage.info import examine_run, read_figures
from holdfast.manage.words.views import NO_FIGURES, row_of, row_with_figures
from holdfast.process.clock import boottime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.info import RunInfo
    from holdfast.manage.state import RunView
    from holdfast.manage.words.views import Row
    from holdfast.run.directory import RunDirectory

    Seen = tuple[int, int, int] | None  # of a file: which one, its size, when it was written to
    Stamp = tuple[Seen, Seen, bool]  # of spec and events, and whether the lock is held

_STALE_SECONDS = 5.0  # then figures of which no newer ones came are looked at again


class LiveRun:
    """One run, and what the last look at it showed."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self.info: RunInfo | None = None  # when its record was last read: its figures may be older
        self.row: Row | None = None
        self._view: RunView | None = None  # None: its spec can't be read
        self._stamp: Stamp | None = None
        self._trace: Seen = None
        self._outputs: tuple[Seen, ...] = ()
        self._refreshed_at = 0.0

    @property
    def is_final(self) -> bool:
        """Whether nothing about it changes any more, its removal aside."""
        return self._view is not None and self._view.is_final and not _has_survivors(self.info)

    def look(self) -> None:
        """See how it is now. RunNotFound when there is no such run any more."""
        directory, info, row, view = self.directory, self.info, self.row, self._view
        # Before the record is read: what is written meanwhile shows at the next look.
        stamp, trace, outputs = _stamp(directory), _seen(directory.trace_path), self._outputs_seen()
        if (
            info is None
            or row is None
            or view is None
            or stamp != self._stamp
            or not _is_calm(info, stamp)
        ):
            self._examine(stamp)
        elif outputs != self._outputs or _is_another(trace, self._trace) or self._is_stale(row):
            self.row = row_with_figures(row, *read_figures(view))
        elif trace == self._trace:
            return
        # Of a trace that was written over, the figures hold on (decision 68).
        self._trace, self._outputs, self._refreshed_at = trace, outputs, boottime()

    def _examine(self, stamp: Stamp) -> None:
        info, self._view = examine_run(self.directory, closely=False, since=self._since(stamp))
        self.info, self.row, self._stamp = info, row_of(info), stamp

    def _outputs_seen(self) -> tuple[Seen, ...]:
        wanted = (self.info.wanted if self.info is not None else None) or {}
        seen = (_seen(self.directory.output_path),)
        return (*seen, _seen(self.directory.stderr_path)) if wanted.get("split_stderr") else seen

    def _since(self, stamp: Stamp) -> RunView | None:
        """The last look, if what it has read is still there."""
        if self._stamp is None:
            return None
        (spec, events, _), (spec_now, events_now, _) = self._stamp, stamp
        if spec != spec_now or events is None or events_now is None:
            return None
        is_longer = events[0] == events_now[0] and events[1] <= events_now[1]
        return self._view if is_longer else None

    def _is_stale(self, row: Row) -> bool:
        return row.figures != NO_FIGURES and boottime() - self._refreshed_at > _STALE_SECONDS


def _has_survivors(info: RunInfo | None) -> bool:
    return info is not None and info.has_survivors


def _is_calm(info: RunInfo, stamp: Stamp) -> bool:
    """Whether all that can change about it, figures aside, shows in its stamp."""
    is_locked = stamp[2]
    return (
        is_locked
        and info.state.is_under_way
        and not _has_survivors(info)
        and (info.wanted or {}).get("notify") is None
    )


def _stamp(directory: RunDirectory) -> Stamp:
    """What changes whenever the record of a supervised run does."""
    try:
        is_locked = directory.lock_is_held()
    except OSError:  # the record is read then, which tells why
        is_locked = False
    return _seen(directory.spec_path), _seen(directory.events_path), is_locked


def _is_another(trace: Seen, before: Seen) -> bool:
    """Whether there are other samples than there were: a row that goes on keeps its length."""
    return (trace and trace[:2]) != (before and before[:2])


def _seen(path: str) -> Seen:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
