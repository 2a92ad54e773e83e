"""D1 for runs with a terminal: it goes with its shim, and the truth is told about what that did.

The kernel hangs the terminal up and the workload gets SIGHUP, as when any terminal closes
(docs/decisions/0008). What was written before is kept; no ending is invented.
"""

from __future__ import annotations

import os
import signal

from tests.support.recovering import kill_shim
from tests.support.running import (
    ended,
    info_of,
    output_of,
    stop,
    wait_for,
    wait_for_events,
    wait_for_output,
)
from tests.support.terminals import viewing


def test_D1_the_workload_is_hung_up_and_its_end_is_proven_or_lost(holdfast):
    holdfast("run", "--pty", "-n", "a", "sh", "-c", "seq 5000; echo said; exec sleep 600")
    before = wait_for_output("a", b"said\r\n")
    wait_for_events("a", "workload_resolved", why="it is known who the workload is")
    kill_shim("a")
    wait_for("a", lambda info: info.state != "orphaned", why="the workload has got SIGHUP")
    code = holdfast("wait", "a").returncode
    info = ended("a")
    # Whoever became its parent may not have reaped it yet: then the zombie tells.
    endings = {("killed", signal.SIGHUP, 129), ("lost", None, 125)}
    assert (info.outcome, info.signal, code) in endings
    assert info.exit_code is None
    assert output_of("a") == before


def test_D1_a_workload_that_ignores_the_hang_up_is_adopted_with_its_true_code(holdfast, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    ignores = f"trap '' HUP; echo said; read code <{gate}; echo unheard; exit $code"
    holdfast("run", "--pty", "-n", "a", "sh", "-c", ignores, expect=0)
    wait_for_output("a", b"said")
    kill_shim("a")
    assert info_of("a").state == "orphaned"
    refused = holdfast("attach", "--read-only", "a", expect=4)
    assert "lost its terminal" in refused.stderr
    assert holdfast("wait", "--timeout", "0.1", "a").returncode == 75  # it was adopted meanwhile
    assert info_of("a").state == "running"
    refused = holdfast("attach", "--read-only", "a", expect=4)
    assert "lost its terminal" in refused.stderr
    assert "no terminal any more" in holdfast("send", "a", "x", expect=6).stderr
    gate.write_text("7\n")
    info = ended("a")
    assert (info.outcome, info.exit_code) == ("failed", 7)
    assert output_of("a") == b"said\r\n"


def test_D1_a_restart_that_was_due_gets_a_new_terminal_from_the_adopter(holdfast, tmp_path):
    once = f"""
if [ -e {tmp_path}/again ]; then stty size; read x; echo "got $x"; exit 0; fi
: >{tmp_path}/again; exit 3"""
    options = ["--restart", "on-failure"]
    at = {"HOLDFAST_CRASH_AT": "shim.restart-scheduled"}
    holdfast("run", "--pty", "-n", "a", *options, "sh", "-c", once, env=at)
    wait_for_events("a", "restart_scheduled", why="the first attempt has failed")
    wait_for("a", lambda info: info.state != "running", why="the shim has died")
    holdfast("wait", "--timeout", "0.1", "a")
    wait_for_output("a", b"24 80")
    with viewing("a") as viewer:
        viewer.type(b"hello\r")
        viewer.read_to_end()
    info = ended("a")
    assert (info.outcome, info.exit_code, info.attempt) == ("succeeded", 0, 2)
    assert output_of("a") == b"24 80\r\nhello\r\ngot hello\r\n"


def test_D1_viewers_are_hung_up_on_and_told_why(holdfast):
    holdfast("run", "--pty", "-n", "a", "sh", "-c", "trap '' HUP; echo said; exec sleep 600")
    wait_for_output("a", b"said")
    with viewing("a") as viewer:
        kill_shim("a")
        viewer.read_to_end()
    stop(holdfast, "a")
    assert ended("a").outcome == "stopped"
