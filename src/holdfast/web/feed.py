"""What changes, for many clients: the live model's rows and the runs' facts in one bounded ring.

The home is read by threads of their own, since a disk may hang. Each message has an id,
`<nonce>-<n>`: a client that comes back with one gets what followed, nothing lost and nothing twice;
with one that is not in the ring any more, or is another server's, it gets a new snapshot and how
many messages it lost, where that is known. A client has a place in the ring and no queue of its
own.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import deque

from holdfast.errors import HoldfastError, Unavailable
from holdfast.manage.live import LiveRuns
from holdfast.manage.operations import run_steps
from holdfast.manage.reading.disk_threads import start_thread
from holdfast.manage.reading.events import NOW, EventStream
from holdfast.record import Record
from holdfast.web.responses import json_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import Any

    from holdfast.manage.live import LiveChanges
    from holdfast.manage.words.views import Row
    from holdfast.run.home import Home

    Json = dict[str, Any]

MOST_MESSAGES = 4096
MOST_BYTES = 8 << 20
_HEARD_SECONDS = 2.0  # the model answers at least so often
_SILENT_SECONDS = 6.0
BEAT_SECONDS = 10.0  # of silence, then a line tells that the server is there


class FeedMessage(Record):
    """One message of the ring."""

    number: int
    wire: bytes  # as it is sent, made once for all clients


class EventFeed:
    """The ring, and what fills it."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.nonce = secrets.token_hex(6)
        self._ring: deque[FeedMessage] = deque()
        self._bytes = 0
        self._last = 0
        self._rows: dict[str, Json] = {}
        self._standing: Json = {
            "is_whole": False,
            "trouble": None,
            "unstarted": 0,
            "trouble_elsewhere": None,
        }
        self._news = asyncio.Event()
        self._is_over = False
        self._heard_at = 0.0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Filled while this is open. Its threads may be held by the disk: nobody waits for them."""
        loop, live = asyncio.get_running_loop(), LiveRuns(self._home, is_plain=True)
        self._heard_at = loop.time()
        start_thread(lambda: self._follow_rows(loop, live))
        start_thread(lambda: self._follow_facts(loop))
        watching = asyncio.create_task(self._watch_silence())
        try:
            yield
        finally:
            watching.cancel()
            self._is_over = True
            live.wake()
            self._wake()

    def _follow_rows(self, loop: asyncio.AbstractEventLoop, live: LiveRuns) -> None:
        with live:
            while not self._is_over:
                changes = run_steps(live.next_changes(_HEARD_SECONDS))
                self._hand_over(loop, self._take, changes)

    def _follow_facts(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._is_over:
            try:
                with EventStream(self._home, since=NOW) as stream:
                    while (event := run_steps(stream.next_event())) is not None:
                        document = event.to_json()
                        del document["cursor"]  # of all runs it is long; the message has an id
                        if not self._hand_over(loop, self._add, "fact", document):
                            return
            except (HoldfastError, OSError):
                time.sleep(_HEARD_SECONDS)  # the rows tell what is wrong with the home

    def _hand_over(
        self, loop: asyncio.AbstractEventLoop, call: Callable[..., None], *given: Any
    ) -> bool:
        """Whether there is still somebody to tell."""
        try:
            loop.call_soon_threadsafe(call, *given)
        except RuntimeError:  # the loop has ended
            self._is_over = True
        return not self._is_over

    async def _watch_silence(self) -> None:
        """What is shown may be old: a disk that hangs is told, and when it answers again."""
        while True:
            await asyncio.sleep(_HEARD_SECONDS)
            silent = asyncio.get_running_loop().time() - self._heard_at
            if silent > _SILENT_SECONDS:
                error = Unavailable(f"the disk of {self._home.path} does not answer")
                self._stand({**self._standing, "trouble": error.to_json()["error"]}, [], [])

    def _take(self, changes: LiveChanges) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        standing = {
            **self._standing,
            "is_whole": changes.is_whole,
            "trouble": _trouble(changes),
            "unstarted": changes.unstarted,
        }
        self._take_rows(changes, standing)

    def take_elsewhere(self, changes: LiveChanges) -> None:
        """Rows of runs on other machines; or why they may be old."""
        standing = self._standing
        if not changes.rows and not changes.gone:
            standing = {**standing, "trouble_elsewhere": _trouble(changes)}
        self._take_rows(changes, standing)

    def _take_rows(self, changes: LiveChanges, standing: Json) -> None:
        for run_id in changes.gone:
            self._rows.pop(run_id, None)
        rows = [row_json(row) for row in changes.rows]
        self._rows.update((row["id"], row) for row in rows)
        self._stand(standing, rows, list(changes.gone))

    def _stand(self, standing: Json, rows: list[Json], gone: list[str]) -> None:
        if rows or gone or standing != self._standing:
            self._standing = standing
            self._add("changes", {"rows": rows, "gone": gone, **standing})

    def _add(self, kind: str, document: Json) -> None:
        self._last += 1
        wire = sse(kind, json_bytes(document), f"{self.nonce}-{self._last}")
        self._ring.append(FeedMessage(self._last, wire))
        self._bytes += len(wire)
        while len(self._ring) > MOST_MESSAGES or self._bytes > MOST_BYTES:
            self._bytes -= len(self._ring.popleft().wire)
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def rows(self) -> list[Json]:
        """Every row of now, in the order of attention."""
        return sorted(self._rows.values(), key=lambda row: (row["place"], -(row["created"] or 0)))

    # One client

    async def messages(self, last_id: str | None) -> AsyncIterator[bytes]:
        """As server-sent events, from there on."""
        at, lost = self._place_of(last_id)
        if at is None:
            at = self._last
            yield self._snapshot(lost)
        while not self._is_over:
            news = self._news
            due = self._after(at)
            if due is None:
                lost, at = self._last - at, self._last
                yield self._snapshot(lost)
            elif due:
                at = due[-1].number
                yield b"".join(message.wire for message in due)
            else:
                try:
                    async with asyncio.timeout(BEAT_SECONDS):
                        await news.wait()
                except TimeoutError:
                    yield b": still here\n\n"

    def _place_of(self, last_id: str | None) -> tuple[int | None, int | None]:
        """The number to go on after; None: too many messages are lost, a snapshot is due.

        How many another server's client lost is not known.
        """
        if not last_id:
            return None, 0
        nonce, _, number = last_id.partition("-")
        if nonce != self.nonce or not number.isascii() or not number.isdigit():
            return None, None
        at = int(number[:18])
        if at > self._last:
            return None, None
        return (at, 0) if self._after(at) is not None else (None, self._last - at)

    def _after(self, at: int) -> list[FeedMessage] | None:
        """What followed that number; None: some of it is not kept any more."""
        behind = self._last - at
        if behind > len(self._ring):
            return None
        start = len(self._ring) - behind
        return [self._ring[place] for place in range(start, min(start + 64, len(self._ring)))]

    def _snapshot(self, lost: int | None) -> bytes:
        times = {"now": time.time()}  # by the clock that the rows' times are of
        document = {"schema": 1, **times, "rows": self.rows(), **self._standing, "lost": lost}
        return sse("snapshot", json_bytes(document), f"{self.nonce}-{self._last}")


def sse(kind: str, data: bytes, number: str | None = None) -> bytes:
    """One server-sent event; JSON has no line breaks."""
    head = b"" if number is None else b"id: %s\n" % number.encode()
    return b"%sevent: %s\ndata: %s\n\n" % (head, kind.encode(), data)


def _trouble(changes: LiveChanges) -> Json | None:
    error: Json | None = None if changes.trouble is None else changes.trouble.to_json()["error"]
    return error


def row_json(row: Row) -> Json:
    """A row of a list. Ages are worked out where it is shown."""
    return {
        "id": row.id,
        "name": row.name,
        "state": row.state.value,
        "outcome": None if row.outcome is None else row.outcome.value,
        "urgency": row.urgency.value,
        "place": row.urgency.place,
        "created": row.created,
        "ended": row.ended,
        "cpu_percent": row.figures.cpu_percent,
        "memory_bytes": row.figures.memory_bytes,
        "output": row.output,
        "tokens": row.tokens,
        "cost_usd": row.cost_usd,
        "note": row.note,
        "agent": row.agent,
        "tags": row.tags,
        "node": row.node,
    }
