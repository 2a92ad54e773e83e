"""`holdfast __complete SHELL WORD...`: what the last word may become, asked for by a shell's stub.

The first line of the answer is what the shell itself completes beside the words that follow:
`files`, `directories`, `command N` (a command line from word N on, `holdfast` being word 0), or
`words` alone. Each has the form that the stub takes. Whatever fails, nothing is printed.
"""

from __future__ import annotations

import gc

from holdfast.cli import COMMANDS, available, command_module
from holdfast.cli.arguments.fast_args import COMMON, QuickParser
from holdfast.cli.text import streams
from holdfast.option_type import Option
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.arguments.fast_args import DeclaredArgument

    Words = dict[str, str]  # each with what it means, or ""

_REPEATED = ("+", "*")
_BY_SHELL = ("files", "directories")
_SOURCES = {  # by what a metavar names
    "RUN": "runs",
    "SIG": "signals",
    "FILE": "files",
    "PIDFILE": "files",
    "A": "agents",
    "K=V": "tags",
    "Q": "queues",
    "WHERE": "engines",
}
_HELP = {"-h": "print help", "--help": "print help"}


class Completion(Record):
    """What may follow: words of ours, and what the shell itself completes (`how`)."""

    words: Words = {}
    how: str = "words"


class WordPlace(Record):
    """Where the last word stands in the words of a command."""

    option: DeclaredArgument | Option | None = None  # it is the value of this one
    given: tuple[str, ...] = ()  # the words before it that are no options
    are_options_over: bool = False  # after `--`
    command_at: int | None = None  # it is part of a command line that begins there


def run(words: Sequence[str]) -> int:
    """Print the answer; nothing if that fails."""
    gc.disable()  # imports make no garbage, and collecting would double their time
    try:
        shell, *typed = words
        lines = _FORMS[shell](typed)
    except Exception:  # noqa: BLE001 - a message would appear in the line that is being typed
        return 1
    streams.say("\n".join(lines))
    return 0


def complete(words: Sequence[str]) -> Completion:
    """What the last of the words may become: it is empty, or a beginning."""
    *before, typed = words or [""]
    at = next((n for n, word in enumerate(before) if not word.startswith("-")), len(before))
    if at == len(before):
        common = {name: text for *names, text in COMMON for name in names}
        return Completion({**_verbs(), **common, **_HELP, "--version": "print the version"})
    verb = before[at]
    if verb == "help" and at == len(before) - 1:
        return Completion(_verbs())
    if verb not in available():
        return Completion()
    parser = QuickParser(verb, "")
    command_module(verb).add_arguments(parser)  # type: ignore[arg-type]
    parser.add_common_arguments()
    place = find_place(parser, before[at + 1 :], typed)
    if place.command_at is not None:
        return Completion(how=f"command {at + 2 + place.command_at}")
    return _at_place(parser, place, typed)


def _verbs() -> Words:
    return {verb: COMMANDS[verb][1] for verb in available()}


def find_place(parser: QuickParser, before: Sequence[str], typed: str) -> WordPlace:
    """Where the word that is being typed stands, after the words of the command before it."""
    given: list[str] = []
    option: DeclaredArgument | Option | None = None
    are_options_over = False
    for at, word in enumerate(before):
        if option is not None:
            option = None  # this word was its value
        elif word == "--" and not are_options_over:
            are_options_over = True
        elif word[:1] == "-" and len(word) > 1 and not are_options_over:
            found = parser.options.get(word)
            option = None if found is None or found.is_flag else found
        elif _command_is_next(parser, given):
            return WordPlace(command_at=at)
        else:
            given.append(word)
    is_option = option is not None or (typed[:1] == "-" and not are_options_over)
    if not is_option and _command_is_next(parser, given):
        return WordPlace(command_at=len(before))
    return WordPlace(option, tuple(given), are_options_over)


def _command_is_next(parser: QuickParser, given: Sequence[str]) -> bool:
    return parser.rest is not None and len(given) == len(parser.places)


def _at_place(parser: QuickParser, place: WordPlace, typed: str) -> Completion:
    if place.option is not None:
        return _values(parser, place.option, typed)
    if typed.startswith("-") and not place.are_options_over:
        return _option(parser, typed)
    number, places = len(place.given), parser.places
    if number < len(places) or (places and places[-1].nargs in _REPEATED):
        found = _values(parser, places[min(number, len(places) - 1)], typed)
        fresh = {word: text for word, text in found.words.items() if word not in place.given}
        return found.replace(words=fresh)
    return Completion({} if place.are_options_over else _options(parser))


def _options(parser: QuickParser) -> Words:
    return {**{name: one.text for name, one in parser.options.items()}, **_HELP}


def _option(parser: QuickParser, typed: str) -> Completion:
    """An option's name, or its value in the same word: `--agent=c`."""
    name, equals, value = typed.partition("=")
    if not equals:
        return Completion(_options(parser))
    option = parser.options.get(name)
    if option is None or option.is_flag:
        return Completion()
    found = _values(parser, option, value)
    return found.replace(words={f"{name}={word}": text for word, text in found.words.items()})


def _values(parser: QuickParser, argument: DeclaredArgument | Option, typed: str) -> Completion:
    choices, sources = _known(argument)
    words: Words = dict.fromkeys(choices, "")
    for source in sources:
        if source not in _BY_SHELL:
            from holdfast.cli.arguments.known_words import known_words

            words.update(known_words(source, parser.verb, typed))
    return Completion(words, next((one for one in sources if one in _BY_SHELL), "words"))


def _known(argument: DeclaredArgument | Option) -> tuple[Sequence[str], Sequence[str]]:
    """The words that a value may be, and the names of what to look up."""
    if not isinstance(argument, Option):
        names = argument.metavar.split("|")
        words = argument.choices or [name for name in names if name.islower()]
        return words, [_SOURCES[name] for name in names if name in _SOURCES]
    from holdfast.manage.starting.option_values import kind_of

    known = kind_of(argument).completes
    return ((), (known,)) if isinstance(known, str) else (known, ())


# What each stub takes


def _bash(words: Sequence[str]) -> list[str]:
    """Bash breaks words at `=`, replaces what follows the last break, and quotes nothing."""
    joined = _join_at_equals(words)
    typed = joined[-1].replace("\\", "").lstrip("'\"") if joined else ""
    found = complete([*joined[:-1], typed])
    kept = typed[: typed.rfind("=") + 1]
    fitting = (word for word in found.words if word.startswith(typed) and word.isprintable())
    return [found.how, *(_quoted(word.removeprefix(kept)) for word in fitting)]


def _join_at_equals(words: Sequence[str]) -> list[str]:
    joined: list[str] = []
    for word in words:
        if joined and (word == "=" or joined[-1].endswith("=")):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def _quoted(word: str) -> str:
    return "".join(one if one.isalnum() or one in "_-=:,./@%+" else f"\\{one}" for one in word)


def _zsh(words: Sequence[str]) -> list[str]:
    """`_describe` parts a word from its text at the first colon that is not escaped."""
    found = complete(words)
    rows = ((word.replace("\\", "\\\\").replace(":", "\\:"), text) for word, text in _rows(found))
    return [found.how, *(f"{word}:{text}" if text else word for word, text in rows)]


def _fish(words: Sequence[str]) -> list[str]:
    found = complete(words)
    return [found.how, *(f"{word}\t{text}" for word, text in _rows(found))]


def _rows(found: Completion) -> list[tuple[str, str]]:
    return [(word, text) for word, text in found.words.items() if word.isprintable()]


_FORMS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
