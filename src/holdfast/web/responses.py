"""Answers: the contract's JSON, and its errors with their HTTP codes."""

from __future__ import annotations

import json

from starlette.responses import Response

from holdfast.errors import (
    Bug,
    Failed,
    HoldfastError,
    NotFound,
    Refused,
    Unavailable,
    WrongUse,
    is_shortage,
    out_of_room,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STATUS = {
    WrongUse.exit_code: 400,
    NotFound.exit_code: 404,
    Refused.exit_code: 409,
    Unavailable.exit_code: 503,
    Failed.exit_code: 500,
    Bug.exit_code: 500,
}


def json_bytes(document: Any) -> bytes:
    """ASCII only: surrogates from odd file names stay valid JSON."""
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def answer(document: dict[str, Any] | bytes, status: int = 200) -> Response:
    """A document, or one that is encoded already."""
    body = document if isinstance(document, bytes) else json_bytes(document)
    return Response(body, status, media_type="application/json")


def refuse(status: int, code: str, message: str, hint: str | None = None) -> Response:
    """An error of HTTP's own, in the contract's form."""
    return answer({"schema": 1, "error": {"code": code, "message": message, "hint": hint}}, status)


def error_answer(error: Exception) -> Response:
    """Any error, as the contract has it. A fault of ours says no more than that it is one."""
    if isinstance(error, OSError) and is_shortage(error):
        error = out_of_room(error)
    if isinstance(error, HoldfastError):
        return answer(error.to_json(), STATUS.get(error.exit_code, 500))
    return refuse(500, Bug.code, f"unexpected {type(error).__name__}; this is a bug in Holdfast")
