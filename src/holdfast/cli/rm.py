"""`holdfast rm RUN...`: remove ended runs; refused while anything may be alive."""

from __future__ import annotations

from holdfast.cli import streams
from holdfast.cli.removals import Attempt, finish, runs_to_remove
from holdfast.cli.selectors import add_selectors
from holdfast.errors import HoldfastError, Unavailable
from holdfast.manage.launch import allow_fork
from holdfast.manage.removal import Names, remove_run
from holdfast.manage.runs import Runs
from holdfast.manage.steps import run_together
from holdfast.manage.stopping import stop_run, stops_at_once
from holdfast.manage.suspects import suspects_by_run
from holdfast.manage.units import size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.parser import Parser


def add_arguments(parser: Parser) -> None:
    """RUN... and how far to go."""
    parser.add_argument("run", metavar="RUN", nargs="*", help="a name, an id, or its beginning")
    parser.add_argument("--stop", action="store_true", help="stop it first, if it is not over")
    parser.add_argument(
        "--force",
        action="store_true",
        help="also where nobody can tell what is alive; never where something is proven alive,"
        " except, with --stop, what could not be killed: it is named, and kept on a list",
    )
    add_selectors(parser, "every ended run")
    parser.epilog = (
        "A selector that says nothing about the state means ended runs; those tagged `keep` stay\n"
        "unless they are named.\n"
        "exit codes: 3 there is no such run, 4 refused; of several runs, the first that is not 0"
    )


def run(args: Namespace) -> int:
    """Remove them, one by one."""
    allow_fork()
    runs = Runs(notice=streams.complain)
    attempts = runs_to_remove(args, runs)
    if args.stop:
        _stop(attempts, force=args.force)
    home = runs.home
    suspects, names = suspects_by_run(home), Names(home)
    for one in attempts:
        if one.run is None or one.error is not None:
            continue
        try:
            removed = remove_run(
                one.run.directory,
                force=args.force,
                abandon=one.was_struck,
                suspects=suspects,
                names=names,
            )
        except HoldfastError as error:
            one.error = error
            continue
        one.done = f"removed, {size(removed.freed_bytes)} freed: {removed.evidence}"
        one.facts = {
            "freed_bytes": removed.freed_bytes,
            "evidence": removed.evidence,
            "abandoned": [left.to_json() for left in removed.abandoned],
        }
    return finish(attempts, "removed", args)


def _stop(attempts: list[Attempt], *, force: bool) -> None:
    meant = [one for one in attempts if one.run is not None]
    operations = [stop_run(one.run.directory) for one in meant if one.run is not None]
    results = run_together(operations, stops_at_once())
    for one, result in zip(meant, results, strict=True):
        is_error = isinstance(result, HoldfastError)
        if is_error and not force:
            one.error = result
        # Nobody is struck on the word of a doubted record: then there is nobody to give up.
        one.was_struck = force and (not is_error or isinstance(result, Unavailable))
