"""A program that opens its stderr with `>` cuts its own log: that is on record."""

from __future__ import annotations

import pytest

from holdfast.run.trace_rows import read_rows
from tests.support.running import ended, events_of, run_of, wait_for_events
from tests.support.waiting import eventually

FIRST = b"".join(b"%d\n" % number for number in range(1, 2001))
SCRIPT = """\
seq 2000
while test ! -e {go}; do sleep 0.05; done
echo b >/dev/stderr
echo after
"""


@pytest.mark.parametrize("stays", [False, True], ids=["it ends at once", "it runs on"])
def test_a_sample_sees_that_the_log_was_cut(holdfast, tmp_path, stays):
    go = tmp_path / "go"
    script = SCRIPT.format(go=go) + ("sleep 600" if stays else "")
    holdfast("run", "-n", "a", "--sample-interval", "0.1", "sh", "-c", script, expect=0)
    trace = run_of("a").directory.trace_path
    eventually(
        lambda: any(row["log_bytes"] == len(FIRST) for row in read_rows(trace)),
        why="a sample has seen the whole output",
    )
    go.touch()
    (cut,) = wait_for_events("a", "output_truncated", why="the cut is recorded")
    assert cut["was"] == len(FIRST)
    assert cut["now"] < len(b"b\nafter\n") + 1
    assert "--pty" in cut["hint"]
    if stays:
        holdfast("stop", "--grace", "0", "a", expect=0)
    ended("a")
    assert run_of("a").output() == b"b\nafter\n"
    assert len(events_of("a", "output_truncated")) == 1
