"""`holdfast wait RUN...`: wait for runs to end, and exit with their code."""

from __future__ import annotations

from holdfast.cli import streams
from holdfast.cli.endings import describe, exit_code_of, reason
from holdfast.cli.selectors import add_selectors, chosen_runs
from holdfast.manage.launch import allow_fork
from holdfast.manage.plaintext import printable
from holdfast.manage.runs import Runs
from holdfast.run.quantities import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.parser import Parser
    from holdfast.manage.info import RunInfo

EXITS_AS_RUN = True
TIME_IS_UP = 75


def add_arguments(parser: Parser) -> None:
    """RUN... and how long."""
    parser.add_argument("run", metavar="RUN", nargs="*", help="a name, an id, or its beginning")
    parser.add_argument("--any", action="store_true", help="until one of them has ended")
    parser.add_argument("--timeout", metavar="D", help="give up after this long: exit 75")
    add_selectors(parser, "every active run")
    parser.epilog = (
        "exit code: the run's own; 128+N for signal N, 124 for a timeout or silence, 125 when\n"
        "Holdfast failed or did not see the end; 75 when the time is up. Of several runs, the\n"
        "first that is not 0, in the order given. An interrupted wait stops no run."
    )


def run(args: Namespace) -> int:
    """Wait, and say how they ended."""
    allow_fork()
    timeout = None if args.timeout is None else parse_duration(args.timeout, "--timeout")
    runs = Runs(notice=streams.complain)
    chosen = chosen_runs(args, runs)
    infos = runs.wait(chosen, any=args.any, timeout=timeout)
    ended = [not info.is_active for info in infos]
    time_is_up = not (any(ended) or not ended if args.any else all(ended))
    codes = [exit_code_of(info) for info in infos if info.outcome is not None]
    if args.json:
        documents = [info.to_json() for info in infos]
        streams.say_json({"schema": 1, "runs": documents, "timed_out": time_is_up})
    else:
        _show(args, infos, codes)
    if time_is_up:
        return TIME_IS_UP
    return next((code for code in codes if code), 0)


def _show(args: Namespace, infos: list[RunInfo], codes: list[int]) -> None:
    shown = [info for info in infos if info.outcome is not None or not args.any]
    room = max((len(str(info.name)) for info in shown), default=0)
    of_code = iter(codes)
    for info in shown:
        if not args.quiet:
            streams.say(printable(f"{info.name or info.id:<{room}}  {describe(info)}"))
        if info.outcome is not None:
            why = reason(info, next(of_code))
            if why is not None:
                streams.complain(f"holdfast: {why}")
    if not shown and not args.quiet:
        streams.complain("there is nothing to wait for")
