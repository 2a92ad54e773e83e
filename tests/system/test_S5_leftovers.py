"""S5, S6: what `--leftovers keep` left is stopped when that is asked for; the ending stays."""

from __future__ import annotations

import pytest

from holdfast.manage.runs import Runs
from holdfast.process.identity import ProcessIdentity
from holdfast.run.facts import State
from tests.support.recovering import known
from tests.support.running import (
    events_of,
    is_alive,
    output_of,
    run_of,
    settled,
    stop,
    wait_for_output,
)
from tests.support.waiting import eventually


@pytest.fixture
def left(holdfast, tmp_path):
    """Starts a run that ends and leaves a process alive, which its shim has seen: who that is."""

    def start(name, then=""):
        gate = tmp_path / f"gate-{name}"
        script = f"{then} tail -f /dev/null & echo $!; while [ ! -e '{gate}' ]; do sleep 0.02; done"
        holdfast("run", "-n", name, "--leftovers", "keep", "sh", "-c", script, expect=0)
        wait_for_output(name, b"\n")
        pid = int(output_of(name))

        def seen():
            rows = [row for event in events_of(name, "members_seen") for row in event["members"]]
            found = [ProcessIdentity.parse(row["token"]) for row in rows]
            return [identity for identity in found if identity.pid == pid]

        identity = eventually(seen, why="its shim has seen it")[0]
        gate.touch()
        assert settled(name).outcome == "succeeded"
        assert is_alive(pid)
        return identity

    return start


def test_S5_stop_of_an_ended_run_stops_what_it_left(holdfast, left):
    kept, of_another = left("a"), left("b")
    (before,) = events_of("a", "ended")
    refused = holdfast("rm", "a", expect=4)
    assert f"{kept.pid} is alive" in refused.stdout
    assert "holdfast stop" in refused.stderr
    done = holdfast("stop", "a", expect=0)
    assert "had ended (succeeded)" in done.stdout
    assert f"SIGTERM {kept.pid}" in done.stdout
    assert kept.wait(20)
    assert is_alive(of_another.pid)
    assert events_of("a", "ended") == [before]
    assert [event["kind"] for event in events_of("a")][-2:] == ["ended", "cleaned"]
    assert known("a").state is State.ENDED
    assert known("a").outcome == "succeeded"
    (struck,) = run_of("a").directory.read_signals()
    assert (struck["to"], struck["fate"]) == (kept.token, "delivered")

    again = holdfast("stop", "a", expect=0)
    assert "no process was signalled" in again.stdout
    assert len(events_of("a", "cleaned")) == 1
    holdfast("rm", "a", expect=0)
    assert Runs().get("b").stop(grace=20).signalled == 1
    assert of_another.wait(20)


def test_S6_rm_stop_ends_what_an_ended_run_left(holdfast, left):
    kept = left("a")
    holdfast("rm", "--stop", "a", expect=0)
    assert kept.wait(20)
    holdfast("status", "a", expect=3)


def test_S5_what_was_left_is_killed_when_it_ignores_the_polite_signal(holdfast, left):
    kept = left("a", then="trap '' TERM;")
    done = holdfast("stop", "--grace", "0", "a", expect=0)
    assert "SIGKILL" in done.stdout
    assert kept.wait(20)


def test_S5_a_run_that_was_started_inside_is_not_what_was_left(holdfast):
    """Its processes may have been seen before it was known whose they are: they are spared."""
    command = " ".join(holdfast.argv("run", "-n", "inner", "sleep", "600"))
    holdfast("run", "-n", "outer", "--leftovers", "keep", "sh", "-c", command, expect=0)
    assert settled("outer").outcome == "succeeded"
    inner = known("inner")
    holdfast("stop", "outer", expect=0)
    assert known("inner").state is State.RUNNING
    assert is_alive(inner.workload["pid"])
    stop(holdfast, "inner")
