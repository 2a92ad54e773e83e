"""`holdfast archive RUN...`: pack ended runs away, each into one tar.gz."""

from __future__ import annotations

from holdfast.cli import streams
from holdfast.cli.removals import finish, runs_to_remove
from holdfast.cli.selectors import add_selectors
from holdfast.cli.terminal import home_path
from holdfast.errors import HoldfastError
from holdfast.manage.archive import archive_run
from holdfast.manage.removal import Names
from holdfast.manage.runs import Runs
from holdfast.manage.suspects import suspects_by_run
from holdfast.manage.units import size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.parser import Parser


def add_arguments(parser: Parser) -> None:
    """RUN..."""
    parser.add_argument("run", metavar="RUN", nargs="*", help="a name, an id, or its beginning")
    add_selectors(parser, "every ended run")
    parser.epilog = (
        "The archive lies in archive/ of the state directory and holds all that the run had, its\n"
        "environment too. To bring it back: tar -xzf FILE -C <state directory>/runs\n"
        "exit codes: 3 there is no such run, 4 refused: something of it is or may be alive"
    )


def run(args: Namespace) -> int:
    """Pack them, one by one."""
    runs = Runs(notice=streams.complain)
    attempts = runs_to_remove(args, runs)
    suspects, names = suspects_by_run(runs.home), Names(runs.home)
    for one in attempts:
        if one.run is None:
            continue
        try:
            archived = archive_run(one.run.directory, suspects=suspects, names=names)
        except HoldfastError as error:
            one.error = error
            continue
        one.done = f"archived, {size(archived.archive_bytes)}: {home_path(archived.path)}"
        one.facts = {
            "path": archived.path,
            "archive_bytes": archived.archive_bytes,
            "freed_bytes": archived.removed.freed_bytes,
        }
    return finish(attempts, "archived", args)
