"""Matches lines against the user's pattern, in bounded time whatever the pattern.

Plain text, with `.*` before or after it, is searched as text, in time linear in the line. Anything
else is for `re`, which may need years for one line. `re` checks for signals while it matches, so
a timer on this process's CPU time interrupts it (decision 0025), however busy the machine is.
"""

from __future__ import annotations

from holdfast.lean import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Line = tuple[int, bytes]

LINE_SECONDS = 0.5  # CPU time for one line, until lines were given up
LEAST_LINE_SECONDS = 0.02
TURN_SECONDS = 0.05  # CPU time for one call
LONGEST_LINE_BYTES = 1 << 20  # `re` checks for signals less often the longer a line is

_SPECIAL = frozenset(".^$*+?{}[]|()\\")


class _OutOfTime(Exception):
    pass


class Matcher:
    """One pattern. `given_up` gets the byte and the length of each line that took too long."""

    def __init__(self, pattern: str, given_up: Callable[[int, int], None]) -> None:
        self._given_up = given_up
        self._count = 0
        self._suspect = -1  # the byte of a line that a turn ended in: it gets its whole time next
        self._is_timed = False
        self._text = plain_text(pattern)
        if self._text is None:
            import re

            self._fullmatch = re.compile(pattern).fullmatch
            signal.signal(signal.SIGVTALRM, self._ring)

    def first(self, lines: Sequence[Line]) -> tuple[Line | None, Sequence[Line]]:
        """The first line that matches, if any; and the lines that there was no time for."""
        if self._text is not None:
            return self._first_plain(*self._text, lines), ()
        done = 0
        try:
            self._start_timer(self._seconds_for(lines))
            for line in lines:
                if len(line[1]) > LONGEST_LINE_BYTES:
                    self._give_up(line)
                elif self._fullmatch(line[1].decode(errors="replace").rstrip("\r\n")):
                    return line, ()
                done += 1
            return None, ()
        except _OutOfTime:
            return None, self._after_time(lines, done)
        finally:
            self._is_timed = False
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    @staticmethod
    def _first_plain(text: bytes, before: bool, after: bool, lines: Sequence[Line]) -> Line | None:
        for line in lines:
            if text in line[1]:
                bare = line[1].rstrip(b"\r\n")
                left, found, right = bare.partition(text)
                if before and not after:
                    left, found, right = bare.rpartition(text)
                if found and (before or not left) and (after or not right):
                    return line
        return None

    def _seconds_for(self, lines: Sequence[Line]) -> float:
        if lines and lines[0][0] == self._suspect:
            return max(LEAST_LINE_SECONDS, LINE_SECONDS / (1 + self._count))
        return TURN_SECONDS

    def _after_time(self, lines: Sequence[Line], done: int) -> Sequence[Line]:
        line = lines[done]
        if done == 0 and line[0] == self._suspect:
            self._give_up(line)
            return lines[1:]
        self._suspect = line[0]  # or only the turn was over: the line may be harmless
        return lines[done:]

    def _give_up(self, line: Line) -> None:
        self._count += 1
        self._given_up(line[0], len(line[1]))

    def _start_timer(self, seconds: float) -> None:
        self._is_timed = True
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)

    def _ring(self, _number: int, _frame: object) -> None:
        if self._is_timed:
            self._is_timed = False
            raise _OutOfTime


def plain_text(pattern: str) -> tuple[bytes, bool, bool] | None:
    """The text that the pattern is, and whether anything may be before and after it; else None."""
    before, after = pattern.startswith(".*"), False
    rest = pattern[2:] if before else pattern
    if rest.endswith(".*") and not rest.endswith("\\.*"):
        after, rest = True, rest[:-2]
    text, escaped = "", False
    for letter in rest:
        if escaped and (letter.isalnum() or not letter.isascii()):
            return None  # \d, \Z, \1
        if not escaped and letter == "\\":
            escaped = True
            continue
        if not escaped and letter in _SPECIAL:
            return None
        text += letter
        escaped = False
    is_safe = text and not escaped and text.isprintable() and "\ufffd" not in text
    return (text.encode(), before, after) if is_safe else None
