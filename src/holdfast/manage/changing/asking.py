"""Asks a run's shim to change something, and has the run adopted first if it has none."""

from __future__ import annotations

from holdfast.errors import Refused, Unavailable
from holdfast.manage.adopting import Adopting
from holdfast.manage.shim_client import ask_shim_of
from holdfast.manage.state import view_run
from holdfast.manage.stopping import unproven
from holdfast.manage.vanished import refuse_vanished
from holdfast.run.facts import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.manage.operations import Steps
    from holdfast.run.directory import RunDirectory
    from holdfast.run.spec import RunSpec

    Json = dict[str, Any]


def ask_shim(
    directory: RunDirectory, request: Json, check: Callable[[RunSpec], None] | None = None
) -> Steps[Json]:
    """The shim's answer. Refused for a run that has ended, and where the shim refuses.

    `check` may refuse too, before anything is asked, by what the run was started with.
    """
    refuse_vanished(directory)
    view = view_run(directory, members=False, closely=False)
    if view.standing.state is State.UNKNOWN:
        raise unproven(directory.id, view.standing)
    name = f"{view.spec.name} ({directory.id})"
    status = f"holdfast status {directory.id}"
    if view.standing.state is State.ENDED:
        raise Refused(f"{name} has ended", hint=status, run=directory.id)
    if check is not None:
        check(view.spec)
    if not directory.lock_is_held():
        yield from Adopting(directory).adopt()
    answer: Json | None = yield from ask_shim_of(directory, request)
    if answer is None:
        message = f"the shim of {name} does not answer"
        raise Unavailable(message, hint=f"{status}; try again", run=directory.id)
    if _is_of_an_earlier_version(answer, request):
        raise Refused(
            f"the shim of {name} is of an earlier Holdfast, which can't {request['do']} a run",
            hint=f"holdfast stop {view.spec.name} works; runs that are started from now on can",
            run=directory.id,
        )
    if answer.get("code") in ("busy", "stands"):
        hint = "try again" if answer["code"] == "busy" else status
        raise Unavailable(f"{name}: {answer.get('error')}", hint=hint, run=directory.id)
    if not answer.get("ok"):
        hint = _hint(answer, view.spec.name) or status
        raise Refused(f"{name}: {answer.get('error')}", hint=hint, run=directory.id)
    return answer


def _is_of_an_earlier_version(answer: Json, request: Json) -> bool:
    # A shim of 0.1.0 has no code for it, only these words.
    said = (answer.get("code"), answer.get("error"))
    return "unknown-request" in said or f"unknown request {request['do']!r}" in said


def _hint(answer: Json, name: str) -> str | None:
    if answer.get("code") == "passed":
        return f"a limit beyond that; or holdfast stop {name}"
    if answer.get("limit") is None:
        return None
    option = str(answer["limit"]).removesuffix("_usd").replace("_", "-")
    return f"holdfast adjust {name} --{option} N raises it"
