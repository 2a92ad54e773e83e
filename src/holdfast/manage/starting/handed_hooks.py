"""Adds what makes an agent report to its run, and sees that `--approve` can hold.

On the launch path of agents: the words come from a table.
"""

from __future__ import annotations

import os
import sys

from holdfast.agents.hook_words import HookPlace, HookWords, hook_words
from holdfast.agents.recognition import locate
from holdfast.errors import InvalidOption, Refused, argument
from holdfast.lean import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.agents.profile import AgentProfile
    from holdfast.manage.starting.request import StartRequest

# Not `holdfast`, which may be the name of a server that the user has added.
SERVER_NAME = "holdfast-approve"
TOOL_NAME = f"mcp__{SERVER_NAME}__approve_tool"
_SERVER = ("-P", "-m", "holdfast", "mcp", "--approve-only")
LONGEST_APPROVE_SECONDS = 23 * 3600.0  # a hook waits for a day at most


def hand_hooks(request: StartRequest) -> None:
    """Have the agent report what it waits for: by words or variables in `added`, which says why
    there are none, too."""
    handed = _find_words(request)
    _refuse_unheld_approval(request, handed)
    if handed is None:
        return
    asked = _words_to_ask(request) if request.wanted.approve != "off" else ()
    before: dict[str, Any] = request.added or {"at": None, "words": [], "cost_at": None}
    program = len(request.command) - len(_arguments(request) or ())
    variables = {"variables": handed.variables} if handed.variables else {}
    request.added = {
        **before,
        "at": program + handed.at if handed.words else before["at"] or 0,
        "words": [*before["words"], *handed.words, *asked],
        **variables,
        "hooks": {"handed": handed.is_handed, "why_not": handed.why_not or None},
    }


def _find_words(request: StartRequest) -> HookWords | None:
    """None: the agent offers no hooks, or they are not wanted."""
    if request.agent is None or request.wanted.agent_hooks == "off":
        return None
    arguments = _arguments(request)
    if arguments is None:
        from holdfast.agents.hook_words import offer_of

        why = "it is started by a text or script, to which no words can be added"
        return None if offer_of(request.agent) is None else HookWords(why_not=why)
    env = {**os.environ, **request.env}
    place = HookPlace(request.pty, request.cwd, env, asks=request.wanted.approve != "off")
    return hook_words(request.agent, arguments, place)


def _arguments(request: StartRequest) -> tuple[str, ...] | None:
    """The agent's own words; None: it is started by a script, or within a text."""
    located = locate(request.command)
    if located is None or located.agent != request.agent:
        return None
    is_plain = (*located.program, *located.arguments) == request.command
    return located.arguments if is_plain else None


def _words_to_ask(request: StartRequest) -> tuple[str, ...]:
    """By which an agent without a terminal asks a server of ours; () if it has a terminal."""
    from holdfast.agents.loader import load_profile

    profile = load_profile(str(request.agent))
    if profile.hooks is None or not _is_headless(request, profile):
        return ()
    # alwaysLoad: claude waits until it is connected, and does not ask too early.
    server = {"command": sys.executable, "args": list(_SERVER), "alwaysLoad": True}
    filled = {"{server}": json_text({"mcpServers": {SERVER_NAME: server}}), "{tool}": TOOL_NAME}
    return tuple(filled.get(word, word) for word in profile.hooks.prompt_tool)


def _is_headless(request: StartRequest, profile: AgentProfile) -> bool:
    from holdfast.agents.arguments import is_headless

    return not request.pty or is_headless(profile.options, _arguments(request) or ())


def _refuse_unheld_approval(request: StartRequest, handed: HookWords | None) -> None:
    wanted, said = request.wanted, argument("approve", request.wanted.approve)
    if wanted.approve_timeout_seconds > LONGEST_APPROVE_SECONDS:
        raise InvalidOption(
            f"{argument('approve_timeout')}: a question waits for 23h at most",
            option="approve-timeout",
            value=wanted.approve_timeout_seconds,
            expected="at most 23h",
        )
    if wanted.approve == "off":
        return
    why, hint = _why_unheld(request, handed)
    if why and (request.given_by or {}).get("approve") == "[defaults]":
        request.wanted = wanted.replace(approve="off")  # it is for agents that ask alone
    elif why:
        raise Refused(f"{said} can't hold: {why}", hint=hint)


def _why_unheld(request: StartRequest, handed: HookWords | None) -> tuple[str, str]:
    doctor = "holdfast doctor --agents says what each agent offers"
    if request.agent is None:
        return "no agent is recognised in this command", argument("agent", "NAME")
    if request.wanted.agent_hooks == "off":
        return "its agent is not told to report", f"without {argument('agent_hooks', 'off')}"
    if handed is None:
        return f"{request.agent} does not ask anybody but its own terminal", doctor
    if not handed.is_handed:
        return handed.why_not, doctor
    from holdfast.agents.loader import load_profile

    profile = load_profile(request.agent)
    if profile.hooks is None or profile.hooks.asking is None:
        return f"{profile.title} does not ask anybody but its own terminal", doctor
    if not _is_headless(request, profile):
        return "", ""
    if profile.hooks.prompt_tool:
        return _why_no_tool(request, profile)
    flags = " ".join(profile.options.headless_flags)
    return (
        f"without a terminal ({flags}) {profile.title} asks nobody: it refuses by itself",
        f"{argument('pty', True)}, without {flags}; or say what it may do by its own options",
    )


def _why_no_tool(request: StartRequest, profile: AgentProfile) -> tuple[str, str]:
    """Why it can't be handed a server to ask."""
    from holdfast.agents.arguments import has_any

    assert profile.hooks is not None
    option = profile.hooks.prompt_tool[profile.hooks.prompt_tool.index("{tool}") - 1]
    if has_any(profile.options, _arguments(request) or (), [option]):
        return f"the command itself says whom to ask ({option})", f"leave out {option}"
    return "", ""
