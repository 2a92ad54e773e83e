"""L3: the launcher is killed at any point: a supervised run or nothing, and the name is free."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from holdfast.process.stamped import find_stamped
from holdfast.run.crashpoints import POINTS
from holdfast.run.directory import RunDirectory
from holdfast.run.facts import State
from holdfast.run.home import Home
from holdfast.run.lifecycle import fold
from tests.support.recovering import known, recovered
from tests.support.running import stop
from tests.support.waiting import eventually

LAUNCHER_POINTS = [point for point in POINTS if point.startswith("launcher.")]


def _tokens_on_record():
    home = Home.locate()
    events = [RunDirectory(home, run_id).read_events().events for run_id in home.run_ids()]
    return set().union(*(fold(one).named_tokens() for one in events))


def _unrecorded():
    """Processes with the stamp of a run that no record names; a fresh shim is named in a moment."""
    ours = set(Home.locate().run_ids())
    stamped = [(run_id, member) for run_id, member in find_stamped() if run_id in ours]
    on_record = _tokens_on_record()
    return [member for _, member in stamped if member.identity.token not in on_record]


def _workloads():
    ours = set(Home.locate().run_ids())
    return [m for run_id, m in find_stamped() if run_id in ours and m.comm == "sleep"]


@pytest.mark.parametrize("point", LAUNCHER_POINTS)
@pytest.mark.parametrize("words", [(), ("--key", "job-1")], ids=["name", "name and key"])
def test_L3_the_launcher_dies_at(holdfast, point, words):
    crash = {"HOLDFAST_CRASH_AT": f"{point}@launcher"}
    killed = holdfast("run", "-n", "a", *words, "sleep", "600", env=crash)
    reached = killed.returncode == -signal.SIGKILL
    assert reached is (point != "launcher.key-written" or bool(words))
    eventually(lambda: not _unrecorded(), why="no process is without a record")

    again = holdfast("run", "-n", "a", *words, "sleep", "600")
    assert again.returncode in ((0,) if words else (0, 4)), again.stderr
    workloads = eventually(_workloads, why="the command runs")
    assert len(workloads) == 1, "one copy, whoever started it"
    info = known("a")
    assert info.state is State.RUNNING
    assert info.workload["token"] == workloads[0].identity.token

    told = recovered(holdfast)
    assert {one["action"] for one in told.values()} <= {"never started"}
    assert recovered(holdfast) == {}
    stop(holdfast, "a")
    home = Home.locate()
    assert home.run_ids(active=True) == []


@pytest.mark.parametrize("after_ms", [0, 20, 40, 60, 90, 130])
def test_L3_the_launcher_is_killed_at_some_time(holdfast, after_ms):
    launcher = subprocess.Popen(
        holdfast.argv("run", "-n", "a", "sleep", "600"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        launcher.wait(after_ms / 1000)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()
    eventually(lambda: not _unrecorded(), why="no process is without a record")
    assert holdfast("run", "-n", "a", "sleep", "600").returncode in (0, 4)
    assert len(eventually(_workloads, why="the command runs")) == 1
    stop(holdfast, "a")


def test_L3_a_directory_without_a_spec_is_removed_when_it_is_old(holdfast):
    holdfast("run", "true", expect=0)
    crash = {"HOLDFAST_CRASH_AT": "launcher.directory-made@launcher"}
    holdfast("run", "-n", "a", "true", env=crash)
    home = Home.locate()
    (empty,) = [i for i in home.run_ids() if not RunDirectory(home, i).exists()]
    path = RunDirectory(home, empty).path
    assert recovered(holdfast) == {}, "a launcher may be about to write it"
    assert os.path.isdir(path)
    old = "00" + empty[2:]  # made long ago
    os.rename(path, f"{home.runs_path}/{old}")
    os.utime(f"{home.runs_path}/{old}", (0, 0))
    assert recovered(holdfast)[old]["action"] == "removed"
    assert old not in home.run_ids()
