"""What `start` can't use is refused by name, and nothing is written: no run, no marker, no home."""

from __future__ import annotations

import asyncio
import signal
import subprocess

import pytest

from holdfast import AsyncRuns, Runs
from holdfast.errors import InvalidName, InvalidOption, WrongUse

WRONG_COMMANDS = [
    [],
    "sleep 60",
    b"sleep",
    None,
    5,
    ["sleep", 60],
    ["sleep", None],
    [b"sleep"],
    ["a\0b"],
    ["\ud800"],
]

WRONG_OPTIONS = [
    ("env", 5, "env"),
    ("env", {"A": 1}, "env"),
    ("env", {"A": b"x"}, "env"),
    ("env", {1: "x"}, "env"),
    ("env", {"": "x"}, "env"),
    ("env", {"A=B": "x"}, "env"),
    ("env", {"A": "x\0"}, "env"),
    ("env", {"A\0": "x"}, "env"),
    ("env", {"A": "\ud800"}, "env"),
    ("tags", 5, "tag"),
    ("tags", {"a": 1}, "tag"),
    ("tags", {"a": None}, "tag"),
    ("tags", {"": "x"}, "tag"),
    ("tags", {"a=b": "x"}, "tag"),
    ("tags", {"a": "\0"}, "tag"),
    ("name", 5, "name"),
    ("key", 5, "key"),
    ("key", "a\0", "key"),
    ("key", "\udfff", "key"),
    ("agent", 5, "agent"),
    ("agent", None, "agent"),
    ("agent", "a\0", "agent"),
    ("pty", "yes", "pty"),
    ("pty", 1, "pty"),
    ("replace", "no", "replace"),
    ("worktree", 5, "worktree"),
    ("worktree", "a\0", "worktree"),
    ("cwd", 5, "cwd"),
    ("cwd", b"/tmp", "cwd"),
    ("cwd", "", "cwd"),
    ("cwd", "/tmp\0", "cwd"),
    ("stdin", 5, "stdin"),
    ("stdin", "", "stdin"),
    ("stdin", bytearray(b"x"), "stdin"),
    ("stdin", "a\0", "stdin"),
    ("timeout", True, "timeout"),
    ("timeout", -1, "timeout"),
    ("timeout", 0, "timeout"),
    ("timeout", float("nan"), "timeout"),
    ("timeout", float("inf"), "timeout"),
    ("timeout", 10**400, "timeout"),
    ("timeout", [1], "timeout"),
    ("idle_timeout", -0.5, "idle-timeout"),
    ("drain", -1, "drain"),
    ("grace", -1, "grace"),
    ("grace", False, "grace"),
    ("sample_interval", -1, "sample-interval"),
    ("workload_within", -1, "workload-within"),
    ("memory_max", 1.5, "memory-max"),
    ("memory_max", True, "memory-max"),
    ("memory_max", 2**80, "memory-max"),
    ("log_max", 1.5, "log-max"),
    ("log_max", 0, "log-max"),
    ("done_when", 5, "done-when"),
    ("done_when", "(", "done-when"),
    ("stop_signal", signal.SIGTERM, "stop-signal"),
    ("restart", True, "restart"),
    ("leftovers", "perhaps", "leftovers"),
    ("workload", b"x", "workload"),
    ("require_workload", 1, "require-workload"),
    ("split_stderr", "yes", "split-stderr"),
    ("independent", 0, "independent"),
    ("notify", ["mail"], "notify"),
    ("notify", "a\0", "notify"),
]


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def _refused(home, argv, **options):
    with pytest.raises(InvalidOption) as refusal:
        Runs(home).start(argv, **options)
    with pytest.raises(InvalidOption):
        asyncio.run(AsyncRuns(home).start(argv, **options))
    assert not home.exists(), "nothing is written"
    return refusal.value


@pytest.mark.parametrize("argv", WRONG_COMMANDS, ids=repr)
def test_a_command_that_none_could_run_is_refused(home, argv):
    error = _refused(home, argv)
    assert error.option == "argv"
    assert error.value == argv or error.value in argv or "\0" in error.value
    assert error.expected


@pytest.mark.parametrize(("name", "value", "option"), WRONG_OPTIONS, ids=repr)
def test_a_value_that_none_could_use_is_refused(home, name, value, option):
    error = _refused(home, ["touch", str(home / "ran")], **{name: value})
    assert error.option == option
    assert error.expected
    assert str(error).startswith(f"{name}: ")


@pytest.mark.parametrize("name", ["", "a\0", "\ud800", "a/b"])
def test_a_name_that_could_not_be_a_file_is_refused(home, name):
    with pytest.raises((InvalidName, InvalidOption)):
        Runs(home).start(["true"], name=name)
    assert not home.exists()


def test_tags_of_every_start_are_checked_too():
    with pytest.raises(InvalidOption):
        Runs(tags={"a": 1})  # type: ignore[dict-item]


def test_an_unknown_option_is_named(home):
    with pytest.raises(WrongUse, match="colour"):
        Runs(home).start(["true"], colour="red")
    assert not home.exists()


def test_a_secret_is_not_repeated(home):
    error = _refused(home, ["true"], env={"TOKEN": b"hunter2"})
    assert "hunter2" not in str(error)
    assert "TOKEN" in str(error)
    assert "hunter2" not in str(_refused(home, ["login", "--password=hunter2\0"]))
    assert "hunter2" not in str(_refused(home, "login --password=hunter2"))


def test_what_python_has_for_bytes_that_are_not_text_is_passed_on(home):
    odd = b"\xff\xfe".decode("utf-8", "surrogateescape")
    run = Runs(home).start(["printenv", "ODD"], env={"ODD": odd}, grace=0, timeout=60)
    assert run.wait(30).outcome == "succeeded"
    assert run.output() == b"\xff\xfe\n"


def test_a_variable_without_a_name_is_not_passed_on(holdfast):
    shell = ["env", "=x=y", *holdfast.argv("run", "-F", "sh", "-c", "exit 7")]
    assert subprocess.run(shell, check=False, timeout=60).returncode == 7
