"""The run's socket: JSON lines in, JSON lines out. Peers of another user are turned away.

It parses and routes; what a request means is the supervisor's. Nonsense is answered; a client that
does not read, or sends too much at once, loses its connection and nothing else.
"""

from __future__ import annotations

# The socket module would turn every constant of the system into an enum, in each shim's memory.
import _socket as socket
import errno
import os

from holdfast.lean import json_text, read_json
from holdfast.run.control_socket import bind
from holdfast.shim.loop import HANG_UP, READ, WRITE, Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LARGEST_REQUEST = 4 << 20
LARGEST_BACKLOG = 8 << 20
SHORTAGE_SECONDS = 0.5  # between tries while no descriptor is left for another client

_SO_PEERPIDFD = 77

# A waiting client stays in the backlog and keeps the listener readable: poll would spin.
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Peer(dict[str, int]):
    """The client, as the kernel names it (SO_PEERCRED)."""


class Client:
    """One connection."""

    def __init__(self, server: ControlServer, connection: socket.socket, peer: Peer) -> None:
        self.peer = peer
        self.subscribed = False
        self.on_close: Callable[[], None] | None = None
        self._server = server
        self._connection = connection
        self._incoming = b""
        self._outgoing = bytearray()
        self.on_caught_up: Callable[[], None] | None = None  # after it was behind

    @property
    def backlog(self) -> int:
        """How many bytes the client has not taken yet."""
        return len(self._outgoing)

    def peer_pidfd(self) -> int | None:
        """The kernel's pidfd of the process that connected (Linux 6.5); None: it can't be had."""
        try:
            answer = self._connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4)
        except OSError:
            return None
        return memoryview(answer).cast("i")[0]

    def answer(self, document: dict[str, Any]) -> None:
        """Send one JSON line."""
        self.send(json_text(document).encode() + b"\n")

    def send(self, data: bytes) -> None:
        """Send bytes; never blocks. A client that lets too much pile up is dropped."""
        self._outgoing += data
        if len(self._outgoing) > LARGEST_BACKLOG:
            self.close()
        else:
            self._flush()

    def release(self) -> tuple[socket.socket, bytes]:
        """Hand the connection over, and what was not sent on it: it is no longer served here."""
        self._server.forget(self, self._connection, close=False)
        self.on_close = None
        return self._connection, bytes(self._outgoing)

    def close(self) -> None:
        """Hang up."""
        self._server.forget(self, self._connection)
        if self.on_close is not None:
            on_close, self.on_close = self.on_close, None
            on_close()

    def serve(self, events: int) -> None:
        """The loop found something on the connection."""
        if events & WRITE:
            self._flush()
            if not self._outgoing and self.on_caught_up is not None:
                self.on_caught_up()
        if events & READ:
            self._receive()
        elif events & HANG_UP:
            self.close()

    def _receive(self) -> None:
        try:
            data = self._connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._incoming += data
        *lines, self._incoming = self._incoming.split(b"\n")
        for line in lines:
            self._route(line)
        if len(self._incoming) > LARGEST_REQUEST:
            self.answer({"ok": False, "error": "the request is too large"})
            self.close()

    def _route(self, line: bytes) -> None:
        try:
            request = read_json(str(line, "utf-8"))
        except (ValueError, RecursionError):
            request = None
        verb = request.get("do") if type(request) is dict else None
        if type(verb) is not str:
            self.answer({"ok": False, "error": "not a request"})
            return
        self._server.handle(self, verb, request)

    def _flush(self) -> None:
        try:
            while self._outgoing:
                sent = self._connection.send(self._outgoing[:65536])
                del self._outgoing[:sent]
        except BlockingIOError:
            self._server.want_write(self, self._connection)
            return
        except OSError:
            self.close()
            return
        self._server.want_read(self, self._connection)


class ControlServer:
    """The listening socket and its clients."""

    def __init__(
        self, loop: Loop, directory: str, handle: Callable[[Client, str, dict[str, Any]], None]
    ) -> None:
        self.handle = handle
        self._loop = loop
        self._clients: dict[int, Client] = {}
        self._is_short = False  # of descriptors: no client is accepted for a while
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        bind(self._listener, directory)
        self._listener.listen(64)
        self._listen()

    def publish(self, line: bytes) -> None:
        """Send an event's line to every subscriber."""
        for client in list(self._clients.values()):
            if client.subscribed:
                client.send(line)

    def close(self) -> None:
        """Close every connection: clients read the events from the file."""
        self._is_short = False
        self._loop.cancel("control")
        for client in list(self._clients.values()):
            client.close()
        self._loop.unwatch(self._listener.fileno())
        self._listener.close()

    def forget(self, client: Client, connection: socket.socket, *, close: bool = True) -> None:
        fd = connection.fileno()
        if fd >= 0 and self._clients.get(fd) is client:
            del self._clients[fd]
            self._loop.unwatch(fd)
            if close:
                connection.close()
            if self._is_short:
                self._listen()  # there is one more now

    def want_write(self, client: Client, connection: socket.socket) -> None:
        self._loop.watch(connection.fileno(), READ | WRITE, "control", client.serve)

    def want_read(self, client: Client, connection: socket.socket) -> None:
        if connection.fileno() in self._clients:
            self._loop.watch(connection.fileno(), READ, "control", client.serve)

    def _listen(self) -> None:
        self._is_short = False
        self._loop.cancel("control")
        self._loop.watch(self._listener.fileno(), READ, "control", self._accept)

    def _accept(self, _events: int) -> None:
        try:
            fd, _ = self._listener._accept()  # type: ignore[attr-defined]
        except OSError as error:  # else the client has left
            if error.errno in _SHORTAGES:
                self._is_short = True
                self._loop.unwatch(self._listener.fileno())
                self._loop.after("control", SHORTAGE_SECONDS, self._listen)
            return
        connection = socket.socket(fileno=fd)
        connection.setblocking(False)
        peer = _peer_of(connection)
        if peer["uid"] not in (0, os.getuid()):
            connection.close()
            return
        client = Client(self, connection, peer)
        self._clients[connection.fileno()] = client
        self._loop.watch(connection.fileno(), READ, "control", client.serve)


def _peer_of(connection: socket.socket) -> Peer:
    answer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, gid = memoryview(answer).cast("i")
    return Peer(pid=pid, uid=uid, gid=gid)
