"""One member of a tree and who is below it, read through descriptors that are kept open.

A descriptor of a /proc file is bound to one process, so a calm member costs two reads and no
proof. Opened by number: the caller proves whose number it was.
"""

from __future__ import annotations

import os

from holdfast.process import procfs
from holdfast.process.proc_details import Basics, open_file, parse_basics

_STAT_BYTES = 2048
_MOST_BYTES = 3800  # what one read gives for sure; more children are read from the start


class Kin:
    """The stat and the children of one process. Close it."""

    __slots__ = ("_children", "_line", "_pid", "_stat", "basics")

    def __init__(self, pid: int) -> None:
        """Raises OSError when it can't be opened."""
        self._pid = pid
        self._line = b""
        self.basics: Basics | None = None  # as last read; None: it is gone, or hidden
        self._stat = open_file(pid, "stat")
        try:
            self._children = open_file(pid, f"task/{pid}/children")
        except OSError:
            os.close(self._stat)
            raise

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._stat)
        os.close(self._children)

    def look(self) -> list[int]:
        """Read what it is now; its children, of *every* thread.

        A thread that ends hands its children to another one: those of a single thread are all.
        """
        try:
            line = os.pread(self._stat, _STAT_BYTES, 0)
            if line != self._line:
                self.basics, self._line = parse_basics(line), line
            text = os.pread(self._children, 2 * _MOST_BYTES, 0)
        except OSError:  # it was reaped: what it left has gone to another
            self.basics, self._line = None, b""
            return []
        if len(text) >= _MOST_BYTES or (self.basics is not None and self.basics.threads > 1):
            return procfs.children(self._pid)
        return [int(child) for child in text.split()] if text else []
