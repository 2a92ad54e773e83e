"""The SDK's own client, beside the server in this process or over stdio to a real one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
from mcp import Client, StdioServerParameters

from holdfast.mcp.scope import Access, Scope
from holdfast.mcp.server import make_server
from holdfast.run.home import Home

T = TypeVar("T")
ALL = Access(acts=True, starts=True)
LEGACY, MODERN = "legacy", "auto"
MODES = (LEGACY, MODERN)  # the handshake up to 2025-11-25, and requests since 2026-07-28


class Answered(dict[str, Any]):
    """The document of a tool's answer."""

    def __init__(self, result: Any) -> None:
        super().__init__(result.structured_content or json.loads(result.content[0].text))
        self.is_error: bool = result.is_error
        self.text: str = result.content[0].text

    @property
    def code(self) -> str:
        """Of the error."""
        assert self.is_error, self
        return str(self["error"]["code"])


class Caller:
    """`await caller("start_run", command=["true"])`; the client checks answers by their schemas."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **given: Any) -> Answered:
        return Answered(await self.client.call_tool(tool, given))

    async def done(self, tool: str, **given: Any) -> Answered:
        """The same, which must not fail."""
        answered = await self(tool, **given)
        assert not answered.is_error, answered
        return answered


def beside(
    play: Callable[[Caller], Awaitable[T]],
    *,
    tags: dict[str, str] | None = None,
    access: Access = ALL,
    mode: str = LEGACY,
    **options: Any,
) -> T:
    """Play with a server in this process."""

    async def connected() -> T:
        server = make_server(Scope(Home.locate(), tags), access)
        async with Client(server, mode=mode, **options) as client:
            return await play(Caller(client))

    return anyio.run(connected)


def over_stdio(
    play: Callable[[Caller], Awaitable[T]],
    *words: str,
    mode: str = LEGACY,
    env: dict[str, str] | None = None,
    **options: Any,
) -> T:
    """Play with `holdfast mcp WORDS` as a process of its own."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "holdfast", "mcp", *words],
        env={**os.environ, **(env or {})},
    )

    async def connected() -> T:
        async with Client(parameters, mode=mode, **options) as client:
            return await play(Caller(client))

    return anyio.run(connected)
