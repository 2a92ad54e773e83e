"""Copies a run's output to one of our own descriptors, byte for byte, and never blocks.

A reader that stopped reading must not delay a signal: only as much is written as is known to
fit.
"""

from __future__ import annotations

import os
import select
import stat

from holdfast.cli.text.streams import OutputLost
from holdfast.run.output import OutputReader

_FITS_BYTES = 4096  # PIPE_BUF: a pipe that polls writable takes this much without blocking
_LOOK_SECONDS = 0.1  # where inotify is not available


class Pump:
    """One output file, one descriptor. `turn` moves a piece; `register` says what to wait for."""

    def __init__(self, path: str, fd: int) -> None:
        self._reader = OutputReader(path)
        self._fd = fd
        self._waiting = b""
        self._is_at_end = False
        self._watch = _watch(path)
        self._most_bytes = 1 << 16 if stat.S_ISREG(os.fstat(fd).st_mode) else _FITS_BYTES

    @property
    def rest_seconds(self) -> float | None:
        """The longest time that a poll may sleep; None: until an event."""
        if self._waiting:
            return None
        if not self._is_at_end:
            return 0.0
        return _LOOK_SECONDS if self._watch is None else None

    def register(self, poll: select.poll) -> None:
        """Room in the descriptor while something waits; else new output."""
        if self._waiting:
            poll.register(self._fd, select.POLLOUT)
        elif self._watch is not None:
            poll.register(self._watch, select.POLLIN)

    def turn(self) -> bool:
        """Move what fits now. True while there is more to move."""
        self._forget_wakes()
        while True:
            if not self._waiting:
                chunk = self._reader.read(1 << 16)
                self._is_at_end = chunk is None
                if chunk is None:
                    return False
                self._waiting = chunk.data
            if not self._write():
                return True

    def _write(self) -> bool:
        """False when the descriptor takes no more for now."""
        while self._waiting:
            if not _has_room(self._fd):
                return False
            try:
                written = os.write(self._fd, self._waiting[: self._most_bytes])
            except BlockingIOError:
                return False
            except OSError as error:
                raise OutputLost(error) from error
            self._waiting = self._waiting[written:]
        return True

    def _forget_wakes(self) -> None:
        if self._watch is not None:
            try:
                os.read(self._watch, 65536)
            except BlockingIOError:
                return


def _has_room(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))


def _watch(path: str) -> int | None:
    from holdfast.process import libc

    try:
        return libc.watch_modifications(path)
    except OSError:  # too many watches of this user, or a system without
        return None
