"""argparse, with Holdfast's rules: errors are raised, mistakes get a suggestion, and the options
of `run` and `guard` end at the first word that is not one.

Each command has its own parser, so that no command pays for another's. Where the options end is
decided here and not by argparse.REMAINDER, whose treatment of `--` differs between versions.
"""

from __future__ import annotations

import argparse

from holdfast.cli.arguments.fast_args import COMMON
from holdfast.cli.text import streams
from holdfast.errors import WrongUse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, NoReturn

    from holdfast.cli import Asked
    from holdfast.option_type import Option

_SYNONYMS = {
    "start": "run", "exec": "run", "list": "ls", "ps": "ls", "show": "status", "info": "status",
    "tail": "logs", "log": "logs", "kill": "stop", "remove": "rm", "delete": "rm", "prune": "clean",
    "restart": "rerun", "retry": "rerun", "id": "who", "whois": "who", "verify": "check",
}  # fmt: skip


# argparse would look for translations of its messages, which takes two milliseconds.
setattr(argparse, "_", str)  # noqa: B010 - the name is private to argparse


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """With a given width: argparse would import shutil for it, even to add an argument."""

    def __init__(self, prog: str, width: int = 78) -> None:
        super().__init__(prog, width=width)


class Parser(argparse.ArgumentParser):
    """The parser of one command."""

    def __init__(self, verb: str, summary: str) -> None:
        super().__init__(
            prog=f"holdfast {verb}",
            description=summary[0].upper() + summary[1:] + ".",
            allow_abbrev=False,
            add_help=False,
            formatter_class=HelpFormatter,
        )
        self.verb = verb
        self.summary = summary
        self._rest: argparse.Action | None = None

    def format_help(self) -> str:
        """The help, as wide as the screen."""
        from holdfast.cli.text.terminal import columns

        width = columns() - 2
        self.formatter_class = lambda prog: HelpFormatter(prog, width)
        return super().format_help()

    def print_help(self, file: object = None) -> None:  # noqa: ARG002 - of argparse
        """argparse would say nothing where it can't be written."""
        streams.say(self.format_help().rstrip("\n"))

    def add_rest(self, name: str, metavar: str, text: str, *, unless: str | None = None) -> None:
        """The words of a command to run: everything after the options and other words.

        They may be missing where the option `unless` is given.
        """
        self._unless = unless
        self._rest = self.add_argument(name, metavar=metavar, nargs=argparse.REMAINDER, help=text)

    def add_options(self, options: Iterable[Option]) -> None:
        """The options of a run, below the headings that they are declared with."""
        groups: dict[str, argparse._ArgumentGroup] = {}
        for option in options:
            if option.group not in groups:
                groups[option.group] = self.add_argument_group(option.group)
            groups[option.group].add_argument(
                *option.flags, dest=option.name, help=option.text, **_how(option)
            )

    def add_common_arguments(self) -> None:
        """The options that every command has."""
        group = self.add_argument_group("everywhere")
        for *names, text in COMMON:
            group.add_argument(*names, action="store_true", help=text)
        group.add_argument("-h", "--help", action="help", help="print this")
        self.usage = " ".join([self.prog, "[options]", *map(_shown, positionals(self))])

    @property
    def arguments(self) -> list[argparse.Action]:
        """All arguments in the order they were added, for help, completion and documentation."""
        return [action for action in self._actions if action.help != argparse.SUPPRESS]

    def split(self, words: Sequence[str]) -> tuple[list[str], list[str] | None]:
        """Separate our words from those of CMD; None if the command takes no CMD."""
        if self._rest is None:
            return list(words), None
        wanted = sum(1 for action in self._actions if not action.option_strings) - 1
        position = 0
        while position < len(words):
            word = words[position]
            if word == "--":
                own = list(words[:position]) + list(words[position + 1 : position + 1 + wanted])
                return own, list(words[position + 1 + wanted :])
            if word[:1] == "-" and word != "-":
                position += self._width(word)
            elif wanted:
                wanted -= 1
                position += 1
            else:
                break
        return list(words[:position]), list(words[position:])

    def _width(self, word: str) -> int:
        """How many words an option takes: 2 when its value is the next one."""
        if word.startswith("--"):
            name, equals, _ = word.partition("=")
            action = self._option_string_actions.get(name)
            if action is None:
                raise self._unknown_option(name)
            return 1 if equals or action.nargs == 0 else 2
        for place, letter in enumerate(word[1:], start=2):
            action = self._option_string_actions.get(f"-{letter}")
            if action is None:
                raise self._unknown_option(f"-{letter}")
            if action.nargs != 0:
                return 1 if word[place:] else 2
        return 1

    def read(
        self, options: Sequence[str], rest: list[str] | None, asked: Asked
    ) -> argparse.Namespace:
        """Parse our words."""
        args, extra = self.parse_known_args(list(options))
        if extra:
            self._refuse(extra)
        for name in ("json", "quiet", "verbose"):
            setattr(args, name, getattr(args, name) or getattr(asked, name))
        if self._rest is not None:
            if not rest and getattr(args, self._unless or "", None) is None:
                self.error(f"{self._rest.metavar} is missing")
            setattr(args, self._rest.dest, rest)
        return args

    def error(self, message: str) -> NoReturn:
        """argparse would print and exit; here every error is rendered in one place."""
        message = message.replace("the following arguments are required:", "missing:")
        raise WrongUse(f"{self.verb}: {message}", hint=f"usage: {self.usage}")

    def _refuse(self, extra: list[str]) -> NoReturn:
        for word in extra:
            if word.startswith("-") and word != "-":
                raise self._unknown_option(word.partition("=")[0])
        self.error(f"unexpected word {extra[0]!r}")

    def _unknown_option(self, name: str) -> WrongUse:
        return unknown("option", name, self._option_string_actions, where=self.verb)


def unknown(kind: str, word: str, known: Iterable[str], where: str = "") -> WrongUse:
    """The error for a word that is not among the known ones, with the nearest of those."""
    near = _nearest(word, known)
    more = f"holdfast {where} --help".replace("  ", " ")
    hint = f"did you mean {near}?" if near else f"`{more}` lists them"
    prefix = f"{where}: " if where else ""
    return WrongUse(f"{prefix}unknown {kind} {word!r}", hint=hint)


def _nearest(word: str, known: Iterable[str]) -> str | None:
    import difflib

    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.75)
    return near[0] if near else None


def unknown_command(word: str, known: Sequence[str]) -> WrongUse:
    """The error for a mistyped command, or for a program given without `run`."""
    meant = _SYNONYMS.get(word.lower())
    if meant in known:
        return WrongUse(f"unknown command {word!r}", hint=f"did you mean holdfast {meant}?")
    error = unknown("command", word, known)
    if "run" in known and _nearest(word, known) is None:
        import shutil

        if shutil.which(word):
            error.hint = f"to start it as a run: holdfast run {word} ..."
    return error


def _how(option: Option) -> dict[str, Any]:
    if option.is_flag:
        # None and not False: what was not typed may be in config.toml.
        return {"action": "store_const", "const": option.const}
    from holdfast.manage.starting.option_values import kind_of

    metavar = option.metavar or kind_of(option).metavar
    return {"action": "append" if option.repeats else "store", "metavar": metavar}


def _shown(action: argparse.Action) -> str:
    """A word in the usage line: `RUN`, `RUN...`, `[RUN]`, `CMD...`."""
    name = str(action.metavar or action.dest)
    if action.nargs in ("+", argparse.REMAINDER):
        return f"{name}..."
    return f"[{name}]" if action.nargs == "?" else f"[{name}...]" if action.nargs == "*" else name


def positionals(parser: Parser) -> Iterator[argparse.Action]:
    """The words, other than options, that a command takes."""
    return (action for action in parser.arguments if not action.option_strings)
