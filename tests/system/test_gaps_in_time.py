"""A shim that did not run for a while does not hold that time against the workload.

Suspend, `docker pause` and a closed lid stop shim and workload together, as the freezer does here.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from holdfast.run.outcomes import Outcome
from tests.support.cgroups import CGroup, freezer_cgroup
from tests.support.cli import CommandLine
from tests.support.features import needs
from tests.support.holding import holding, pass_time
from tests.support.running import (
    ended,
    events_of,
    info_of,
    run_of,
    shim_pid,
    wait_for_events,
    wait_for_output,
    workload_pid,
)
from tests.support.waiting import wait_for_exit

pytestmark = pytest.mark.usefixtures("runs")  # what is left is stopped

IDLE_SECONDS = 5

# Silent at first; then it goes on to write, and ends when it is told to.
QUIET = """
import os, sys, time
print("up", flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.02)
print("more", flush=True)
sys.exit(0)
"""


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _start(
    holdfast: CommandLine, tmp_path: Path, *options: object, env: dict[str, str] | None = None
) -> Path:
    go = tmp_path / "go"
    words = [sys.executable, "-S", "-c", QUIET, str(go)]
    holdfast("run", "-n", "a", "--grace", "0", *options, *words, env=env, expect=0)
    wait_for_output("a", b"up")
    return go


def _freeze(group: CGroup) -> None:
    group.add(shim_pid("a"))
    group.add(workload_pid("a"))
    group.freeze()


def test_a_freeze_is_no_silence(holdfast: CommandLine, tmp_path: Path) -> None:
    needs("root", "freezer_cgroup")
    go = _start(holdfast, tmp_path, "--idle-timeout", IDLE_SECONDS)
    with freezer_cgroup() as group:
        _freeze(group)
        pass_time(_now() + IDLE_SECONDS + 1.5)
        go.touch()  # it will write as soon as it can
        group.thaw()
        info = ended("a")
    assert (info.outcome, info.exit_code) == (Outcome.SUCCEEDED, 0), events_of("a", "stop_begun")


def test_what_was_silent_before_a_freeze_is_stalled_after_it_in_its_time(
    holdfast: CommandLine, tmp_path: Path
) -> None:
    needs("root", "freezer_cgroup")
    _start(holdfast, tmp_path, "--idle-timeout", IDLE_SECONDS)
    with freezer_cgroup() as group:
        _freeze(group)
        pass_time(_now() + IDLE_SECONDS + 1.5)
        group.thaw()
        info = ended("a")
    assert info.outcome is Outcome.STALLED
    assert info.duration_seconds is not None
    assert info.duration_seconds > 2 * IDLE_SECONDS  # but for what passed before the freeze


def test_a_gap_in_the_middle_of_a_look_is_no_silence(holdfast: CommandLine, tmp_path: Path) -> None:
    with holding(tmp_path / "fifo", "idle") as hold:
        go = _start(holdfast, tmp_path, "--idle-timeout", IDLE_SECONDS, env=hold.env)
        hold.arrived()
        pass_time(_now() + IDLE_SECONDS + 1)
        hold.release()
        wait_for_events("a", "members_seen")  # it goes on
        go.touch()
        info = ended("a")
    assert (info.outcome, info.exit_code) == (Outcome.SUCCEEDED, 0), events_of("a", "stop_begun")


def test_a_freeze_counts_for_the_deadline_but_an_exit_comes_first(
    holdfast: CommandLine, tmp_path: Path
) -> None:
    go = _start(holdfast, tmp_path, "--timeout", IDLE_SECONDS)
    shim, workload = shim_pid("a"), workload_pid("a")
    os.kill(shim, signal.SIGSTOP)
    try:
        go.touch()
        wait_for_exit(workload, why="it has ended")
        pass_time(_now() + IDLE_SECONDS)
    finally:
        os.kill(shim, signal.SIGCONT)
    assert ended("a").outcome is Outcome.SUCCEEDED


def test_output_that_came_while_the_shim_was_stopped_counts(
    holdfast: CommandLine, tmp_path: Path
) -> None:
    go = _start(holdfast, tmp_path, "--idle-timeout", IDLE_SECONDS)
    shim = shim_pid("a")
    os.kill(shim, signal.SIGSTOP)
    try:
        pass_time(_now() + IDLE_SECONDS + 1)
        go.touch()
        wait_for_output("a", b"more")
    finally:
        os.kill(shim, signal.SIGCONT)
    assert ended("a").outcome is Outcome.SUCCEEDED
    assert b"more" in run_of("a").output()
    assert info_of("a").ended_by == "itself"
