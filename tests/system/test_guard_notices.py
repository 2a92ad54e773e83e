"""Whoever takes over a pid file says whose record it replaces: dead, or its PID reused."""

from __future__ import annotations

import logging
import os
import subprocess
from pathlib import Path

import pytest

from holdfast.process.identity import ProcessIdentity
from holdfast.process.pidfile import PidFile
from tests.support import pidfile_scenes
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in


@pytest.fixture
def stale(tmp_path: Path) -> tuple[Path, int]:
    """A pid file of a process that has ended, and its number."""
    child = subprocess.Popen(["sleep", "600"])
    identity = ProcessIdentity.of(child.pid)
    path = tmp_path / "x.pid"
    path.write_text(f"{identity.pid} {identity.token}\n")
    child.kill()
    child.wait()
    return path, child.pid


def test_holding_the_file_of_a_dead_process_is_logged(stale, caplog):
    path, number = stale
    with caplog.at_level(logging.INFO, "holdfast"), PidFile(path).hold():
        pass
    (record,) = caplog.records
    assert record.name == "holdfast"
    assert f"{path}: replaces the record of {number}, " in record.getMessage()


def test_nothing_is_said_where_nothing_is_replaced(tmp_path, caplog):
    with caplog.at_level(logging.DEBUG, "holdfast"), PidFile(tmp_path / "x.pid").hold():
        pass
    assert caplog.records == []


def test_guard_says_so_with_v_alone(holdfast, stale, tmp_path):
    path, number = stale
    before = path.read_text()
    silent = holdfast("guard", path, "true", expect=0)
    assert silent.stderr == ""
    path.write_text(before)
    told = holdfast("guard", "-v", path, "true", expect=0)
    assert f"replaces the record of {number}, " in told.stderr
    assert holdfast("guard", "-v", tmp_path / "new.pid", "true", expect=0).stderr == ""


def test_reused_is_said_apart_from_dead(tmp_path):
    needs("root", "pid_namespace")
    facts = run_in(Place(), pidfile_scenes.notices, path=str(tmp_path / "x.pid"))
    assert len(facts["dead"]) == len(facts["reused"]) == 1
    (dead,), (reused,) = facts["dead"], facts["reused"]
    assert "which is dead: " in dead
    assert "PID was reused" not in dead
    assert "whose PID was reused: " in reused
    assert "which is dead" not in reused
    assert facts["untouched"]


def test_a_notice_that_fails_gives_the_file_back(stale):
    path, _ = stale

    def fail(_text: str) -> None:
        raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        PidFile(path, notice=fail).acquire()
    with PidFile(path).hold() as identity:
        assert identity.pid == os.getpid()
