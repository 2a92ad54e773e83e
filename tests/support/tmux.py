"""A real terminal: tmux, with one window that is typed into and looked at."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import tempfile
import uuid
from collections.abc import Iterator

from tests.support.cli import CommandLine
from tests.support.waiting import eventually

SECONDS = 30
PROMPT = "ready>"


class Tmux:
    """One tmux server of the test's own, with a shell in its window."""

    def __init__(self, columns: int, rows: int) -> None:
        self._server = f"holdfast-{uuid.uuid4().hex[:12]}"
        self._tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "bash --norc")
        self._tmux("set-option", "-g", "escape-time", "0")
        self._output = tempfile.NamedTemporaryFile()  # all that the window gets, as it comes
        self._tmux("pipe-pane", f"cat >{self._output.name}")
        self.type(f"PS1='{PROMPT} '; clear", enter=True)
        self.wait_for(PROMPT)

    def _tmux(self, *words: str) -> str:
        argv = ["tmux", "-L", self._server, "-f", os.devnull, *words]
        done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=SECONDS)
        return done.stdout

    def type(self, text: str, *, enter: bool = False) -> None:
        if text:
            self._tmux("send-keys", "-l", text)
        if enter:
            self._tmux("send-keys", "Enter")

    def press(self, *keys: str) -> None:
        r"""Keys by tmux's names: `C-c`, `C-\`."""
        self._tmux("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self) -> str:
        """What is to be seen now."""
        return self._tmux("capture-pane", "-p")

    def coloured_screen(self) -> str:
        """The same with its escape sequences."""
        return self._tmux("capture-pane", "-p", "-e")

    def flag(self, name: str) -> str:
        """A format variable such as `alternate_on` or `cursor_flag`."""
        return self._tmux("display-message", "-p", f"#{{{name}}}").strip()

    def wait_for(self, text: str, timeout: float = SECONDS) -> str:
        """The screen, once the text is on it."""

        def look() -> str | None:
            shown = self.screen()
            return shown if text in shown else None

        try:
            return eventually(look, timeout, watching=lambda: [self._output.name])
        except AssertionError:
            raise AssertionError(f"no {text!r} on the screen:\n{self.screen()}") from None

    def wait_until_gone(self, text: str) -> None:
        """Until the text is on the screen no more."""
        look = lambda: text not in self.screen()  # noqa: E731
        eventually(look, SECONDS, f"{text} is gone", watching=lambda: [self._output.name])

    def run(self, holdfast: CommandLine, *words: object) -> None:
        """Type a command line of ours on an empty screen."""
        self.type("clear", enter=True)
        self.type(shlex.join(holdfast.argv(*words)) + "; echo code=$?", enter=True)

    def close(self) -> None:
        self._tmux("kill-server")
        self._output.close()


@contextlib.contextmanager
def tmux(columns: int = 100, rows: int = 30) -> Iterator[Tmux]:
    """A terminal of that size, gone when the block ends."""
    terminal = Tmux(columns, rows)
    try:
        yield terminal
    finally:
        terminal.close()
