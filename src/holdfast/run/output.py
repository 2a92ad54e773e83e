"""The workload's output, byte for byte: read from a byte, tail, lines, bound.

The file is the workload's own stdout: here it is only read, and its head given back to the disk.
Byte offsets never move. Nothing here waits for more.
"""

from __future__ import annotations

import errno
import os

from holdfast.errors import UnsafeFile
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_BYTES = 4096
_CHUNK_BYTES = 64 * 1024
_LONGEST_LINE_BYTES = 16 * 1024 * 1024


class Chunk(Record):
    """A piece of output and where it begins."""

    at_byte: int
    data: bytes
    skipped_bytes: int = 0  # bytes before it that were given back to the disk, unread
    was_truncated: bool = False  # the file became shorter: bytes are counted from 0 again


class OutputReader:
    """Reads one output file forward. The file may not exist yet.

    What is before `first_kept` was given back to the disk: a copy of the file has zeros there.
    """

    def __init__(self, path: str, at_byte: int = 0, *, first_kept: int = 0) -> None:
        self._path = path
        self._first_kept = first_kept
        self._fd = -1
        self._seen_bytes = 0  # the file was once that long
        self.at_byte = at_byte

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def seek_tail(self, lines: int, end: int | None = None) -> None:
        """Go to where the last lines begin, of the file or of what is before a byte."""
        if self._open():
            self.at_byte = tail_offset(self._fd, lines, self._first_kept, end)

    @property
    def size(self) -> int:
        """How long the file is now."""
        return os.fstat(self._fd).st_size if self._open() else 0

    def read(self, most_bytes: int = _CHUNK_BYTES) -> Chunk | None:
        """What comes next; None: nothing yet."""
        size = self.size
        was_truncated = size < self._seen_bytes
        if was_truncated:
            self._first_kept = 0
        begun = 0 if was_truncated else self.at_byte
        if not was_truncated and size <= begun:
            return None
        at_byte, data = self._read_data(begun, most_bytes)
        if not data and not was_truncated:
            return None
        self.at_byte = self._seen_bytes = at_byte + len(data)
        return Chunk(at_byte, data, at_byte - begun, was_truncated)

    def _read_data(self, at_byte: int, most_bytes: int) -> tuple[int, bytes]:
        while True:
            at_byte = next_data(self._fd, max(at_byte, self._first_kept))
            data = os.pread(self._fd, most_bytes, at_byte)
            # The head may have been given back while it was read: zeros are not its output.
            if not data or next_data(self._fd, at_byte) == at_byte:
                return at_byte, data

    def _open(self) -> bool:
        if self._fd < 0:
            try:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                return False
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                raise UnsafeFile(
                    f"{self._path} is a symbolic link; output is a plain file",
                    hint="look who made it; nothing that it leads to is shown",
                    path=self._path,
                ) from None
        return True


def read_from(
    path: str,
    at_byte: int = 0,
    *,
    tail: int | None = None,
    first_kept: int = 0,
    most_bytes: int = _CHUNK_BYTES,
) -> Iterator[Chunk]:
    """All that there is now, from a byte on, or the last lines. It ends, even if output goes on."""
    reader = OutputReader(path, at_byte, first_kept=first_kept)
    try:
        if tail is not None:
            reader.seek_tail(tail)
        end = reader.size
        while (
            reader.at_byte < end
            and (chunk := reader.read(min(most_bytes, end - reader.at_byte))) is not None
        ):
            yield chunk
    finally:
        reader.close()


def first_byte(fd: int) -> int:
    """Where the output that is still there begins."""
    return next_data(fd, 0)


def next_data(fd: int, at_byte: int) -> int:
    """The first byte from there on that was not given back to the disk."""
    try:
        return max(at_byte, os.lseek(fd, at_byte, os.SEEK_DATA))
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but a hole, or the end
            return max(at_byte, os.fstat(fd).st_size)
        return at_byte  # a file system that knows no holes has none


def begins_with_zeros(path: str) -> bool:
    """Whether the file has zeros, and no hole, at its head: as a copy of a trimmed one has."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return first_byte(fd) == 0 and os.pread(fd, 1, 0) == b"\0"
    finally:
        os.close(fd)


def tail_offset(fd: int, lines: int, first_kept: int = 0, end: int | None = None) -> int:
    """Where the last lines before `end` begin; an unfinished last line counts as one."""
    head = max(first_byte(fd), first_kept)
    end = os.fstat(fd).st_size if end is None else end
    if lines <= 0 or end <= head:
        return end
    wanted = lines
    if os.pread(fd, 1, end - 1) == b"\n":
        wanted += 1
    while end > head:
        begin = max(head, end - _CHUNK_BYTES)
        data = os.pread(fd, end - begin, begin)
        newlines = data.count(b"\n")
        if newlines >= wanted:
            at = len(data)
            for _ in range(wanted):
                at = data.rindex(b"\n", 0, at)
            return begin + at + 1
        wanted -= newlines
        end = begin
    return head


def trim_point(fd: int, max_bytes: int, unread: int | None = None) -> int:
    """The first byte that stays when about the last `max_bytes` are kept, in whole blocks.

    What a watcher has not read yet, from `unread` on, stays too.
    """
    status = os.fstat(fd)
    # A part of a block can only be zeroed, and would be read as output.
    block = max(BLOCK_BYTES, status.st_blksize)
    end = status.st_size - max_bytes
    end = end if unread is None else min(end, unread)
    return max(first_byte(fd), end // block * block)


def trim_head(fd: int, first_kept: int) -> None:
    """Give what is before that byte back to the disk. OSError where the file system can't."""
    from holdfast.process import libc

    before = os.fstat(fd)
    libc.punch_hole(fd, 0, first_kept)
    # The file's time is that of the last output, and this is none.
    os.utime(fd, ns=(before.st_atime_ns, before.st_mtime_ns))


class LineCarrier:
    """Cuts a stream into lines, and carries the unfinished last one to the next piece.

    A line longer than `longest` is left out and counted: it would have to be kept in memory. Where
    the stream does not begin with a line (`is_whole`), the rest of that line is left out too.
    """

    def __init__(
        self, at_byte: int = 0, *, longest: int = _LONGEST_LINE_BYTES, is_whole: bool = True
    ) -> None:
        self.dropped = 0
        self._longest = longest
        self._at = at_byte  # where the unfinished line begins
        self._pieces: list[bytes] = []
        self._length = 0
        self._is_whole = is_whole

    @property
    def rest(self) -> tuple[int, bytes]:
        """The unfinished line and where it begins."""
        return self._at, b"".join(self._pieces)

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The lines that this piece finishes, each with its offset, without the newline."""
        lines: list[tuple[int, bytes]] = []
        *ends, rest = data.split(b"\n")
        if ends:
            self._finish(ends[0], lines)
            at = self._at
            for end in ends[1:]:
                if len(end) <= self._longest:
                    lines.append((at, end))
                else:
                    self.dropped += 1
                at += len(end) + 1
            self._at = at
        self._carry(rest)
        return lines

    def _finish(self, end: bytes, lines: list[tuple[int, bytes]]) -> None:
        self._carry(end)
        if self._length > self._longest or not self._is_whole:
            self.dropped += 1
        else:
            lines.append(self.rest)
        self._at += self._length + 1
        self._pieces.clear()
        self._length = 0
        self._is_whole = True

    def _carry(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._longest:
            self._pieces.clear()
        elif piece:
            self._pieces.append(piece)
