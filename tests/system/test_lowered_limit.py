"""A shim whose limit of descriptors is lowered below what it has open: it waits on, and records."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.recovering import shim_is_dead
from tests.support.running import (
    ended,
    events_of,
    info_of,
    limit_descriptors,
    loaded_shim,
    run_of,
    wait_for_events,
)
from tests.support.waiting import eventually

LOOP = """\
import os, resource
from holdfast.shim.loop import READ, WRITE, Loop

faults, seen, waits = [], [], []
loop = Loop(lambda where, error: faults.append(where))
pipes = [os.pipe() for _ in range(10)]
for number, (reading, writing) in enumerate(pipes):
    loop.watch(reading, READ, str(number), lambda events, n=number: take(n, events))

def take(number, events):
    seen.append((number, events))
    os.read(pipes[number][0], 1)
    if number == 9:
        loop.watch(pipes[0][1], WRITE, "room", lambda events: finish(events))

def finish(events):
    seen.append(("room", events))
    loop.stop()

select = loop._select
loop._select = lambda timeout: waits.append(1) or select(timeout)
loop.after("first", 0.05, lambda: os.write(pipes[3][1], b"x"))
loop.after("second", 0.1, lambda: os.write(pipes[9][1], b"x"))
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (__LIMIT__, hard))
loop.run()
assert seen == [(3, READ), (9, READ), ("room", WRITE)], seen
assert faults == ["poll"], faults
assert len(waits) < 20, "it wakes for what happens alone"
"""


@pytest.mark.parametrize("limit", [0, 3])
def test_a_loop_waits_for_more_descriptors_than_it_may_open(limit):
    program = LOOP.replace("__LIMIT__", str(limit))
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def _started(holdfast, gate: Path, *words: str) -> None:
    until = f"while [ ! -e '{gate}' ]; do sleep 0.02; done; exit 5"
    script = gate.with_suffix(".sh")
    script.write_text(until)
    holdfast("run", "-n", "a", "--sample-interval", "0.1", *words, "sh", script, expect=0)
    wait_for_events("a", "workload_resolved", why="its shim has looked")
    loaded_shim("a")


def test_a_shim_records_an_ending_under_a_lowered_limit(holdfast, tmp_path):
    gate = tmp_path / "gate"
    _started(holdfast, gate)
    limit_descriptors("a", 3)
    wait_for_events("a", "fault", why="the loop has met the limit")
    gate.touch()
    info = ended("a")
    assert (info.outcome, info.exit_code) == ("failed", 5)
    assert not Path(run_of("a").directory.path, "crash.txt").exists()
    faults = [event["where"] for event in events_of("a", "fault")]
    assert faults.count("poll") <= 1, "said once"


def test_a_shim_goes_on_when_there_is_room_again(holdfast, tmp_path):
    gate = tmp_path / "gate"
    _started(holdfast, gate)
    limit_descriptors("a", 0)
    gate.touch()
    eventually(_is_held_up_or_over, why="it can't look at the tree")
    with contextlib.suppress(ProcessLookupError):  # it may have let go by now
        limit_descriptors("a", 256)
    info = ended("a")
    assert (info.outcome, info.exit_code) == ("failed", 5)


def test_a_shim_that_can_look_at_nothing_lets_go_of_a_run_that_is_over(holdfast, tmp_path):
    gate = tmp_path / "gate"
    _started(holdfast, gate)
    limit_descriptors("a", 0)
    gate.touch()
    assert ended("a").exit_code == 5, "as its shim recorded it, before it let go"
    holdfast("wait", "a", expect=5)
    assert [event["outcome"] for event in events_of("a", "ended")] == ["failed"]


@pytest.mark.parametrize("limit", ["--timeout", "--idle-timeout"])
def test_a_shim_that_has_no_descriptors_to_stop_its_run_with_leaves_that_to_the_next(
    holdfast, limit
):
    holdfast("run", "-n", "a", "--grace", "1", limit, "2", "sleep", "600", expect=0)
    loaded_shim("a")
    limit_descriptors("a", 0)
    shim_is_dead("a")
    outcome = "timed_out" if limit == "--timeout" else "stalled"
    holdfast("wait", "a", expect=124)
    assert info_of("a").outcome == outcome
    assert len(events_of("a", "stop_begun")) <= 2, "told once by each"


def _is_held_up_or_over() -> bool:
    places = {event["where"] for event in events_of("a", "fault")}
    return bool(places & {"proceed", "root exit"}) or info_of("a").state == "ended"
