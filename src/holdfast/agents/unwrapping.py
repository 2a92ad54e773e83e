"""Looks behind wrappers in a command: env, timeout, npx, uv run, node, `sh -c` with plain words.

Pure and cheap (launch path); the table is `holdfast/wrappers.py`. Never guesses: a wrapper's option
that the table does not have, or a shell text that is more than plain words, ends the search.
"""

from __future__ import annotations

import os

from holdfast.record import Record
from holdfast.wrappers import (
    INTERPRETERS,
    SHELLS,
    WRAPPERS,
    family_of,
    is_text_option,
    script_at,
    shell_text_at,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.wrappers import Wrapper

    Words = tuple[str, ...]

_DEPTH = 8  # wrappers in wrappers; more is no real command


class Unwrapped(Record):
    """A word that may name an agent: a command, a script, a module or a package."""

    words: tuple[str, ...]
    at: int
    kind: str = "command"


def known_names() -> frozenset[str]:
    """The wrappers that are looked behind, without the versions in their names."""
    wrappers = {
        name
        for name, wrapper in WRAPPERS.items()
        if wrapper.usage is not None or any(one is not None for one in wrapper.verbs.values())
    }
    return frozenset({*wrappers, *INTERPRETERS, "nodejs"})


def unwrap(argv: Sequence[str]) -> Iterator[Unwrapped]:
    """Each word that may name the program, from the outside in."""
    found: Unwrapped | None = Unwrapped(tuple(argv), 0)
    for _ in range(_DEPTH):
        if found is None or found.at >= len(found.words) or not found.words[found.at]:
            return
        yield found
        if found.kind != "command":
            return
        found = _behind(found.words, found.at)


def _behind(words: Words, at: int) -> Unwrapped | None:
    name = os.path.basename(words[at])
    family = family_of(name)
    if family in SHELLS:
        place = shell_text_at(words[at + 1 :])
        return None if place is None else _behind_text(words[at + 1 + place])
    wrapper = WRAPPERS.get(name)
    if wrapper is not None:
        usage, after = _usage(wrapper, words, at + 1)
        if usage is not None:
            return _skip(_Usage(usage), words, after, wrapper.takes_text)
    return _behind_interpreter(family, words, at + 1) if family in INTERPRETERS else None


def _usage(wrapper: Wrapper, words: Words, at: int) -> tuple[str | None, int]:
    """How the words from here on are to be read, and from where: behind `tool run` of `uv`."""
    for length in (2, 1):
        verb = " ".join(words[at : at + length])
        if verb in wrapper.verbs:
            return wrapper.verbs[verb], at + length
    return wrapper.usage, at


def _behind_interpreter(family: str, words: Words, at: int) -> Unwrapped | None:
    place = script_at(family, words[at:])
    if place is None:
        return None
    is_module = place > 0 and words[at + place - 1] in INTERPRETERS[family].module
    return Unwrapped(words, at + place, "module" if is_module else "script")


def _behind_text(text: str) -> Unwrapped | None:
    from holdfast.shell_words import plain_words

    words = plain_words(text)
    return Unwrapped(words, 0) if words else None


class _Usage:
    """A wrapper's own words, as `Wrapper.usage` has them."""

    def __init__(self, text: str) -> None:
        parts = text.split()
        self.flags = [one for one in parts if one[0] == "-" and one[-1] != "="]
        self.with_value = [one[:-1] for one in parts if one[-1] == "="]
        self.has_any_flag = "-*" in parts
        self.own_words = parts.count("WORD")
        self.has_variables = "VARIABLES" in parts
        self.is_text_alone = "TEXT" in parts
        self.then = "package" if "PACKAGE" in parts else "command"

    def length_of(self, option: str) -> int:
        """How many words an option takes; 0: it is not known."""
        if option in self.with_value:
            return 2
        return 1 if option in self.flags or self.has_any_flag or self._has_value(option) else 0

    def _has_value(self, option: str) -> bool:
        """`--signal=KILL`, `-k5`, `-n10`, `-10`."""
        name = option.partition("=")[0] if option.startswith("--") else option[:2]
        return name in self.with_value or option[1:].isdecimal()


def _skip(usage: _Usage, words: Words, at: int, takes_text: bool) -> Unwrapped | None:
    """Past the wrapper's own words; None when one of them is not understood."""
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        if takes_text and is_text_option(words[at]):
            return _text_at(words, at + 1)
        length = usage.length_of(words[at])
        if not length:
            return None
        at += length
    if usage.is_text_alone:
        return None
    if at < len(words) and words[at] == "--":
        at += 1
    while usage.has_variables and at < len(words) and "=" in words[at]:
        at += 1
    at += usage.own_words
    if takes_text and at < len(words) and is_text_option(words[at]):
        return _text_at(words, at + 1)
    return Unwrapped(words, at, usage.then)


def _text_at(words: Words, at: int) -> Unwrapped | None:
    return _behind_text(words[at]) if at < len(words) else None
