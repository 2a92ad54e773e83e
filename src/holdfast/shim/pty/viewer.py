"""A viewer that is attached to a run's terminal. A slow viewer misses output; the run never waits.

A viewer that lets too much pile up is sent nothing more until it has taken that; then it is told
how much it missed, and shown the recent output. So the memory for each is bounded.
"""

from __future__ import annotations

import fcntl
import select
import struct
import termios
import time

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from typing import Any

    from holdfast.screen import RecentOutput
    from holdfast.shim.control import Client

LARGEST_SIDE = 9999
MOST_UNSEEN_BYTES = 1 << 20
LAST_WORDS_SECONDS = 5.0

# CAN ends whatever sequence the viewer's terminal is in the middle of.
_MISSED = b"\x18\x1b[0m\r\n[holdfast: %d bytes were left out here; the log has them]\r\n"


class WindowSize(Record):
    """In characters."""

    rows: int
    columns: int

    @classmethod
    def of(cls, document: dict[str, Any] | None) -> WindowSize | None:
        """As a request or a spec says it; None where that is not the size of a window."""
        rows, columns = ((document or {}).get(side) for side in ("rows", "columns"))
        if not isinstance(rows, int) or not isinstance(columns, int):
            return None
        is_window = 0 < rows <= LARGEST_SIDE and 0 < columns <= LARGEST_SIDE
        return cls(rows, columns) if is_window else None

    def give(self, fd: int) -> None:
        """Where it is new, the kernel sends SIGWINCH to the terminal's foreground processes."""
        window = struct.pack("HHHH", self.rows, self.columns, 0, 0)
        fcntl.ioctl(fd, termios.TIOCSWINSZ, window)

    def other(self) -> WindowSize:
        """One that differs a little."""
        return self.replace(rows=self.rows - 1 if self.rows > 1 else 2)


class Viewer:
    """One client that is attached."""

    def __init__(self, client: Client, request: dict[str, Any]) -> None:
        self.client = client
        self.read_only = bool(request.get("read_only"))
        self.size = None if self.read_only else WindowSize.of(request)
        self._missed_bytes = 0

    def show(self, data: bytes) -> None:
        """Send output, unless too much waits already."""
        if self._missed_bytes or self.client.backlog + len(data) > MOST_UNSEEN_BYTES:
            self._missed_bytes += len(data)
        else:
            self.client.send(data)

    def catch_up(self, recent: RecentOutput) -> None:
        """It has taken everything that it was sent."""
        if self._missed_bytes:
            self.client.send(self.rest(recent))

    def rest(self, recent: RecentOutput) -> bytes:
        """What brings it up to date after what it was sent."""
        missed, self._missed_bytes = self._missed_bytes, 0
        return _MISSED % missed + recent.replay_over() if missed else b""


class LastWords:
    """What viewers were not sent when the run ended: the end of the output matters most."""

    def __init__(self) -> None:
        self._unsent: dict[socket.socket, bytes] = {}

    def take(self, viewer: Viewer, recent: RecentOutput) -> None:
        """Take over the connection of a viewer that is behind; others can be hung up on."""
        if viewer.client.backlog:
            rest = viewer.rest(recent)
            connection, waiting = viewer.client.release()
            self._unsent[connection] = waiting + rest

    def say(self) -> None:
        """Send as much as is taken within a few seconds, then hang up."""
        deadline = time.monotonic() + LAST_WORDS_SECONDS
        while self._unsent and (left := deadline - time.monotonic()) > 0:
            for connection in select.select([], list(self._unsent), [], left)[1]:
                self._send_some(connection)

    def _send_some(self, connection: socket.socket) -> None:
        try:
            sent = connection.send(self._unsent[connection][: 1 << 16])
        except OSError:
            sent = len(self._unsent[connection])
        self._unsent[connection] = self._unsent[connection][sent:]
        if not self._unsent[connection]:
            connection.close()
            del self._unsent[connection]
