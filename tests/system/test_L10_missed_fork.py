"""L10: a process that was forked while no shim was there keeps the name, though nobody knows it."""

from __future__ import annotations

import os
import signal
import sys

from tests.support.recovering import kill, known, orphan, over, recovered, wait_gone
from tests.support.running import events_of, is_alive, output_of, wait_for_output
from tests.support.waiting import eventually, wait_for_exit


def _leave_unknown(holdfast, tmp_path, name, *options):
    """A run whose shim died, whose root then left a process in a session of its own, and ended."""
    gate = tmp_path / f"gate-{name}"
    then = "setsid tail -f /dev/null & echo $!"
    script = f"while [ ! -e '{gate}' ]; do sleep 0.02; done; {then}"
    before = orphan(holdfast, name, *options, "sh", "-c", script)
    gate.touch()
    wait_for_output(name, b"\n")
    wait_gone(before.workload)
    return int(output_of(name))


def test_L10_no_second_copy_beside_a_process_that_nobody_saw_being_forked(holdfast, tmp_path):
    pid = _leave_unknown(holdfast, tmp_path, "a")
    try:
        for words in (("run", "-n", "a"), ("run", "--replace", "-n", "A")):
            refused = holdfast(*words, "true", expect=4)
            assert f"{pid} tail carries its stamp" in refused.stderr
            assert "holdfast tree" in refused.stderr
        assert over("a").outcome == "lost"
        assert [one["pid"] for one in recovered(holdfast)["a"]["suspects"]] == [pid]
        holdfast("rm", "a", expect=4)
        assert is_alive(pid), "the stamp is no proof: nobody is signalled on it"
        holdfast("run", "-n", "b", "true", expect=0)
    finally:
        os.kill(pid, signal.SIGKILL)
    wait_for_exit(pid, why="it has ended")
    holdfast("run", "-n", "a", "true", expect=0)
    over("a")


def test_L10_the_users_word_frees_the_name(holdfast, tmp_path):
    pid = _leave_unknown(holdfast, tmp_path, "a")
    try:
        holdfast("run", "-n", "a", "true", expect=4)
        holdfast("rm", "--force", "a", expect=0)
        holdfast("run", "-n", "a", "true", expect=0)
        over("a")
        assert is_alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_L10_what_was_to_be_kept_does_not_keep_the_name(holdfast, tmp_path):
    pid = _leave_unknown(holdfast, tmp_path, "a", "--leftovers", "keep")
    try:
        holdfast("run", "-n", "a", "true", expect=0)
        over("a")
        assert is_alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_L10_what_nobody_recorded_is_not_over(holdfast):
    """The root is gone and a member lives; whoever is to record the end, and to stop it, dies."""
    script = (
        "import subprocess; child = subprocess.Popen(['tail', '-f', '/dev/null']);"
        " print(child.pid, flush=True); child.wait()"
    )
    holdfast("run", "-n", "a", sys.executable, "-c", script, expect=0)
    wait_for_output("a", b"\n")
    pid = int(output_of("a"))

    def is_seen():
        rows = [row for event in events_of("a", "members_seen") for row in event["members"]]
        return any(row["token"].startswith(f"hf1.{pid}.") for row in rows)

    eventually(is_seen, why="its shim has seen it", timeout=60)
    before = known("a")
    root = events_of("a", "attempt_started")[0]["root"]
    kill(before.shim)
    kill(root)
    wait_gone(root)
    assert is_alive(pid)
    crash = {"HOLDFAST_CRASH_AT": "adopter.locked"}
    refused = holdfast("run", "-n", "a", "true", env=crash, expect=6)
    assert "try again" in refused.stderr
    assert is_alive(pid)
    holdfast("run", "-n", "a", "true", expect=0)
    wait_for_exit(pid, why="what was left is stopped first")
    over("a")
