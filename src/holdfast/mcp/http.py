"""The server over streamable HTTP, below `holdfast serve`, which asks for its token before us.

The SDK is loaded at the first request: whoever only looks at the page does not pay for it.
"""

from __future__ import annotations

import asyncio
import json

from holdfast.mcp.scope import Access, Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    Send = Callable[[Any], Awaitable[None]]
    Receive = Callable[[], Awaitable[Any]]
    App = Callable[[Any, Receive, Send], Awaitable[None]]

MOST_SESSIONS = 64
IDLE_SECONDS = 1800.0


class MountedServer:
    """An ASGI application that needs no lifespan of its own."""

    def __init__(self, scope: Scope, access: Access) -> None:
        self._scope = scope
        self._access = access
        self._app: App | None = None
        self._starting = asyncio.Lock()
        self._holding: asyncio.Task[None] | None = None  # a task that nobody holds may be dropped

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        try:
            async with self._starting:
                app = self._app or await self._start()
        except ModuleNotFoundError as error:
            await _say_what_is_missing(str(error.name), send)
            return
        await app(scope, receive, send)

    async def _start(self) -> App:
        make = await asyncio.to_thread(_load)
        manager: Any = make(self._scope, self._access)
        is_ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def hold() -> None:
            async with manager.run():
                is_ready.set_result(None)
                await asyncio.get_running_loop().create_future()  # until the loop ends

        self._holding = asyncio.create_task(hold())
        await is_ready
        app: App = manager.handle_request
        self._app = app
        return app


def _load() -> Callable[[Scope, Access], Any]:
    """2 s of work: in a thread, so that other requests are answered meanwhile."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from holdfast.mcp.server import make_server

    def make(scope: Scope, access: Access) -> StreamableHTTPSessionManager:
        return StreamableHTTPSessionManager(
            make_server(scope, access),
            session_idle_timeout=IDLE_SECONDS,
            max_sessions=MOST_SESSIONS,
        )

    return make


async def _say_what_is_missing(package: str, send: Send) -> None:
    error = {
        "code": "unavailable",
        "message": f"/mcp needs a package that is not installed: {package}",
        "hint": "pip install 'holdfast[mcp]'",
    }
    body = json.dumps({"schema": 1, "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})
