"""Waiting for runs to end: a link to each shim, which hangs up when the shim is gone.

A run that is orphaned meanwhile is adopted; then the wait goes on. Where there are not enough
descriptors for a link to each, the locks of the others are looked at instead.
"""

from __future__ import annotations

from holdfast.errors import RunNotFound, is_shortage
from holdfast.manage.adopting import Adopting, is_being_launched
from holdfast.manage.info import RunInfo, describe_run, read_run
from holdfast.manage.operations import room_for
from holdfast.manage.shim_client import ShimLink, open_link
from holdfast.manage.state import RunView, view_run
from holdfast.manage.stopping import unproven
from holdfast.manage.together import Watched
from holdfast.manage.vanished import refuse_vanished
from holdfast.process.clock import boottime
from holdfast.run.facts import State
from holdfast.run.units import seconds_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.manage.operations import Steps
    from holdfast.run.directory import RunDirectory

_LOOK_SECONDS = 5.0  # a link can't tell of a run directory that was removed
_POLL_SECONDS = 0.25  # between looks at the locks of runs for which there is no link
_POLL_SECONDS_EACH = 0.002  # of many: looking takes less than a hundredth of the time
_SOON_SECONDS = 0.02
_MOST_LINKS = 4096


def wait_for_runs(
    directories: Sequence[RunDirectory],
    *,
    any_of: bool = False,
    attention: bool = False,
    timeout: float | str | None = None,
) -> Steps[list[RunInfo]]:
    """Until all runs (or one of them) have a recorded ending, or the time is over.

    `attention`: or one of them needs a person.
    """
    deadline = None if timeout is None else boottime() + seconds_given(timeout, "timeout")
    wanted = list(dict.fromkeys(directories))
    over: dict[RunDirectory, RunInfo] = {}  # as found then: one may be removed before all are over
    watch = _Watch(wanted, hears=attention)
    try:
        while True:
            for directory in watch.to_look_at():
                ended = yield from watch.ended(directory)
                if ended is not None:
                    over[directory] = describe_run(ended)
            if len(over) == len(wanted) or (any_of and over) or watch.finds_attention():
                break
            left = None if deadline is None else deadline - boottime()
            if left is not None and left <= 0:
                break
            yield from watch.pause(left)
    finally:
        watch.close()
    return [over.get(directory) or read_run(directory) for directory in directories]


class _Watch:
    """What one wait has open and has started. A wake looks at the runs that it concerns."""

    def __init__(self, directories: Sequence[RunDirectory], *, hears: bool = False) -> None:
        """`hears`: each event of a run is a reason to look at it."""
        self._hears = hears
        self._heard: set[RunDirectory] = set()
        self._without_link = dict.fromkeys(directories)  # not over, and without a link
        self._fresh = set(directories)  # not looked at yet
        self._links: dict[RunDirectory, ShimLink] = {}
        self._by_fd: dict[int, RunDirectory] = {}
        self._watched = Watched()
        self._most_links = room_for(descriptors=1, most=_MOST_LINKS)
        self._adopting: dict[RunDirectory, Adopting] = {}
        self._views: dict[RunDirectory, RunView] = {}  # the last look at each
        self._longest = _LOOK_SECONDS  # until a run has to be looked at again
        self._looked_at = boottime()  # at the directories of all

    def close(self) -> None:
        for link in self._links.values():
            link.__exit__()
        self._links.clear()
        self._watched.close()

    def to_look_at(self) -> list[RunDirectory]:
        """Those without a link: the shims of the others are there."""
        return list(self._without_link)

    def ended(self, directory: RunDirectory) -> Steps[RunView | None]:
        """The run, once its ending is recorded; whatever is needed to get there is begun."""
        try:
            if len(self._links) >= self._most_links and directory.lock_is_held():
                seconds = max(_POLL_SECONDS, _POLL_SECONDS_EACH * len(self._without_link))
                self._longest = min(self._longest, seconds)
                return None
            if directory in self._fresh:
                self._fresh.discard(directory)
                if self._link(directory):
                    return None  # it hangs up at the end: nothing is read or asked before
            view = yield from self._look(directory)
        except OSError as error:
            if not is_shortage(error) or not self._links:
                raise
            self._give_way()
            return None
        if view is not None:
            del self._without_link[directory]
            del self._views[directory]  # of many it would be much memory
        elif directory in self._without_link:
            self._longest = _SOON_SECONDS
        return view

    def finds_attention(self) -> bool:
        """Whether one of those that were heard of and go on, or can't be heard, needs a person."""
        heard, self._heard = self._heard, set()
        found = [*(heard & self._links.keys()), *self._without_link] if self._hears else ()
        return any(describe_run(self._view(one)).attention is not None for one in found)

    def _look(self, directory: RunDirectory) -> Steps[RunView | None]:
        try:
            view = self._view(directory)
        except RunNotFound:
            refuse_vanished(directory)
            raise
        if view.facts.has_ended:
            return view
        refuse_vanished(directory)
        if view.standing.state is State.UNKNOWN:
            raise unproven(directory.id, view.standing)
        if not directory.lock_is_held():
            adopting = self._adopting.setdefault(directory, Adopting(directory))
            if is_being_launched(view):
                yield from adopting.adopt_unless_starting(view.spec.name)
            else:
                yield from adopting.adopt()
            view = self._view(directory)  # an adopter that finds it over records that at once
            return view if view.facts.has_ended else None
        self._link(directory)
        return None

    def _link(self, directory: RunDirectory) -> bool:
        link = open_link(directory.path)
        if link is None:
            return False
        self._watched.add(link.fd)
        self._links[directory], self._by_fd[link.fd] = link, directory
        del self._without_link[directory]
        if self._hears:
            link.send(b'{"do":"subscribe"}\n')  # the answer is the first that is heard
        return True

    def _hang_up(self, directory: RunDirectory) -> None:
        link = self._links.pop(directory)
        del self._by_fd[link.fd]
        self._watched.remove(link.fd)
        link.__exit__()
        self._without_link[directory] = None

    def _view(self, directory: RunDirectory) -> RunView:
        before = self._views.get(directory)
        view = view_run(directory, since=before, members=False, closely=False)
        self._views[directory] = view
        return view

    def _give_way(self) -> None:
        """No descriptor is left: hold half as many."""
        self._most_links = max(1, len(self._links) // 2)
        while len(self._links) > self._most_links:
            self._hang_up(next(reversed(self._links)))

    def pause(self, left: float | None) -> Steps[None]:
        """Wait for any link to hang up; a run without a link is looked at again soon."""
        longest, self._longest = self._longest, _LOOK_SECONDS
        seconds = longest if left is None else min(left, longest)
        ready = yield from self._watched.wait(seconds)
        for fd in ready:
            directory = self._by_fd[fd]
            self._heard.add(directory)
            if not self._links[directory].drain():
                self._hang_up(directory)
        if boottime() - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = boottime()
            for directory in [one for one in self._links if not one.exists()]:
                self._hang_up(directory)
