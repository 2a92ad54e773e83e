"""`holdfast top`: the runs on a live screen of the terminal."""

from __future__ import annotations

import importlib.util
import sys

from holdfast.cli.arguments.selectors import add_selectors, has_selector, selection_of
from holdfast.cli.text.terminal import is_terminal
from holdfast.errors import Unavailable, WrongUse
from holdfast.manage.overview import WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

JSON = False


def add_arguments(parser: Parser) -> None:
    """Which runs."""
    add_selectors(parser, "every run, however old")
    parser.epilog = (
        "Active runs and those that ended in the last 24 hours, what needs you first. ? on the\n"
        "screen lists every key; q leaves, and no run is affected.\n"
        "It needs an extra: pip install 'holdfast[top]'"
    )


def run(args: Namespace) -> int:
    """Show the screen until the person leaves."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise WrongUse("top needs a terminal", hint="holdfast ls prints the same rows")
    if importlib.util.find_spec("textual") is None:
        raise Unavailable(
            "holdfast top needs an extra that is not installed here: holdfast[top]",
            hint="pip install 'holdfast[top]'",
        )
    from holdfast.tui.starting import run_top

    return run_top(
        selection_of(args),
        window=args.since or (None if args.all else WINDOW),
        is_plain=not has_selector(args),
    )
