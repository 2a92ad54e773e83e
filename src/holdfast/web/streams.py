"""Answers that go on: bounded in number, and over when their client is."""

from __future__ import annotations

import contextlib
from collections import Counter

from starlette.responses import StreamingResponse

from holdfast.errors import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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
        return StreamingResponse(
            self._counted(about, parts),
            media_type="text/event-stream",
            headers={"x-accel-buffering": "no"},
        )

    async def _counted(self, about: str, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self._open[about] += 1
        try:
            async with contextlib.aclosing(parts) as each:  # type: ignore[type-var]
                async for part in each:
                    yield part
        finally:
            self._open[about] -= 1
            if not self._open[about]:
                del self._open[about]
