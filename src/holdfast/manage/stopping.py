"""Stopping a run: through its shim; round a shim that hangs; by an adopter when it is gone.

Done only when the tree is empty. Asking twice, or two asking at once, is as good as once.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, IdentityUnproven, Refused, Unavailable
from holdfast.lean import read_json
from holdfast.manage.operations import Wait, room_for
from holdfast.manage.shim_client import ShimLink, open_link
from holdfast.manage.starting.launch import start_shim
from holdfast.manage.state import RunView, Standing, read_facts, view_run
from holdfast.manage.vanished import refuse_vanished
from holdfast.process.clock import boottime
from holdfast.process.identity import ProcessIdentity
from holdfast.process.tree_stop import Cleanup
from holdfast.process.verdict import Verdict
from holdfast.record import Record
from holdfast.run.event_log import LoggedEvent
from holdfast.run.events import Kind
from holdfast.run.facts import RunFacts, State
from holdfast.run.inner_runs import InnerRuns
from holdfast.run.units import seconds_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.operations import Steps
    from holdfast.run.directory import RunDirectory

_CLEAN_UP_SECONDS = 15.0  # beyond the grace: freezing, killing, settling
_MOST_ASKED = 3  # a shim that says yes so often and does not end is taken over
_PING_SECONDS = 5.0
_MARKER_SECONDS = 2.0
_MOST_ADOPTERS = 3  # of which each died, or lost the run to another that died


class Stopped(Record):
    """What a stop came to."""

    was_over: bool  # it had ended before, and nothing was left to be signalled
    view: RunView  # the run after it
    had_ended: bool = False  # before, but something of it was left, and was signalled now

    @property
    def cleanup(self) -> Cleanup | None:
        """What was recorded about the clean-up; None: nothing."""
        recorded = self.view.facts.cleanup
        return None if recorded is None else Cleanup.from_json(recorded)


def stops_at_once() -> int:
    """How many runs may be stopped at once: each holds a link, or a pipe and a pidfd."""
    return room_for(descriptors=2)


def stop_run(
    directory: RunDirectory,
    *,
    grace_seconds: float | str | None = None,
    signal: str | None = None,
    cause: str = "user",
    view: RunView | None = None,
) -> Steps[Stopped]:
    """Stop the run's whole tree. IdentityUnproven when it is not known what is alive.

    Of a run that has ended: what survived it, or was kept (`--leftovers keep`); its ending stays.
    RunNotFound when it is removed meanwhile: then nothing of it was alive. `view`: a look of a
    moment ago, with its members.
    """
    grace = None if grace_seconds is None else seconds_given(grace_seconds, "grace")
    request = {"grace_seconds": grace, "signal": signal, "cause": cause, "by": _us()}
    steps = _stop(directory, request, view)
    try:
        return (yield from steps)
    except (HoldfastError, OSError):
        if directory.exists():
            raise
        refuse_vanished(directory)
        raise directory.not_found() from None


def _stop(directory: RunDirectory, request: dict[str, Any], view: RunView | None) -> Steps[Stopped]:
    was_over = True
    adopters = asked = 0
    reason: str | None = None
    view = view or view_run(directory, closely=False)
    while not view.facts.has_ended:
        if view.standing.state is State.UNKNOWN:
            raise unproven(directory.id, view.standing)
        if adopters >= _MOST_ADOPTERS:
            raise _not_taken_over(directory, reason)
        was_over = view.standing.state is State.ENDED
        if not directory.lock_is_held():
            adopters += 1
            reason = yield from _adopt(view, {"stop": request}, _grace(view, request))
        elif asked >= _MOST_ASKED or not (yield from _ask(view, request)):
            # It does not answer; or it answers, says that it stops, and never comes to an end.
            adopters += 1
            polite = _polite(view, request)
            hung = {"hung": True, "stop": polite}
            reason = yield from _adopt(view, hung, polite["grace_seconds"])
        asked += 1
        # The one look that tells what came of it: only now is the shim done, or gone.
        view = view_run(directory, since=view, closely=False)
        if not view.facts.has_ended and _has_survivors(view.facts):
            return Stopped(False, view)  # named, not done
    return (yield from _stop_the_rest(view, request)) if was_over else Stopped(False, view)


def _grace(view: RunView, request: dict[str, Any]) -> float:
    asked: float | None = request["grace_seconds"]
    return view.spec.wanted.grace_seconds if asked is None else asked


def _polite(view: RunView, request: dict[str, Any]) -> dict[str, Any]:
    """The request for those who don't read the spec: with the run's own grace and signal."""
    signal = request["signal"] or view.spec.wanted.stop_signal
    return {**request, "signal": signal, "grace_seconds": _grace(view, request)}


def _not_taken_over(directory: RunDirectory, reason: str | None) -> Unavailable:
    return Unavailable(
        f"run {directory.id} could not be stopped: its supervisor is gone, and a new one failed"
        + (f": {reason}" if reason else ""),
        hint=f"holdfast status {directory.id}; try again",
        run=directory.id,
    )


def is_removed(directory: RunDirectory) -> Steps[bool]:
    """Whether a run that vanished was removed by Holdfast, so that nothing of it is alive.

    Its marker goes a moment later; where only the directory was deleted, it stays.
    """
    deadline = boottime() + _MARKER_SECONDS
    while directory.is_marked_active() and boottime() < deadline:
        yield Wait((), 0.02)
    return not directory.is_marked_active()


def _stop_the_rest(view: RunView, request: dict[str, Any]) -> Steps[Stopped]:
    """Stop what an ended run has left: survivors at once, kept leftovers with their grace."""
    if _has_survivors(view.facts):
        return (yield from _stop_left(view, request, 0))
    if view.is_final and _has_leftovers(view):
        polite = _polite(view, request)
        return (yield from _stop_left(view, polite, polite["grace_seconds"]))
    return Stopped(True, view)


def _stop_left(view: RunView, request: dict[str, Any], grace: float) -> Steps[Stopped]:
    directory = view.directory
    yield from await_release(directory, _PING_SECONDS)  # its shim may be about to end
    yield from start_shim("adopt", directory.path, {"stop": request})
    yield from await_release(directory, grace + _CLEAN_UP_SECONDS)
    view = view_run(directory, since=view)
    if not _has_survivors(view.facts) and _has_leftovers(view):
        raise Unavailable(
            f"what run {directory.id} left could not be stopped: no supervisor could be started",
            hint=f"holdfast tree {directory.id}; try again",
            run=directory.id,
        )
    return Stopped(False, view, had_ended=True)


def await_release(directory: RunDirectory, seconds: float) -> Steps[None]:
    """Wait until nobody holds the run's lock, or the time is up."""
    deadline = boottime() + seconds
    while directory.lock_is_held() and boottime() < deadline:
        yield Wait((), 0.02)


def _adopt(view: RunView, request: dict[str, Any], grace: float) -> Steps[str | None]:
    """Have the run taken over and stopped; over when it has ended, or the adopter is gone.

    What the adopter says that it failed of, if anything.
    """
    directory = view.directory
    reason = yield from start_shim("adopt", directory.path, request)
    # Another shim than before: else the adopter died, or was not first.
    if read_facts(directory).shim != view.facts.shim:
        yield from _await_end(directory, grace + _CLEAN_UP_SECONDS)
    return reason


def _ask(view: RunView, request: dict[str, Any]) -> Steps[bool]:
    """Ask the shim; False when it does not answer, though it holds the lock."""
    directory = view.directory
    link = open_link(directory.path)
    if link is None:
        # Between taking the lock and listening, or just gone: look again in a moment.
        yield Wait((), 0.02)
        return not directory.lock_is_held() or (yield from _listens_soon(directory))
    with link:
        answer = yield from link.ask({**request, "do": "stop", "wait": True})
        if answer is None:
            return not directory.lock_is_held()
        if _has_survivors(view.facts):
            return True  # of an earlier stop: they are named while the shim tries again
        return (
            yield from _await_hang_up(directory, link, _grace(view, request) + _CLEAN_UP_SECONDS)
        )


def _listens_soon(directory: RunDirectory) -> Steps[bool]:
    deadline = boottime() + _PING_SECONDS
    while boottime() < deadline and directory.lock_is_held():
        link = open_link(directory.path)
        if link is not None:
            link.__exit__()
            return True
        yield Wait((), 0.05)
    return not directory.lock_is_held()


def _await_hang_up(directory: RunDirectory, link: ShimLink, seconds: float) -> Steps[bool]:
    """True when the shim is gone, or has done what it could; False when it hangs.

    The link tells all that the shim records from now on: nothing has to be read for that.
    """
    deadline = boottime() + seconds
    while not any(map(_names_survivors, link.take_lines())):
        left = deadline - boottime()
        if left <= 0:
            return (yield from answers(directory))
        ready = yield Wait((link.fd,), left)
        if ready and not link.receive():
            return True
    return True


def _names_survivors(line: bytes) -> bool:
    """Whether an event's line is the end of a clean-up that left survivors."""
    try:
        event = LoggedEvent.from_json(read_json(str(line, "utf-8")))
    except (ValueError, RecursionError):  # of a later version
        return False
    return event.kind is Kind.CLEANED and bool(event.facts.get("survivors"))


def answers(directory: RunDirectory) -> Steps[bool]:
    """Whether the shim answers a ping in time."""
    link = open_link(directory.path)
    if link is None:
        return not directory.lock_is_held()
    with link:
        return (yield from link.ask({"do": "ping"})) is not None


def _await_end(directory: RunDirectory, seconds: float) -> Steps[None]:
    """Wait until the adopter has recorded an ending, or has released the lock."""
    deadline = boottime() + seconds
    while boottime() < deadline and directory.lock_is_held():
        link = open_link(directory.path)
        if link is None:
            yield Wait((), 0.02)
            continue
        with link:
            yield from link.ask({"do": "subscribe"})
            # What was recorded before does not come over the link.
            if not _has_survivors(read_facts(directory)):
                yield from _await_hang_up(directory, link, deadline - boottime())
        return


def refuse_unproven(directory: RunDirectory) -> None:
    """Raise for a doubted record: no process is signalled because of what it says. A queued run
    has none."""
    refuse_vanished(directory)
    standing = view_run(directory, members=False, closely=False).standing
    if standing.state is State.UNKNOWN:
        raise unproven(directory.id, standing)
    if standing.state is State.QUEUED:
        raise Refused(
            f"run {directory.id} is queued: nothing of it runs yet",
            hint=f"holdfast wait {directory.id}; holdfast stop {directory.id} cancels it",
            run=directory.id,
        )


def unproven(run_id: str, standing: Standing) -> IdentityUnproven:
    """The refusal for a run of which it is not known what is alive."""
    return IdentityUnproven(
        f"run {run_id} is unknown: {standing.evidence}; no process was signalled",
        hint=standing.hint
        or f"holdfast status {run_id}; holdfast recover --other-namespaces-gone if its"
        " container is gone for good",
        run=run_id,
        evidence=standing.evidence,
    )


def _has_survivors(facts: RunFacts) -> bool:
    return bool((facts.cleanup or {}).get("survivors"))


def _has_leftovers(view: RunView) -> bool:
    """Whether a recorded member of an ended run is proven alive, and is no inner run's."""
    spare = InnerRuns(view.directory, view.spec).owns
    members = map(ProcessIdentity.parse, view.facts.members)
    return any(one.verdict() is Verdict.SAME and not spare(one) for one in members)


def _us() -> dict[str, Any]:
    return {"pid": os.getpid(), "uid": os.getuid()}
