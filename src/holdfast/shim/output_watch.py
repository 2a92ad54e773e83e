"""Wakes when the workload writes output, and reads it only where somebody wants lines.

A chatty workload must not keep the shim busy: after each wake the watch rests for a moment.
"""

from __future__ import annotations

import os

from holdfast.process import libc
from holdfast.process.clock import boottime
from holdfast.run.events import Kind
from holdfast.run.output import LineCarrier, trim_head
from holdfast.shim.loop import READ
from holdfast.shim.stdio import log_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.shim.supervisor import Supervisor

REST_SECONDS = 0.1
MOST_BYTES_A_WAKE = 1 << 20


class OutputWatch:
    """One run's output.log, from where this run (or adopter) began to watch it."""

    def __init__(self, supervisor: Supervisor, start_byte: int) -> None:
        self.last_output = boottime()
        self.on_lines: list[Callable[[list[tuple[int, bytes]]], None]] = []
        self.on_output: list[Callable[[], None]] = []
        self._supervisor = supervisor
        self._path = supervisor.directory.output_path
        self._position = start_byte
        self._carrier = LineCarrier(start_byte)
        self._size = start_byte
        self._watch_fd = -1

    def begin(self) -> None:
        """Watch from now on, if anybody wants to know."""
        self.last_output = boottime()
        wanted = self.on_lines or self.on_output or self._supervisor.spec.wanted.log_max_bytes
        if wanted and self._watch_fd < 0:
            self._watch_fd = libc.watch_modifications(self._path)
            self._look()

    def drain(self) -> None:
        """Read all that is there: the last line may have come with the exit."""
        self.check_size()
        while self.on_lines and self._read():
            continue

    def check_size(self) -> int:
        """How long the log is. A program that reopens its stderr with `>` cuts it: recorded."""
        size = log_size(self._supervisor.directory)
        if size < self._size:
            hint = "a program opened the log with `>`; use `>&2`, or run with --pty"
            self._supervisor.journal.record(
                Kind.OUTPUT_TRUNCATED, was=self._size, now=size, hint=hint
            )
            self._position = min(self._position, size)
            self._carrier = LineCarrier(self._position)
        self._size = size
        return size

    def _modified(self, _events: int) -> None:
        os.read(self._watch_fd, 65536)
        self._supervisor.loop.unwatch(self._watch_fd)
        self.last_output = boottime()
        self._look()

    def _look(self) -> None:
        """Read what is new, then rest: whatever comes meanwhile is seen after the rest."""
        self.check_size()
        more = bool(self.on_lines) and self._read()
        for note in self.on_output:
            note()
        self._trim()
        loop = self._supervisor.loop
        loop.after("output", 0.0 if more else REST_SECONDS, self._listen)

    def _listen(self) -> None:
        # Writes during the rest are waiting in the inotify queue and wake us at once.
        self._supervisor.loop.watch(self._watch_fd, READ, "output", self._modified)
        if self.on_lines and self._position < self._size:
            self._look()

    def _read(self) -> bool:
        """One bounded read; True when there is more."""
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(fd, MOST_BYTES_A_WAKE, self._position)
        finally:
            os.close(fd)
        self._position += len(data)
        lines = self._carrier.feed(data)
        if lines:
            for take in self.on_lines:
                take(lines)
        return len(data) == MOST_BYTES_A_WAKE

    def _trim(self) -> None:
        limit = self._supervisor.spec.wanted.log_max_bytes
        if limit is None or self._size <= limit:
            return
        fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            first_byte = trim_head(fd, limit)
        finally:
            os.close(fd)
        known = self._supervisor.journal.facts.output_first_byte
        if first_byte > known + limit // 4:  # not an event for every block
            self._supervisor.journal.record(Kind.OUTPUT_TRIMMED, first_byte=first_byte)
