"""A shim that is held up does not lose the order of what happened meanwhile.

Its loop is held at one callback after the other, whatever the kernel may do to it there. Meanwhile
the workload ends with 0, and every limit passes: the run has succeeded all the same.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import RunNotFound
from holdfast.manage.runs import Runs
from holdfast.run.control_socket import dial
from holdfast.run.outcomes import Outcome
from tests.support.cli import CommandLine
from tests.support.holding import Hold, callback_names, holding, pass_time
from tests.support.running import (
    ended,
    events_of,
    info_of,
    run_of,
    wait_for_events,
    wait_for_output,
)
from tests.support.shims import kill_shim
from tests.support.waiting import eventually, wait_for_exit

pytestmark = pytest.mark.usefixtures("runs")  # what is left is stopped

TIMEOUT_SECONDS = 4  # long enough to arrive at any callback, also on a loaded machine

# Writes a line now and when `more` is gone; ends when `go` is gone.
WORKLOAD = """
import os, sys, time
folder = sys.argv[1]
print("up", flush=True)
while os.path.exists(folder + "/go"):
    if os.path.exists(folder + "/said") or os.path.exists(folder + "/more"):
        time.sleep(0.02)
    else:
        open(folder + "/said", "w").close()
        print("more", flush=True)
sys.exit(0)
"""

# Each callback of the loop, and what a run needs so that it comes. `sh` is the root's text.
HELD = {
    "signals": ["sh", "(sleep 0.3 & sleep 1 & sleep 2 &); exec {}"],  # orphans end
    "exec": [],
    "root exit": [],
    "workload exit": ["sh", "{}; true"],
    "control": [],
    "output": ["--done-when", "never"],
    "look": [],
    "sample": ["--sample-interval", "0.5"],
    "memory": ["--memory-max", "8G"],
    "silence": ["--silence-timeout", "1"],
    "idle": ["--idle-timeout", "1"],
    "deadline": [],
    "drain": ["--done-when", "up", "--drain", "1"],
    "required": ["--require-workload", "--workload", os.path.basename(sys.executable)],
    "terminal": ["--pty"],
}
AT_THE_END = ("root exit", "workload exit")  # which the end of the workload itself brings

# Where another test holds the loop, or why none does.
ELSEWHERE = {
    "stop": "test_a_stop_that_is_held_up_is_a_stop",
    "status": "a timer that asks again for the exit of a process of PID 1",
    "adoption": "test_an_adopter_that_is_held_up_reads_the_exit_first",
    "restart": "test_a_restart_that_is_held_up_is_done",
    "rival exit": "an exit as the root's, of a run that has two",
    "asker": "an agent that asks: test_A1_attention.py",
    "askers": "an agent that asks: test_A2_approval.py",
    "asked": "an agent that asks: test_A2_approval.py",
    "answer": "an agent that asks: test_A2_approval.py",
    "settle": "a timer that gives memory back",
    "proceed": "a timer that reads what is left of an output, as the output's",
    "usage": "a timer that records what was used, as the output's",
    "transcript": "a timer that reads a file, as the output's",
    "redraw": "a timer that sets the size of a terminal",
    "stdin": "a timer that writes what a pipe had no room for",
    "journal": "a timer that tries a full disk again",
    "terminal log": "a timer that tries a full disk again",
    "ending": "a timer that tries a full disk again",
    "neighbour": "needs another run: test_Q4_neighbours.py",
    "join neighbours": "needs another run: test_Q4_neighbours.py",
    "rescue": "needs another run: test_Q4_neighbours.py",
    "watchers": "a timer that tries again where descriptors were missing",
    "pause": "the whole tree stands still: test_Q10_pause.py",
    "waiting": "nothing runs yet: test_Q_queue.py holds it at its points",
    "moment": "nothing runs yet: test_Q_conditions.py",
    "after": "nothing runs yet: test_Q_conditions.py",
    "turn": "nothing runs yet: test_Q_queue.py holds it at its points",
}


def test_every_callback_of_the_loop_is_held_somewhere() -> None:
    assert callback_names() == set(HELD) | set(ELSEWHERE)


def _started() -> dict[str, Any]:
    def look() -> list[dict[str, Any]]:
        return events_of("a", "attempt_started")

    return eventually(look, 60, "it was started", ignoring=(RunNotFound,))[0]


def _began() -> float:
    boottime: float = _started()["boottime"]
    return boottime


def _is_resolved(root: int) -> bool:
    workload = info_of("a").workload
    return workload is not None and workload["pid"] != root


def _call() -> None:
    """Knock at the run's socket."""
    call = dial(str(run_of("a").directory.path))
    assert call is not None
    call.close()


def _command(tmp_path: Path) -> list[str]:
    (tmp_path / "program.py").write_text(WORKLOAD)
    for name in ("go", "more"):
        (tmp_path / name).touch()
    return [sys.executable, "-S", str(tmp_path / "program.py"), str(tmp_path)]


def _start(holdfast: CommandLine, hold: Hold, *words: object) -> subprocess.Popen[bytes]:
    """Not awaited: a shim that is held at its start tells nobody that it has begun."""
    return subprocess.Popen(
        holdfast.argv("run", "-n", "a", "--grace", "0", *words),
        env={**os.environ, **hold.env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("name", HELD)
def test_a_run_that_ends_while_the_loop_is_held_has_its_own_ending(
    holdfast: CommandLine, tmp_path: Path, name: str
) -> None:
    options, command = HELD[name], _command(tmp_path)
    if options[:1] == ["sh"]:
        options, command = [], ["sh", "-c", options[1].format(" ".join(command))]
    with holding(tmp_path / "fifo", name) as hold:
        limits = ["--timeout", TIMEOUT_SECONDS, *options]
        starting = _start(holdfast, hold, *limits, *command)
        if name != "terminal":  # whose output only the shim can write down
            wait_for_output("a", b"up", timeout=60)
        if name == "control":
            starting.wait(60)
            _call()
        root = _started()["root"]["pid"]
        if name == "workload exit":
            eventually(lambda: _is_resolved(root), 60, "the workload is known")
            os.kill(root, signal.SIGSTOP)  # else it ends at once, and is heard of first
        if name in AT_THE_END:
            (tmp_path / "go").unlink()
        hold.arrived()
        os.kill(root, signal.SIGCONT)
        (tmp_path / "go").unlink(missing_ok=True)
        wait_for_exit(root, why="the run's root has ended")
        pass_time(_began() + TIMEOUT_SECONDS + 0.1)
        hold.release()
        info = ended("a", timeout=60)
        starting.wait(60)
    assert (info.outcome, info.exit_code, info.ended_by) == (Outcome.SUCCEEDED, 0, "itself")


@pytest.mark.parametrize("name", ["look", "sample", "control"])
def test_what_is_written_while_the_loop_is_held_is_no_silence(
    holdfast: CommandLine, tmp_path: Path, name: str
) -> None:
    options = ["--idle-timeout", "2", *HELD[name]]
    with holding(tmp_path / "fifo", name) as hold:
        _start(holdfast, hold, *options, *_command(tmp_path)).wait(60)
        wait_for_output("a", b"up", timeout=60)
        if name == "control":
            _call()
        hold.arrived()
        pass_time(_began() + 2.5)
        (tmp_path / "more").unlink()
        wait_for_output("a", b"more")
        hold.release()
        # A judgement that was due during the hold comes now: it finds the line, or a new time.
        _call()
        (tmp_path / "go").unlink()
    assert ended("a").outcome is Outcome.SUCCEEDED


def test_a_line_that_proves_completion_is_read_before_the_deadline_is_judged(
    holdfast: CommandLine, tmp_path: Path
) -> None:
    options = ["--done-when", "more", "--drain", "0", "--timeout", TIMEOUT_SECONDS]
    with holding(tmp_path / "fifo", "sample") as hold:
        options += HELD["sample"]
        _start(holdfast, hold, *options, *_command(tmp_path)).wait(60)
        wait_for_output("a", b"up")
        hold.arrived()
        (tmp_path / "more").unlink()
        wait_for_output("a", b"more")
        pass_time(_began() + TIMEOUT_SECONDS + 0.1)
        hold.release()
        assert ended("a").outcome is Outcome.COMPLETED


def test_all_that_was_written_in_time_is_read_before_the_deadline_is_judged(
    holdfast: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "go").touch()
    program = f"""
import os, sys, time
print("up", flush=True)
while os.path.exists({str(tmp_path / "go")!r}): time.sleep(0.02)
sys.stdout.write("a line of output\\n" * 60_000 + "DONE\\n")
sys.stdout.flush()
print("told", file=open({str(tmp_path / "told")!r}, "w"), flush=True)
time.sleep(600)
"""
    options = ["--done-when", "DONE", "--drain", "0", "--timeout", TIMEOUT_SECONDS]
    with holding(tmp_path / "fifo", "sample") as hold:
        words = [*options, *HELD["sample"], sys.executable, "-S", "-c", program]
        _start(holdfast, hold, *words).wait(60)
        wait_for_output("a", b"up")
        hold.arrived()
        (tmp_path / "go").unlink()
        eventually((tmp_path / "told").exists, 60, "all is written")
        pass_time(_began() + TIMEOUT_SECONDS + 0.1)
        hold.release()
        assert ended("a").outcome is Outcome.COMPLETED


def test_a_stop_that_is_asked_for_after_the_exit_does_not_end_the_run(
    holdfast: CommandLine, tmp_path: Path
) -> None:
    with holding(tmp_path / "fifo", "sample") as hold:
        command = _command(tmp_path)
        _start(holdfast, hold, *HELD["sample"], *command).wait(60)
        wait_for_output("a", b"up")
        hold.arrived()
        root = events_of("a", "attempt_started")[0]["root"]["pid"]
        (tmp_path / "go").unlink()
        wait_for_exit(root, why="the root has ended")
        call = dial(str(run_of("a").directory.path))
        assert call is not None
        call.sendall(b'{"do":"stop","wait":true}\n')
        hold.release()
        assert ended("a").outcome is Outcome.SUCCEEDED
        call.close()


def test_a_stop_that_is_held_up_is_a_stop(holdfast: CommandLine, tmp_path: Path) -> None:
    with holding(tmp_path / "fifo", "stop") as hold:
        script = "trap '' TERM; echo up; while :; do sleep 0.1; done"
        _start(holdfast, hold, "sh", "-c", script).wait(60)
        wait_for_output("a", b"up")
        call = dial(str(run_of("a").directory.path))
        assert call is not None
        call.sendall(b'{"do":"stop","grace_seconds":1}\n')
        hold.arrived()
        pass_time(time.clock_gettime(time.CLOCK_BOOTTIME) + 1)  # the grace
        hold.release()
        assert ended("a").outcome is Outcome.STOPPED
        call.close()


def test_a_restart_that_is_held_up_is_done(holdfast: CommandLine, tmp_path: Path) -> None:
    script = f"test -e {tmp_path}/once || {{ touch {tmp_path}/once; exit 1; }}"
    with holding(tmp_path / "fifo", "restart") as hold:
        _start(holdfast, hold, "--restart", "on-failure:1", "sh", "-c", script).wait(60)
        hold.arrived()
        pass_time(time.clock_gettime(time.CLOCK_BOOTTIME) + 1)
        hold.release()
        info = ended("a")
    assert (info.outcome, info.attempt) == (Outcome.SUCCEEDED, 2)


@pytest.mark.parametrize("name", ["adoption", "root exit"])
def test_an_adopter_that_is_held_up_reads_the_exit_first(
    holdfast: CommandLine, tmp_path: Path, name: str, runs: Runs
) -> None:
    command = _command(tmp_path)
    holdfast("run", "-n", "a", "--grace", "0", "--timeout", TIMEOUT_SECONDS, *command, expect=0)
    wait_for_output("a", b"up")
    kill_shim(runs.get("a"))
    with holding(tmp_path / "fifo", name, "adopter") as hold:
        recovering = subprocess.Popen(
            holdfast.argv("recover"), env={**os.environ, **hold.env}, stdout=subprocess.DEVNULL
        )
        if name == "adoption":
            hold.arrived()
            (tmp_path / "go").unlink()
        else:
            wait_for_events("a", "supervised", 2, why="it is adopted")
            (tmp_path / "go").unlink()
            hold.arrived()
        pass_time(_began() + TIMEOUT_SECONDS + 0.1)
        hold.release()
        info = ended("a")
        recovering.wait(60)
    assert info.outcome in (Outcome.SUCCEEDED, Outcome.LOST), info.evidence
    assert info_of("a").ended_by != "holdfast"
