"""More runs than descriptors: a stop stops them all, a wait waits for them all."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.manage.runs import Runs
from tests.support.running import start_all
from tests.support.waiting import eventually

RUNS = 24
LIMIT = 26  # too few for a link to each, and for a pidfd or a pipe beside
_WITHOUT = """
import asyncio, os, sys
from holdfast import AsyncRuns, HoldfastError

async def main():
    run = await AsyncRuns().get("a")
    await run.info()  # what it needs of modules is loaded
    try:
        await run.wait(timeout=0)
    finally:
        taken = []
        try:
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        try:
            await run.wait()
        except HoldfastError as error:
            told = (type(error).__name__, str(error), error.hint)
        for fd in taken:
            os.close(fd)
    print(told)

asyncio.run(main())
"""


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))


def _start(holdfast, gate: Path | None = None) -> None:
    wait = "exec sleep 600" if gate is None else f"until [ -e {gate} ]; do sleep 0.3; done"
    words = ["run", "-q", "--sample-interval", "0", "-n"]
    for first in range(0, RUNS, 8):
        names = [f"r{number}" for number in range(first, first + 8)]
        started = start_all(holdfast, [[*words, name, "sh", "-c", wait] for name in names])
        assert {process.returncode for process in started} == {0}


def test_stop_all_with_fewer_descriptors_than_runs_stops_every_one(holdfast):
    _start(holdfast)
    done = subprocess.run(
        holdfast.argv("stop", "--grace", "0", "--all"),
        capture_output=True,
        text=True,
        timeout=110,
        preexec_fn=_limited,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("stopped in") == RUNS
    assert {info.outcome for info in Runs().list()} == {"stopped"}


@pytest.mark.parametrize("which", [[], ["--any"]], ids=["all", "any"])
def test_wait_all_with_fewer_descriptors_than_runs_waits_for_every_one(holdfast, tmp_path, which):
    gate = tmp_path / "gate"
    _start(holdfast, gate)
    with subprocess.Popen(
        holdfast.argv("wait", *which, "--all"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_limited,  # noqa: PLW1509
    ) as waiting:
        eventually(lambda: _links(waiting.pid) >= 8, 60, "it waits at some sockets")
        time.sleep(0.5)  # long enough to run out of descriptors, for one that would
        gate.touch()
        said, complained = waiting.communicate(timeout=110)
    assert waiting.returncode == 0, complained
    assert said.count("succeeded") >= (1 if which else RUNS)
    holdfast("wait", "--all", expect=0)


def _links(pid: int) -> int:
    folder, found = f"/proc/{pid}/fd", 0
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            found += os.readlink(f"{folder}/{name}").startswith("socket:")
    return found


def test_a_wait_in_asyncio_without_a_descriptor_says_so_in_our_words(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=_limited,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("('Unavailable', 'Too many open files")
    assert "ulimit -n" in done.stdout
    holdfast("stop", "--grace", "0", "a", expect=0)
