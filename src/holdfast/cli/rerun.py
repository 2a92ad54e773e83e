"""`holdfast rerun RUN [options]`: the same command again, as a new run of the same name."""

from __future__ import annotations

from holdfast.cli.arguments.run_options import read_options
from holdfast.cli.run import refuse_as_init
from holdfast.cli.text import streams
from holdfast.cli.text.start_text import report
from holdfast.manage.runs import Runs
from holdfast.manage.starting.launch import allow_fork
from holdfast.options import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

KNOWS_FLEET = True


def add_arguments(parser: Parser) -> None:
    """RUN, and what to change."""
    parser.add_argument("run", metavar="RUN", help="a name, an id, or its beginning")
    parser.add_options(OPTIONS.values())
    parser.epilog = (
        "Directory, environment, stdin and options are those of RUN, except those given here.\n"
        "With --worktree it begins in the repository, not in the worktree that RUN has worked in.\n"
        "Refused while a run of that name is alive, unless --replace or another --name is given.\n"
        "Queue and priority are kept; --at, --in, --after and --after-any are not."
    )


def run(args: Namespace) -> int:
    """Start it again, and print the result."""
    refuse_as_init()
    changes = read_options(args, with_defaults=False)
    allow_fork()
    tell = streams.notices(args.quiet)
    old = Runs(notice=tell).get(args.run)
    waits = {} if old.is_elsewhere else old.directory.read_spec().waits or {}
    again = old.rerun(**changes)
    dropped = [name for name in ("at", "in", "after") if waits.get(name)]
    if dropped:
        shown = ", ".join(f"--{name}" for name in dropped)
        tell(f"{args.run} had conditions ({shown}): they are not kept; give them again if needed")
    return report(again, args)
