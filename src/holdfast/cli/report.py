"""`holdfast report RUN`: what a run used over time, as text, charts, a page, or text to paste."""

from __future__ import annotations

import os
import stat
import sys

from holdfast.cli import streams
from holdfast.cli.terminal import columns, paint
from holdfast.errors import Failed, InvalidOption, WrongUse, is_shortage
from holdfast.manage.report.plot import ASCII, UNICODE, plot
from holdfast.manage.report.reading import read_material
from holdfast.manage.report.text import text
from holdfast.manage.report.timeline import snapshot
from holdfast.manage.runs import Runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.parser import Parser
    from holdfast.manage.report.plot import Ink
    from holdfast.manage.report.timeline import Snapshot

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
    found = snapshot(read_material(Runs().get(args.run)))
    if args.html is not None:
        _write_page(found, args)
    if args.json:
        streams.say_json(found.to_json())
    elif args.markdown:
        from holdfast.manage.report.paper import paper

        streams.say(paper(found, with_plot=args.plot, ink=_ink()).rstrip("\n"))
    elif args.plot:
        _say_lines(plot(found, _width(), _ink()))
    elif args.html is None:
        _say_lines(text(found, _width(), _ink()))
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


def _say_lines(lines: list[str]) -> None:
    first, *rest = lines
    streams.say("\n".join([paint(first, "bold"), *rest]))


def _width() -> int:
    return min(max(columns(), _NARROWEST), _WIDEST)


def _ink() -> Ink:
    """The characters that stdout can take."""
    try:
        UNICODE.bars.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError, AttributeError):
        return ASCII
    return UNICODE


def _write_page(found: Snapshot, args: Namespace) -> None:
    from holdfast.manage.report.page import page
    from holdfast.manage.units import size

    content = page(found).encode("utf-8", "backslashreplace")
    if args.html == "-":
        streams.say_bytes([content])
        return
    try:
        write_whole(args.html, content)
    except OSError as error:
        if is_shortage(error):
            raise
        raise Failed(f"{args.html} can't be written: {error.strerror or error}") from error
    if not args.quiet:
        streams.complain(f"wrote {args.html} ({size(len(content))})")


def write_whole(path: str, content: bytes) -> None:
    """Replace a file as a whole, or write into a device or pipe; never a half of a page."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        with open(path, "wb", buffering=0) as file:
            file.write(content)
        return
    temporary = f"{path}.{os.urandom(6).hex()}.new"
    # Not 0600 as our own files are: it was asked for, so that the umask decides.
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(fd, "wb") as file:
            file.write(content)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
