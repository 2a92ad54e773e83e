"""The terminal of a `--pty` run: the one case in which output passes through the shim.

Everything that the workload writes is kept raw, with or without viewers; viewers get it as
well, and can neither hold the run up nor end it. The shim keeps the workload's end open too: a
program that closes its files and opens /dev/tty again finds it. The kernel hangs the terminal up
when its shim dies, and the workload gets SIGHUP: docs/decisions/0008.
"""

from __future__ import annotations

import base64
import fcntl
import os
import termios

from holdfast.record import Record
from holdfast.screen import RecentOutput
from holdfast.shim.loop import READ, WRITE
from holdfast.shim.pty.terminal_log import TerminalLog
from holdfast.shim.pty.viewer import LastWords, Viewer, WindowSize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.shim.control import Client
    from holdfast.shim.supervisor import Supervisor

ROWS, COLUMNS = 24, 80
MOST_TYPED_BYTES = 1 << 20
REDRAW_SECONDS = 0.1

_READ_BYTES = 8192  # the kernel hands out up to 4096 at a time
_BATCH_BYTES = 64 * 1024
_LAST_BYTES = 256 * 1024  # more than the kernel can hold of a terminal's output
_TYPE_BYTES = 4096
_BELL = b"\a"


class Ends(Record):
    """Both ends of a terminal: ours and the workload's."""

    ours: int
    workloads: int

    def close(self) -> None:
        """Where no other process has the workload's end open, this hangs the terminal up."""
        os.close(self.ours)
        os.close(self.workloads)


def open_terminal(window: dict[str, Any] | None) -> Ends:
    """A new terminal with that window, or the usual one."""
    ends = Ends(*os.openpty())
    os.set_blocking(ends.ours, False)
    (WindowSize.of(window) or WindowSize(ROWS, COLUMNS)).give(ends.ours)
    return ends


def make_controlling() -> None:
    """In the child: its stdin becomes the controlling terminal of its new session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """The shim's end of the run's terminal, through all attempts."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._ends: Ends | None = None
        self._log = TerminalLog(supervisor)
        self._recent = RecentOutput()
        self._typed = bytearray()
        self._viewers: dict[Client, Viewer] = {}  # the one whose window counts comes last
        self._size = WindowSize.of(supervisor.spec.window) or WindowSize(ROWS, COLUMNS)
        self._last_words = LastWords()

    def use(self, ends: Ends) -> None:
        """Serve a new attempt's terminal; all that the last one wrote is kept first."""
        self._finish_attempt()
        self._ends = ends
        self._size.give(ends.ours)
        self._supervisor.loop.watch(ends.ours, READ, "terminal", self._serve)

    def drain(self) -> None:
        """The run is about to end: keep what the workload wrote last."""
        self._finish_attempt()
        self._log.close()

    def part(self) -> None:
        """The ending is recorded: viewers that are behind are served outside of loop and lock.

        Before the control server closes all connections.
        """
        for viewer in list(self._viewers.values()):
            self._last_words.take(viewer, self._recent)
        self._viewers.clear()

    def say_last_words(self) -> None:
        """Nothing depends on the shim any more."""
        self._last_words.say()

    def write(self, data: bytes) -> str | None:
        """Type on the terminal, or say why not."""
        if self._ends is None:
            return "it has no terminal any more"
        if len(self._typed) + len(data) > MOST_TYPED_BYTES:
            return "the workload does not read its input: more than 1 MiB waits already"
        self._typed += data
        self._supervisor.loop.watch(self._ends.ours, READ | WRITE, "terminal", self._serve)
        return None

    # --- viewers -----------------------------------------------------------------------

    def attach(self, client: Client, request: dict[str, Any]) -> None:
        """From here on the client gets raw output; it sends `input` and `resize` requests."""
        if client in self._viewers:
            return
        if self._ends is None and self._supervisor.journal.facts.attempt.restart is None:
            error = "its terminal went with the shim that died"
            client.answer({"ok": False, "code": "no-terminal", "error": error})
            return
        viewer = self._viewers[client] = Viewer(client, request)
        client.on_close = lambda: self._left(client)
        client.on_caught_up = lambda: viewer.catch_up(self._recent)
        client.answer({"ok": True})
        viewer.show(self._recent.replay())
        if viewer.size is not None and not self._resize(viewer.size):
            self._redraw()

    def input(self, client: Client, request: dict[str, Any]) -> None:
        """Bytes typed by a viewer."""
        viewer = self._viewer(client)
        if viewer is not None and not viewer.read_only:
            try:
                typed = base64.b64decode(request["base64"], validate=True)
            except (KeyError, TypeError, ValueError):  # an answer would be shown as output
                client.close()
                return
            if self.write(typed) is not None:
                viewer.show(_BELL)

    def resize(self, client: Client, request: dict[str, Any]) -> None:
        """The size of the viewer's window. The last one to say it decides."""
        viewer, size = self._viewer(client), WindowSize.of(request)
        if viewer is not None and not viewer.read_only and size is not None:
            viewer.size = size
            self._viewers[client] = self._viewers.pop(client)
            self._resize(size)

    def _viewer(self, client: Client) -> Viewer | None:
        viewer = self._viewers.get(client)
        if viewer is None:
            client.answer({"ok": False, "error": "attach first"})
        return viewer

    def _left(self, client: Client) -> None:
        """The window is now that of the remaining viewer that set it last."""
        self._viewers.pop(client, None)
        sizes = [viewer.size for viewer in self._viewers.values() if viewer.size is not None]
        if sizes:
            self._resize(sizes[-1])

    def _resize(self, size: WindowSize) -> bool:
        """Whether that changed anything."""
        if size == self._size:
            return False
        self._size = size
        self._apply_size()
        return True

    def _apply_size(self) -> None:
        if self._ends is not None:
            self._size.give(self._ends.ours)

    def _redraw(self) -> None:
        """Make a full-screen program draw everything again, as after a change of its window.

        Apart in time: two changes at once are one signal, and the size then is what it was.
        """
        if self._ends is not None and _reads_keys(self._ends.workloads):
            self._size.other().give(self._ends.ours)
            self._supervisor.loop.after("redraw", REDRAW_SECONDS, self._apply_size)

    # --- the terminal ------------------------------------------------------------------

    def _serve(self, events: int) -> None:
        if events & WRITE:
            self._type()
        if events & ~WRITE:
            self._read()

    def _read(self) -> int:
        """Take some of what there is, keep it and show it; how many bytes that was."""
        data = self._take()
        if not data:
            return 0
        self._recent.add(data)
        self._log.add(data)
        for viewer in list(self._viewers.values()):
            viewer.show(data)
        return len(data)

    def _take(self) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while self._ends is not None and size < _BATCH_BYTES:
            try:
                piece = os.read(self._ends.ours, _READ_BYTES)
            except BlockingIOError:
                break
            except OSError:  # hung up by another process
                self._let_go()
                break
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)

    def _type(self) -> None:
        if self._ends is None:
            return
        try:
            written = os.write(self._ends.ours, self._typed[:_TYPE_BYTES])
        except BlockingIOError:
            return
        del self._typed[:written]
        if not self._typed:
            self._supervisor.loop.watch(self._ends.ours, READ, "terminal", self._serve)

    def _finish_attempt(self) -> None:
        """Bounded: what outlives an attempt may write for ever."""
        left = _LAST_BYTES
        while left > 0 and (taken := self._read()):
            left -= taken
        self._let_go()

    def _let_go(self) -> None:
        ends, self._ends = self._ends, None
        self._typed.clear()
        if ends is not None:
            self._supervisor.loop.unwatch(ends.ours)
            ends.close()


def _reads_keys(fd: int) -> bool:
    """Whether a program reads single keys, as those that draw a screen do, and not lines."""
    return not termios.tcgetattr(fd)[3] & termios.ICANON
