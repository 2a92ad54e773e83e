"""What the commands say about waiting and paused runs, and what they refuse."""

from __future__ import annotations

import pytest

from holdfast.cli.complete import complete
from holdfast.errors import Refused
from holdfast.run.facts import State
from tests.support.recovering import gated, known
from tests.support.running import run_of


def sleeper(runs, name, **options):
    return runs.start(["sleep", "1000"], name=name, **options)


@pytest.mark.parametrize("verb", ["queue", "pause", "unpause"])
def test_help_and_completion_know_the_commands(holdfast, verb):
    assert f"\n  {verb} " in holdfast("--help", expect=0).stdout
    assert verb in complete([verb[:3]]).words


def test_an_awaited_run_is_not_stopped_before_its_removal_is_refused(holdfast, runs):
    run = sleeper(runs, "a")
    sleeper(runs, "w", after=[run])
    refused = holdfast("rm", "--stop", "a", expect=4)
    assert "NOT removed" in refused.stdout
    assert "is awaited by w" in refused.stdout
    with pytest.raises(Refused, match="is awaited by w"):
        run.remove(stop=True)
    assert (known("a").state, known("w").state) == (State.RUNNING, State.QUEUED)


def test_a_run_and_all_that_wait_for_it_are_stopped_and_removed_together(holdfast, runs):
    first = sleeper(runs, "a")
    second = sleeper(runs, "b", after=[first])
    sleeper(runs, "c", after=[second])
    holdfast("rm", "--stop", "a", "b", expect=4)  # c waits for b, which waits for a
    assert (known("a").state, known("b").state) == (State.RUNNING, State.QUEUED)
    holdfast("rm", "--stop", "a", "b", "c", expect=0)
    assert runs.list() == []


def test_status_says_that_a_run_is_paused_and_how_it_goes_on(holdfast, runs):
    sleeper(runs, "a").pause()
    said = holdfast("status", "a", expect=0).stdout
    assert "running, paused " in said.splitlines()[0]
    assert "holdfast unpause a" in said
    run_of("a").unpause()
    said = holdfast("status", "a", expect=0).stdout
    assert "paused" not in said.splitlines()[0]
    assert "holdfast unpause" not in said


def test_a_queue_shows_what_is_not_in_line_yet_and_why(holdfast, runs, tmp_path):
    target = runs.start(gated(tmp_path / "gate", "exit 0"), name="target")
    sleeper(runs, "active", queue="main")
    sleeper(runs, "held", queue="main").pause()
    sleeper(runs, "later", queue="Main", after=[target])
    sleeper(runs, "next", queue="main")
    sleeper(runs, "elsewhere", after=[target])
    (queue,) = runs.queues()
    assert [one["name"] for one in queue.active] == ["active"]
    rows = [(one["name"], one["position"], one["waits_for"]["kind"]) for one in queue.waiting]
    assert rows == [("next", 1, "slot"), ("held", None, "paused"), ("later", None, "after")]
    said = holdfast("queue", "main", expect=0).stdout
    assert "3 waiting" in said
    assert "held: it is paused" in said


def test_the_removal_of_a_queued_run_is_refused_as_such(holdfast, runs):
    target = sleeper(runs, "a")
    sleeper(runs, "w", after=[target])
    refused = holdfast("rm", "w", expect=4)
    assert "is queued" in refused.stdout
    assert "holdfast rm --stop w" in refused.stderr
    holdfast("rm", "--stop", "w", expect=0)


def test_rerun_says_that_conditions_are_not_kept(holdfast, runs):
    target = runs.start(["true"], name="a")
    target.wait(60)
    runs.start(["true"], name="w", after=[target]).wait(60)
    assert "(--after): they are not kept" in holdfast("rerun", "w", expect=0).stderr
    assert "not kept" not in holdfast("rerun", "a", expect=0).stderr


@pytest.mark.parametrize("verb", ["pause", "unpause"])
def test_nothing_to_pause_is_said(holdfast, runs, verb):
    runs.start(["true"], name="p1").wait(60)
    assert f"there is nothing to {verb}" in holdfast(verb, "p*", expect=0).stderr


@pytest.mark.parametrize("verb", ["pause", "unpause"])
def test_a_queue_that_is_not_there_is_not_paused(holdfast, runs, verb):
    holdfast("queue", "set", "main", "--limit", "2", expect=0)
    refused = holdfast("queue", verb, "mian", expect=3).stderr
    assert "queues that exist: main" in refused
    assert [queue.name for queue in runs.queues()] == ["main"]
    holdfast("queue", verb, "main", expect=0)
