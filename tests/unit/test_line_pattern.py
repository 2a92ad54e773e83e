"""Which lines match: text, expressions, case, UTF-8, carriage returns, any bytes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from holdfast.errors import InvalidOption
from holdfast.manage.reading.line_pattern import LinePattern
from holdfast.manage.reading.text_finder import TextFinder


def _lines(pattern: str, data: bytes, **options: bool) -> list[bytes]:
    found = LinePattern(pattern, **options).hits(data, 0, len(data))
    return [data[begin:end] for begin, end in found]


def test_text_is_found_once_for_each_line():
    assert _lines("ab", b"ab ab\nno\n\nxab\n") == [b"ab ab", b"xab"]
    assert _lines("", b"a\n\n") == [b"a", b""]
    assert _lines("a", b"\n\n") == []


def test_only_the_asked_part_of_a_block_is_searched():
    data = b"x 1\nx 2\nx 3\n"
    for pattern in ("x", "x [0-9]", r"x\s", "[x]"):
        assert list(LinePattern(pattern).hits(data, 4, 8)) == [(4, 7)], pattern


@pytest.mark.parametrize(
    "pattern", ["^b$", "b$", "^b", r"\bb\b", r"(?<![a\n])b", r"b(?!c|\n)", r"\Ab\Z"]
)
def test_anchors_and_looks_around_know_one_line(pattern):
    assert _lines(pattern, b"a\nb\nabc\n") == [b"b"]


def test_nothing_crosses_a_newline():
    data = b"a\n b\n"
    assert _lines(r"a\s+b", data) == []
    assert _lines(r"a[^x]+b", data) == []
    assert _lines(r"(?s)a.*b", data) == []


@pytest.mark.parametrize("pattern", ["end$", "[e]nd$", r"\s*end\s*$", r"(?<=n)d$"])
def test_carriage_returns_before_the_newline_are_not_of_the_line(pattern):
    assert _lines(pattern, b"the end\r\nending\r\nend\r\r\nend\n") == [
        b"the end\r",
        b"end\r\r",
        b"end",
    ]


def test_characters_are_those_of_utf_8():
    data = "äöü\nabc\nÄb\n€\n".encode()
    assert _lines("^.{3}$", data) == ["äöü".encode(), b"abc"]
    assert _lines("[ö€]", data) == ["äöü".encode(), "€".encode()]
    assert _lines(r"^\w+$", data) == ["äöü".encode(), b"abc", "Äb".encode()]
    assert _lines("äB", data, ignore_case=True) == ["Äb".encode()]
    assert LinePattern("[€]").first_match("ä€x".encode()) == (2, 5)


def test_case_is_ignored_beyond_ascii_too():
    data = "DISK\nDi\u017f\u212a\ndisc\n".encode()
    assert _lines("disk", data, ignore_case=True) == [b"DISK", "Di\u017f\u212a".encode()]
    assert _lines("disk", b"DISK\ndisc\n", ignore_case=True) == [b"DISK"]


def test_any_bytes_can_be_searched():
    data = b"\x00\xff\xfe error\n\xc3(\x80 error \xf0\x9f\nplain\n"
    for pattern in ("error", "err.r", r"err[^\n]r", r"\serr"):
        assert len(_lines(pattern, data)) == 2, pattern
    assert _lines("^..", b"\xff\n\xff\xff\n") == [b"\xff\xff"]
    assert _lines("\udcff", b"a\xff\nb\n") == [b"a\xff"]


@pytest.mark.parametrize("pattern", ["(", "[a", "*a", "a{3,1}", "(?P<x", "\\", "(?P<a>b)(?P<a>c)"])
def test_a_bad_pattern_is_an_error_that_says_where(pattern):
    with pytest.raises(InvalidOption, match=r"--grep: .* is not a regular expression: ") as caught:
        LinePattern(pattern)
    assert caught.value.exit_code == 2


def test_a_pattern_that_is_too_deep_or_has_a_newline_is_an_error():
    with pytest.raises(InvalidOption, match="too large or too deep"):
        LinePattern("(" * 20000 + ")" * 20000)
    with pytest.raises(InvalidOption, match="within one line"):
        LinePattern("a\nb")


@pytest.mark.parametrize("text", [b"zq", b"qz", b"error", b"e", b"", b"eee", b"\n"])
def test_the_finder_finds_what_find_finds(text):
    blocks = [
        b"an error, one in many lines\n" * 5000 + b"zq" + b"qz" * 3000 + b"eee\n",
        b"qzq" * 30000 + b"zzqq",
        b"",
    ]
    finder = TextFinder(text)
    for data in blocks * 2:
        finder.prepare(data, 0, len(data))
        for begin, end in ((0, len(data)), (1, len(data) - 1), (3, 4), (140_000, len(data))):
            assert finder.find(data, begin, end) == data.find(text, begin, end)


def test_a_byte_that_is_not_rare_any_more_is_not_looked_for():
    """Each look at such a byte costs as much as hundreds of bytes otherwise."""
    rare, common = b"an error, one of many\n" * 5000, b"ze ro zr\n" * 10000
    finder = TextFinder(b"zero")
    for data in (rare, common):
        finder.prepare(data, 0, len(data))
        assert finder.find(data, 0, len(data)) == -1
    for data in (b"z\n", common):  # a short piece tells nothing about what comes
        finder.prepare(data, 0, len(data))
    looked_at = Counting(common)
    assert finder.find(looked_at, 0, len(common)) == -1
    assert looked_at.looks <= 1


class Counting(bytes):
    """Counts how often it is searched."""

    looks = 0

    def find(self, *arguments: Any) -> int:
        self.looks += 1
        return super().find(*arguments)


def test_text_that_is_in_few_lines_is_worth_a_search_for_it():
    data = b"common\n" * 10000
    assert not TextFinder(b"common").is_selective(data, 0, len(data))
    assert TextFinder(b"rare").is_selective(data, 0, len(data))
    many = LinePattern("c[o]mmon").hits(data, 0, len(data))
    assert len(list(many)) == len(re.findall(b"common", data))
