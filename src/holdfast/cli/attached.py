"""One attachment: our terminal in raw mode, and the run's terminal on the other side.

However it ends (keys, the run's end, a signal, a fault), our terminal gets its settings back and
leaves the modes that the run's programs set. The run is not affected.
"""

from __future__ import annotations

import base64
import enum
import json
import os
import select
import signal

from holdfast.cli.arguments.detach_keys import DetachKeys
from holdfast.cli.text import streams
from holdfast.manage.starting.request import window
from holdfast.screen import ScreenModes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from holdfast.manage.shim_client import ShimLink

_LEAVING = (signal.SIGTERM, signal.SIGHUP)
_NOTED = (*_LEAVING, signal.SIGWINCH, signal.SIGCONT)
_CTRL_C = b"\x03"
_PLAIN = b"\x1b[0m"


class Parting(enum.Enum):
    """Why an attachment is over."""

    DETACHED = enum.auto()  # by our own keys
    HUNG_UP = enum.auto()  # by the run's shim
    SIGNALLED = enum.auto()  # a signal, or our terminal is gone


class Session:
    """Copies output and input until one side closes. `signal_number`: the signal that ended it."""

    def __init__(self, link: ShimLink, keys: bytes, *, read_only: bool) -> None:
        self.signal_number: int | None = None
        self._link = link
        self._keys = DetachKeys(keys)
        self._read_only = read_only
        self._modes = ScreenModes()
        self._is_line_begun = False
        self._types = os.isatty(0)
        self._shows = os.isatty(1)

    def run(self) -> Parting:
        """Run until detached; restores our terminal."""
        wakeup = _note_signals()
        settings = self._enter_raw_mode()
        try:
            self._show(self._link.take())
            return self._serve(wakeup)
        except _TerminalGone:
            return Parting.SIGNALLED
        finally:
            self._leave_raw_mode(settings)

    def _serve(self, wakeup: int) -> Parting:
        poll = select.poll()
        poll.register(self._link.fd, select.POLLIN)
        poll.register(wakeup, select.POLLIN)
        if self._types:
            poll.register(0, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self._link.fd:
                    parting = self._receive()
                elif fd == wakeup:
                    parting = self._heed(os.read(wakeup, 4096))
                else:
                    parting = self._type()
                if parting is not None:
                    return parting

    def _receive(self) -> Parting | None:
        is_open = self._link.receive()
        self._show(self._link.take())
        return None if is_open else Parting.HUNG_UP

    def _show(self, data: bytes) -> None:
        if data:
            self._modes.feed(data)
            self._is_line_begun = not data.endswith(b"\n")
            streams.say_bytes([data])

    def _heed(self, numbers: bytes) -> Parting | None:
        for number in numbers:
            if number in _LEAVING:
                self.signal_number = number
                return Parting.SIGNALLED
            if number == signal.SIGCONT:  # a shell has had the terminal meanwhile
                self._enter_raw_mode()
        self._send_size()
        return None

    def _send_size(self) -> None:
        if not self._read_only:
            self._send({"do": "resize", **window()})

    def _type(self) -> Parting | None:
        try:
            typed = os.read(0, 4096)
        except OSError:
            typed = b""
        if not typed:
            return Parting.SIGNALLED
        passed, detach = self._keys.look(typed)
        if passed and not self._read_only:
            self._send({"do": "input", "base64": base64.b64encode(passed).decode("ascii")})
        if detach or (self._read_only and _CTRL_C in passed):
            return Parting.DETACHED
        return None

    def _send(self, request: dict[str, object]) -> None:
        # Whether the run is gone is found when it is read from.
        self._link.send(json.dumps(request).encode() + b"\n")

    def _enter_raw_mode(self) -> list[Any] | None:
        if not self._types:
            return None
        import termios
        import tty

        try:
            settings: list[Any] = termios.tcgetattr(0)
            tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead is for the run
        except termios.error:
            raise _TerminalGone from None
        return settings

    def _leave_raw_mode(self, settings: list[Any] | None) -> None:
        """First the modes, then the settings: the flush drops reports of keys and of the mouse."""
        if self._shows:
            try:
                os.write(1, self._modes.undo() + _PLAIN + b"\r\n" * self._is_line_begun)
            except OSError:  # our terminal is gone
                return
        if settings is not None:
            import termios

            try:
                termios.tcsetattr(0, termios.TCSAFLUSH, settings)
            except termios.error:
                return


class _TerminalGone(Exception):
    """Of our own terminal, not the run's."""


def _note_signals() -> int:
    """A descriptor that delivers the numbers of the signals we handle."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in _NOTED:
        signal.signal(number, _noted)
    # In raw mode ctrl-z is the workload's; a stop of ours would leave the terminal raw.
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    return read_end


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Python writes the number to the wake-up pipe; the loop does the rest."""
