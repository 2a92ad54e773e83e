"""Which runs there are, newest first. Takes no run's lock and changes no run.

Active runs, and those that ended within a day, are found by their markers: that costs the same
however long the history is. All the rest is found through the index, which is made as it is read.
"""

from __future__ import annotations

import heapq
import os
from itertools import islice

from holdfast.errors import RunNotFound
from holdfast.manage.info import RunInfo, describe_run, examine_run, judge_cleanup
from holdfast.manage.process_info import process_info
from holdfast.manage.selection import Selection
from holdfast.process.clock import iso_time
from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Verdict
from holdfast.run.directory import RunDirectory
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from holdfast.manage.index import Index
    from holdfast.manage.index_rows import IndexRow
    from holdfast.manage.reading.digests import Digests
    from holdfast.manage.reading.kept_runs import KeptRuns
    from holdfast.manage.reading.runs_stamp import RunsStamp
    from holdfast.manage.state import RunView
    from holdfast.run.home import Home

    Place = tuple[int, str, str]
    Answer = TypeVar("Answer")

_READ_DIRECTLY = 48
_MANY_BYTES = 4 << 20  # of an index, with a thousand runs or more: their listing takes its time


def list_runs(
    home: Home,
    selection: Selection | None = None,
    *,
    limit: int | None = None,
    closely: bool = True,
) -> list[RunInfo]:
    """The runs that fit, newest first."""
    return list(islice(select_runs(home, selection, closely=closely), limit))


def select_runs(
    home: Home,
    selection: Selection | None = None,
    *,
    by_end: bool = False,
    closely: bool = True,
    ids: set[str] | None = None,
    kept: KeptRuns | None = None,
    digests: Digests | None = None,
) -> Iterator[RunInfo]:
    """The runs that fit, one by one, newest first.

    `by_end`: what is going on first, then what ended last. `closely=False` may leave out the
    command and what processes do now: enough for a table. `ids`: of these alone. `kept`: what
    earlier listings have read, for a program that lists often. `digests`: what the last list of
    another process has read of running runs.
    """
    if not home.check():
        return
    selection = selection or Selection()
    if ids is None:
        ids = selection.marked_candidates(home)
    stamp = _stamp_of_many(home) if ids is None else None
    if ids is None and stamp is None:
        ids = selection.candidates(home)
    if ids is not None and are_few(home, ids):
        read = (
            _examine(RunDirectory(home, one), closely, digests)[0] for one in _newest_first(ids)
        )
        found = (info for info in read if info is not None and selection.fits(info))
        yield from sorted(found, key=place_of, reverse=True) if by_end else found
        return
    from holdfast.manage.index import Index

    with Index(home) as index:
        listing = _Listing(home, index, selection, closely, kept=kept, digests=digests)
        if ids is None and stamp is not None:
            ids = listing.unless_listed(stamp)
        yield from listing.runs(ids, by_end)


def are_few(home: Home, ids: set[str]) -> bool:
    """Whether these are read sooner than SQLite is loaded: it knows nothing of active runs."""
    active = home.run_ids(active=True) if len(ids) > _READ_DIRECTLY else ()
    return len(ids) - len(ids.intersection(active)) <= _READ_DIRECTLY


def ask_index(
    home: Home, ids: set[str], ask: Callable[[Index], Answer], selection: Selection | None = None
) -> tuple[Answer, list[RunInfo]]:
    """What the index says when every ended run has its row; and the runs without one that fit."""
    from holdfast.manage.index import Index, IndexLost

    with Index(home) as index:
        listing = _Listing(home, index, selection or Selection(), closely=False)
        losses = 0
        while True:
            try:
                held = listing.settled(ids)
                return ask(index), held
            except IndexLost:
                losses += 1
                if losses > 1:
                    index.become_private()


def ask_listed(
    home: Home, ask: Callable[[Index], Answer], selection: Selection
) -> tuple[Answer, list[RunInfo]] | None:
    """Like `ask_index`, of all runs and without listing them; None: that can't be done now.

    An earlier listing must stand: then all rows are those of runs that are there. None also where a
    run came or went meanwhile.
    """
    stamp = _stamp_of_many(home)
    if stamp is None:
        return None
    from holdfast.manage.index import Index, IndexLost

    with Index(home) as index:
        listing = _Listing(home, index, selection, closely=False)
        try:
            if not listing.is_listed(stamp):
                return None
            held = listing.settled(None)
            answer = ask(index)
            stands = index.listed_without_row(stamp, ()) is not None
        except IndexLost:
            return None
    return (answer, held) if stands and stamp.still_holds(home) else None


def _stamp_of_many(home: Home) -> RunsStamp | None:
    """What `runs/` is known by, where listing it would take its time."""
    if home.index_bytes() < _MANY_BYTES:
        return None
    from holdfast.manage.reading.runs_stamp import RunsStamp

    return RunsStamp.of(home)


def place_of(info: RunInfo) -> Place:
    """What needs a person first, then what is going on, the newest first; then what ended last.

    Sorts in reverse.
    """
    return (
        info.is_active + (info.attention is not None),
        info.ended_at or info.created_at or "",
        info.id,
    )


def _newest_first(ids: Iterable[str]) -> list[str]:
    return sorted(filter(is_id, ids), reverse=True)


class _Listing:
    """One listing through the index.

    A run that has a row is looked at only where the row fits: an ending does not change. Each that
    is given was compared with its directory; what has no row is read.
    """

    def __init__(
        self,
        home: Home,
        index: Index,
        selection: Selection,
        closely: bool,
        *,
        kept: KeptRuns | None = None,
        digests: Digests | None = None,
    ) -> None:
        self._home = home
        self._index = index
        self._selection = selection
        self._closely = closely
        self._kept = kept
        self._digests = digests
        self._without_row: set[str] = set()  # where no ids are given: all others have rows
        self._stamp: RunsStamp | None = None  # that the ids stand for

    def unless_listed(self, stamp: RunsStamp) -> set[str] | None:
        """The ids of all runs; None: an earlier listing still stands, and the rows are all."""
        if self.is_listed(stamp):
            return None
        ids = self._selection.candidates(self._home)
        if stamp.is_quiet and stamp.still_holds(self._home):
            self._stamp = stamp
        return ids

    def is_listed(self, stamp: RunsStamp) -> bool:
        """Whether an earlier listing still stands: the ids of all runs are None then."""
        active = self._home.run_ids(active=True)
        without_row = self._index.listed_without_row(stamp, active)
        if without_row is not None:
            self._without_row = without_row
        return without_row is not None

    def runs(self, ids: set[str] | None, by_end: bool) -> Iterator[RunInfo]:
        """Those of these ids that fit; None: of all, as `unless_listed` has it."""
        from holdfast.manage.index import IndexLost

        given: set[str] = set()
        losses = 0
        while True:
            try:
                for info in (self._by_end if by_end else self._by_id)(ids):
                    if info is not None and info.id not in given and self._selection.fits(info):
                        given.add(info.id)
                        yield info
                return
            except IndexLost:  # damaged, or gone: it is made anew, and at last done without
                losses += 1
                ids = (self._selection.candidates(self._home) if ids is None else ids) - given
                self._stamp = None
                if losses > 1:
                    self._index.become_private()

    def _by_id(self, ids: set[str] | None) -> Iterator[RunInfo | None]:
        """Newest first, as far as the caller wants: no more is read than that."""
        unsettled = self._unsettled(ids)
        rows = ((row.id, row) for row in self._index.rows(self._selection, by_end=False))
        others = ((run_id, None) for run_id in unsettled)
        merged: Iterator[tuple[str, IndexRow | None]] = heapq.merge(
            rows, others, key=lambda one: one[0], reverse=True
        )
        for run_id, row in merged:
            info = self._examined(run_id)[0] if row is None else self._of_row(row, ids)
            if self._index.is_full:
                self._index.store()
            yield info

    def _unsettled(self, ids: set[str] | None) -> list[str]:
        """Those without a row."""
        return _newest_first(self._without_row if ids is None else self._index.without_row(ids))

    def _by_end(self, ids: set[str] | None) -> Iterator[RunInfo | None]:
        """The order is not known before all are: what has no row is read first."""
        held = sorted(self.settled(ids), key=place_of, reverse=True)
        rows = self._index.rows(self._selection, by_end=True)
        placed = ((_place_of_row(row), row, None) for row in rows)
        others = ((place_of(info), None, info) for info in held)
        merged: Iterator[tuple[Place, IndexRow | None, RunInfo | None]] = heapq.merge(
            placed, others, key=lambda one: one[0], reverse=True
        )
        for _, row, info in merged:
            yield info if row is None else self._of_row(row, ids)

    def settled(self, ids: set[str] | None) -> list[RunInfo]:
        """Give every ended run its row; those that have not ended for good, and fit."""
        held, without_row = [], set()
        for run_id in self._unsettled(ids):
            info, is_kept = self._examined(run_id)
            if not is_kept:
                without_row.add(run_id)
            if info is not None and not is_kept and self._selection.fits(info):
                held.append(info)
            if self._index.is_full:
                self._index.settle()
        self._index.settle()
        if ids is not None and self._stamp is not None:
            self._index.note_listing(self._stamp, ids, without_row)
        return held

    def _of_row(self, row: IndexRow, ids: set[str] | None) -> RunInfo | None:
        from holdfast.manage.index_rows import stamp_of

        directory = RunDirectory(self._home, row.id)
        stamp = stamp_of(directory)
        if stamp is None:
            self._index.remove([row.id])
        if stamp is None or (ids is not None and row.id not in ids):
            return None
        if row.stamp != stamp:
            return self._read(row.id)
        if not self._selection.can_be_ended:
            return None
        kept = self._kept
        known = None if kept is None else kept.get(row.id, stamp)
        known = known or self._index.info(row)
        if known is None:
            return self._read(row.id)
        known = _with_cleanup(known)
        looked = _look_again(known, directory) if self._closely else known
        if kept is not None:
            kept.keep(looked, stamp)
        return looked

    def _read(self, run_id: str) -> RunInfo | None:
        """From its directory, since its row does not count any more."""
        info, is_kept = self._examined(run_id)
        if not is_kept:
            self._index.remove([run_id])
        return info

    def _examined(self, run_id: str) -> tuple[RunInfo | None, bool]:
        """The run, and whether the index has it from now on."""
        from holdfast.manage.index_rows import stamp_of

        directory = RunDirectory(self._home, run_id)
        stamp = stamp_of(directory)
        info, view = _examine(directory, self._closely, self._digests)
        if info is None or view is None or not view.is_final or stamp is None:
            return info, False
        if not self._closely:  # once: the index has it from then on
            info = describe_run(view)
        self._index.add(_for_good(info), stamp)
        return info, True


def _place_of_row(row: IndexRow) -> Place:
    return (0, row.at, row.id)


def _examine(
    directory: RunDirectory, closely: bool, digests: Digests | None = None
) -> tuple[RunInfo | None, RunView | None]:
    """The run, and the look that was made at it, if it needed one."""
    try:
        if digests is not None and not closely:
            return digests.examine(directory)
        return examine_run(directory, closely=closely)
    except RunNotFound:  # never made, or removed since it was listed
        return None, None


def _for_good(info: RunInfo) -> RunInfo:
    """Without verdicts, which hold only at the time of the look."""

    def unlooked(document: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if document is None else {**document, "verdict": None}

    return info.replace(
        shim=unlooked(info.shim),
        workload=None if info.workload is None else info.workload.replace(verdict=None),
        wrappers=[wrapper.replace(verdict=None) for wrapper in info.wrappers],
    )


def _with_cleanup(info: RunInfo) -> RunInfo:
    cleanup = judge_cleanup(info.cleanup)
    return info if cleanup is info.cleanup else info.replace(cleanup=cleanup)


def _look_again(info: RunInfo, directory: RunDirectory) -> RunInfo:
    """What may change of an ended run: verdicts, and the output of leftovers that were kept. The
    same object: nothing has."""
    try:
        log = os.stat(directory.output_path)
        size, at = log.st_size, iso_time(log.st_mtime) if log.st_size else None
    except OSError:
        size, at = None, None
    if (size, at) == (info.log_bytes, info.last_output_at) and _are_as_before(info):
        return info
    shim = info.shim
    if shim is not None:
        shim = {**shim, "verdict": ProcessIdentity.from_json(shim).verdict().value}
    return info.replace(
        shim=shim,
        workload=None if info.workload is None else process_info(info.workload.to_json()),
        wrappers=[process_info(wrapper.to_json()) for wrapper in info.wrappers],
        log_bytes=size,
        last_output_at=at,
    )


def _are_as_before(info: RunInfo) -> bool:
    """Whether its processes are gone, each as the last look has said. What lives may change."""
    shim = info.shim
    processes = [one for one in (info.workload, *info.wrappers) if one is not None]
    said = [(one.token, one.verdict) for one in processes]
    said += [] if shim is None else [(shim["token"], shim["verdict"])]
    return all(
        verdict is not None
        and verdict != Verdict.SAME.value
        and ProcessIdentity.from_json({"token": token}).look().verdict.value == verdict
        for token, verdict in said
    )
