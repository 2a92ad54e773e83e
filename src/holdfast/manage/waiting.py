"""Waiting for runs to end: a link to each shim, which hangs up when the shim is gone.

A run that is orphaned meanwhile is adopted; then the wait goes on.
"""

from __future__ import annotations

from holdfast.manage.info import RunInfo, read_run, stand
from holdfast.manage.launch import start_shim
from holdfast.manage.link import Link, open_link
from holdfast.manage.steps import Wait
from holdfast.manage.stopping import unproven
from holdfast.process.clock import boottime
from holdfast.run.facts import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.manage.steps import Steps
    from holdfast.run.directory import RunDirectory

_LOOK_SECONDS = 5.0  # a link can't tell of a run directory that was removed
_SOON_SECONDS = 0.02


def wait_for_runs(
    directories: Sequence[RunDirectory], *, any_of: bool = False, timeout: float | None = None
) -> Steps[list[RunInfo]]:
    """Until all runs (or one of them) have a recorded ending, or the time is over."""
    deadline = None if timeout is None else boottime() + timeout
    waiting = dict.fromkeys(directories)
    links: dict[RunDirectory, Link] = {}
    try:
        while True:
            for directory in list(waiting):
                if (yield from _is_over(directory, links)):
                    del waiting[directory]
            if not waiting or (any_of and len(waiting) < len(directories)):
                break
            left = None if deadline is None else deadline - boottime()
            if left is not None and left <= 0:
                break
            yield from _pause(waiting, links, left)
    finally:
        for link in links.values():
            link.__exit__()
    return [read_run(directory) for directory in directories]


def _is_over(directory: RunDirectory, links: dict[RunDirectory, Link]) -> Steps[bool]:
    if directory in links:
        return False  # its shim is there: nothing to look at
    facts, standing = stand(directory, directory.read_spec())
    if facts.has_ended:
        return True
    if standing.state is State.UNKNOWN:
        raise unproven(directory.id, standing)
    is_starting = standing.state is State.STARTING and facts.restart is None
    if not directory.lock_is_held() and not is_starting:
        yield from start_shim("adopt", directory.path)
        return stand(directory, directory.read_spec())[0].has_ended
    link = open_link(directory.path)
    if link is not None:
        yield from link.ask({"do": "subscribe"})
        links[directory] = link
    return False


def _pause(
    waiting: dict[RunDirectory, None], links: dict[RunDirectory, Link], left: float | None
) -> Steps[None]:
    """Wait for any link to hang up; a run without a link is looked at again soon."""
    longest = _LOOK_SECONDS if all(directory in links for directory in waiting) else _SOON_SECONDS
    seconds = longest if left is None else min(left, longest)
    ready = yield Wait(tuple(link.fd for link in links.values()), seconds)
    for directory, link in list(links.items()):
        if (link.fd in ready and not link.drain()) or not directory.exists():
            link.__exit__()
            del links[directory]
