"""`holdfast recover`: look at every run whose shim is gone; adopt, record, or say unknown."""

from __future__ import annotations

from holdfast.cli.text import streams
from holdfast.cli.text.terminal import paint
from holdfast.manage.operations import run_steps
from holdfast.manage.plaintext import printable
from holdfast.manage.recovery import Action, Recovered
from holdfast.manage.runs import Runs
from holdfast.manage.starting.launch import allow_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

_LOOKS = {
    Action.ADOPTED: ("green",),
    Action.RESTARTED: ("green",),
    Action.RESUMED: ("green",),
    Action.NOT_RESUMED: ("yellow",),
    Action.LOST: ("yellow",),
    Action.ABANDONED: ("yellow",),
    Action.UNKNOWN: ("yellow",),
    Action.UNTOUCHED: ("yellow",),
}


def add_arguments(parser: Parser) -> None:
    """What to do about orphans."""
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be done; change nothing"
    )
    parser.add_argument(
        "--stop-orphans",
        action="store_true",
        help="stop workloads without a shim instead of adopting them",
    )
    parser.add_argument(
        "--other-namespaces-gone",
        action="store_true",
        help="assert that earlier containers are gone (recorded as evidence)",
    )
    parser.add_argument(
        "--resume-lost",
        action="store_true",
        help="go on with agents that a reboot ended, each once, through their queue",
    )
    parser.epilog = (
        "A workload that is proven alive gets a new shim. An ending that was not observed is\n"
        "recorded as lost, never guessed. What can't be determined stays unknown, unchanged. A\n"
        "second recovery finds nothing to do.\n"
        "exit codes: 0 done; 1 a run could not be adopted: run it again"
    )


def run(args: Namespace) -> int:
    """Recover, and print what was done about each run."""
    allow_fork()
    steps = Runs(notice=streams.notices(args.quiet))._recover_steps(
        resume_lost=args.resume_lost,
        dry_run=args.dry_run,
        stop_orphans=args.stop_orphans,
        other_namespaces_gone=args.other_namespaces_gone,
    )
    recovered: list[Recovered] = run_steps(steps)
    if args.json:
        runs = [one.to_json() for one in recovered]
        streams.say_json({"schema": 1, "dry_run": args.dry_run, "runs": runs})
    else:
        _show(recovered, args.dry_run, args.quiet)
    return 1 if any(one.action is Action.UNTOUCHED for one in recovered) else 0


def _show(recovered: list[Recovered], dry_run: bool, quiet: bool) -> None:
    if not recovered:
        if not quiet:
            streams.complain("nothing to recover: every run is supervised or has ended")
        return
    room = max(len(_name(one)) for one in recovered)
    word = max(len(one.action) for one in recovered)
    for one in recovered:
        action = paint(f"{one.action:<{word}}", *_LOOKS.get(one.action, ()))
        streams.say(f"{_name(one):<{room}}  {action}  {printable(_because(one))}")
        for suspect in one.suspects:
            streams.say(
                f"{'':<{room}}  {'':<{word}}  suspect {suspect['pid']} "
                f"{printable(str(suspect['comm']))}: carries this run's stamp, not proven ours"
            )
    if not quiet:
        streams.say(_total(recovered, dry_run))


def _name(one: Recovered) -> str:
    return one.name or one.id


def _because(one: Recovered) -> str:
    said = one.evidence
    if one.action is Action.RECORDED:
        code = "" if one.exit_code is None else f" (exit {one.exit_code})"
        said = f"{one.outcome}{code}: {said}"
    if one.resumed_as is not None:
        said = f"{said}, as {one.resumed_as}"
    if one.shim is not None:
        said = f"{said}; new shim {one.shim['pid']}"
    return said


def _total(recovered: list[Recovered], dry_run: bool) -> str:
    counts: dict[Action, int] = {}
    for one in recovered:
        counts[one.action] = counts.get(one.action, 0) + 1
    parts = ", ".join(f"{count} {action}" for action, count in counts.items())
    if dry_run:
        return f"would be: {parts}; nothing was changed"
    sent = sum(one.signals for one in recovered)
    return f"{parts}; {sent} {'signal' if sent == 1 else 'signals'} sent"
