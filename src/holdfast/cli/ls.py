"""`holdfast ls`: the active runs and those that ended in the last 24 hours, one line each."""

from __future__ import annotations

import gc
import time

from holdfast.cli import streams
from holdfast.cli.selectors import add_selectors, select
from holdfast.cli.terminal import paint, table
from holdfast.errors import InvalidOption
from holdfast.manage.plaintext import printable
from holdfast.manage.views import COLUMNS, NUMBERS, hints, row_of, summary
from holdfast.run.facts import State
from holdfast.run.home import Home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.parser import Parser
    from holdfast.manage.info import RunInfo

WINDOW = "24h"
_EPILOG = """\
AGE is the time since the run was started. CPU (of one core) and MEM (resident and swapped) are
those of the whole tree at its last sample. OUTPUT is the last time that something was written.
Empty means not known, or not any more."""


def add_arguments(parser: Parser) -> None:
    """How many, and which."""
    parser.add_argument("-n", "--limit", metavar="N", help="at most N runs, the newest")
    add_selectors(parser, "every run, however old")
    parser.epilog = _EPILOG


def run(args: Namespace) -> int:
    """Print the table, one line that sums it up, and what should be done."""
    limit = _limit(args.limit)
    gc.disable()  # a short life with many small records: collecting would take a tenth of it
    home = Home.locate()
    args.since = args.since or (None if args.all else WINDOW)
    infos = _in_order(select(args, home, active=None, closely=args.json))[:limit]
    if args.json:
        streams.say_json({"schema": 1, "runs": [info.to_json() for info in infos]})
    elif args.quiet:
        for name in dict.fromkeys(info.name or info.id for info in infos):
            streams.say(name)
    else:
        _print_table(infos)
        is_narrow = len(infos) == limit or _is_narrow(args)
        older = 0 if args.since is None or is_narrow else _others(home, infos)
        streams.say(summary(infos, window=args.since or "", older=older))
        for hint in hints(infos):
            streams.complain(f"hint: {printable(hint)}")
    return 0


def _limit(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 10**9):
        raise InvalidOption(f"-n: {text!r} is not a number from 1 up", option="n", value=text)
    return int(text)


def _in_order(infos: list[RunInfo]) -> list[RunInfo]:
    """What is going on first, the newest first; then what ended last."""
    infos.sort(key=lambda info: info.ended_at or info.created_at or "", reverse=True)
    return sorted(infos, key=lambda info: not info.is_active)


def _is_narrow(args: Namespace) -> bool:
    return any(getattr(args, name) is not None for name in ("tag", "state", "outcome", "agent"))


def _others(home: Home, infos: list[RunInfo]) -> int:
    return max(0, home.count_runs() - len(infos))


def _print_table(infos: list[RunInfo]) -> None:
    if not infos:
        return
    now = time.time()
    rows = [row_of(info, now) for info in infos]
    cells = [[printable(cell) for cell in row.cells()] for row in rows]
    head, *lines = table(COLUMNS, cells, right=NUMBERS)
    streams.say(paint(head, "dim"))
    for info, line in zip(infos, lines, strict=True):
        streams.say(paint(line, *_look(info)))


def _look(info: RunInfo) -> tuple[str, ...]:
    if info.state in (State.ORPHANED, State.UNKNOWN):
        return ("yellow",)
    return ("dim",) if info.state is State.ENDED else ()
