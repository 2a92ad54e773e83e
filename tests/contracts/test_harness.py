"""The test harness itself: its nets catch what they are for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.features import OPTIONAL, PROBES, missing, needs
from tests.support.leftovers import TestProcesses
from tests.support.waiting import eventually

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
        assert len(processes.left_after(0)) == 2
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


def test_the_command_line_fixture_reports_bytes_and_exit_code(holdfast):
    done = holdfast("--no-such-option-exists")
    assert done.raw.decode() == done.stdout
    with pytest.raises(AssertionError, match="not 99"):
        holdfast("--no-such-option-exists", expect=99)
