"""Holds a shim's loop at a callback of its choice, for as long as a test wants."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.waiting import eventually

SHIM = Path(__file__).parents[2] / "src/holdfast/shim"
_NAMED = re.compile(
    r"loop\.(?:watch_exit|watch|after_awake|after|at)\("
    r'(?:\s*[\w.]+,)?(?:\s*READ[ |WRITE]*,)?\s*f?"([a-z ]+?) ?["{]'
)


def callback_names() -> set[str]:
    """What the callbacks of the loop are called, wherever the shim has any."""
    found = {name for path in SHIM.glob("*.py") for name in _NAMED.findall(path.read_text())}
    return found | {"timer", "signals"}  # the loop's own


class Hold:
    """One hold: `env` for the process that is to be held, `arrived`, then `release`."""

    def __init__(self, fifo: Path, name: str, role: str = "") -> None:
        os.mkfifo(fifo)
        self._fifo = fifo
        self._fd = -1
        wanted = f"{name}@{role}" if role else name
        self.env = {"HOLDFAST_HOLD_CALLBACK": wanted, "HOLDFAST_HOLD_FIFO": str(fifo)}

    def arrived(self) -> None:
        """Wait until the loop is held."""
        self._fd = eventually(self._open, 60, "the loop is held") - 1

    def _open(self) -> int | None:
        try:
            return os.open(self._fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC) + 1
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return None

    def release(self) -> None:
        """Let it go on."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextlib.contextmanager
def holding(fifo: Path, name: str, role: str = "") -> Iterator[Hold]:
    """A hold that ends with the block, whatever happens in it."""
    hold = Hold(fifo, name, role)
    try:
        yield hold
    finally:
        hold.release()


def pass_time(until_boottime: float) -> None:
    """Wait until that boottime is past."""
    eventually(
        lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > until_boottime, 60, "the time has passed"
    )
