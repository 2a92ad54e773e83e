"""The server on stdin and stdout, for the agent that started it; it ends when stdin does."""

from __future__ import annotations

import contextlib
import json

import anyio
import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from holdfast.mcp.server import make_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from holdfast.mcp.scope import Access, Scope


def serve_stdio(scope: Scope, access: Access) -> None:
    """Until the client hangs up."""
    anyio.run(_serve, scope, access)


async def _serve(scope: Scope, access: Access) -> None:
    server = make_server(scope, access)
    async with stdio_server() as (reader, writer):
        requests: Any = _Requests(reader, writer)
        await server.run(requests, writer, server.create_initialization_options())


class _Requests:
    """What the client sends. The SDK drops a line that is no message: whoever sent it would wait.

    JSON's own parser takes a lone surrogate, the SDK's does not.
    """

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    async def __aenter__(self) -> Self:
        await self._reader.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._reader.__aexit__(*raised)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage:
        while True:
            item: SessionMessage | Exception = await self._reader.receive()
            if not isinstance(item, Exception):
                return item
            error = _refusal(item)
            if error is not None:
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await self._writer.send(SessionMessage(error))


def _refusal(error: Exception) -> types.JSONRPCError | None:
    """The answer to a line that is no message; None: to an empty line."""
    line, document = _sent(error)
    if line is not None and not line.strip():
        return None
    code, what = types.PARSE_ERROR, "this is not JSON"
    if line is not None:
        with contextlib.suppress(ValueError, RecursionError):
            document = json.loads(line)
            what = "a text has a lone surrogate, which is no character"
    elif document is not None:
        code, what = types.INVALID_REQUEST, "this is not a message of JSON-RPC"
    return types.JSONRPCError(
        jsonrpc="2.0", id=_id_of(document), error=types.ErrorData(code=code, message=what)
    )


def _sent(error: Exception) -> tuple[str | None, Any]:
    """The line where it could not be parsed, else what it says where that is known."""
    found = error.errors() if isinstance(error, ValidationError) else []
    for one in found:
        if one["type"] == "json_invalid":
            return str(one["input"]), None
        if one["type"] == "missing" and len(one["loc"]) == 2:
            return None, one["input"]
    return None, [] if found else None


def _id_of(document: Any) -> str | int | None:
    """Of a request. Of a response it would be one of ours."""
    is_response = isinstance(document, dict) and bool({"result", "error"} & document.keys())
    found = document.get("id") if isinstance(document, dict) and not is_response else None
    if isinstance(found, str) and found.isprintable():
        return found
    return found if type(found) is int else None
