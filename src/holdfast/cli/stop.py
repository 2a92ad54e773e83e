"""`holdfast stop RUN...`: stop the whole tree of each run; done only when it is empty."""

from __future__ import annotations

from holdfast.cli import streams
from holdfast.cli.selectors import add_selectors, choose
from holdfast.cli.stopped import Attempted, attempt
from holdfast.errors import HoldfastError, RunNotFound
from holdfast.manage.launch import allow_fork
from holdfast.manage.runs import Runs
from holdfast.manage.steps import run_together
from holdfast.manage.stopping import stops_at_once
from holdfast.process.signals import parse_signal, signal_name
from holdfast.run.quantities import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.parser import Parser
    from holdfast.manage.runs import Run


def add_arguments(parser: Parser) -> None:
    """RUN... and how."""
    parser.add_argument("run", metavar="RUN", nargs="*", help="a name, an id, or its beginning")
    parser.add_argument(
        "--grace", metavar="D", help="from the polite signal to SIGKILL (as the run was given: 10s)"
    )
    parser.add_argument("--signal", metavar="SIG", help="the polite signal (as the run was given)")
    add_selectors(parser, "every active run")
    parser.epilog = (
        "Several runs are stopped at once. Of a run that has ended, what it\n"
        "left alive (--leftovers keep) is stopped; if nothing is left, that is exit 0, and\n"
        "so it is when the run is removed meanwhile.\n"
        "exit codes: 1 a process survives, 4 nobody can tell what is alive; of several runs, the\n"
        "first that is not 0, in the order given"
    )


def run(args: Namespace) -> int:
    """Stop them, and say what became of each."""
    allow_fork()
    grace = None if args.grace is None else parse_duration(args.grace, "--grace")
    signal = None if args.signal is None else signal_name(parse_signal(args.signal))
    chosen = choose(args, Runs(notice=streams.complain))
    if len(chosen) == 1 and isinstance(chosen[0][1], HoldfastError):
        raise chosen[0][1]
    attempts = [
        Attempted(name, error=found)
        if isinstance(found, HoldfastError)
        else Attempted(_name(name, found), found)
        for name, found in chosen
    ]
    operations = [attempt(one, grace, signal) for one in attempts]
    for one, result in zip(attempts, run_together(operations, stops_at_once()), strict=True):
        if isinstance(result, HoldfastError):
            one.error = result
    if args.json:
        streams.say_json({"schema": 1, "runs": [one.to_json() for one in attempts]})
    else:
        _show(attempts, args.quiet)
    return next((one.exit_code for one in attempts if one.exit_code), 0)


def _name(reference: str, run: Run) -> str:
    try:
        return run.info().name or reference
    except RunNotFound:  # removed since: its stop finds the same
        return reference


def _show(attempts: list[Attempted], quiet: bool) -> None:
    if not attempts and not quiet:
        streams.complain("there is nothing to stop")
    room = max((len(one.name) for one in attempts), default=0)
    for one in attempts:
        if not quiet or one.exit_code:
            streams.say(f"{one.name:<{room}}  {one.sentence()}")
    streams.flush()
    for one in attempts:
        hint = one.hint()
        if hint:
            streams.complain(f"hint: {hint}")
