"""One descriptor that wakes its reader when files of runs change; never a busy loop.

It tells which files those were. Where the kernel gives no such descriptor (limits, other systems)
the reader looks again after a moment instead.
"""

from __future__ import annotations

import os

from holdfast.manage.operations import Wait
from holdfast.process import libc
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.run.home import Home

LOOK_SECONDS = 0.25  # without a descriptor
_MOST_BYTES = 64 * 1024


class FileWatch:
    """What a stream waits on. Nothing is open before the first `add`, nor after `close`.

    Streams that are read together may share one: a user has few of these descriptors (128 by
    default). One of them may then take the wake of another, so each looks again after a moment.
    """

    def __init__(self, *, is_shared: bool = False, look_seconds: float = LOOK_SECONDS) -> None:
        self.is_shared = is_shared
        self._look_seconds = look_seconds
        self._fd = -1
        self._numbers: dict[str, int] = {}
        self._paths: dict[int, str] = {}
        self.is_whole = not is_shared  # a change of any watched path wakes us, and is returned

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
            number = libc.add_to_watch(self._fd, path)
        except FileNotFoundError:
            return False
        except OSError:  # too many watches, or none on this system: then we look
            self.is_whole = False
            return True
        self._numbers[path], self._paths[number] = number, path
        return True

    def remove(self, path: str) -> None:
        """Stop watching it."""
        number = self._numbers.pop(path, None)
        if number is not None:
            self._paths.pop(number, None)
            try:
                libc.remove_from_watch(self._fd, number)
            except OSError:  # the file was removed, and the watch with it
                pass

    def until_change(self, *fds: int, seconds: float | None = None) -> Wait:
        """Until something changes, one of the descriptors is ready, or the time is over."""
        ours = (self._fd,) if self._fd >= 0 else ()
        if not self.is_whole:
            longest = self._look_seconds
            seconds = longest if seconds is None else min(seconds, longest)
        return Wait((*ours, *fds), seconds)

    def drain(self) -> None:
        """Forget the wakes so far: whatever they were about is looked at now."""
        self.take()

    def take(self) -> set[str] | None:
        """What has changed since: files that were added, names in directories that were added, and
        whatever was removed. None: anything may have changed."""
        changed: set[str] = set()
        is_known = self.is_whole
        try:
            while self._fd >= 0 and (data := os.read(self._fd, _MOST_BYTES)):
                events = libc.read_watch(data)
                is_known = is_known and events is not None
                for number, name, is_over in events or ():
                    self._note(number, name, is_over, changed)
        except BlockingIOError:
            pass
        return changed if is_known else None

    def _note(self, number: int, name: str, is_over: bool, changed: set[str]) -> None:
        path = self._paths.get(number)
        if path is None:  # from before it was removed from the watch
            return
        changed.add(f"{path}/{name}" if name else path)
        if is_over:  # the file is gone: one of that name would be another
            del self._paths[number], self._numbers[path]


def run_id_of(home: Home, path: str) -> str | None:
    """The run that a changed path is about: its directory, a file in it, or its marker."""
    for folder in (home.runs_path, home.active_path, home.recent_path):
        if path.startswith(f"{folder}/"):
            name = path[len(folder) + 1 :].partition("/")[0]
            return name if is_id(name) else None
    return None
