"""`holdfast mcp --approve-only`: a server with the one tool `approve_tool`, without the SDK.

claude waits 5 s for a server that it is handed; to load the SDK alone takes 2 s of CPU time
(decision 0121). What a client needs to call one tool is little: JSON-RPC, a message per line.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from holdfast import __version__
from holdfast.mcp.approving import ask_person
from holdfast.mcp.tools import BY_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Json = dict[str, Any]

_VERSION = "2025-06-18"  # of the protocol; what it needs is the same since 2024-11-05
_PARSE_ERROR, _NO_METHOD, _WRONG_PARAMS = -32700, -32601, -32602
_MOST_LINE_BYTES = 32 << 20
_ID_TYPES = (str, int, type(None))
_TOOL = BY_NAME["approve_tool"]


class _RpcError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def serve_approvals() -> None:
    """Until the client hangs up; what is open then is withdrawn."""
    asyncio.run(_ApproveServer().serve())


class _ApproveServer:
    def __init__(self) -> None:
        self._calls: dict[Any, asyncio.Task[None]] = {}
        # Nothing else may write to the client: not even a stray print.
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)

    async def serve(self) -> None:
        reader = asyncio.StreamReader(limit=_MOST_LINE_BYTES)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        try:
            while line := await reader.readline():
                self._take(line)
        except ValueError:  # a line that is too long: nobody means that
            pass
        for task in self._calls.values():
            task.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            method, request_id = message["method"], message.get("id")
            params = message.get("params") or {}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            message = None
        if message is None or type(params) is not dict or type(request_id) not in _ID_TYPES:
            self._send({"id": None, "error": {"code": _PARSE_ERROR, "message": "not a request"}})
        elif method == "notifications/cancelled":
            self._cancel(params.get("requestId"))
        elif request_id is None:
            return  # another notification
        elif method == "tools/call":
            self._call(request_id, params)
        else:
            self._answer(request_id, lambda: _result(method, params))

    def _cancel(self, request_id: object) -> None:
        task = self._calls.pop(request_id, None) if type(request_id) in _ID_TYPES else None
        if task is not None:
            task.cancel()

    def _call(self, request_id: str | int, params: Json) -> None:
        async def answer() -> None:
            said = await ask_person(given)
            content = [{"type": "text", "text": json.dumps(said)}]
            self._send({"id": request_id, "result": {"content": content, "isError": False}})

        try:
            given = _arguments(params)
        except _RpcError as error:
            self._fail(request_id, error)
            return
        task = asyncio.get_running_loop().create_task(answer())
        self._calls[request_id] = task
        task.add_done_callback(lambda _: self._calls.pop(request_id, None))

    def _answer(self, request_id: str | int, result: Callable[[], Json]) -> None:
        try:
            self._send({"id": request_id, "result": result()})
        except _RpcError as error:
            self._fail(request_id, error)

    def _fail(self, request_id: str | int, error: _RpcError) -> None:
        self._send({"id": request_id, "error": {"code": error.code, "message": str(error)}})

    def _send(self, message: Json) -> None:
        self._out.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def _result(method: str, params: Json) -> Json:
    if method == "initialize":
        info = {"name": "holdfast", "version": __version__}
        wanted = params.get("protocolVersion")
        version = wanted if isinstance(wanted, str) else _VERSION
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        shown = {"name": _TOOL.name, "title": _TOOL.title, "description": _TOOL.text}
        return {"tools": [{**shown, "inputSchema": _TOOL.takes}]}
    if method != "ping":
        raise _RpcError(_NO_METHOD, f"there is no method {method}")
    return {}


def _arguments(params: Json) -> Json:
    given = params.get("arguments")
    if params.get("name") != _TOOL.name:
        raise _RpcError(_WRONG_PARAMS, f"there is no tool {params.get('name')}, but {_TOOL.name}")
    if type(given) is not dict or type(given.get("input")) is not dict:
        raise _RpcError(_WRONG_PARAMS, "input is an object")
    if type(given.get("tool_name")) is not str:
        raise _RpcError(_WRONG_PARAMS, "tool_name is a text")
    return given
