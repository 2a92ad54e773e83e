"""Hooks as single settings on the command line, as codex takes them: `-c hooks.Stop=[...]`.

codex runs no hook that its user has not trusted. Trust is a hash of the hook's declaration, beside
the hook's place; both are handed over for our own hooks alone, so that no other hook is trusted by
it. Where the hash is not what a version expects, that version asks its user about the hook.
"""

from __future__ import annotations

from holdfast.agents.hook_words import HookOffer, HookWords, seconds_of
from holdfast.lean import json_text, sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_PLACE = "/<session-flags>/config.toml"  # what codex calls the command line
_THEIRS = ("hooks.", "hooks=", "features.hooks", "features.codex_hooks")


def override_words(
    offer: HookOffer, events: Sequence[str], own: Sequence[str], command: str
) -> HookWords:
    """One setting for each event, and one that says that these hooks are trusted."""
    if any(_setting(word).startswith(_THEIRS) for word in own):
        return HookWords(why_not=f"your own hooks of {offer.option} would be lost")
    if not (command.isascii() and command.isprintable()):  # escapes of JSON and TOML differ
        return HookWords(why_not="the path of Holdfast has characters that it can't be told")
    words, trust = [], []
    for event in events:
        seconds, option = seconds_of(offer, event), str(offer.option)
        said = f'type="command",command={json_text(command)},timeout={seconds}'
        words += [option, f"hooks.{event}=[{{hooks=[{{{said}}}]}}]"]
        name = _snake(event)
        hook = {"async": False, "command": command, "timeout": seconds, "type": "command"}
        identity = json_text({"event_name": name, "hooks": [hook]})
        trusted = f'trusted_hash="sha256:{sha256_hex(identity.encode())}"'
        trust.append(f'"{_PLACE}:{name}:0:0"={{{trusted}}}')
    return HookWords((*words, str(offer.option), f"hooks.state={{{','.join(trust)}}}"))


def _setting(word: str) -> str:
    """What a word sets: `-chooks.x=1`, `--config=hooks.x=1`, or `hooks.x=1` after `-c`."""
    return word.removeprefix("--config=").removeprefix("-c").removeprefix("=")


def _snake(event: str) -> str:
    """`session_start` of `SessionStart`."""
    return "".join(f"_{one.lower()}" if one.isupper() else one for one in event).lstrip("_")
