"""Stopping a run: through its shim; round a shim that hangs; by an adopter when it is gone.

Done only when the tree is empty. Asking twice, or two asking at once, is as good as once.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, IdentityUnproven, Unavailable
from holdfast.manage.launch import start_shim
from holdfast.manage.link import Link, open_link
from holdfast.manage.standing import Standing, read_facts, stand
from holdfast.manage.steps import Wait, room_for
from holdfast.manage.vanished import refuse_vanished
from holdfast.process.clock import boottime
from holdfast.process.identity import ProcessIdentity
from holdfast.process.tree import Cleanup
from holdfast.process.verdict import Verdict
from holdfast.record import Record
from holdfast.run.facts import RunFacts, State
from holdfast.shim.inner import InnerRuns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.steps import Steps
    from holdfast.run.directory import RunDirectory

_CLEAN_UP_SECONDS = 15.0  # beyond the grace: freezing, killing, settling
_MOST_ASKED = 3  # a shim that says yes so often and does not end is taken over
_PING_SECONDS = 5.0
_MARKER_SECONDS = 2.0
_MOST_ADOPTERS = 3  # of which each died, or lost the run to another that died


class Stopped(Record):
    """What a stop came to."""

    was_over: bool  # it had ended before, and nobody was left to be struck
    cleanup: Cleanup | None  # None: nothing was recorded about a clean-up
    had_ended: bool = False  # before, but something of it was left, and was struck now


def stops_at_once() -> int:
    """How many runs may be stopped at once: each holds a link, or a pipe and a pidfd."""
    return room_for(descriptors=2)


def stop_run(
    directory: RunDirectory,
    *,
    grace_seconds: float | None = None,
    signal: str | None = None,
    cause: str = "user",
) -> Steps[Stopped]:
    """Stop the run's whole tree. IdentityUnproven when nobody can tell what is alive.

    Of a run that has ended: what survived it, or was kept (`--leftovers keep`); its ending stays.
    RunNotFound when it is removed meanwhile: then nothing of it was alive.
    """
    steps = _stop(directory, grace_seconds, signal, cause)
    try:
        return (yield from steps)
    except (HoldfastError, OSError):
        if directory.exists():
            raise
        refuse_vanished(directory)
        raise directory.not_found() from None


def _stop(
    directory: RunDirectory, grace_seconds: float | None, signal: str | None, cause: str
) -> Steps[Stopped]:
    request = {"grace_seconds": grace_seconds, "signal": signal, "cause": cause, "by": _us()}
    spec = directory.read_spec()
    grace = spec.wanted.grace_seconds if grace_seconds is None else grace_seconds
    was_over = True
    adopters = asked = 0
    reason: str | None = None
    while adopters < _MOST_ADOPTERS:
        facts, standing = stand(directory, spec)
        if facts.has_ended:
            if was_over and _has_survivors(facts):
                return (yield from _stop_the_rest(directory, request, 0))
            if was_over and standing.state is State.ENDED and _has_leftovers(directory, facts):
                polite = {"signal": signal or spec.wanted.stop_signal, "grace_seconds": grace}
                return (yield from _stop_the_rest(directory, {**request, **polite}, grace))
            return Stopped(was_over, cleanup_of(facts))
        if standing.state is State.UNKNOWN:
            raise unproven(directory.id, standing)
        was_over = standing.state is State.ENDED
        if not directory.lock_is_held():
            adopters += 1
            reason = yield from _adopt(directory, {"stop": request}, facts, grace)
        elif asked >= _MOST_ASKED or not (yield from _ask(directory, request, grace)):
            # It does not answer; or it answers, says that it stops, and never comes to an end.
            adopters += 1
            reason = yield from _adopt(directory, {"hung": True, "stop": request}, facts, 0)
        asked += 1
        facts = stand(directory, spec)[0]
        if not facts.has_ended and _has_survivors(facts):
            return Stopped(False, cleanup_of(facts))  # named, not done
    raise Unavailable(
        f"run {directory.id} could not be stopped: whoever takes it over dies"
        + ("" if reason is None else f" of {reason}"),
        hint=f"holdfast status {directory.id}; try again",
        run=directory.id,
    )


def is_removed(directory: RunDirectory) -> Steps[bool]:
    """Whether a run that vanished was removed, by one who made sure that nothing of it is alive.

    Its marker goes a moment later; where somebody deleted the directory, it stays.
    """
    deadline = boottime() + _MARKER_SECONDS
    while directory.is_marked_active() and boottime() < deadline:
        yield Wait((), 0.02)
    return not directory.is_marked_active()


def _stop_the_rest(
    directory: RunDirectory, request: dict[str, Any], grace: float
) -> Steps[Stopped]:
    """Have those struck that an ended run has left."""
    yield from _await_release(directory, _PING_SECONDS)  # its shim may be about to end
    yield from start_shim("adopt", directory.path, {"stop": request})
    yield from _await_release(directory, grace + _CLEAN_UP_SECONDS)
    facts = read_facts(directory)
    if not _has_survivors(facts) and _has_leftovers(directory, facts):
        raise Unavailable(
            f"what run {directory.id} left could not be stopped: nobody took it over",
            hint=f"holdfast tree {directory.id}; try again",
            run=directory.id,
        )
    return Stopped(False, cleanup_of(facts), had_ended=True)


def _await_release(directory: RunDirectory, seconds: float) -> Steps[None]:
    deadline = boottime() + seconds
    while directory.lock_is_held() and boottime() < deadline:
        yield Wait((), 0.02)


def _adopt(
    directory: RunDirectory, request: dict[str, Any], before: RunFacts, grace: float
) -> Steps[str | None]:
    """Have the run taken over and stopped; over when it has ended, or the adopter is gone.

    What the adopter says that it failed of, if anything.
    """
    reason = yield from start_shim("adopt", directory.path, request)
    if read_facts(directory).shim != before.shim:  # else the adopter died, or was not first
        yield from _await_end(directory, grace + _CLEAN_UP_SECONDS)
    return reason


def _ask(directory: RunDirectory, request: dict[str, Any], grace: float) -> Steps[bool]:
    """Ask the shim; False when it does not answer, though it holds the lock."""
    link = open_link(directory.path)
    if link is None:
        # Between taking the lock and listening, or just gone: look again in a moment.
        yield Wait((), 0.02)
        return not directory.lock_is_held() or (yield from _listens_soon(directory))
    with link:
        answer = yield from link.ask({**request, "do": "stop", "wait": True})
        if answer is None:
            return not directory.lock_is_held()
        return (yield from _await_hang_up(directory, link, grace + _CLEAN_UP_SECONDS))


def _listens_soon(directory: RunDirectory) -> Steps[bool]:
    deadline = boottime() + _PING_SECONDS
    while boottime() < deadline and directory.lock_is_held():
        link = open_link(directory.path)
        if link is not None:
            link.__exit__()
            return True
        yield Wait((), 0.05)
    return not directory.lock_is_held()


def _await_hang_up(directory: RunDirectory, link: Link, seconds: float) -> Steps[bool]:
    """True when the shim is gone, or has done what it could; False when it hangs."""
    deadline = boottime() + seconds
    while True:
        ready = yield Wait((link.fd,), max(0.0, min(deadline - boottime(), 1.0)))
        if ready and not link.drain():
            return True
        if boottime() < deadline:
            facts = stand(directory, directory.read_spec())[0]
            if facts.cleanup is not None and facts.cleanup.get("survivors"):
                return True
            continue
        return (yield from answers(directory))


def answers(directory: RunDirectory) -> Steps[bool]:
    """Whether the shim answers a ping in time."""
    link = open_link(directory.path)
    if link is None:
        return not directory.lock_is_held()
    with link:
        return (yield from link.ask({"do": "ping"})) is not None


def _await_end(directory: RunDirectory, seconds: float) -> Steps[None]:
    """Wait until the adopter has recorded an ending, or has let go."""
    deadline = boottime() + seconds
    while boottime() < deadline and directory.lock_is_held():
        link = open_link(directory.path)
        if link is None:
            yield Wait((), 0.02)
            continue
        with link:
            yield from link.ask({"do": "subscribe"})
            yield from _await_hang_up(directory, link, deadline - boottime())
        return


def refuse_unproven(directory: RunDirectory) -> None:
    """For whoever acts on a run's processes: nothing is done on the word of a doubted record."""
    refuse_vanished(directory)
    standing = stand(directory, directory.read_spec())[1]
    if standing.state is State.UNKNOWN:
        raise unproven(directory.id, standing)


def unproven(run_id: str, standing: Standing) -> IdentityUnproven:
    """The refusal for a run of which nobody can tell what is alive."""
    return IdentityUnproven(
        f"run {run_id} is unknown: {standing.evidence}; nobody was signalled",
        hint=standing.hint
        or f"holdfast status {run_id}; holdfast recover --other-namespaces-gone if its"
        " container is gone for good",
        run=run_id,
        evidence=standing.evidence,
    )


def _has_survivors(facts: RunFacts) -> bool:
    return bool((facts.cleanup or {}).get("survivors"))


def _has_leftovers(directory: RunDirectory, facts: RunFacts) -> bool:
    """Whether a recorded member of an ended run is proven alive, and is no inner run's."""
    spare = InnerRuns(directory).owns
    members = map(ProcessIdentity.parse, facts.members)
    return any(one.verdict() is Verdict.SAME and not spare(one) for one in members)


def cleanup_of(facts: RunFacts) -> Cleanup | None:
    """The recorded clean-up, as a record."""
    return None if facts.cleanup is None else Cleanup.from_json(facts.cleanup)


def _us() -> dict[str, Any]:
    return {"pid": os.getpid(), "uid": os.getuid()}
