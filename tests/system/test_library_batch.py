"""`Runs.start_many`: several starts by one call, each with its own result."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from holdfast import AlreadyRunning, AsyncRun, AsyncRuns, Run, State
from holdfast.errors import InvalidName, InvalidOption
from tests.support.running import stop


def test_each_has_its_run_or_its_error_in_order(runs):
    held = runs.start(["sleep", "600"], name="held")
    started = runs.start_many(
        [["true"], {"argv": ["true"], "name": "held"}, {"command": ["sh", "-c", "exit 3"]}],
        tags={"batch": "7"},
    )
    first, refused, last = started
    assert isinstance(refused, AlreadyRunning)
    assert refused.run == held.id
    assert isinstance(first, Run)
    assert isinstance(last, Run)
    assert [info.exit_code for info in runs.wait([first, last], timeout=60)] == [0, 3]
    assert first.info().tags == {"batch": "7"}


def test_what_cannot_be_used_is_raised_before_anything_is_started(runs):
    with pytest.raises(InvalidOption) as caught:
        runs.start_many([["true"], {"argv": ["true"], "timeout": "soon"}, {"argv": 3}])
    assert caught.value.message.startswith("request 2: ")
    assert caught.value.requests == [2, 3]
    with pytest.raises(InvalidName, match="request 2"):
        runs.start_many([{"argv": ["true"], "name": "a"}, {"argv": ["true"], "name": "A"}])
    with pytest.raises(InvalidOption):
        runs.start_many(["sleep 60"])
    assert runs.list() == []


def test_a_name_is_numbered_and_a_key_returns_what_was_started(runs):
    requests = [["echo", "a"], ["echo", "b"]]
    started = runs.start_many(requests, name="job", key="k")
    assert [run.info().name for run in started] == ["job-1", "job-2"]
    again = runs.start_many([*reversed(requests), ["echo", "c"]], key="k")
    assert [run.id for run in again[:2]] == [run.id for run in reversed(started)]
    runs.wait([*started, again[2]], timeout=60)


def test_none_is_none(runs):
    assert runs.start_many([]) == []


def test_the_library_leaves_no_child_to_reap(runs):
    runs.wait(runs.start_many([["true"]] * 12), timeout=60)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_the_same_for_asyncio(runs):
    async def play() -> None:
        started = await AsyncRuns(runs.home.path).start_many(
            [["true"], {"argv": ["sleep", "0"], "name": "a"}]
        )
        assert all(isinstance(run, AsyncRun) for run in started)
        for run in started:
            assert isinstance(run, AsyncRun)
            assert (await run.wait(60)).state is State.ENDED

    asyncio.run(play())


@pytest.mark.parametrize("point", ["launcher.spec-written", "launcher.shim-spawned"])
def test_a_launcher_that_dies_in_the_middle_leaves_of_each_a_run_or_nothing(holdfast, point):
    """The first start that comes by the point takes the launcher with it."""
    env = {"HOLDFAST_CRASH_AT": f"{point}@launcher"}
    done = holdfast("run", "--batch", "-", "-n", "n", stdin=b"sleep 600\n" * 5, env=env)
    assert done.returncode == -signal.SIGKILL
    holdfast("recover")
    found = holdfast("--json", "ls", "--all").json["runs"]
    began = [run["name"] for run in found if run["state"] == "running"]
    others = [run["outcome"] for run in found if run["state"] != "running"]
    assert len(found) <= 5
    assert set(others) <= {"never_started"}, found
    holdfast("run", "--batch", "-", "-n", "m", stdin=b"sleep 600\n", expect=0)  # nothing is blocked
    stop(holdfast, "m-1", *began)
