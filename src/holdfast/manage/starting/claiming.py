"""Waiting for a name or key that another start holds, without blocking an event loop."""

from __future__ import annotations

from holdfast.errors import HoldfastError, LockBusy
from holdfast.manage.operations import Wait
from holdfast.process.clock import boottime
from holdfast.run.claims import Claim, claim_given_id, claim_key, claim_name, read_name
from holdfast.run.directory import RunDirectory
from holdfast.run.locks import WAIT_SECONDS
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps
    from holdfast.run.home import Home

_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.1


def wait_for_key(home: Home, key: str) -> Steps[Claim]:
    """The claim of a key; LockBusy when that takes too long."""
    return (yield from _wait(lambda: claim_key(home, key, 0), lambda _: None))


def wait_for_given_id(home: Home, run_id: str) -> Steps[Claim]:
    """The claim of an id that the run was given."""
    return (yield from _wait(lambda: claim_given_id(home, run_id, 0), lambda _: None))


def wait_for_name(home: Home, name: str, refuse: Callable[[RunInfo], None]) -> Steps[Claim]:
    """The claim of a name. Of many starts one wins; the others see that before they get it.

    `refuse` gets the run that the holder of the claim has started, once it lives (or, when the
    wait is over, while it is still starting), and may raise.
    """

    def look(time_is_up: bool) -> None:
        from holdfast.run.facts import State

        winner = _supervised_run(home, name)
        if winner is not None and (winner.state is not State.STARTING or time_is_up):
            refuse(winner)

    return (yield from _wait(lambda: claim_name(home, name, 0), look))


def _wait(take: Callable[[], Claim], look: Callable[[bool], object]) -> Steps[Claim]:
    deadline = boottime() + WAIT_SECONDS
    pause = _PAUSE_SECONDS
    while True:
        try:
            return take()
        except LockBusy:
            look(boottime() >= deadline)
            if boottime() >= deadline:
                raise
        yield Wait((), pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)


def _supervised_run(home: Home, name: str) -> RunInfo | None:
    """The name's latest run, if a shim holds its lock."""
    from holdfast.manage.info import read_run

    latest = read_name(home, name)
    if latest is None or not is_id(latest):
        return None
    directory = RunDirectory(home, latest)
    try:
        if not directory.lock_is_held():
            return None
        info = read_run(directory)
    except (HoldfastError, OSError):
        return None
    return info if info.state.is_supervised else None
