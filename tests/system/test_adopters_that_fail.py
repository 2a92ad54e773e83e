"""Nobody can take over a run whose shim was killed: whoever waits gives up, and says why."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast as package
from holdfast.manage import adopting
from holdfast.manage.adopting import Adopting
from holdfast.manage.operations import run_steps
from holdfast.run.claims import claim_name
from holdfast.run.facts import State
from tests.support.recovering import kill_shim
from tests.support.running import info_of, run_of, stop, wait_for_output, workload_pid
from tests.support.waiting import eventually

REASON = "No module named 'holdfast.shim.adopt'"
MOST_ADOPTERS = 10
_ORDER = """
import os, sys
from holdfast.run.locks import lock_is_held
from holdfast.shim import adopt, main

def fail(*_):
    raise RuntimeError("sabotaged for a test")

def tell(ready, error):
    run = sys.argv[1]
    held = lock_is_held(f"{run}/lock")
    said = open(f"{run}/crash.txt").read()
    with open(sys.argv[2], "w") as file:
        file.write(f"{held} {'sabotaged for a test' in said}")

adopt._take_over = fail
main.Readiness.failed = tell
ready_read, ready_write = os.pipe()
try:
    main.run_shim("adopt", sys.argv[1], ready_write)
except RuntimeError:
    pass
"""


@pytest.fixture
def crippled(tmp_path: Path) -> dict[str, str]:
    """The environment of a copy of the package that has lost its adopter."""
    site = tmp_path / "site"
    shutil.copytree(
        Path(package.__file__).parent,
        site / "holdfast",
        ignore=shutil.ignore_patterns("__pycache__", "adopt.py"),
    )
    return {**os.environ, "PYTHONPATH": str(site)}


def _begin(env: dict[str, str], *words: str) -> subprocess.Popen[str]:
    # Not `-m holdfast`: of several packages that would be the one beside the working directory.
    code = "import sys; from holdfast.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _failed_adopters() -> int:
    try:
        notes = Path(run_of("a").directory.path, "crash.txt").read_text()
    except FileNotFoundError:
        return 0
    return notes.count(" failed\n")


def test_a_wait_gives_up_when_adopters_can_not_start(holdfast, crippled):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    kill_shim("a")
    with _begin(crippled, "wait", "a") as waiting:
        _, said = waiting.communicate(timeout=100)
    assert waiting.returncode == 125
    assert REASON in said
    assert "recover" in said
    assert 2 < _failed_adopters() <= MOST_ADOPTERS
    assert info_of("a").state is State.ORPHANED
    stop(holdfast, "a")


def test_run_F_gives_up_when_adopters_can_not_start(holdfast, crippled):
    with _begin(crippled, "run", "-F", "-n", "a", "sh", "-c", "echo up; exec sleep 600") as begun:
        eventually(Path(os.environ["HOLDFAST_HOME"], "names/a").exists, 60, "it is claimed")
        wait_for_output("a", b"up", timeout=60)
        kill_shim("a")
        _, said = begun.communicate(timeout=100)
    assert begun.returncode == 125
    assert REASON in said
    assert _failed_adopters() <= MOST_ADOPTERS
    stop(holdfast, "a")


def test_a_stop_says_of_what_its_adopters_die(holdfast, crippled):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    kill_shim("a")
    with _begin(crippled, "stop", "a") as stopping:
        said, complained = stopping.communicate(timeout=100)
    assert stopping.returncode == 6
    assert REASON in f"{said}{complained}"
    stop(holdfast, "a")


def test_ctrl_c_ends_a_wait_between_adopters(holdfast, crippled):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    workload = workload_pid("a")
    kill_shim("a")
    with _begin(crippled, "wait", "a") as waiting:
        eventually(lambda: _failed_adopters() >= 3, 60, "it has tried some")
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(timeout=60) == 130
    assert workload_pid("a") == workload
    stop(holdfast, "a")


def test_a_shim_that_fails_leaves_its_note_before_it_lets_go_of_the_lock(holdfast, tmp_path: Path):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    kill_shim("a")
    told = tmp_path / "told"
    words = [sys.executable, "-c", _ORDER, run_of("a").directory.path, str(told)]
    subprocess.run(words, check=True, timeout=60)
    assert told.read_text() == "True True", "the lock was held, and the note was there"
    stop(holdfast, "a")


def test_a_run_that_its_launcher_has_or_that_has_ended_gets_no_adopter(holdfast, monkeypatch):
    holdfast("run", "-n", "a", "true", expect=0)
    holdfast("wait", "a", expect=0)
    tried: list[object] = []
    monkeypatch.setattr(adopting, "start_shim", lambda *words: tried.append(words))
    directory = run_of("a").directory
    with claim_name(directory.home, "a"):
        assert not run_steps(Adopting(directory).adopt_unless_starting("a"))
    assert run_steps(Adopting(directory).adopt_unless_starting("a"))
    assert tried == []
