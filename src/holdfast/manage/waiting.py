"""Waiting for runs to end: a link to each shim, which hangs up when the shim is gone.

A run that is orphaned meanwhile is adopted; then the wait goes on. Where there are not enough
descriptors for a link to each, the locks of the others are looked at instead.
"""

from __future__ import annotations

from holdfast.errors import is_shortage
from holdfast.manage.adopting import Adopting
from holdfast.manage.info import RunInfo, read_run
from holdfast.manage.link import Link, open_link
from holdfast.manage.standing import stand
from holdfast.manage.steps import Wait, room_for
from holdfast.manage.stopping import unproven
from holdfast.manage.vanished import refuse_vanished
from holdfast.process.clock import boottime
from holdfast.run.facts import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.manage.steps import Steps
    from holdfast.run.directory import RunDirectory

_LOOK_SECONDS = 5.0  # a link can't tell of a run directory that was removed
_POLL_SECONDS = 0.25  # between looks at the locks of runs for which there is no link
_SOON_SECONDS = 0.02


def wait_for_runs(
    directories: Sequence[RunDirectory], *, any_of: bool = False, timeout: float | None = None
) -> Steps[list[RunInfo]]:
    """Until all runs (or one of them) have a recorded ending, or the time is over."""
    deadline = None if timeout is None else boottime() + timeout
    waiting = dict.fromkeys(directories)
    over: dict[RunDirectory, RunInfo] = {}  # as found then: one may be removed before all are over
    watch = _Watch()
    try:
        while True:
            for directory in list(waiting):
                if (yield from watch.is_over(directory)):
                    del waiting[directory]
                    over[directory] = read_run(directory)
            if not waiting or (any_of and len(waiting) < len(directories)):
                break
            left = None if deadline is None else deadline - boottime()
            if left is not None and left <= 0:
                break
            yield from watch.pause(left)
    finally:
        watch.close()
    return [over.get(directory) or read_run(directory) for directory in directories]


class _Watch:
    """What one wait has open and has started."""

    def __init__(self) -> None:
        self._links: dict[RunDirectory, Link] = {}
        self._most_links = room_for(descriptors=1)
        self._adopting: dict[RunDirectory, Adopting] = {}
        self._longest = _LOOK_SECONDS  # until somebody has to be looked at again

    def close(self) -> None:
        for link in self._links.values():
            link.__exit__()
        self._links.clear()

    def is_over(self, directory: RunDirectory) -> Steps[bool]:
        """Whether the run's ending is recorded; whatever is needed to get there is begun."""
        if directory in self._links:
            return False  # its shim is there: nothing to look at
        try:
            if len(self._links) >= self._most_links and directory.lock_is_held():
                self._longest = min(self._longest, _POLL_SECONDS)
                return False
            self._longest = _SOON_SECONDS
            return (yield from self._look(directory))
        except OSError as error:
            if not is_shortage(error) or not self._links:
                raise
            self._give_way()
            return False

    def _look(self, directory: RunDirectory) -> Steps[bool]:
        refuse_vanished(directory)
        spec = directory.read_spec()
        facts, standing = stand(directory, spec)
        if facts.has_ended:
            return True
        if standing.state is State.UNKNOWN:
            raise unproven(directory.id, standing)
        if not directory.lock_is_held():
            adopting = self._adopting.setdefault(directory, Adopting(directory))
            if standing.state is State.STARTING and facts.restart is None:
                yield from adopting.adopt_unless_starting(spec.name)
            else:
                yield from adopting.adopt()
            return stand(directory, spec)[0].has_ended
        link = open_link(directory.path)
        if link is not None:
            self._links[directory] = link
            yield from link.ask({"do": "subscribe"})
        return False

    def _give_way(self) -> None:
        """No descriptor is left: hold half as many."""
        self._most_links = max(1, len(self._links) // 2)
        while len(self._links) > self._most_links:
            self._links.popitem()[1].__exit__()

    def pause(self, left: float | None) -> Steps[None]:
        """Wait for any link to hang up; a run without a link is looked at again soon."""
        longest, self._longest = self._longest, _LOOK_SECONDS
        seconds = longest if left is None else min(left, longest)
        ready = yield Wait(tuple(link.fd for link in self._links.values()), seconds)
        for directory, link in list(self._links.items()):
            if (link.fd in ready and not link.drain()) or not directory.exists():
                self._links.pop(directory).__exit__()
