"""`ls --fleet`: the runs here and on other machines, each with its node."""

from __future__ import annotations

from holdfast.cli.arguments.selectors import has_selector, selection_of
from holdfast.cli.ls import print_runs
from holdfast.cli.text import streams
from holdfast.fleet.library import Fleet
from holdfast.fleet.listing import FleetOverview, since_of
from holdfast.fleet.placement import ENGINES
from holdfast.fleet.settings import target_of
from holdfast.manage.overview import WINDOW
from holdfast.manage.runs import Runs
from holdfast.run.units import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace


def list_fleet(args: Namespace, limit: int | None) -> int:
    """Ask every node, and print the table."""
    names = frozenset(one.lower() for one in args.run) or None
    window = args.since or (None if args.all or args.run else WINDOW)
    seconds = None if window is None else parse_duration(window, "--since")
    with Fleet(Runs(notice=streams.notices(args.quiet))) as fleet:
        if args.on is not None and args.on not in ENGINES:
            target_of(args.on, fleet.settings)  # what is no place is refused, not empty
        selection = selection_of(args).replace(names=names)
        is_plain = not (args.run or has_selector(args))
        shown = FleetOverview(
            fleet,
            selection,
            since=since_of(seconds),
            limit=limit,
            on=args.on,
            is_plain=is_plain,
        )
        print_runs(shown, args)
    return 0
