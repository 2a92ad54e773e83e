"""Watches the output of the runs whose output is shown, and of no others."""

from __future__ import annotations

import os

from holdfast.manage.reading.inotify import run_id_of
from holdfast.run.directory import RunDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.reading.inotify import FileWatch
    from holdfast.run.home import Home

    SizeAndTime = tuple[int, int] | None


class OpenOutputs:
    """Both output files of each run that was opened, in a watch that others use too."""

    def __init__(self, home: Home, watch: FileWatch) -> None:
        self._home = home
        self._watch = watch
        self._seen: dict[str, SizeAndTime] = {}  # by path

    def open(self, run_id: str) -> None:
        """From what it has now on."""
        for path in self._paths(run_id):
            self._seen[path] = _seen(path)
            self._watch.add(path)

    def close(self, run_id: str) -> None:
        """No longer."""
        for path in self._paths(run_id):
            if path in self._seen:
                del self._seen[path]
                self._watch.remove(path)

    def note(self, path: str) -> bool:
        """Whether a path that changed is one of them."""
        if path not in self._seen:
            return False
        self._seen[path] = _seen(path)
        return True

    def look(self) -> list[str]:
        """The runs that have more than was noted: a watch may have told nothing."""
        grown = []
        for path, before in self._seen.items():
            self._watch.add(path)  # it may not have been there
            self._seen[path] = _seen(path)
            run_id = run_id_of(self._home, path)
            if self._seen[path] != before and run_id is not None:
                grown.append(run_id)
        return grown

    def _paths(self, run_id: str) -> tuple[str, str]:
        directory = RunDirectory(self._home, run_id)
        return directory.output_path, directory.stderr_path


def _seen(path: str) -> SizeAndTime:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
