"""Reads an agent's own arguments: which words are options, values, the prompt.

Needs the profile's lists of options that take values; an option that is in no list is a flag.
"""

from __future__ import annotations

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.agents.profile import Options


class Argument(Record):
    """An option with its values, or (`option` is None) a word of its own."""

    option: str | None
    words: tuple[str, ...]

    def is_option(self, wanted: str) -> bool:
        """Is it `--verbose`, or `--output-format=json` in either spelling, or the word `exec`?"""
        name, _, value = wanted.partition("=")
        if not name.startswith("-"):
            return self.option is None and self.words == (wanted,)
        if self.option != name:
            return False
        return not value or value in (*self.words[1:], self.words[0].partition("=")[2])


def read_arguments(options: Options, words: Sequence[str]) -> list[Argument]:
    """The arguments in their order. After `--`, every word stands for itself."""
    found: list[Argument] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            found += [Argument(None, (rest,)) for rest in words[at + 1 :]]
            break
        if not word.startswith("-") or word == "-":
            found.append(Argument(None, (word,)))
            at += 1
            continue
        end = at + 1 + _values(options, word, words[at + 1 :])
        found.append(Argument(_name(options, word), tuple(words[at:end])))
        at = end
    return found


def _name(options: Options, word: str) -> str:
    if word.startswith("--"):
        return word.partition("=")[0]
    # -mgpt: a short option with its value attached
    return word[:2] if word[:2] in options.with_value else word.partition("=")[0]


def _values(options: Options, word: str, following: Sequence[str]) -> int:
    """How many of the words that follow belong to this option."""
    if word in options.with_value:
        return min(1, len(following))
    plain = 0
    while plain < len(following) and not following[plain].startswith("-"):
        plain += 1
    if word in options.with_optional_value:
        return min(1, plain)
    return plain if word in options.with_values else 0


def has_any(options: Options, words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Is one of the wanted options (or subcommands, as first word of its own) there?"""
    arguments = read_arguments(options, words)
    first_word = next((one for one in arguments if one.option is None), None)
    return any(
        argument.is_option(one)
        for argument in arguments
        for one in wanted
        if argument.option is not None or argument is first_word
    )


def is_headless(options: Options, words: Sequence[str]) -> bool:
    """Does the agent work through one prompt and end, without a dialogue?"""
    return has_any(options, words, options.headless)


def has_many_turns(options: Options, words: Sequence[str]) -> bool:
    """Does the agent go on after a finished turn, so that a turn's end is not the run's?"""
    return has_any(options, words, options.many_turns)


def continues_session(options: Options, words: Sequence[str]) -> bool:
    """Do the arguments pick an earlier session (`--resume ID`, `exec resume ID`)?"""
    return any(
        argument.is_option(wanted)
        for argument in read_arguments(options, words)
        for wanted in options.session
    )
