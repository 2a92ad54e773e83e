"""`holdfast wait RUN...`: wait for runs to end, and exit with their code."""

from __future__ import annotations

from holdfast.cli.arguments.selectors import RUNS, add_selectors, chosen_runs, is_narrowed
from holdfast.cli.text import streams
from holdfast.cli.text.ending_text import UnseenEnd, cause, describe, exit_code_of, reason
from holdfast.manage.plaintext import printable
from holdfast.manage.runs import Runs
from holdfast.manage.starting.launch import allow_fork
from holdfast.manage.words.reasons import needs_you
from holdfast.run.units import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser
    from holdfast.manage.info import RunInfo
    from holdfast.manage.run import Run

EXITS_AS_RUN = True
KNOWS_FLEET = True
TIME_IS_UP = 75


def add_arguments(parser: Parser) -> None:
    """RUN... and how long."""
    parser.add_argument("run", metavar="RUN", nargs="*", help=RUNS)
    parser.add_argument("--any", action="store_true", help="return when one of them has ended")
    parser.add_argument(
        "--attention", action="store_true", help="return when one of them needs a person, too"
    )
    parser.add_argument("--timeout", metavar="D", help="give up after this long: exit 75")
    add_selectors(parser, "every active run")
    parser.epilog = (
        "A glob means every name that matches: of each its active run, else its newest.\n"
        "Selectors mean what `ls` lists with them: active runs, and those that ended in the\n"
        "last 24h (--since D: within D), so a failure before the wait counts; --all alone means\n"
        "the active ones.\n"
        "exit code: the run's own; 128+N for signal N, 124 for a timeout or silence, 125 when\n"
        "Holdfast failed or did not observe the end; 75 after --timeout; 0 when --attention found\n"
        "one that needs a person. Of several runs, the first that is not 0, in the order given.\n"
        "An interrupted wait stops no run."
    )


def run(args: Namespace) -> int:
    """Wait, and print how they ended."""
    allow_fork()
    timeout = None if args.timeout is None else parse_duration(args.timeout, "--timeout")
    runs = Runs(notice=streams.complain)
    chosen = _chosen(args, runs)
    with UnseenEnd():
        infos = runs.wait(chosen, any=args.any, attention=args.attention, timeout=timeout)
    needed = args.attention and any(info.attention is not None for info in infos)
    ended = [not info.is_active for info in infos]
    time_is_up = not needed and not (any(ended) or not ended if args.any else all(ended))
    codes = [exit_code_of(info) for info in infos if info.outcome is not None]
    if args.json:
        documents = [info.to_json() for info in infos]
        streams.say_json({"schema": 1, "runs": documents, "timed_out": time_is_up})
    else:
        _show(args, infos, codes)
    if needed:
        return 0
    if time_is_up:
        return TIME_IS_UP
    return next((code for code in codes if code), 0)


def _chosen(args: Namespace, runs: Runs) -> list[Run]:
    """Selectors mean what `ls` lists with them: what failed before the wait began counts too."""
    if args.run or not is_narrowed(args):
        return chosen_runs(args, runs)
    if args.since is None:
        from holdfast.manage.overview import WINDOW

        args.since = WINDOW
    return chosen_runs(args, runs, active=None)


def _show(args: Namespace, infos: list[RunInfo], codes: list[int]) -> None:
    is_all = not args.any and not args.attention
    shown = [info for info in infos if info.outcome is not None or is_all or info.attention]
    room = max((len(str(info.name)) for info in shown), default=0)
    of_code = iter(codes)
    for info in shown:
        if not args.quiet:
            streams.say(
                printable(f"{info.name or info.id:<{room}}  {needs_you(info) or describe(info)}")
            )
        if info.outcome is not None:
            # What was said on stdout is not said again.
            said = reason(info, next(of_code)) if args.quiet else cause(info, next(of_code))
            if said is not None:
                streams.flush()  # before the reason, also where both are one stream
                streams.complain(f"holdfast: {said}")
    if not shown and not args.quiet:
        also = " or needs a person" if args.attention else ""
        why = f"the time is up: none has ended{also}" if infos else "there is nothing to wait for"
        streams.complain(why)
