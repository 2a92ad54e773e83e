"""The wall clock is set while a run lasts, or time namespaces differ: durations and limits hold."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.manage.runs import Runs
from holdfast.process.clock import seconds_of
from holdfast.run.outcomes import Outcome
from tests.support.cli import CommandLine
from tests.support.features import needs
from tests.support.holding import pass_time
from tests.support.running import ended, events_of, info_of, wait_for_output
from tests.support.shims import kill_shim
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("runs")  # what is left is stopped

SOURCE = Path(__file__).parents[1] / "support/stepped_clock.c"
DAY = 86400


class SteppedClock:
    """A wall clock for preloading, which can be set while it is in use."""

    def __init__(self, folder: Path) -> None:
        library = folder / "stepped_clock.so"
        compiler = ["cc", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(compiler, check=True, timeout=60)
        self._file = folder / "step"
        self.env = {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(self._file)}
        self.step(0)

    def step(self, seconds: int) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(str(seconds))
        fresh.replace(self._file)


@pytest.fixture
def clock(tmp_path: Path) -> SteppedClock:
    needs("cc")
    return SteppedClock(tmp_path)


def _quiet(tmp_path: Path) -> list[str]:
    program = "import os, sys, time\nprint('up', flush=True)\n"
    program += "while not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"
    return [sys.executable, "-S", "-c", program, str(tmp_path / "go")]


@pytest.mark.parametrize("seconds", [-DAY, DAY], ids=["back", "forward"])
def test_the_duration_of_a_run_is_how_long_it_lasted(
    holdfast: CommandLine, tmp_path: Path, clock: SteppedClock, seconds: int
) -> None:
    holdfast("run", "-n", "a", *_quiet(tmp_path), env=clock.env, expect=0)
    wait_for_output("a", b"up")
    [started] = events_of("a", "attempt_started")
    pass_time(started["boottime"] + 1)
    clock.step(seconds)
    (tmp_path / "go").touch()
    info = ended("a")
    assert info.ended_at is not None
    assert info.started_at is not None
    assert abs(seconds_of(info.ended_at) - seconds_of(info.started_at)) > DAY / 2  # it was set
    assert info.duration_seconds is not None
    assert 1 <= info.duration_seconds < 600


@pytest.mark.parametrize("seconds", [-DAY, DAY], ids=["back", "forward"])
def test_limits_do_not_follow_a_clock_that_is_set(
    holdfast: CommandLine, tmp_path: Path, clock: SteppedClock, seconds: int
) -> None:
    """The shim's clock and the workload's: both see the step."""
    limits = ["--timeout", "60", "--idle-timeout", "60"]
    holdfast("run", "-n", "a", *limits, *_quiet(tmp_path), env=clock.env, expect=0)
    wait_for_output("a", b"up")
    clock.step(seconds)
    [started] = events_of("a", "attempt_started")
    pass_time(started["boottime"] + 2)
    assert info_of("a").state == "running"
    (tmp_path / "go").touch()
    assert ended("a").outcome is Outcome.SUCCEEDED


def test_a_live_run_is_as_old_as_it_is_and_its_deadline_follows_the_clock(
    holdfast: CommandLine, tmp_path: Path, clock: SteppedClock
) -> None:
    holdfast("run", "-n", "a", "--timeout", "600", *_quiet(tmp_path), expect=0)
    clock.step(DAY)
    run = holdfast("status", "--json", "a", env=clock.env, expect=0).json
    assert run["duration_seconds"] < 600
    left = seconds_of(run["deadline_at"]) - (time.time() + DAY)
    assert 0 < left < 601
    (tmp_path / "go").touch()
    ended("a")


def _in_time_namespace(offset: int, *words: str) -> list[str]:
    return ["unshare", "--time", "--boottime", str(offset), "--fork", *words]


@pytest.mark.parametrize("offset", [100_000, -20], ids=["ahead", "behind"])
def test_who_takes_over_from_another_time_namespace_keeps_the_deadline(
    holdfast: CommandLine, tmp_path: Path, runs: Runs, offset: int
) -> None:
    needs("root", "time_namespace")
    limits = ["--timeout", "8", "--grace", "0"]
    start = holdfast.argv("run", "-n", "a", *limits, *_quiet(tmp_path))
    subprocess.run(_in_time_namespace(offset, *start), check=True, timeout=60, env=os.environ)
    wait_for_output("a", b"up")
    [started] = events_of("a", "attempt_started")
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert abs(started["boottime"] - now) < 60, "told as every namespace tells it"
    kill_shim(runs.get("a"))
    holdfast("recover", expect=0)
    assert (info_of("a").duration_seconds or 0) < 60
    info = ended("a", timeout=60)
    assert info.outcome is Outcome.TIMED_OUT
    assert info.duration_seconds is not None
    assert 8 <= info.duration_seconds < 100


def test_a_limit_is_kept_inside_a_time_namespace(holdfast: CommandLine) -> None:
    needs("root", "time_namespace")
    words = holdfast.argv("run", "-n", "a", "--timeout", "1", "--grace", "0", "sleep", "600")
    subprocess.run(_in_time_namespace(100_000, *words), check=True, timeout=60)
    info = eventually(lambda: ended("a", timeout=60))
    assert info.outcome is Outcome.TIMED_OUT
    assert 1 <= (info.duration_seconds or 0) < 100
