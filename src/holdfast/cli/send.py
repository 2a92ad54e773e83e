"""`holdfast send RUN TEXT`: write to a run's stdin."""

from __future__ import annotations

from holdfast.cli.text import streams
from holdfast.errors import NoStdin, Refused
from holdfast.manage.runs import Runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser


def add_arguments(parser: Parser) -> None:
    """RUN and TEXT."""
    parser.add_argument("run", metavar="RUN", help="a name, an id, or its beginning")
    parser.add_argument(
        "text", metavar="TEXT", help="text to write; a newline (on a terminal: enter) is added"
    )
    parser.add_argument("--no-newline", action="store_true", help="add no newline")
    parser.epilog = "the run needs --pty or --stdin pipe; otherwise the exit code is 4"


def run(args: Namespace) -> int:
    """Write it; returns when the run's shim has accepted it."""
    import os

    target = Runs(notice=streams.complain).get(args.run)
    spec = target.directory.read_spec()
    if not spec.pty and spec.wanted.stdin != "pipe":
        raise NoStdin(
            f"{spec.name} was started without a stdin to write to",
            hint="start it with --pty or --stdin pipe",
            run=spec.id,
        )
    info = target.info()
    if not info.is_active:
        raise Refused(f"{spec.name} has ended ({info.outcome})", run=spec.id)
    enter = b"\r" if spec.pty else b"\n"  # what the key sends; a terminal makes a newline of it
    data = os.fsencode(args.text) + (b"" if args.no_newline else enter)
    target.send(data)
    if args.json:
        streams.say_json({"schema": 1, "id": spec.id, "name": spec.name, "sent_bytes": len(data)})
    return 0
