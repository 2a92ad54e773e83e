"""The live model shows what `ls` shows, whatever happens, and soon after it happened."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast.manage import live as live_module
from holdfast.manage.info import read_run
from holdfast.manage.live import LiveChanges, LiveRuns
from holdfast.manage.operations import run_steps
from holdfast.manage.overview import Overview
from holdfast.manage.selection import Selection
from holdfast.manage.words.views import Row, row_of
from holdfast.run.directory import RunDirectory
from tests.support.features import needs
from tests.support.history import make_ended, template_of
from tests.support.running import shim_pid, wait_for
from tests.support.shims import kill_shim

SECONDS = 60


@pytest.fixture
def live(runs):
    runs.home.prepare()
    with LiveRuns(runs.home) as model:
        _settle(model)
        yield model


def _settle(model: LiveRuns) -> None:
    _until(model, lambda changes: changes.is_whole)


def _until(model: LiveRuns, holds) -> LiveChanges:
    """The first answer of which that holds."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        changes = run_steps(model.next_changes(1.0))
        if holds(changes):
            return changes
    raise AssertionError(f"not within {SECONDS} s; rows: {model.rows}")


def _state(model: LiveRuns, name: str) -> str | None:
    return next((row.state.value for row in model.rows.values() if row.name == name), None)


def _comes_to(model: LiveRuns, name: str, state: str | None) -> None:
    if _state(model, name) != state:
        _until(model, lambda _: _state(model, name) == state)


def _without_figures(row: Row) -> Row:
    return row.replace(figures=None, output=None)  # samples go on between two looks


def _agrees(model: LiveRuns, home) -> None:
    shown = {info.id: _without_figures(row_of(info)) for info in Overview(home)}
    assert {one: _without_figures(row) for one, row in model.rows.items()} == shown


def test_a_run_appears_changes_and_goes(runs, live):
    run = runs.start(["sleep", "600"], name="x")
    _comes_to(live, "x", "running")
    run.stop(grace=5)
    _comes_to(live, "x", "ended")
    _agrees(live, runs.home)
    run.remove()
    gone = _until(live, lambda changes: changes.gone)
    assert (gone.gone, live.rows) == ((run.id,), {})


def test_a_killed_shim_is_told_though_nothing_was_written(runs, live):
    run = runs.start(["sleep", "600"], name="x")
    _comes_to(live, "x", "running")
    kill_shim(run)
    _comes_to(live, "x", "orphaned")
    runs.recover()
    _comes_to(live, "x", "running")
    _agrees(live, runs.home)


def test_what_was_there_before_is_read_in_turns_and_ends_up_whole(runs, monkeypatch):
    monkeypatch.setattr(live_module, "_SLICE_SECONDS", 0.0)
    running = runs.start(["sleep", "600"], name="going")
    template = template_of(runs.home)
    for number in range(60):  # more than are read without the index
        _end_recently(runs.home, template, f"old-{number}")
    make_ended(runs.home, template, time.time() - 3 * 86400, "ancient")
    with LiveRuns(runs.home) as model:
        answers = [run_steps(model.next_changes(1.0))]
        while not answers[-1].is_whole:
            answers.append(run_steps(model.next_changes(1.0)))
        assert [row.id for row in answers[0].rows] == [running.id]  # what is going on comes first
        assert len(model.rows) == 62  # with the template, without what ended days ago
        _agrees(model, runs.home)
    with LiveRuns(runs.home, window=None) as model:
        _settle(model)
        assert len(model.rows) == 63


def _end_recently(home, template, name: str) -> str:
    run_id = make_ended(home, template, time.time() - 60, name)
    Path(home.recent_path, run_id).touch()
    return run_id


def test_a_selection_and_a_plain_list_hold_while_runs_change(runs, tmp_path):
    runs.start([str(tmp_path / "missing")], name="missing")
    with LiveRuns(runs.home, Selection.of(state="running"), is_plain=True) as model:
        runs.start(["sleep", "600"], name="x")
        _comes_to(model, "x", "running")
        runs.get("x").stop(grace=5)
        _comes_to(model, "x", None)
        assert (model.rows, _next(model).unstarted) == ({}, 1)


def _next(model: LiveRuns) -> LiveChanges:
    model.wake()
    changes: LiveChanges = run_steps(model.next_changes())
    return changes


def test_output_is_told_of_open_views_alone(runs, live):
    run = runs.start(["cat"], name="x", stdin="pipe")
    other = runs.start(["cat"], name="y", stdin="pipe")
    _comes_to(live, "y", "running")
    live.open_output(run.id)
    _next(live)
    other.send(b"nobody looks\n")
    run.send(b"hello\n")
    told = _until(live, lambda changes: changes.grown)
    assert told.grown == (run.id,)
    assert run.output() == b"hello\n"
    live.close_output(run.id)
    run.send(b"again\n")
    wait_for("x", lambda info: info.log_bytes == 12)
    _until(live, lambda _: live.rows[run.id].output is not None)
    assert _next(live).grown == ()


def test_output_that_is_not_there_yet_is_told_when_it_is(runs, live):
    run = runs.start(["sleep", "600"], name="x")
    Path(run.directory.output_path).unlink()
    live.open_output(run.id)
    _next(live)
    Path(run.directory.output_path).write_bytes(b"late\n")
    assert _until(live, lambda changes: changes.grown).grown == (run.id,)


def test_another_thread_may_wake_it(live):
    answers: list[LiveChanges] = []
    thread = threading.Thread(target=lambda: answers.append(run_steps(live.next_changes())))
    thread.start()
    live.wake()
    thread.join(SECONDS)
    assert len(answers) == 1


def test_events_that_the_kernel_had_no_room_for_make_it_look_at_all(runs, live):
    runs.start(["sleep", "600"], name="x")
    _comes_to(live, "x", "running")
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    scratch = [Path(runs.home.active_path, name) for name in ("one", "two")]
    for number in range(limit // 2 + 2):  # each makes two, and none like the one before
        path = scratch[number % 2]
        path.touch()
        path.unlink()
    runs.start(["sleep", "600"], name="y")  # of this the kernel can't tell any more
    assert live._watch.take() is None
    _comes_to(live, "y", "running")


def test_the_home_vanishes_and_comes_back(runs, live, tmp_path):
    run = runs.start(["true"], name="x")
    run.wait(SECONDS)
    _comes_to(live, "x", "ended")
    away = tmp_path.with_name(f"{tmp_path.name}-away")
    tmp_path.rename(away)
    try:
        _until(live, lambda _: not live.rows)
    finally:
        shutil.move(away, tmp_path)
    _comes_to(live, "x", "ended")
    _agrees(live, runs.home)


def test_a_home_that_is_not_there_yet_is_found_when_it_is(runs, tmp_path):
    with LiveRuns(type(runs.home)(f"{tmp_path}/later")) as model:
        _settle(model)
        elsewhere = type(runs)(f"{tmp_path}/later")
        elsewhere.start(["true"], name="x").wait(SECONDS)
        _comes_to(model, "x", "ended")


def test_a_home_that_can_not_be_trusted_is_told_and_the_rows_stay(runs, live, tmp_path):
    runs.start(["sleep", "600"], name="x")
    _comes_to(live, "x", "running")
    tmp_path.chmod(0o777)
    try:
        told = _until(live, lambda changes: changes.trouble)
        assert "can be written to by everybody" in str(told.trouble)
        assert _state(live, "x") == "running"
    finally:
        tmp_path.chmod(0o700)
    assert _until(live, lambda changes: changes.trouble is None).looked_at > told.looked_at


def test_a_record_that_is_damaged_under_it_is_unknown(runs, live):
    run = runs.start(["sleep", "600"], name="x")
    _comes_to(live, "x", "running")
    spec = Path(run.directory.spec_path)
    sound = spec.read_bytes()
    spec.write_bytes(b"{")
    try:
        _comes_to(live, "x", "unknown")
        assert live.rows[run.id].note == read_run(RunDirectory(runs.home, run.id)).evidence
    finally:
        spec.write_bytes(sound)
    _comes_to(live, "x", "running")


def test_figures_of_a_shim_that_stands_still_are_not_shown_as_of_now(runs, live):
    runs.start(["sleep", "600"], name="x", sample_interval=0.2)
    _until(live, lambda _: any(row.figures.memory_bytes for row in live.rows.values()))
    pid = shim_pid("x")
    os.kill(pid, signal.SIGSTOP)
    try:
        _until(live, lambda _: all(not row.figures.memory_bytes for row in live.rows.values()))
    finally:
        os.kill(pid, signal.SIGCONT)


_WITHOUT_INOTIFY = """
import sys
from holdfast.manage.live import LiveRuns
from holdfast.manage.operations import run_steps
from holdfast.run.home import Home

with LiveRuns(Home.locate()) as live:
    while True:
        for row in run_steps(live.next_changes()).rows:
            print(row.name, row.state.value, flush=True)
"""


def test_without_inotify_it_looks(runs):
    needs("pid_namespace")
    none = 'echo 0 >/proc/sys/user/max_inotify_instances; exec "$0" "$@"'
    words = ["unshare", "--user", "--map-root-user", "sh", "-c", none, sys.executable, "-c"]
    runs.start(["sleep", "600"], name="x")
    command = [*words, _WITHOUT_INOTIFY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        try:
            _read_until(follower.stdout, "x running")
            runs.start(["sleep", "600"], name="y")
            _read_until(follower.stdout, "y running")
            runs.get("x").stop(grace=5)
            _read_until(follower.stdout, "x ended")
        finally:
            follower.kill()


def _read_until(stream, line: str) -> None:
    assert any(one.strip() == line for one in stream)
