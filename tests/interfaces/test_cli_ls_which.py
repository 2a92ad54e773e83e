"""`holdfast ls`: which runs are listed when some are named, and which columns."""

from __future__ import annotations

import os

import pytest

from holdfast.cli.text.run_table import COLUMNS
from tests.support.running import info_of, settled, stop
from tests.support.terminals import on_screen


def listed(holdfast, *words: str, expect: int = 0) -> list[str]:
    return sorted(holdfast("ls", "-q", *words, expect=expect).stdout.split())


def make(holdfast, *names: str) -> None:
    for name in names:
        holdfast("run", "-n", name, "true", expect=0)
        settled(name)


def screen_of(holdfast, *words: str, columns: int) -> list[str]:
    plain = {**os.environ, "NO_COLOR": "1", "COLUMNS": ""}  # as wide as the terminal
    with on_screen(holdfast.argv("ls", *words), columns=columns, env=plain) as screen:
        assert screen.ends() == 0
        return screen.seen.decode().replace("\r", "").splitlines()


def test_names_globs_and_ids_say_which(holdfast):
    make(holdfast, "train-1", "train-2", "web", "web")
    assert listed(holdfast, "train-*") == ["train-1", "train-2"]
    assert listed(holdfast, "TRAIN-1", "w?b") == ["train-1", "web"]
    assert listed(holdfast, "train-*", "--outcome", "failed") == []
    # A name is every run of that name; an id is one.
    both = holdfast("ls", "web", "--json", expect=0).json["runs"]
    assert [one["name"] for one in both] == ["web", "web"]
    one = holdfast("ls", both[1]["id"], "--json", expect=0).json["runs"]
    assert [run["id"] for run in one] == [both[1]["id"]]
    mixed = holdfast("ls", both[0]["id"], "train-1", "w*", "--json", expect=0).json["runs"]
    assert sorted(run["name"] for run in mixed) == ["train-1", "web", "web"]


def test_what_is_named_is_listed_however_old_it_is(holdfast, tmp_path):
    make(holdfast, "old")
    (tmp_path / "recent" / info_of("old").id).unlink()  # as after a day
    assert listed(holdfast) == []
    assert listed(holdfast, "old") == ["old"]


def test_what_names_no_run_is_not_found(holdfast):
    make(holdfast, "train-1")
    said = holdfast("ls", "zz-*", expect=3)
    assert said.stdout == ""
    assert "no run's name matches zz-*" in said.stderr
    assert "did you mean train-1?" in holdfast("ls", "train-2", expect=3).stderr
    # The others are listed all the same.
    said = holdfast("ls", "zz-*", "train-1", expect=3)
    assert "train-1" in said.stdout
    assert "no run's name matches zz-*" in said.stderr
    holdfast("ls", "a/*", expect=2)


def test_piped_columns_are_always_the_same(holdfast):
    make(holdfast, "web", "web")
    head = holdfast("ls", expect=0, env={"COLUMNS": "300"}).stdout.splitlines()[0]
    assert tuple(head.split()) == COLUMNS
    head, first, second, _ = holdfast("ls", "-v", expect=0).stdout.splitlines()
    assert tuple(head.split()) == ("NAME", "ID", *COLUMNS[1:], "COMMAND")
    ids = {line.split()[1] for line in (first, second)}
    assert ids == {one["id"] for one in holdfast("ls", "--json").json["runs"]}
    assert first.endswith("  true")


def test_on_a_terminal_the_command_is_shown_when_there_is_room(holdfast):
    holdfast("run", "-n", "a", "sh", "-c", "exit 3", "with some more words to fill it", expect=0)
    settled("a")
    head, row, _ = screen_of(holdfast, columns=120)
    assert head.split() == ["NAME", "STATE", "OUTCOME", "AGE", "NOTE", "COMMAND"]  # no empty ones
    assert row.endswith("sh -c 'exit 3' 'with some more words to fill it'")
    narrow = screen_of(holdfast, columns=50)
    assert "COMMAND" not in narrow[0]
    assert "exit 3" in narrow[1]
    assert max(map(len, narrow)) <= 50


def test_on_a_terminal_two_runs_of_one_name_are_told_apart(holdfast):
    make(holdfast, "web", "once")
    assert "ID" not in screen_of(holdfast, columns=120)[0].split()
    make(holdfast, "web")
    lines = screen_of(holdfast, columns=120)
    assert "ID" in lines[0].split()
    ids = {one["id"] for one in holdfast("ls", "--json").json["runs"]}
    assert {line.split()[1] for line in lines[1:-1]} == ids


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_no_line_is_wider_than_the_terminal(holdfast, columns):
    words = ["x" * 40, "a long command that would not fit any screen that people use " * 4]
    holdfast("run", "-n", "a-name-of-some-length", "sh", "-c", "exit 77", *words, expect=0)
    settled("a-name-of-some-length")
    for line in screen_of(holdfast, columns=columns):
        assert len(line) <= columns


def test_a_start_that_run_reported_as_not_found_does_not_stay_in_plain_ls(holdfast, tmp_path):
    (tmp_path / "data").write_text("no program\n")
    holdfast("run", "-n", "typo", "nonesuch-command", expect=127)
    holdfast("run", "-n", "data", str(tmp_path / "data"), expect=126)
    make(holdfast, "fine")
    said = holdfast("ls", expect=0).stdout
    assert said.splitlines()[-1] == "1 ended in 24h (2 not started: ls --all)"
    assert listed(holdfast) == ["fine"]
    for words in (["--all"], ["--since", "1h"], ["*"], ["fine", "typo", "data"]):
        assert listed(holdfast, *words) == ["data", "fine", "typo"]
    assert listed(holdfast, "--outcome", "never_started") == ["data", "typo"]
    assert info_of("typo").exit_code == 127  # the record is kept


def test_a_secret_is_not_shown_in_the_command(holdfast):
    holdfast("run", "-n", "a", "true", "--password", "hunter2", expect=0)
    settled("a")
    assert "hunter2" not in "\n".join(screen_of(holdfast, "-v", columns=200))
    assert "hunter2" not in holdfast("ls", "-v", expect=0).stdout


def test_ls_of_a_live_run_shows_what_it_runs(holdfast):
    holdfast("run", "-n", "going", "sleep", "600", expect=0)
    assert "sleep 600" in "\n".join(screen_of(holdfast, "go*", columns=160))
    stop(holdfast, "going")
