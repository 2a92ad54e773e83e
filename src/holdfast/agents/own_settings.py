"""What the user gave an agent for the same option: merged, so that theirs stays in force.

Where it can't be read, nothing is handed over: theirs would be lost.
"""

from __future__ import annotations

import json
import os

from holdfast.agents.arguments import read_arguments
from holdfast.agents.hook_words import HookOffer, HookWords
from holdfast.agents.loader import load_profile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_MOST_BYTES = 1 << 20


def merged_words(
    agent: str, offer: HookOffer, arguments: Sequence[str], ours: dict[str, Any], cwd: str
) -> HookWords:
    """Theirs with our hooks added, right after theirs: of the same option, the last one counts."""
    place, given = 0, None
    for one in read_arguments(load_profile(agent).options, arguments):
        place += len(one.words)
        if one.option == offer.option:
            at, given = place, one.words
        if "--" in arguments[place : place + 1]:
            break
    if given is None:  # a word of the prompt reads like it
        return HookWords((str(offer.option), json.dumps(ours)))
    text = given[-1] if len(given) > 1 else given[0].partition("=")[2]
    try:
        theirs = json.loads(_content(text, cwd))
        hooks = theirs.setdefault("hooks", {})
        for event, added in ours["hooks"].items():
            hooks[event] = [*hooks.get(event, ()), *added]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return HookWords(why_not=f"your {offer.option} can't be read, and would be lost")
    return HookWords((str(offer.option), json.dumps(theirs)), at)


def _content(text: str, cwd: str) -> str:
    """JSON, or the file that has it."""
    if text.lstrip().startswith("{"):
        return text
    with open(os.path.join(cwd, text), encoding="utf-8", opener=_at_once) as file:
        return file.read(_MOST_BYTES)


def _at_once(path: str, flags: int) -> int:
    """A FIFO has no content, and must not be waited for."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
