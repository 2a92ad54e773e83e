"""D5: a dying shim never damages its successor's records."""

from __future__ import annotations

import os
import signal

import pytest

from holdfast.manage.operations import run_steps
from holdfast.manage.shim_client import open_link
from holdfast.run.facts import State
from tests.support.recovering import (
    gated,
    held_at,
    kill,
    known,
    orphan,
    over,
    recovered,
    shim_is_dead,
)
from tests.support.running import events_of, run_of, stop
from tests.support.waiting import eventually


def _is_whole(name):
    read = run_of(name).directory.read_events()
    assert read.damage is None
    assert [event.seq for event in read.events] == list(range(1, len(read.events) + 1))


def test_D5_a_stopped_shim_that_is_killed_writes_nothing_more(holdfast, tmp_path):
    gate = tmp_path / "gate"
    holdfast("run", "-n", "a", *gated(gate, "exit 42"), expect=0)
    old = known("a").shim
    os.kill(old["pid"], signal.SIGSTOP)
    os.kill(old["pid"], signal.SIGTERM)  # it would begin a stop as soon as it goes on
    kill(old)
    recovered(holdfast)
    gate.touch()
    final = over("a")
    assert (final.outcome, final.exit_code) == ("failed", 42)
    assert not events_of("a", "stop_begun")
    assert final.shim["token"] != old["token"]
    _is_whole("a")


@pytest.mark.parametrize("point", ["shim.ended-synced", "shim.queue-left", "shim.summary-written"])
def test_D5_a_shim_that_ends_late_does_not_undo_what_was_done_after_it(holdfast, tmp_path, point):
    """It stands still after its ending is on disk; others must neither wait nor be harmed."""
    with held_at(holdfast, tmp_path / "fifo", f"{point}@shim", "run", "-n", "a", "true"):
        first = eventually(lambda: _ended_or_none("a"), why="the ending can be read")
        holdfast("run", "-n", "a", "sleep", "600", expect=0)
        second = known("a")
        assert second.id != first.id
    assert known(first.id).outcome == "succeeded"
    assert known("a").id == second.id
    assert known("a").state is State.RUNNING
    shim_is_dead(first.id)
    assert not run_of(first.id).directory.is_marked_active()
    assert run_of("a").directory.is_marked_active()
    _is_whole(first.id)
    stop(holdfast, "a")


def _ended_or_none(name):
    info = known(name)
    return info if info.state is State.ENDED else None


def test_D5_an_adopter_that_dies_leaves_the_workload_and_the_record(holdfast):
    orphan(holdfast, "a", "sleep", "600")
    recovered(holdfast)
    kill(known("a").shim)
    assert known("a").state is State.ORPHANED
    _is_whole("a")
    recovered(holdfast)
    _is_whole("a")
    assert len(known("a").attempts) == 1
    stop(holdfast, "a")


def test_D5_the_socket_of_a_dead_shim_does_not_answer_for_its_successor(holdfast):
    orphan(holdfast, "a", "sleep", "600")
    directory = run_of("a").directory
    assert open_link(directory.path) is None
    recovered(holdfast)
    link = open_link(directory.path)
    assert link is not None
    with link:
        assert run_steps(link.ask({"do": "ping"})) == {"ok": True}
    stop(holdfast, "a")
