"""Stopping: shims that hang, workloads that will not, twice and at once, runs inside runs."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.running import (
    ended,
    events_of,
    info_of,
    is_alive,
    run_of,
    shim_pid,
    start_all,
    stop,
    wait_for,
    wait_for_output,
    workload_pid,
)
from tests.support.waiting import eventually

# A plain child, one that left the session, and one that double-forked; all refuse SIGTERM.
FAMILY = """\
trap '' TERM
sleep 601 & echo $!
setsid sleep 602 & echo $!
(setsid sh -c 'echo $$; exec sleep 603' &)
echo ready
while :; do sleep 0.05; done
"""


def _start_family(holdfast) -> list[int]:
    holdfast("run", "-n", "a", "bash", "-c", FAMILY, expect=0)
    said = wait_for_output("a", b"ready")
    eventually(lambda: len(run_of("a").output().split()) == 4)
    said = run_of("a").output()
    return [int(word) for word in said.split() if word.isdigit()] + [workload_pid("a")]


def _signals_of(name: str) -> list[dict[str, Any]]:
    return run_of(name).directory.read_signals()


# S0


def test_S0_a_stopped_shim_does_not_keep_its_tree_alive(holdfast):
    family = _start_family(holdfast)
    shim = shim_pid("a")
    os.kill(shim, signal.SIGSTOP)
    done = holdfast("stop", "--grace", "0.2", "a", expect=0, timeout=100)
    assert "tree empty" in done.stdout
    assert [pid for pid in family if is_alive(pid)] == []
    assert not is_alive(shim)
    info = info_of("a")
    assert (info.state, info.outcome) == ("ended", "stopped")
    # The shim was the last to be struck: until then no orphan of the tree could slip away.
    struck = [row["to"].split(".")[1] for row in _signals_of("a") if row["fate"] == "delivered"]
    assert struck[-1] == str(shim)
    assert struck.count(str(shim)) == 1
    holdfast("run", "-n", "a", "true", expect=0)
    ended("a")


def test_S0_two_stops_of_a_hung_run_at_once(holdfast):
    family = _start_family(holdfast)
    os.kill(shim_pid("a"), signal.SIGSTOP)
    done = start_all(holdfast, [["stop", "--grace", "0", "a"]] * 2)
    assert [process.returncode for process in done] == [0, 0], done
    assert [pid for pid in family if is_alive(pid)] == []
    assert info_of("a").outcome == "stopped"


def test_S0_a_hung_shim_does_not_take_the_runs_own_grace_and_signal_away(holdfast):
    polite = "trap 'echo asked; exit' INT; trap '' TERM; echo ready; while :; do sleep 0.05; done"
    holdfast(
        *("run", "-n", "a", "--grace", "30s", "--stop-signal", "INT", "bash", "-c", polite),
        expect=0,
    )
    wait_for_output("a", b"ready")
    os.kill(shim_pid("a"), signal.SIGSTOP)
    done = holdfast("stop", "a", expect=0, timeout=100)
    assert "tree empty" in done.stdout
    assert run_of("a").output() == b"ready\nasked\n"
    asked = [row["signal"] for row in _signals_of("a")]
    assert asked[0] == "SIGINT"
    ended("a")


# S1


def test_S1_sigkill_comes_after_the_grace_and_not_before(holdfast):
    family = _start_family(holdfast)
    done = holdfast("stop", "--grace", "1", "a", expect=0)
    assert "then SIGKILL to" in done.stdout
    assert [pid for pid in family if is_alive(pid)] == []
    info = info_of("a")
    assert (info.outcome, info.signal, info.ended_by) == ("stopped", 9, "holdfast")
    rows = _signals_of("a")
    asked = next(row for row in rows if row["signal"] == "SIGTERM")
    killed = next(row for row in rows if row["signal"] == "SIGKILL")
    assert killed["boottime"] - asked["boottime"] >= 1
    assert {row["proof"] for row in rows if row["fate"] == "delivered"} <= {
        "pidfd inode",
        "start ticks",
    }
    assert {row["to"].split(".")[1] for row in rows if row["signal"] == "SIGKILL"} >= {
        str(pid) for pid in family
    }


def test_S1_a_workload_that_ends_in_time_is_not_killed(holdfast):
    script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do read -t 0.05; done"
    holdfast("run", "-n", "a", "--stdin", "pipe", "bash", "-c", script, expect=0)
    wait_for_output("a", b"ready")
    holdfast("stop", "a", expect=0)
    info = info_of("a")
    assert (info.outcome, info.exit_code, info.signal) == ("stopped", 0, None)
    assert run_of("a").output().endswith(b"bye\n")
    assert {row["signal"] for row in _signals_of("a")} == {"SIGTERM"}
    assert holdfast("wait", "a").returncode == 0


# S5


def test_S5_stopping_twice_is_as_good_as_once(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    holdfast("stop", "a", expect=0)
    rows = _signals_of("a")
    for _ in range(2):
        assert "already ended (stopped)" in holdfast("stop", "a", expect=0).stdout
    assert _signals_of("a") == rows


def test_S5_many_stops_at_once_all_succeed(holdfast):
    holdfast("run", "-n", "a", "bash", "-c", "trap '' TERM; echo ready; exec sleep 600", expect=0)
    wait_for_output("a", b"ready")
    done = start_all(holdfast, [["stop", "--grace", "1", "a"]] * 6)
    assert [process.returncode for process in done] == [0] * 6
    assert len(events_of("a", "ended")) == 1
    assert info_of("a").outcome == "stopped"


def test_S5_a_second_stop_may_shorten_the_grace_of_the_first(holdfast):
    holdfast("run", "-n", "a", "bash", "-c", "trap '' TERM; echo ready; exec sleep 600", expect=0)
    wait_for_output("a", b"ready")
    with subprocess.Popen(holdfast.argv("stop", "--grace", "300", "a")) as patient:
        wait_for("a", lambda info: info.state == "stopping")
        holdfast("stop", "--grace", "0", "a", expect=0)
        assert patient.wait(30) == 0
    assert info_of("a").outcome == "stopped"


def test_S5_stop_of_an_unknown_run_signals_nobody_and_says_why(holdfast, tmp_path):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    pid, directory = workload_pid("a"), run_of("a").directory
    os.kill(shim_pid("a"), signal.SIGKILL)
    eventually(lambda: not directory.lock_is_held())
    # As if the record came from another PID namespace of this boot, which we can't look into.
    events = Path(directory.events_path)
    recorded = info_of("a").workload
    assert recorded is not None
    kept = events.read_text()
    token = recorded["token"].split(".")
    other = ".".join([*token[:4], "4026530000", *token[5:]])
    inode = f'"pidfd_inode":{recorded["pidfd_inode"]}'
    text = kept.replace(recorded["token"], other.replace(f".{token[3]}.", ".0."))
    text = text.replace(f'"pid_ns":{token[4]}', '"pid_ns":4026530000')
    events.write_text(text.replace(inode, '"pidfd_inode":null'))
    assert info_of("a").state == "unknown"
    holdfast("--json", "stop", "a", expect=4)
    holdfast("--json", "wait", "a", expect=125)
    assert "NOT stopped" in holdfast("stop", "a", expect=4).stdout
    assert is_alive(pid)
    assert not (tmp_path / "runs" / directory.id / "signals.jsonl").exists()
    # With the true record it is an orphan, which stop adopts and stops.
    events.write_text(kept)
    assert info_of("a").state == "orphaned"
    stop(holdfast, "a")
    assert not is_alive(pid)


# S7


def _inside(holdfast, *options: str) -> str:
    """A script that starts a run `inner`, tells its id, and goes on."""
    start = holdfast.argv("--json", "run", "-n", "inner", *options, "sleep", "600")
    return f"{shlex.join(start)}; echo started; exec sleep 601"


def _start_both(holdfast, *options: str) -> tuple[str, str]:
    holdfast("run", "-n", "outer", "bash", "-c", _inside(holdfast, *options), expect=0)
    said = wait_for_output("outer", b"started\n")
    inner: str = json.loads(said.splitlines()[0])["id"]
    return info_of("outer").id, inner


def test_S7_stopping_the_outer_run_stops_the_inner_through_its_own_shim(holdfast):
    outer, inner = _start_both(holdfast)
    found = run_of(inner).info()
    assert (found.started_in, found.state) == (outer, "running")
    inner_shim, pid = shim_pid("inner"), workload_pid("inner")
    holdfast("stop", "outer", expect=0)
    info = ended("inner")
    assert info.outcome == "stopped"
    assert "was started in was stopped" in info.evidence
    assert not is_alive(pid)
    assert info_of("outer").outcome == "stopped"
    # The inner run was struck by its own shim alone.
    own = [row["to"].split(".")[1] for row in _signals_of("inner")]
    others = [row["to"].split(".")[1] for row in _signals_of("outer")]
    assert str(pid) in own
    assert {str(pid), str(inner_shim)}.isdisjoint(others)


def test_S7_an_independent_inner_run_lives_on(holdfast):
    _outer, _inner = _start_both(holdfast, "--independent")
    pid, shim = workload_pid("inner"), shim_pid("inner")
    holdfast("stop", "outer", expect=0)
    assert info_of("outer").cleanup is not None
    assert is_alive(pid)
    assert is_alive(shim)
    assert info_of("inner").state == "running"
    stop(holdfast, "inner")


@pytest.mark.parametrize("options", [(), ("--independent",)])
def test_S7_an_inner_run_outlives_the_end_of_the_outer(holdfast, options):
    start = holdfast.argv("run", "-n", "inner", *options, "sleep", "600")
    holdfast("run", "-n", "outer", *start, expect=0)
    assert ended("outer").outcome == "succeeded"
    assert info_of("inner").state == "running"
    assert info_of("inner").started_in == info_of("outer").id
    assert is_alive(workload_pid("inner"))
    stop(holdfast, "inner")


def test_S7_killing_the_outer_shim_harms_neither_record(holdfast):
    _start_both(holdfast)
    pid, inner_pid = workload_pid("outer"), workload_pid("inner")
    os.kill(shim_pid("outer"), signal.SIGKILL)
    wait_for("outer", lambda info: info.state == "orphaned")
    assert info_of("inner").state == "running"
    assert is_alive(inner_pid)
    done = holdfast("stop", "--grace", "1", "outer", expect=0)
    assert "outer" in done.stdout
    assert not is_alive(pid)
    assert info_of("outer").outcome == "stopped"
    # Its own shim was asked, and stopped it.
    assert ended("inner").outcome == "stopped"
    assert not is_alive(inner_pid)


def test_S7_killing_the_inner_shim_leaves_the_inner_workload_to_its_own_record(holdfast):
    _start_both(holdfast)
    inner_pid = workload_pid("inner")
    os.kill(shim_pid("inner"), signal.SIGKILL)
    wait_for("inner", lambda info: info.state == "orphaned")
    stop(holdfast, "outer")
    # Recorded as another run's: the outer stop does not strike it as a mere descendant.
    struck = {row["to"].split(".")[1] for row in _signals_of("outer")}
    assert str(inner_pid) not in struck
    stop(holdfast, "inner")
    assert not is_alive(inner_pid)
    assert info_of("inner").outcome in ("stopped", "lost")


def test_a_python_workload_can_start_and_wait_for_runs_of_its_own(holdfast):
    script = (
        "from holdfast.manage.runs import Runs\n"
        "run = Runs().start(['sh', '-c', 'exit 6'], name='child')\n"
        "print(run.wait().exit_code, flush=True)\n"
    )
    holdfast("run", "-n", "parent", sys.executable, "-c", script, expect=0)
    assert ended("parent").outcome == "succeeded"
    assert run_of("parent").output() == b"6\n"
    assert info_of("child").started_in == info_of("parent").id
