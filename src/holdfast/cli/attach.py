"""`holdfast attach RUN`: the terminal of a --pty run, until the detach keys or the run's end.

The run does not need us: whatever happens here, it goes on.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import sys

from holdfast.cli import streams
from holdfast.errors import InvalidOption, Refused, Unavailable, WrongUse
from holdfast.manage.link import Link, open_link
from holdfast.manage.runs import Run, Runs
from holdfast.manage.steps import run_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from holdfast.cli.parser import Parser

JSON = False
DETACH = "ctrl-\\"
_RESET = b"\x1b[?1049l\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[0m"


def add_arguments(parser: Parser) -> None:
    """RUN and how to leave it."""
    parser.add_argument("run", metavar="RUN", help="a run that was started with --pty")
    parser.add_argument("--read-only", action="store_true", help="watch; type nothing")
    parser.add_argument(
        "--detach-keys",
        metavar="K",
        default=DETACH,
        help="keys that leave the run alone again, such as ctrl-p,ctrl-q (default: ctrl-\\)",
    )


def run(args: Namespace) -> int:
    """Attach until detached, or the run has ended."""
    keys = parse_keys(args.detach_keys)
    attached = Runs().get(args.run)
    if not args.read_only and not os.isatty(0):
        raise WrongUse(
            "attach needs a terminal on stdin", hint="--read-only watches without typing"
        )
    with _connect(attached, args.read_only) as link:
        session = Session(link, keys, args.read_only)
        ended = session.run()
    if ended:
        info = attached.wait(timeout=5)
        streams.complain(f"\r\n{info.name} {info.state}: {info.outcome or ''}")
    else:
        streams.complain(f"\r\ndetached from {args.run}; it goes on")
    return 0


def parse_keys(text: str) -> bytes:
    """`ctrl-p,ctrl-q`, `ctrl-\\` or plain characters, as the bytes a terminal sends."""
    keys = bytearray()
    for word in text.split(","):
        name = word.strip().lower()
        if name.startswith("ctrl-") and len(name) == 6 and "@" <= name[5].upper() <= "_":
            keys.append(ord(name[5].upper()) & 0x1F)
        elif len(word) == 1 and word.isascii():
            keys += word.encode()
        else:
            raise InvalidOption(
                f"--detach-keys: {word!r} is not a key",
                hint="a character, or ctrl- and a letter or one of @ [ \\ ] ^ _; commas between",
            )
    return bytes(keys)


def _connect(attached: Run, read_only: bool) -> Link:
    info = attached.info()
    if not info.pty:
        raise Refused(f"{info.name} has no terminal", hint="start it with --pty")
    if not info.is_active:
        raise Refused(
            f"{info.name} has ended ({info.outcome})", hint=f"holdfast logs {info.name}"
        )
    link = open_link(attached.directory.path)
    if link is None:
        raise Unavailable(
            f"{info.name} has no shim to attach to: {info.evidence}", hint="holdfast recover"
        )
    rows, columns = _window()
    request = {"do": "attach", "read_only": read_only, "rows": rows, "columns": columns}
    answer = run_steps(link.ask(request))
    if not answer or not answer.get("ok"):
        link.__exit__()
        raise Unavailable(
            f"{info.name} can't be attached to: {(answer or {}).get('error', 'no answer')}",
            hint="an adopted run has no terminal any more; holdfast logs -f follows it",
        )
    return link


def _window() -> tuple[int, int]:
    try:
        size = os.get_terminal_size(1)
    except OSError:
        return 0, 0
    return size.lines, size.columns


class Session:
    """One attachment: our terminal in raw mode, and the run's on the other side."""

    def __init__(self, link: Link, keys: bytes, read_only: bool) -> None:
        self._link = link
        self._keys = keys
        self._read_only = read_only
        self._held = b""  # the beginning of the detach keys

    def run(self) -> bool:
        """True when the run ended, False when we left."""
        restore = self._raw_mode()
        wakeup = self._note_resizes()
        try:
            self._show(self._link.take())
            return self._serve(wakeup)
        finally:
            restore()
            streams.say_bytes([_RESET])

    def _raw_mode(self) -> _Restore:
        if not os.isatty(0):
            return _Restore(None)
        import termios
        import tty

        restore = _Restore(termios.tcgetattr(0))
        tty.setraw(0)
        return restore

    def _note_resizes(self) -> int:
        read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGWINCH, lambda *_: None)
        return read_end

    def _serve(self, wakeup: int) -> bool:
        poll = select.poll()
        poll.register(self._link.fd, select.POLLIN)
        poll.register(wakeup, select.POLLIN)
        poll.register(0, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self._link.fd:
                    alive = self._link.receive()
                    self._show(self._link.take())
                    if not alive:
                        return True
                elif fd == wakeup:
                    os.read(wakeup, 4096)
                    self._send_size()
                elif not self._type(os.read(0, 4096), poll):
                    return False

    def _show(self, data: bytes) -> None:
        if data:
            streams.say_bytes([data])

    def _send_size(self) -> None:
        rows, columns = _window()
        if not self._read_only:
            self._send({"do": "resize", "rows": rows, "columns": columns})

    def _type(self, data: bytes, poll: select.poll) -> bool:
        """Pass keys on; False when the detach keys were typed."""
        if not data:  # stdin ended: go on watching
            poll.unregister(0)
            return True
        typed, detach = self._look_for_keys(data)
        if typed and not self._read_only:
            self._send({"do": "input", "base64": base64.b64encode(typed).decode("ascii")})
        return not detach

    def _look_for_keys(self, data: bytes) -> tuple[bytes, bool]:
        """What to pass on; keys that may become the detach sequence are held back."""
        passed = bytearray()
        for byte in data:
            self._held += bytes([byte])
            if self._held == self._keys:
                return bytes(passed), True
            while self._held and not self._keys.startswith(self._held):
                passed.append(self._held[0])
                self._held = self._held[1:]
        return bytes(passed), False

    def _send(self, request: dict[str, object]) -> None:
        self._link.send(json.dumps(request).encode() + b"\n")


class _Restore:
    """Gives our terminal its old settings back."""

    def __init__(self, settings: list[Any] | None) -> None:
        self._settings = settings

    def __call__(self) -> None:
        if self._settings is not None:
            import termios

            termios.tcsetattr(sys.stdin.fileno(), termios.TCSAFLUSH, self._settings)
