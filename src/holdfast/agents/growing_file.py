"""The whole lines that an agent adds to a file of its own. Reads, and never waits or writes.

A line that is half written is read when it is whole. A file that is gone, or has become something
else than a file, has no lines.
"""

from __future__ import annotations

import os
import stat

from holdfast.agents.json_lines import JsonLine
from holdfast.agents.profile import value_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from holdfast.agents.profile import Json, Path

_TAIL_BYTES = 64 * 1024
_LOOK_BACK_BYTES = 512 * 1024
_MOST_LOOKED_BACK = 16 * 1024 * 1024
_MAX_LINE = 32 * 1024 * 1024


class GrowingFile:
    """One file from a byte on; without one, from the end of its last record."""

    def __init__(self, path: str, start: int | None = None) -> None:
        self.path = path
        self.start = _end_of_records(path) if start is None else start
        self._at = self.start
        self._carried = b""
        self._skipping = False

    def new_lines(self, most_bytes: int) -> tuple[list[tuple[bytes, int]], int]:
        """Each whole line with its place; and how many bytes were read for them."""
        chunk = self._new_bytes(most_bytes)
        return list(self._split(chunk)), len(chunk)

    def _split(self, chunk: bytes) -> Iterator[tuple[bytes, int]]:
        *lines, rest = (self._carried + chunk).split(b"\n")
        at_byte = self._at - len(chunk) - len(self._carried)
        for line in lines:
            if not self._skipping:
                yield line, at_byte
            self._skipping = False
            at_byte += len(line) + 1
        if len(rest) > _MAX_LINE:
            self._skipping, rest = True, b""
        self._carried = rest

    def _new_bytes(self, most_bytes: int) -> bytes:
        size = _size(self.path)
        if size < self._at:
            # Rewritten shorter: what is in it now is old.
            self._at, self._carried = _end_of_records(self.path), b""
            return b""
        if size == self._at:
            return b""
        try:
            with open_at_once(self.path) as opened:
                opened.seek(self._at)
                chunk = opened.read(most_bytes)
        except OSError:
            return b""
        self._at += len(chunk)
        return chunk


def open_at_once(path: str) -> BinaryIO:
    """Open for reading without blocking: its writer may replace it by a FIFO or a device."""
    opened = open(path, "rb", opener=_without_waiting)
    if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        opened.close()
        raise OSError(f"{path} is no file")
    return opened


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def first_since(path: str, at: Path, since: str) -> int:
    """Where the first record begins that was written since that time, in UTC.

    Without one near the end of the file: where its records end.
    """
    try:
        with open_at_once(path) as opened:
            end = opened.seek(0, os.SEEK_END)
            place = max(0, end - _LOOK_BACK_BYTES)
            opened.seek(place)
            lines = opened.read(end - place).split(b"\n")[:-1]
    except OSError:
        return 0
    for line in lines:
        if any(_is_since(record, at, since) for record in JsonLine(line).records):
            return place
        place += len(line) + 1
    return _end_of_records(path)


def lines_before(path: str, end: int) -> Iterator[bytes]:
    """The whole lines before a byte, the last one first, and none from too far back."""
    first = b""
    least = max(0, end - _MOST_LOOKED_BACK)
    try:
        with open_at_once(path) as opened:
            while end > least:
                begin = max(least, end - _LOOK_BACK_BYTES)
                opened.seek(begin)
                first, *lines = (opened.read(end - begin) + first).split(b"\n")
                yield from reversed(lines)
                end = begin
    except OSError:
        return
    if end == 0 and first:
        yield first


def _is_since(record: Json, at: Path, since: str) -> bool:
    time = value_at(record, at)
    is_utc = isinstance(time, str) and time.endswith("Z")
    return is_utc and str(time).rstrip("Z") >= since.rstrip("Z")


def _end_of_records(path: str) -> int:
    """Where the last whole record ends: what is after it is being written by this run.

    A record that is whole but for its newline may be the last of a turn that was cut off.
    """
    try:
        with open_at_once(path) as opened:
            end = opened.seek(0, os.SEEK_END)
            tail = b""
            while b"\n" not in tail and len(tail) < min(end, _MAX_LINE):
                begin = max(0, end - 2 * len(tail) - _TAIL_BYTES)
                opened.seek(begin)
                tail = opened.read(end - begin)
    except OSError:
        return 0
    unfinished = tail.rpartition(b"\n")[2]
    is_whole = bool(unfinished.strip()) and bool(JsonLine(unfinished).records)
    return end if is_whole or len(unfinished) > _MAX_LINE else end - len(unfinished)
