"""`holdfast run [options] CMD...`: start a supervised run.

stdout gets the name and nothing else. Every import on this path costs every launch: what can
wait is imported after the command runs.
"""

from __future__ import annotations

import os

from holdfast import importing
from holdfast.cli.arguments.run_options import read_options
from holdfast.cli.text import streams
from holdfast.errors import Refused
from holdfast.manage.runs import Runs
from holdfast.manage.starting.launch import discard_preforked_shim
from holdfast.options import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

IS_BRIEF = True
_EPILOG = """\
options end at the first word that is not one: `--` before CMD is optional.
D is a duration (90, 90s, 10m, 1h30m, 2d), S is a size (512M, 2G).

-q prints nothing but failures: no name, and if it is already running, exit code 4 alone.

a line of --batch FILE is plain words, or {"command": [...], "name": ...} with the options of run by
their names in the library; options here are defaults for each line, -n is numbered, and --key makes
it repeatable. All lines are checked before the first is started. Exit code: the first but 0.

exit codes: 0 started; 127 not found, 126 not executable, 125 not started for another reason;
4 refused. With -F: the run's own code, 128+N for signal N, 124 for a timeout or silence, 125 if
Holdfast failed or did not observe the end."""


def add_arguments(parser: Parser) -> None:
    """Options and CMD."""
    parser.add_argument(
        "-F",
        "--foreground",
        action="store_true",
        help="stream output, forward signals, exit with the run's code; ctrl-c twice stops it",
    )
    parser.add_argument(
        "--batch",
        metavar="FILE|-",
        help="start each line of FILE: words, or a JSON object with the library's keywords",
    )
    parser.add_options(OPTIONS.values())
    parser.add_rest("command", "CMD", "the command and its arguments", unless="batch")
    parser.epilog = _EPILOG


def run(args: Namespace) -> int:
    """Start it, and print the result."""
    if args.foreground and args.json:
        from holdfast.cli import refuse_json

        raise refuse_json("run -F")
    refuse_as_init(args.foreground)
    if args.batch is not None:
        from holdfast.cli.text.batch_text import run_batch

        discard_preforked_shim()
        return run_batch(args)
    if args.foreground:
        from holdfast.cli.foreground import hold_signals

        hold_signals()
    if args.on is not None:
        discard_preforked_shim()
    options = read_options(args)
    started = Runs(notice=streams.notices(args.quiet)).start(args.command, **options)
    if args.foreground:
        discard_preforked_shim()  # the key's run was there already
        if started.is_elsewhere:
            from holdfast.cli.fleet.foreground_elsewhere import stay_elsewhere

            return stay_elsewhere(started, args)  # type: ignore[arg-type]
        from holdfast.cli.foreground import stay

        return stay(started, args)
    from holdfast.cli.text.start_text import report

    code = report(started, args)
    if importing.lacks_bundle():
        _have_bundle_made()
    return code


def _have_bundle_made() -> None:
    """For the next starts: the output is there, and nobody waits for this one."""
    from holdfast.manage.operations import run_steps
    from holdfast.manage.removal.retention_due import bundle_when_due

    streams.flush()
    run_steps(bundle_when_due(importing.BUNDLE))


def refuse_as_init(foreground: bool = False) -> None:
    """If we are PID 1, our exit kills every process of the container, the new run too."""
    if os.getpid() == 1 and not foreground:
        raise Refused(
            "this is PID 1: when it exits, the kernel kills everything in this container",
            hint="use run -F here; or start another PID 1 (`docker run --init`) and run inside",
        )
