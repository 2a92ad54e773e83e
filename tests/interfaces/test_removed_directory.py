"""A current directory that was removed: said in plain words, and no obstacle to absolute paths."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import CommandLine, Finished

IN_LIBRARY = """\
import os, sys
from holdfast import PidFile, Runs
from holdfast.errors import WrongUse
for use in (
    lambda: Runs().start(["true"]),
    lambda: Runs().start(["true"], cwd="sub"),
    lambda: Runs().start(["cat"], cwd="/", stdin="file"),
    lambda: PidFile("x.pid"),
    lambda: Runs("here"),
):
    try:
        use()
    except WrongUse as error:
        assert "current directory" in error.message and "cwd=" in error.hint, error
    else:
        raise AssertionError("not refused")
Runs().start(["true"], cwd="/").wait()
"""


@pytest.fixture
def gone(tmp_path: Path) -> list[str]:
    """Words before a command: it then runs in a directory that is not there any more."""
    (tmp_path / "gone").mkdir()
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    return ["sh", "-c", script, str(tmp_path / "gone")]


def _run(words: list[str]) -> Finished:
    done = subprocess.run(words, capture_output=True, check=False, timeout=60)
    return Finished(done.args, done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "true"],
        ["run", "-F", "true"],
        ["run", "-C", "sub", "true"],
        ["guard", "../x.pid", "true"],
        ["check", "../x.pid"],
        ["signal", "TERM", "../x.pid"],
    ],
    ids=" ".join,
)
def test_a_removed_directory_is_wrong_use_with_a_way_out(holdfast: CommandLine, gone, words):
    done = _run([*gone, *holdfast.argv(*words)])
    assert done.returncode == 2
    assert "current directory" in done.stderr
    assert "-C DIR" in done.stderr
    assert done.stdout == ""


def test_a_removed_directory_in_json(holdfast: CommandLine, gone):
    done = _run([*gone, *holdfast.argv("run", "--json", "true")])
    assert (done.returncode, done.json["error"]["code"]) == (2, "wrong-use")


def test_another_directory_can_be_named(holdfast: CommandLine, gone):
    done = _run([*gone, *holdfast.argv("run", "-F", "-C", "/", "pwd")])
    assert (done.returncode, done.stdout) == (0, "/\n")


def test_the_library_says_the_same(gone):
    done = _run([*gone, sys.executable, "-c", IN_LIBRARY])
    assert done.returncode == 0, done.stderr
