"""Calls a run's control socket. Used by a shim for inner runs, and by every client."""

from __future__ import annotations

# The socket module would turn every constant of the system into an enum, in each shim's memory.
import _socket as socket
import os

from holdfast.process import procfs


def dial(directory: str, timeout_seconds: float = 5.0) -> socket.socket | None:
    """A connection to the run's shim; None when nobody listens.

    Goes through the open directory: a socket address holds only 108 bytes of path.
    """
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    connection.settimeout(timeout_seconds)
    try:
        connection.connect(procfs.short_path_to(fd, "control"))
    except OSError:
        connection.close()
        return None
    finally:
        os.close(fd)
    return connection
