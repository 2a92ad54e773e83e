"""Q10: pause and unpause, of whole trees, inner runs and queued runs; whoever dies meanwhile."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.process import procfs
from holdfast.process.identity import ProcessIdentity
from holdfast.process.procfs import ProcessState
from holdfast.run.facts import State
from holdfast.run.outcomes import Outcome
from tests.support.recovering import gated, kill_shim, known, recovered
from tests.support.running import events_of, root_pid, run_of, wait_for, wait_for_events
from tests.support.waiting import eventually, open_for_reader

# A workload, a child of its own, and one that has left session and parent behind.
FAMILY = """
import os, sys, time
def work(name):
    with open(f"{sys.argv[1]}/{name}", "w") as file:
        file.write(str(os.getpid()))
    while True:
        time.sleep(0.05)
if not os.fork():
    work("child")
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    work("stray")
work("own")
"""


def family(runs, tmp_path, **options):
    run = runs.start([sys.executable, "-S", "-c", FAMILY, str(tmp_path)], name="a", **options)
    pids = []
    for name in ("own", "child", "stray"):
        text = eventually((tmp_path / name).read_text, ignoring=(FileNotFoundError,))
        pids.append(int(text))
    return run, pids


def state_of(pid: int) -> ProcessState | None:
    stat = procfs.stat_or_none(pid)
    return None if stat is None else stat.state


def are_stopped(pids) -> bool:
    return all(state_of(pid) is ProcessState.STOPPED for pid in pids)


def none_is_stopped(pids) -> bool:
    return not any(state_of(pid) is ProcessState.STOPPED for pid in pids)


def test_Q10_a_whole_tree_is_stopped_and_continued(holdfast, runs, tmp_path):
    run, pids = family(runs, tmp_path)
    holdfast("pause", "a", expect=0)
    assert are_stopped(pids)
    info = run.info()
    assert info.state is State.RUNNING
    assert info.paused["since"] is not None
    assert "paused" in holdfast("ls", expect=0).stdout
    holdfast("unpause", "a", expect=0)
    eventually(lambda: none_is_stopped(pids), why="all go on")
    assert run.info().paused is None
    holdfast("unpause", "a", expect=4)
    run.stop(grace=0)
    with pytest.raises(Refused, match="has ended"):
        run.pause()


def test_Q10_what_others_stopped_stays_stopped(runs, tmp_path):
    run, (own, child, stray) = family(runs, tmp_path)
    os.kill(child, signal.SIGSTOP)
    eventually(lambda: are_stopped([child]))
    run.pause()
    assert are_stopped([own, stray])
    run.unpause()
    eventually(lambda: none_is_stopped([own, stray]))
    assert are_stopped([child])
    run.stop(grace=0)


def test_Q10_a_tree_that_forks_all_the_time_comes_to_rest(runs, tmp_path):
    script = f"while :; do (sleep 0.01; echo x >> {tmp_path}/count) & wait; done"
    run = runs.start(["sh", "-c", script], name="a")
    eventually((tmp_path / "count").exists)
    run.pause()
    before = (tmp_path / "count").stat().st_size
    assert events_of("a", "paused")[-1]["stopped"]
    run.info()
    assert (tmp_path / "count").stat().st_size == before
    run.unpause()
    eventually(lambda: (tmp_path / "count").stat().st_size > before, why="it goes on")
    run.stop(grace=0)


def test_Q10_a_paused_run_can_be_stopped_by_its_polite_signal(runs, tmp_path):
    gate = tmp_path / "gate"
    script = f"trap 'echo bye; exit 3' TERM; while [ ! -e '{gate}' ]; do sleep 0.02; done"
    run = runs.start(["sh", "-c", script], name="a")
    wait_for_events("a", "running")
    run.pause()
    run.stop(grace=60)
    info = run.info()
    assert (info.outcome, info.exit_code, info.paused) == (Outcome.STOPPED, 3, None)
    assert run.output().endswith(b"bye\n")


def test_Q10_the_shim_dies_while_the_run_is_paused(holdfast, runs, tmp_path):
    run, pids = family(runs, tmp_path)
    run.pause()
    kill_shim("a")
    assert recovered(holdfast)["a"]["action"] == "adopted"
    assert run.info().paused is not None
    assert are_stopped(pids)
    run.unpause()
    eventually(lambda: none_is_stopped(pids))
    run.stop(grace=0)


def test_Q10_unpause_adopts_an_orphan_that_is_paused(runs, tmp_path):
    run, pids = family(runs, tmp_path)
    run.pause()
    kill_shim("a")
    run.unpause()
    eventually(lambda: none_is_stopped(pids))
    run.stop(grace=0)


def test_Q10_runs_inside_are_paused_through_their_own_shims(holdfast, runs):
    inner = " ".join(map(str, holdfast.argv("run", "-n", "inner", "sleep", "1000")))
    free = " ".join(map(str, holdfast.argv("run", "--independent", "-n", "free", "sleep", "1000")))
    runs.start(["sh", "-c", f"{inner}; {free}; sleep 1000"], name="outer")
    for name in ("inner", "free"):
        wait_for(name, lambda info: info.state is State.RUNNING and info.workload)
    holdfast("pause", "outer", expect=0)
    wait_for("inner", lambda info: info.paused)
    workload = known("inner").workload.pid
    eventually(lambda: are_stopped([workload]))
    assert known("free").paused is None
    holdfast("unpause", "outer", expect=0)
    eventually(lambda: none_is_stopped([workload]))
    wait_for("inner", lambda info: info.paused is None)
    for name in ("free", "outer"):
        run_of(name).stop(grace=0)
    assert run_of("inner").wait(60).outcome is Outcome.STOPPED


def test_Q10_the_shim_of_a_run_inside_that_was_met_before_the_run_is_not_stopped(
    holdfast, runs, tmp_path
):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    held = f"HOLDFAST_HOLD_AT=launcher.claimed@launcher HOLDFAST_HOLD_FIFO={fifo}"
    inner = " ".join(map(str, holdfast.argv("run", "-n", "inner", "sleep", "1000")))
    runs.start(["sh", "-c", f"{held} {inner}; sleep 1000"], name="outer", sample_interval=0.1)
    hold = open_for_reader(fifo)
    seen = lambda: {m["token"] for e in events_of("outer", "members_seen") for m in e["members"]}  # noqa: E731

    def has_met_the_shim() -> bool:
        """Which was forked ahead, by one that made a session for it and has ended."""
        stats = [procfs.stat_or_none(ProcessIdentity.parse(token).pid) for token in seen()]
        sessions = {stat.session for stat in stats if stat and stat.session != stat.pid}
        return bool(sessions - {os.getsid(root_pid("outer"))})

    eventually(has_met_the_shim)
    os.close(hold)
    wait_for("inner", lambda info: info.state is State.RUNNING and info.workload)
    assert known("inner").shim["token"] in seen()
    holdfast("pause", "outer", expect=0)
    wait_for("inner", lambda info: info.paused)
    assert none_is_stopped([known("inner").shim["pid"]])
    run_of("outer").stop(grace=0)
    assert run_of("inner").wait(60).outcome is Outcome.STOPPED


def test_Q10_a_queued_run_is_held_and_has_its_place_again(runs, tmp_path):
    gate = tmp_path / "gate"
    runs.start(gated(gate, "exit 0"), queue="main", name="blocker")
    first = runs.start(["true"], queue="main", name="first")
    second = runs.start(gated(tmp_path / "second", "exit 0"), queue="main", name="second")
    third = runs.start(["true"], queue="main", name="third")
    first.pause()
    assert first.info().queue["waits_for"]["kind"] == "paused"
    gate.touch()
    wait_for("second", lambda info: info.state is State.RUNNING)
    assert first.info().state is State.QUEUED
    first.unpause()
    assert first.info().queue["position"] == 1
    assert third.info().queue["position"] == 2
    (tmp_path / "second").touch()
    for run in (first, second, third):
        assert run.wait(60).outcome is Outcome.SUCCEEDED
    assert first.info().started_at < third.info().started_at


def test_Q10_idle_time_does_not_count_and_the_timeout_does(runs, tmp_path):
    gate = tmp_path / "gate"
    script = f"echo begun; while [ ! -e '{gate}' ]; do sleep 0.02; done; echo done"
    run = runs.start(["sh", "-c", script], name="a", silence_timeout=3)
    wait_for_events("a", "running")
    run.pause()
    paused = events_of("a", "paused")[-1]["boottime"]
    # Time itself is what is tested: longer than the silence that is allowed.
    eventually(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > paused + 4)
    assert run.info().state is State.RUNNING
    gate.touch()
    run.unpause()
    assert run.wait(60).outcome is Outcome.SUCCEEDED
    limited = runs.start(["sleep", "1000"], name="b", timeout=2)
    limited.pause()
    assert limited.wait(60).outcome is Outcome.TIMED_OUT


def test_Q10_a_run_that_has_ended_or_is_not_there_is_refused(holdfast, runs):
    runs.start(["true"], name="over").wait(60)
    holdfast("pause", "over", expect=4)
    holdfast("pause", "nobody", expect=3)
    shown = holdfast("pause", "over", "--json", expect=4).json
    assert shown["runs"][0]["done"] is False
    assert Path(run_of("over").directory.path).exists()
