"""A run is removed while somebody else stops, replaces or waits for it: said, and no fault."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Generator
from typing import Any

import pytest

from holdfast import AsyncRun, AsyncRuns
from holdfast.errors import RunNotFound
from holdfast.manage.operations import Wait, run_steps
from holdfast.manage.runs import Runs
from holdfast.manage.stopping import stop_run
from tests.support.running import (
    delete_below_its_shim,
    info_of,
    kill_later,
    run_of,
    settled,
    start_all,
    stop,
)
from tests.support.waiting import open_for_reader

ROUNDS = 4


def _until_asked(steps: Generator[Wait, set[int], Any]) -> None:
    """Go on until it waits for the run's shim."""
    wait = next(steps)
    while not wait.fds:
        wait = next(steps)


def _resumed(steps: Generator[Wait, set[int], Any]) -> Generator[Wait, set[int], Any]:
    """The rest of an operation that waits: nothing has come yet."""
    ready: set[int] = set()
    while True:
        try:
            wait = steps.send(ready)
        except StopIteration as done:
            return done.value
        ready = yield wait


def test_a_stop_of_a_run_that_is_removed_meanwhile_finds_no_run(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    steps = stop_run(run_of("a").directory, grace_seconds=0)
    _until_asked(steps)
    holdfast("rm", "--stop", "a", expect=0)
    with pytest.raises(RunNotFound):
        run_steps(steps)


def test_a_run_is_replaced_by_another_though_it_is_removed_meanwhile(holdfast, runs: Runs):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    first = run_of("a").id
    steps = runs._start_steps(["sleep", "600"], name="a", replace=True, grace=0)
    _until_asked(steps)
    holdfast("rm", "--stop", first, expect=0)
    assert run_steps(steps).id == run_of("a").id != first
    assert info_of("a").state == "running"
    stop(holdfast, "a")


def test_a_wait_knows_how_a_run_ended_that_is_removed_before_the_others_end(holdfast, runs: Runs):
    holdfast("run", "-F", "-n", "a", "sh", "-c", "exit 3", expect=3)
    holdfast("run", "-n", "b", "sleep", "600", expect=0)
    steps = runs._wait_steps(["a", "b"], any_of=False, attention=False, timeout=None)
    _until_asked(steps)
    holdfast("rm", "a", expect=0)
    stop(holdfast, "b")
    first, second = run_steps(_resumed(steps))
    assert (first.outcome, first.exit_code) == ("failed", 3)
    assert second.outcome == "stopped"


def test_a_removed_run_has_no_output(runs: Runs):
    run = runs.start(["echo", "hello"])
    run.wait(60)
    run.remove()
    for look in (run.info, run.output, run.follow, lambda: list(run.lines())):
        with pytest.raises(RunNotFound):
            look()


def test_a_removed_run_has_no_output_in_asyncio(runs: Runs):
    async def play() -> None:
        library = AsyncRuns(runs.home.path)
        run: AsyncRun = await library.start(["echo", "hello"])
        await run.wait(60)
        await run.remove()
        for look in (run.info(), run.output(), anext(run.follow()), anext(run.lines())):
            with pytest.raises(RunNotFound):
                await look

    asyncio.run(play())


def test_a_stop_of_a_run_whose_directory_is_deleted_claims_nothing(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    with kill_later("a"):
        delete_below_its_shim(run_of("a").directory.path)
        done = holdfast("stop", "a")
        assert done.returncode in (3, 4, 6)
        assert "Traceback" not in done.stderr


def test_stop_replace_and_rm_at_once_never_fail_of_each_other(holdfast):
    deeds = [
        ["stop", "--grace", "0", "a"],
        ["rm", "--stop", "a"],
        ["run", "-q", "-n", "a", "--replace", "--grace", "0", "sleep", "600"],
        ["stop", "--grace", "0", "--all"],
        ["wait", "--timeout", "0", "a"],
        ["signal", "USR1", "a"],
        ["rm", "--all"],
    ]
    for _ in range(ROUNDS):
        holdfast("run", "-q", "-n", "a", "--replace", "--grace", "0", "sleep", "600", expect=0)
        for done in start_all(holdfast, deeds):
            said = vars(done)["complained"]
            assert done.returncode != 70, (done.args, said)
            assert "Traceback" not in said
    holdfast("stop", "--grace", "0", "--all", expect=0)


@pytest.mark.parametrize("words", [("run", "-n", "a", "true"), ("run", "--batch", "-", "-n", "a")])
def test_a_start_is_told_though_its_run_is_over_and_removed_before_it_was_looked_at(
    holdfast, tmp_path, words
):
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)
    held = {"HOLDFAST_HOLD_AT": "launcher.ready@launcher", "HOLDFAST_HOLD_FIFO": str(fifo)}
    with subprocess.Popen(
        holdfast.argv(*words),
        env={**os.environ, **held},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as launcher:
        assert launcher.stdin is not None
        launcher.stdin.write("true\n")
        launcher.stdin.close()
        gate = open_for_reader(fifo)
        (name,) = os.listdir(tmp_path / "names")
        settled(name)
        holdfast("rm", name, expect=0)
        os.close(gate)
        assert launcher.stdout is not None
        assert launcher.stderr is not None
        assert launcher.stdout.read() == f"{name}\n"
        assert "removed meanwhile: how it ended is not known" in launcher.stderr.read()
        assert launcher.wait(60) == 0
