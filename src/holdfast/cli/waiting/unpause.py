"""`holdfast unpause RUN...`: continue the processes that `pause` stopped."""

from __future__ import annotations

from holdfast.cli.arguments.selectors import RUNS, add_selectors
from holdfast.cli.waiting.pause import change_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser


def add_arguments(parser: Parser) -> None:
    """RUN..."""
    parser.add_argument("run", metavar="RUN", nargs="*", help=RUNS)
    add_selectors(parser, "every active run")
    parser.epilog = (
        "Only what `pause` stopped is continued; processes that others stopped stay stopped.\n"
        "exit codes: 4 it is not paused, or has ended; of several runs, the first that is not 0"
    )


def run(args: Namespace) -> int:
    """Continue them."""
    return change_all(args, "unpause")
