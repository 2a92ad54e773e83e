"""Q2, Q5, Q12: what a submission is refused for, and that nothing has happened then."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from holdfast.errors import Refused
from holdfast.run.facts import State
from holdfast.run.home import Home
from holdfast.run.locks import HeldLock
from holdfast.run.outcomes import Outcome
from tests.support.kernel_lab import run_in
from tests.support.places import namespace_of
from tests.support.queues import blocker, queue_of
from tests.support.recovering import gated, held_at, known
from tests.support.running import in_foreground, run_of, wait_for
from tests.support.waiting import eventually
from tests.system.queue_scenes import submit_here


def said_by(process: subprocess.Popen[bytes]) -> bytes:
    """Its first line on stderr."""
    assert process.stderr is not None
    return process.stderr.readline()


def taken(lock: HeldLock | None) -> HeldLock:
    assert lock is not None
    return lock


@pytest.fixture
def inside(monkeypatch, tmp_path):
    """From here on, starts are made inside that run; None: inside none."""

    def enter(run) -> None:
        if run is None:
            monkeypatch.delenv("HOLDFAST_RUN_ID")
        else:
            monkeypatch.setenv("HOLDFAST_RUN_ID", run.id)
            monkeypatch.setenv("HOLDFAST_RUN_HOME", str(tmp_path))

    return enter


def test_Q12_after_a_waiter_of_the_outer_run_s_queue_is_refused_however_long_the_chain(
    runs, tmp_path, inside
):
    outer, gate = blocker(runs, tmp_path)
    waiting = runs.start(["true"], queue="main", name="waiting")
    runs.start(["true"], after=["waiting"], name="behind")
    inside(outer)
    for target in ("waiting", "behind"):
        with pytest.raises(Refused, match="which has a slot of main, and would wait for it"):
            runs.start(["true"], after=[target], name="inner")
    inside(None)
    gate.touch()
    assert waiting.wait(60).outcome is Outcome.SUCCEEDED
    assert [info.name for info in runs.list()].count("inner") == 0


def test_Q12_after_a_run_that_has_its_slot_is_no_circle(holdfast, runs, tmp_path, inside):
    holdfast("queue", "set", "main", "--limit", "2", expect=0)
    outer, gate = blocker(runs, tmp_path)
    _, other = blocker(runs, tmp_path, name="other")
    inside(outer)
    inner = runs.start(["true"], after=["other"], name="inner", independent=True)
    inside(None)
    other.touch()
    assert inner.wait(60).outcome is Outcome.SUCCEEDED
    gate.touch()
    outer.wait(60)


def test_Q5_a_refused_replacement_has_stopped_nothing(runs, tmp_path):
    gate = tmp_path / "gate"
    first = runs.start(gated(gate, "exit 0"), name="first")
    with pytest.raises(Refused, match="which this run is to wait for"):
        runs.start(["true"], name="first", replace=True, after=["first"])
    assert first.info().state is State.RUNNING
    gate.touch()
    assert first.wait(60).outcome is Outcome.SUCCEEDED


def test_a_replacement_that_waits_stops_the_old_run_now(holdfast, runs):
    old = runs.start(["sleep", "1000"], name="a", grace=0)
    said = holdfast("run", "-n", "a", "--replace", "--in", "1h", "true", expect=0)
    assert old.info().outcome is Outcome.STOPPED
    assert "queued" in said.stderr
    assert known("a").state is State.QUEUED
    run_of("a").stop()


def test_Q12_a_submission_from_another_pid_namespace_is_refused_while_the_queue_has_live_runs(
    runs, tmp_path
):
    place = namespace_of("root")
    held, gate = blocker(runs, tmp_path)
    said = run_in(place, submit_here, home=str(tmp_path), name="other", queue="main")
    assert said["code"] == 4
    assert "live runs of another PID namespace, such as blocker" in said["stderr"]
    assert [info.name for info in runs.list()] == ["blocker"]
    gate.touch()
    held.wait(60)
    eventually(lambda: queue_of(tmp_path).active() == [])
    assert run_in(place, submit_here, home=str(tmp_path), name="other", queue="main")["code"] == 0


def test_circles_across_queues_are_named_and_not_broken(holdfast, runs, tmp_path, inside):
    first, gate = blocker(runs, tmp_path, queue="one", name="first")
    second, other_gate = blocker(runs, tmp_path, queue="two", name="second")
    assert [queue.circle for queue in runs.queues()] == [(), ()]
    inside(first)
    runs.start(["true"], queue="two", name="in-first")
    assert [queue.circle for queue in runs.queues()] == [(), ()], "second may end"
    inside(second)
    runs.start(["true"], queue="one", name="in-second")
    inside(None)
    rows = [(one["name"], one["queue"], one["waits_in"]) for one in runs.queues()[0].circle]
    assert rows == [("first", "one", ["two"]), ("second", "two", ["one"])]
    said = holdfast("queue", "two", expect=0).stdout
    assert "circle   first has a slot of one and waits inside for one of two" in said
    gate.touch()
    first.wait(60)
    assert [queue.circle for queue in runs.queues()] == [(), ()]
    other_gate.touch()
    for name in ("in-first", "in-second"):
        assert run_of(name).wait(60).outcome is Outcome.SUCCEEDED


# What a queue with a free slot does not change


@pytest.mark.parametrize("options", [("-Q", "main"), ("--in", "0")])
def test_a_command_that_can_not_be_started_is_told_by_its_code_when_nothing_is_waited_for(
    holdfast, options
):
    said = holdfast("run", "-n", "a", *options, "no-such-command", expect=127)
    assert "command not found" in said.stderr
    assert known("a").outcome is Outcome.NEVER_STARTED
    holdfast("run", "-n", "b", *options, run_of("a").directory.path, expect=126)


def test_a_command_that_can_not_be_started_after_a_wait_never_started(runs, tmp_path):
    _, gate = blocker(runs, tmp_path)
    then = runs.start(["no-such-command"], queue="main", name="then")
    last = runs.start(["true"], queue="main", name="last")
    gate.touch()
    info = then.wait(60)
    assert (info.outcome, info.exit_code) == (Outcome.NEVER_STARTED, 127)
    assert last.wait(60).outcome is Outcome.SUCCEEDED


def test_stdin_from_a_file_is_read_at_admission_and_from_the_submitter_at_submission(
    holdfast, runs, tmp_path
):
    _, gate = blocker(runs, tmp_path)
    given = tmp_path / "given"
    given.write_text("before")
    words = ("run", "-Q", "main", "--stdin")
    holdfast(*words, given, "-n", "file", "cat", expect=0)
    holdfast(*words, "-", "-n", "copied", "cat", expect=0, stdin=b"before")
    given.write_text("after")
    gate.touch()
    for name, expected in (("file", b"after"), ("copied", b"before")):
        assert run_of(name).wait(60).outcome is Outcome.SUCCEEDED
        assert run_of(name).output() == expected


def test_output_is_there_and_empty_while_it_waits(holdfast, runs):
    run = runs.start(["true"], name="a", delay="1h")
    assert os.path.getsize(run.directory.output_path) == 0
    assert holdfast("logs", "a", expect=0).stdout == ""
    pty = runs.start(["true"], name="b", delay="1h", pty=True)
    holdfast("attach", "--read-only", "b", expect=4)
    for one in (run, pty):
        one.stop()


# run -F


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_a_run_in_the_foreground_cancels_it_while_it_is_queued(holdfast, number):
    with in_foreground(holdfast, "-n", "a", "--in", "1h", "true") as process:
        wait_for("a", lambda info: info.state is State.QUEUED)
        assert b"queued" in said_by(process), "it has begun to wait"
        process.send_signal(number)
        assert process.wait(60) == 125
    info = known("a")
    assert (info.outcome, info.started_at) == (Outcome.STOPPED, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_run_in_the_foreground_that_is_killed_or_loses_its_terminal_stays_queued(
    holdfast, runs, tmp_path, number
):
    _, gate = blocker(runs, tmp_path)
    with in_foreground(holdfast, "-n", "a", "-Q", "main", "true") as process:
        assert b"queued" in said_by(process)
        process.send_signal(number)
        process.wait(60)
    assert known("a").state is State.QUEUED
    gate.touch()
    assert run_of("a").wait(60).outcome is Outcome.SUCCEEDED


def test_a_run_in_the_foreground_waits_and_then_streams(holdfast, runs, tmp_path):
    _, gate = blocker(runs, tmp_path)
    with in_foreground(holdfast, "-Q", "main", "sh", "-c", "echo said; exit 3") as process:
        assert b"queued in main: 1st" in said_by(process)
        gate.touch()
        assert process.communicate(timeout=60)[0] == b"said\n"
        assert process.wait(60) == 3


# Removal and submission at the same moment


def test_Q5_a_removal_under_way_is_undone_when_somebody_waits_for_the_run(holdfast, runs, tmp_path):
    runs.start(["true"], name="first").wait(60)
    slow = runs.start(["sleep", "1000"], name="slow")
    with held_at(holdfast, tmp_path / "fifo", "remover.usage-kept@remover", "rm", "first") as rm:
        then = runs.start(["true"], after=["first", "slow"], name="then")
    assert rm.returncode == 4
    assert known("first").outcome is Outcome.SUCCEEDED
    assert then.info().state is State.QUEUED
    then.stop()
    slow.stop(grace=0)


def test_Q5_a_submission_whose_target_is_removed_meanwhile_is_refused_and_leaves_nothing(
    holdfast, runs, tmp_path
):
    runs.start(["true"], name="first").wait(60)
    words = ("run", "-n", "then", "--after", "first", "true")
    with held_at(holdfast, tmp_path / "fifo", "launcher.marked-active", *words) as submitting:
        holdfast("rm", "first", expect=0)
    assert submitting.returncode == 4
    assert runs.list() == []
    assert Home(str(tmp_path)).run_ids() == []


def test_Q5_removals_and_submissions_at_once_agree(holdfast, runs):
    seen = set()
    for turn in range(8):
        runs.start(["true"], name=f"first{turn}").wait(60)
        words = [
            ("rm", f"first{turn}"),
            ("run", "-n", f"then{turn}", "--after", f"first{turn}", "true"),
        ]
        both = [
            subprocess.Popen(
                holdfast.argv(*one), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            for one in words[:: 1 if turn % 2 else -1]
        ][:: 1 if turn % 2 else -1]
        removed, submitted = (process.wait(60) for process in both)
        seen.add((removed, submitted))
        if submitted == 0:
            assert run_of(f"then{turn}").wait(60).outcome is Outcome.SUCCEEDED
        # 3: it was gone before the name was looked up.
        assert (removed, submitted) in {(4, 0), (0, 0), (0, 4), (0, 3)}, turn
    assert seen


# Places in the line


def test_a_move_waits_for_its_turn_at_the_baton_and_says_who_has_it(holdfast, runs, tmp_path):
    _, gate = blocker(runs, tmp_path)
    for name in "ab":
        runs.start(["true"], queue="main", name=name)
    queue = queue_of(tmp_path)
    with taken(queue.take_baton()):
        moving = subprocess.Popen(holdfast.argv("queue", "move", "b", "--first"))
        wait_for_answer = time.monotonic() + 0.5
        while time.monotonic() < wait_for_answer:  # time itself: it is refused more than once
            assert moving.poll() is None
    assert moving.wait(60) == 0
    assert [one["name"] for one in runs.queues()[0].waiting] == ["b", "a"]
    with taken(queue.take_baton()):
        refused = holdfast("queue", "move", "a", "--first", expect=6).stderr
    assert f"process {os.getpid()} has held its baton for 5 s" in refused
    gate.touch()
    for name in "ab":
        assert run_of(name).wait(60).outcome is Outcome.SUCCEEDED


def test_Q3_queue_says_who_has_had_the_baton_for_5_s(holdfast, runs, tmp_path):
    _, gate = blocker(runs, tmp_path)
    queue = queue_of(tmp_path)
    with taken(queue.take_baton()):
        assert runs.queues()[0].baton_held_by is None, "a plan takes a moment"
        os.utime(queue.baton_path, (time.time() - 6, time.time() - 6))
        assert runs.queues()[0].baton_held_by == os.getpid()
        said = holdfast("queue", "main", expect=0).stdout
    assert f"nothing is admitted: process {os.getpid()} has had its baton" in said
    assert f"kill -CONT {os.getpid()}" in said
    assert runs.queues()[0].baton_held_by is None
    gate.touch()
    run_of("blocker").wait(60)
