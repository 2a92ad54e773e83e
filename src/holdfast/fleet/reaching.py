"""Commands of a node's own holdfast, asked for by name: documents, output, and how a run stands."""

from __future__ import annotations

from holdfast.errors import (
    HoldfastError,
    LeftToEngine,
    NoAnswer,
    NotFound,
    OtherNode,
    RunNotFound,
    Unavailable,
)
from holdfast.fleet.ledger import LastLook
from holdfast.fleet.placement import Placement
from holdfast.fleet.placer import NodeCall
from holdfast.fleet.remote_info import UNFIT, fit_info
from holdfast.fleet.session import error_of, other_node
from holdfast.fleet.verdict import NodeLook, Sight, judge
from holdfast.lean import read_json
from holdfast.process.clock import boottime, wall_clock
from holdfast.record import Record
from holdfast.run.names import new_id
from holdfast.run.outcomes import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.fleet.channel import Channel
    from holdfast.fleet.library import Fleet
    from holdfast.fleet.placement import EngineView, NodeFacts
    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps

_READ_SECONDS = 60.0  # of a command that only reads, once its node has answered


class Reply(Record):
    """What a command on a node printed, and its exit code."""

    code: int
    output: bytes
    errors: str


class Answered(Record):
    """The one document that a command on a node printed, and its exit code."""

    code: int
    document: dict[str, Any]


def any_node(where: str, engine: str) -> Placement:
    """For a command that is about no run: whichever node answers there."""
    bound = {"engine": engine}
    return Placement(
        new_id(), "any", None, engine, where, {}, True, "", wall_clock(), reservation=bound
    )


def open_channel(fleet: Fleet, placement: Placement, call: NodeCall) -> Steps[Channel]:
    """A command on the bound node, which has said that it is that one."""
    channel = yield from fleet.placer_of(placement.target).reach(placement, call)
    try:
        facts = yield from channel.hello()
        if placement.node is not None and facts.node != placement.node:
            raise other_node(placement, facts.node, placement.node)
        if facts.node:  # one that has started nothing yet may have none
            _note_answer(fleet, placement, facts)
    except BaseException:
        channel.close()
        raise
    return channel


def _note_answer(fleet: Fleet, placement: Placement, facts: NodeFacts) -> None:
    """Which node has answered. If the engine chose it, the run is bound to it from here on."""
    try:
        fleet.ledger.see(facts, placement.engine, placement.target)
        if placement.node is None and fleet.ledger.get(placement.id) is not None:
            fleet.ledger.note(placement.id, node=facts.node, node_name=facts.hostname)
    except NoAnswer:
        pass  # the node answers, and the ledger does not: it is noted at the next answer


def drop_waiting(fleet: Fleet, placement: Placement) -> Steps[bool]:
    """Take back a run that waits at its engine. False: it has begun, or may have."""
    bound = placement.bound
    if bound is None or placement.engine != "slurm" or placement.is_over:
        return False
    placer = fleet.placer_of(placement.target)
    view = yield from placer.look(bound)
    if view is None or not view.is_waiting:
        return False
    yield from placer.cancel(bound)
    view = yield from placer.look(bound)
    if view is None or not view.never_began:
        return False
    _note_dropped(fleet, placement, Outcome.STOPPED, f"it had not begun: {view.quoted()}")
    return True


def _note_dropped(fleet: Fleet, placement: Placement, outcome: Outcome, says: str) -> None:
    word = {"outcome": outcome, "at": wall_clock(), "says": says}
    fleet.ledger.note(placement.id, dropped=word)


def leave_to_engine(
    fleet: Fleet, placement: Placement, error: HoldfastError
) -> Steps[HoldfastError]:
    """What to raise of a stop that did not reach its node; the engine is asked to end the run."""
    bound = placement.bound
    if bound is None or not isinstance(error, NoAnswer):
        return error
    try:
        asked = yield from fleet.placer_of(placement.target).end(bound)
    except HoldfastError as failed:
        return NoAnswer(f"{error.message}; {failed.message}", hint=error.hint)
    if asked is None:
        return error
    return LeftToEngine(
        f"{error.message}; {asked}: what becomes of the run is known once its node answers",
        hint=f"holdfast status {placement.id}",
    )


def ask(
    fleet: Fleet,
    placement: Placement,
    words: Sequence[str],
    *,
    seconds: float | None = _READ_SECONDS,
    columns: int | None = None,
) -> Steps[Reply]:
    """A command to its end."""
    call = NodeCall(tuple(words), columns=columns)
    channel = yield from open_channel(fleet, placement, call)
    deadline = None if seconds is None else boottime() + seconds
    with channel:
        parts = []
        while (data := (yield from channel.read(deadline))) is not None:
            parts.append(data)
        return Reply(channel.exit_code or 0, b"".join(parts), channel.errors)


def ask_json(
    fleet: Fleet,
    placement: Placement,
    words: Sequence[str],
    *,
    seconds: float | None = _READ_SECONDS,
) -> Steps[Answered]:
    """The one document of a command; its error is raised as it would be here."""
    reply = yield from ask(fleet, placement, ["--json", *words], seconds=seconds)
    return Answered(reply.code, read_document(placement, words[0], reply))


def raise_refusal(verb: str, reply: Reply) -> None:
    """What a command has printed as text when it was refused, as an error of ours."""
    if reply.code:
        said = reply.errors.removeprefix("holdfast: ") or f"{verb} failed there"
        raise error_of({"code": "", "message": said, "exit_code": reply.code})


def read_document(placement: Placement, verb: str, reply: Reply) -> dict[str, Any]:
    """The one document that a command has printed; its error is raised as it would be here."""
    try:
        document = read_json(reply.output.decode())
        if "error" in document and reply.code:
            raise error_of({**document["error"], "exit_code": reply.code})
        return dict(document)
    except UNFIT:
        raise Unavailable(
            f"{placement.where} answered {verb} with something else than a document:"
            f" {reply.errors or 'exit ' + str(reply.code)}",
            hint="is another Holdfast installed there?",
        ) from None


def look_steps(
    fleet: Fleet, placement: Placement, tried: HoldfastError | None = None
) -> Steps[RunInfo]:
    """How the run stands, from here; what its node says is remembered.

    `tried`: what came of asking its node just now, which is then not done again.
    """
    sight = yield from sight_of(fleet, placement, tried)
    verdict = judge(sight)
    placement = sight.placement
    last = None if sight.last is None else sight.last.run
    info = fit_info(placement, verdict, last)
    note_end(fleet, placement, sight)
    return info


def keep_look(fleet: Fleet, placement: Placement, run: dict[str, Any]) -> None:
    """What its node has said of it just now; an ending among it is noted."""
    try:
        fleet.ledger.remember(placement.id, run)
    except NoAnswer:
        return  # what the node said is the answer, also while the ledger does not answer
    last = LastLook(wall_clock(), run)
    note_end(fleet, placement, Sight(placement, NodeLook.ANSWERED, last=last))


def note_end(fleet: Fleet, placement: Placement, sight: Sight) -> None:
    """An ending that the node has recorded: nothing is expected of it any more."""
    if sight.has_recorded_end and placement.ended_at is None:
        try:
            fleet.ledger.note(placement.id, ended_at=wall_clock())
        except HoldfastError:
            pass  # it is noted at the next look


def settle_dropped(fleet: Fleet, placement: Placement, engine: EngineView | None) -> Placement:
    """What the engine was told by the node's side, or that it never began, is kept: it forgets."""
    if engine is None or placement.is_over or not (engine.refusal or engine.never_began):
        return placement
    if engine.refusal:
        _note_dropped(fleet, placement, Outcome.NEVER_STARTED, engine.refusal)
    else:
        _note_dropped(fleet, placement, Outcome.STOPPED, f"it had not begun: {engine.quoted()}")
    return fleet.ledger.get(placement.id) or placement


def sight_of(
    fleet: Fleet, placement: Placement, tried: HoldfastError | None = None
) -> Steps[Sight]:
    """Ask the node, then, where that leads nowhere, the engine; with the last facts."""
    look, why = NodeLook.NOT_ASKED, ""
    if placement.reservation is not None and placement.dropped is None:
        try:
            if tried is not None:
                raise tried
            words = ["status", placement.id]
            answered = yield from ask_json(fleet, placement, words)
            fleet.ledger.remember(placement.id, answered.document)
            look = NodeLook.ANSWERED
        except OtherNode as error:
            look, why = NodeLook.OTHER, error.message
        except (RunNotFound, NotFound):
            look = NodeLook.ABSENT
        except NoAnswer as error:
            look, why = NodeLook.SILENT, error.message
    engine = None
    if look is not NodeLook.ANSWERED and placement.bound is not None and not placement.dropped:
        try:
            engine = yield from fleet.placer_of(placement.target).look(placement.bound)
        except HoldfastError as error:
            why = f"{why}; {error.message}" if why else error.message
    placement = settle_dropped(fleet, placement, engine)
    last = fleet.ledger.recall(placement.id)
    return Sight(placement, look, why, engine, last, seen_at(fleet, placement))


def seen_at(fleet: Fleet, placement: Placement) -> str | None:
    if placement.node is None:
        return None
    nodes = fleet.ledger.nodes()
    return next((one.seen_at for one in nodes if one.facts.node == placement.node), None)
