"""Bounds on connections, which uvicorn has none of: how many, how slow, how long unread.

A connection that has no request under way for `head_seconds` is closed: one that sends nothing, one
that sends a head byte by byte, one that stays open after an answer. One that takes nothing of what
was sent for `stall_seconds` is cut. Over `most_connections` the one that idles longest goes.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.web.request_peers import CONNECTION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

    from holdfast.web.settings import ServeSettings

_LOOK_SECONDS = 1.0


class OpenConnections:
    """All connections of a server."""

    def __init__(self, settings: ServeSettings) -> None:
        self.settings = settings
        self._open: dict[BoundedProtocol, None] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._open)

    def protocol(self, *args: Any, **more: Any) -> BoundedProtocol:
        """What uvicorn makes for each connection."""
        return BoundedProtocol(self, *args, **more)

    def add(self, one: BoundedProtocol) -> None:
        self._open[one] = None
        if len(self._open) > self.settings.most_connections:
            idle = [other for other in self._open if not other.is_busy]
            min(idle or [one], key=lambda other: other.idle_since).cut()

    def remove(self, one: BoundedProtocol) -> None:
        self._open.pop(one, None)

    def cut_all(self) -> None:
        """The server ends."""
        for one in list(self._open):
            one.cut()

    async def watch(self) -> None:
        """Look at each of them, again and again."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for one in list(self._open):
                one.look()


class BoundedProtocol(H11Protocol):
    """One connection."""

    def __init__(self, connections: OpenConnections, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._connections = connections
        self.idle_since = 0.0
        self._unsent = 0
        self._unsent_since = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.idle_since = self._unsent_since = self.loop.time()
        self.app_state = {**self.app_state, CONNECTION: transport.get_extra_info("socket")}
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self.idle_since = self.loop.time()
        super().on_response_complete()

    def resume_writing(self) -> None:
        self._unsent_since = self.loop.time()  # the peer took some
        super().resume_writing()

    def look(self) -> None:
        """Close it when it is too slow."""
        now, settings = self.loop.time(), self._connections.settings
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0 or unsent < self._unsent:
            self._unsent_since = now
        self._unsent = unsent
        is_stalled = unsent and now - self._unsent_since > settings.stall_seconds
        is_idle = not self.is_busy and not unsent
        if is_stalled or (is_idle and now - self.idle_since > settings.head_seconds):
            self.cut()

    def cut(self) -> None:
        """At once: a peer that takes nothing would keep a close waiting."""
        self.transport.abort()
