"""A start, or a restart, that can't come to be: it is tried again or ends, with the reason."""

from __future__ import annotations

import errno
import os
import resource
import time
from pathlib import Path

import pytest

from holdfast.errors import InvalidOption, Unavailable
from holdfast.run.facts import State
from holdfast.shim.restarts import next_try_seconds
from tests.support import run_scenes
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in
from tests.support.recovering import kill_shim
from tests.support.running import (
    ended,
    events_of,
    info_of,
    loaded_shim,
    stop,
    wait_for_events,
    wait_for_output,
)
from tests.support.waiting import eventually

LONG = "please look at every file " * 4000  # 100 KB, as of `run "$(cat prompt)"`


@pytest.mark.parametrize("word", [LONG, f"/{LONG}", "é/" * 30_000], ids=["name", "path", "bytes"])
def test_a_prompt_in_place_of_the_command_is_told_at_once(holdfast, word):
    done = holdfast("run", "-n", "a", word, expect=127, timeout=50)
    assert len(done.stderr) < 2000
    info = info_of("a")
    assert (info.state, info.outcome, info.exit_code) == (State.ENDED, "never_started", 127)
    assert holdfast("wait", "a", expect=127)


def test_a_fifo_as_stdin_is_refused_with_what_to_do_instead(holdfast, runs, tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    done = holdfast("run", "-n", "a", "--stdin", fifo, "cat", expect=2, timeout=50)
    assert "--stdin -" in done.stderr
    holdfast("status", "a", expect=3)
    with pytest.raises(InvalidOption, match="FIFO"):
        runs.start(["cat"], stdin=fifo)


def _restarting(holdfast, file: Path, then: str) -> None:
    file.write_text("input")
    script = f"cat; {then}; exit 3"
    words = ("--restart", "on-failure:3", "--stdin", file, "sh", "-c", script)
    holdfast("run", "-n", "a", *words, expect=0)


@pytest.mark.parametrize(
    ("then", "reason"),
    [("rm {0}", "No such file"), ("rm {0}; mkfifo {0}", "FIFO")],
    ids=["gone", "fifo"],
)
def test_a_restart_that_can_not_be_started_ends_as_its_last_attempt_did(
    holdfast, tmp_path: Path, then, reason
):
    file = tmp_path / "input"
    _restarting(holdfast, file, then.format(file))
    info = ended("a", timeout=60)
    assert (info.outcome, info.exit_code, info.ended_by) == ("failed", 3, "itself")
    assert "attempt 2 could not be started, tried 2 times" in info.evidence
    assert reason in info.evidence
    assert info.attempt == 1
    assert holdfast("wait", "a").returncode == 3


def test_an_adopter_ends_a_restart_that_can_not_be_started(holdfast, tmp_path: Path):
    file, gate = tmp_path / "input", tmp_path / "gate"
    _restarting(holdfast, file, f"while [ ! -e {gate} ]; do sleep 0.02; done")
    file.unlink()
    gate.touch()
    wait_for_events("a", "restart_scheduled", why="it is to be started again")
    kill_shim("a")
    assert holdfast("wait", "a").returncode == 3
    info = info_of("a")
    assert (info.outcome, info.exit_code) == ("failed", 3)
    assert "attempt 2 could not be started" in info.evidence


def _descriptors(pid: int) -> set[int]:
    return {int(name) for name in os.listdir(f"/proc/{pid}/fd")}


def _leave_free(pid: int, spare: int) -> tuple[int, int]:
    """Limit a process that rests to what it has open and so many descriptors more; as it was."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = eventually(lambda: _calm_descriptors(pid), 60, "its descriptors stay the same")
    free = [number for number in range(1024) if number not in taken]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free[spare], before[1]))
    return before


def _calm_descriptors(pid: int) -> set[int] | None:
    first = _descriptors(pid)
    for _ in range(20):
        time.sleep(0.02)
        if _descriptors(pid) != first:
            return None
    return first


def test_a_restart_waits_until_there_are_descriptors_again(holdfast, tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = f"echo up; [ -e {fifo} ] || exit 0; read x < {fifo}; rm {fifo}; exit 3"
    words = ("--restart", "on-failure:1", "--sample-interval", "0", "bash", "-c", script)
    holdfast("run", "-n", "a", *words, expect=0)
    wait_for_output("a", b"up")
    shim = loaded_shim("a")
    # Enough to look at an end by, and too few for the pipes and files of a child.
    before = _leave_free(shim, spare=2)
    with open(fifo, "w") as writer:
        writer.write("go\n")
    eventually(lambda: "restart" in [one["where"] for one in events_of("a", "fault")], 60)
    assert info_of("a").state is State.STARTING
    resource.prlimit(shim, resource.RLIMIT_NOFILE, before)
    assert ended("a", timeout=60).outcome == "succeeded"
    assert info_of("a").attempt == 2


def test_a_stop_ends_a_run_whose_restart_is_tried_again(holdfast, tmp_path: Path):
    file = tmp_path / "input"
    _restarting(holdfast, file, f"rm {file}")
    wait_for_events("a", "restart_scheduled", why="it is to be started again")
    stop(holdfast, "a")
    assert ended("a").state is State.ENDED


def test_a_shortage_is_worth_about_a_minute_and_anything_else_a_second_try():
    shortage, gone = OSError(errno.EAGAIN, "no"), FileNotFoundError(errno.ENOENT, "no")
    pauses = [next_try_seconds(shortage, tries) for tries in range(1, 8)]
    assert pauses == [1, 2, 4, 8, 16, 32, None]
    assert [next_try_seconds(gone, tries) for tries in (1, 2)] == [1, None]
    wrapped = Unavailable("process 1 can't be opened")
    wrapped.__cause__ = OSError(errno.EMFILE, "no")
    assert next_try_seconds(wrapped, 2) == 2


@pytest.fixture
def crowded(shared: Path) -> tuple[Place, str]:
    """A user of whom nothing else runs, for limits on processes, with a home."""
    needs("root")
    uid = 100_000 + os.getpid()
    home = shared / "home"
    home.mkdir(mode=0o700)
    os.chown(home, uid, uid)
    return Place(pid_namespace=False, uid=uid), str(home)


@pytest.mark.parametrize("more", [1, 2], ids=["no process between", "no shim"])
def test_a_start_for_which_no_process_can_be_made_says_so(crowded, more, tmp_path: Path):
    """Of two forks, the one or the other fails: in both cases nothing was started."""
    place, home = crowded
    words = ["-n", "a", "touch", str(tmp_path / "ran")]
    code, said = run_in(
        place, run_scenes.start_with_few_processes, home=home, more=more, words=words
    )
    assert code == 6, said
    assert "Resource temporarily unavailable" in said
    assert "ulimit -u" in said
    assert "is starting it" not in said
    assert not (tmp_path / "ran").exists()


def test_each_line_of_a_batch_says_that_no_process_can_be_made(crowded, shared: Path):
    place, home = crowded
    batch = shared / "batch"
    batch.write_text("true\n" * 3)
    words = ["--batch", str(batch)]
    code, said = run_in(place, run_scenes.start_with_few_processes, home=home, more=2, words=words)
    assert code == 6, said
    lines = [line for line in said.splitlines() if line.startswith("holdfast: line ")]
    assert len(lines) == 3
    assert all("Resource temporarily unavailable" in line for line in lines)


def test_the_library_says_that_no_process_can_be_made(crowded):
    place, home = crowded
    scene = run_scenes.start_in_library_with_few_processes
    said = run_in(place, scene, home=home, more=1)
    assert "no process can be made for its shim: Resource temporarily unavailable" in said
