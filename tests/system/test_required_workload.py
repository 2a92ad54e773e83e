"""`--require-workload`: the workload never came, and the root exited by itself."""

from __future__ import annotations

import pytest

from tests.support.running import ended, events_of, in_foreground

WORDS = ("--workload", "claude", "--require-workload")


@pytest.mark.parametrize("code", [0, 3])
def test_a_root_that_exits_without_the_required_workload_is_told_with_its_pid(holdfast, code):
    holdfast("run", "-n", "a", *WORDS, "sh", "-c", f"exit {code}", expect=0)
    info = ended("a")
    assert (info.outcome, info.exit_code, info.ended_by) == ("failed", code, "itself")
    root = events_of("a", "attempt_started")[0]["root"]["pid"]
    waited = holdfast("wait", "a", expect=125)
    assert f"no workload claude was ever seen below root {root}" in waited.stderr
    assert info.stop_reason == "require_workload"


def test_run_F_of_a_missed_workload_is_125_too(holdfast):
    with in_foreground(holdfast, *WORDS, "true") as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 125
    assert b"no workload claude was ever seen below root" in said


def test_a_required_workload_is_no_reason_where_somebody_killed_the_root(holdfast):
    holdfast("run", "-n", "a", *WORDS, "sh", "-c", "kill -KILL $$", expect=0)
    info = ended("a")
    assert (info.outcome, info.signal, info.ended_by) == ("killed", 9, "outside")
    holdfast("wait", "a", expect=137)
