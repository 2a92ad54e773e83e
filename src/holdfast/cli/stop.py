"""`holdfast stop RUN...`: stop the whole tree of each run; done only when it is empty."""

from __future__ import annotations

from holdfast.cli.arguments.selectors import RUNS, add_selectors, choose
from holdfast.cli.text import streams
from holdfast.errors import HoldfastError
from holdfast.manage.changing.stop_attempt import Attempted, attempt
from holdfast.manage.choosing import GlobMeans
from holdfast.manage.runs import Runs
from holdfast.manage.starting.launch import allow_fork
from holdfast.manage.stopping import stops_at_once
from holdfast.manage.together import run_together
from holdfast.process.signals import parse_signal, signal_name
from holdfast.run.units import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser


def add_arguments(parser: Parser) -> None:
    """RUN... and how."""
    parser.add_argument("run", metavar="RUN", nargs="*", help=RUNS)
    parser.add_argument(
        "--grace", metavar="D", help="time from the stop signal to SIGKILL (the run's own: 10s)"
    )
    parser.add_argument("--signal", metavar="SIG", help="first signal (the run's own: SIGTERM)")
    add_selectors(parser, "every active run")
    parser.epilog = (
        "Several runs are stopped at the same time. A glob means the active runs it matches.\n"
        "If a run has ended, the processes it left (--leftovers keep) are stopped. Exit code 0\n"
        "also if none are left, or if the run is removed meanwhile.\n"
        "exit codes: 1 a process survives, 4 liveness is unknown; of several runs, the first\n"
        "that is not 0, in the order given"
    )


def run(args: Namespace) -> int:
    """Stop them, and print what happened to each."""
    allow_fork()
    grace = None if args.grace is None else parse_duration(args.grace, "--grace")
    signal = None if args.signal is None else signal_name(parse_signal(args.signal))
    chosen = choose(args, Runs(notice=streams.complain), GlobMeans.ACTIVE)
    attempts = [Attempted(one.name, one.run, one.error) for one in chosen]
    operations = [attempt(one, grace, signal) for one in attempts]
    for one, result in zip(attempts, run_together(operations, stops_at_once()), strict=True):
        if isinstance(result, HoldfastError):
            one.fail(result)
    if args.json:
        streams.say_json({"schema": 1, "runs": [one.to_json() for one in attempts]})
    else:
        _show(attempts, args.quiet)
    return next((one.exit_code for one in attempts if one.exit_code), 0)


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
