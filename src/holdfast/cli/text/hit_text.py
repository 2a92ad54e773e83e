"""Lines that `logs --grep` found, on their way to stdout.

Each has the byte at which its line begins, then `:` for a hit and `-` for context, as `grep -b`.
"""

from __future__ import annotations

from holdfast.cli.text import streams
from holdfast.cli.text.log_text import LineText, Printer
from holdfast.manage.reading.line_pattern import LinePattern
from holdfast.manage.reading.log_search import LONGEST_LINE_BYTES, LogSearch
from holdfast.manage.reading.terminal_line import TerminalLine, rewrites

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.manage.reading.log_search import FoundLine

_SEPARATOR = b"--\n"


class Grep:
    """What was asked of all runs together, and whether it was found."""

    def __init__(self, pattern: str, *, ignore_case: bool = False, context: int = 0) -> None:
        self.pattern = LinePattern(pattern, ignore_case=ignore_case)
        self.context = context
        self.has_hit = False
        self._last: tuple[object, int] | None = None  # which printer's, and where its line ended

    def printer(self, text: LineText, at_byte: int, first_hit: int) -> HitPrinter:
        """For one run, from a byte on. What matches before the first hit is context."""
        search = LogSearch(self.pattern, at_byte, context=self.context, first=first_hit)
        return HitPrinter(text, search, self)

    def is_apart(self, source: object, begin: int, end: int) -> bool:
        """Whether the line that is shown now does not follow the one before it."""
        last, self._last = self._last, (source, end)
        return self.context > 0 and last not in (None, (source, begin))


class HitPrinter(Printer):
    """Prints the lines of one run that match, and lines around them."""

    def __init__(self, text: LineText, search: LogSearch, grep: Grep) -> None:
        super().__init__(text)
        self._search = search
        self._grep = grep
        self._long_lines = 0

    def end(self) -> None:
        self._say(self._search.end())

    def _restart(self, at_byte: int) -> None:
        self._search.restart(at_byte)

    def _print(self, data: bytes) -> None:
        self._say(self._search.feed(data))

    def _say(self, lines: Iterable[FoundLine]) -> None:
        parts = map(self._rendered, lines)
        if self._text.look.on_screen:
            for part in parts:  # at once: the next hit may be hours away
                streams.say_bytes((part,))
        else:
            streams.say_bytes(parts)
        if self._search.long_lines > self._long_lines:
            self._long_lines = self._search.long_lines
            most = LONGEST_LINE_BYTES >> 20
            self._note(f"a line is longer than {most} MiB: it is searched, and shown, in pieces")

    def _rendered(self, line: FoundLine) -> bytes:
        self._grep.has_hit |= line.is_hit
        if self._text.look.json:
            marks = {"context": not line.is_hit, "unfinished": not line.is_whole}
            return self._text.document(line.at_byte, line.data, **marks)
        end = line.at_byte + len(line.data)
        is_apart = self._grep.is_apart(self, line.at_byte, end + 1)
        return b"%b%b%d%b%b\n" % (
            _SEPARATOR if is_apart else b"",
            self._text.head(end),
            line.at_byte,
            b":" if line.is_hit else b"-",
            self._shown(line) if self._text.look.on_screen else line.data,
        )

    def _shown(self, line: FoundLine) -> bytes:
        """As a terminal showed it; where the match was written over, as it was with the match."""
        if not rewrites(line.data):
            return line.data
        last = _after(line.data)
        if not line.is_hit or self._grep.pattern.first_match(last) is not None:
            return last
        match = self._grep.pattern.first_match(line.data)
        end = -1 if match is None else line.data.find(b"\r", match[1])
        return last if end < 0 else _after(line.data[:end])


def _after(data: bytes) -> bytes:
    line = TerminalLine()
    line.feed(data)
    return line.shown()
