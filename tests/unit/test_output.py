from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.run.output import (
    BLOCK_BYTES,
    LineCarrier,
    OutputReader,
    first_byte,
    read_from,
    tail_offset,
    trim_head,
    trim_point,
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "output.log")


@pytest.fixture
def fd(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    yield fd
    os.close(fd)


def text(chunks: Iterator) -> bytes:
    return b"".join(chunk.data for chunk in chunks)


def trim(fd: int, max_bytes: int) -> int:
    try:
        point = trim_point(fd, max_bytes)
        if point > first_byte(fd):
            trim_head(fd, point)
        return point
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        pytest.skip("this file system punches no holes")


def test_output_is_read_byte_for_byte(path: str, fd: int):
    data = bytes(range(256)) * 1000
    os.write(fd, data)
    assert text(read_from(path)) == data
    assert text(read_from(path, 1000)) == data[1000:]
    offsets = [chunk.at_byte for chunk in read_from(path, 10)]
    assert offsets[0] == 10
    assert len(offsets) > 1


def test_a_byte_beyond_the_end_is_nothing_yet(path: str, fd: int):
    os.write(fd, b"abc")
    assert text(read_from(path, 100)) == b""
    reader = OutputReader(path, 100)
    assert reader.read() is None
    reader.close()


def test_a_file_that_does_not_exist_yet_has_no_output(path: str):
    assert text(read_from(path)) == b""
    assert text(read_from(path, tail=3)) == b""


def test_reading_what_is_there_ends_even_if_output_goes_on(path: str, fd: int):
    os.write(fd, b"x" * 100_000)
    seen = b""
    for chunk in read_from(path):
        seen += chunk.data
        os.write(fd, b"more" * 1000)
    assert seen == b"x" * 100_000


@pytest.mark.parametrize(
    ("content", "lines", "tail"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\nc\n", 0, b""),
        (b"a\nb\nc\n", 99, b"a\nb\nc\n"),
        (b"\n\n\n", 2, b"\n\n"),
        (b"", 5, b""),
        (b"x", 1, b"x"),
        (b"long" * 50_000 + b"\nlast\n", 1, b"last\n"),
        (b"long" * 50_000 + b"\nlast\n", 2, b"long" * 50_000 + b"\nlast\n"),
    ],
)
def test_tail(path: str, fd: int, content: bytes, lines: int, tail: bytes):
    os.write(fd, content)
    assert text(read_from(path, tail=lines)) == tail


def test_a_file_that_became_shorter_is_said_and_read_from_its_start(path: str, fd: int):
    os.write(fd, b"before truncation")
    reader = OutputReader(path)
    assert reader.read() is not None
    os.ftruncate(fd, 0)
    emptied = reader.read()
    assert emptied is not None
    assert (emptied.was_truncated, emptied.data) == (True, b"")
    assert reader.read() is None
    os.write(fd, b"new")
    again = reader.read()
    assert again is not None
    assert (again.at_byte, again.data, again.was_truncated) == (0, b"new", False)
    reader.close()


def test_the_head_is_given_back_and_no_offset_moves(path: str, fd: int):
    data = b"".join(b"%07d\n" % number for number in range(20_000))
    os.write(fd, data)
    begin = trim(fd, 50_000)
    assert begin == (len(data) - 50_000) // BLOCK_BYTES * BLOCK_BYTES
    assert first_byte(fd) == begin
    assert os.fstat(fd).st_size == len(data)
    assert os.fstat(fd).st_blocks * 512 < 100_000
    chunks = list(read_from(path))
    assert (chunks[0].at_byte, chunks[0].skipped_bytes) == (begin, begin)
    assert b"".join(chunk.data for chunk in chunks) == data[begin:]
    assert text(read_from(path, begin + 5)) == data[begin + 5 :]
    assert text(read_from(path, tail=2)) == b"0019998\n0019999\n"
    assert tail_offset(fd, 10**6) == begin
    assert trim(fd, 50_000) == begin
    os.write(fd, b"x" * BLOCK_BYTES)
    assert trim(fd, 50_000) == begin + BLOCK_BYTES


def test_a_log_within_its_bound_is_left_alone(path: str, fd: int):
    os.write(fd, b"x" * 10_000)
    assert trim(fd, 10_000) == 0
    assert trim(fd, 10**9) == 0
    assert text(read_from(path)) == b"x" * 10_000


def test_a_slow_reader_never_sees_zeros_for_what_was_given_back(path: str, fd: int):
    os.write(fd, b"x" * 200_000)
    reader = OutputReader(path)
    first = reader.read(4096)
    assert first is not None
    begin = trim(fd, 20_000)
    chunk = reader.read()
    assert chunk is not None
    assert (chunk.at_byte, chunk.skipped_bytes) == (begin, begin - 4096)
    assert set(chunk.data) == {ord("x")}
    reader.close()


def test_C2_lines_split_over_writes_are_whole():
    carrier = LineCarrier(100)
    assert carrier.feed(b"ab") == []
    assert carrier.feed(b"c\n\nde") == [(100, b"abc"), (104, b"")]
    assert carrier.rest == (105, b"de")
    assert carrier.feed(b"\n") == [(105, b"de")]
    assert carrier.rest == (108, b"")


def test_a_line_too_long_to_keep_is_left_out_and_counted():
    carrier = LineCarrier(longest=4)
    assert carrier.feed(b"12345") == []
    assert carrier.rest == (0, b"")
    assert carrier.feed(b"678\nabcd\n") == [(9, b"abcd")]
    assert carrier.dropped == 1
