"""`holdfast stop` and `holdfast wait`: what they say, their codes, and many runs at once."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess

import pytest

from tests.support.running import (
    ended,
    events_of,
    info_of,
    is_alive,
    stop,
    wait_for_output,
    workload_pid,
)
from tests.support.waiting import eventually

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


def test_stop_says_whom_it_signalled(holdfast):
    holdfast("run", "-n", "a", "sleep", "60", expect=0)
    pid = workload_pid("a")
    done = holdfast("stop", "a", expect=0)
    assert re.fullmatch(rf"a  stopped in [0-9.]+s: SIGTERM {pid}; tree empty\n", done.stdout)
    assert done.stderr == ""
    assert not is_alive(pid)


def test_stop_says_when_it_had_to_kill(holdfast):
    holdfast("run", "-n", "a", "bash", "-c", STUBBORN, expect=0)
    wait_for_output("a", b"ready")
    done = holdfast("stop", "--grace", "0.2", "a", expect=0)
    assert re.search(r"stopped in .*SIGTERM .*then SIGKILL .*; tree empty\n", done.stdout)


def test_stop_with_a_signal_of_choice(holdfast):
    script = "trap 'echo got usr2; exit 3' USR2; echo ready; while :; do read -t 0.05; done"
    holdfast("run", "-n", "a", "--stdin", "pipe", "bash", "-c", script, expect=0)
    wait_for_output("a", b"ready")
    assert "SIGUSR2" in holdfast("stop", "--signal", "usr2", "a", expect=0).stdout
    info = info_of("a")
    assert (info.outcome, info.exit_code) == ("stopped", 3)
    assert holdfast("stop", "--signal", "SIGNOPE", "a").returncode == 2


def test_stop_of_an_ended_run_leaves_everybody_alone(holdfast):
    holdfast("run", "-n", "a", "true", expect=0)
    ended("a")
    done = holdfast("stop", "a", expect=0)
    assert done.stdout == "a  already ended (succeeded); no process was signalled\n"


def test_several_runs_are_stopped_at_once(holdfast):
    names = ["a", "bb", "ccc"]
    for name in names:
        holdfast("run", "-n", name, "bash", "-c", STUBBORN, expect=0)
        wait_for_output(name, b"ready")
    done = holdfast("stop", "--grace", "2", *names, expect=0)
    begun, over = (
        [event["boottime"] for name in names for event in events_of(name, kind)]
        for kind in ("stop_begun", "ended")
    )
    assert len(begun) == len(over) == len(names)
    assert max(begun) < min(over)
    assert [line.split()[0] for line in done.stdout.splitlines()] == names
    assert len({line.index("stopped") for line in done.stdout.splitlines()}) == 1


def test_the_first_code_in_the_order_given(holdfast):
    holdfast("run", "-n", "a", "sleep", "60", expect=0)
    done = holdfast("stop", "nosuch", "a", "/x/bad")
    assert done.returncode == 3
    assert "there is no run nosuch" in done.stdout
    assert info_of("a").outcome == "stopped"
    assert holdfast("stop", "nosuch").returncode == 3
    assert holdfast("stop", "../../x").returncode == 2


def test_stop_as_json(holdfast):
    holdfast("run", "-n", "a", "sleep", "60", expect=0)
    document = holdfast("--json", "stop", "a", "nosuch", expect=3).json
    a, nosuch = document["runs"]
    assert document["schema"] == 1
    assert (a["name"], a["outcome"], a["stop"]["was_over"]) == ("a", "stopped", False)
    assert a["stop"]["signals"][0]["signal"] == "SIGTERM"
    assert a["cleanup"]["complete"] is True
    assert nosuch["stop"]["error"]["code"] == "run-not-found"
    (again,) = holdfast("--json", "stop", "a", expect=0).json["runs"]
    assert (again["stop"]["was_over"], again["stop"]["signals"]) == (True, [])


def test_selectors_choose_active_runs(holdfast):
    for name, tag in (("a", "x"), ("b", "y"), ("c", "x")):
        holdfast("run", "-n", name, "--tag", f"k={tag}", "sleep", "60", expect=0)
    stop(holdfast, "c")
    assert holdfast("stop", "--tag", "k=x", expect=0).stdout.startswith("a  stopped")
    assert info_of("b").state == "running"
    assert holdfast("stop", "--state", "running", expect=0).stdout.startswith("b  stopped")
    done = holdfast("stop", "--all", expect=0)
    assert (done.stdout, done.stderr) == ("", "there is nothing to stop\n")
    assert holdfast("stop").returncode == 2
    assert holdfast("stop", "a", "--all").returncode == 2
    assert holdfast("wait", "--all", expect=0).stdout == ""
    assert holdfast("stop", "--state", "runing").returncode == 2


def test_wait_by_selectors_counts_what_failed_before_it_began(holdfast):
    for name, code in (("a", 0), ("b", 7), ("c", 0)):
        tags = ["--tag", "n", "--tag", f"k={code}"]
        holdfast("run", "-F", "-n", name, *tags, "sh", "-c", f"exit {code}", expect=code)
    done = holdfast("wait", "--tag", "n", expect=7)
    assert sorted(line.split()[0] for line in done.stdout.splitlines()) == ["a", "b", "c"]
    assert "nothing to wait for" not in done.stderr
    holdfast("wait", "--tag", "k=0", expect=0)
    holdfast("wait", "--outcome", "failed", expect=7)
    holdfast("wait", "--all", "--tag", "n", expect=7)
    holdfast("wait", "--since", "1h", expect=7)


def test_wait_by_selectors_leaves_out_what_ended_before_the_window(holdfast):
    holdfast("run", "-F", "-n", "a", "--tag", "n", "sh", "-c", "exit 7", expect=7)
    holdfast("run", "-n", "b", "--tag", "n", "sleep", "600", expect=0)
    words = ["wait", "--tag", "n", "--since", "0s", "--timeout", "0", "--json"]
    assert [one["name"] for one in holdfast(*words, expect=75).json["runs"]] == ["b"]
    said = holdfast("wait", "--all", "--timeout", "0", "--json", expect=75).json["runs"]
    assert [one["name"] for one in said] == ["b"]
    stop(holdfast, "b")
    done = holdfast("wait", "--all", expect=0)
    assert (done.stdout, done.stderr) == ("", "there is nothing to wait for\n")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 42"], 42),
        (["sh", "-c", "kill -KILL $$"], 137),
        (["--timeout", "0.2", "sleep", "60"], 124),
        (["--idle-timeout", "0.3", "sleep", "60"], 124),
        (["--done-when", "ok", "--drain", "0", "sh", "-c", "echo ok; sleep 60"], 0),
    ],
)
def test_wait_exits_with_the_runs_code(holdfast, words, code):
    holdfast("run", "-n", "a", *words, expect=0)
    done = holdfast("wait", "a", expect=code)
    assert done.stdout.startswith("a  ")
    assert ("holdfast: a: " in done.stderr) == (code == 124)


def test_wait_for_a_run_that_never_started(holdfast):
    assert holdfast("run", "-n", "a", "/nonexistent").returncode == 127
    done = holdfast("wait", "a", expect=127)
    assert "no such file" in done.stderr


def test_wait_of_several_gives_the_first_that_is_not_0(holdfast):
    for name, code in (("a", 0), ("b", 7), ("c", 3)):
        holdfast("run", "-n", name, "sh", "-c", f"exit {code}", expect=0)
    assert holdfast("wait", "a", "b", "c", expect=7).stdout.splitlines()[1].startswith("b  failed")
    assert holdfast("wait", "a", "c", "b").returncode == 3
    assert holdfast("-q", "wait", "a", expect=0).stdout == ""


def test_wait_any_returns_with_the_first_to_end(holdfast):
    holdfast("run", "-n", "long", "sleep", "60", expect=0)
    holdfast("run", "-n", "short", "sh", "-c", "exit 9", expect=0)
    done = holdfast("wait", "--any", "long", "short", expect=9)
    assert done.stdout.startswith("short  failed, exit 9")
    assert "long" not in done.stdout
    stop(holdfast, "long")


def test_wait_gives_up_when_the_time_is_up(holdfast):
    holdfast("run", "-n", "a", "sleep", "60", expect=0)
    done = holdfast("wait", "--timeout", "0.2", "a", expect=75)
    assert done.stdout == "a  running\n"
    document = holdfast("--json", "wait", "--timeout", "0.1", "a", expect=75).json
    assert document["timed_out"] is True
    assert document["runs"][0]["state"] == "running"
    holdfast("stop", "a", expect=0)
    document = holdfast("--json", "wait", "--timeout", "9", "a", expect=143).json
    assert document["timed_out"] is False
    assert holdfast("wait", "nosuch").returncode == 3


def test_wait_for_one_of_them_says_when_none_did(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    for option, also in (("--any", ""), ("--attention", " or needs a person")):
        done = holdfast("wait", option, "a", "--timeout", "0", expect=75)
        said = f"the time is up: none has ended{also}\n"
        assert (done.stdout, done.stderr) == ("", said)
    stop(holdfast, "a")


def test_an_interrupted_wait_stops_no_run(holdfast):
    holdfast("run", "-n", "a", "sleep", "60", expect=0)
    with subprocess.Popen(holdfast.argv("wait", "a")) as waiting:
        eventually(lambda: _has_a_socket(waiting.pid), why="it asks the shim")
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(30) in (130, -signal.SIGINT)
    assert info_of("a").state == "running"
    stop(holdfast, "a")


def _has_a_socket(pid: int) -> bool:
    names = os.listdir(f"/proc/{pid}/fd")
    with contextlib.suppress(FileNotFoundError):  # closed since it was listed
        return any("socket:" in os.readlink(f"/proc/{pid}/fd/{name}") for name in names)
    return False


def test_a_wait_ends_when_somebody_stops_the_run(holdfast):
    holdfast("run", "-n", "a", "sleep", "60", expect=0)
    with subprocess.Popen(holdfast.argv("wait", "a"), stdout=subprocess.PIPE, text=True) as waiting:
        stop(holdfast, "a")
        said, _ = waiting.communicate(timeout=30)
    assert waiting.returncode in (137, 143)
    assert said.startswith("a  stopped (SIG")
