"""The command line leaves without taking the interpreter apart, unless somebody waits for that."""

from __future__ import annotations

import signal
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


@pytest.mark.parametrize("module", ["holdfast.cli", "holdfast.importing", "holdfast.errors"])
def test_ctrl_c_while_the_command_line_is_loaded_shows_no_traceback(module):
    script = "import os, signal, sys\n"
    script += "class Interrupting:\n"
    script += "    def find_spec(name, *_):\n"
    script += f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
    script += "sys.meta_path.insert(0, Interrupting)\n"
    script += "sys.pycache_prefix = '/nowhere'\n"  # else `importing` puts a finder before ours
    script += "from holdfast import program; program()\n"
    done = _python("-B", "-c", script, "ls")
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


@pytest.mark.parametrize("how", ["default_int_handler", "SIG_IGN", "SIG_DFL"])
def test_a_program_that_loads_the_command_line_keeps_its_handler(how):
    script = f"import signal; signal.signal(signal.SIGINT, signal.{how}); import holdfast.cli\n"
    script += f"assert signal.getsignal(signal.SIGINT) == signal.{how}\n"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_an_ignored_ctrl_c_stays_ignored_and_another_ends_a_command_with_130():
    script = "import os, signal, sys, holdfast.cli\n"
    script += "signal.signal(signal.SIGINT, getattr(signal, sys.argv.pop()))\n"
    script += "main = holdfast.cli._dispatch\n"
    script += "def interrupted(*given): os.kill(os.getpid(), signal.SIGINT); return main(*given)\n"
    script += "holdfast.cli._dispatch = interrupted; holdfast.program()\n"
    for handler, code in (("default_int_handler", 130), ("SIG_IGN", 0)):
        done = _python("-c", script, "--version", handler)
        assert (done.returncode, done.stderr) == (code, "")
