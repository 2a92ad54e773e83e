"""The test harness itself: its nets catch what they are for."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support import waiting
from tests.support.features import OPTIONAL, PROBES, missing, needs, packages
from tests.support.leftovers import TestProcesses
from tests.support.waiting import (
    eventually,
    open_for_reader,
    wait_for_exit,
    wait_until_reaped,
)

FORK_AND_WAIT = "import os, time; os.fork() or (os.setsid(), print(flush=True)); time.sleep(600)"


def test_each_test_has_its_own_home_and_no_other_holdfast_variable(tmp_path):
    own = {name: value for name, value in os.environ.items() if name.startswith("HOLDFAST_")}
    assert own.pop("HOLDFAST_HOME") == str(tmp_path)
    assert list(own) == ["HOLDFAST_TEST_TAG"]


def test_left_processes_are_found_and_ended_also_after_setsid(monkeypatch):
    processes = TestProcesses(tag="planted-leftover")
    monkeypatch.setenv("HOLDFAST_TEST_TAG", processes.tag)
    with subprocess.Popen([sys.executable, "-c", FORK_AND_WAIT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        left = {process.pid: process for process in processes.left_after(0)}
        assert len(left) == 2
        assert f" s old, below {os.getpid()} (" in left.pop(parent.pid).how
        (child,) = left.values()
        assert f" s old, below {parent.pid} ({sys.executable} -c " in child.how
        processes.end()
        assert processes.left() == []


def test_a_forked_child_without_exec_is_found():
    processes = TestProcesses(tag="not in any environment")
    release, hold = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hold)
        os.read(release, 1)
        os._exit(0)
    os.close(release)
    assert [process.pid for process in processes.left()] == [child]
    os.close(hold)
    os.waitpid(child, 0)
    assert processes.left() == []


def test_eventually_returns_the_value_or_says_what_it_last_saw():
    values = iter([0, None, "here"])
    assert eventually(lambda: next(values)) == "here"
    with pytest.raises(AssertionError, match="the moon is full; last saw 0"):
        eventually(lambda: 0, timeout=0, why="the moon is full")
    empty: dict[str, int] = {}
    with pytest.raises(AssertionError, match="KeyError"):
        eventually(lambda: empty["a"], timeout=0, ignoring=(KeyError,))
    with pytest.raises(KeyError):
        eventually(lambda: empty["a"], timeout=0)


def test_a_change_of_a_watched_directory_is_not_waited_for_by_looking_again(tmp_path, monkeypatch):
    monkeypatch.setattr(waiting, "WATCHED_POLL_SECONDS", 50)
    looks: list[bool] = []

    def look() -> bool:
        looks.append((tmp_path / "later" / "file").exists())
        if len(looks) == 1:
            threading.Timer(0.05, (tmp_path / "later").mkdir).start()
        if len(looks) == 2:
            threading.Timer(0.05, (tmp_path / "later" / "file").touch).start()
        return looks[-1]

    # What comes into being is watched from the next look on.
    paths = [tmp_path, tmp_path / "later"]
    assert eventually(look, timeout=40, watching=lambda: paths)
    assert len(looks) == 3


def test_the_end_of_a_process_and_its_reaping_are_awaited():
    with subprocess.Popen(["sleep", "600"]) as process:
        with pytest.raises(AssertionError, match="has ended"):
            wait_for_exit(process.pid, timeout=0)
        process.kill()
        wait_for_exit(process.pid)
        with pytest.raises(AssertionError, match="is reaped"):
            wait_until_reaped(process.pid, timeout=0)
        process.wait()
        wait_until_reaped(process.pid)
        wait_for_exit(process.pid)


def test_a_reader_of_a_fifo_is_awaited(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(AssertionError, match="a reader"):
        open_for_reader(fifo, timeout=0.01)
    with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE) as reader:
        with open(open_for_reader(fifo), "wb") as writer:
            writer.write(b"hello")
        assert reader.communicate()[0] == b"hello"


TESTS = Path(__file__).parents[1]
FOR_EVER = 60  # what a program does that has nothing else to do


def _unexplained_sleeps(source: str) -> list[int]:
    """Lines with a sleep of 0.2 s or more and no comment that says why."""
    lines = source.splitlines()
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    sleeps = [call for call in calls if call.args and ast.unparse(call.func).endswith("sleep")]
    return [
        call.lineno
        for call in sleeps
        if isinstance(call.args[0], ast.Constant)
        and 0.2 <= float(str(call.args[0].value)) < FOR_EVER
        and "  # " not in lines[call.lineno - 1]
    ]


def test_a_sleep_says_why_time_itself_is_what_is_tested():
    found = {path: _unexplained_sleeps(path.read_text()) for path in TESTS.rglob("*.py")}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_a_sleep_without_a_reason_is_noticed():
    assert _unexplained_sleeps("time.sleep(1)\nsleep(0.2)\ntime.sleep(0.1)\n") == [1, 2]
    assert _unexplained_sleeps("time.sleep(1)  # the time over which nothing may happen\n") == []


@pytest.mark.parametrize("feature", sorted(PROBES))
def test_a_missing_feature_skips_here_and_fails_in_ci(feature, monkeypatch):
    monkeypatch.setitem(PROBES, feature, lambda: "planted")
    missing.cache_clear()
    try:
        monkeypatch.delenv("CI", raising=False)
        with pytest.raises(pytest.skip.Exception, match=f"needs {feature}: planted"):
            needs(feature)
        monkeypatch.setenv("CI", "true")
        expected = pytest.skip.Exception if feature in OPTIONAL else pytest.fail.Exception
        with pytest.raises(expected, match="planted"):
            needs(feature)
    finally:
        missing.cache_clear()


@pytest.mark.parametrize("program", sorted(packages()))
def test_a_missing_program_is_named_with_its_package(program, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert f"apt-get install {packages()[program]}" in str(PROBES[program]())


def test_the_command_line_fixture_reports_bytes_and_exit_code(holdfast):
    done = holdfast("--no-such-option-exists")
    assert done.raw.decode() == done.stdout
    with pytest.raises(AssertionError, match="not 99"):
        holdfast("--no-such-option-exists", expect=99)


def _single_users(sources: dict[str, str]) -> dict[str, list[str]]:
    """Modules of support/ that one test file alone imports: they belong beside it."""
    users: dict[str, set[str]] = {}
    for name, text in sources.items():
        for module, several in re.findall(r"\btests\.support(?:\.(\w+)| import (.*))", text):
            for one in (module, *re.findall(r"\w+", several)):
                users.setdefault(one, set()).add(name)
    modules = (Path(name).stem for name in sources if name.startswith("support/"))
    alone = {one: sorted(users[one]) for one in modules if len(users.get(one, ())) == 1}
    return {one: who for one, who in alone.items() if not who[0].startswith("support/")}


def test_a_support_module_has_several_users():
    files = [path for folder in (TESTS, TESTS.parent / "bench") for path in folder.rglob("*.py")]
    texts = {
        str(path.relative_to(TESTS) if path.is_relative_to(TESTS) else path): path.read_text()
        for path in files
    }
    assert _single_users(texts) == {}


def test_a_support_module_with_one_user_is_noticed():
    planted = {
        "support/a.py": "",
        "support/b.py": "from tests.support.c import x",
        "support/c.py": "",
        "unit/test_x.py": "from tests.support.a import y\nfrom tests.support import b",
        "unit/test_y.py": "from tests.support import b",
    }
    assert _single_users(planted) == {"a": ["unit/test_x.py"]}
