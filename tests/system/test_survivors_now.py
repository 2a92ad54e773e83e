"""A recorded survivor is judged by looking at it now, and is named with PID and state."""

from __future__ import annotations

import sys

from holdfast.process import procfs
from tests.support.cli import CommandLine
from tests.support.features import needs
from tests.support.recovering import known
from tests.support.running import events_of, settled
from tests.support.tracer import held_at_exit
from tests.support.waiting import eventually, wait_for_exit

_FORKS = "import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(600)"


def _forked(holdfast: CommandLine, name: str) -> int:
    """A run of two processes, both seen by the shim; the PID of the second."""
    holdfast("run", "-n", name, "--grace", "0", sys.executable, "-c", _FORKS, expect=0)
    root = events_of(name, "attempt_started")[0]["root"]["pid"]
    (child,) = eventually(lambda: procfs.children(root), why="it forked")
    seen = lambda: str(child) in str(events_of(name, "members_seen"))  # noqa: E731
    eventually(seen, why="the shim has seen the child")
    return int(child)


def test_a_survivor_that_has_ended_since_is_no_survivor_any_more(holdfast):
    needs("root")
    child = _forked(holdfast, "a")
    with held_at_exit(child):
        holdfast("stop", "--grace", "0", "a", expect=1)
        settled("a")
        said = f"{child} "
        assert f"survives: {said}" in holdfast("ls", expect=0).stdout
        assert "(traced)" in holdfast("ls", expect=0).stdout
        (left,) = known("a").cleanup["survivors"]
        assert (left["pid"], left["verdict"], left["state"]) == (child, "SAME", "traced")
        assert known("a").cleanup["complete"] is False
    wait_for_exit(child, why="it is let go, and ends")
    assert "survives" not in holdfast("ls", expect=0).stdout
    cleanup = holdfast("status", "--json", "a", expect=0).json["cleanup"]
    assert (cleanup["survivors"], cleanup["complete"]) == ([], None)
    page = holdfast("status", "a", expect=0).stdout
    assert "survived, and has ended since" in " ".join(page.split())
    assert f"holdfast rm {known('a').name}" in page  # nothing stands against it


def test_rm_stop_of_a_run_that_has_ended_names_who_survives(holdfast):
    needs("root")
    child = _forked(holdfast, "a")
    with held_at_exit(child):
        refused = holdfast("rm", "--stop", "a", expect=4)
        assert "NOT removed" in refused.stdout
        assert f"{child} " in refused.stdout
        assert "survives, state traced" in refused.stdout
        assert f"{child} may be held by a debugger" in refused.stderr
    wait_for_exit(child, why="it is let go, and ends")
    holdfast("rm", "--stop", "a", expect=0)


def test_rm_stop_of_a_run_that_does_not_end_names_who_survives(holdfast):
    """Its shim waits for the root, so its lock is held."""
    needs("root")
    holdfast("run", "-n", "a", "--grace", "0", "sleep", "600", expect=0)
    root = events_of("a", "attempt_started")[0]["root"]["pid"]
    with held_at_exit(root):
        refused = holdfast("rm", "--stop", "a", expect=4)
        assert f"{root} sleep survives, state traced" in refused.stdout
        assert "its supervisor is alive" not in refused.stdout
        assert f"{root} may be held by a debugger" in refused.stderr
        document = holdfast("rm", "a", "--json", expect=4).json["runs"][0]
        assert str(root) in document["error"]["message"]
    settled("a")
    holdfast("rm", "a", expect=0)


def test_no_second_copy_starts_beside_a_survivor_of_an_ended_run(holdfast, tmp_path):
    needs("root")
    child = _forked(holdfast, "a")
    with held_at_exit(child):
        holdfast("stop", "--grace", "0", "a", expect=1)
        settled("a")
        second = tmp_path / "second"
        refused = holdfast("run", "-n", "a", "touch", second, expect=4)
        assert f"{child} " in refused.stderr
        holdfast("run", "-n", "a", "--replace", "--grace", "0", "touch", second, expect=4)
        assert not second.exists()
    wait_for_exit(child, why="it is let go, and ends")
    holdfast("run", "-n", "a", "true", expect=0)
