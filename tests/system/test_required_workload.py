"""`--require-workload`: the workload never came, and the root exited by itself."""

from __future__ import annotations

import pytest

from tests.support.recovering import kill, kill_shim
from tests.support.running import ended, events_of, in_foreground, info_of, workload_pid

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
    assert "no workload claude was ever seen" in holdfast("ls", expect=0).stdout


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


def test_a_required_workload_that_came_is_not_missed_by_who_takes_over_after_its_end(
    holdfast, tmp_path
):
    go = tmp_path / "go"
    script = f"tail -f /dev/null; while [ ! -e {go} ]; do sleep 0.1; done; exit 0"
    words = ("--workload", "tail", "--require-workload", "--workload-within", "60s")
    holdfast("run", "-n", "a", *words, "sh", "-c", script, expect=0)
    pid = workload_pid("a")
    workload = info_of("a").workload
    kill_shim("a")
    kill(workload)
    holdfast("recover", expect=0)
    go.touch()
    info = ended("a")
    assert (info.outcome, info.exit_code, info.stop_reason) == ("succeeded", 0, None), info.evidence
    assert info.workload_resolution == "resolved"
    assert info.workload is not None
    assert info.workload["pid"] == pid
