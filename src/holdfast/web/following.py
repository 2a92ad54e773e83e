"""A run's output for a browser: from a byte on, as it comes, or its screen.

Nothing of it is kept: each client reads the file at its own pace. One that falls behind, since the
run writes faster or the client reads slower, is put at the end and told how many bytes it skipped.
"""

from __future__ import annotations

import asyncio
import base64

from holdfast.errors import HoldfastError
from holdfast.manage.aio import run_steps_async
from holdfast.manage.reading.output_stream import OutputStream
from holdfast.run.output import OutputReader
from holdfast.web.feed import BEAT_SECONDS, sse
from holdfast.web.responses import json_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from holdfast.manage.run import Run
    from holdfast.web.pretty_lines import PrettyLines

MOST_BEHIND_BYTES = 1 << 20
KEPT_BYTES = 128 << 10  # of what is skipped to
_TICK_SECONDS = 0.05  # a fast writer is read so often, and no more


async def follow(
    run: Run, at_byte: int, path: str, pretty: PrettyLines | None = None
) -> AsyncIterator[bytes]:
    """`chunk` messages, `skipped` where bytes were left out, and `end` when the run is over."""
    place, is_fresh = at_byte, True
    while True:
        with OutputStream(run.directory, place, path=path) as stream:
            if is_fresh:
                yield sse("begin", json_bytes({"at_byte": place}))
                is_fresh = False
            skipped = None
            async for part, behind in _parts(stream, path):
                if part is None:
                    yield b": still here\n\n"
                    continue
                place = part["at_byte"] + part["length"]
                yield sse("chunk", json_bytes(_shown(part, pretty)))
                if behind > MOST_BEHIND_BYTES:
                    skipped = behind - KEPT_BYTES
                    break
                await asyncio.sleep(_TICK_SECONDS if behind else 0)
        if skipped is None:
            break
        if pretty is not None:
            pretty.restart()
        told = {"at_byte": place, "skipped_bytes": skipped}
        place += skipped
        yield sse("skipped", json_bytes(told))
    yield sse("end", json_bytes({"at_byte": place}))


async def _parts(
    stream: OutputStream, path: str
) -> AsyncIterator[tuple[dict[str, Any] | None, int]]:
    """Each piece, and how many bytes there are after it; None: nothing came for a while."""
    pending: asyncio.Task[Any] | None = None
    reader = OutputReader(path)
    try:
        while True:
            pending = pending or asyncio.create_task(run_steps_async(stream.next_chunk()))
            done, _ = await asyncio.wait({pending}, timeout=BEAT_SECONDS)
            if not done:
                yield None, 0
                continue
            chunk, pending = pending.result(), None
            if chunk is None:
                return
            part = {
                "at_byte": chunk.at_byte,
                "length": len(chunk.data),
                "skipped_bytes": chunk.skipped_bytes,
                "was_truncated": chunk.was_truncated,
                "data": chunk.data,
            }
            yield part, reader.size - chunk.at_byte - len(chunk.data)
    finally:
        reader.close()
        if pending is not None:
            pending.cancel()
            try:
                await pending
            except (asyncio.CancelledError, HoldfastError, OSError):
                pass  # the client is gone: what its next piece would have been is nobody's


def _shown(part: dict[str, Any], pretty: PrettyLines | None) -> dict[str, Any]:
    data: bytes = part.pop("data")
    if pretty is not None:
        return {**part, "text": pretty.feed(data)}
    try:
        return {**part, "text": data.decode()}
    except UnicodeDecodeError:  # not UTF-8, or a character was cut
        return {**part, "base64": base64.b64encode(data).decode("ascii")}
