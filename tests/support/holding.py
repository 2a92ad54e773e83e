"""Holds a shim's loop at a callback of its choice, for as long as a test wants."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.waiting import open_for_reader

SHIM = Path(__file__).parents[2] / "src/holdfast/shim"
_NAMED = re.compile(
    r"(?:loop\.(?:watch_exit|watch|after_awake|after|at)\("
    r"(?:\s*[\w.]+,)?(?:\s*READ[ |WRITE]*,)?\s*f?|timer(?:: ClassVar\[str\])? = )"
    r'"([a-z ]+?) ?["{]'
)


def callback_names() -> set[str]:
    """What the callbacks of the loop are called, wherever the shim has any."""
    found = {name for path in SHIM.rglob("*.py") for name in _NAMED.findall(path.read_text())}
    return found | {"signals"}  # the loop's own


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
        self._fd = open_for_reader(self._fifo)

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
    """Wait until that boottime is past: limits of the run are in time."""
    while (left := until_boottime - time.clock_gettime(time.CLOCK_BOOTTIME)) >= 0:
        time.sleep(left + 0.001)
