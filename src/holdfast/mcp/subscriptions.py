"""Tells clients that a resource changed: both the older `resources/subscribe` and `listen` streams.

One live model feeds all, and only while somebody listens. A subscription is told at once, and then
at each change: what happened between a client's read and its subscription is not lost.
"""

from __future__ import annotations

from contextlib import aclosing

import anyio
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from holdfast.errors import Unavailable
from holdfast.manage.live import LiveRuns
from holdfast.mcp.resources import WantedResource, what_is_meant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

    from mcp.server import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult

    from holdfast.manage.live import LiveChanges
    from holdfast.manage.operations import Wait
    from holdfast.manage.reading.disk_threads import DiskThreads
    from holdfast.mcp.scope import Scope

MOST_SUBSCRIPTIONS = 256
_ANSWER_SECONDS = 5.0


class _Subscriber:
    """Who wants one resource: a session, or (None) the streams of the bus."""

    def __init__(
        self, uri: str, meant: WantedResource, session: ServerSession | None = None
    ) -> None:
        self.uri = uri
        self.meant = meant
        self.session = session
        self.is_new = True


class Subscriptions:
    """All subscriptions of one server."""

    def __init__(self, scope: Scope, apart: DiskThreads) -> None:
        self._scope = scope
        self._apart = apart
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus, max_subscriptions=MOST_SUBSCRIPTIONS)
        self._subscribers: list[_Subscriber] = []
        self._by_session: dict[tuple[object, str], _Subscriber] = {}
        self._live: LiveRuns | None = None
        self._needed = anyio.Event()

    # Who listens

    async def subscribe(self, session: ServerSession, uri: str) -> None:
        """Of a session of an older protocol, until it ends."""
        connection = getattr(session, "_connection", session)  # a session is of one request alone
        meant = await self._meant(uri)
        if (connection, uri) in self._by_session:
            return
        one = self._add(_Subscriber(uri, meant, session))
        self._by_session[connection, uri] = one
        ending = getattr(connection, "exit_stack", None)
        if ending is not None:
            ending.callback(self._unsubscribe, connection, uri)

    def unsubscribe(self, session: ServerSession, uri: str) -> None:
        self._unsubscribe(getattr(session, "_connection", session), uri)

    def _unsubscribe(self, connection: object, uri: str) -> None:
        one = self._by_session.pop((connection, uri), None)
        if one is not None:
            self._drop(one)

    async def listen(
        self, context: ServerRequestContext, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """A stream, until its client leaves. What is not in the scope is never told of."""
        wanted, added = [], []
        for uri in params.notifications.resource_subscriptions or ():
            try:
                wanted.append(_Subscriber(uri, await self._meant(uri)))
            except MCPError:  # as of any resource that is not there: nothing comes of it
                continue
        # Nothing is awaited from here until the stream is on the bus: what a subscriber is told at
        # once would be told to nobody.
        for one in wanted:
            try:
                added.append(self._add(one))
            except MCPError:  # too many: the stream has those before it
                continue
        try:
            return await self._listen(context, params)
        finally:
            for one in added:
                self._drop(one)

    async def _meant(self, uri: str) -> WantedResource:
        return await self._apart.do(what_is_meant, self._scope, uri)

    def _add(self, one: _Subscriber) -> _Subscriber:
        if len(self._subscribers) >= MOST_SUBSCRIPTIONS:
            raise MCPError(INTERNAL_ERROR, "too many subscriptions")
        self._subscribers.append(one)
        if self._live is not None:
            self._open(self._live, one)
            self._live.wake()
        self._needed.set()
        return one

    def _drop(self, one: _Subscriber) -> None:
        self._subscribers.remove(one)
        is_last = all(other.meant != one.meant for other in self._subscribers)
        if self._live is not None and is_last and one.meant.is_output:
            self._live.close_output(str(one.meant.run_id))

    @staticmethod
    def _open(live: LiveRuns, one: _Subscriber) -> None:
        if one.meant.is_output:
            live.open_output(str(one.meant.run_id))

    # What they are told

    async def run(self) -> None:
        """For as long as the server lives."""
        while True:
            await self._needed.wait()
            self._live = live = LiveRuns(self._scope.home, self._scope.selection())
            for one in self._subscribers:
                self._open(live, one)
            try:
                async with aclosing(self._apart.each(_changes(live))) as each:
                    async for changes in each:
                        await self._tell(changes)
                        if not self._subscribers:
                            break
            except Unavailable:  # the disk hangs: tried again, as long as somebody listens
                continue
            finally:
                self._live = None
            self._needed = anyio.Event()

    async def _tell(self, changes: LiveChanges) -> None:
        changed = {row.id for row in changes.rows} | set(changes.gone)
        grown = set(changes.grown)
        told: set[str] = set()
        for one in list(self._subscribers):
            meant, is_new, one.is_new = one.meant, one.is_new, False
            ids = grown if meant.is_output else changed
            if not is_new and not (meant.run_id in ids or (meant.run_id is None and changed)):
                continue
            if one.session is not None:
                await one.session.send_resource_updated(one.uri)
            elif one.uri not in told:
                told.add(one.uri)
                await self._bus.publish(ResourceUpdated(uri=one.uri))


def _changes(live: LiveRuns) -> Generator[Wait | LiveChanges, set[int], None]:
    with live:
        while True:
            yield (yield from live.next_changes(_ANSWER_SECONDS))
