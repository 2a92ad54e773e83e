"""A run's output as it comes, until the run is over. Wakes when something was written.

While a link to the shim is open the run is not over; when it hangs up, the record is read again.
"""

from __future__ import annotations

import time

from holdfast.errors import DamagedRecord, LaterVersion, RunNotFound
from holdfast.manage.operations import Wait, run_steps
from holdfast.manage.reading.inotify import FileWatch
from holdfast.manage.shim_client import ShimLink, open_link
from holdfast.manage.state import view_run
from holdfast.run.facts import State
from holdfast.run.output import Chunk, LineCarrier, OutputReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from holdfast.manage.operations import Steps
    from holdfast.run.directory import RunDirectory

_SOON_SECONDS = 0.05  # the file, or the shim's socket, is not there yet
_LOOK_SECONDS = 0.5  # without a shim, only a look shows when the run is over
_FLOOD_BYTES = 4096  # the kernel shows a large write page by page: each would be a chunk
_FLOOD_SECONDS = 0.001


class OutputStream:
    """One output file of a run, followed. A shared watch is closed by its owner."""

    def __init__(
        self,
        directory: RunDirectory,
        at_byte: int = 0,
        *,
        path: str | None = None,
        watch: FileWatch | None = None,
        most_bytes: int = 1 << 16,
    ) -> None:
        self._directory = directory
        self._path = directory.output_path if path is None else path
        kept = directory.first_kept_byte(self._path)
        self._reader = OutputReader(self._path, at_byte, first_kept=kept)
        self._watch = FileWatch() if watch is None else watch
        self._link: ShimLink | None = None
        self._most_bytes = most_bytes  # of a chunk
        self._last = (0.0, 0)  # when the last chunk was given, and how much it was

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()
        if self._watch.is_shared:
            self._watch.remove(self._path)
        else:
            self._watch.close()
        self._hang_up()

    def next_chunk(self) -> Steps[Chunk | None]:
        """What was written next; None: the run is over and all of it was given."""
        if self._is_flooded():
            yield Wait((), _FLOOD_SECONDS)
        while True:
            # Asked before the read: what was written before the end must be read after it.
            is_watched = self._watch.add(self._path)
            is_over = self._is_over()
            chunk = self._reader.read(self._most_bytes)
            if chunk is not None or is_over:
                self._last = (time.monotonic(), 0 if chunk is None else len(chunk.data))
                return chunk
            yield from self._wait(None if self._link else _LOOK_SECONDS, is_watched)

    def _is_flooded(self) -> bool:
        """A part came a moment ago: more is being written, and costs less when read together."""
        at, size = self._last
        return _FLOOD_BYTES <= size < self._most_bytes and time.monotonic() - at < _FLOOD_SECONDS

    def _wait(self, seconds: float | None, is_watched: bool) -> Steps[None]:
        fds = (self._link.fd,) if self._link is not None else ()
        wait = self._watch.until_change(*fds, seconds=seconds if is_watched else _SOON_SECONDS)
        ready = yield wait
        self._watch.drain()
        if self._link is not None and self._link.fd in ready and not self._link.drain():
            self._hang_up()

    def _is_over(self) -> bool:
        if self._link is not None:
            return False
        self._link = open_link(self._directory.path)
        if self._link is not None:
            return False
        try:
            view = view_run(self._directory, members=False, closely=False)
        except (RunNotFound, LaterVersion, DamagedRecord):  # removed, or not to be read
            return True
        return view.standing.state is State.ENDED

    def _hang_up(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.__exit__()


def chunks(stream: OutputStream) -> Iterator[Chunk]:
    """The stream in the calling thread."""
    with stream:
        while (chunk := run_steps(stream.next_chunk())) is not None:
            yield chunk


def consume(stream: OutputStream, take: Callable[[Chunk], None]) -> Steps[None]:
    """Give every chunk to `take`; an operation to run together with others of its kind."""
    with stream:
        while (chunk := (yield from stream.next_chunk())) is not None:
            take(chunk)
            yield Wait((), 0.0)  # a run that never pauses must not keep the others waiting


class Lines:
    """Cuts chunks into lines without their newline; the last may be unfinished."""

    def __init__(self) -> None:
        self._carrier = LineCarrier()

    def of(self, chunk: Chunk) -> list[bytes]:
        """The lines that this chunk finishes."""
        if chunk.was_truncated:
            self._carrier = LineCarrier()
        return [line for _at_byte, line in self._carrier.feed(chunk.data)]

    def rest(self) -> list[bytes]:
        """The unfinished line, if there is one."""
        return [self._carrier.rest[1]] if self._carrier.rest[1] else []
