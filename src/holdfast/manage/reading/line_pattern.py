"""Which lines of a block of output a pattern matches. Pure: bytes in, places out.

A line is what is between two newlines, without the carriage returns at its end. Text is UTF-8; a
byte that is none counts as one character. Plain text is searched as bytes; of an expression, if
possible, a text that every match has, and only its lines are looked at more closely.
"""

from __future__ import annotations

import re
import warnings

from holdfast.errors import InvalidOption
from holdfast.manage.reading.regex_facts import regex_facts
from holdfast.manage.reading.text_finder import TextFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Span = tuple[int, int]  # a line: its first byte, and the byte of its newline


class LinePattern:
    """A regular expression of Python's that is matched within lines."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        self._regex = _compiled(pattern, ignore_case)
        with warnings.catch_warnings(action="ignore"):
            facts = regex_facts(self._regex)
        self._facts = facts
        self.literal = None if facts.literal is None else _bytes(facts.literal)
        self._text = TextFinder(_bytes(facts.text))
        self._ascii_text = TextFinder(_bytes(facts.ascii_text)) if facts.folds else self._text

    def hits(self, data: bytes, begin: int, end: int) -> Iterator[Span]:
        """The lines of `data[begin:end]` that match. The last one must end with a newline."""
        if self.literal is not None:
            return _lines_with(self._text, data, data, begin, end)
        finder = self._ascii_text if data.isascii() else self._text
        searched = data.lower() if self._facts.folds else data
        if finder.text and self._is_worth_it(finder, searched, begin, end):
            return self._hits_with(finder, searched, data, begin, end)
        return self._hits_without(data, begin, end)

    def _is_worth_it(self, finder: TextFinder, searched: bytes, begin: int, end: int) -> bool:
        """Looking at single lines costs as much as looking at each line: not if many have it."""
        return not self._facts.is_local or finder.is_selective(searched, begin, end)

    def first_match(self, line: bytes) -> Span | None:
        """Where in the line the first match is."""
        text = _text(line)
        found = self._regex.search(text.rstrip("\r"))
        if found is None:
            return None
        begin, end = found.span()
        return len(_bytes(text[:begin])), len(_bytes(text[:end]))

    def _hits_with(
        self, finder: TextFinder, searched: bytes, data: bytes, begin: int, end: int
    ) -> Iterator[Span]:
        for line in _lines_with(finder, searched, data, begin, end):
            if self._matches(_text(data[slice(*line)])):
                yield line

    def _hits_without(self, data: bytes, begin: int, end: int) -> Iterator[Span]:
        text = _text(data[begin:end])
        is_local = self._facts.is_local and not (self._facts.has_line_end and "\r\n" in text)
        spans = self._in_many(text) if is_local else self._in_each(text)
        if len(text) == end - begin:
            return ((begin + first, begin + last) for first, last in spans)
        return _in_bytes(text, spans, begin)

    def _in_many(self, text: str) -> Iterator[Span]:
        at = 0
        while (found := self._regex.search(text, at)) and found.start() < len(text):
            first = text.rfind("\n", at, found.start()) + 1 or at
            last = text.index("\n", found.start())
            if self._matches(text[first:last]):
                yield first, last
            at = last + 1

    def _in_each(self, text: str) -> Iterator[Span]:
        first, search, has_returns = 0, self._regex.search, "\r\n" in text
        for line in text[:-1].split("\n"):
            last = first + len(line)
            if search(line.rstrip("\r") if has_returns else line):
                yield first, last
            first = last + 1

    def _matches(self, line: str) -> bool:
        return self._regex.search(line.rstrip("\r")) is not None


def _lines_with(
    finder: TextFinder, searched: bytes, data: bytes, begin: int, end: int
) -> Iterator[Span]:
    """The lines in which a text is; `searched` is the data, or the data in lower case."""
    finder.prepare(searched, begin, end)
    at = begin
    while at < end and (found := finder.find(searched, at, end)) >= 0:
        first = data.rfind(b"\n", at, found) + 1 or at
        last = data.index(b"\n", found)
        yield first, last
        at = last + 1


def _in_bytes(text: str, spans: Iterator[Span], begin: int) -> Iterator[Span]:
    """Places in a text that is not ASCII as places in its bytes."""
    counted, at = 0, begin
    for first, last in spans:
        at += len(_bytes(text[counted:first]))
        length = len(_bytes(text[first:last]))
        yield at, at + length
        counted, at = last, at + length


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _compiled(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    if "\n" in pattern:
        raise InvalidOption("--grep: a pattern is matched within one line", option="grep")
    flags = re.MULTILINE | (re.IGNORECASE if ignore_case else 0)
    try:
        with warnings.catch_warnings(action="ignore"):
            return re.compile(pattern, flags)
    except re.error as error:
        where = "" if error.pos is None else f" at character {error.pos + 1}"
        reason = f"{error.msg}{where}"
    except (OverflowError, RecursionError):
        reason = "it is too large or too deep"
    raise InvalidOption(
        f"--grep: {pattern!r} is not a regular expression: {reason}",
        hint="the syntax is that of Python's `re`; a backslash before . * + ? ( ) [ ] { } | ^ $"
        " takes it for itself",
        option="grep",
        value=pattern,
    )
