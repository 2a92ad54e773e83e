"""Keeps what a terminal shows in output.log, byte for byte, and copes with a disk that is full.

The one log that Holdfast writes for the workload. Bytes that the disk does not take wait in
memory and are tried again; beyond a bound they are lost, which is counted and recorded: the
workload is never held up, and nothing that it did not write is put into the log.
"""

from __future__ import annotations

import os

from holdfast.shim.beginning import LOG_FLAGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.shim.supervisor import Supervisor

MOST_WAITING_BYTES = 4 << 20
RETRY_SECONDS = 0.5


class TerminalLog:
    """The end of output.log."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._fd = -1
        self._waiting = bytearray()
        self._lost_bytes = 0
        self._is_failing = False
        self._write(b"")  # readers that follow the log look for it

    def add(self, data: bytes) -> None:
        """Keep it now, or as soon as the disk takes it."""
        if self._waiting:
            self._wait_with(data)
            return
        written = self._write(data)
        if written < len(data):
            self._wait_with(data[written:])

    def close(self) -> None:
        """Nothing more comes: what can't be kept now is lost."""
        self._flush()
        self._lost_bytes += len(self._waiting)
        self._waiting.clear()
        self._tell_loss()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _wait_with(self, data: bytes) -> None:
        room = MOST_WAITING_BYTES - len(self._waiting)
        self._waiting += data[:room]
        self._lost_bytes += max(0, len(data) - room)
        self._supervisor.loop.after("terminal log", RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        self._flush()
        if self._waiting:
            self._supervisor.loop.after("terminal log", RETRY_SECONDS, self._retry)
        else:
            self._is_failing = False
            self._tell_loss()

    def _flush(self) -> None:
        del self._waiting[: self._write(bytes(self._waiting))]

    def _write(self, data: bytes) -> int:
        """How much of it the disk took."""
        view = memoryview(data)
        try:
            if self._fd < 0:
                self._fd = os.open(self._supervisor.directory.output_path, LOG_FLAGS, 0o600)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            if not self._is_failing:  # once for each time that the disk is full, not for each write
                self._is_failing = True
                self._supervisor.journal.record_fault("output.log", error)
        return len(data) - len(view)

    def _tell_loss(self) -> None:
        if self._lost_bytes:
            lost, self._lost_bytes = self._lost_bytes, 0
            text = f"{lost} bytes of the terminal's output could not be kept"
            self._supervisor.journal.record_fault("output.log", OSError(text))
