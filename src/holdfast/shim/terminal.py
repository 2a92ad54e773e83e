"""The terminal of a `--pty` run: the one case in which output passes through the shim.

Everything that the workload writes is kept raw in output.log, whether anybody watches or not.
Several may be attached; each gets the recent output first. The kernel hangs the terminal up when
its shim dies: that is told in docs/guarantees.md, and the workload gets SIGHUP as on any terminal.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import os
import struct
import termios

from holdfast.shim.loop import READ, WRITE
from holdfast.shim.stdio import LOG_FLAGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.shim.control import Client
    from holdfast.shim.supervisor import Supervisor

ROWS, COLUMNS = 24, 80
REPLAY_BYTES = 64 * 1024
LARGEST_BACKLOG = 1 << 20


def open_terminal() -> tuple[int, int]:
    """The shim's end and the workload's end of a new terminal."""
    master, slave = os.openpty()
    os.set_blocking(master, False)
    _set_size(master, ROWS, COLUMNS)
    return master, slave


def make_controlling() -> None:
    """In the child: its stdin becomes the controlling terminal of its new session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _set_size(fd: int, rows: int, columns: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Terminal:
    """The shim's end of the run's terminal, through all attempts."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._master = -1
        self._log = os.open(supervisor.directory.output_path, LOG_FLAGS, 0o600)
        self._typed = bytearray()
        self._viewers: list[Client] = []
        self._size = (ROWS, COLUMNS)

    def use(self, master: int) -> None:
        """Serve a new attempt's terminal."""
        self._let_go()
        self._master = master
        _set_size(master, *self._size)
        self._supervisor.loop.watch(master, READ, "terminal", self._serve)

    def write(self, data: bytes) -> str | None:
        """Type on the terminal, or say why not."""
        if self._master < 0:
            return "the terminal is closed"
        if len(self._typed) + len(data) > LARGEST_BACKLOG:
            return "the workload does not read its input: more than 1 MiB waits already"
        self._typed += data
        self._supervisor.loop.watch(self._master, READ | WRITE, "terminal", self._serve)
        return None

    def attach(self, client: Client, request: dict[str, Any]) -> None:
        """From here on the client gets raw output; it sends `input` and `resize` requests."""
        client.answer({"ok": True})
        client.on_close = lambda: self._viewers.remove(client)
        self._viewers.append(client)
        client.send(self._recent())
        if not request.get("read_only"):
            self.resize(client, request)

    def input(self, _client: Client, request: dict[str, Any]) -> None:
        """Bytes typed by a viewer."""
        self.write(base64.b64decode(request["base64"]))

    def resize(self, _client: Client, request: dict[str, Any]) -> None:
        """The size of the viewer's window; the workload gets SIGWINCH from the kernel."""
        rows, columns = int(request.get("rows") or 0), int(request.get("columns") or 0)
        if not (0 < rows < 10000 and 0 < columns < 10000):
            return
        self._size = (rows, columns)
        if self._master >= 0:
            _set_size(self._master, rows, columns)

    def drain(self) -> None:
        """Keep what the workload wrote last."""
        while self._master >= 0 and self._read():
            continue
        self._let_go()

    def _recent(self) -> bytes:
        fd = os.open(self._supervisor.directory.output_path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            return os.pread(fd, REPLAY_BYTES, max(0, size - REPLAY_BYTES))
        finally:
            os.close(fd)

    def _serve(self, events: int) -> None:
        if events & WRITE:
            self._type()
        if events & ~WRITE:
            self._read()

    def _read(self) -> bool:
        """One read; False when there is nothing more, now or ever."""
        try:
            data = os.read(self._master, 65536)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:  # EIO: nobody has the other end open any more
                raise
            data = b""
        if not data:
            self._let_go()
            return False
        self._keep(data)
        for viewer in list(self._viewers):
            viewer.send(data)
        return True

    def _keep(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._log, view) :]

    def _type(self) -> None:
        try:
            written = os.write(self._master, self._typed[:4096])
            del self._typed[:written]
        except BlockingIOError:
            return
        if not self._typed:
            self._supervisor.loop.watch(self._master, READ, "terminal", self._serve)

    def _let_go(self) -> None:
        if self._master >= 0:
            self._supervisor.loop.unwatch(self._master)
            os.close(self._master)
            self._master = -1
