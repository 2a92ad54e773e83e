"""Hits with context, whatever the pieces; long lines in bounded memory; the last hits."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from holdfast.manage.reading import log_search
from holdfast.manage.reading.line_pattern import LinePattern
from holdfast.manage.reading.log_search import FoundLine, LogSearch, last_hits

LOG = b"".join(
    b"%d%s\n" % (number, b" hit" if number in (3, 5, 11) else b"") for number in range(15)
)


def _found(search: LogSearch, *pieces: bytes) -> list[str]:
    """Lines as `12:text` for hits and `12-text` for context; `!` is an unfinished one."""
    lines = [line for piece in pieces for line in search.feed(piece)]
    return [_told(line) for line in [*lines, *search.end()]]


def _told(line: FoundLine) -> str:
    mark, end = ":" if line.is_hit else "-", "" if line.is_whole else "!"
    return f"{line.at_byte}{mark}{line.data.decode()}{end}"


def _search(pattern: str = "hit", at_byte: int = 0, **options: int) -> LogSearch:
    return LogSearch(LinePattern(pattern), at_byte, **options)


def test_hits_have_the_byte_at_which_their_line_begins():
    assert _found(_search(), LOG) == ["6:3 hit", "14:5 hit", "31:11 hit"]
    assert _found(_search(at_byte=100), b"x\na hit\n") == ["102:a hit"]


def test_context_of_hits_that_are_near_is_shown_once():
    expected = ["4-2", "6:3 hit", "12-4", "14:5 hit", "20-6", "28-10", "31:11 hit", "38-12"]
    assert _found(_search(context=1), LOG) == expected
    everything = _found(_search(context=100), LOG)
    assert len(everything) == 15


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10])
def test_pieces_do_not_matter(size):
    pieces = [LOG[at : at + size] for at in range(0, len(LOG), size)]
    for context in (0, 1, 4):
        assert _found(_search(context=context), *pieces) == _found(_search(context=context), LOG)


def test_a_last_line_without_a_newline_is_searched_too():
    assert _found(_search(), b"a\nb hi", b"t") == ["2:b hit!"]
    assert _found(_search(context=1), b"a\nhit\nend") == ["0-a", "2:hit", "6-end!"]
    assert _found(_search(context=2), b"a\nb\nhit") == ["0-a", "2-b", "4:hit!"]


def test_hits_before_the_first_one_are_context():
    found = _found(_search(at_byte=6, context=2, first=14), LOG[6:])
    assert found[:3] == ["6-3 hit", "12-4", "14:5 hit"]


def test_another_place_in_the_log_begins_a_line_and_forgets_the_context():
    search = _search(context=2)
    assert list(search.feed(b"a\nb\nunfini")) == []
    search.restart(1000)
    assert _found(search, b"hit\n") == ["1000:hit"]


@pytest.fixture
def _short_lines(monkeypatch):
    monkeypatch.setattr(log_search, "LONGEST_LINE_BYTES", 100)


@pytest.mark.usefixtures("_short_lines")
def test_a_line_that_is_too_long_is_searched_in_pieces():
    search = _search("needle")
    pieces = [
        b"x" * 60,
        b"x" * 50 + b"nee",
        b"dle" + b"y" * 100,
        b"y" * 90 + b"needle",
        b"end\nneedle\n",
    ]
    found = [line for piece in pieces for line in search.feed(piece)]
    whole = b"".join(pieces)
    assert search.long_lines == 1
    assert [line.is_hit for line in found] == [True] * 3
    for line in found:
        assert b"needle" in line.data
        assert len(line.data) < 250
        assert whole[line.at_byte :].startswith(line.data)
    assert found[-1].at_byte == whole.index(b"\nneedle\n") + 1


def test_a_line_without_end_does_not_fill_the_memory():
    search = LogSearch(LinePattern("nee[d]le"))
    piece = b"x" * log_search.BLOCK_BYTES
    tracemalloc.start()
    try:
        found = [line for _ in range(200) for line in search.feed(piece)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == []
    assert search.long_lines == 1
    assert peak < 6 * log_search.LONGEST_LINE_BYTES


@pytest.mark.usefixtures("_short_lines")
def test_context_that_is_too_long_loses_its_oldest_lines(monkeypatch):
    monkeypatch.setattr(log_search, "_LINE_COST_BYTES", 0)
    lines = [b"%d" % number * 30 for number in range(9)]
    found = _found(_search(context=1000), b"\n".join(lines) + b"\nhit\n")
    assert found == [f"{31 * n}-{str(n) * 30}" for n in (6, 7, 8)] + [f"{31 * 9}:hit"]


def _last(path: Path, count: int, begin: int = 0) -> int:
    return last_hits(str(path), LinePattern("hit"), count, begin=begin)


def test_where_the_last_hits_begin(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(LOG)
    assert [_last(log, count) for count in (1, 2, 3)] == [31, 14, 6]
    assert _last(log, 0) == len(LOG)
    assert _last(log, 4) == 0
    assert _last(log, 2, begin=20) == 20
    assert _last(tmp_path / "nonesuch", 3) == 0


def test_the_last_hits_are_looked_for_from_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(log_search, "_FIRST_WINDOW_BYTES", 64)
    monkeypatch.setattr(log_search, "BLOCK_BYTES", 50)
    log = tmp_path / "log"
    lines = [
        b"%d%s" % (number, b" hit" if number % 7 == 0 else b"x" * (number % 90))
        for number in range(900)
    ]
    log.write_bytes(b"\n".join(lines))
    hits = [sum(len(line) + 1 for line in lines[:number]) for number in range(0, 900, 7)]
    for count in (1, 2, 3, 10, 60, len(hits) - 1, len(hits)):
        assert _last(log, count) == hits[-count]
    assert _last(log, len(hits) + 1) == 0
