"""The output of a run elsewhere for a screen or a server: followed by a thread of its own."""

from __future__ import annotations

import os
import queue
import threading

from holdfast.errors import HoldfastError
from holdfast.fleet.remote_output import RemoteOutput
from holdfast.fleet.remote_page import tail_begin_steps
from holdfast.manage.operations import Wait, run_steps
from holdfast.manage.together import together

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from holdfast.fleet.remote import RemoteRun
    from holdfast.manage.operations import Steps
    from holdfast.run.output import Chunk

_MOST_CHUNKS = 64  # not taken yet: then the node waits
_LOOK_SECONDS = 0.5


class OutputFollower:
    """`tell` is called in its thread whenever there is something to take."""

    def __init__(
        self,
        run: RemoteRun,
        tell: Callable[[], None],
        *,
        at_byte: int | None = None,
        tail: int = 0,
    ) -> None:
        """From a byte on, or the last lines."""
        self.error: HoldfastError | None = None
        self.is_over = False  # the run has ended, and all of it is there to be taken
        self.at_byte = at_byte  # where it begins, once that is known
        self._run = run
        self._tail = tail
        self._tell = tell
        self._chunks: queue.Queue[Chunk] = queue.Queue(_MOST_CHUNKS)
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._is_closed = threading.Event()
        threading.Thread(target=self._drive, name="holdfast-output", daemon=True).start()

    def take(self) -> list[Chunk]:
        """What came since the last time."""
        found = []
        try:
            while True:
                found.append(self._chunks.get_nowait())
        except queue.Empty:
            return found

    def close(self) -> None:
        """Nobody wants more."""
        if not self._is_closed.is_set():
            self._is_closed.set()
            os.write(self._wake_write, b"x")

    def _drive(self) -> None:
        stream: RemoteOutput | None = None
        try:
            if self.at_byte is None:
                self.at_byte = self._do(tail_begin_steps(self._run, self._tail)) or 0
            stream = RemoteOutput(self._run, self.at_byte)
            while not self._is_closed.is_set():
                chunk = self._do(stream.next_chunk())
                if chunk is None:
                    break
                self._give(chunk)
        except HoldfastError as error:
            self.error = error
        finally:
            if stream is not None:
                stream.close()
            self._run._fleet.close()
            self.is_over = True
            self._tell()
            self._is_closed.wait()
            for fd in (self._wake_read, self._wake_write):
                os.close(fd)

    def _do(self, steps: Generator[Wait, set[int], Any]) -> Any:
        """The result; None when it was closed meanwhile."""
        done, _ = run_steps(together([_boxed(steps), self._closed()], until=lambda _: True))
        if isinstance(done, HoldfastError):
            raise done
        return None if done is None else done[0]

    def _closed(self) -> Steps[bool]:
        yield Wait((self._wake_read,))
        return True

    def _give(self, chunk: Chunk) -> None:
        while not self._is_closed.is_set():
            try:
                self._chunks.put(chunk, timeout=_LOOK_SECONDS)
            except queue.Full:  # its reader is slow: it may have closed us meanwhile
                continue
            self._tell()
            return


def _boxed(steps: Generator[Wait, set[int], Any]) -> Steps[tuple[Any]]:
    """A result that can be told from none."""
    return ((yield from steps),)
