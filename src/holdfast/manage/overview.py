"""The list of runs that people see: which ones, in what order, how many are left out.

`ls` prints it; every other interface shows the same rows.
"""

from __future__ import annotations

import time
from itertools import islice

from holdfast.errors import HoldfastError
from holdfast.manage.info import read_run
from holdfast.manage.listing import place_of, select_runs
from holdfast.manage.selection import Selection
from holdfast.manage.words.views import failed_at_once, hints, is_odd, summary
from holdfast.run.directory import RunDirectory
from holdfast.run.units import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.manage.info import RunInfo
    from holdfast.run.facts import State
    from holdfast.run.home import Home

WINDOW = "24h"  # of ended runs, those that ended lately
_MANY = 16  # active runs; fewer are read as soon as what was kept of them


class Overview:
    """One look at the runs of a home, given one by one: a history is never in memory whole.

    What is going on comes first, then what ended last, up to a limit. `window`: how long ago a run
    may have ended; None: ever. `closely`: see `select_runs`. `ids`: these runs too, besides those
    that the names of the selection have; without names, these alone. `is_plain`: less the starts
    that failed at once, which whoever started them was told.
    """

    def __init__(
        self,
        home: Home,
        selection: Selection | None = None,
        *,
        window: str | None = WINDOW,
        limit: int | None = None,
        closely: bool = False,
        ids: Sequence[str] = (),
        is_plain: bool = False,
    ) -> None:
        self._home = home
        self._selection = selection or Selection()
        self._window = window
        self._limit = limit
        self._closely = closely
        self._ids = ids
        self._is_plain = is_plain
        self._unstarted = 0  # left out
        self._since = None if window is None else time.time() - parse_duration(window, "--since")
        self._states: list[State] = []
        self._odd: list[RunInfo] = []  # about which something is to be done

    def __iter__(self) -> Iterator[RunInfo]:
        for info in islice(self._shown(), self._limit):
            self._states.append(info.state)
            if is_odd(info):
                self._odd.append(info)
            yield info

    def _shown(self) -> Iterator[RunInfo]:
        for info in self._found():
            if self._is_plain and failed_at_once(info):
                self._unstarted += 1
            else:
                yield info

    def _found(self) -> Iterator[RunInfo]:
        selection = self._selection.replace(since=self._since)
        named: Iterator[RunInfo] = iter(())
        if selection.names is not None or not self._ids:
            named = self._selected(selection)
        if not self._ids:
            return named
        by_id = {info.id: info for info in self._by_id(selection.replace(names=None))}
        by_id.update((info.id, info) for info in named)
        return iter(sorted(by_id.values(), key=place_of, reverse=True))

    def _selected(self, selection: Selection) -> Iterator[RunInfo]:
        if self._closely or len(self._home.run_ids(active=True)) < _MANY:
            return select_runs(self._home, selection, by_end=True, closely=self._closely)
        from holdfast.manage.reading.digests import Digests

        digests = Digests(self._home)
        found = select_runs(self._home, selection, by_end=True, closely=False, digests=digests)
        return digests.stored_after(found)

    def _by_id(self, rest: Selection) -> Iterator[RunInfo]:
        for run_id in self._ids:
            info = read_run(RunDirectory(self._home, run_id), closely=self._closely)
            if rest.fits(info):
                yield info

    def summary(self) -> str:
        """What was given, in one line."""
        window = self._window or ""
        return summary(self._states, window=window, older=self._older(), unstarted=self._unstarted)

    def hints(self) -> list[str]:
        """What should be done about that."""
        return hints(self._odd)

    def _older(self) -> int:
        shown = len(self._states)
        if self._window is None or shown == self._limit or self._selection.is_narrow:
            return 0
        return max(0, self._home.count_runs() - shown - self._unstarted)

    def command_of(self, info: RunInfo) -> str:
        """What a run runs, without secrets; empty: not known."""
        from holdfast.shell_words import command_line

        command = info.command
        if command is None:  # left out where it was not looked at closely
            try:
                command = RunDirectory(self._home, info.id).read_spec().public_command
            except (HoldfastError, OSError):
                return ""
        return command_line(command)
