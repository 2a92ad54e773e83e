"""`holdfast pause RUN...`: stop a run's processes where they are; `unpause` continues them."""

from __future__ import annotations

from holdfast.cli.arguments.selectors import RUNS, add_selectors, choose
from holdfast.cli.text import streams
from holdfast.errors import HoldfastError
from holdfast.manage.changing.pausing import pause_run
from holdfast.manage.choosing import GlobMeans
from holdfast.manage.info import claimed_name
from holdfast.manage.runs import Runs
from holdfast.manage.starting.launch import allow_fork
from holdfast.manage.together import run_together

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

_AT_ONCE = 16


def add_arguments(parser: Parser) -> None:
    """RUN..."""
    parser.add_argument("run", metavar="RUN", nargs="*", help=RUNS)
    add_selectors(parser, "every active run")
    parser.epilog = (
        "Every process of the tree is stopped (SIGSTOP), runs inside too. A queued run is held.\n"
        "Idle time does not count while it is paused, --timeout does. `stop` works as ever.\n"
        "exit codes: 4 it has ended or is being stopped; of several runs, the first that is not 0"
    )


def run(args: Namespace) -> int:
    """Pause them."""
    return change_all(args, "pause")


def change_all(args: Namespace, verb: str) -> int:
    """Ask the shim of each, and print what came of it."""
    allow_fork()
    chosen = choose(args, Runs(notice=streams.complain), GlobMeans.ACTIVE)
    found = [one for one in chosen if one.run is not None]
    operations = [pause_run(one.run.directory, verb=verb) for one in found if one.run is not None]
    results = dict(
        zip([one.name for one in found], run_together(operations, _AT_ONCE), strict=True)
    )
    rows, code = [], 0
    for one in chosen:
        error = one.error or results.get(one.name)
        failure = error if isinstance(error, HoldfastError) else None
        code = code or (failure.exit_code if failure is not None else 0)
        own = None if one.run is None else claimed_name(one.run.directory)
        rows.append((one.name if args.json else own or one.name, failure))
    _show(args, rows, verb)
    return code


def _show(args: Namespace, rows: list[tuple[str, HoldfastError | None]], verb: str) -> None:
    if args.json:
        told = [
            {"run": name, "done": error is None, "error": None if error is None else str(error)}
            for name, error in rows
        ]
        streams.say_json({"schema": 1, "runs": told})
        return
    if not rows and not args.quiet:
        streams.complain(f"there is nothing to {verb}")
    for name, error in rows:
        if error is not None:
            streams.complain_of(error)
        elif not args.quiet:
            streams.say(f"{name}  {verb}d")
