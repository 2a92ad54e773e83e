"""The command line leaves without taking the interpreter apart, unless somebody waits for that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

VERSION = "import sys; sys.argv = ['holdfast', '--version']; from holdfast import cli\n"
LAST_WORDS = """
class Last:
    def __del__(self):
        print("taken apart", flush=True)
sys.last = Last()
"""


def _python(*words: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60
    )


def test_nothing_is_taken_apart():
    done = _python("-c", VERSION + LAST_WORDS + "cli.program()")
    assert done.stdout.startswith("holdfast ")
    assert "taken apart" not in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


AT_EXIT = "import atexit; atexit.register(print, 'handled')"
LOGGING = """
import logging, logging.handlers as handlers
memory = handlers.MemoryHandler(9, target=logging.StreamHandler(sys.stdout))
logging.root.addHandler(memory); logging.warning("handled")
"""
THREAD = """
import threading
def last(): threading.main_thread().join(); print("handled")
threading.Thread(target=last).start()
"""


@pytest.mark.parametrize("awaited", [AT_EXIT, LOGGING, THREAD], ids=["atexit", "logging", "thread"])
def test_what_the_exit_has_to_do_is_done(awaited):
    done = _python("-c", VERSION + awaited + "\ncli.program()")
    assert done.stdout.splitlines()[1:] == ["handled"], done.stderr
    assert done.returncode == 0


def test_a_profiler_gets_its_figures(tmp_path):
    figures = tmp_path / "figures"
    _python("-m", "cProfile", "-o", str(figures), "-m", "holdfast", "--version")
    assert figures.stat().st_size > 0


def test_the_exit_code_is_passed_on():
    assert _python("-m", "holdfast", "status", "nobody").returncode == 3


def test_output_that_does_not_arrive_at_the_last_moment_is_told_as_before():
    """What was buffered when a command was interrupted."""
    lost = "cli.main = lambda: sys.stdout.write('x') and 130\n"
    with Path("/dev/full").open("wb") as full:
        done = _python("-E", "-c", VERSION + lost + "cli.program()", stdout=full.fileno())
    assert done.returncode == 120  # the interpreter's own
    assert "No space left" in done.stderr
