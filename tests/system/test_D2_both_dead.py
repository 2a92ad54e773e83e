"""D2: shim and workload both die. What is proven is recorded; nothing is made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.run.facts import State
from tests.support import recovery_scenes
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in
from tests.support.recovering import kill, kill_shim, known, recovered, shim_is_dead, wait_gone
from tests.support.running import events_of, output_of, run_of, settled, wait_for_output


def _started(holdfast, *words):
    holdfast("run", "-n", "a", *words, expect=0)
    return known("a")


def test_D2_both_killed_is_lost(holdfast):
    before = _started(holdfast, "sh", "-c", "echo hello; exec sleep 600")
    wait_for_output("a", b"hello")
    kill_shim("a")
    kill(before.workload)
    wait_gone(before.workload)
    assert known("a").outcome == "lost"
    told = recovered(holdfast)["a"]
    assert told["action"] == "lost"
    final = known("a")
    assert (final.outcome, final.exit_code, final.signal) == ("lost", None, None)
    assert final.core_dumped is None
    assert output_of("a") == b"hello\n"
    assert (final.name, final.command) == ("a", before.command)
    assert final.started_at == before.started_at


def test_D2_a_stop_that_comes_after_the_end_did_not_end_it(holdfast):
    before = _started(holdfast, "sleep", "600")
    kill_shim("a")
    kill(before.workload)
    wait_gone(before.workload)
    holdfast("stop", "a")
    final = known("a")
    assert (final.state, final.outcome, final.exit_code, final.signal) == (
        State.ENDED,
        "lost",
        None,
        None,
    )


@pytest.mark.parametrize("point", ["shim.exit-recorded", "shim.reaped", "shim.before-ended"])
def test_D2_an_exit_that_was_recorded_is_the_ending(holdfast, point):
    crash = {"HOLDFAST_CRASH_AT": f"{point}@shim"}
    holdfast("run", "-n", "a", "sh", "-c", "echo hello; exit 42", env=crash)
    shim_is_dead("a")
    derived = known("a")
    assert (derived.state, derived.outcome) == (State.ENDED, "failed")
    assert "not yet recorded" in derived.evidence
    assert recovered(holdfast)["a"]["action"] == "recorded"
    final = known("a")
    assert (final.outcome, final.exit_code) == ("failed", 42)
    assert output_of("a") == b"hello\n"


def test_D2_a_stop_that_was_begun_is_finished_by_the_adopter(holdfast):
    crash = {"HOLDFAST_CRASH_AT": "shim.stop-begun@shim"}
    holdfast("run", "-n", "a", "sleep", "600", env=crash, expect=0)
    holdfast("stop", "--grace", "0", "a", expect=0)
    final = known("a")
    assert final.outcome == "stopped"
    assert final.workload["verdict"] == "GONE"
    assert events_of("a", "supervised")[-1]["how"] == "adopted"


def test_D2_a_recycled_workload_is_gone_and_the_stranger_is_left_alone():
    needs("root", "pid_namespace")
    facts = run_in(Place(), recovery_scenes.recycled_workload)
    assert "RECYCLED" in facts["derived"]
    assert facts["told"]["action"] == "lost"
    assert "(pidfd inode" in facts["told"]["evidence"]
    assert facts["told"]["signals"] == 0
    assert "already ended (lost)" in facts["stop"]
    assert "no process was signalled" in facts["stop"]
    assert facts["verdict"] == "RECYCLED"
    assert (facts["rm"], facts["rm old"]) == (0, 0)
    assert facts["untouched"] is True


def test_D2_the_summary_can_be_rebuilt(holdfast):
    _started(holdfast, "true")
    before_it = settled("a")
    summary = Path(run_of("a").directory.summary_path)
    before = json.loads(summary.read_bytes())
    summary.unlink()
    assert recovered(holdfast)["a"]["action"] == "cleared"
    assert json.loads(summary.read_bytes()) == before
    assert known("a") == before_it
