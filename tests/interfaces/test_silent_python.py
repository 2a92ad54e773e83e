"""A Python program that has printed nothing from its start: why that may be."""

from __future__ import annotations

import sys

import pytest

from holdfast.manage.process_info import ProcessInfo
from holdfast.manage.reading.buffering import HINT, buffering_hint
from holdfast.run.facts import State
from holdfast.run.outcomes import Outcome
from tests.support.running import info_of, stop
from tests.support.waiting import eventually

PRINTS = "import time; print('working'); time.sleep(600)"


def test_a_python_run_that_is_silent_from_its_start_is_explained(holdfast, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    holdfast("run", "-n", "train", sys.executable, "-c", PRINTS, expect=0)

    def shown() -> str:
        return " ".join(holdfast("status", "train", expect=0).stdout.split())

    assert HINT not in shown(), "too soon to tell"
    eventually(lambda: HINT in shown(), 60, "it has been silent for long enough")
    done = holdfast("logs", "train", expect=0)
    assert done.stdout == ""
    assert HINT in done.stderr
    assert holdfast("logs", "-q", "train", expect=0).stderr == ""
    silent = info_of("train")
    stop(holdfast, "train")

    def hint(environment: dict[str, str] | None = None, **changes) -> str:
        return buffering_hint(silent.replace(duration_seconds=60.0, **changes), environment or {})

    assert hint() == HINT
    assert hint({"PYTHONUNBUFFERED": "1"}) == ""
    assert hint(log_bytes=8, last_output_at="2026-01-01T00:00:00Z") == ""
    assert hint(pty=True) == ""
    assert hint(state=State.ENDED, outcome=Outcome.STALLED) == HINT, "what it printed is lost"
    assert hint(state=State.ENDED, outcome=Outcome.SUCCEEDED) == ""
    assert hint(workload=None) == ""
    assert hint(command=["env", "PYTHONUNBUFFERED=1", "python3", "train.py"]) == ""


@pytest.mark.parametrize(
    ("cmdline", "expected"),
    [
        ("python3 train.py", HINT),
        ("python3 -u train.py", ""),
        ("python3 -Bu train.py", ""),
        ("python3 train.py -u", HINT),
        ("python3 -m train -u", HINT),
        ("python3 -W ignore -u train.py", ""),
        ("python3 -X utf8 train.py", HINT),
        ("python3 -Xutf8 train.py", HINT),
        ("python3 --check-hash-based-pycs default train.py", HINT),
    ],
)
def test_what_was_asked_of_the_interpreter_counts(holdfast, cmdline, expected):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    info = info_of("a")
    stop(holdfast, "a")
    assert info.workload is not None
    workload = info.workload.replace(exe="/usr/bin/python3.11", cmdline=cmdline.split())
    assert isinstance(workload, ProcessInfo)
    silent = info.replace(workload=workload, duration_seconds=60.0, log_bytes=0)
    assert buffering_hint(silent, {}) == expected
    assert buffering_hint(silent.replace(workload=info.workload), {}) == "", "sleep is no Python"
