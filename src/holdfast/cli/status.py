"""`holdfast status RUN`: everything known about a run, with the evidence for it."""

from __future__ import annotations

from holdfast.cli.text import streams
from holdfast.cli.text.terminal import columns, paint
from holdfast.manage.plaintext import printable, wrapped
from holdfast.manage.reading.run_status import read_status
from holdfast.manage.runs import Runs
from holdfast.manage.words.status_page import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

_INDENT = 10
_NARROWEST = 40


def add_arguments(parser: Parser) -> None:
    """RUN."""
    parser.add_argument("run", metavar="RUN", help="a name, an id, or the beginning of an id")
    parser.epilog = "exit code: 0 if the run exists, whatever its state"


def run(args: Namespace) -> int:
    """Print it as a page, or as the run's document with its suspects."""
    known = read_status(Runs().get(args.run).directory)
    if args.json:
        streams.say_json(known.info.to_json())
        return 0
    streams.say(paint(printable(known.headline()), "bold"))
    for label, text in lines_of(known):
        for line in _wrapped(label, text):
            streams.say(line)
    return 0


def _wrapped(label: str, text: str) -> list[str]:
    """A label and its text, which goes on below itself."""
    first, *rest = wrapped(text, max(columns() - _INDENT, _NARROWEST))
    return [paint(f"{label:<{_INDENT}}", "dim") + first, *(" " * _INDENT + line for line in rest)]
