"""Wait for the end of one run on another machine, over a link that may be cut."""

from __future__ import annotations

from holdfast.errors import NoAnswer, RunNotFound
from holdfast.fleet.reaching import ask_json, keep_look
from holdfast.fleet.remote_info import fit_info, info_from_node
from holdfast.fleet.remote_output import AGAIN_SECONDS, LONGEST_AGAIN_SECONDS
from holdfast.fleet.verdict import RemoteVerdict, VerdictSource
from holdfast.manage.operations import Wait
from holdfast.process.clock import boottime
from holdfast.run.facts import State
from holdfast.run.units import seconds_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.fleet.remote import RemoteRun
    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps

_ROOM_SECONDS = 60.0  # for an answer, beyond what its node waits


def wait_for_end(run: RemoteRun, timeout: float | str | None, *, attention: bool) -> Steps[RunInfo]:
    """Until it has ended, or needs a person; a node that does not answer is asked again."""
    deadline = None if timeout is None else boottime() + seconds_given(timeout, "timeout")
    pause = AGAIN_SECONDS
    while True:
        left = None if deadline is None else max(0.0, deadline - boottime())
        words = ["wait", run.id, *(["--attention"] if attention else [])]
        words += [] if left is None else ["--timeout", f"{left:.3f}"]
        room = None if left is None else left + _ROOM_SECONDS
        try:
            answered = yield from ask_json(run._fleet, run.placement, words, seconds=room)
        except (NoAnswer, RunNotFound) as error:
            info = yield from _look(run)
            if isinstance(error, RunNotFound) and info.state is State.UNKNOWN:
                # It may have begun and ended between the question to node and engine.
                info = yield from _look(run)
                if info.state is State.UNKNOWN:
                    raise _unseen_end(run, info) from None
            if not info.is_active:
                return info
            run._runs._notice(f"{error.message}; waiting for it")
        else:
            document = answered.document["runs"][0]
            keep_look(run._fleet, run.placement, document)
            return info_from_node(document)
        if deadline is not None and boottime() >= deadline:
            return info
        yield Wait((), pause if deadline is None else min(pause, deadline - boottime()))
        pause = min(pause * 2, LONGEST_AGAIN_SECONDS)


def _look(run: RemoteRun) -> Steps[RunInfo]:
    """Unknown, also, while the ledger does not answer."""
    try:
        return (yield from run._info_steps())
    except NoAnswer as error:
        verdict = RemoteVerdict(State.UNKNOWN, VerdictSource.NOBODY, error.message)
        return fit_info(run.placement, verdict, None)


def _unseen_end(run: RemoteRun, info: RunInfo) -> RunNotFound:
    """Its node answers, and has it no more: nobody will see how it ended."""
    return RunNotFound(
        f"{run.placement.name} ({run.id}): {info.evidence}; its end was not seen",
        hint=f"holdfast fleet give-up {run.id}: it is lost then, and its key is free",
        run=run.id,
    )
