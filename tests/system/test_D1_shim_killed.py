"""D1: the shim alone is killed. Output goes on, and an adopter sees the true ending."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from holdfast.run.facts import State
from tests.support import recovery_scenes
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in
from tests.support.recovering import (
    gated,
    kill_shim,
    known,
    log_bytes,
    orphan,
    over,
    recovered,
    wait_gone,
)
from tests.support.running import events_of, output_of, run_of, stop, wait_for_events
from tests.support.waiting import eventually


def test_D1_an_orphan_is_adopted_and_its_exit_code_recorded(holdfast, tmp_path):
    gate = tmp_path / "gate"
    before = orphan(holdfast, "a", *gated(gate, "echo last; exit 42"))
    info = known("a")
    assert "the lock is free" in info.evidence
    assert f"shim {before.shim['pid']} GONE" in info.evidence
    written = log_bytes("a")
    eventually(lambda: log_bytes("a") > written, why="output goes on without a shim")

    told = recovered(holdfast)["a"]
    assert told["action"] == "adopted"
    assert told["signals"] == 0
    adopted = known("a")
    assert adopted.state is State.RUNNING
    assert adopted.shim["pid"] == told["shim"]["pid"] != before.shim["pid"]
    written = log_bytes("a")
    eventually(lambda: log_bytes("a") > written, why="output goes on with the new shim")

    gate.touch()
    final = over("a")
    assert (final.outcome, final.exit_code, final.signal) == ("failed", 42, None)
    assert final.ended_by == "itself"
    launched, by_adopter = events_of("a", "supervised")
    assert launched["shim"]["token"] == by_adopter["previous_shim"]["token"]
    assert (launched["how"], by_adopter["how"]) == ("launched", "adopted")
    assert str(before.shim["pid"]) in by_adopter["evidence"]
    assert output_of("a").endswith(b"last\n")
    assert holdfast("wait", "a").returncode == 42


@pytest.mark.parametrize(
    ("then", "ending"),
    [
        ("exit 0", ("succeeded", 0, None, "itself")),
        ("kill -SEGV $$", ("killed", None, signal.SIGSEGV, "itself")),
        ("kill -KILL $$", ("killed", None, signal.SIGKILL, "outside")),
    ],
)
def test_D1_every_ending_is_seen_by_the_adopter(holdfast, tmp_path, then, ending):
    gate = tmp_path / "gate"
    orphan(holdfast, "a", *gated(gate, then))
    recovered(holdfast)
    gate.touch()
    final = over("a")
    assert (final.outcome, final.exit_code, final.signal, final.ended_by) == ending


def test_D1_what_ended_while_nobody_watched_is_lost_and_not_guessed(holdfast, tmp_path):
    gate = tmp_path / "gate"
    orphan(holdfast, "a", *gated(gate, "echo last; exit 42"))
    gate.touch()
    wait_gone(events_of("a", "attempt_started")[0]["root"])
    derived = known("a")
    assert (derived.state, derived.outcome, derived.exit_code) == (State.ENDED, "lost", None)
    assert "not yet recorded" in derived.evidence

    told = recovered(holdfast)["a"]
    assert (told["action"], told["exit_code"], told["signals"]) == ("lost", None, 0)
    final = known("a")
    assert (final.outcome, final.exit_code, final.signal) == ("lost", None, None)
    assert final.ended_by == "unknown"
    assert final.ended_at is None, "nobody saw when"
    assert "last seen alive" in final.evidence
    assert output_of("a").endswith(b"last\n")
    assert holdfast("wait", "a").returncode == 125


def test_D1_twice_in_a_row(holdfast, tmp_path):
    gate = tmp_path / "gate"
    orphan(holdfast, "a", *gated(gate, "exit 42"))
    for shims in (2, 3):
        recovered(holdfast)
        assert len(events_of("a", "supervised")) == shims
        kill_shim("a")
        assert known("a").state is State.ORPHANED
    recovered(holdfast)
    gate.touch()
    assert over("a").exit_code == 42


def test_D1_stop_and_wait_adopt_what_they_meet(holdfast, tmp_path):
    gate = tmp_path / "gate"
    orphan(holdfast, "a", *gated(gate, "exit 42"))
    stopped = holdfast("stop", "--grace", "5", "a", expect=0)
    assert "stopped" in stopped.stdout
    final = known("a")
    assert (final.outcome, final.signal) == ("stopped", signal.SIGTERM)
    assert final.cleanup["survivors"] == []

    another = tmp_path / "another gate"
    orphan(holdfast, "b", *gated(another, "exit 7"))
    with subprocess.Popen(holdfast.argv("wait", "b"), stdout=subprocess.DEVNULL) as waiting:
        wait_for_events("b", "supervised", 2, why="it was adopted")
        another.touch()
        assert waiting.wait(60) == 7


def test_D1_stop_orphans_on_request(holdfast):
    orphan(holdfast, "a", "sleep", "600")
    told = recovered(holdfast, "--stop-orphans")["a"]
    assert (told["action"], told["outcome"]) == ("stopped", "stopped")
    assert told["signals"] >= 1
    assert known("a").workload["verdict"] != "SAME"


def test_D1_a_dry_run_changes_nothing(holdfast):
    orphan(holdfast, "a", "sleep", "600")
    record = run_of("a").directory.events_path
    with open(record, "rb") as file:
        content = file.read()
    assert recovered(holdfast, "--dry-run")["a"]["action"] == "adopted"
    with open(record, "rb") as file:
        assert file.read() == content
    assert known("a").state is State.ORPHANED
    stop(holdfast, "a")


LEAVES_A_DAEMON = """
import os, subprocess, sys, time
subprocess.Popen(["setsid", "sleep", "600"])
print("began", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
sys.exit(5)
"""


def test_D1_leftovers_of_an_orphan_are_stopped_by_its_adopter(holdfast, tmp_path):
    gate = tmp_path / "gate"
    holdfast("run", "-n", "a", sys.executable, "-c", LEAVES_A_DAEMON, gate, expect=0)
    eventually(lambda: len(_members("a")) == 2, why="the shim has seen the daemon")
    kill_shim("a")
    recovered(holdfast)
    gate.touch()
    final = over("a")
    assert final.exit_code == 5
    assert final.cleanup["signalled"] == 1
    assert final.cleanup["survivors"] == []
    assert final.cleanup["complete"] is None, "an adopter is no subreaper: a fork may be missed"


def _members(name):
    return [one["token"] for event in events_of(name, "members_seen") for one in event["members"]]


def test_D1_below_a_pid_1_that_never_reaps():
    needs("root", "pid_namespace")
    facts = run_in(Place(init_reaps=False), recovery_scenes.adopted_below_a_lazy_init)
    assert facts["exit_code"] == 42
    assert facts["outcome"] == "failed"
    assert facts["how"] == "stat"
    assert facts["zombie"] is True


def test_D1_seen_after_the_end_below_a_pid_1_that_never_reaps():
    """The zombie still shows its status to whoever comes later."""
    needs("root", "pid_namespace")
    facts = run_in(Place(init_reaps=False), recovery_scenes.found_as_a_zombie)
    assert (facts["outcome"], facts["exit_code"]) == ("failed", 42)
    assert facts["action"] == "recorded"
