"""Whether the folders of a home have changed since they were listed: their time stamps tell."""

from __future__ import annotations

import os
import time

_TICK_NS = 1_000_000_000  # two changes within this time may have one stamp


class FolderChanges:
    """As of which change each folder was listed."""

    def __init__(self) -> None:
        self._listed: dict[str, int] = {}

    def forget(self) -> None:
        """All of them count as changed."""
        self._listed.clear()

    def take(self, folders: tuple[str, ...]) -> set[str]:
        """Those that changed since the last call. List them now."""
        return {folder for folder in folders if self._has_changed(folder)}

    def _has_changed(self, folder: str) -> bool:
        try:
            at = os.stat(folder).st_mtime_ns
        except FileNotFoundError:
            return self._listed.pop(folder, None) is not None
        if self._listed.get(folder) == at:
            return False
        # It may change once more with the same stamp: until that is old, it is not noted.
        self._listed[folder] = at if time.time_ns() - at > _TICK_NS else -1
        return True
