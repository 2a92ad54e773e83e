"""The last lines of output: few, short, plain, and without secrets."""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.options import Wanted
from holdfast.process.clock import iso_time, seconds_of
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home
from holdfast.run.last_words.last_output import (
    MOST_BYTES,
    MOST_CHARACTERS,
    MOST_LINES,
    WINDOW_BYTES,
    last_lines,
    read_last_output,
)


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (b"", []),
        (b"\n \n", []),
        (b"one\n\ntwo", ["one", "two"]),
        (b"  indented\tby a tab  \r\n", ["  indented by a tab"]),
        (b"10%\r50%\r100%", ["100%"]),
        (b"\x1b[1;31mred\x1b[0m and \x9b32mgreen", ["red and \ufffd32mgreen"]),
        ("\x9b32mgreen".encode(), ["green"]),
        (b"a\x1b[3Cb\x1b[2Kc", ["a bc"]),
        (b"above\x1b[1Abelow\x1b[5;1Hright", ["above", "below", "right"]),
        (b"\x1b]0;title\x07shown \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", ["shown link"]),
        (b"an unfinished \x1b[3", ["an unfinished"]),
        (b"bell\x07 null\0 \xe2\x80\xaereversed", ["bell null reversed"]),
        (b"API_TOKEN=hunter2hunter2 is wrong", ["API_TOKEN=[redacted] is wrong"]),
        (b"\x1b[1mAPI_TOKEN=\x1b[0mhunter2hunter2", ["API_TOKEN=[redacted]"]),
    ],
)
def test_lines_are_plain(written, lines):
    assert last_lines(written) == lines


def test_a_key_of_many_lines_is_met_whole():
    body = b"\n".join([b"MIIEpAIBAAKCAQEA" * 4] * 50)
    written = (
        b"-----BEGIN RSA PRIVATE KEY-----\n" + body + b"\n-----END RSA PRIVATE KEY-----\nbye\n"
    )
    assert "MIIE" not in "".join(last_lines(b"x\n" * 100 + written))


def test_they_are_few_and_short():
    lines = last_lines(b"".join(b"line %d\n" % number for number in range(100)))
    assert lines == [f"line {number}" for number in range(100 - MOST_LINES, 100)]
    (line,) = last_lines(b"x" * 5000)
    assert len(line) == MOST_CHARACTERS
    assert line.endswith("…")


@pytest.mark.parametrize("character", ["x", "é", "😀", '"', "\\"])
def test_what_is_recorded_is_bounded_whatever_the_text(character):
    written = (character * 400 + "\n").encode() * 20
    recorded = json.dumps(last_lines(written), separators=(",", ":"))
    assert 2 < len(recorded) <= MOST_BYTES


def test_what_the_window_cuts_is_left_out():
    assert last_lines(b"2hunter2 rest\nwhole\n", is_cut=True) == ["whole"]
    assert last_lines(b"2hunter2 rest", is_cut=True) == ["rest"]


def _spec(env: dict[str, str] | None = None, **wanted: Any) -> Any:
    """The two parts of a spec that are asked for."""
    created_at = iso_time(time.time())
    return SimpleNamespace(env=env or {}, wanted=Wanted(**wanted), created_at=created_at)


def test_what_the_run_was_given_to_keep_is_in_no_record(tmp_path):
    directory = _directory(tmp_path)
    secrets = tmp_path / "secrets"
    secrets.write_text("WORD=hunter2secret\n")
    with open(directory.output_path, "w") as file:
        file.write("using hunter2secret and topsecretpw for PLAIN\n")
    spec = _spec({"DB_PASSWORD": "topsecretpw", "PLAIN": "PLAIN"}, secret_env_file=str(secrets))
    shown = {"stderr": None, "output": ["using [redacted] and [redacted] for PLAIN"]}
    assert read_last_output(directory, spec) == shown
    while secrets.stat().st_ctime <= seconds_of(spec.created_at):  # it moves by clock ticks
        secrets.write_text("WORD=another\n")
    assert read_last_output(directory, spec) is None  # nobody can tell any more what is one
    secrets.unlink()
    assert read_last_output(directory, spec) is None


def _directory(tmp_path) -> RunDirectory:
    directory = RunDirectory(Home(str(tmp_path)), "0" * 20)
    os.makedirs(directory.path)
    return directory


def test_of_a_long_log_only_the_end_is_read(tmp_path):
    directory = _directory(tmp_path)
    with open(directory.output_path, "wb") as file:
        file.truncate(1 << 40)  # a hole: to read it all would take hours
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + b"y" * WINDOW_BYTES + b"\nlast\n")
    assert read_last_output(directory, _spec()) == {"stderr": None, "output": ["last"]}


@pytest.mark.parametrize("kind", ["missing", "fifo", "directory", "link"])
def test_what_is_no_plain_file_holds_nobody_up(tmp_path, kind):
    directory = _directory(tmp_path)
    path = directory.output_path
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        os.mkdir(path)
    elif kind == "link":
        (tmp_path / "private").write_text("not the run's\n")
        os.symlink(tmp_path / "private", path)
    assert read_last_output(directory, _spec(split_stderr=True)) is None
