"""The lines of a log that match a pattern, with lines of context, in bounded memory.

It is fed with the log piece by piece, whether that is read or followed. Only lines to show are cut
out. A line over LONGEST_LINE_BYTES is searched in pieces, each as if it were a line.
"""

from __future__ import annotations

from collections import deque

from holdfast.record import Record
from holdfast.run.output import OutputReader, read_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from holdfast.manage.reading.line_pattern import LinePattern

BLOCK_BYTES = 1024 * 1024  # to read at once: in the processor's cache, and calls don't count
LONGEST_LINE_BYTES = 16 * 1024 * 1024
_FIRST_WINDOW_BYTES = 32 * 1024 * 1024
_WINDOW_FACTOR = 8
_LINE_COST_BYTES = 128  # of memory, beside the line itself


class FoundLine(Record):
    """A line to show, without its newline."""

    at_byte: int
    data: bytes
    is_hit: bool  # else it is context
    is_whole: bool = True  # its newline was there


class LogSearch:
    """Searches one log from a byte on, at which a line begins. Hits before `first` are context."""

    def __init__(
        self, pattern: LinePattern, at_byte: int = 0, *, context: int = 0, first: int = 0
    ) -> None:
        self.long_lines = 0  # they were searched in pieces
        self._pattern = pattern
        self._context = context
        self._overlap = len(pattern.literal) - 1 if pattern.literal else 0
        self.restart(at_byte)
        self._first = first

    def restart(self, at_byte: int) -> None:
        """Go on at another byte: what was unfinished is not continued there."""
        self._first = 0
        self._at = at_byte  # where the unfinished line begins
        self._pieces: list[bytes] = []
        self._length = 0
        self._is_long = False
        self._before = _LinesBefore(self._context)
        self._after = 0  # lines of context that the last hit still gets

    def feed(self, data: bytes) -> Iterator[FoundLine]:
        """The lines to show that this piece of the log finishes."""
        begin = data.find(b"\n") + 1
        if begin == 0:
            self._carry(data)
            if self._length > LONGEST_LINE_BYTES:
                yield from self._take_piece()
            return
        if self._pieces:
            self._carry(data[:begin])
            yield from self._take_carried()
        else:
            begin = 0
        end = data.rfind(b"\n") + 1
        at, self._at = self._at, self._at + end - begin
        yield from self._take(data, begin, end, at - begin)
        self._carry(data[end:])

    def end(self) -> Iterator[FoundLine]:
        """The last line, if it has no newline."""
        if self._pieces:
            self._carry(b"\n")
            for line in self._take_carried():
                is_last = line.at_byte + len(line.data) + 1 == self._at
                yield line.replace(is_whole=False) if is_last else line

    def _carry(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._length += len(piece)

    def _take_piece(self) -> Iterator[FoundLine]:
        """Search what there is of a line. Text that lies across two pieces is in the second."""
        self.long_lines += not self._is_long
        self._carry(b"\n")
        data = yield from self._take_carried()
        kept = data[len(data) - 1 - self._overlap : -1]
        self._at -= len(kept) + 1
        self._is_long = True
        self._carry(kept)

    def _take_carried(self) -> Generator[FoundLine, None, bytes]:
        data, at = b"".join(self._pieces), self._at
        self._pieces.clear()
        self._at, self._length, self._is_long = at + len(data), 0, False
        yield from self._take(data, 0, len(data), at)
        return data

    def _take(self, data: bytes, begin: int, end: int, at_byte: int) -> Iterator[FoundLine]:
        """Whole lines: those that match, and what is around them. `at_byte` is that of data[0]."""
        for first, last in self._pattern.hits(data, begin, end):
            if at_byte + first < self._first:
                continue
            if self._context:
                yield from self._pass_over(data, begin, first, at_byte)
                yield from self._before.take()
            yield FoundLine(at_byte + first, data[first:last], is_hit=True)
            begin, self._after = last + 1, self._context
        if self._context:
            yield from self._pass_over(data, begin, end, at_byte)

    def _pass_over(self, data: bytes, begin: int, end: int, at_byte: int) -> Iterator[FoundLine]:
        """Lines without a hit: the first may be context of the last hit, the last of the next."""
        while self._after and begin < end:
            last = data.index(b"\n", begin)
            yield FoundLine(at_byte + begin, data[begin:last], is_hit=False)
            begin, self._after = last + 1, self._after - 1
        kept: list[tuple[int, bytes]] = []
        while end > begin and len(kept) < self._context:
            first = data.rfind(b"\n", begin, end - 1) + 1 or begin
            kept.append((at_byte + first, data[first : end - 1]))
            end = first
        self._before.add(reversed(kept))


class _LinesBefore:
    """The last lines that were not shown: context of a hit that may come."""

    def __init__(self, most: int) -> None:
        self._lines: deque[tuple[int, bytes]] = deque()
        self._most = most
        self._bytes = 0

    def add(self, lines: Iterable[tuple[int, bytes]]) -> None:
        """These follow; the oldest ones go."""
        for line in lines:
            self._lines.append(line)
            self._bytes += len(line[1]) + _LINE_COST_BYTES
            while len(self._lines) > self._most or self._bytes > LONGEST_LINE_BYTES:
                self._bytes -= len(self._lines.popleft()[1]) + _LINE_COST_BYTES

    def take(self) -> Iterator[FoundLine]:
        """All of them, which are then shown."""
        while self._lines:
            at_byte, data = self._lines.popleft()
            yield FoundLine(at_byte, data, is_hit=False)
        self._bytes = 0


def last_hits(
    path: str, pattern: LinePattern, count: int, *, begin: int, first_kept: int = 0
) -> int:
    """Where the last `count` lines that match begin; the search starts at the end of the log."""
    reader = OutputReader(path)
    end = reader.size
    reader.close()
    window = _FIRST_WINDOW_BYTES
    while count:
        at_byte = max(begin, end - window)
        hits = deque(_hits_from(path, pattern, at_byte, first_kept, at_byte == begin), count)
        if len(hits) == count:
            return hits[0]
        if at_byte == begin:
            return begin
        window *= _WINDOW_FACTOR
    return end


def _hits_from(
    path: str, pattern: LinePattern, at_byte: int, first_kept: int, is_line_start: bool
) -> Iterator[int]:
    search = LogSearch(pattern, at_byte)
    for chunk in read_from(path, at_byte, first_kept=first_kept, most_bytes=BLOCK_BYTES):
        data = chunk.data
        if chunk.skipped_bytes or chunk.was_truncated:
            search.restart(chunk.at_byte)
        if not is_line_start:
            cut = data.find(b"\n") + 1
            if cut == 0:
                continue
            search.restart(chunk.at_byte + cut)
            data, is_line_start = data[cut:], True
        for line in search.feed(data):
            yield line.at_byte
    for line in search.end():
        yield line.at_byte
