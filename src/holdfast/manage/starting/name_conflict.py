"""The latest run of a name that is to be used again: over, refused, or replaced.

A second copy is never started beside a live workload: supervised, orphaned, or not believed.
"""

from __future__ import annotations

import time

from holdfast.errors import AlreadyRunning, IdentityUnproven, Refused, Unavailable, called
from holdfast.manage.info import RunInfo, describe_run, examine_run
from holdfast.manage.starting.launch import start_shim
from holdfast.manage.state import RunView, view_run
from holdfast.manage.stopping import stop_run
from holdfast.manage.survivors import advise, describe, is_proven_alive, living_survivors
from holdfast.manage.suspects import may_have_missed_a_fork, stamped_of
from holdfast.process.clock import seconds_of
from holdfast.run.facts import State
from holdfast.run.units import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.manage.operations import Steps
    from holdfast.manage.starting.request import StartRequest
    from holdfast.process.tree_stop import Survivor
    from holdfast.run.directory import RunDirectory
    from holdfast.run.spec import RunSpec

_MOST_ADOPTERS = 3


def free_the_name(
    directory: RunDirectory, request: StartRequest, notice: Callable[[str], None]
) -> Steps[None]:
    """See that the name's latest run is over; we hold the claim, so no other launcher is."""
    info, view = examine_run(directory)
    if view is None or info.state is State.UNKNOWN:
        _refuse_beside_the_living(directory, info, request)
        notice(f"an earlier run {request.name} ({info.id}) is unknown: {info.evidence}")
        return
    view = yield from _settled(view)
    if view.standing.state.holds_name:
        if not request.replace:
            raise already_running(describe_run(view))
        view = yield from _replace(view, request, notice)
    elif living := [one for one in living_survivors(view.facts.cleanup) if is_proven_alive(one)]:
        if not request.replace:
            raise _survived(view.spec, living)
        view = yield from _replace(view, request, notice)
    _refuse_beside_suspects(view, request)


def _settled(view: RunView) -> Steps[RunView]:
    """The run once its ending is recorded, if it is over.

    Without a recorded ending it is not over: an adopter first ends what is left of its tree.
    """
    directory = view.directory
    for _ in range(_MOST_ADOPTERS):
        state = view.standing.state
        over = state is State.ENDED and directory.is_marked_active()
        if not over and (state is not State.STARTING or directory.lock_is_held()):
            return view
        # Over, but not recorded yet; or its launcher gave up; or a restart is due.
        yield from start_shim("adopt", directory.path)
        view = view_run(directory, since=view)
        if view.standing.state is not State.ENDED or view.standing.is_recorded:
            return view
    raise Unavailable(
        f"{view.spec.name} ({directory.id}) has ended, but its ending could not be recorded",
        hint=f"holdfast status {directory.id}; try again",
        run=directory.id,
    )


def _refuse_beside_suspects(view: RunView, request: StartRequest) -> None:
    """Its shim died: a process that was forked then may be in no record, and alive.

    The stamp proves nothing, so nothing is signalled; it is enough not to start a second copy.
    """
    if view.spec.wanted.leftovers == "keep" or not may_have_missed_a_fork(view.facts):
        return
    run_id = view.directory.id
    stamped = stamped_of(view.directory.home, run_id)
    if stamped:
        pids = ", ".join(f"{one['pid']} {one['comm']}" for one in stamped)
        raise IdentityUnproven(
            f"{request.name} ({run_id}) may be alive: {pids} carries its stamp, and its shim"
            " died, so that it may have started processes that were not seen",
            hint=f"holdfast tree {run_id}; `holdfast signal TERM TOKEN` ends one,"
            f" {called('rm', 'force')} frees the name all the same",
            run=run_id,
        )


def _refuse_beside_the_living(
    directory: RunDirectory, info: RunInfo, request: StartRequest
) -> None:
    """A record that is not believed, or can't be read, still names processes: one that is proven
    to live keeps the name, and so does the holder of the lock. What is unknown does not."""
    from holdfast.manage.unreadable import living_named, say_how_to_reach

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


def _replace(view: RunView, request: StartRequest, notice: Callable[[str], None]) -> Steps[RunView]:
    """Stop it; the run as it stands then."""
    workload, run_id, root = describe_run(view).workload, view.directory.id, view.facts.attempt.root
    stopped = yield from stop_run(
        view.directory,
        grace_seconds=request.wanted.grace_seconds,
        cause="replaced",
        view=view,
    )
    now = stopped.view.standing
    survivors = stopped.cleanup.survivors if stopped.cleanup is not None else ()
    if now.state is not State.ENDED or survivors:
        raise Refused(
            f"{request.name} ({run_id}) can't be proven stopped: {now.evidence}",
            hint=f"holdfast status {run_id}; then holdfast stop {run_id}",
            run=run_id,
        )
    # A workload that was never found behind its wrappers has no PID: the outermost has.
    meant = workload or root
    who = "nothing of it ran," if meant is None else f"{meant.pid}"
    notice(f"replaced {request.name} ({run_id}): {who} {now.outcome}, {now.evidence}")
    return stopped.view


def _survived(spec: RunSpec, living: list[Survivor]) -> AlreadyRunning:
    """The refusal beside an ended run whose stop could not end these."""
    return AlreadyRunning(
        f"{spec.name} ({spec.id}) was stopped, but still alive are: "
        + "; ".join(map(describe, living)),
        hint=f"use another name; {advise(living, f'stop {spec.id}')}",
        run=spec.id,
        pid=living[0].identity.pid,
    )


_HELD_BY = {State.ORPHANED: "orphaned, and still alive", State.QUEUED: "queued"}


def already_running(info: RunInfo) -> AlreadyRunning:
    """The refusal that names the winner."""
    who = info.workload
    age = duration(time.time() - seconds_of(info.created_at)) if info.created_at else "?"
    state = _HELD_BY.get(info.state, "already running")
    replace = called("run", "replace")
    hint = f"holdfast logs -f {info.name}; or {replace} to stop it first"
    if info.state is State.ORPHANED:
        hint = f"holdfast recover adopts it; or {replace} to stop it first ({info.name})"
    what = f"{who.comm or ''} {who.pid}".strip() if who is not None else "no workload yet"
    return AlreadyRunning(
        f"{info.name} is {state} ({info.id}, {what}, {age})",
        hint=hint,
        run=info.id,
        pid=None if who is None else who.pid,
    )
