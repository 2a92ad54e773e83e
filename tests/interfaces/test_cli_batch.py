"""`run --batch`: one call starts many runs, each with a result line of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.manage.runs import Runs
from tests.support.running import ended, environment_of, info_of, output_of, stop


def _write(path: Path, *lines: object) -> Path:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def _wanted(name: str) -> dict[str, Any]:
    return ended(name).wanted or {}


def _names() -> set[str | None]:
    return {info.name for info in Runs().list()}


def test_each_line_is_a_run_and_its_name_is_printed_in_order(holdfast, tmp_path):
    lines = (
        "echo 'one word' \"two\"",
        "",
        "  # a comment",
        {"command": ["sh", "-c", "exit 3"], "name": "three", "tags": {"a": "own"}},
        {"argv": ["true"], "name": "four", "idle-timeout": "5m"},
    )
    batch = _write(tmp_path / "batch", *lines)
    done = holdfast("run", "--batch", batch, "--tag", "a=b", "--tag", "c=d", "-n", "n", expect=0)
    assert done.stdout.split() == ["n-1", "three", "four"]
    assert done.stderr == ""
    assert ended("three").exit_code == 3  # a run that fails is no failure of the start
    assert ended("n-1").tags == {"a": "b", "c": "d"}
    assert info_of("three").tags == {"a": "own", "c": "d"}
    assert _wanted("four")["idle_timeout_seconds"] == 300
    assert output_of("n-1") == b"one word two\n"


def test_a_batch_comes_from_stdin_and_options_are_defaults(holdfast, tmp_path):
    own = {"name": "b", "cwd": str(tmp_path), "env": {"A": "own", "C": None}}
    lines = f"sleep 600\n{json.dumps({'command': ['sleep', '600'], **own})}\n"
    words = ("run", "--batch", "-", "-C", "/", "-e", "A=1", "-e", "B=2", "-e", "C=3", "-n", "a")
    done = holdfast(*words, stdin=lines.encode(), expect=0)
    assert done.stdout.split() == ["a-1", "b"]
    assert info_of("a-1").cwd == "/"
    assert info_of("b").cwd == str(tmp_path)
    environment = environment_of("b")
    assert (environment["A"], environment["B"], environment.get("C")) == ("own", "2", None)
    stop(holdfast, "a-1", "b")


def test_a_line_that_fails_is_told_with_its_number_and_the_others_start(holdfast, tmp_path):
    holdfast("run", "-n", "taken", "sleep", "600", expect=0)
    lines = (
        {"command": ["true"], "name": "one"},
        {"command": ["no-such-program"], "name": "two"},
        {"command": ["true"], "name": "taken"},
        {"command": ["true"], "name": "four"},
    )
    done = holdfast("run", "--batch", _write(tmp_path / "batch", *lines), expect=127)
    assert done.stdout.split() == ["one", "two", "four"]  # a run that never began is one, too
    assert "holdfast: line 2: no-such-program: command not found in PATH\n" in done.stderr
    assert "holdfast: line 3: taken is already running" in done.stderr
    assert ended("four").outcome == "succeeded"
    stop(holdfast, "taken")


def test_json_is_one_line_for_each(holdfast, tmp_path):
    lines = ("# none", {"command": ["true"], "name": "one"}, {"command": ["nope"], "name": "two"})
    done = holdfast("--json", "run", "--batch", _write(tmp_path / "batch", *lines), expect=127)
    one, two = done.json_lines
    assert (one["line"], one["name"], one["schema"]) == (2, "one", 1)
    assert one["id"] == info_of("one").id
    assert (two["line"], two["error"]["code"], two["name"]) == (3, "never-started", "two")


def test_quiet_prints_nothing_but_failures(holdfast, tmp_path):
    batch = _write(tmp_path / "batch", "true", "no-such-program")
    done = holdfast("-q", "run", "--batch", batch, expect=127)
    assert done.stdout == ""
    assert done.stderr.startswith("holdfast: line 2: ")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sleep 1 > file", "not plain words"),
        ("echo $HOME", "not plain words"),
        ("echo *.py", "not plain words"),
        ("A=1 env", "not plain words"),
        ("echo 'no end", "a quote or an expansion has no end"),
        ('{"command": ["true"]', "not JSON"),
        ('{"name": "a"}', "there is no command to run"),
        ('{"command": []}', "there is no command to run"),
        ('{"command": "sleep 1"}', "command: one text"),
        ('{"command": ["true"], "argv": ["true"]}', "is there twice"),
        ('{"command": ["true"], "timeot": 1}', "there is no option 'timeot'"),
        ('{"command": ["true"], "timeout": "soon"}', "timeout"),
        ('{"command": ["true"], "name": "a/b"}', "a/b"),
        ('{"command": ["true"], "env": 3}', "env"),
        ('{"command": ["true"], "tags": ["a"]}', "tag"),
        ('{"command": ["true"], "stdin": "-"}', "stdin"),
        ('{"command": ["true"], "preset": "none"}', "no preset 'none'"),
        ('{"command": ["true"], "preset": 3}', "preset"),
        ('{"command": ["true"], "env_file": "/nowhere"}', "/nowhere can't be read"),
        ('{"command": ["true"], "env_file": 3}', "env_file"),
        ('{"command": ["true"], "resumed_from": "x"}', "there is no option 'resumed_from'"),
        ('{"command": ["true"], "name": "GOOD"}', "the name GOOD is that of"),
    ],
)
def test_a_line_that_cannot_be_used_starts_nothing(holdfast, tmp_path, line, said):
    batch = _write(tmp_path / "batch", {"command": ["true"], "name": "good"}, "# more", line)
    done = holdfast("run", "--batch", batch, expect=2)
    assert done.stdout == ""
    assert f"holdfast: {batch}, line 3: " in done.stderr
    assert said in done.stderr
    assert "nothing was started" in done.stderr
    assert "Traceback" not in done.stderr
    assert _names() == set()
    document = holdfast("--json", "run", "--batch", batch, expect=2).json
    assert "line 3" in document["error"]["message"]


def test_all_lines_that_cannot_be_used_are_counted(holdfast, tmp_path):
    batch = _write(tmp_path / "batch", "a | b", "true", "{", '{"command": [1]}')
    done = holdfast("run", "--batch", batch, expect=2)
    assert "line 1: " in done.stderr
    assert "(and 2 more of them)" in done.stderr


def test_a_key_makes_a_batch_repeatable(holdfast, tmp_path):
    batch = _write(tmp_path / "batch", "echo a", "echo b", "echo a")
    first = holdfast("run", "--batch", batch, "--key", "k", expect=0).stdout.split()
    assert len(set(first)) == 3
    again = holdfast("run", "--batch", batch, "--key", "k", "--tag", "x=y", expect=0)
    assert again.stdout.split() == first
    assert "3 of 3 were started before" in again.stderr
    _write(batch, "echo b", "echo new", "echo a", "echo a")
    later = holdfast("run", "--batch", batch, "--key", "k", expect=0).stdout.split()
    assert later[0] == first[1]
    assert later[1] not in first
    assert later[2:] == [first[0], first[2]]


@pytest.mark.parametrize(
    "words", [("true",), ("-F",), ("--stdin", "-"), ("--timeout", "soon")], ids=lambda w: w[0]
)
def test_what_makes_no_sense_with_a_batch_is_refused(holdfast, words):
    done = holdfast("run", "--batch", "-", *words, stdin=b"true\n", expect=2)
    assert done.stderr.startswith("holdfast: ")
    assert _names() == set()


def test_a_batch_that_cannot_be_read_is_refused(holdfast, tmp_path):
    assert "can't be read" in holdfast("run", "--batch", tmp_path / "none", expect=2).stderr
    assert "can't be read" in holdfast("run", "--batch", tmp_path, expect=2).stderr


def test_a_batch_without_a_command_starts_nothing_and_says_so(holdfast):
    done = holdfast("run", "--batch", "-", stdin=b"\n# nothing today\n", expect=0)
    assert (done.stdout, done.stderr) == ("", "there is no command in stdin\n")
    assert holdfast("-q", "run", "--batch", "-", expect=0).stderr == ""


def test_a_preset_of_a_line_lies_below_what_was_typed(holdfast, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "holdfast").mkdir()
    (tmp_path / "holdfast" / "config.toml").write_text(
        '[preset.slow]\ntimeout = "2h"\ngrace = "3s"\n[preset.slow.tags]\nkind = "slow"\n'
    )
    batch = _write(tmp_path / "batch", {"command": ["true"], "preset": "slow", "name": "a"}, "true")
    holdfast("run", "--batch", batch, "--grace", "7s", "-n", "n", expect=0)
    assert _wanted("a")["timeout_seconds"] == 7200
    assert _wanted("a")["grace_seconds"] == 7
    assert info_of("a").tags == {"kind": "slow"}
    assert _wanted("n-2")["timeout_seconds"] is None


def test_many_more_than_are_started_at_once_all_run_and_end(holdfast):
    done = holdfast("run", "--batch", "-", stdin=b"true\n" * 40, expect=0)
    names = done.stdout.split()
    assert len(set(names)) == 40
    holdfast("wait", *names, expect=0)
