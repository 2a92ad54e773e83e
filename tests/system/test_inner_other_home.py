"""Runs that are started inside a run with another home: the outer run knows whose they are."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from holdfast import Runs
from tests.support.running import ended, info_of, run_of, wait_for_output
from tests.support.waiting import eventually


@pytest.fixture
def elsewhere(tmp_path) -> Iterator[Runs]:
    runs = Runs(tmp_path / "another-home")
    yield runs
    for info in runs.list(active=True):
        runs.get(info.id).stop(grace=0)


def _start(holdfast, elsewhere: Runs, then: str, *options: str) -> None:
    """An outer run that starts `inner` in the other home, says so, and goes on."""
    start = shlex.join(holdfast.argv("run", "-n", "inner", *options, "sleep", "600"))
    home = shlex.quote(str(elsewhere.home.path))
    script = f"HOLDFAST_HOME={home} {start}; echo started; {then}"
    holdfast("run", "-n", "outer", "bash", "-c", script, expect=0)
    wait_for_output("outer", b"started\n")


def test_an_independent_run_in_another_home_lives_on_when_the_outer_is_stopped(holdfast, elsewhere):
    _start(holdfast, elsewhere, "exec sleep 601", "--independent")
    before = elsewhere.get("inner").info()
    assert before.started_in == info_of("outer").id
    holdfast("stop", "outer", expect=0)
    now = elsewhere.get("inner").info()
    assert (now.state, now.shim["verdict"], now.workload["verdict"]) == ("running", "SAME", "SAME")
    assert now.workload["token"] == before.workload["token"]
    struck = [row["to"] for row in _signals()]
    assert {now.shim["token"], now.workload["token"]}.isdisjoint(struck)


@pytest.mark.parametrize("options", [(), ("--independent",)])
def test_a_run_in_another_home_is_no_leftover_of_the_outer(holdfast, elsewhere, options):
    _start(holdfast, elsewhere, "exit 0", *options)
    assert ended("outer").outcome == "succeeded"
    now = elsewhere.get("inner").info()
    assert (now.state, now.workload["verdict"]) == ("running", "SAME")


def test_a_run_in_another_home_is_stopped_with_the_outer_through_its_own_shim(holdfast, elsewhere):
    _start(holdfast, elsewhere, "exec sleep 601")
    holdfast("stop", "outer", expect=0)
    info = eventually(lambda: _if_ended(elsewhere), why="its own shim has stopped and recorded it")
    assert (info.outcome, info.ended_by) == ("stopped", "holdfast")
    assert info.workload["token"] not in [row["to"] for row in _signals()]


def test_the_tree_of_the_outer_names_it_and_has_none_of_its_processes(holdfast, elsewhere):
    _start(holdfast, elsewhere, "exec sleep 601", "--independent")
    said = holdfast("tree", "outer", expect=0).stdout
    assert "inner run inner" in said
    assert str(elsewhere.get("inner").info().shim["pid"]) not in said.split()
    holdfast("stop", "outer", expect=0)


def _if_ended(elsewhere: Runs):
    info = elsewhere.get("inner").info()
    return info if info.state == "ended" else None


def _signals():
    return run_of("outer").directory.read_signals()
