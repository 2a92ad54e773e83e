"""`holdfast rerun RUN [options]`: the same command again, as a new run of the same name."""

from __future__ import annotations

from holdfast.cli import streams
from holdfast.cli.run import refuse_as_init
from holdfast.cli.run_options import add_options, read_options
from holdfast.cli.started import report
from holdfast.manage.launch import allow_fork
from holdfast.manage.runs import Runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.parser import Parser


def add_arguments(parser: Parser) -> None:
    """RUN, and what to change."""
    parser.add_argument("run", metavar="RUN", help="a name, an id, or its beginning")
    add_options(parser)
    parser.epilog = (
        "Directory, environment, stdin and options are those of RUN, but for what is given here.\n"
        "Refused while a run of that name lives, unless --replace or another --name is given."
    )


def run(args: Namespace) -> int:
    """Start it again, and say what became of that."""
    refuse_as_init()
    changes = read_options(args, with_defaults=False)
    allow_fork()
    return report(Runs(notice=streams.complain).get(args.run).rerun(**changes), args)
