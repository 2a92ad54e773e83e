"""Puts a question of a run's own agent to its shim, from inside of the run; awaits the decision.

It is what the hook program does, for a server that the agent asks instead. The connection is the
question: closing it withdraws the question. If the shim dies, its adopter is called again.
"""

from __future__ import annotations

import binascii
import os

from holdfast.errors import Refused
from holdfast.lean import json_text, read_json
from holdfast.manage.operations import Wait
from holdfast.manage.shim_client import reach
from holdfast.process.clock import boottime
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.operations import Steps
    from holdfast.manage.shim_client import ShimLink
    from holdfast.run.directory import RunDirectory

    Json = dict[str, Any]

EVENT = "PermissionPrompt"  # no hook of an agent's own has this name
MOST_BYTES = 64 << 10  # of a report: what is longer is cut, text by text
MOST_TEXT = 4 << 10
AGAIN_SECONDS = 0.2
LONGEST_SECONDS = 23.9 * 3600  # as for a hook


class PersonsDecision(Record):
    """What was decided; the message is for the agent."""

    is_allowed: bool
    message: str


def put_question(directory: RunDirectory, asked: Json) -> Steps[PersonsDecision]:
    """Wait for what a person says. Refused: the shim does not take it."""
    said = json_text({"hook_event_name": EVENT, **asked}).encode()
    if len(said) > MOST_BYTES:
        said = json_text({"hook_event_name": EVENT, **_cut(asked, 0)}).encode()
    request = {
        "do": "hook",
        "id": os.urandom(6).hex(),
        "at": boottime(),
        "base64": binascii.b2a_base64(said, newline=False).decode(),
    }
    deadline = boottime() + LONGEST_SECONDS
    while boottime() < deadline:
        link = yield from reach(directory)
        if link is not None:
            with link:
                decided = yield from _ask(link, request, directory)
            if decided is not None:
                return decided
        yield Wait((), AGAIN_SECONDS)
    return PersonsDecision(False, "Nobody answered for a day.")


def _ask(link: ShimLink, request: Json, directory: RunDirectory) -> Steps[PersonsDecision | None]:
    """None: the shim is gone, or is being started: call again."""
    answer = yield from link.ask(request)
    if answer is None or answer.get("code") == "later":
        return None
    if not answer.get("hold"):
        why = answer.get("error") or "its agent is not one that asks"
        raise Refused(f"run {directory.id} takes no question: {why}", run=directory.id)
    while not (lines := link.take_lines()):
        yield Wait((link.fd,), None)
        if not link.receive():
            return None
    decided = read_json(str(lines[0], "utf-8"))
    how = decided.get("how")
    if how is None:
        return PersonsDecision(False, "The question was withdrawn.")
    yield from link.ask({"do": "hook_done"})  # it is on record when that is answered
    return PersonsDecision(how == "approved", str(decided.get("message") or ""))


def _cut(value: Any, depth: int) -> Any:
    """The same with its long texts and lists cut."""
    if isinstance(value, str):
        return value[:MOST_TEXT]
    if isinstance(value, dict) and depth < 3:
        return {name[:200]: _cut(one, depth + 1) for name, one in list(value.items())[:12]}
    if isinstance(value, list) and depth < 3:
        return [_cut(one, depth + 1) for one in value[:12]]
    return value if isinstance(value, (int, float, bool)) else None
