"""Cuts output into lines as a terminal would show them, for people. Pure.

A line in which nothing is written over stays as it is, byte for byte. Of one that is redrawn its
last state is kept, however many there were: a bar may be redrawn for days before its newline.
"""

from __future__ import annotations

from holdfast.manage.reading.terminal_line import TerminalLine, rewrites
from holdfast.record import Record

_LONGEST_LINE_BYTES = 16 * 1024 * 1024


class ShownLine(Record):
    """A line without its newline."""

    text: bytes
    end_byte: int  # in the output
    is_whole: bool  # its newline was there


class ShownLines:
    """The lines of one log from a byte on. `is_bare`: nothing will stand before them.

    A bare line that moves the cursor up or down is given as it was written: the terminal knows
    what is above it. Before other lines stands a name or a time that must not be written over.
    """

    def __init__(self, at_byte: int = 0, *, is_bare: bool = False) -> None:
        self.dropped = 0  # lines that were too long to be kept
        self.is_live = False  # the state of every unfinished line is needed
        self._is_bare = is_bare
        self.restart(at_byte)

    def restart(self, at_byte: int) -> None:
        """A line begins there: what was unfinished is not continued."""
        self.current: TerminalLine | None = None  # the unfinished line, if its state is needed
        self._at = self._end = at_byte
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> list[ShownLine]:
        """The lines that this piece of the log finishes."""
        *ends, rest = data.split(b"\n")
        lines: list[ShownLine] = []
        for piece in ends:
            self._add(piece, rewrites(piece))
            lines += self._finished(is_whole=True)
            self.restart(self._end + 1)
        self._add(rest, self.is_live or b"\r" in rest or rewrites(rest))
        if self._is_bare and self.current is None and self._is_long:
            lines += self.rest()  # it can't be held back until it is known how it goes on
            self.restart(self._end)
        return lines

    def rest(self) -> list[ShownLine]:
        """The unfinished line as it is now; the cursor is behind it, so that it stays."""
        lines = self._finished(is_whole=False) if self._end > self._at else []
        return [line.replace(text=line.text.rstrip(b"\r")) for line in lines]

    def handed_over(self) -> bytes:
        """The unfinished line for a terminal that gets what comes next: the cursor is in place."""
        text, line = b"".join(self._pieces), self.current
        if line is None or self._is_shown_as_written(text, line):
            return text
        back = b"\r" + line.shown(line.column) if line.column < line.width else b""
        return line.shown() + back + line.unfinished

    @property
    def _is_long(self) -> bool:
        return self._end - self._at > _LONGEST_LINE_BYTES

    def _add(self, piece: bytes, needs_state: bool) -> None:
        self._end += len(piece)
        if needs_state and self.current is None and self._end > self._at:
            self.current = TerminalLine()
            for earlier in self._pieces:
                self.current.feed(earlier)
        if self.current is not None:
            self.current.feed(piece)
        self._pieces.append(piece)
        if self._is_long and (self.current is not None or not self._is_bare):
            self._pieces.clear()

    def _finished(self, *, is_whole: bool) -> list[ShownLine]:
        text = b"".join(self._pieces)
        if self.current is not None and not self._is_shown_as_written(text, self.current):
            text = self.current.shown()
        elif self._is_long and not self._is_bare:
            self.dropped += 1
            return []
        return [ShownLine(text, self._end, is_whole)]

    def _is_shown_as_written(self, text: bytes, line: TerminalLine) -> bool:
        if self._is_long:
            return False
        return not rewrites(text) or (self._is_bare and line.leaves_the_line)
