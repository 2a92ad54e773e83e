"""A stop takes its grace and what the kills need, whatever members do about the signal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.cli import CommandLine
from tests.support.running import ended, run_of, wait_for_output

pytestmark = pytest.mark.usefixtures("runs")  # what is left is stopped

# On SIGTERM it makes a child that stands still, which nobody meets before the grace is over.
FORKS_WHEN_ASKED = """
import os, signal, time
def asked(*_):
    time.sleep(0.3)
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.kill(os.getpid(), signal.SIGSTOP)
        while True: time.sleep(0.01)
signal.signal(signal.SIGTERM, asked)
print("up", flush=True)
while True: time.sleep(60)
"""


def test_a_child_that_is_forked_on_sigterm_is_not_woken_again(
    holdfast: CommandLine, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(FORKS_WHEN_ASKED)
    script = f"{sys.executable} {program} & sleep 600"
    holdfast("run", "-n", "a", "--workload", "sleep", "sh", "-c", script, expect=0)
    wait_for_output("a", b"up")
    holdfast("stop", "--grace", "0.9", "a", expect=0)
    assert (ended("a").cleanup or {})["survivors"] == []
    rows = run_of("a").directory.read_signals()
    frozen: set[str] = set()
    for row in rows:
        assert not (row["signal"] == "SIGCONT" and row["to"] in frozen), rows
        if row["signal"] == "SIGSTOP":
            frozen.add(row["to"])


# Each wakes the other for as long as it is not itself stopped.
WAKES_ITS_TWIN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
parent = os.getpid()
child = os.fork()
other = child or parent
if child: print("up", flush=True)
while True:
    os.kill(other, signal.SIGCONT)
"""


def test_members_that_wake_each_other_stand_still_in_the_end(holdfast: CommandLine) -> None:
    holdfast("run", "-n", "a", sys.executable, "-c", WAKES_ITS_TWIN, expect=0)
    wait_for_output("a", b"up")
    holdfast("stop", "--grace", "0", "a", expect=0)
    info = ended("a")
    assert (info.cleanup or {})["complete"] is True
    rows = run_of("a").directory.read_signals()
    struck = {row["to"] for row in rows if row["signal"] == "SIGKILL"}
    assert len(struck) == 2, rows
