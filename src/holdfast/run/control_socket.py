"""The address of a run's control socket: a shim listens there; clients, and outer shims, call it.

Goes through the open directory: a socket address holds only 108 bytes of path.
"""

from __future__ import annotations

# The socket module would turn every constant of the system into an enum, in each shim's memory.
import _socket as socket
import os

from holdfast.lean import json_text
from holdfast.process import procfs


def dial(directory: str, timeout_seconds: float = 5.0) -> socket.socket | None:
    """A connection to the run's shim; None when nothing listens."""
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


def tell(directory: str, verb: str) -> bool:
    """Send one request to the run's shim, and do not wait for anything. Whether it listens."""
    connection = dial(directory, 0)
    if connection is None:
        return False
    try:
        connection.send(json_text({"do": verb}).encode() + b"\n")
    except OSError:  # it has ended since
        return False
    finally:
        connection.close()
    return True


def bind(listener: socket.socket, directory: str) -> None:
    """For the holder of the run's lock: a socket that is there already is a dead shim's."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            os.unlink("control", dir_fd=fd)
        except FileNotFoundError:
            pass
        mask = os.umask(0o177)
        try:
            listener.bind(procfs.short_path_to(fd, "control"))
        finally:
            os.umask(mask)
    finally:
        os.close(fd)
