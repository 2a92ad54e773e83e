"""What changes, for many clients: the live model's rows and the runs' facts in one bounded ring.

The model is driven by a thread of its own, since a disk may hang. Each message has an id,
`<nonce>-<n>`: a client that comes back with one gets what followed, nothing lost and nothing twice;
with one that is not in the ring any more, or is another server's, it gets a new snapshot and how
many messages it lost. A client has a place in the ring and no queue of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections import deque

from holdfast.manage.aio import AsyncRuns
from holdfast.manage.live import LiveRuns
from holdfast.manage.operations import run_steps
from holdfast.manage.reading.events import NOW
from holdfast.record import Record
from holdfast.web.responses import json_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from holdfast.manage.live import LiveChanges
    from holdfast.manage.words.views import Row
    from holdfast.run.home import Home

    Json = dict[str, Any]

MOST_MESSAGES = 4096
MOST_BYTES = 8 << 20
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
        self._standing: Json = {"is_whole": False, "trouble": None, "unstarted": 0}
        self._news = asyncio.Event()
        self._is_over = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Filled while this is open."""
        loop, over = asyncio.get_running_loop(), threading.Event()
        live = LiveRuns(self._home, is_plain=True)

        def drive() -> None:
            with live:
                while not over.is_set():
                    changes = run_steps(live.next_changes())
                    if not over.is_set():
                        loop.call_soon_threadsafe(self._take, changes)

        thread = threading.Thread(target=drive, name="holdfast-live", daemon=True)
        thread.start()
        facts = asyncio.create_task(self._follow_facts())
        try:
            yield
        finally:
            over.set()
            live.wake()
            facts.cancel()
            self._is_over = True
            self._wake()
            await asyncio.to_thread(thread.join, 5.0)

    async def _follow_facts(self) -> None:
        async for event in AsyncRuns(self._home.path).events(since=NOW):
            document = event.to_json()
            del document["cursor"]  # of all runs it is long; the message has an id
            self._add("fact", document)

    def _take(self, changes: LiveChanges) -> None:
        for run_id in changes.gone:
            self._rows.pop(run_id, None)
        rows = [row_json(row) for row in changes.rows]
        self._rows.update((row["id"], row) for row in rows)
        trouble = None if changes.trouble is None else changes.trouble.to_json()["error"]
        standing = {
            "is_whole": changes.is_whole,
            "trouble": trouble,
            "unstarted": changes.unstarted,
        }
        if rows or changes.gone or standing != self._standing:
            self._standing = standing
            self._add("changes", {"rows": rows, "gone": list(changes.gone), **standing})

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

    def _place_of(self, last_id: str | None) -> tuple[int | None, int]:
        """The number to go on after; None: a snapshot is due, after so many that are lost."""
        nonce, _, number = (last_id or "").partition("-")
        if nonce != self.nonce or not number.isascii() or not number.isdigit():
            return None, 0
        at = int(number[:18])
        if at > self._last:
            return None, 0
        return (at, 0) if self._after(at) is not None else (None, self._last - at)

    def _after(self, at: int) -> list[FeedMessage] | None:
        """What followed that number; None: some of it is not kept any more."""
        behind = self._last - at
        if behind > len(self._ring):
            return None
        start = len(self._ring) - behind
        return [self._ring[place] for place in range(start, min(start + 64, len(self._ring)))]

    def _snapshot(self, lost: int) -> bytes:
        document = {"schema": 1, "rows": self.rows(), **self._standing, "lost": lost}
        return sse("snapshot", json_bytes(document), f"{self.nonce}-{self._last}")


def sse(kind: str, data: bytes, number: str | None = None) -> bytes:
    """One server-sent event; JSON has no line breaks."""
    head = b"" if number is None else b"id: %s\n" % number.encode()
    return b"%sevent: %s\ndata: %s\n\n" % (head, kind.encode(), data)


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
    }
