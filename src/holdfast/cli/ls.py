"""`holdfast ls`: the active runs and those that ended in the last 24 hours, one line each."""

from __future__ import annotations

import gc

from holdfast.cli.arguments.selectors import add_selectors, has_selector, selection_of
from holdfast.cli.text import streams
from holdfast.cli.text.run_table import table_of_runs
from holdfast.cli.text.terminal import paint
from holdfast.errors import InvalidOption
from holdfast.manage.overview import WINDOW, Overview
from holdfast.manage.plaintext import printable
from holdfast.run.home import Home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from holdfast.cli.arguments.parser import Parser
    from holdfast.fleet.listing import FleetOverview
    from holdfast.manage.info import RunInfo

_EPILOG = """\
RUN is a name (all runs of that name), an id or its beginning, or a quoted glob such as 'train-*':
then runs of any age are listed. Without it, starts that failed at once (126, 127) are left out.

AGE is the time since the run was started. CPU (of one core) and MEM (resident and swapped) are
those of the whole tree at its last sample. OUTPUT is the last time that something was written.
Empty means not known, or not any more.

On a terminal columns with nothing in them are left out, COMMAND is there when it has room, and ID
when two runs have one name; -v shows both. Elsewhere the columns are always the same."""

KNOWS_FLEET = True


def add_arguments(parser: Parser) -> None:
    """How many, and which."""
    parser.add_argument("run", metavar="RUN", nargs="*", help="only these")
    parser.add_argument("-n", "--limit", metavar="N", help="at most N runs, the newest")
    parser.add_argument("--fleet", action="store_true", help="those on other machines too")
    parser.add_argument("--on", metavar="WHERE", help="only those placed there; implies --fleet")
    add_selectors(parser, "every run, however old")
    parser.epilog = _EPILOG


def run(args: Namespace) -> int:
    """Print the table, one line that sums it up, and what should be done."""
    limit = _limit(args.limit)
    if args.fleet or args.on is not None:
        from holdfast.cli.fleet.fleet_list import list_fleet

        return list_fleet(args, limit)
    gc.disable()  # a short life with many small records: collecting would take a tenth of it
    home, listed = Home.locate(), None
    if args.run:
        from holdfast.manage.choosing import choose_listed

        listed = choose_listed(home, args.run)
    shown = Overview(
        home,
        selection_of(args).replace(names=listed.names or None if listed else None),
        window=args.since or (None if args.all or args.run else WINDOW),
        limit=limit,
        closely=args.json,
        ids=listed.ids if listed else (),
        is_plain=not (args.run or has_selector(args)),
    )
    print_runs(shown, args)
    errors = listed.errors if listed else ()
    for error in errors:
        streams.complain(f"holdfast: {printable(error.message)}")
    return errors[0].exit_code if errors else 0


def print_runs(shown: Overview | FleetOverview, args: Namespace) -> None:
    """As JSON, as names, or as a table."""
    if args.json:
        streams.say_json_list("runs", (info.to_json() for info in _with_changes(shown)))
    elif args.quiet:
        for name in dict.fromkeys(info.name or info.id for info in shown):
            streams.say(name)
    else:
        _print_table(shown, args.verbose)
        streams.say(shown.summary())
        for hint in shown.hints():
            streams.complain(f"hint: {printable(hint)}")


def _with_changes(shown: Overview | FleetOverview) -> Iterable[RunInfo]:
    """Worktree runs of this home with what they changed, as far as that is told at once."""
    counting = None
    for info in shown:
        if info.worktree is None:
            yield info
            continue
        from holdfast.manage.worktrees.changes import Counting

        counting = counting or Counting(Home.locate())
        yield counting.add_to(info)


def _limit(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 10**9):
        raise InvalidOption(f"-n: {text!r} is not a number from 1 up", option="n", value=text)
    return int(text)


def _print_table(shown: Overview | FleetOverview, verbose: bool) -> None:
    for line, look in table_of_runs(shown, verbose=verbose):
        streams.say(paint(line, *look))
