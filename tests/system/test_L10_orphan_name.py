"""L10: no second copy beside a live workload, whoever lost its shim; L6 with an orphan."""

from __future__ import annotations

from holdfast.run.facts import State
from tests.support.recovering import kill, known, orphan, recovered, shim_is_dead, wait_gone
from tests.support.running import events_of, start_all, stop


def test_L10_the_name_of_an_orphan_is_refused(holdfast):
    before = orphan(holdfast, "a", "sleep", "600")
    refused = holdfast("run", "-n", "a", "sleep", "601", expect=4)
    assert str(before.workload["pid"]) in refused.stderr
    assert "orphaned" in refused.stderr
    assert "recover" in refused.stderr
    # Without regard to case.
    holdfast("run", "-n", "A", "sleep", "601", expect=4)
    info = known("a")
    assert (info.id, info.state) == (before.id, State.ORPHANED)
    recovered(holdfast)
    holdfast("run", "-n", "a", "sleep", "601", expect=4)
    stop(holdfast, "a")
    holdfast("run", "-n", "a", "true", expect=0)


def test_L10_many_starts_at_once_beside_an_orphan_are_all_refused(holdfast):
    before = orphan(holdfast, "a", "sleep", "600")
    done = start_all(holdfast, [["run", "-n", "a", "sleep", "601"] for _ in range(8)])
    assert [process.returncode for process in done] == [4] * 8
    assert known("a").id == before.id
    stop(holdfast, "a")


def test_L10_an_orphan_can_be_replaced(holdfast):
    before = orphan(holdfast, "a", "sleep", "600")
    done = holdfast("run", "-n", "a", "--replace", "sleep", "601", expect=0)
    assert str(before.workload["pid"]) in done.stderr
    assert "stopped" in done.stderr
    assert known(before.id).outcome == "stopped"
    assert known(before.id).workload["verdict"] != "SAME"
    assert known("a").id != before.id
    stop(holdfast, "a")


def test_L10_a_name_whose_run_is_lost_is_recorded_and_free(holdfast):
    before = orphan(holdfast, "a", "sleep", "600")
    kill(before.workload)
    wait_gone(before.workload)
    holdfast("run", "-n", "a", "true", expect=0)
    lost = known(before.id)
    assert (lost.state, lost.outcome) == (State.ENDED, "lost")
    assert events_of(before.id, "ended"), "recorded before the name was used again"


def test_L6_replacing_what_ends_by_itself_meanwhile_is_no_refusal(holdfast):
    for _ in range(5):
        holdfast("run", "-n", "a", "--replace", "sh", "-c", "sleep 0.2", expect=0)
    holdfast("wait", "a", expect=0)


def test_L10_a_restart_that_is_due_keeps_the_name(holdfast, tmp_path):
    """Its shim died between two attempts: the start of the name has the restart done first."""
    crash = {"HOLDFAST_CRASH_AT": "shim.restart-scheduled@shim"}
    flag = tmp_path / "flag"
    script = f"if [ -e {flag} ]; then exec sleep 600; fi; touch {flag}; exit 3"
    holdfast("run", "-n", "a", "--restart", "on-failure:1", "sh", "-c", script, env=crash)
    shim_is_dead("a")
    assert known("a").state is State.STARTING
    holdfast("run", "-n", "a", "true", expect=4)
    assert known("a").attempt == 2
    assert known("a").state is State.RUNNING
    stop(holdfast, "a")
