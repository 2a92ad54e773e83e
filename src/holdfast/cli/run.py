"""`holdfast run [options] CMD...`: start a supervised run.

The name goes to stdout, alone. Everything on this path costs every launch: what can wait is
imported after the command runs.
"""

from __future__ import annotations

import os

from holdfast.cli import streams
from holdfast.cli.run_options import add_options, read_options
from holdfast.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.parser import Parser

IS_BRIEF = True
_EPILOG = """\
options end at the first word that is not one: `--` before CMD is optional.
D is a duration (90, 90s, 10m, 1h30m, 2d), S is a size (512M, 2G).

exit codes: 0 it runs (or has run); 127 not found, 126 not executable, 125 not started for
another reason; 4 refused. With -F: the run's own code, 128+N for signal N, 124 for a timeout or
silence, 125 when Holdfast failed or did not see the end."""


def add_arguments(parser: Parser) -> None:
    """Options and CMD."""
    parser.add_argument(
        "-F",
        "--foreground",
        action="store_true",
        help="stream the output, pass signals on, exit with the run's code; ctrl-c twice stops it",
    )
    add_options(parser)
    parser.add_rest("command", "CMD", "the command and its arguments")
    parser.epilog = _EPILOG


def run(args: Namespace) -> int:
    """Start it, and say what became of that."""
    if args.foreground and args.json:
        from holdfast.cli import refuse_json

        raise refuse_json("run -F")
    refuse_as_init(args.foreground)
    if args.foreground:
        from holdfast.cli.foreground import hold_signals

        hold_signals()
    from holdfast.manage.launch import dismiss_the_one_ahead, fork_ahead

    fork_ahead()  # one thread, nothing to lose: saves an interpreter's start
    from holdfast.manage.runs import Runs

    options = read_options(args)
    started = Runs(notice=streams.complain).start(args.command, **options)
    if args.foreground:
        dismiss_the_one_ahead()  # the key's run was there already
        from holdfast.cli.foreground import stay

        return stay(started, args)
    from holdfast.cli.started import report

    return report(started, args)


def refuse_as_init(foreground: bool = False) -> None:
    """PID 1 that exits takes every process of its container with it, the new run too."""
    if os.getpid() == 1 and not foreground:
        raise Refused(
            "this is PID 1: when it exits, the kernel kills everything in this container",
            hint="use run -F here; or start another PID 1 (`docker run --init`) and run inside",
        )
