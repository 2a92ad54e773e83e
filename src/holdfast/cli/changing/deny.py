"""`holdfast deny RUN [ID]`: refuse what an agent asks permission for."""

from __future__ import annotations

from holdfast.cli.changing.approve import ID, RUN, answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser


def add_arguments(parser: Parser) -> None:
    """RUN, ID, and what to tell the agent."""
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument("id", metavar="ID", nargs="?", help=ID)
    parser.add_argument("--message", metavar="T", help="what the agent is told")
    parser.epilog = "as `approve`; the agent goes on, and may try something else"


def run(args: Namespace) -> int:
    """Deny, and print what."""
    return answer(args, allow=False, message=args.message)
