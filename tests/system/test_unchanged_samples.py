"""While nothing changes, one row of the trace is written over: what each reader makes of it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from holdfast.run.trace_rows import StoredTrace, last_row
from tests.support.running import ended, root_pid, run_of, shim_pid, stop, wait_for
from tests.support.waiting import eventually

# It waits, and prints a line when it is told to.
CODE = """if 1:
    import signal
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    while True:
        signal.sigwait([signal.SIGUSR1])
        print("woken", flush=True)"""


def _start(holdfast) -> None:
    command = [sys.executable, "-S", "-c", CODE]
    holdfast("run", "-n", "a", "--sample-interval", "0.1", *command, expect=0)


def _rows() -> list[dict[str, Any]]:
    return list(StoredTrace(run_of("a").directory.trace_path))


def _last() -> dict[str, Any]:
    return last_row(run_of("a").directory.trace_path) or {}


def _await_looks(more: int = 3) -> dict[str, Any]:
    """Until the last row stands for so many looks more."""
    before = _last().get("looks", 0)
    eventually(lambda: _last().get("looks", 0) >= before + more, why="nothing changes", timeout=60)
    return _last()


def test_an_idle_run_has_one_row_that_says_when_it_was_looked_at_last(holdfast):
    _start(holdfast)
    first = _await_looks()
    count = len(_rows())
    later = _await_looks()
    assert len(_rows()) == count
    assert later["at"] > first["at"]
    assert later["boottime"] > first["boottime"]
    times = {"at", "boottime", "quiet_seconds", "looks"}
    assert {k: v for k, v in later.items() if k not in times} == {
        k: v for k, v in first.items() if k not in times
    }
    before = _rows()[-2]
    assert later["unchanged_since"] == before["boottime"]
    assert later["rss_bytes"] == before["rss_bytes"]
    assert later["cpu_percent"] == 0.0
    stop(holdfast, "a")


def test_now_has_the_time_of_the_last_look_and_not_that_of_a_shim_which_does_not_look(holdfast):
    _start(holdfast)
    _await_looks()
    now = json.loads(holdfast("status", "a", "--json", expect=0).stdout)["now"]
    assert now["rss_bytes"] == _last()["rss_bytes"]
    assert now["at"] > _rows()[-2]["at"]
    shim = shim_pid("a")
    os.kill(shim, signal.SIGSTOP)
    try:
        wait_for("a", lambda info: info.now is None, why="nobody looks any more")
    finally:
        os.kill(shim, signal.SIGCONT)
    wait_for("a", lambda info: info.now is not None, why="it looks again")
    # The time without looks is no part of what was unchanged.
    report = json.loads(holdfast("report", "a", "--json", expect=0).stdout)
    assert "no samples" in [one["lack"] for one in report["unmeasured"]]
    stop(holdfast, "a")


def test_a_change_ends_the_stretch_and_is_seen_with_its_output(holdfast):
    _start(holdfast)
    _await_looks()
    os.kill(root_pid("a"), signal.SIGUSR1)
    eventually(lambda: _last().get("log_bytes") == 6, why="the output is counted", timeout=60)
    place = next(n for n, row in enumerate(_rows()) if row["log_bytes"] == 6)
    rows = _rows()
    assert "unchanged_since" not in rows[place]
    assert rows[place]["boottime"] > rows[place - 1]["boottime"]
    assert rows[place - 1]["log_bytes"] == 0
    _await_looks()
    assert _last()["log_bytes"] == 6
    stop(holdfast, "a")
    times = [row["at"] for row in _rows()]
    assert times == sorted(set(times))


def test_a_report_counts_the_looks_and_shows_no_gap(holdfast):
    _start(holdfast)
    # The stretch has to be longer than what counts as a gap.
    eventually(lambda: _last().get("looks", 0) >= 15, why="nothing changes", timeout=60)
    stop(holdfast, "a")
    ended("a")
    report = json.loads(holdfast("report", "a", "--json", expect=0).stdout)
    assert report["samples"] == sum(row.get("looks", 1) for row in _rows()) > len(_rows())
    stretches = [row for row in _rows() if "looks" in row]
    assert max(row["boottime"] - row["unchanged_since"] for row in stretches) > 1.0
    late = [one for one in report["unmeasured"] if one["to"] - one["from"] > 1.0]
    # A machine that did not let the shim run may leave a gap, but not all of the stretch.
    longest = max(stretches, key=lambda row: row["looks"])
    length = longest["boottime"] - longest["unchanged_since"]
    assert all(one["to"] - one["from"] < length for one in late)


def test_an_adopter_goes_on_after_a_row_that_was_written_over(holdfast):
    _start(holdfast)
    last = _await_looks()
    os.kill(shim_pid("a"), signal.SIGKILL)
    wait_for("a", lambda info: info.state == "orphaned", why="its shim is gone")
    at_death = _last()
    holdfast("recover", expect=0)
    eventually(lambda: _last()["at"] > at_death["at"], why="it is measured again", timeout=60)
    assert at_death in _rows()
    assert at_death["at"] >= last["at"]
    _await_looks()
    stop(holdfast, "a")
    usage = ended("a").usage or {}
    assert usage["peak_rss_bytes"] >= last["rss_bytes"]


def test_a_trace_that_was_cut_is_not_written_over(holdfast):
    _start(holdfast)
    _await_looks()
    path = Path(run_of("a").directory.trace_path)
    os.truncate(path, 0)
    eventually(lambda: len(_rows()) >= 1, why="it is written anew", timeout=60)
    _await_looks()
    assert b"\0" not in path.read_bytes()
    stop(holdfast, "a")
