"""A run's output for a browser: from a byte on, as it comes, or its screen.

Nothing of it is kept: each client reads the file at its own pace. One that falls behind, since the
run writes faster or the client reads slower, is put at the end and told how many bytes it skipped.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import aclosing

from holdfast.errors import HoldfastError
from holdfast.manage.reading.output_stream import OutputStream
from holdfast.run.output import OutputReader
from holdfast.web.feed import BEAT_SECONDS, sse
from holdfast.web.responses import json_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Generator
    from typing import Any

    from holdfast.manage.operations import Wait
    from holdfast.manage.reading.disk_threads import DiskThreads
    from holdfast.manage.run import Run
    from holdfast.web.pretty_lines import PrettyLines

    Json = dict[str, Any]

MOST_BEHIND_BYTES = 1 << 20
KEPT_BYTES = 128 << 10  # of what is skipped to
_TICK_SECONDS = 0.05  # a fast writer is read so often, and no more


async def follow(
    apart: DiskThreads, run: Run, at_byte: int, path: str, pretty: PrettyLines | None = None
) -> AsyncIterator[bytes]:
    """`chunk` messages, `skipped` where bytes were left out, and `end` when the run is over."""
    place, is_fresh = at_byte, True
    while True:
        if is_fresh:
            yield sse("begin", json_bytes({"at_byte": place}))
            is_fresh = False
        skipped = None
        async with aclosing(_with_beats(apart.each(_parts(run, place, path)))) as parts:
            async for part in parts:
                if part is None:
                    yield b": still here\n\n"
                    continue
                place, behind = part["at_byte"] + part["length"], part.pop("behind")
                yield sse("chunk", json_bytes(shown(part, pretty)))
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


def _parts(run: Run, at_byte: int, path: str) -> Generator[Wait | Json, set[int], None]:
    """Each piece, and how many bytes there are after it."""
    with OutputStream(run.directory, at_byte, path=path) as stream:
        reader = OutputReader(path)
        try:
            while (chunk := (yield from stream.next_chunk())) is not None:
                yield {
                    "at_byte": chunk.at_byte,
                    "length": len(chunk.data),
                    "skipped_bytes": chunk.skipped_bytes,
                    "was_truncated": chunk.was_truncated,
                    "data": chunk.data,
                    "behind": reader.size - chunk.at_byte - len(chunk.data),
                }
        finally:
            reader.close()


async def _with_beats(parts: AsyncGenerator[Json, None]) -> AsyncGenerator[Json | None, None]:
    """The same; None: nothing came for a while."""
    pending: asyncio.Future[Json] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(anext(parts))
            done, _ = await asyncio.wait({pending}, timeout=BEAT_SECONDS)
            if not done:
                yield None
                continue
            part, pending = pending, None
            try:
                yield part.result()
            except StopAsyncIteration:
                return
    finally:
        if pending is not None:
            pending.cancel()
            try:
                await pending
            except (asyncio.CancelledError, StopAsyncIteration, HoldfastError, OSError):
                pass  # the client is gone: what its next piece would have been is nobody's
        await parts.aclose()


def shown(part: Json, pretty: PrettyLines | None) -> Json:
    """A piece as it is sent: text, or base64 where it is not UTF-8."""
    data: bytes = part.pop("data")
    if pretty is not None:
        return {**part, "text": pretty.feed(data)}
    try:
        return {**part, "text": data.decode()}
    except UnicodeDecodeError:  # not UTF-8, or a character was cut
        return {**part, "base64": base64.b64encode(data).decode("ascii")}
