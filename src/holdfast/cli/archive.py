"""`holdfast archive RUN...`: pack each ended run into one tar.gz."""

from __future__ import annotations

from holdfast.cli.arguments.selectors import RUNS, add_selectors
from holdfast.cli.text import streams
from holdfast.cli.text.removal_text import finish, runs_to_remove
from holdfast.errors import HoldfastError, as_our_error
from holdfast.manage.plaintext import home_path
from holdfast.manage.removal.archive import archive_run
from holdfast.manage.removal.remove import Names
from holdfast.manage.runs import Runs
from holdfast.manage.suspects import Suspects
from holdfast.run.units import size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser


def add_arguments(parser: Parser) -> None:
    """RUN..."""
    parser.add_argument("run", metavar="RUN", nargs="*", help=RUNS)
    add_selectors(parser, "every ended run")
    parser.epilog = (
        "The archive is in archive/ of the state directory and holds the whole run directory,\n"
        "the environment included. To restore it: tar -xzf FILE -C <state directory>/runs\n"
        "exit codes: 3 no such run, 4 refused: a process of it is or may be alive"
    )


def run(args: Namespace) -> int:
    """Pack them, one by one."""
    runs = Runs(notice=streams.complain)
    attempts = runs_to_remove(args, runs)
    suspects, names = Suspects(runs.home), Names(runs.home)
    for one in attempts:
        if one.run is None:
            continue
        try:
            archived = archive_run(one.run.directory, suspects=suspects, names=names)
        except (HoldfastError, OSError) as error:  # what was done to the others is told
            one.fail(as_our_error(error))
            continue
        one.succeed(
            archived.removed.name,
            f"archived, {size(archived.archive_bytes)}: {home_path(archived.path)}",
            path=archived.path,
            archive_bytes=archived.archive_bytes,
            freed_bytes=archived.removed.freed_bytes,
        )
    return finish(attempts, "archived", args)
