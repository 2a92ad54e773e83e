"""Which runs there are, newest first. Takes no run's lock and changes no run.

Active runs, and those that ended within a day, are found by their markers: that costs the same
however long the history is. All the rest is found through the index, which is made as it is read.
"""

from __future__ import annotations

import os
import time

from holdfast.errors import InvalidOption, RunNotFound
from holdfast.manage.info import RunInfo, examine_run, judge_cleanup, process_info
from holdfast.process.clock import iso_time, seconds_of
from holdfast.process.identity import ProcessIdentity
from holdfast.record import Record
from holdfast.run.directory import RunDirectory
from holdfast.run.facts import State
from holdfast.run.home import RECENT_SECONDS, RECENT_SLACK_SECONDS
from holdfast.run.outcomes import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from holdfast.manage.index import Index
    from holdfast.run.home import Home

_MARKED = (State.STARTING, State.RUNNING, State.STOPPING, State.ORPHANED)
_READ_DIRECTLY = 48  # so many directories are read sooner than SQLite is loaded
_CHUNK = 512


class Selection(Record):
    """What a run must be to be listed. None: anything."""

    active: bool | None = None
    outcome: str | None = None
    state: str | None = None
    agent: str | None = None
    tags: Mapping[str, str] | None = None
    since: float | None = None  # seconds since the epoch

    def fits(self, info: RunInfo) -> bool:
        """Whether the run is one of them."""
        return (
            (self.active is None or info.is_active is self.active)
            and (self.outcome is None or info.outcome == self.outcome)
            and (self.state is None or info.state == self.state)
            and (self.agent is None or info.agent == self.agent)
            and all(info.tags.get(name) == value for name, value in (self.tags or {}).items())
            and self._is_since(info)
        )

    @property
    def is_recent(self) -> bool:
        """Whether nothing older than a day is asked for."""
        oldest = time.time() - RECENT_SECONDS - RECENT_SLACK_SECONDS / 2
        return self.since is not None and self.since >= oldest

    def candidates(self, home: Home) -> list[str]:
        """The ids that can fit at all; oldest first."""
        if self.active or self.state in _MARKED:
            return home.run_ids(active=True)
        if self.since is not None and self.is_recent:
            return sorted({*home.run_ids(active=True), *home.recent_ids(self.since)})
        return sorted({*home.run_ids(), *home.run_ids(active=True)})

    def _is_since(self, info: RunInfo) -> bool:
        if self.since is None or info.is_active:
            return True
        # An ending that nobody saw has no time. What was found lately is news all the same.
        at = info.ended_at or (None if self.is_recent else info.last_output_at or info.created_at)
        return at is None or seconds_of(at) >= self.since


def list_runs(
    home: Home,
    *,
    active: bool | None = None,
    outcome: str | None = None,
    tags: Mapping[str, str] | None = None,
    since: float | None = None,
    limit: int | None = None,
    state: str | None = None,
    agent: str | None = None,
    closely: bool = True,
) -> list[RunInfo]:
    """The runs that fit, newest first. `since`: active, or ended at or after that time.

    `closely=False` may leave out the command and what processes do now: enough for a table.
    """
    if outcome is not None and outcome not in [*Outcome]:
        expected = ", ".join(Outcome)
        raise InvalidOption(
            f"outcome: {outcome!r} is none of {expected}",
            option="outcome",
            value=outcome,
            expected=expected,
        )
    if not home.check():
        return []
    selection = Selection(active, outcome, state, agent, tags, since)
    found: list[RunInfo] = []
    for info in read_runs(home, selection.candidates(home)[::-1], closely=closely):
        if limit is not None and len(found) >= limit:
            break
        if selection.fits(info):
            found.append(info)
    return found


def read_runs(home: Home, ids: Sequence[str], *, closely: bool = True) -> Iterator[RunInfo]:
    """What is known of each run, in the order given; those that are gone are left out."""
    # The index knows nothing of active runs: a hundred of those don't need SQLite.
    active = set(home.run_ids(active=True)) if len(ids) > _READ_DIRECTLY else set()
    if len(ids) - len(active.intersection(ids)) <= _READ_DIRECTLY:
        for run_id in ids:
            info, _ = _examine(RunDirectory(home, run_id), closely)
            if info is not None:
                yield info
        return
    from holdfast.manage.index import Index

    with Index(home) as index:
        try:
            for begin in range(0, len(ids), _CHUNK):
                yield from _through(index, home, ids[begin : begin + _CHUNK], closely)
        except GeneratorExit:
            return  # whoever asked has enough; what was read is kept
        if len(ids) >= home.count_runs():
            index.remove(index.ids().difference(home.run_ids()))


def _through(index: Index, home: Home, ids: Sequence[str], closely: bool) -> Iterator[RunInfo]:
    from holdfast.manage.index import info_from, stamp_of

    rows = index.read(ids)
    for run_id in ids:
        directory = RunDirectory(home, run_id)
        stamp = stamp_of(directory)
        row = rows.get(run_id)
        known = info_from(row[1]) if row is not None and row[0] == stamp else None
        if known is not None and known.id == run_id:
            known = known.replace(cleanup=judge_cleanup(known.cleanup))
            yield _look_again(known, directory) if closely else known
            continue
        info, is_final = _examine(directory, closely)
        if info is not None and is_final and stamp is not None:
            if not closely:  # once: the index has it from then on
                info, is_final = _examine(directory)
            if info is not None and is_final:
                index.add(_for_good(info), stamp)
        if info is not None:
            yield info


def _examine(directory: RunDirectory, closely: bool = True) -> tuple[RunInfo | None, bool]:
    try:
        return examine_run(directory, closely=closely)
    except RunNotFound:  # never made, or removed since it was listed
        return None, False


def _for_good(info: RunInfo) -> RunInfo:
    """Without verdicts, which hold only at the time of the look."""

    def unlooked(document: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if document is None else {**document, "verdict": None}

    return info.replace(
        shim=unlooked(info.shim),
        workload=None if info.workload is None else info.workload.replace(verdict=None),
        wrappers=[wrapper.replace(verdict=None) for wrapper in info.wrappers],
    )


def _look_again(info: RunInfo, directory: RunDirectory) -> RunInfo:
    """What is not for good in an ended run: whose PID is whose, and output of what was kept."""
    try:
        log = os.stat(directory.output_path)
        size, at = log.st_size, iso_time(log.st_mtime) if log.st_size else None
    except OSError:
        size, at = None, None
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
