"""The words by which an agent is told to report to its run: made at the start, from a table.

On the launch path of agents: loads no profile, unless the user has profiles, or gives the same
option. No file of the user's is changed; what they gave is merged, or nothing is handed over.
"""

from __future__ import annotations

import os
import sys

from holdfast.agents import recognition_table as built_in
from holdfast.agents.places import user_profile_files
from holdfast.lean import json_text
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook_program.py")
REPORT_SECONDS = 10
ASKING_SECONDS = 24 * 3600  # as long as a question may stay open


class HookOffer(Record):
    """What an agent offers: see `HookRules`."""

    option: str
    events: tuple[str, ...]
    terminal_events: tuple[str, ...]
    asking: str | None
    background: tuple[str, ...]
    never_with: tuple[str, ...]


class HookWords(Record):
    """What is handed over: words, and where among the agent's own; or why nothing is."""

    words: tuple[str, ...] = ()
    at: int = 0
    why_not: str = ""


def offer_of(agent: str) -> HookOffer | None:
    """None: the agent offers nothing, so nothing of it is known while it works."""
    if not user_profile_files():
        known = built_in.HOOKS.get(agent)
        return None if known is None else HookOffer(*known)
    from holdfast.agents.loader import load_profile

    return offer_in(load_profile(agent).hooks)


def offer_in(rules: Any) -> HookOffer | None:
    """The offer of a profile."""
    if rules is None:
        return None
    return HookOffer(*(getattr(rules, name) for name in HookOffer._fields))


def hook_words(agent: str, arguments: Sequence[str], *, pty: bool, cwd: str) -> HookWords | None:
    """What to add to an agent's own arguments; None: the agent offers no hooks."""
    offer = offer_of(agent)
    if offer is None:
        return None
    own = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    for word in offer.never_with:
        if word in own:
            return HookWords(why_not=f"with {word} it runs no hooks")
    settings = _settings(offer, pty)
    is_given = any(one.partition("=")[0] == offer.option for one in own)
    if not is_given:
        return HookWords((offer.option, json_text(settings)))
    from holdfast.agents.own_settings import merged_words

    return merged_words(agent, offer, arguments, settings, cwd)


def _settings(offer: HookOffer, pty: bool) -> dict[str, Any]:
    command = " ".join(map(_quoted, (sys.executable, "-I", "-S", PROGRAM)))
    hooks = {}
    for event in (*offer.events, *(offer.terminal_events if pty else ())):
        seconds = ASKING_SECONDS if event == offer.asking else REPORT_SECONDS
        hook = {"type": "command", "command": command, "timeout": seconds}
        if event in offer.background:
            hook["async"] = True
        hooks[event] = [{"hooks": [hook]}]
    return {"hooks": hooks}


def _quoted(word: str) -> str:
    """For a shell."""
    plain = word.replace("/", "").replace("-", "").replace(".", "").replace("_", "")
    return word if plain.isalnum() and plain.isascii() else "'" + word.replace("'", "'\\''") + "'"
