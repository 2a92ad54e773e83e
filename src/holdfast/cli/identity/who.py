"""`holdfast who PID`: the identity token of a process, alone on stdout."""

from __future__ import annotations

import sys

from holdfast.cli.text import streams
from holdfast.cli.text.terminal import is_terminal
from holdfast.errors import InvalidPid, ProcessGone, ProcessUnreadable
from holdfast.manage.plaintext import printable
from holdfast.process import procfs, this_host
from holdfast.process.identity import ProcessIdentity, valid_pid
from holdfast.process.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from holdfast.cli.arguments.parser import Parser


def add_arguments(parser: Parser) -> None:
    """PID."""
    parser.add_argument("pid", metavar="PID", help="the process's number")
    parser.epilog = "example: token=$(holdfast who $$); ...; holdfast check $token"


def run(args: Namespace) -> int:
    """Print the token."""
    identity = ProcessIdentity.of(parse_pid(args.pid))
    if args.json:
        streams.say_json({"schema": 1, **describe(identity)})
        return 0
    streams.say(identity.token)
    if args.verbose or (is_terminal(sys.stdout) and not args.quiet):
        streams.complain(_sentence(identity))
    return 0


def parse_pid(text: str) -> int:
    """A PID from the command line; InvalidPid for what kill(2) takes for a group or for all."""
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise InvalidPid(f"{text!r} is not a PID", hint="a PID is a number from 1 up")
    return valid_pid(int(text))


def describe(identity: ProcessIdentity) -> dict[str, Any]:
    """The contract's PROCESS. What can't be read is null."""
    look = identity.look()
    document: dict[str, Any] = {**identity.to_json(), "verdict": look.verdict.value}
    facts: dict[str, Any] = {"comm": None, "exe": None, "cmdline": None, "state": None}
    if look.verdict is Verdict.SAME and not this_host.is_portable():
        try:
            seen = procfs.read_stat(identity.pid)
            facts = {
                "comm": seen.comm,
                "exe": procfs.executable(identity.pid),
                "cmdline": procfs.command_line(identity.pid),
                "state": seen.state.value,
            }
        except (ProcessGone, ProcessUnreadable):  # the facts stay null
            pass
        if identity.verdict() is not Verdict.SAME:  # this may describe another
            facts = dict.fromkeys(facts)
    return {**document, **facts}


def _sentence(identity: ProcessIdentity) -> str:
    known = describe(identity)
    name = f" {printable(known['comm'])}" if known["comm"] else ""
    proof = identity.look().proof
    return f"{identity.pid}{name}: named by its {proof or 'PID alone'}"
