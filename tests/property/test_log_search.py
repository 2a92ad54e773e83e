"""Whatever the log, the pattern and the pieces: the lines are those that a plain loop finds."""

from __future__ import annotations

import re
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from holdfast.manage.reading.line_pattern import LinePattern
from holdfast.manage.reading.log_search import FoundLine, LogSearch

PATTERNS = [
    *(
        "a",
        "ab",
        "",
        "a.c",
        "^a",
        "b$",
        "^$",
        "^a*$",
        "a|bc",
        "x*",
        "a{3}",
        "(abc|abd)+c",
        r"(a)\1",
    ),
    *("ä", ".ä.", "[äö]b", "^.{3}$", "K", "\udcff", "[\udcff]a", "(?i)kab", "(?i:ab)c", "(?i)[k]"),
    *(r"\bab\b", r"\B", r"\w{3}", r"\s", r"\S+\s\S+", "[^a]b", "[^ab]+c", r"abc\s*$", r"\W\D"),
    *("(?<=a)b", "(?<!a)b", "a(?!b)", "(?=(\\s*))\\1b", "(?>a*)b", "a*+b", r"\Aab", r"ab\Z"),
    *("(?s)a.b", "(?-i:a)b", "(?-m:^ab)c", "(?m)^abc$", "(?x)a b c", "(a)?(?(1)b|c)", r"a\nb"),
]
# Letters with relatives beyond ASCII, what is no UTF-8, and what ends lines elsewhere.
LETTERS = st.sampled_from([*"aabbcckKsAB \t\r", "ä", "ö", "\udcff", "\u212a", "\u017f", "\x0b"])
LOGS = st.lists(st.text(LETTERS, max_size=7), min_size=1, max_size=12)


class Asked(NamedTuple):
    """What is searched for."""

    pattern: str
    ignore_case: bool
    context: int


ASKED = st.builds(Asked, st.sampled_from(PATTERNS), st.booleans(), st.integers(0, 3))


def _expected(lines: list[str], asked: Asked) -> list[tuple[int, bytes, bool]]:
    regex = re.compile(asked.pattern, re.MULTILINE | (re.IGNORECASE if asked.ignore_case else 0))
    hits = {place for place, line in enumerate(lines) if regex.search(line.rstrip("\r"))}
    found, at = [], 0
    for place, line in enumerate(lines):
        data = line.encode("utf-8", "surrogateescape")
        if hits.intersection(range(place - asked.context, place + asked.context + 1)):
            found.append((at, data, place in hits))
        at += len(data) + 1
    return found


@given(LOGS, ASKED, st.booleans(), st.data())
def test_lines_that_match_and_their_context(lines, asked, is_ended, data):
    log = "\n".join(lines).encode("utf-8", "surrogateescape") + (b"\n" if is_ended else b"")
    if not is_ended and not lines[-1]:
        lines = lines[:-1]  # nothing after the last newline is no line
    pattern = LinePattern(asked.pattern, ignore_case=asked.ignore_case)
    search = LogSearch(pattern, context=asked.context)
    found: list[FoundLine] = []
    at = 0
    while at < len(log):
        size = data.draw(st.integers(1, len(log)), label="piece")
        found += search.feed(log[at : at + size])
        at += size
    found += search.end()
    assert [(line.at_byte, line.data, line.is_hit) for line in found] == _expected(lines, asked)
    for line in found:
        assert line.is_whole == (is_ended or line.at_byte + len(line.data) < len(log))
