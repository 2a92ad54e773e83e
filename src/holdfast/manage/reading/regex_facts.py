"""What a regular expression says about its matches, read from its parsed form. Pure.

Two facts make a search of gigabytes fast: a text that every match contains, which is found many
times faster than the expression, and whether many lines can be searched in one call. The parsed
form is private to `re`: without it nothing is known, and a search is slower.
"""

from __future__ import annotations

import re

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_NEWLINE = 10
_WITH_NEWLINE = ("CATEGORY_SPACE", "CATEGORY_NOT_WORD", "CATEGORY_NOT_DIGIT")
# Without regard to case these match characters beyond ASCII too: U+0130, U+0131, U+017F, U+212A.
_BEYOND_ASCII = re.compile("[iks]+")


class RegexFacts(Record):
    """What is known of a pattern. An empty text: none is known to be in every match."""

    literal: str | None = None  # the pattern is this text and nothing else
    folds: bool = False  # a part of it ignores case: the texts below are in lower case
    text: str = ""  # in every match
    ascii_text: str = ""  # in every match, if the line is ASCII
    is_local: bool = False  # no match crosses a newline, or depends on what is behind one
    has_line_end: bool = False  # `$`


def regex_facts(pattern: re.Pattern[str]) -> RegexFacts:
    """The facts about a compiled pattern."""
    parser: Any = getattr(re, "_parser", None)
    if parser is None:
        return RegexFacts()
    reader = _Reader(pattern.flags)
    reader.read(parser.parse(pattern.pattern, pattern.flags), pattern.flags)
    reader.end_text()
    texts = ascii_texts = reader.texts
    if reader.folds:
        ascii_texts = [text.lower() for text in texts if text.isascii()]
        texts = [part for text in ascii_texts for part in _BEYOND_ASCII.split(text)]
    longest = max(texts, key=len, default="")
    return RegexFacts(
        literal=longest if reader.is_literal else None,
        folds=reader.folds,
        text=longest,
        ascii_text=max(ascii_texts, key=len, default=""),
        is_local=reader.is_local,
        has_line_end=reader.has_line_end,
    )


class _Reader:
    """Reads the parsed form once. An unknown operation is taken for the worst case."""

    def __init__(self, flags: int) -> None:
        self.texts: list[str] = []
        self.folds = bool(flags & re.IGNORECASE)
        self.is_local = True
        self.is_literal = not self.folds
        self.has_line_end = False
        self._run: list[str] = []

    def end_text(self) -> None:
        """What comes next need not follow the last character."""
        if self._run:
            self.texts.append("".join(self._run))
            self._run.clear()

    def read(self, items: Iterable[tuple[Any, Any]], flags: int, *, required: bool = True) -> None:
        """Note what a sequence says; one that is not required may be missing from a match."""
        for operation, value in items:
            name = str(operation)
            self.is_literal &= name == "LITERAL"
            if name == "LITERAL":
                self._read_literal(value, required)
            elif name == "SUBPATTERN":
                self._read_group(value, flags, required)
            elif name == "AT":  # between two characters: they still follow each other
                self.is_local &= not str(value).endswith("_STRING")
                self.has_line_end |= str(value) == "AT_END"
            else:
                self.end_text()
                self._read_other(name, value, flags, required)
                self.end_text()

    def _read_literal(self, number: int, required: bool) -> None:
        self.is_local &= number != _NEWLINE
        if required:
            self._run.append(chr(number))

    def _read_group(self, value: tuple[Any, int, int, Any], flags: int, required: bool) -> None:
        _number, added, removed, inner = value
        self.folds |= bool(added & re.IGNORECASE)
        self.is_local &= not removed & re.MULTILINE
        self.read(inner, flags | added, required=required)

    def _read_other(self, name: str, value: Any, flags: int, required: bool) -> None:
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            least, _most, inner = value
            self.read(inner, flags, required=required and least > 0)
        elif name == "BRANCH":
            for branch in value[1]:
                self.read(branch, flags, required=False)
        elif name == "ANY":
            self.is_local &= not flags & re.DOTALL
        elif name == "IN":
            self.is_local &= not _has_newline(value)
        elif name == "NOT_LITERAL":
            self.is_local &= value == _NEWLINE
        elif name != "GROUPREF":  # looks around, atomic, conditional
            self.is_local = False


def _has_newline(items: list[tuple[Any, Any]]) -> bool:
    """Whether a class such as `[^a-z]` has the newline in it."""
    is_negated = str(items[0][0]) == "NEGATE"
    return is_negated != any(_is_newline(str(operation), value) for operation, value in items)


def _is_newline(name: str, value: Any) -> bool:
    if name == "RANGE":
        return bool(value[0] <= _NEWLINE <= value[1])
    if name == "CATEGORY":
        return str(value) in _WITH_NEWLINE
    return name == "LITERAL" and value == _NEWLINE
