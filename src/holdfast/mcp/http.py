"""The server over streamable HTTP, below `holdfast serve`, which asks for its token before us.

A client's scope stands in its URL: `/mcp/?tag=team=a`. Each scope has a server of its own, so that
the id of a session in one leads nowhere in another. The SDK is loaded at the first request: whoever
only looks at the page does not pay for it.
"""

from __future__ import annotations

import asyncio
import json
from urllib.parse import parse_qsl

from holdfast.errors import HoldfastError, InvalidOption, Unavailable
from holdfast.mcp.scope import Access, Scope
from holdfast.mcp.tags import tags_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from holdfast.run.home import Home

    Send = Callable[[Any], Awaitable[None]]
    Receive = Callable[[], Awaitable[Any]]
    App = Callable[[Any, Receive, Send], Awaitable[None]]

MOST_SCOPES = 32
MOST_SESSIONS = 64  # of one scope
IDLE_SECONDS = 1800.0
_ENDING_SECONDS = 0.5


class MountedServer:
    """An ASGI application that needs no lifespan of its own."""

    def __init__(self, home: Home, access: Access) -> None:
        self._home = home
        self._access = access
        self._apps: dict[frozenset[tuple[str, str]], App] = {}  # by the tags of the scope
        self._starting = asyncio.Lock()
        self._holding: list[asyncio.Task[None]] = []
        self._ending = asyncio.Event()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        try:
            tags = _asked_tags(scope["query_string"])
            async with self._starting:
                app = self._apps.get(frozenset(tags.items())) or await self._start(tags)
        except ModuleNotFoundError as error:
            what = f"/mcp needs a package that is not installed: {error.name}"
            missing = Unavailable(what, hint="pip install 'holdfast[mcp]'")
            await _refuse(missing, 503, send)
        except HoldfastError as error:
            await _refuse(error, 503 if isinstance(error, Unavailable) else 400, send)
        else:
            await app(scope, receive, send)

    async def end(self) -> None:
        """The server ends: so do its sessions, and what they wait for. No run does."""
        self._ending.set()
        if self._holding:
            await asyncio.wait(self._holding, timeout=_ENDING_SECONDS)

    async def _start(self, tags: dict[str, str]) -> App:
        if len(self._apps) >= MOST_SCOPES:
            raise Unavailable(
                f"this server has {MOST_SCOPES} scopes", hint="start `holdfast serve` again"
            )
        within = Scope(self._home, tags)
        make = await asyncio.to_thread(_load)
        manager: Any = make(within, self._access)
        is_ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def hold() -> None:
            async with manager.run():
                is_ready.set_result(None)
                await self._ending.wait()
                for session in list(manager._server_instances.values()):
                    end = type(session).terminate  # of a session: no process is meant
                    await end(session)  # else each waits a second for its client

        self._holding.append(asyncio.create_task(hold()))
        await is_ready
        app: App = manager.handle_request
        self._apps[frozenset(tags.items())] = app
        return app


def _asked_tags(query: bytes) -> dict[str, str]:
    """The scope that a URL asks for; InvalidOption for anything else in it."""
    given = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    for name, _ in given:
        if name != "tag":
            raise InvalidOption(f"{name[:40]}: no such parameter", hint="known: tag", option=name)
    return tags_of((value for _, value in given), "tag")


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


async def _refuse(error: HoldfastError, status: int, send: Send) -> None:
    body = json.dumps(error.to_json()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
