"""Q5, Q7: a queued run waits for a time, or for the ends of other runs."""

from __future__ import annotations

import itertools
import os
import signal
import time
from datetime import datetime, timedelta

import pytest

from holdfast.errors import InvalidOption, Refused, RunNotFound
from holdfast.run.facts import State
from holdfast.run.outcomes import Outcome
from tests.support.features import needs
from tests.support.recovering import gated, kill_shim, recovered
from tests.support.running import events_of, run_of, wait_for, wait_for_events
from tests.support.waiting import eventually


def queued(run) -> bool:
    return run.info().state is State.QUEUED


def test_Q7_in_0_and_a_time_in_the_past_start_at_once(runs):
    for options in ({"delay": 0}, {"at": "2020-01-01T00:00"}):
        info = runs.start(["true"], **options).wait(60)
        assert info.outcome is Outcome.SUCCEEDED
        kinds = [event["kind"] for event in events_of(info.name)]
        assert kinds.index("queued") < kinds.index("admitted") < kinds.index("attempt_started")


def test_Q7_nothing_is_started_before_its_time_and_the_limit_counts_from_the_start(runs):
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    run = runs.start(["sleep", "1000"], delay=1.5, timeout="1s")
    info = run.wait(60)
    assert info.outcome is Outcome.TIMED_OUT
    assert events_of(info.name, "attempt_started")[0]["boottime"] - before >= 1.5
    assert info.duration_seconds >= 0.9


def test_Q7_a_queued_run_is_shown_with_its_time_and_can_be_cancelled(runs):
    run = runs.start(["true"], delay="1h")
    info = run.info()
    assert (info.state, info.attempt, info.workload) == (State.QUEUED, None, None)
    assert info.queue["name"] is None
    assert info.queue["waits_for"]["kind"] == "time"
    assert info.log_bytes == 0, "output.log is there from the beginning"
    left = datetime.fromisoformat(info.queue["waits_for"]["until"]) - datetime.now().astimezone()
    assert timedelta(minutes=55) < left < timedelta(minutes=65)
    run.stop()
    ended = run.info()
    assert (ended.outcome, ended.exit_code, ended.started_at) == (Outcome.STOPPED, None, None)
    assert ended.ended_by == "holdfast"


def test_Q7_a_queued_run_whose_shim_is_gone_waits_again_after_recover(holdfast, runs):
    run = runs.start(["true"], delay="1h", name="a")
    kill_shim("a")
    info = run.info()
    assert info.state is State.QUEUED
    assert info.queue["waits_for"]["kind"] == "shim"
    assert recovered(holdfast)["a"]["action"] == "waiting again"
    assert run.info().queue["waits_for"]["kind"] == "time"
    assert recovered(holdfast) == {}
    assert len(events_of("a", "queued")) == 2
    run.stop()


def test_Q7_in_goes_on_to_count_across_an_adoption_and_starts_once(holdfast, runs, tmp_path):
    # At the crash point and not by a kill: on a busy machine the two seconds may be over by then.
    die = {"HOLDFAST_CRASH_AT": "shim.queued@shim"}
    command = ["sh", "-c", f"echo x >> {tmp_path}/ran"]
    holdfast("run", "-n", "a", "--in", "2s", *command, env=die)
    run = runs.get("a")
    asked = run.directory.read_spec().waits["in"]["boottime"]
    assert run.wait(60).outcome is Outcome.SUCCEEDED
    assert (tmp_path / "ran").read_text() == "x\n"
    assert events_of("a", "attempt_started")[0]["boottime"] - asked >= 2
    assert [event["how"] for event in events_of("a", "supervised")] == ["launched", "adopted"]


def test_Q7_a_cancelled_run_whose_shim_died_then_is_cancelled(holdfast, runs):
    run = runs.start(["true"], delay="1h", name="a")
    os.kill(run.info().shim["pid"], signal.SIGSTOP)
    kill_shim("a")
    holdfast("stop", "a", expect=0)
    assert run.info().outcome is Outcome.STOPPED
    assert holdfast("wait", "a").returncode == 125


@pytest.mark.parametrize("bad", ["soon", "25:00", "", "03:00:00:00"])
def test_a_time_that_is_none_is_refused(runs, bad):
    with pytest.raises(InvalidOption, match="at: "):
        runs.start(["true"], at=bad)


def test_the_next_three_o_clock_is_within_a_day(runs):
    run = runs.start(["true"], at="03:00")
    until = datetime.fromisoformat(run.info().queue["waits_for"]["until"]).astimezone()
    assert (until.hour, until.minute, until.second) == (3, 0, 0)
    assert timedelta() < until - datetime.now().astimezone() <= timedelta(days=1, hours=1)
    run.stop()


# After


def test_Q5_a_run_starts_after_another_has_succeeded_and_not_before(runs, tmp_path):
    gate = tmp_path / "gate"
    first = runs.start(gated(gate, "exit 0"), name="first")
    then = runs.start(["true"], after=["first"])
    assert queued(then)
    assert then.info().queue["waits_for"]["kind"] == "after"
    gate.touch()
    assert then.wait(60).outcome is Outcome.SUCCEEDED
    assert first.info().ended_at < then.info().started_at


@pytest.mark.parametrize(
    ("command", "evidence"),
    [("exit 2", "after first: failed, exit 2"), ("kill -SEGV $$", "after first: killed, SIGSEGV")],
)
def test_Q5_dependents_of_a_failed_run_end_at_once_with_the_reason(
    runs, tmp_path, command, evidence
):
    gate = tmp_path / "gate"
    runs.start(gated(gate, command), name="first")
    then = runs.start(["true"], after=["first"], name="then")
    last = runs.start(["true"], after=["then"], name="last")
    whatever = runs.start(["true"], after_any=["then"])
    gate.touch()
    failed = then.wait(60)
    assert (failed.outcome, failed.exit_code) == (Outcome.NEVER_STARTED, 125)
    assert evidence in failed.evidence
    assert "after then: never_started" in last.wait(60).evidence
    assert whatever.wait(60).outcome is Outcome.SUCCEEDED


def test_Q5_a_stopped_run_and_one_that_was_cancelled_while_waiting_release_their_dependents(
    runs, tmp_path
):
    runs.start(gated(tmp_path / "gate", "exit 0"), name="first")
    middle = runs.start(["true"], after=["first"], name="middle")
    strict = runs.start(["true"], after=["middle"])
    loose = runs.start(["true"], after_any=["middle"])
    middle.stop()
    assert "after middle: stopped" in strict.wait(60).evidence
    assert loose.wait(60).outcome is Outcome.SUCCEEDED
    runs.get("first").stop(grace=0)


def test_Q5_a_run_that_is_lost_lets_its_dependent_fail_once_that_is_recorded(runs, tmp_path):
    first = runs.start(gated(tmp_path / "gate", "exit 0"), name="first")
    then = runs.start(["true"], after=["first"], name="then")
    workload = first.info().workload
    # Its neighbour, the waiting shim, has the ending recorded; its end was not seen.
    os.kill(first.info().shim["pid"], signal.SIGSTOP)
    os.kill(workload.pid, signal.SIGKILL)
    kill_shim("first")
    info = then.wait(60)
    assert info.outcome is Outcome.NEVER_STARTED
    assert info.evidence.startswith("after first: ")


def test_Q5_a_chain_of_runs_goes_through_in_order(holdfast, runs, tmp_path):
    names = [f"c{number:02}" for number in range(12)]
    gate = tmp_path / "gate"
    runs.start(gated(gate, f"echo {names[0]} >> {tmp_path}/order"), name=names[0])
    for before, name in itertools.pairwise(names):
        script = f"echo {name} >> {tmp_path}/order"
        holdfast("run", "-q", "-n", name, "--after", before, "sh", "-c", script, expect=0)
    gate.touch()
    assert runs.get(names[-1]).wait(100).outcome is Outcome.SUCCEEDED
    assert (tmp_path / "order").read_text().split() == names


def test_Q5_an_awaited_run_is_not_removed_and_an_unknown_one_is_not_awaited(holdfast, runs):
    runs.start(["true"], name="first").wait(60)
    slow = runs.start(["sleep", "1000"], name="slow")
    then = runs.start(["true"], after=["first", "slow"], name="then")
    assert queued(then)
    refused = holdfast("rm", "first", expect=4)
    assert "awaited by then" in refused.stdout + refused.stderr
    assert runs.get("first").info().outcome is Outcome.SUCCEEDED, "it is whole, and in its place"
    with pytest.raises(RunNotFound):
        runs.start(["true"], after=["nobody"])
    then.stop()
    slow.stop(grace=0)
    holdfast("rm", "first", expect=0)


def test_Q5_a_run_that_would_stop_what_it_waits_for_is_refused(runs, tmp_path):
    first = runs.start(gated(tmp_path / "gate", "exit 0"), name="first")
    with pytest.raises(Refused, match="which this run is to wait for"):
        runs.start(["true"], name="first", replace=True, after=["first"])
    first.stop(grace=0)


def test_Q5_the_dependent_of_a_killed_shim_s_run_waits_for_the_true_end(runs, tmp_path):
    gate = tmp_path / "gate"
    runs.start(gated(gate, "exit 0"), name="first")
    then = runs.start(["true"], after=["first"], name="then")
    kill_shim("first")
    wait_for_events("first", "supervised", 2, "its neighbour, the waiting shim, had it adopted")
    assert queued(then)
    gate.touch()
    assert then.wait(60).outcome is Outcome.SUCCEEDED


# What holds for every queued run


def test_a_key_s_queued_cancelled_or_failed_run_is_returned_and_not_started_again(runs):
    first = runs.start(["true"], key="k", delay="1h")
    assert runs.start(["true"], key="k").id == first.id
    first.stop()
    assert runs.start(["true"], key="k").id == first.id


def test_a_queued_run_holds_its_name_and_refuses_what_needs_a_process(holdfast, runs):
    run = runs.start(["cat"], name="a", delay="1h", stdin="pipe")
    for words in (("run", "-n", "a", "true"), ("send", "a", "x"), ("rm", "a"), ("archive", "a")):
        holdfast(*words, expect=4)
    assert queued(run)
    holdfast("rm", "--stop", "a", expect=0)
    with pytest.raises(RunNotFound):
        runs.get("a")


def test_an_outer_run_that_is_stopped_cancels_the_runs_that_wait_inside_it(holdfast, runs):
    words = " ".join(map(str, holdfast.argv("run", "-n", "inner", "--in", "1h", "true")))
    runs.start(["sh", "-c", f"{words}; sleep 1000"], name="outer")
    wait_for("inner", lambda info: info.state is State.QUEUED)
    holdfast("stop", "--grace", "5", "outer", expect=0)
    info = run_of("inner").wait(60)
    assert (info.outcome, info.stop_reason) == (Outcome.STOPPED, "outer")


def test_rerun_does_not_wait_again_for_what_its_run_waited_for(runs):
    first = runs.start(["true"], delay=0, name="a")
    first.wait(60)
    again = first.rerun()
    assert again.wait(60).queue is None


def test_a_waiting_shim_wakes_up_for_nothing(runs):
    needs("root")
    run = runs.start(["true"], delay="1h")
    pid = run.info().shim["pid"]

    def switches() -> int:
        with open(f"/proc/{pid}/status") as status:
            lines = [line for line in status if line.startswith("voluntary_ctxt")]
        return int(lines[0].split()[1])

    seen = [switches()]

    def is_quiet() -> bool:
        seen.append(switches())
        return len(seen) > 30 and len(set(seen[-30:])) == 1

    eventually(is_quiet, why="it sleeps")  # 30 looks, 10 ms apart
    run.stop()
