"""The quick reader and argparse understand the same command lines alike, or it gives up."""

from __future__ import annotations

import pytest

from holdfast.cli import COMMANDS, Asked, available, load
from holdfast.cli.arguments.fast_args import read_quickly
from holdfast.errors import WrongUse

LINES = [
    ("run", ["true"]),
    ("run", ["-n", "x", "--timeout", "5s", "--", "sh", "-c", "exit 3"]),
    ("run", ["-e", "A=1", "-e", "B", "--tag", "k=v", "--pty", "sh", "-n", "y", "--json"]),
    ("run", ["--name=x", "-F", "--grace", "0", "cmd"]),
    ("run", ["--stdin", "-", "--json", "cat"]),
    ("guard", ["x.pid", "sleep", "1"]),
    ("guard", ["x.pid", "--", "sleep", "--json"]),
    ("ls", []),
    ("ls", ["--all", "-q", "--tag", "a=b"]),
    ("ls", ["--json", "-n", "5", "--since", "1h"]),
    ("status", ["x"]),
    ("stop", ["a", "b", "--grace", "1s"]),
    ("stop", ["--all", "-v"]),
    ("wait", ["a", "--timeout", "1"]),
    ("logs", ["a", "-f", "--tail", "3"]),
    ("events", []),
    ("events", ["x", "--since", "c"]),
    ("signal", ["TERM", "x", "--trust-pid"]),
    ("usage", ["--by", "day"]),
]
NOT_PLAIN = [
    ("run", []),
    ("run", ["--help"]),
    ("run", ["--nam", "x", "true"]),
    ("run", ["-n"]),
    ("run", ["-n", "--pty", "true"]),
    ("run", ["-nx", "true"]),
    ("run", ["--pty=yes", "true"]),
    ("guard", ["x.pid"]),
    ("guard", ["--", "x.pid", "sleep"]),
    ("status", []),
    ("status", ["a", "b"]),
    ("ls", ["-1"]),
    ("ls", ["--state", "nonsense"]),
    ("usage", ["--by", "moon"]),
    ("stop", ["--", "a"]),
]


def quickly(verb: str, words: list[str]) -> dict[str, object] | None:
    _, module = load(verb)
    args = read_quickly(verb, module.add_arguments, words, Asked())
    return None if args is None else vars(args)


def slowly(verb: str, words: list[str]) -> dict[str, object]:
    parser, _ = load(verb)
    options, rest = parser.split(words)
    return vars(parser.read(options, rest, Asked()))


@pytest.mark.parametrize(("verb", "words"), LINES)
def test_both_read_the_same(verb, words):
    assert quickly(verb, words) == slowly(verb, words)


@pytest.mark.parametrize(("verb", "words"), NOT_PLAIN)
def test_what_needs_explaining_is_left_to_argparse(verb, words):
    assert quickly(verb, words) is None


@pytest.mark.parametrize("verb", sorted(set(available()) & set(COMMANDS)))
def test_every_command_can_be_read_quickly(verb):
    words = {"completion": ["bash"], "guard": ["x.pid", "true"]}.get(verb)
    for line in [words] if words else [[], ["x"], ["x", "y"]]:
        try:
            expected = slowly(verb, line)
        except WrongUse:
            continue  # not a complete line of this command
        assert quickly(verb, line) == expected
        return
    raise AssertionError("no line was tried")
