"""Whether a run can go on by itself after a used-up quota (`--on-limit resume`): said at its start.

What can't be done then is refused with the reason, and not found out hours later.
"""

from __future__ import annotations

from holdfast.agents.budget import Unseen, why_not_resumed
from holdfast.agents.loader import load_profile
from holdfast.agents.recognition import locate
from holdfast.agents.resume import resume_command
from holdfast.errors import Refused, argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.starting.request import StartRequest
    from holdfast.options import Wanted

_SOME_SESSION = "0"


def hold_on_limit(request: StartRequest) -> None:
    """See that it can go on by itself. One of [defaults] is for agents alone."""
    given = request.given_by or {}
    if request.agent is None and given.get("on_limit") == "[defaults]":
        request.wanted = request.wanted.replace(on_limit="off")
        rest = {name: by for name, by in given.items() if name != "on_limit"}
        request.given_by = rest or None
        return
    said = check_on_limit(request.agent, request.command, request.wanted, request.added)
    request.warning = "; ".join(filter(None, (request.warning, said)))


def check_on_limit(
    agent: str | None, command: tuple[str, ...], wanted: Wanted, added: dict[str, Any] | None
) -> str:
    """Refused, with the reason; else what people should know, or ""."""
    if agent is None:
        raise Refused(
            f"{argument('on_limit')}: no agent is recognised in this command, so nobody says that"
            " a quota is used up",
            hint=f"{argument('agent', 'NAME')} if it starts one",
        )
    if wanted.leftovers == "keep":
        keep = argument("leftovers", "keep")
        raise _refused(Unseen(f"with {keep} the next attempt would begin beside what was left"))
    profile = load_profile(agent)
    located = locate(command)
    is_known = located is not None and located.agent == agent  # else a script starts it somehow
    warning = ""
    if located is not None and is_known:
        unseen = why_not_resumed(profile, located.arguments, is_split=wanted.split_stderr)
        if unseen is not None:
            raise _refused(unseen)
    elif profile.resume is not None:
        said = f"{argument('on_limit')} holds only if this command prints what {profile.title} says"
        warning = f"{said}, and passes its words on"
    resumed = resume_command(profile, command, _SOME_SESSION, None)  # it may refuse
    at = int((added or {}).get("at") or 0)
    if tuple(resumed[:at]) != command[:at]:
        raise _refused(Unseen("its budget has no place in the command of its profile's [resume]"))
    return warning


def _refused(unseen: Unseen) -> Refused:
    hint = f"add {unseen.add}" if unseen.add else f"leave out {argument('on_limit')}"
    return Refused(f"{argument('on_limit')} can't hold: {unseen.why}", hint=hint)
