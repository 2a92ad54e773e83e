"""A connection to a run's shim: one request, its answer, and then whether the shim still lives.

An open link is the cheapest way to wait for a run: it hangs up when the shim is gone, however
that came about. Then the events are read again.
"""

from __future__ import annotations

from holdfast.lean import json_text, read_json
from holdfast.manage.operations import Wait
from holdfast.process.clock import boottime
from holdfast.run.control_socket import dial

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from typing import Any, Self

    from holdfast.manage.operations import Steps
    from holdfast.run.directory import RunDirectory

ANSWER_SECONDS = 5.0
_PAUSE_SECONDS = 0.02


class ShimLink:
    """One connection to a shim. Use as a context manager."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.setblocking(False)
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @property
    def fd(self) -> int:
        return self._connection.fileno()

    def ask(self, request: dict[str, Any]) -> Steps[dict[str, Any] | None]:
        """The answer; None: there was none in time, or the shim hung up."""
        deadline = boottime() + ANSWER_SECONDS
        if not self.send(json_text(request).encode() + b"\n"):
            return None
        while b"\n" not in self._received:
            ready = yield Wait((self.fd,), deadline - boottime())
            if not ready or not self.receive():
                return None
        line, _, self._received = self._received.partition(b"\n")
        answer: dict[str, Any] = read_json(str(line, "utf-8"))
        return answer

    def send(self, data: bytes) -> bool:
        """Send it all; False when the shim does not take it in time, or is gone."""
        try:
            self._connection.settimeout(ANSWER_SECONDS)
            self._connection.sendall(data)
        except OSError:
            return False
        finally:
            self._connection.setblocking(False)
        return True

    def take(self) -> bytes:
        """What has come and was not taken yet."""
        data, self._received = self._received, b""
        return data

    def take_lines(self) -> list[bytes]:
        """The whole lines among that, without their newline: a subscriber gets one per event."""
        *lines, self._received = self._received.split(b"\n")
        return lines

    def receive(self) -> bool:
        """Take what has come; False when the shim has hung up."""
        try:
            data = self._connection.recv(1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._received += data
        return bool(data)

    def drain(self) -> bool:
        """Take what has come and drop it; False when the shim has hung up."""
        alive = self.receive()
        self._received = b""
        return alive


def open_link(directory: str) -> ShimLink | None:
    """A link to the run's shim; None when nothing listens."""
    connection = dial(directory, ANSWER_SECONDS)
    return None if connection is None else ShimLink(connection)


def reach(directory: RunDirectory) -> Steps[ShimLink | None]:
    """A link to a shim that may not listen yet: it does so a moment after the command runs.

    None: the run's lock is free, or its holder does not listen in time.
    """
    deadline = boottime() + ANSWER_SECONDS
    while True:
        link = open_link(directory.path)
        if link is not None or not directory.lock_is_held() or boottime() >= deadline:
            return link
        yield Wait((), _PAUSE_SECONDS)


def ask_shim_of(directory: RunDirectory, request: dict[str, Any]) -> Steps[dict[str, Any] | None]:
    """One request and its answer; None: there is no shim, or it does not answer in time."""
    link = yield from reach(directory)
    if link is None:
        return None
    with link:
        return (yield from link.ask(request))
