"""`holdfast report RUN`: what a run used over time, as text, charts, a page, or text to paste."""

from __future__ import annotations

import os
import stat
import sys

from holdfast.cli.text import streams
from holdfast.cli.text.terminal import columns, paint
from holdfast.errors import Failed, InvalidOption, WrongUse, is_shortage
from holdfast.manage.report.text_charts import ASCII, UNICODE
from holdfast.manage.runs import Runs
from holdfast.run.atomic_files import atomic_write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser
    from holdfast.manage.report.report import Report
    from holdfast.manage.report.text_charts import Ink

_WIDEST = 160
_NARROWEST = 60


def add_arguments(parser: Parser) -> None:
    """RUN, and as what."""
    parser.add_argument("run", metavar="RUN", help="a name, an id, or the beginning of an id")
    parser.add_argument("--plot", action="store_true", help="charts of plain characters")
    parser.add_argument(
        "--html", metavar="FILE", help="write one page that needs nothing else; -: to stdout"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="text to paste into a bug report, secrets replaced"
    )
    parser.epilog = (
        "With --markdown, --plot puts the charts into the text. --json prints the same figures as\n"
        "one document. docs/samples.md says what each figure means, and where it misleads."
    )


def run(args: Namespace) -> int:
    """Read the run once, and show it in every way that was asked for."""
    _check(args)
    found = Runs().get(args.run).report()
    if args.html is not None:
        _write_page(found, args)
    if args.json:
        streams.say_json(found.to_json())
    elif args.markdown:
        streams.say(found.markdown(plot=args.plot, ink=_ink()).rstrip("\n"))
    elif args.plot or args.html is None:
        first, rest = found.text(_width(), plot=args.plot, ink=_ink()).split("\n", maxsplit=1)
        streams.say(f"{paint(first, 'bold')}\n{rest}")
    return 0


def _check(args: Namespace) -> None:
    if args.json and (args.plot or args.markdown):
        asked = "--plot" if args.plot else "--markdown"
        raise WrongUse(f"report: --json and {asked} both want stdout", hint="leave one out")
    if args.html == "-" and (args.json or args.plot or args.markdown):
        raise WrongUse(
            "report: --html - wants stdout for itself", hint="give --html the name of a file"
        )
    if args.html is not None and (not args.html or os.path.isdir(args.html)):
        what = "is a directory" if args.html else "is empty"
        raise InvalidOption(
            f"--html: {args.html!r} {what}",
            hint="give the name of a file, or - for stdout",
            option="html",
            value=args.html,
        )


def _width() -> int:
    return min(max(columns(), _NARROWEST), _WIDEST)


def _ink() -> Ink:
    """The characters that stdout can take."""
    try:
        UNICODE.bars.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError, AttributeError):
        return ASCII
    return UNICODE


def _write_page(found: Report, args: Namespace) -> None:
    content = found.html().encode("utf-8", "backslashreplace")
    if args.html == "-":
        streams.say_bytes([content])
        return
    write_page(args.html, content, args.quiet)


def write_page(path: str, content: bytes, quiet: bool) -> None:
    """The file that --html names."""
    from holdfast.run.units import size

    try:
        _replace(path, content)
    except OSError as error:
        if is_shortage(error):
            raise
        raise Failed(f"{path} can't be written: {error.strerror or error}") from error
    if not quiet:
        streams.complain(f"wrote {path} ({size(len(content))})")


def _replace(path: str, content: bytes) -> None:
    """Write a whole file, or into a device or pipe; never a half of a page."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        with open(path, "wb", buffering=0) as file:
            file.write(content)
        return
    # Not 0600 as our own files are: it was asked for, so that the umask decides.
    atomic_write(path, content, mode=0o666)
