"""What ends a run by itself: silence, a line that proves completion, the right clock."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from holdfast.run.units import duration, size
from tests.support import run_scenes
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in
from tests.support.running import ended, events_of, info_of, run_of, shim_pid, stop
from tests.support.waiting import eventually

BOOTTIME_CLOCK = 7


# C1


def test_C1_a_burst_and_then_silence_is_stalled(holdfast):
    script = "for i in 1 2 3 4 5; do echo $i; done; sleep 600"
    holdfast("run", "-n", "a", "--idle-timeout", "1", "--grace", "0", "sh", "-c", script, expect=0)
    info = ended("a")
    assert (info.outcome, info.ended_by) == ("stalled", "holdfast")
    assert "silent for" in info.evidence
    assert info.duration_seconds is not None
    assert info.duration_seconds >= 1
    assert holdfast("wait", "a").returncode == 124


def test_C1_steady_output_is_never_stalled(holdfast):
    script = "for i in $(seq 45); do echo $i; sleep 0.1; done"
    holdfast("run", "-n", "a", "--idle-timeout", "4", "sh", "-c", script, expect=0)
    info = ended("a", timeout=60)
    assert info.outcome == "succeeded"
    assert info.duration_seconds is not None
    assert info.duration_seconds > 4


BURNS = "import os; os.fork()\nwhile True: pass"  # two: on a busy machine one may have little
WRITES = """\
import os, time
sink = os.open("/dev/null", os.O_WRONLY)
while True:
    os.write(sink, bytes(1 << 18))
    time.sleep(0.1)
"""


@pytest.mark.parametrize("work", [BURNS, WRITES], ids=["burns CPU", "does I/O"])
def test_C1_silent_work_extends_the_time_but_not_for_ever(holdfast, work):
    words = [sys.executable, "-S", "-c", work]
    holdfast("run", "-n", "a", "--idle-timeout", "1", "--grace", "0", *words, expect=0)
    info = ended("a", timeout=60)
    assert info.outcome == "stalled"
    assert info.duration_seconds is not None
    assert info.duration_seconds > 2, "work without output put it off"
    assert info.duration_seconds < 30, "but only up to a bound"
    assert "at work" in info.evidence


# A program that waits for a server, with timers and the like: some 1 % of a core.
HANGS = """\
import socket, sys, time
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("asked", flush=True)
while True:
    until = time.process_time() + 0.001
    while time.process_time() < until: pass
    time.sleep(0.1)
"""


def test_C1_an_agent_that_hangs_at_its_server_is_stalled_when_its_time_is_over(holdfast):
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = [sys.executable, "-S", "-c", HANGS, server.getsockname()[1]]
        options = ["--idle-timeout", "4", "--grace", "0"]
        holdfast("run", "-n", "a", *options, *words, expect=0)
        info = ended("a", timeout=60)
    assert (info.outcome, info.stop_reason) == ("stalled", "idle")
    assert info.stop_figure is not None
    assert 4 <= info.stop_figure < 4 * 4, "a little CPU and an open connection are no work"
    assert "at work" not in info.evidence


def test_C1_how_long_it_was_silent_is_one_figure_everywhere(holdfast):
    holdfast("run", "-n", "a", "--idle-timeout", "1", "--grace", "0", "sleep", "600", expect=0)
    figure = ended("a").stop_figure
    assert figure is not None
    said = duration(figure)
    assert f"silent {said}, stopped" in holdfast("ls", expect=0).stdout
    assert f"silent for {said}" in holdfast("status", "a", expect=0).stdout
    assert holdfast("status", "a", "--json", expect=0).json["stop_figure"] == figure


def test_C1_no_output_is_stalled_whatever_it_does_with_a_silence_timeout(holdfast):
    words = [sys.executable, "-S", "-c", BURNS]
    options = ["--silence-timeout", "1", "--idle-timeout", "60", "--grace", "0"]
    holdfast("run", "-n", "a", *options, *words, expect=0)
    info = ended("a", timeout=60)
    assert (info.outcome, info.stop_reason) == ("stalled", "silence")
    assert "silence timeout 1s" in holdfast("status", "a", expect=0).stdout
    assert holdfast("wait", "a").returncode == 124


# --memory-max

TAKES = """\
import os, signal, sys, time
def end(*_):
    print("saved", flush=True)
    os._exit(7)
signal.signal(signal.SIGTERM, end if sys.argv[1] == "polite" else signal.SIG_IGN)
kept = [bytearray(b"x") * (128 << 20)]  # with the interpreter less than 20 % over the limit
print("full", flush=True)
while sys.argv[1] == "grows":
    kept.append(bytearray(b"x") * (4 << 20))
    time.sleep(0.05)
signal.pause()
"""


def _takes_too_much(holdfast, manner: str, grace: str):
    words = [sys.executable, "-S", "-c", TAKES, manner]
    holdfast("run", "-n", "a", "--memory-max", "128M", "--grace", grace, *words, expect=0)
    return ended("a", timeout=60)


def test_what_uses_too_much_memory_is_asked_first_and_may_save_its_work(holdfast):
    info = _takes_too_much(holdfast, "polite", "60s")
    assert (info.outcome, info.stop_reason, info.exit_code) == ("out_of_memory", "memory", 7)
    assert "saved" in holdfast("logs", "a", expect=0).stdout


def test_what_goes_on_growing_meanwhile_is_killed_at_once(holdfast):
    info = _takes_too_much(holdfast, "grows", "1h")
    assert (info.outcome, info.signal) == ("out_of_memory", signal.SIGKILL)
    assert [event["grace_seconds"] for event in events_of("a", "stop_begun")] == [3600, 0]


def test_what_keeps_too_much_memory_is_killed_after_the_grace(holdfast):
    info = _takes_too_much(holdfast, "keeps", "0.2s")
    assert (info.outcome, info.signal) == ("out_of_memory", signal.SIGKILL)


def test_memory_is_told_in_units_that_people_read(holdfast):
    info = _takes_too_much(holdfast, "polite", "60s")
    used = size(info.stop_figure)
    assert f"over the memory limit of 128M: the tree used {used}" in info.evidence
    assert f"{used}, over 128M, stopped" in holdfast("ls", expect=0).stdout
    assert info.evidence in " ".join(holdfast("status", "a", expect=0).stdout.split())


# C2


def _finished(holdfast, *words: str, done_when: str = "DONE") -> str:
    options = ["--done-when", done_when, "--drain", "0", "--grace", "0"]
    holdfast("run", "-n", "a", *options, *words, expect=0)
    return str(ended("a").outcome)


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("echo DONE; sleep 600", "completed"),
        ("printf 'DO'; sleep 0.5; printf 'NE\\n'; sleep 600", "completed"),
        ("printf 'DONE\\r\\n'; sleep 600", "completed"),
        ("echo 'not DONE'; echo 'DONE not'; sleep 1; exit 3", "failed"),
        ("printf 'x'; sleep 0.3; printf 'DONE\\n'; sleep 0.5; exit 3", "failed"),
        ("printf DONE; sleep 0.5; exit 3", "failed"),
        ("printf DONE; sleep 0.3; echo more; sleep 0.3; exit 3", "failed"),
    ],
)
def test_C2_only_a_whole_line_proves_completion(holdfast, script, outcome):
    assert _finished(holdfast, "sh", "-c", script) == outcome
    info = info_of("a")
    if outcome == "completed":
        assert info.completion is not None
        assert (info.completion["source"], info.completion["proof"]) == ("stdout", "DONE")


def test_C2_a_line_of_an_earlier_attempt_proves_nothing(holdfast, tmp_path):
    # The second attempt appends to a log that has the line already.
    script = f"test -e {tmp_path}/again && exit 0; touch {tmp_path}/again; echo DONE; exit 1"
    options = ["--done-when", "DONE", "--drain", "60", "--restart", "on-failure:1"]
    holdfast("run", "-n", "a", *options, "sh", "-c", script, expect=0)
    info = ended("a")
    proven = events_of("a", "completion_proven")
    starts = [event["seq"] for event in events_of("a", "attempt_started")]
    assert len(starts) == 2
    assert all(event["seq"] < starts[1] for event in proven)
    assert info.outcome in ("succeeded", "completed")


def test_C2_in_one_log_a_line_of_stderr_counts_too(holdfast):
    assert _finished(holdfast, "sh", "-c", "echo DONE >&2; sleep 600") == "completed"


def test_C2_stderr_proves_nothing_when_it_is_split(holdfast):
    script = "echo DONE >&2; sleep 1; exit 3"
    assert _finished(holdfast, "--split-stderr", "sh", "-c", script) == "failed"


# C3


def test_C3_completion_then_a_hang_is_completed_and_stopped(holdfast):
    script = "trap 'exit 7' TERM; echo DONE; while :; do read -t 0.05; done"
    options = ["--done-when", "DONE", "--drain", "0.5", "--stdin", "pipe"]
    holdfast("run", "-n", "a", *options, "bash", "-c", script, expect=0)
    info = ended("a")
    assert (info.outcome, info.ended_by) == ("completed", "holdfast")
    assert info.exit_code == 7  # its own, apart from the outcome
    assert holdfast("wait", "a").returncode == 0
    proven, begun = events_of("a", "completion_proven"), events_of("a", "stop_begun")
    assert begun[0]["boottime"] - proven[0]["boottime"] >= 0.5
    assert begun[0]["cause"] == "completion"


def test_C3_completion_and_then_an_own_exit_is_left_alone(holdfast):
    script = "echo DONE; sleep 0.3; echo more; exit 0"
    options = ["--done-when", "DONE", "--drain", "60"]
    holdfast("run", "-n", "a", *options, "sh", "-c", script, expect=0)
    info = ended("a")
    assert (info.outcome, info.ended_by, info.exit_code) == ("succeeded", "itself", 0)
    assert info.completion is not None
    assert run_of("a").output() == b"DONE\nmore\n"


# C4


def test_C4_the_timer_of_the_shim_is_on_the_boottime_clock(holdfast):
    holdfast("run", "-n", "a", "--timeout", "1h", "sleep", "600", expect=0)
    shim = shim_pid("a")

    def clocks() -> list[str]:
        timers = []
        for fd in os.listdir(f"/proc/{shim}/fd"):
            try:
                if os.readlink(f"/proc/{shim}/fd/{fd}") == "anon_inode:[timerfd]":
                    timers.append(Path(f"/proc/{shim}/fdinfo/{fd}").read_text())
            except FileNotFoundError:
                continue
        return timers

    (timer,) = eventually(clocks)
    assert f"clockid: {BOOTTIME_CLOCK}\n" in timer
    stop(holdfast, "a")


def test_C4_the_timeout_is_kept(holdfast):
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    holdfast("run", "-n", "a", "--timeout", "1", "--grace", "0", "sleep", "600", expect=0)
    info = ended("a")
    assert time.clock_gettime(time.CLOCK_BOOTTIME) - began >= 1
    assert info.outcome == "timed_out"
    assert holdfast("wait", "a").returncode == 124
    (begun,) = events_of("a", "stop_begun")
    (started,) = events_of("a", "attempt_started")
    assert begun["boottime"] - started["boottime"] >= 1


@pytest.mark.parametrize("jump_seconds", [-7200.0, 7200.0])
def test_C4_a_wall_clock_jump_moves_no_deadline(tmp_path, jump_seconds):
    """The shim's own time of day is moved under it: nothing that it decides may look at that."""
    seconds, outcome = run_in(
        Place(pid_namespace=False),
        run_scenes.timeout_under_a_jump,
        home=str(tmp_path),
        jump_seconds=jump_seconds,
    )
    assert outcome == "timed_out"
    assert 2 <= seconds < 60


def test_C4_a_deadline_is_right_in_another_time_namespace(tmp_path):
    needs("root", "time_namespace")
    place = Place(pid_namespace=False, boottime_offset_seconds=86400)
    seconds, outcome = run_in(
        place, run_scenes.timeout_under_a_jump, home=str(tmp_path), jump_seconds=0.0
    )
    assert outcome == "timed_out"
    assert 2 <= seconds < 60
