"""Lines are matched in bounded time, whatever the pattern."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.shim.watching.matching import LONGEST_LINE_BYTES, Matcher, plain_text


def _all_of(matcher: Matcher, lines: list[tuple[int, bytes]]) -> tuple[object, int]:
    turns = 0
    left: Sequence[tuple[int, bytes]] = lines
    while left:
        found, left = matcher.first(left)
        turns += 1
        if found is not None:
            return found, turns
    return None, turns


CATASTROPHES = [r"(\w+\s?)+DONE", r"([\w\s]*)*DONE", r"(?:.*Z|.)*DONE", r"(a|a)*DONE"]


@pytest.mark.parametrize("pattern", CATASTROPHES)
@pytest.mark.parametrize("length", [60, 1 << 16, LONGEST_LINE_BYTES])
def test_a_line_that_would_take_years_is_given_up_and_the_next_is_matched(pattern, length):
    given_up: list[tuple[int, int]] = []
    matcher = Matcher(pattern, lambda at, size: given_up.append((at, size)))
    bad = b"a" * (length - 1) + b"!"
    lines = [(0, b"fine"), (5, bad), (5 + length + 1, b"aa DONE"), (9 + length, b"x")]
    if "Z" in pattern:
        lines[1] = (5, (b"word " * length)[:length])
    began = time.process_time()
    found, _turns = _all_of(matcher, lines)
    if length > 60 or "Z" not in pattern:
        assert given_up == [(5, length)]
    assert found == lines[2] or pattern == r"(a|a)*DONE"
    assert time.process_time() - began < 20


def test_a_line_that_is_too_long_to_interrupt_is_given_up_at_once():
    given_up = []
    matcher = Matcher("a+", lambda at, size: given_up.append((at, size)))
    long = b"a" * (LONGEST_LINE_BYTES + 1)
    assert _all_of(matcher, [(0, long), (len(long) + 1, b"aaa")])[0] == (len(long) + 1, b"aaa")
    assert given_up == [(0, len(long))]


def test_a_turn_that_is_over_gives_no_line_up():
    given_up = []
    matcher = Matcher(r"(a+)+x", lambda at, size: given_up.append((at, size)))
    lines = [(number * 16, b"a" * 15) for number in range(400)]  # a millisecond each
    found, turns = _all_of(matcher, [*lines, (9999, b"aax")])
    assert (found, given_up) == ((9999, b"aax"), [])
    assert turns > 1, "it gave way to others"


PLAIN = [
    ("DONE", b"DONE"),
    (r".*\bDONE", None),
    (".*DONE", b"DONE"),
    ("DONE.*", b"DONE"),
    (".*all done.*", b"all done"),
    (r".*\[ok\].*", b"[ok]"),
    (r"\.*", None),
    (r"a\\.*", None),
    (".*", None),
    ("", None),
    (r"\d", None),
    ("a|b", None),
    ("a{2}", None),
    ("ja, übrigens", "ja, übrigens".encode()),
]


@pytest.mark.parametrize(("pattern", "text"), PLAIN)
def test_plain_text_is_told_from_a_pattern(pattern, text):
    found = plain_text(pattern)
    assert (found[0] if found else None) == text


@given(
    st.sampled_from([p for p, text in PLAIN if text is not None]),
    st.text("DONEal d[ok]aü,\r", max_size=12) | st.sampled_from(["DONE", "xDONE", "DONEx", "[ok]"]),
)
def test_plain_text_matches_as_its_pattern_does(pattern, line):
    expected = re.fullmatch(pattern, line.rstrip("\r\n")) is not None
    found, left = Matcher(pattern, lambda _at, _size: None).first([(7, line.encode())])
    assert (found is not None, list(left)) == (expected, [])
