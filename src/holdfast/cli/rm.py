"""`holdfast rm RUN...`: remove ended runs; refused while anything may be alive."""

from __future__ import annotations

import sys

from holdfast.cli.arguments.selectors import RUNS, add_selectors
from holdfast.cli.text import streams
from holdfast.cli.text.removal_text import RemovalAttempt, finish, runs_to_remove
from holdfast.cli.text.terminal import is_terminal
from holdfast.errors import HoldfastError, as_our_error
from holdfast.manage.queueing.awaiting import awaited_error
from holdfast.manage.removal.remove import Names, remove_run
from holdfast.manage.removal.stop_first import stop_first
from holdfast.manage.runs import Runs
from holdfast.manage.starting.launch import allow_fork
from holdfast.manage.stopping import stops_at_once
from holdfast.manage.suspects import Suspects
from holdfast.manage.together import run_together
from holdfast.run.directory import RunDirectory
from holdfast.run.names import is_glob
from holdfast.run.units import size
from holdfast.run.usage.reading import UsageKeeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser
    from holdfast.run.home import Home

_MOST_NAMED = 5


def add_arguments(parser: Parser) -> None:
    """RUN..., and what to remove in doubt."""
    parser.add_argument("run", metavar="RUN", nargs="*", help=RUNS)
    parser.add_argument("--stop", action="store_true", help="stop it first, if it has not ended")
    parser.add_argument(
        "--force",
        action="store_true",
        help="even if liveness is unknown; never if a process is proven alive, except, with --stop,"
        " those that could not be killed: they are named, and kept on a list",
    )
    parser.add_argument(
        "--discard-worktree",
        action="store_true",
        help="give up what would be lost with its worktree, and say what that was",
    )
    parser.add_argument(
        "--older",
        action="store_true",
        help="also every older run of that name; while RUN is active, those alone",
    )
    parser.add_argument("-y", "--yes", action="store_true", help="don't ask")
    add_selectors(parser, "every ended run")
    parser.epilog = (
        "A name means its newest run; when that is removed, the one before it has the name.\n"
        "A glob means every run whose name matches. Selectors without a state select ended runs.\n"
        "Runs tagged `keep` stay unless they are named. With a glob or --older, rm asks once if\n"
        "it runs on a terminal.\n"
        "exit codes: 3 no such run, 4 refused; of several runs, the first that is not 0"
    )


def run(args: Namespace) -> int:
    """Remove them, one by one."""
    allow_fork()
    runs = Runs(notice=streams.complain)
    attempts = runs_to_remove(args, runs)
    if not _is_confirmed(args, attempts):
        streams.complain("nothing was removed")
        return 1
    if args.stop:
        _stop(attempts, force=args.force)
    home = runs.home
    suspects, names, keeper = Suspects(home), Names(home), UsageKeeper(home)
    for one in attempts:
        if one.run is None or one.error is not None:
            continue
        try:
            removed = remove_run(
                one.run.directory,
                force=args.force,
                abandon=one.was_signalled,
                suspects=suspects,
                names=names,
                keeper=keeper,
                discard_worktree=args.discard_worktree,
            )
        except (HoldfastError, OSError) as error:  # what was done to the others is told
            one.fail(as_our_error(error))
            continue
        given_up = "".join(f"; given up: {what}" for what in removed.given_up)
        one.succeed(
            removed.name,
            f"removed, {size(removed.freed_bytes)} freed: {removed.evidence}{given_up}",
            freed_bytes=removed.freed_bytes,
            evidence=removed.evidence,
            given_up=list(removed.given_up),
            older=list(removed.older),
            abandoned=[left.to_json() for left in removed.abandoned],
        )
    code = finish(attempts, "removed", args)
    if not args.json and not args.quiet:
        _say_what_remains(attempts, runs.home)
    return code


def _is_confirmed(args: Namespace, attempts: list[RemovalAttempt]) -> bool:
    """Ask a person once, where more is removed than was named."""
    names = [one.name for one in attempts if one.run is not None]
    if not names or args.yes or args.json or not (args.older or any(map(is_glob, args.run))):
        return True
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        return True
    shown = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
    what = "1 run" if len(names) == 1 else f"{len(names)} runs"
    return streams.ask(f"remove {what} ({shown})? [y/N] ").strip().lower() in ("y", "yes")


def _say_what_remains(attempts: list[RemovalAttempt], home: Home) -> None:
    """That a name means another run now."""
    for one in attempts:
        older = one.facts.get("older", ())
        left = sum(RunDirectory(home, run_id).is_known() for run_id in older)
        if left:
            remain = "remains" if left == 1 else "remain"
            name = one.name
            streams.complain(f"{left} older {name} {remain}: holdfast rm --older {name}")


def _stop(attempts: list[RemovalAttempt], *, force: bool) -> None:
    meant = _without_awaited([one for one in attempts if one.run is not None])
    operations = [stop_first(one.run.directory, force=force) for one in meant if one.run]
    results = run_together(operations, stops_at_once())
    for one, result in zip(meant, results, strict=True):
        if isinstance(result, HoldfastError):
            one.fail(result)
        else:
            one.was_signalled = result


def _without_awaited(meant: list[RemovalAttempt]) -> list[RemovalAttempt]:
    """Those that can be removed once they are stopped; nothing of the others is signalled."""
    ids = {one.run.id for one in meant if one.run}
    errors = [awaited_error(one.run.directory, besides=ids) for one in meant if one.run]
    if not any(errors):
        return meant
    left = []
    for one, error in zip(meant, errors, strict=True):
        if error is None:
            left.append(one)
        else:
            one.fail(error)
    return _without_awaited(left)  # what waits for those may have been refused itself
