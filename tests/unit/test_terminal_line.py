"""A line as a terminal shows it: carriage returns, erasing, colours, wide characters."""

from __future__ import annotations

import pytest

from holdfast.manage.reading import shown_lines
from holdfast.manage.reading.shown_lines import ShownLines
from holdfast.manage.reading.terminal_line import MOST_COLUMNS, TerminalLine, rewrites

LINES = [
    ("abcdef\rxy", "xycdef"),
    ("abcdef\rxy\x1b[K", "xy"),
    ("abcdef\r\x1b[Kxy", "xy"),
    ("abcdef\x1b[2K\rxy", "xy"),
    ("abcdef\x1b[2Kxy", "      xy"),
    ("abcdef\x1b[3G\x1b[1Kxy", "  xyef"),
    ("abc\x1b[Gx", "xbc"),
    ("abc\x1b[2Gx\x1b[Cy", "axcy"),
    ("abc\x1b[2Dx", "axc"),
    ("abc\b\bx", "axc"),
    ("\b\bx", "x"),
    ("ab\tc\rx", "xb      c"),
    ("\x1b[5Gx\ry", "y   x"),
    ("äöü\rx", "xöü"),
    ("日本語\rx", "x 本語"),
    ("日本語\rxy", "xy本語"),
    ("ab\r日", "日"),
    ("e\u0301f\rx", "xf"),
    ("xe\u0301f\ry", "ye\u0301f"),
    ("\x1b[?25labc\rx\x1b[?25h", "xbc"),
    ("\x1b]0;title\x07abc\rx", "xbc"),
    ("\x1b]8;;http://a\x1b\\link\rL", "Link"),
    ("\x1b(Babc\rx\x07", "xbc"),
    (" 10%|#   |\r 50%|##  |\r100%|####| done", "100%|####| done"),
]


def _shown(data: bytes, *, columns: int | None = None) -> bytes:
    line = TerminalLine()
    line.feed(data)
    return line.shown(columns)


@pytest.mark.parametrize(("written", "shown"), LINES)
def test_what_was_written_over_is_gone(written, shown):
    assert _shown(written.encode()).decode() == shown


@pytest.mark.parametrize(("written", "shown"), LINES)
def test_pieces_may_be_cut_anywhere(written, shown):
    line = TerminalLine()
    for byte in written.encode():
        line.feed(bytes([byte]))
    assert line.shown().decode() == shown


def test_colours_stay_with_their_characters():
    assert _shown(b"\x1b[31mred\x1b[0m plain\rG") == b"G\x1b[31med\x1b[0m plain"
    assert _shown(b"\x1b[1m\x1b[32mab\rc\x1b[m") == b"\x1b[1m\x1b[32mcb\x1b[0m"
    assert _shown(b"a\x1b[33m\rb") == b"\x1b[33mb"
    assert _shown(b"\x1b[31ma\x1b[0;32mb\r") == b"\x1b[31ma\x1b[0m\x1b[0;32mb"


def test_a_line_is_cut_to_its_first_columns():
    assert _shown(b"\x1b[31mabcdef\r", columns=3) == b"\x1b[31mabc"
    assert _shown("日本語\r".encode(), columns=4) == "日本".encode()


def test_bytes_that_are_no_text_stay():
    assert _shown(b"\xff\xfeab\rx") == b"x\xfeab"


@pytest.mark.parametrize(
    "away", ["\x1b[A", "\x1b[2B", "\x1b[3;4H", "\x1b[2J", "\x1b7", "\x1bM", "\x0b", "\x1bPq\x1b\\"]
)
def test_who_leaves_the_line_is_told(away):
    line = TerminalLine()
    line.feed(f"abc{away}".encode())
    assert line.leaves_the_line


def test_columns_are_bounded_and_so_are_sequences():
    line = TerminalLine()
    line.feed(b"\x1b[999999999999C" * 3 + b"x" * 10)
    assert line.width <= MOST_COLUMNS
    line.feed(b"\r" + b"\x1b[1m" * 10_000 + b"y\x1b[" + b"1" * 100_000)
    line.feed(b"\r" + "a\u0301".encode() + "\u0301".encode() * 10_000)
    assert len(line.shown()) < MOST_COLUMNS + 200_000


def test_lines_that_a_terminal_need_not_redraw():
    for plain in (b"", b"abc", b"abc\r", b"abc\r\r", b"\x1b[31mabc\x1b[0m\x1b[K", b"a\tb"):
        assert not rewrites(plain), plain
    for redrawn in (b"a\rb", b"\rb", b"a\bb", b"\x1b[2Kb", b"\x1b[1Gb", b"ab\x1b[Dc"):
        assert rewrites(redrawn), redrawn


def _text(lines) -> bytes:
    return b"".join(line.text + (b"\n" if line.is_whole else b"") for line in lines)


def _pieces(data: bytes, size: int):
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("is_bare", [True, False])
@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_lines_in_which_nothing_is_written_over_stay_as_they_are(is_bare, size):
    data = b"one\ntwo \x1b[31mred\x1b[0m\n\n\xff\xfe\nlast"
    lines = ShownLines(is_bare=is_bare)
    found = [line for piece in _pieces(data, size) for line in lines.feed(piece)]
    assert _text([*found, *lines.rest()]) == data


def test_newlines_of_other_systems_are_plain_ones():
    lines = ShownLines(is_bare=True)
    assert _text(lines.feed(b"one\r\ntwo\r\r\n")) == b"one\r\ntwo\r\r\n"
    assert _text([*lines.feed(b"three\r"), *lines.feed(b"\nfour\n")]) == b"three\r\nfour\n"


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_redrawn_lines_have_their_last_state_and_their_end_in_the_output(size):
    data = b"a\n10%\r50%\r100%\nz\r"
    lines = ShownLines(at_byte=40)
    found = [line for piece in _pieces(data, size) for line in lines.feed(piece)]
    assert [(line.text, line.end_byte) for line in found] == [(b"a", 41), (b"100%", 54)]
    assert [(line.text, line.is_whole) for line in lines.rest()] == [(b"z", False)]


def test_a_line_that_moves_up_is_left_to_the_terminal_where_it_can_be():
    data = b"1: 10%\x1b[A\r0: 20%\n"
    assert _text(ShownLines(is_bare=True).feed(data)) == data
    assert _text(ShownLines().feed(data)) == b"0: 20%\n"


@pytest.mark.parametrize(
    ("written", "screen"),
    [
        (b"plain", b"plain"),
        (b"plain\r", b"plain\r"),
        (b"abc\rx", b"xbc\rx"),
        (b"abc\rxyz", b"xyz"),
        (b"\x1b[31mabc\rx\x1b[3", b"\x1b[31mxbc\r\x1b[31mx\x1b[3"),
        (b"abc\rx\xe2\x82", b"xbc\rx\xe2\x82"),
        (b"a\x1b[A\rb\x1b[", b"a\x1b[A\rb\x1b["),
    ],
)
def test_a_terminal_can_go_on_with_an_unfinished_line(written, screen):
    lines = ShownLines(is_bare=True)
    assert lines.feed(written) == []
    assert lines.handed_over() == screen


def test_the_state_of_every_unfinished_line_can_be_had():
    lines = ShownLines()
    lines.is_live = True
    assert _text(lines.feed(b"whole\nab\tc")) == b"whole\n"
    assert lines.current is not None
    assert lines.current.shown() == b"ab      c"
    assert _text(lines.feed(b"d\n")) == b"ab\tcd\n"
    assert lines.current is None


def test_lines_that_are_too_long_to_be_kept(monkeypatch):
    monkeypatch.setattr(shown_lines, "_LONGEST_LINE_BYTES", 100)
    data = b"x" * 70 + b"\n"
    bare, named = ShownLines(is_bare=True), ShownLines()
    pieces = [b"y" * 70, b"y" * 70, b"y" * 70, data]
    assert b"".join(_text(bare.feed(piece)) for piece in pieces) == b"".join(pieces)
    assert b"".join(_text(named.feed(piece)) for piece in [*pieces, data]) == data
    assert named.dropped == 1
    # Redrawn lines are as long as they are wide, however often they were redrawn.
    bar = b"".join(b"\r%d%%" % number for number in range(101))
    for lines in (bare, named):
        assert (
            b"".join(_text(lines.feed(piece)) for piece in (*_pieces(bar, 9), b"\n")) == b"100%\n"
        )
