"""Which processes stand at the other end of a connection, so that no run answers itself through us.

A unix socket names its peer. Over TCP on this machine it is whoever holds the other end's socket:
one that waits for our answer does. What is found is true; what is not found (a tunnel of ssh, a
process of another user or namespace) is a person, as far as anybody can tell (decision 92).
"""

from __future__ import annotations

import os
import socket
import struct

from holdfast.errors import HoldfastError
from holdfast.process.ancestry import hold_peer
from holdfast.process.connections import processes_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONNECTION = "connection"  # in the state of a request: its socket
_SO_PEERPIDFD = 77  # Linux 6.5
_CREDENTIALS = struct.Struct("3i")


def tokens_behind(connection: Any) -> list[str]:
    """Of each process that is found; the connection may be None."""
    try:
        if connection is None:
            return []
        if connection.family == socket.AF_UNIX:
            return [_unix_peer(connection)]
        here, there = connection.getsockname(), connection.getpeername()
        return [one.token for one in processes_at(there[:2], here[:2])]
    except (HoldfastError, OSError):  # it has hung up, or is hidden from us
        return []


def _unix_peer(connection: Any) -> str:
    size = _CREDENTIALS.size
    pid, _, _ = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    try:
        peer_fd = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:
        peer_fd = None
    try:
        with hold_peer(pid, peer_fd) as held:
            return held.identity.token
    finally:
        if peer_fd is not None:
            os.close(peer_fd)
