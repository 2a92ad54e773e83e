"""The output of a run on another machine, for a browser: the messages of a run here.

A thread follows it, and waits while the client does: the node keeps what is not read yet.
"""

from __future__ import annotations

import asyncio
import contextlib

from holdfast.manage.operations import run_steps
from holdfast.manage.runs import Runs
from holdfast.web.feed import BEAT_SECONDS, sse
from holdfast.web.following import shown
from holdfast.web.responses import json_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from holdfast.fleet.remote import RemoteRun
    from holdfast.run.output import Chunk
    from holdfast.web.elsewhere import ServedElsewhere
    from holdfast.web.pretty_lines import PrettyLines


def read_elsewhere(run: RemoteRun, since: int | None, tail: int, limit: int) -> tuple[int, bytes]:
    """So many bytes at most, and from which one on: from a byte, or the last lines."""
    from holdfast.fleet.remote_page import tail_begin_steps, text_steps

    at_byte: int = run_steps(tail_begin_steps(run, tail)) if since is None else since
    words = ("logs", "--raw", run.id, "--since-byte", str(at_byte))
    data: bytes = run_steps(text_steps(run, *words))
    return at_byte, data[:limit]


async def follow_elsewhere(
    placed: ServedElsewhere, run_id: str, since: int | None, tail: int, pretty: PrettyLines | None
) -> AsyncIterator[bytes]:
    """`begin`, `chunk` messages, `notice` where the link is cut, and `end`."""
    loop, news, notices = asyncio.get_running_loop(), asyncio.Event(), list[str]()

    def tell() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(news.set)

    def note(text: str) -> None:
        notices.append(text)
        tell()

    from holdfast.fleet.library import placed_run
    from holdfast.fleet.live.following import OutputFollower

    runs = Runs(placed.home, notice=note)
    run = await placed.apart.do(placed_run, runs, run_id)
    follower = OutputFollower(run, tell, at_byte=since, tail=tail)
    is_begun, place = False, 0
    try:
        while True:
            is_over, error = follower.is_over, follower.error
            if not is_begun and follower.at_byte is not None:
                is_begun, place = True, follower.at_byte
                yield sse("begin", json_bytes({"at_byte": place}))
            for chunk in follower.take():
                place = chunk.at_byte + len(chunk.data)
                yield sse("chunk", json_bytes(shown(_part(chunk), pretty)))
            while notices:
                yield sse("notice", json_bytes({"text": notices.pop(0)}))
            if error is not None:
                yield sse("notice", json_bytes({"text": error.message}))
            if is_over:
                break
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    await news.wait()
                news.clear()
            except TimeoutError:
                yield b": still here\n\n"
    finally:
        follower.close()
    yield sse("end", json_bytes({"at_byte": place}))


def _part(chunk: Chunk) -> dict[str, Any]:
    return {
        "at_byte": chunk.at_byte,
        "length": len(chunk.data),
        "skipped_bytes": chunk.skipped_bytes,
        "was_truncated": chunk.was_truncated,
        "data": chunk.data,
    }
