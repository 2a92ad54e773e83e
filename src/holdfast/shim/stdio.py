"""The log as it grows, and what is written to the workload's stdin."""

from __future__ import annotations

import os

from holdfast.run.events import Kind
from holdfast.shim.beginning import log_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.run.directory import RunDirectory
    from holdfast.shim.supervisor import Supervisor


class LogSize:
    """How long output.log is. A program that reopens its stderr with `>` cuts it: recorded."""

    def __init__(self, supervisor: Supervisor, start_byte: int) -> None:
        self.bytes = start_byte
        self.on_cut: Callable[[int], None] = lambda _size: None
        self._supervisor = supervisor

    def look(self) -> int:
        """The size now."""
        size = log_size(self._supervisor.directory)
        if size < self.bytes:
            hint = "a program opened the log with `>`; use `>&2`, or run with --pty"
            self._supervisor.journal.record(
                Kind.OUTPUT_TRUNCATED, was=self.bytes, now=size, hint=hint
            )
            self.on_cut(size)
        self.bytes = size
        return size

    def last_look(self) -> None:
        """Before the ending."""
        self.look()


class StdinWriter:
    """Writes to the run's stdin without ever blocking the loop."""

    LARGEST_BACKLOG = 1 << 20

    def __init__(self, directory: RunDirectory) -> None:
        self._path = directory.stdin_path
        self._waiting = bytearray()

    def write(self, data: bytes) -> str | None:
        """Take the bytes, or say why not."""
        if len(self._waiting) + len(data) > self.LARGEST_BACKLOG:
            return "the workload does not read its input: more than 1 MiB waits already"
        self._waiting += data
        return None

    def flush(self) -> bool:
        """Write what fits into the pipe; True when nothing waits any more."""
        if not self._waiting:
            return True
        fd = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while self._waiting:
                written = os.write(fd, self._waiting[:4096])
                del self._waiting[:written]
        except BlockingIOError:
            return False
        finally:
            os.close(fd)
        return True
