"""Answers that go on: bounded in number, and over when their client is."""

from __future__ import annotations

import contextlib
from collections import Counter

from starlette.responses import StreamingResponse

from holdfast.errors import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractContextManager

    from starlette.types import Receive, Scope, Send

    from holdfast.web.settings import ServeSettings


class OpenStreams:
    """Counts them, by what they are about."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._open: Counter[str] = Counter()

    def answer(self, about: str, most: int, parts: AsyncIterator[bytes]) -> StreamingResponse:
        """A stream of server-sent events; Unavailable when there are too many."""
        if self._open.total() >= self._settings.most_streams or self._open[about] >= most:
            raise Unavailable("too many clients follow this", hint="close some pages")
        return _CountedStream(lambda: self._counted(about), parts)

    @contextlib.contextmanager
    def _counted(self, about: str) -> Iterator[None]:
        self._open[about] += 1
        try:
            yield
        finally:
            self._open[about] -= 1
            if not self._open[about]:
                del self._open[about]


class _CountedStream(StreamingResponse):
    """Counts from the moment in which it was allowed: many requests may come in at once."""

    def __init__(
        self, counted: Callable[[], AbstractContextManager[None]], parts: AsyncIterator[bytes]
    ) -> None:
        super().__init__(parts, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":  # its answer ends with the head
            head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(head)
            await send({"type": "http.response.body", "body": b""})
            return
        with self._counted():
            async with contextlib.aclosing(self.body_iterator):  # type: ignore[type-var]
                await super().__call__(scope, receive, send)
