"""One descriptor that wakes its reader when files of runs change; never a busy loop.

Where the kernel gives no such descriptor (limits, other systems) the reader looks again after a
moment instead.
"""

from __future__ import annotations

import os

from holdfast.manage.steps import Wait
from holdfast.process import libc

LOOK_SECONDS = 0.25  # without a descriptor
_MOST_BYTES = 64 * 1024


class Watch:
    """What a stream waits on. Nothing is open before the first `add`, nor after `close`.

    Streams that are read together may share one: a user has few of these descriptors (128 by
    default). One of them may then take the wake of another, so each looks again after a moment.
    """

    def __init__(self, *, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self._fd = -1
        self._numbers: dict[str, int] = {}
        self._is_whole = not is_shared  # whatever was added wakes us

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def add(self, path: str) -> bool:
        """Wake for this file or directory; False when it is not there (yet)."""
        if path in self._numbers:
            return True
        try:
            if self._fd < 0:
                self._fd = libc.open_watch()
            self._numbers[path] = libc.add_to_watch(self._fd, path)
        except FileNotFoundError:
            return False
        except OSError:  # too many watches, or none on this system: then we look
            self._is_whole = False
        return True

    def remove(self, path: str) -> None:
        """Wake for it no more."""
        number = self._numbers.pop(path, None)
        if number is not None:
            try:
                libc.remove_from_watch(self._fd, number)
            except OSError:  # the file was removed, and the watch with it
                pass

    def until_change(self, *fds: int, seconds: float | None = None) -> Wait:
        """Until something changes, one of the descriptors is ready, or the time is over."""
        ours = (self._fd,) if self._fd >= 0 else ()
        if not self._is_whole:
            seconds = LOOK_SECONDS if seconds is None else min(seconds, LOOK_SECONDS)
        return Wait((*ours, *fds), seconds)

    def drain(self) -> None:
        """Forget the wakes so far: whatever they were about is looked at now."""
        try:
            while self._fd >= 0 and os.read(self._fd, _MOST_BYTES):
                continue
        except BlockingIOError:
            return
