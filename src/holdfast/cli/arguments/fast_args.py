"""Reads ordinary command lines without argparse, which costs a launch four times `setsid -f`.

It takes the same declarations as `Parser` and understands only what needs no explanation. On
anything else, also every mistake and --help, it gives up, and argparse reads the words again:
so there is one set of declarations, one set of messages, and nothing is decided twice.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from holdfast.cli import Asked
    from holdfast.option_type import Option

_FLAGS = {"store_true": True, "store_false": False}

# The options that every command has: their names, and the help.
COMMON = (
    ("--json", "one JSON document on stdout"),
    ("-q", "--quiet", "say less"),
    ("-v", "--verbose", "say more"),
)


class _GivesUp(Exception):
    """Not an ordinary command line: argparse reads it."""


class _Words:
    """The arguments as attributes, in place of argparse's Namespace."""


class DeclaredArgument:
    """One argument as a command declares it."""

    def __init__(self, names: tuple[str, ...], settings: dict[str, Any]) -> None:
        long = [name for name in names if name.startswith("--")]
        first = long[0] if long else names[0]
        action = settings.get("action", "store")
        self.name = str(settings.get("dest") or first.lstrip("-").replace("-", "_"))
        self.is_flag = action in (*_FLAGS, "store_const")
        self.repeats = action == "append"
        self.nargs = settings.get("nargs")
        self.const = _FLAGS.get(action, settings.get("const"))
        self.default = settings.get("default", False if action == "store_true" else None)
        self.convert: Callable[[str], Any] = settings.get("type") or str
        self.choices = settings.get("choices")
        self.metavar = str(settings.get("metavar") or self.name.upper())
        self.text = str(settings.get("help") or "")
        if not (self.is_flag or self.repeats or action == "store"):
            raise _GivesUp

    def value_of(self, word: str) -> Any:
        value = self.convert(word)
        if self.choices is not None and value not in self.choices:
            raise _GivesUp
        return value


class QuickParser:
    """Declarations of one command, and one attempt to read its words."""

    def __init__(self, verb: str, summary: str) -> None:
        self.verb = verb
        self.summary = summary
        self.epilog: str | None = None
        self.description: str | None = None
        self.options: dict[str, DeclaredArgument | Option] = {}
        self.places: list[DeclaredArgument] = []
        self._defaults: dict[str, Any] = {}
        self.rest: str | None = None
        self._unless: str | None = None

    def add_argument(self, *names: str, **settings: Any) -> None:
        argument = DeclaredArgument(names, settings)
        self._defaults.setdefault(argument.name, argument.default)
        if not names[0].startswith("-"):
            self.places.append(argument)
            return
        if argument.nargs is not None or settings.get("required"):
            raise _GivesUp
        self.options.update(dict.fromkeys(names, argument))

    def add_options(self, options: Iterable[Option]) -> None:
        for option in options:
            self._defaults[option.name] = None
            for flag in option.flags:
                self.options[flag] = option

    def add_argument_group(self, *_title: str) -> QuickParser:
        return self

    def set_defaults(self, **defaults: Any) -> None:
        self._defaults.update(defaults)

    def add_rest(self, name: str, _metavar: str, _text: str, *, unless: str | None = None) -> None:
        self.rest, self._unless = name, unless

    def add_common_arguments(self) -> None:
        for *names, text in COMMON:
            self.add_argument(*names, action="store_true", help=text)

    def read(self, words: Sequence[str], asked: Asked) -> _Words:
        self.add_common_arguments()
        args, rest = _Words(), None
        placed: list[str] = []
        args.__dict__.update(self._defaults)
        queue = list(words)
        while queue:
            word = queue.pop(0)
            if word[:1] == "-" and len(word) > 1 and word != "--":
                self._take_option(args, word, queue)
            elif self.rest is not None and (word == "--" or len(placed) == len(self.places)):
                rest = queue if word == "--" else [word, *queue]
                break
            elif word == "--":
                raise _GivesUp
            else:
                placed.append(word)
        self._place(args, placed)
        self._take_rest(args, rest, placed)
        for name in ("json", "quiet", "verbose"):
            setattr(args, name, getattr(args, name) or getattr(asked, name))
        return args

    def _take_option(self, args: _Words, word: str, queue: list[str]) -> None:
        name, equals, value = word.partition("=")
        argument = self.options.get(name)
        if argument is None or (argument.is_flag and equals):
            raise _GivesUp
        if argument.is_flag:
            setattr(args, argument.name, argument.const)
            return
        if not equals:
            if not queue or (queue[0][:1] == "-" and len(queue[0]) > 1):
                raise _GivesUp  # no value, or one that looks like an option
            value = queue.pop(0)
        converted = argument.value_of(value)
        if argument.repeats:
            converted = [*(getattr(args, argument.name) or ()), converted]
        setattr(args, argument.name, converted)

    def _place(self, args: _Words, placed: list[str]) -> None:
        for position, argument in enumerate(self.places):
            left = placed[position:]
            if argument.nargs in ("+", "*"):
                if argument is not self.places[-1] or (argument.nargs == "+" and not left):
                    raise _GivesUp
                setattr(args, argument.name, [argument.value_of(word) for word in left])
                return
            if left:
                setattr(args, argument.name, argument.value_of(left[0]))
            elif argument.nargs != "?":
                raise _GivesUp
        if len(placed) > len(self.places):
            raise _GivesUp

    def _take_rest(self, args: _Words, rest: list[str] | None, placed: list[str]) -> None:
        if self.rest is None:
            return
        may_lack = self._unless is not None and getattr(args, self._unless) is not None
        if not (rest or may_lack) or len(placed) != len(self.places):
            raise _GivesUp
        setattr(args, self.rest, rest)


def read_quickly(
    verb: str, declare: Callable[[Any], None], words: Sequence[str], asked: Asked
) -> Namespace | None:
    """The arguments of an ordinary command line; None: argparse must read it."""
    parser = QuickParser(verb, "")
    try:
        declare(parser)
        return parser.read(words, asked)  # type: ignore[return-value]
    except (_GivesUp, AttributeError, ValueError):
        return None
