"""Commands of a node's own holdfast, asked for by name: documents, output, and how a run stands."""

from __future__ import annotations

from holdfast.errors import HoldfastError, NoAnswer, NotFound, OtherNode, RunNotFound, Unavailable
from holdfast.fleet.placer import NodeCall
from holdfast.fleet.remote_info import info_of
from holdfast.fleet.session import error_of, other_node
from holdfast.fleet.verdict import NodeLook, Sight, judge
from holdfast.lean import read_json
from holdfast.process.clock import boottime, wall_clock
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.fleet.channel import Channel
    from holdfast.fleet.library import Fleet
    from holdfast.fleet.placement import Placement
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


def open_channel(fleet: Fleet, placement: Placement, call: NodeCall) -> Steps[Channel]:
    """A command on the bound node, which has said that it is that one."""
    channel = yield from fleet.placer_of(placement.target).reach(placement, call)
    try:
        facts = yield from channel.hello()
        if placement.node is not None and facts.node != placement.node:
            raise other_node(placement.where, facts.node, placement.node)
        fleet.ledger.see(facts, placement.engine, placement.target)
    except BaseException:
        channel.close()
        raise
    return channel


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
    try:
        document = read_json(reply.output.decode())
    except (ValueError, RecursionError):
        raise Unavailable(
            f"{placement.where} answered {words[0]} with something else than a document:"
            f" {reply.errors or 'exit ' + str(reply.code)}",
            hint="is another Holdfast installed there?",
        ) from None
    if "error" in document and reply.code:
        raise error_of({**document["error"], "exit_code": reply.code})
    return Answered(reply.code, document)


def look_steps(fleet: Fleet, placement: Placement) -> Steps[RunInfo]:
    """How the run stands, from here; what its node says is remembered."""
    sight = yield from sight_of(fleet, placement)
    verdict = judge(sight)
    last = None if sight.last is None else sight.last.run
    info = info_of(placement, verdict, last)
    note_end(fleet, placement, sight)
    return info


def note_end(fleet: Fleet, placement: Placement, sight: Sight) -> None:
    """An ending that the node has recorded: nothing is expected of it any more."""
    if sight.has_recorded_end and placement.ended_at is None:
        try:
            fleet.ledger.note(placement.id, ended_at=wall_clock())
        except HoldfastError:
            pass  # it is noted at the next look


def sight_of(fleet: Fleet, placement: Placement) -> Steps[Sight]:
    """Ask the node, then, where that leads nowhere, the engine; with the last facts."""
    look, why = NodeLook.NOT_ASKED, ""
    if placement.reservation is not None:
        try:
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
    if look is not NodeLook.ANSWERED and placement.bound is not None:
        try:
            engine = yield from fleet.placer_of(placement.target).look(placement.bound)
        except HoldfastError as error:
            why = f"{why}; {error.message}" if why else error.message
    last = fleet.ledger.recall(placement.id)
    return Sight(placement, look, why, engine, last, seen_at(fleet, placement))


def seen_at(fleet: Fleet, placement: Placement) -> str | None:
    if placement.node is None:
        return None
    nodes = fleet.ledger.nodes()
    return next((one.seen_at for one in nodes if one.facts.node == placement.node), None)
