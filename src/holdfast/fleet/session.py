"""The submitter's side of what is said to a node: a start, and a command that is passed on.

Before anything is started, both versions are compared: what the node can't understand is told, and
nothing is sent.
"""

from __future__ import annotations

from holdfast import errors
from holdfast.errors import HoldfastError, OtherNode, Refused, Unavailable, WrongUse, argument
from holdfast.fleet.placement import PROTOCOL
from holdfast.fleet.placer import StartAnswer, nothing_started
from holdfast.lean import json_text
from holdfast.options import OPTIONS
from holdfast.process.clock import boottime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.fleet.channel import Channel
    from holdfast.fleet.placement import NodeFacts, Placement
    from holdfast.fleet.request import FleetRequest
    from holdfast.manage.operations import Steps

START_SECONDS = 120.0  # a start waits for its command's exec, which may hang for a minute


class StartSession:
    """A node that waits for what to start."""

    def __init__(self, channel: Channel, where: str) -> None:
        self._channel = channel
        self._where = where

    @property
    def facts(self) -> NodeFacts:
        """What the node said about itself."""
        assert self._channel.facts is not None
        return self._channel.facts

    def begin(self, asked: Sequence[str]) -> Steps[None]:
        """Read which node it is; Refused when it is of a version that can't do what is asked."""
        facts = yield from self._channel.hello()
        check_version(facts, self._where, asked)

    def ask(self, document: dict[str, Any]) -> Steps[dict[str, Any]]:
        """One request, and its answer."""
        yield from self._channel.write(json_text(document).encode("ascii") + b"\n")
        return (yield from self._channel.line(boottime() + START_SECONDS))

    def close(self) -> None:
        self._channel.close()


def check_version(facts: NodeFacts, where: str, asked: Sequence[str]) -> None:
    """Refused, before a start, when the node's Holdfast does not know what is asked."""
    if facts.protocol != PROTOCOL:
        raise Refused(
            f"{where} has Holdfast {facts.version}, which speaks protocol {facts.protocol} and not"
            f" {PROTOCOL}; nothing was started",
            hint="install the same version on both",
        )
    unknown = [name for name in asked if name not in facts.options]
    if unknown:
        shown = ", ".join(map(argument, unknown))
        raise Refused(
            f"{where} has Holdfast {facts.version}, which does not know {shown}: not started",
            hint="install a newer one there, or leave that out",
        )


def commit_over(
    session: StartSession, placement: Placement, node: str, request: FleetRequest | None
) -> Steps[StartAnswer | None]:
    """Have the bound node start it; without a request, ask whether it was."""
    facts = session.facts
    if facts.node != node:
        raise other_node(placement, facts.node, node)
    answered = yield from session.ask(start_document(placement, node, request))
    return read_answer(answered, facts)


def start_document(placement: Placement, node: str, request: FleetRequest | None) -> dict[str, Any]:
    """What a node's starter reads."""
    return {
        "id": placement.id,
        "node": node,
        "key": placement.key,
        "placement": placement.in_spec(node),
        "do": "find" if request is None else "start",
        "request": None if request is None else request.to_json(),
    }


def asked_of(request: dict[str, Any]) -> list[str]:
    """The options that a node has to know for this request."""
    return [name for name in request.get("options") or () if name in OPTIONS]


def refuse_other_node(placement: Placement, facts: NodeFacts) -> None:
    """OtherNode when a run has to go on where it was, and that node is not there any more."""
    needed = placement.request.get("on_node")
    if needed and facts.node != needed:
        raise other_node(placement, facts.node, needed)


def read_answer(answered: dict[str, Any], facts: NodeFacts) -> StartAnswer | None:
    """What a node answered to a start; its error is raised as it would be here."""
    if "error" in answered:
        error = error_of(answered["error"])
        raise error if answered.get("is_made", True) else nothing_started(error)
    found = answered.get("answer")
    if not isinstance(found, dict):
        raise Unavailable("the node's answer is not understood", hint="install the same version")
    if found["run"] is None and not found["was_before"]:
        return None
    notices = tuple(map(str, found.get("notices") or ()))
    return StartAnswer(facts, found["run"], bool(found["was_before"]), notices)


def other_node(placement: Placement, found: str, bound: str) -> OtherNode:
    """The error when another node answers than the run is bound to."""
    return OtherNode(
        f"{placement.where} answers as node {found or 'none'}, and the run is bound to {bound}:"
        " its home was replaced, or the name leads to another machine",
        hint=f"holdfast fleet give-up {placement.id}, if the run is known to be gone",
    )


def error_of(document: dict[str, Any]) -> HoldfastError:
    """An error of the node, as one of ours: the same class, code and exit code."""
    kind = _classes().get(str(document.get("code")), _by_exit_code(document.get("exit_code")))
    error = kind(str(document.get("message")), hint=document.get("hint"))
    if document.get("code"):
        error.code = str(document["code"])
    if isinstance(document.get("exit_code"), int):
        error.exit_code = document["exit_code"]
    return error


def _classes() -> dict[str, type[HoldfastError]]:
    every = [one for one in vars(errors).values() if isinstance(one, type)]
    return {one.code: one for one in every if issubclass(one, HoldfastError)}


def _by_exit_code(code: object) -> type[HoldfastError]:
    known = (WrongUse, errors.NotFound, Refused, Unavailable)
    return next((one for one in known if one.exit_code == code), errors.Failed)


def relay_line(words: Sequence[str], node: str | None, **more: Any) -> bytes:
    """What a node's `fleet relay` reads first: which command, and for which node it is."""
    return json_text({"words": list(words), "node": node, **more}).encode("ascii") + b"\n"


def tty_word(words: Sequence[str], node: str | None) -> str:
    """The line of `relay_line` as one word of a command, for where stdin is a terminal."""
    import base64

    return base64.urlsafe_b64encode(relay_line(words, node)).decode("ascii").rstrip("=")
