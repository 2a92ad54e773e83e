"""The latest run of a name that is to be used again: over, refused, or replaced.

A second copy is never started beside a live workload: supervised, orphaned, or not believed.
"""

from __future__ import annotations

import time

from holdfast.errors import AlreadyRunning, IdentityUnproven, Refused, Unavailable
from holdfast.manage.info import RunInfo, read_run
from holdfast.manage.launch import start_shim
from holdfast.manage.standing import read_facts
from holdfast.manage.stopping import stop_run
from holdfast.manage.survivors import advise, describe, is_proven_alive, survivors_of
from holdfast.manage.suspects import may_have_missed_a_fork, stamped_of
from holdfast.manage.units import duration
from holdfast.process.clock import seconds_of
from holdfast.run.facts import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.manage.request import StartRequest
    from holdfast.manage.steps import Steps
    from holdfast.process.tree import Survivor
    from holdfast.run.directory import RunDirectory

_MOST_ADOPTERS = 3
_HOLDS_THE_NAME = (State.STARTING, State.RUNNING, State.STOPPING, State.ORPHANED)


def free_the_name(
    directory: RunDirectory, request: StartRequest, notice: Callable[[str], None]
) -> Steps[None]:
    """See that the name's latest run is over; we hold the claim, so nobody is starting one."""
    info = read_run(directory)
    if info.state is State.UNKNOWN:
        _refuse_beside_the_living(directory, info, request)
        notice(f"an earlier run {request.name} ({info.id}) is unknown: {info.evidence}")
        return
    info = yield from _settled(directory, info)
    if info.state in _HOLDS_THE_NAME:
        if not request.replace:
            raise already_running(info)
        yield from _replace(directory, info, request, notice)
    elif living := [one for one in survivors_of(directory) if is_proven_alive(one)]:
        if not request.replace:
            raise _survived(info, living)
        yield from _replace(directory, info, request, notice)
    _refuse_beside_suspects(directory, request)


def _settled(directory: RunDirectory, info: RunInfo) -> Steps[RunInfo]:
    """As it stands once somebody has recorded that it is over, if it is.

    What nobody has recorded is not over: an adopter first ends what is left of its tree.
    """
    for _ in range(_MOST_ADOPTERS):
        over = info.state is State.ENDED and directory.is_marked_active()
        if not over and (info.state is not State.STARTING or directory.lock_is_held()):
            return info
        # Over, but nobody recorded it yet; or its launcher gave up; or a restart is due.
        yield from start_shim("adopt", directory.path)
        info = read_run(directory)
        if info.state is not State.ENDED or info.is_recorded:
            return info
    raise Unavailable(
        f"{info.name} ({info.id}) is over, but whoever is to record that dies",
        hint=f"holdfast status {info.id}; try again",
        run=info.id,
    )


def _refuse_beside_suspects(directory: RunDirectory, request: StartRequest) -> None:
    """Its shim died: a process that was forked then may be in nobody's record, and live.

    The stamp proves nothing, so nobody is signalled; it is enough not to start a second copy.
    """
    facts, wanted = read_facts(directory), directory.read_spec().wanted
    if wanted.leftovers == "keep" or not may_have_missed_a_fork(facts):
        return
    stamped = stamped_of(directory.home, directory.id)
    if stamped:
        pids = ", ".join(f"{one['pid']} {one['comm']}" for one in stamped)
        raise IdentityUnproven(
            f"{request.name} ({directory.id}) may be alive: {pids} carries its stamp, and its shim"
            " died, so that nobody saw every process that it started",
            hint=f"holdfast tree {directory.id}; `holdfast signal TERM TOKEN` ends one, rm --force"
            " gives the name free on your word",
            run=directory.id,
        )


def _refuse_beside_the_living(
    directory: RunDirectory, info: RunInfo, request: StartRequest
) -> None:
    """A record that is not believed, or can't be read, still names processes: one that is proven
    to live keeps the name, and so does whoever holds the lock. What can't be told does not."""
    from holdfast.manage.removal import living_named, say_how_to_reach

    living = living_named(directory)
    if not living and not directory.lock_is_held():
        return
    pids = ", ".join(str(identity.pid) for identity in living) or "the holder of its lock"
    raise AlreadyRunning(
        f"{request.name} ({directory.id}) is unknown, and alive ({pids}): {info.evidence}",
        hint=f"use another name; {say_how_to_reach(living)}",
        run=directory.id,
        pid=living[0].pid if living else None,
    )


def _replace(
    directory: RunDirectory,
    info: RunInfo,
    request: StartRequest,
    notice: Callable[[str], None],
) -> Steps[None]:
    pid = info.workload.pid if info.workload else None
    stopped = yield from stop_run(
        directory, grace_seconds=request.wanted.grace_seconds, cause="replaced"
    )
    now = read_run(directory)
    survivors = stopped.cleanup.survivors if stopped.cleanup is not None else ()
    if now.state is not State.ENDED or survivors:
        raise Refused(
            f"{request.name} ({info.id}) can't be proven stopped: {now.evidence}",
            hint=f"holdfast status {info.id}; then holdfast stop {info.id}",
            run=info.id,
        )
    notice(f"replaced {request.name} ({info.id}): {pid} {now.outcome}, {now.evidence}")


def _survived(info: RunInfo, living: list[Survivor]) -> AlreadyRunning:
    """The refusal beside an ended run whose stop could not end these."""
    return AlreadyRunning(
        f"{info.name} ({info.id}) was stopped, and of it there still lives: "
        + "; ".join(map(describe, living)),
        hint=f"use another name; {advise(living, f'stop {info.id}')}",
        run=info.id,
        pid=living[0].identity.pid,
    )


def already_running(info: RunInfo) -> AlreadyRunning:
    """The refusal that names the winner."""
    who = info.workload
    age = duration(time.time() - seconds_of(info.created_at)) if info.created_at else "?"
    state = "already running" if info.state is not State.ORPHANED else "orphaned, and still alive"
    hint = f"holdfast logs -f {info.name}; or run --replace to stop it first"
    if info.state is State.ORPHANED:
        hint = f"holdfast recover adopts it; or run --replace to stop it first ({info.name})"
    what = f"{who.comm or ''} {who.pid}".strip() if who is not None else "no workload yet"
    return AlreadyRunning(
        f"{info.name} is {state} ({info.id}, {what}, {age})",
        hint=hint,
        run=info.id,
        pid=None if who is None else who.pid,
    )
