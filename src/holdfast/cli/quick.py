"""Reads ordinary command lines without argparse, which costs a launch four times `setsid -f`.

It takes the same declarations as `Parser` and understands only what needs no explanation. On
anything else, also every mistake and --help, it gives up, and argparse reads the words again:
so there is one set of declarations, one set of messages, and nothing is decided twice.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.cli import Asked

_FLAGS = {"store_true": True, "store_false": False}


class _GivesUp(Exception):
    """Not for us: argparse shall read it."""


class _Words:
    """What was asked, as attributes; stands for argparse's Namespace."""


class _Argument:
    def __init__(self, names: tuple[str, ...], settings: dict[str, Any]) -> None:
        long = [name for name in names if name.startswith("--")]
        first = long[0] if long else names[0]
        self.dest = str(settings.get("dest") or first.lstrip("-").replace("-", "_"))
        self.action = settings.get("action", "store")
        self.nargs = settings.get("nargs")
        self.const = _FLAGS.get(self.action, settings.get("const"))
        usual = False if self.action == "store_true" else None
        self.default = settings.get("default", usual)
        self.convert: Callable[[str], Any] = settings.get("type") or str
        self.choices = settings.get("choices")
        if self.action not in (*_FLAGS, "store", "store_const", "append"):
            raise _GivesUp

    @property
    def is_flag(self) -> bool:
        return self.action in (*_FLAGS, "store_const")

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
        self._options: dict[str, _Argument] = {}
        self._places: list[_Argument] = []
        self._defaults: dict[str, Any] = {}
        self._rest: str | None = None

    def add_argument(self, *names: str, **settings: Any) -> None:
        argument = _Argument(names, settings)
        self._defaults.setdefault(argument.dest, argument.default)
        if not names[0].startswith("-"):
            self._places.append(argument)
            return
        if argument.nargs is not None or settings.get("required"):
            raise _GivesUp
        self._options.update(dict.fromkeys(names, argument))

    def add_argument_group(self, *_title: str) -> QuickParser:
        return self

    def set_defaults(self, **defaults: Any) -> None:
        self._defaults.update(defaults)

    def add_rest(self, name: str, _metavar: str, _text: str) -> None:
        self._rest = name

    def read(self, words: Sequence[str], asked: Asked) -> _Words:
        for name in ("json", "quiet", "verbose"):
            self.add_argument(f"--{name}", action="store_true")
        self._options.update({"-q": self._options["--quiet"], "-v": self._options["--verbose"]})
        args, rest = _Words(), None
        placed: list[str] = []
        args.__dict__.update(self._defaults)
        queue = list(words)
        while queue:
            word = queue.pop(0)
            if word[:1] == "-" and len(word) > 1 and word != "--":
                self._take_option(args, word, queue)
            elif self._rest is not None and (word == "--" or len(placed) == len(self._places)):
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
        argument = self._options.get(name)
        if argument is None or (argument.is_flag and equals):
            raise _GivesUp
        if argument.is_flag:
            setattr(args, argument.dest, argument.const)
            return
        if not equals:
            if not queue or (queue[0][:1] == "-" and len(queue[0]) > 1):
                raise _GivesUp  # no value, or one that looks like an option
            value = queue.pop(0)
        converted = argument.value_of(value)
        if argument.action == "append":
            converted = [*(getattr(args, argument.dest) or ()), converted]
        setattr(args, argument.dest, converted)

    def _place(self, args: _Words, placed: list[str]) -> None:
        for position, argument in enumerate(self._places):
            left = placed[position:]
            if argument.nargs in ("+", "*"):
                if argument is not self._places[-1] or (argument.nargs == "+" and not left):
                    raise _GivesUp
                setattr(args, argument.dest, [argument.value_of(word) for word in left])
                return
            if left:
                setattr(args, argument.dest, argument.value_of(left[0]))
            elif argument.nargs != "?":
                raise _GivesUp
        if len(placed) > len(self._places):
            raise _GivesUp

    def _take_rest(self, args: _Words, rest: list[str] | None, placed: list[str]) -> None:
        if self._rest is None:
            return
        if not rest or len(placed) != len(self._places):
            raise _GivesUp
        setattr(args, self._rest, rest)


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
