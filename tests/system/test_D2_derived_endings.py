"""D2: what a reader says of a run that is over is what a recovery will record of it."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

import pytest

from holdfast.run.facts import State
from tests.support.recovering import kill, kill_shim, known, recovered, shim_is_dead, wait_gone
from tests.support.running import (
    events_of,
    run_of,
    settled,
    wait_for,
    wait_for_events,
)
from tests.support.waiting import eventually

_PR_SET_CHILD_SUBREAPER = 36
ENDING = (
    "outcome",
    "exit_code",
    "signal",
    "workload_exit_code",
    "core_dumped",
    "oom_killed",
    "ended_by",
)


@contextlib.contextmanager
def zombies_kept(name: str) -> Iterator[None]:
    """Orphans of the run come to this process, which reaps them when the block is left.

    Until then they stay zombies, as below a PID 1 that never reaps.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        events = events_of(name)
        named = [event.get("shim") or event.get("root") or {} for event in events]
        for pid in {one["pid"] for one in named if "pid" in one}:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _same_when_recovered(holdfast, name="a"):
    derived = known(name)
    assert derived.state is State.ENDED, derived.evidence
    assert "not yet recorded" in derived.evidence
    planned = recovered(holdfast, "--dry-run")[name]["action"]
    told = recovered(holdfast)[name]
    final = settled(name)
    assert events_of(name, "ended"), "it is recorded now"
    for field in ENDING:
        assert getattr(derived, field) == getattr(final, field), field
    assert told["action"] == planned
    return final


def test_D2_a_zombie_tells_a_reader_too(holdfast):
    with zombies_kept("a"):
        holdfast("run", "-n", "a", "sleep", "600", expect=0)
        workload = known("a").workload
        kill_shim("a")
        kill(workload)
        assert os.path.exists(f"/proc/{workload['pid']}"), "it is not reaped"
        final = _same_when_recovered(holdfast)
    assert (final.outcome, final.signal, final.ended_by) == ("killed", 9, "outside")
    assert final.oom_killed is None, "nobody counted while it lived"


def test_D2_a_zombies_own_code_is_read(holdfast, tmp_path):
    gate = tmp_path / "gate"
    script = f"echo on; while [ ! -e '{gate}' ]; do sleep 0.02; done; exit 7"
    with zombies_kept("a"):
        holdfast("run", "-n", "a", "sh", "-c", script, expect=0)
        wait_for_events("a", "workload_resolved")
        kill_shim("a")
        assert known("a").state is State.ORPHANED
        gate.touch()
        wait_for("a", lambda info: info.state is State.ENDED, why="it has ended")
        final = _same_when_recovered(holdfast)
    assert (final.outcome, final.exit_code, final.oom_killed) == ("failed", 7, False)


def test_D2_a_workload_that_no_shim_recorded_is_not_made_up(holdfast, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with zombies_kept("a"):
        crash = {"HOLDFAST_CRASH_AT": "shim.running@shim"}
        holdfast("run", "-n", "a", "sh", "-c", f"read line < '{gate}'; exit 7", env=crash)
        assert not events_of("a", "workload_resolved")
        gate.write_text("\n")
        wait_for("a", lambda info: info.state is State.ENDED, why="it has ended")
        final = _same_when_recovered(holdfast)
    assert (final.exit_code, final.workload_exit_code) == (7, None)


def test_D2_a_child_that_was_never_let_go(holdfast):
    with zombies_kept("a"):
        crash = {"HOLDFAST_CRASH_AT": "shim.attempt-recorded@shim"}
        holdfast("run", "-n", "a", "true", env=crash)
        wait_for("a", lambda info: info.state is State.ENDED, why="the child has given up")
        if not events_of("a", "ended"):
            _same_when_recovered(holdfast)
    final = settled("a")
    assert (final.outcome, final.exit_code) == ("never_started", 125)


def test_D2_reaped_unseen_is_lost_to_both(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    workload = known("a").workload
    kill_shim("a")
    kill(workload)
    wait_gone(workload)
    final = _same_when_recovered(holdfast)
    assert (final.outcome, final.exit_code, final.signal) == ("lost", None, None)


def test_D6_a_torn_ending_line_keeps_the_recorded_exit(holdfast):
    holdfast("run", "-n", "a", "sh", "-c", "exit 5", expect=0)
    settled("a")
    directory = run_of("a").directory
    os.unlink(directory.summary_path)
    os.truncate(directory.events_path, os.path.getsize(directory.events_path) - 5)
    final = _same_when_recovered(holdfast)
    assert (final.outcome, final.exit_code, final.ended_by) == ("failed", 5, "itself")


def _dies_at(point, holdfast, *words):
    env = {"HOLDFAST_CRASH_AT": f"{point}@shim"}
    holdfast("run", "-n", "a", *words, env=env)


@pytest.mark.parametrize("point", ["shim.exit-recorded", "shim.before-ended"])
def test_D2_a_signal_of_ours_is_told_as_ours(holdfast, point):
    _dies_at(point, holdfast, "sleep", "600")
    holdfast("signal", "USR1", "a", expect=0)
    shim_is_dead("a")
    final = _same_when_recovered(holdfast)
    assert (final.outcome, final.ended_by) == ("stopped", "holdfast")


def test_D2_a_required_workload_that_never_came(holdfast):
    words = ("--workload", "nonesuch", "--require-workload", "true")
    _dies_at("shim.before-ended", holdfast, *words)
    shim_is_dead("a")
    final = _same_when_recovered(holdfast)
    assert (final.outcome, final.ended_by) == ("failed", "itself")


@pytest.mark.parametrize("code", [0, 7])
def test_D2_the_code_is_that_of_the_workload_that_outlived_its_root(holdfast, tmp_path, code):
    first, second = tmp_path / "first", tmp_path / "second"

    def until(gate):
        return f"while [ ! -e {gate} ]; do sleep 0.02; done"

    script = f"bash -c '{until(second)}; exit {code}' & {until(first)}; exit 3"
    _dies_at("shim.before-ended", holdfast, "--workload", "bash", "sh", "-c", script)
    eventually(
        lambda: [e for e in events_of("a", "workload_resolved") if e["workload"]],
        why="the workload is known",
    )
    first.touch()
    wait_for_events("a", "root_exited", why="the root has ended")
    second.touch()
    shim_is_dead("a")
    final = _same_when_recovered(holdfast)
    assert (final.exit_code, final.workload_exit_code) == (code, code)


def test_D2_an_outliving_workload_that_nobody_saw_end_is_lost(holdfast, tmp_path):
    first = tmp_path / "first"
    script = f"bash -c 'while :; do sleep 1; done' & while [ ! -e {first} ]; do sleep 0.02; done"
    holdfast("run", "-n", "a", "--workload", "bash", "sh", "-c", script, expect=0)
    wait_for("a", lambda info: info.workload_resolution == "resolved", why="the workload is known")
    first.touch()
    wait_for_events("a", "root_exited", why="the root has ended")
    workload = known("a").workload
    kill_shim("a")
    kill(workload)
    wait_gone(workload)
    final = _same_when_recovered(holdfast)
    assert (final.outcome, final.exit_code) == ("lost", None)
