"""`fleet nodes`, `check`, `recover` and `give-up`: a submitter's look at its fleet."""

from __future__ import annotations

import time

from holdfast.cli.text import streams
from holdfast.cli.text.doctor_text import printer_of_findings
from holdfast.cli.text.terminal import table
from holdfast.errors import HoldfastError, Refused, StillAlive, WrongUse
from holdfast.fleet.check import check_steps
from holdfast.fleet.library import Fleet
from holdfast.fleet.listing import look_from_here
from holdfast.fleet.order import Settled, resettle
from holdfast.fleet.reaching import sight_of
from holdfast.fleet.remote import RemoteRun
from holdfast.fleet.verdict import VerdictSource, judge
from holdfast.manage.doctor.findings import FindingStatus
from holdfast.manage.operations import run_steps
from holdfast.manage.plaintext import printable
from holdfast.manage.runs import Runs
from holdfast.manage.together import run_together
from holdfast.process.clock import seconds_of, wall_clock
from holdfast.run.facts import State
from holdfast.run.units import age

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from holdfast.fleet.order import Resettled
    from holdfast.fleet.placement import Placement
    from holdfast.manage.operations import Steps

_AT_ONCE = 8


def oversee(verb: str, words: list[str], args: Namespace) -> int:
    """One of the verbs."""
    with Fleet(Runs(notice=streams.notices(args.quiet))) as fleet:
        return _VERBS[verb](fleet, words, args)


def _nodes(fleet: Fleet, _words: list[str], args: Namespace) -> int:
    """Every node that has answered, and how many runs may be active there: nobody is asked."""
    counts: dict[str | None, int] = {}
    for one in fleet.ledger.active():
        if look_from_here(fleet, one).info.is_active:
            counts[one.node] = counts.get(one.node, 0) + 1
    nodes = fleet.ledger.nodes()
    if args.json:
        rows: list[dict[str, Any]] = [
            {
                **node.facts.to_json(),
                "engine": node.engine,
                "target": node.target,
                "seen_at": node.seen_at,
                "exported_at": node.exported_at,
                "active": counts.get(node.facts.node, 0),
            }
            for node in nodes
        ]
        streams.say_json({"schema": 1, "nodes": rows})
        return 0
    now = time.time()
    lines = [
        (
            node.facts.hostname,
            node.target or "-",  # it exports, and no submitter here has reached it
            node.facts.node,
            node.facts.version,
            str(counts.get(node.facts.node, 0)),
            f"{age(now - seconds_of(node.seen_at))} ago",
            f"{age(now - seconds_of(node.exported_at))} ago" if node.exported_at else "-",
        )
        for node in nodes
    ]
    if lines:
        head = ("HOST", "WHERE", "NODE", "VERSION", "ACTIVE", "ANSWERED", "EXPORTED")
        for line in table(head, lines, right=("ACTIVE", "ANSWERED", "EXPORTED")):
            streams.say(printable(line))
    elif not args.quiet:
        streams.complain("no node has answered yet: holdfast run --on WHERE, or fleet check WHERE")
    return 0


def _check(fleet: Fleet, words: list[str], args: Namespace) -> int:
    """Try what a run there needs."""
    findings = run_steps(check_steps(fleet, words[0], printer_of_findings(args)))
    ok = all(one.status is not FindingStatus.FAIL for one in findings)
    if args.json:
        found = [one.to_json() for one in findings]
        streams.say_json({"schema": 1, "ok": ok, "findings": found})
    return 0 if ok else 1


def _recover(fleet: Fleet, _words: list[str], args: Namespace) -> int:
    """Go on with what submitters left unfinished."""
    unfinished = fleet.ledger.unfinished()
    steps = [_resettle(fleet, one) for one in unfinished]
    rows: list[dict[str, Any]] = []
    code = 0
    for one, result in zip(unfinished, run_together(steps, _AT_ONCE), strict=True):
        if isinstance(result, HoldfastError):
            outcome, says = Settled.UNKNOWN, result.message
        else:
            outcome, says = result.outcome, result.says
        if outcome is Settled.FOUND and one.committed_at is not None:
            continue  # it waits at its engine, as it should
        code = code or (6 if outcome is Settled.UNKNOWN else 0)
        rows.append(
            {"id": one.id, "name": one.name, "on": one.target, "outcome": outcome, "says": says}
        )
    if args.json:
        streams.say_json({"schema": 1, "placements": rows})
    elif not rows and not args.quiet:
        streams.complain("every placement has been answered")
    else:
        for row in rows:
            streams.say(printable(f"{row['name']} on {row['on']}: {row['outcome']}: {row['says']}"))
    return code


def _resettle(fleet: Fleet, one: Placement) -> Steps[Resettled]:
    """The engine of one may be in no settings any more, which is an error of that one alone."""
    return (yield from resettle(fleet.ledger, fleet.placer_of(one.target), one))


def _give_up(fleet: Fleet, words: list[str], args: Namespace) -> int:
    """A person's word that a run is gone; refused while its node says otherwise."""
    run = fleet.runs.get(words[0])
    if not isinstance(run, RemoteRun):
        raise WrongUse(f"{words[0]} is a run of this home", hint=f"holdfast rm --force {words[0]}")
    placement = run.placement
    verdict = judge(run_steps(sight_of(fleet, placement)))
    if (
        verdict.source in (VerdictSource.NODE, VerdictSource.ENGINE)
        and verdict.state is not State.ENDED
    ):
        raise StillAlive(
            f"{placement.name} ({placement.id}) is {verdict.state}: {verdict.evidence}",
            hint=f"holdfast stop {placement.id}",
            run=placement.id,
        )
    if placement.reservation is None:
        fleet.ledger.withdraw(placement.id)
        says = "nothing was reserved for it: forgotten"
    elif placement.given_up is not None:
        says = verdict.evidence
    elif verdict.state is State.ENDED and verdict.source is not VerdictSource.SEEN:
        raise Refused(
            f"{placement.name} ({placement.id}) has ended, and is not lost: {verdict.evidence}",
            hint=f"holdfast rm {placement.id} frees its key",
            run=placement.id,
        )
    else:
        _vouch(fleet, placement, args.reason)
        says = f"given up; it was {verdict.state}: {verdict.evidence}"
    if args.json:
        streams.say_json({"schema": 1, "id": placement.id, "name": placement.name, "says": says})
    elif not args.quiet:
        streams.complain(printable(f"{placement.name}: {says}"))
    return 0


def _vouch(fleet: Fleet, placement: Placement, reason: str | None) -> None:
    from holdfast.fleet.library import submitter

    word = {"by": submitter(), "at": wall_clock(), "reason": reason}
    fleet.ledger.note(placement.id, given_up=word)


_VERBS = {
    "nodes": _nodes,
    "check": _check,
    "recover": _recover,
    "give-up": _give_up,
}
