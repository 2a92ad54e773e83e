"""The words and variables by which an agent is told to report to its run, from a table.

On the launch path of agents: loads no profile, unless the user has profiles, or gives the same
option. No file of the user's is changed; what they gave is merged, or nothing is handed over.
"""

from __future__ import annotations

import os
import sys

from holdfast.agents import recognition_table as built_in
from holdfast.agents.places import user_profile_files
from holdfast.agents.recognition import headless_words, tells_all
from holdfast.lean import json_text
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "hook_program.py")
COMMAND_VARIABLE = "HOLDFAST_HOOK"  # what a settings file of ours runs
REPORT_SECONDS = 10
BRIEF_SECONDS = 3
ASKING_SECONDS = 24 * 3600  # as long as a question may stay open


class HookOffer(Record):
    """What an agent offers: see `HookRules`."""

    way: str
    option: str | None
    variable: str | None
    default_file: str | None
    events: tuple[str, ...]
    terminal_events: tuple[str, ...]
    asking: str | None
    background: tuple[str, ...]
    brief: tuple[str, ...]
    never_with: tuple[str, ...]
    not_headless: bool


class HookWords(Record):
    """What is handed over: words, and where among the agent's own, or variables; or why not."""

    words: tuple[str, ...] = ()
    at: int = 0
    variables: dict[str, str] | None = None
    why_not: str = ""

    @property
    def is_handed(self) -> bool:
        return bool(self.words or self.variables)


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


class HookPlace(Record):
    """Where an agent is started; `asks`: by its hooks it is to be answered."""

    pty: bool
    cwd: str
    env: Mapping[str, str | None]
    asks: bool = False


def hook_words(agent: str, arguments: Sequence[str], place: HookPlace) -> HookWords | None:
    """What to add to an agent's own arguments and environment.

    None: it offers no hooks, or none are needed for what its output says already.
    """
    offer = offer_of(agent)
    if offer is None:
        return None
    own = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    for word in offer.never_with:
        if word in own:
            return HookWords(why_not=f"with {word} it runs no hooks")
    if not place.asks and tells_all(agent, own):
        return None  # and some versions would tell of each hook there
    pty = place.pty
    if offer.not_headless:
        pty = pty and not any(word in own for word in headless_words(agent))
    events = (*offer.events, *(offer.terminal_events if pty else ()))
    if not events:
        return None
    if offer.way == "file":
        return _file(agent, offer, pty, place.env)
    if offer.way == "overrides":
        from holdfast.agents.hook_overrides import override_words

        return override_words(offer, events, own, command())
    settings = settings_of(offer, events, command())
    if not any(one.partition("=")[0] == offer.option for one in own):
        return HookWords((str(offer.option), json_text(settings)))
    from holdfast.agents.own_settings import merged_words

    return merged_words(agent, offer, arguments, settings, place.cwd)


def _file(agent: str, offer: HookOffer, pty: bool, env: Mapping[str, str | None]) -> HookWords:
    """A settings file of ours, which stands in the package: only one can be named."""
    variable, ours = str(offer.variable), file_of(agent, pty=pty)
    given = env.get(variable)
    if given and os.path.dirname(given) != os.path.dirname(ours):
        return HookWords(why_not=f"your {variable} would be lost")
    why_not = why_no_file(agent, offer)
    if why_not:
        return HookWords(why_not=why_not)
    return HookWords(variables={variable: ours, COMMAND_VARIABLE: command()})


def why_no_file(agent: str, offer: HookOffer) -> str:
    """Why our settings file would not be read, or hide another; empty: it would do."""
    ours = file_of(agent, pty=False)
    if not os.path.exists(ours):
        return f"Holdfast has no settings file for {agent}"
    if offer.default_file is not None and os.path.exists(offer.default_file):
        return f"what {offer.default_file} says would be lost"
    real = os.path.realpath(ours)
    for path in (*_above(ours), *(_above(real) if real != ours else ())):
        found = os.stat(path)
        if found.st_uid != 0 or found.st_mode & 0o022:
            return f"it reads such a file only where root alone may write, and {path} is not so"
    return ""


def _above(path: str) -> list[str]:
    """The path, and every directory that it lies in."""
    found = [path]
    while found[-1] != "/":
        found.append(os.path.dirname(found[-1]))
    return found


def file_of(agent: str, *, pty: bool) -> str:
    """Where our settings file for that agent is: written by scripts/generate_recognition.py."""
    return os.path.join(HERE, "handed", f"{agent}{'-terminal' if pty else ''}.json")


def command() -> str:
    """What an agent runs as its hook, for a shell."""
    return " ".join(map(_quoted, (sys.executable, "-I", "-S", PROGRAM)))


def settings_of(offer: HookOffer, events: Sequence[str], run: str) -> dict[str, Any]:
    """Settings as JSON with hooks."""
    hooks = {}
    for event in events:
        seconds = seconds_of(offer, event)
        hook: dict[str, Any] = {"type": "command", "command": run, "timeout": seconds}
        if offer.way == "file":  # gemini counts milliseconds, and lists hooks by name
            hook = {**hook, "name": "holdfast", "timeout": seconds * 1000}
        if event in offer.background:
            hook["async"] = True
        hooks[event] = [{"hooks": [hook]}]
    return {"hooks": hooks}


def seconds_of(offer: HookOffer, event: str) -> int:
    """How long the agent gives a hook."""
    if event == offer.asking:
        return ASKING_SECONDS
    return BRIEF_SECONDS if event in offer.brief else REPORT_SECONDS


def _quoted(word: str) -> str:
    """For a shell."""
    plain = word.replace("/", "").replace("-", "").replace(".", "").replace("_", "")
    return word if plain.isalnum() and plain.isascii() else "'" + word.replace("'", "'\\''") + "'"
