"""How text looks: sizes, durations, tables for 80 columns, and no tricks by odd names."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.text import terminal
from holdfast.manage import plaintext
from holdfast.manage.plaintext import printable
from holdfast.run import units


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, ""),
        (0, "0B"),
        (999, "999B"),
        (1024, "1K"),
        (1536, "1.5K"),
        (412 << 20, "412M"),
        (12_025_908_429, "11.2G"),
        (41 << 30, "41G"),
        (1023 << 20, "1G"),
        (1 << 70, "1024E"),
    ],
)
def test_sizes(count, text):
    assert units.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (-1, "0s"), (4.9, "4s"), (60, "1m"), (3599, "59m"), (10800, "3h"), (86400, "1d")],
)
def test_ages(seconds, text):
    assert units.age(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.04, "0.0s"),
        (3.14, "3.1s"),
        (9.96, "10s"),
        (59.6, "1m"),
        (100, "1m40s"),
        (3599.7, "1h"),
        (5400, "1h30m"),
        (187_200, "2d4h"),
    ],
)
def test_durations(seconds, text):
    assert units.duration(seconds) == text


@given(st.text())
def test_printable_text_moves_no_cursor_and_can_be_encoded(text):
    shown = printable(text)
    assert shown.isprintable()
    shown.encode("utf-8")
    assert not {"\x1b", "\n", "\r", "\x9b", "\u202e", "\u2066"} & set(shown)


@given(st.text(max_size=30).map(printable), st.integers(1, 20))
def test_cut_text_fits(text, room):
    assert plaintext.width(plaintext.cut(text, room)) <= room
    assert plaintext.width(text) > room or plaintext.cut(text, room) == text


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def use_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a fixture: pytest changes stdout between a test's set-up and its call."""
    monkeypatch.setattr("sys.stdout", Screen())
    for name in ("NO_COLOR", "TERM", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


ROWS = [["fix-412", "running", "12m", "x" * 100], ["日本", "ended", "3h", "short"]]
HEAD = ["NAME", "STATE", "AGE", "NOTE"]


def test_a_table_fits_the_screen_and_lines_up(monkeypatch):
    use_screen(monkeypatch)
    lines = terminal.table(HEAD, ROWS, right=["AGE"])
    assert [plaintext.width(line) for line in lines] == [27, 80, 28]
    assert lines[0] == "NAME     STATE    AGE  NOTE"
    assert lines[1].endswith("x…")
    assert lines[2] == "日本     ended     3h  short"


def test_a_piped_table_is_not_cut():
    assert "x" * 100 in terminal.table(HEAD, ROWS)[1]


def test_colour_only_on_a_terminal_and_never_against_no_color(monkeypatch):
    use_screen(monkeypatch)
    assert terminal.paint("FAIL", "red", "bold") == "\x1b[31;1mFAIL\x1b[0m"
    assert terminal.paint("FAIL", "red", stream=io.StringIO()) == "FAIL"
    monkeypatch.setenv("TERM", "dumb")
    assert terminal.paint("FAIL", "red") == "FAIL"
    monkeypatch.delenv("TERM")
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.paint("FAIL", "red") == "FAIL"


@pytest.mark.parametrize(("given", "wide"), [("132", 132), ("0", 80), ("x", 80), ("-5", 80)])
def test_columns_come_from_the_environment_if_they_make_sense(monkeypatch, given, wide):
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setenv("COLUMNS", given)
    assert terminal.columns() == wide


def test_home_is_shown_short(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert plaintext.home_path("/home/me/src") == "~/src"
    assert plaintext.home_path("/home/meander") == "/home/meander"
    monkeypatch.setenv("HOME", "/")
    assert plaintext.home_path("/etc") == "/etc"
