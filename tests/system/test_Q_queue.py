"""Q1-Q4, Q6, Q9, Q12: queues. Never over the limit, in order, each once, whoever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.manage.queueing.changes import change_queue
from holdfast.run.crashpoints import POINTS as EVERY_POINT
from holdfast.run.facts import State
from holdfast.run.outcomes import Outcome
from tests.support.crash_trials import OF_A_QUEUE
from tests.support.neighbours import wait_until_watched
from tests.support.queues import blocker, most_at_once, names_in, queue_of, recording
from tests.support.recovering import held_at, kill, kill_shim, known, recovered
from tests.support.running import events_of, run_of, wait_for, wait_for_events
from tests.support.waiting import eventually

MANY = [pytest.mark.faults, pytest.mark.timeout(1800)]


def test_Q1_the_highest_priority_starts_first_then_the_first_submitted(runs, tmp_path):
    held, gate = blocker(runs, tmp_path)
    told = tmp_path / "told"
    for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", -1), ("e", 5)):
        runs.start(recording(told, name), queue="main", priority=priority, name=name)
    positions = {name: known(name).queue["position"] for name in "abcde"}
    assert positions == {"b": 1, "e": 2, "a": 3, "c": 4, "d": 5}
    gate.touch()
    for name in "abcde":
        assert run_of(name).wait(60).outcome is Outcome.SUCCEEDED
    assert names_in(told) == ["b", "e", "a", "c", "d"]
    assert held.info().queue == {
        "name": "main",
        "priority": 0,
        "position": None,
        "waits_for": None,
        "needs_memory": None,
    }


def test_Q1_moved_to_the_front_by_its_priority_or_by_word(holdfast, runs, tmp_path):
    _, gate = blocker(runs, tmp_path)
    told = tmp_path / "told"
    for name in "abc":
        runs.start(recording(told, name), queue="main", name=name)
    holdfast("queue", "move", "c", "--first", expect=0)
    holdfast("queue", "move", "a", "--priority", "-3", expect=0)
    (queue,) = runs.queues()
    assert [one["name"] for one in queue.waiting] == ["c", "b", "a"]
    assert known("a").queue["priority"] == -3
    kill_shim("c")  # its adopter keeps the place
    wait_for_events("c", "queued", 2)
    gate.touch()
    for name in "abc":
        assert run_of(name).wait(60).outcome is Outcome.SUCCEEDED
    assert names_in(told) == ["c", "b", "a"]
    holdfast("queue", "move", "a", "--first", expect=4)


def test_Q1_a_raised_limit_starts_more_and_a_paused_queue_none(holdfast, runs, tmp_path):
    _, gate = blocker(runs, tmp_path)
    for name in "abc":
        runs.start(["sleep", "1000"], queue="main", name=name)
    holdfast("queue", "pause", "main", expect=0)
    assert known("a").queue["waits_for"]["kind"] == "paused"
    gate.touch()
    run_of("blocker").wait(60)
    holdfast("queue", "set", "main", "--limit", "2", expect=0)
    assert runs.start(["true"], queue="main", name="d").info().state is State.QUEUED
    assert {known(name).state for name in "abc"} == {State.QUEUED}
    holdfast("queue", "unpause", "main", expect=0)
    for name in "ab":
        wait_for(name, lambda info: info.state is State.RUNNING)
    assert known("c").state is State.QUEUED
    shown = holdfast("queue", expect=0).stdout
    assert "main: 2 of 2 active, 2 waiting" in shown
    for name in "dcab":
        run_of(name).stop(grace=0)


# Q2: death at each point


POINTS = OF_A_QUEUE
NEED = ("--needs-memory", "1M")  # so it comes by the points of admission by memory


@pytest.mark.parametrize("point", POINTS)
def test_Q2_a_waiter_that_dies_on_its_way_is_queued_and_starts_once_after_recover(
    holdfast, runs, tmp_path, monkeypatch, point
):
    told = tmp_path / "told"
    monkeypatch.setenv("HOLDFAST_CRASH_AT", f"{point}@shim")
    subprocess.run(
        holdfast.argv("run", "-n", "a", "-Q", "main", *NEED, *recording(told, "a")), check=False
    )
    monkeypatch.delenv("HOLDFAST_CRASH_AT")
    info = known("a")
    assert info.state is State.QUEUED, info.evidence
    assert info.queue["waits_for"]["kind"] == "shim"
    assert not told.exists()
    # Whoever comes next takes the slot: the dead one does not hold it.
    other = runs.start(recording(told, "b"), queue="main", name="b")
    assert other.wait(60).outcome is Outcome.SUCCEEDED
    holdfast("recover", expect=0)  # unless its neighbour was faster
    assert run_of("a").wait(60).outcome is Outcome.SUCCEEDED
    assert names_in(told) == ["b", "a"]
    assert len(events_of("a", "attempt_started")) == 1


@pytest.mark.parametrize("point", [point for point in EVERY_POINT if point.startswith("launcher.")])
def test_Q2_a_submitter_that_dies_has_promised_nothing_or_its_run_starts_once(
    holdfast, runs, tmp_path, monkeypatch, point
):
    told = tmp_path / "told"
    monkeypatch.setenv("HOLDFAST_CRASH_AT", point)
    words = ("run", "-n", "a", "--key", "k", "-Q", "main", *recording(told, "a"))
    killed = subprocess.run(holdfast.argv(*words), check=False)
    assert killed.returncode == -signal.SIGKILL, "it came by there"
    monkeypatch.delenv("HOLDFAST_CRASH_AT")
    other = runs.start(recording(told, "b"), queue="main", name="b")
    assert other.wait(60).outcome is Outcome.SUCCEEDED
    again = holdfast(*words, expect=0)
    assert again.stdout == "a\n"
    assert run_of("a").wait(60).outcome is Outcome.SUCCEEDED
    assert sorted(names_in(told)) == ["a", "b"]
    assert most_at_once(told) == 1


# Q3: stopped at a point


GOES_PAST = ("shim.queued", "shim.in-line")  # nobody waits for one that is not there


@pytest.mark.parametrize("point", POINTS)
def test_Q3_a_waiter_that_stands_still_does_not_break_the_limit_and_the_queue_goes_on(
    holdfast, tmp_path, point
):
    told = tmp_path / "told"
    words = ("run", "-n", "a", "-Q", "main", *NEED, *recording(told, "a"))
    with held_at(holdfast, tmp_path / "fifo", f"{point}@shim", *words):
        other = holdfast.argv("run", "-n", "b", "-Q", "main", *recording(told, "b"))
        submitted = subprocess.Popen(other, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert submitted.wait(60) == 0
        if point in GOES_PAST:
            # In line, it could start, and does not: after 2 s the next one goes past it.
            assert run_of("b").wait(60).outcome is Outcome.SUCCEEDED
        else:
            assert known("b").state is State.QUEUED
    for name in "ab":
        assert run_of(name).wait(60).outcome is Outcome.SUCCEEDED
    assert sorted(names_in(told)) == ["a", "b"]
    assert most_at_once(told) == 1


def test_Q3_a_stopped_waiter_is_gone_past_while_all_others_are_told_and_starts_when_it_may(
    holdfast, runs, tmp_path
):
    _, gate = blocker(runs, tmp_path)
    told = tmp_path / "told"
    for name in "abcd":
        runs.start(recording(told, name), queue="main", name=name)
    os.kill(known("a").shim["pid"], signal.SIGSTOP)
    gate.touch()
    run_of("blocker").wait(60)
    holdfast("queue", "set", "main", "--limit", "2", expect=0)  # which tells everybody
    for name in "bcd":
        assert run_of(name).wait(60).outcome is Outcome.SUCCEEDED
    assert known("a").state is State.QUEUED
    os.kill(known("a").shim["pid"], signal.SIGCONT)
    assert run_of("a").wait(60).outcome is Outcome.SUCCEEDED
    assert sorted(names_in(told)) == list("abcd")
    assert most_at_once(told) <= 2


# Q4: shims of the queue


def test_Q4_the_slot_of_an_orphan_stays_in_use_until_its_tree_is_empty(runs, tmp_path):
    held, gate = blocker(runs, tmp_path)
    then = runs.start(["true"], queue="main", name="then")
    kill_shim("blocker")
    wait_for_events("blocker", "supervised", 2, "the waiting shim has it adopted")
    assert then.info().state is State.QUEUED
    gate.touch()
    assert then.wait(60).outcome is Outcome.SUCCEEDED
    assert held.info().outcome is Outcome.SUCCEEDED


def test_Q4_a_dead_waiter_is_set_waiting_again_by_its_neighbour(runs, tmp_path):
    _, gate = blocker(runs, tmp_path)
    then = runs.start(["true"], queue="main", name="then")
    # The blocker's shim has the same control group, limits and umask: it may.
    wait_until_watched("blocker", "then")
    kill_shim("then")
    wait_for_events("then", "queued", 2)
    gate.touch()
    assert then.wait(60).outcome is Outcome.SUCCEEDED


def test_Q4_restarts_keep_the_slot(runs, tmp_path):
    script = f"echo x >> {tmp_path}/tries; exit 1"
    first = runs.start(["sh", "-c", script], queue="main", name="a", restart="on-failure:1")
    then = runs.start(["true"], queue="main", name="then")
    assert then.wait(60).outcome is Outcome.SUCCEEDED
    assert (tmp_path / "tries").read_text() == "x\nx\n"
    assert first.info().ended_at < then.info().started_at


# Q6


@pytest.mark.parametrize("turns", [12, pytest.param(1000, marks=MANY)])
def test_Q6_cancel_and_admission_at_the_same_moment_one_wins_and_both_say_the_same(
    runs, tmp_path, turns
):
    queue = queue_of(tmp_path)
    for turn in range(turns):
        name, told = f"run{turn}", tmp_path / f"told{turn}"
        change_queue(queue.home, "main", paused=True)
        run = runs.start(recording(told, "x", 0), queue="main", name=name)
        if turn % 3 == 0:
            run.stop(grace=0)  # before
        opening = threading.Thread(
            target=change_queue, args=(queue.home, "main"), kwargs={"paused": False}
        )
        opening.start()
        if turn % 3 == 1:
            wait_for_events(name, "admitted")
        run.stop(grace=0)
        opening.join()
        info = run.wait(60)
        ran = bool(events_of(name, "attempt_started"))
        if turn % 3 < 2:
            assert bool(events_of(name, "admitted")) == (turn % 3 == 1)
        assert info.outcome in ((Outcome.STOPPED, Outcome.SUCCEEDED) if ran else (Outcome.STOPPED,))
        assert (info.started_at is not None) == ran
        assert ran or not told.exists()
        assert queue.waiting() == []
        eventually(lambda: queue.active() == [])


# Q9


def test_Q9_damaged_settings_admit_nothing_and_are_said(holdfast, runs, tmp_path):
    first = runs.start(["sleep", "1000"], queue="main", name="first")
    settings = Path(queue_of(tmp_path).settings_path)
    settings.write_text('{"limit": "many"')
    first.stop(grace=0)
    then = runs.start(["true"], queue="main", name="then")
    info = then.info()
    assert info.state is State.QUEUED
    assert "settings can't be read" in info.queue["waits_for"]["detail"]
    assert "nothing is admitted" in holdfast("queue", "main", expect=0).stdout
    assert [event["where"] for event in events_of("then", "fault")] == ["queue"]
    settings.unlink()
    holdfast("queue", "set", "main", "--limit", "1", expect=0)
    assert then.wait(60).outcome is Outcome.SUCCEEDED


def test_Q9_markers_that_lead_nowhere_and_strange_names_hold_nobody_up(runs, tmp_path):
    queue = queue_of(tmp_path)
    queue.make()
    for path in (
        "waiting/nonsense",
        "waiting/0000.1.0tqwmyh5ghdmhhwp29br",
        "active/x",
        "active/0tqwmyh5ghdmhhwp29br",
    ):
        Path(queue.path, path).touch()
    assert runs.start(["true"], queue="main").wait(60).outcome is Outcome.SUCCEEDED


def test_Q9_a_queue_that_can_not_be_written_harms_nothing_that_runs(runs, tmp_path):
    queue = queue_of(tmp_path)
    queue.make()
    held, gate = blocker(runs, tmp_path)
    os.rename(queue.waiting_path, f"{queue.path}/away")
    Path(queue.waiting_path).touch()
    then = runs.start(["true"], queue="main", name="then")
    assert then.info().state is State.QUEUED
    assert events_of("then", "fault")
    gate.touch()
    assert held.wait(60).outcome is Outcome.SUCCEEDED
    then.stop()
    assert then.info().outcome is Outcome.STOPPED


# Q12


def test_Q12_all_waiting_shims_die_and_each_waits_again_once(holdfast, runs, tmp_path):
    _, gate = blocker(runs, tmp_path)
    told = tmp_path / "told"
    names = [f"w{number}" for number in range(4)]
    for name in names:
        runs.start(recording(told, name), queue="main", name=name)
    shims = [known(name).shim for name in (*names, "blocker")]
    for shim in shims:
        os.kill(shim["pid"], signal.SIGSTOP)  # nobody rescues another
    for shim in shims:
        kill(shim)
    recovering = [
        subprocess.Popen(holdfast.argv("recover"), stdout=subprocess.DEVNULL) for _ in range(3)
    ]
    for process in recovering:
        process.wait(100)
    gate.touch()
    for name in names:
        assert run_of(name).wait(60).outcome is Outcome.SUCCEEDED
    assert names_in(told) == names
    assert most_at_once(told) == 1


def test_Q12_an_inner_run_of_the_same_queue_is_refused(runs, tmp_path, monkeypatch):
    outer, gate = blocker(runs, tmp_path)
    monkeypatch.setenv("HOLDFAST_RUN_ID", outer.id)
    monkeypatch.setenv("HOLDFAST_RUN_HOME", str(tmp_path))
    with pytest.raises(Refused, match="would wait for it"):
        runs.start(["true"], queue="main")
    monkeypatch.delenv("HOLDFAST_RUN_ID")
    waiting = runs.start(["true"], queue="main", name="waiting")
    monkeypatch.setenv("HOLDFAST_RUN_ID", outer.id)
    with pytest.raises(Refused, match="would wait for it"):
        runs.start(["true"], queue="other", after=["waiting"])
    gate.touch()
    assert waiting.wait(60).outcome is Outcome.SUCCEEDED


def test_Q12_each_run_has_its_own_submitter_s_umask_and_limits(holdfast, runs, tmp_path):
    _, gate = blocker(runs, tmp_path)
    for name, mask, files in (("a", "027", 300), ("b", "077", 301)):
        script = f'umask {mask}; ulimit -n {files}; exec "$@"'
        words = holdfast.argv("run", "-n", name, "-Q", "main", "sh", "-c", "umask; ulimit -n")
        subprocess.run(["sh", "-c", script, "sh", *words], check=True, capture_output=True)
    gate.touch()
    assert run_of("a").wait(60).outcome is Outcome.SUCCEEDED
    assert run_of("b").wait(60).outcome is Outcome.SUCCEEDED
    assert run_of("a").output().split() == [b"0027", b"300"]
    assert run_of("b").output().split() == [b"0077", b"301"]


def test_rerun_keeps_queue_and_priority(runs):
    first = runs.start(["true"], queue="main", priority=3)
    first.wait(60)
    again = first.rerun().wait(60).queue
    assert (again["name"], again["priority"]) == ("main", 3)


def test_recover_says_what_it_did(holdfast, runs):
    runs.start(["true"], name="a", delay="1h", queue="main")
    kill_shim("a")
    assert recovered(holdfast, "--dry-run")["a"]["action"] == "waiting again"
    assert recovered(holdfast)["a"]["action"] == "waiting again"
    run_of("a").stop()
