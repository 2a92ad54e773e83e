"""Answers an agent that asks for permission, by the run's shim, which tells the agent's hook."""

from __future__ import annotations

from holdfast.errors import Refused, WrongUse
from holdfast.manage.changing.asking import ask_shim
from holdfast.manage.words.possible import permissions_asked
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps
    from holdfast.run.directory import RunDirectory

MOST_MESSAGE = 4096


class GivenAnswer(Record):
    """A question that was answered, and how: approved or denied."""

    id: str
    how: str
    text: str


def answer_run(
    directory: RunDirectory,
    question: str,
    *,
    allow: bool,
    message: str | None = None,
    asked_by: Sequence[str] = (),
) -> Steps[GivenAnswer]:
    """Approve or deny. Refused: nothing is asked under that id, or from inside the run.

    `asked_by`: tokens of the processes for which a server does it.
    """
    if message is not None and len(message) > MOST_MESSAGE:
        raise WrongUse(f"message: a text of at most {MOST_MESSAGE} characters")
    if message is not None and any("\ud800" <= one <= "\udfff" for one in message):
        raise WrongUse("message: it is not UTF-8")  # an agent may die of such a text
    request = {"do": "answer", "id": question, "allow": allow, "message": message,
               "asked_by": list(asked_by)}  # fmt: skip
    answer = yield from ask_shim(directory, request)
    return GivenAnswer(str(answer["id"]), str(answer["how"]), str(answer["text"]))


def only_question(info: RunInfo) -> dict[str, Any]:
    """What is asked, where that is one thing, whole; Refused otherwise."""
    name, permissions = info.name or info.id, permissions_asked(info)
    if not permissions:
        waits = info.attention is not None
        terminal = f" Its terminal can answer: holdfast attach {name}" if waits else ""
        raise Refused(f"{name} asks for no permission.{terminal}", run=info.id)
    if len(permissions) > 1:
        ids = ", ".join(one["id"] for one in permissions)
        raise Refused(
            f"{name} asks {len(permissions)} things at once: {ids}",
            hint=f"holdfast status {name} shows them; answer one by its ID",
            run=info.id,
        )
    if permissions[0]["is_cut"]:
        raise Refused(
            f"what {name} asks is too long to be shown whole",
            hint=f"holdfast status {name}; then answer it by its ID, {permissions[0]['id']}",
            run=info.id,
        )
    return permissions[0]
