"""Attaches to runs as people and programs do: by the command in a terminal, or by the socket."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from typing import Any

from holdfast.manage.operations import run_steps
from holdfast.manage.shim_client import ShimLink, open_link
from tests.support.cli import CommandLine
from tests.support.running import run_of

SECONDS = 30
DETACH = b"\x1c"


class Viewer:
    """A bare client of the control socket: what it is sent is raw."""

    def __init__(self, name: str, **request: object) -> None:
        link = open_link(run_of(name).directory.path)
        assert link is not None
        self.link: ShimLink = link
        self.answer: Any = run_steps(link.ask({"do": "attach", **request}))
        self._seen = bytearray(link.take())

    @property
    def seen(self) -> bytes:
        return bytes(self._seen)

    def ask(self, **request: object) -> None:
        import json

        self.link.send(json.dumps(request).encode() + b"\n")

    def type(self, data: bytes) -> None:
        self.ask(do="input", base64=base64.b64encode(data).decode("ascii"))

    def resize(self, rows: int, columns: int) -> None:
        self.ask(do="resize", rows=rows, columns=columns)

    def read_until(self, text: bytes, timeout: float = SECONDS) -> bytes:
        """All that came so far, once the text is in it."""
        deadline = time.monotonic() + timeout
        found = self._seen.find(text)
        while found < 0:
            searched = max(0, len(self._seen) - len(text))
            if not self._more(deadline):
                raise AssertionError(f"the shim hung up; seen {self.seen[-500:]!r}")
            found = self._seen.find(text, searched)
        return self.seen

    def read_to_end(self, timeout: float = SECONDS) -> bytes:
        """All that comes until the shim hangs up."""
        deadline = time.monotonic() + timeout
        while self._more(deadline):
            continue
        return self.seen

    def _more(self, deadline: float) -> bool:
        left = deadline - time.monotonic()
        if not select.select([self.link.fd], [], [], max(0.0, left))[0]:
            raise AssertionError(f"nothing more comes; seen {self.seen[-500:]!r}")
        is_open = self.link.receive()
        self._seen += self.link.take()
        return is_open

    def close(self) -> None:
        self.link.__exit__()


@contextlib.contextmanager
def viewing(name: str, **request: object) -> Iterator[Viewer]:
    """Attached by the socket."""
    viewer = Viewer(name, **request)
    try:
        yield viewer
    finally:
        viewer.close()


class Screen:
    """A terminal of the test's own, with a command in it."""

    def __init__(self, argv: list[str], rows: int, columns: int, **options: Any) -> None:
        self._ours, self.theirs = os.openpty()
        self.seen = b""
        self.resize(rows, columns, tell=False)
        self.settings = termios.tcgetattr(self.theirs)
        self.process = subprocess.Popen(
            argv,
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            start_new_session=True,
            **options,
        )

    def resize(self, rows: int, columns: int, *, tell: bool = True) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if tell:  # it is not the command's controlling terminal: the kernel tells nobody
            self.process.send_signal(signal.SIGWINCH)

    def type(self, data: bytes) -> None:
        os.write(self._ours, data)

    def read_until(self, text: bytes, timeout: float = SECONDS) -> bytes:
        """All that is on the screen so far, once the text is in it."""
        deadline = time.monotonic() + timeout
        while text not in self.seen:
            left = deadline - time.monotonic()
            if not select.select([self._ours], [], [], max(0.0, left))[0]:
                raise AssertionError(f"no {text!r}; seen {self.seen[-500:]!r}")
            self.seen += os.read(self._ours, 65536)
        return self.seen

    def forget(self) -> None:
        self.seen = b""

    def ends(self, timeout: float = SECONDS) -> int:
        """The command's exit code, once it has ended; all that it wrote is in `seen`."""
        deadline = time.monotonic() + timeout
        pidfd = os.pidfd_open(self.process.pid)
        try:
            while True:
                ready = self._ready(pidfd, deadline)
                if self._ours in ready:
                    self.seen += os.read(self._ours, 65536)
                elif pidfd in ready:
                    return self.process.wait()
                else:
                    raise AssertionError(f"it goes on; seen {self.seen[-500:]!r}")
        finally:
            os.close(pidfd)

    def _ready(self, pidfd: int, deadline: float) -> list[int]:
        left = max(0.0, deadline - time.monotonic())
        return select.select([self._ours, pidfd], [], [], left)[0]

    def is_as_it_was(self) -> bool:
        return bool(termios.tcgetattr(self.theirs) == self.settings)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self.theirs)


@contextlib.contextmanager
def on_screen(
    argv: list[str], rows: int = 30, columns: int = 100, **options: Any
) -> Iterator[Screen]:
    """A command in a terminal of that size."""
    screen = Screen(argv, rows, columns, **options)
    try:
        yield screen
    finally:
        screen.close()


@contextlib.contextmanager
def attached(holdfast: CommandLine, *words: object, **options: Any) -> Iterator[Screen]:
    """`holdfast attach` in a terminal of its own, once it shows that it is attached."""
    with on_screen(holdfast.argv("attach", *words), **options) as screen:
        screen.read_until(b"attached to ")
        yield screen
