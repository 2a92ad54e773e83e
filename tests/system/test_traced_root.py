"""A debugger that does nothing holds the root: the shim goes on to answer, and sees the end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from holdfast.run.outcomes import Outcome
from tests.support.cli import CommandLine
from tests.support.features import needs
from tests.support.running import ended, events_of, wait_for_output
from tests.support.tracer import seized

pytestmark = pytest.mark.usefixtures("runs")  # what is left is stopped


def _start(holdfast: CommandLine, tmp_path: Path, code: int) -> Path:
    go = tmp_path / "go"
    go.touch()
    program = f"""
import os, time
print("up", flush=True)
while os.path.exists({str(go)!r}): time.sleep(0.05)
os._exit({code})
"""
    holdfast("run", "-n", "a", sys.executable, "-c", program, expect=0)
    wait_for_output("a", b"up")
    return go


def _root_pid() -> int:
    [started] = events_of("a", "attempt_started")
    pid: int = started["root"]["pid"]
    return pid


def test_the_exit_of_a_root_whose_tracer_never_waits_is_recorded(
    holdfast: CommandLine, tmp_path: Path
) -> None:
    needs("root")
    go = _start(holdfast, tmp_path, 3)
    with seized(_root_pid()):
        os.unlink(go)
        info = ended("a")
        assert (info.outcome, info.exit_code) == (Outcome.FAILED, 3)


def test_such_a_root_can_be_stopped(holdfast: CommandLine, tmp_path: Path) -> None:
    needs("root")
    _start(holdfast, tmp_path, 3)
    with seized(_root_pid()):
        holdfast("stop", "--grace", "0", "a", expect=0)
        assert ended("a").outcome is Outcome.STOPPED
