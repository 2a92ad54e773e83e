"""`holdfast completion SHELL`: a completion script, made from the commands' own parsers."""

from __future__ import annotations

import argparse

from holdfast.cli import COMMANDS, available, load, streams
from holdfast.cli.parser import Parser, positionals
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

SHELLS = {
    "bash": 'eval "$(holdfast completion bash)"',
    "zsh": 'eval "$(holdfast completion zsh)"   (after compinit)',
    "fish": "holdfast completion fish | source",
}
_REPEATED = ("+", "*", argparse.REMAINDER)


class Word(Record):
    """What can stand in one place.

    `kind` is runs, files, targets (both), signals, command, choices or none.
    """

    kind: str
    metavar: str
    choices: tuple[str, ...] = ()
    repeats: bool = False


class Option(Record):
    """One option of a command; `value` is None for a flag."""

    names: tuple[str, ...]
    text: str
    value: Word | None


class Shape(Record):
    """What one command takes."""

    verb: str
    text: str
    options: tuple[Option, ...]
    words: tuple[Word, ...]

    @property
    def valued(self) -> list[str]:
        """The option names that are followed by a value."""
        return [name for option in self.options if option.value for name in option.names]


def add_arguments(parser: Parser) -> None:
    """The shell."""
    parser.add_argument("shell", metavar="SHELL", choices=list(SHELLS), help="bash, zsh or fish")
    lines = [f"{shell + ':':<6}{line}" for shell, line in SHELLS.items()]
    parser.epilog = "put into your shell's start file:\n  " + "\n  ".join(lines)


def run(args: Namespace) -> int:
    """Print the script."""
    from holdfast.cli import completion_scripts

    script = completion_scripts.SCRIPTS[args.shell]([shape(verb) for verb in available()])
    if args.json:
        streams.say_json({"schema": 1, "shell": args.shell, "script": script})
    else:
        streams.say(script.rstrip("\n"))
    return 0


def shape(verb: str) -> Shape:
    """What a command takes, as its parser has it."""
    parser, _ = load(verb)
    options = tuple(
        Option(
            tuple(action.option_strings),
            _plain(action.help),
            None if action.nargs == 0 else _word(action),
        )
        for action in parser.arguments
        if action.option_strings
    )
    return Shape(verb, COMMANDS[verb][1], options, tuple(map(_word, positionals(parser))))


def _word(action: argparse.Action) -> Word:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    repeats = action.nargs in _REPEATED
    if action.choices:
        return Word("choices", metavar, tuple(map(str, action.choices)), repeats)
    if action.nargs == argparse.REMAINDER:
        return Word("command", metavar, (), repeats)
    return Word(_kind(metavar.split("|")), metavar, (), repeats)


def _kind(names: list[str]) -> str:
    if "RUN" in names:
        return "targets" if "PIDFILE" in names else "runs"
    if "SIG" in names:
        return "signals"
    if {"PIDFILE", "FILE", "DIR"} & {*names}:
        return "files"
    return "none"


def _plain(text: str | None) -> str:
    return " ".join((text or "").replace("%%", "%").split())
