"""A launcher waits for the exec alone: what the shim needs later is loaded afterwards."""

from __future__ import annotations

import os

import pytest

from holdfast.run.control_socket import dial
from tests.support.recovering import held_at
from tests.support.running import (
    ended,
    info_of,
    limit_descriptors,
    run_of,
    stop,
    wait_for,
    wait_for_events,
)


def test_a_run_is_reported_before_its_shim_has_loaded_the_rest(holdfast, tmp_path):
    with held_at(
        holdfast, tmp_path / "fifo", "shim.ready@shim", "run", "-n", "a", "sleep", "60"
    ) as p:
        assert p.wait(60) == 0
        run = run_of("a")
        assert run.info().state == "running"
        assert not os.path.exists(run.directory.trace_path)  # nothing was looked at yet
        connection = dial(run.directory.path)
        assert connection is not None  # and it is answered, once the rest is loaded
        connection.close()
    stop(holdfast, "a")


@pytest.mark.parametrize("words", [("true",), ("sh", "-c", "exit 3")], ids=["true", "exit 3"])
def test_what_ends_while_the_rest_is_loaded_is_seen(holdfast, tmp_path, words):
    with held_at(
        holdfast, tmp_path / "fifo", "shim.ready@shim", "run", "-n", "a", *words
    ) as process:
        assert process.wait(60) == 0
    info = ended("a")
    assert info.exit_code == (0 if words == ("true",) else 3)
    assert info.ended_by == "itself"


def test_a_watch_that_can_not_be_loaded_is_said_and_tried_again(holdfast, tmp_path):
    script = "echo up; read go < '{}'; echo finn; exec sleep 600"
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    options = ("--done-when", "fin+", "--drain", "0", "--grace", "0")
    words = ("run", "-n", "a", *options, "sh", "-c", script.format(gate))
    with held_at(holdfast, tmp_path / "fifo", "shim.ready@shim", *words) as process:
        assert process.wait(60) == 0
        limit_descriptors("a", 3)
    wait_for_events("a", "watching")
    assert info_of("a").watching == {"degraded": ["watchers"]}
    assert info_of("a").workload is None, "nobody could look"
    limit_descriptors("a", 256)
    wait_for("a", lambda info: info.watching is None, why="it is watched")
    gate.write_text("go\n")
    assert ended("a").outcome == "completed"  # whether the exec came before the stop is a race


def test_a_stop_that_comes_before_the_socket_is_heard(holdfast, tmp_path):
    words = ("run", "-n", "a", "sleep", "60")
    with held_at(holdfast, tmp_path / "fifo", "shim.ready@shim", *words) as process:
        assert process.wait(60) == 0
    holdfast("stop", "a", expect=0)
    assert ended("a").outcome == "stopped"
