"""Matching and draining are bounded: a bad pattern, a flood or a leftover holds nothing up."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.recovering import kill_shim
from tests.support.running import (
    ended,
    events_of,
    shim_pid,
    stop,
    wait_for_output,
)
from tests.support.waiting import eventually

BAD_PATTERN = r"(\w+\s?)+DONE"
BAD_LINE = "word " * 10 + "!"


def test_a_deadline_is_kept_although_a_line_can_not_be_matched(holdfast):
    words = ["--done-when", BAD_PATTERN, "--timeout", "2", "--grace", "0"]
    script = f"while :; do echo '{BAD_LINE}'; sleep 0.2; done"
    holdfast("run", "-n", "a", *words, "sh", "-c", script, expect=0)
    info = ended("a", timeout=60)
    assert info.outcome == "timed_out"
    assert info.watching is not None
    assert "done_when" in info.watching["degraded"]
    given_up = events_of("a", "line_given_up")
    assert given_up
    assert (given_up[0]["at_byte"], given_up[0]["bytes"]) == (0, len(BAD_LINE))
    assert "took too long to match" in holdfast("status", "a").stdout


def test_a_line_after_one_that_was_given_up_proves_completion(holdfast):
    words = ["--done-when", BAD_PATTERN, "--drain", "0", "--grace", "0"]
    script = f"echo '{BAD_LINE}'; echo all is DONE; exec sleep 600"
    holdfast("run", "-n", "a", *words, "sh", "-c", script, expect=0)
    info = ended("a", timeout=60)
    assert info.outcome == "completed"
    assert info.completion is not None
    assert info.completion["proof"] == "all is DONE"


def test_a_record_that_is_too_long_to_be_read_is_told_and_the_next_is_read(holdfast, tmp_path):
    """A budget that may have missed something says so."""
    claude = tmp_path / "claude"
    init = '{"type":"system","subtype":"init","session_id":"s1"}'
    claude.write_text(f"#!/bin/sh\nhead -c 17000000 /dev/zero | tr '\\0' x\necho\necho '{init}'\n")
    claude.chmod(0o755)
    words = (claude, "-p", "x", "--output-format", "stream-json", "--verbose")
    holdfast("run", "-n", "a", "--max-tokens", "1000", *words, expect=0)
    info = ended("a", timeout=60)
    assert info.session is not None
    assert info.watching == {"degraded": ["lines"]}
    said = " ".join(holdfast("status", "a", expect=0).stdout.split())  # lines are broken
    assert "a line was too long to read" in said
    assert "budget tokens not known peak" in said


def test_who_adopts_such_a_run_can_be_stopped(holdfast):
    script = f"echo '{BAD_LINE}'; exec sleep 600"
    holdfast("run", "-n", "a", "--done-when", BAD_PATTERN, "sh", "-c", script, expect=0)
    wait_for_output("a", b"!")
    first = shim_pid("a")
    kill_shim("a")
    holdfast("recover", expect=0)
    eventually(lambda: shim_pid("a") != first, 60, "it is adopted")
    stop(holdfast, "a")
    assert ended("a").outcome == "stopped"


def test_a_leftover_that_writes_does_not_put_the_ending_off(holdfast, tmp_path):
    script = f"(echo $$ >{tmp_path}/left; exec yes) & echo fin; exit 0"
    words = ["--leftovers", "keep", "--done-when", "no such line+"]
    holdfast("run", "-n", "a", *words, "--log-max", "1M", "sh", "-c", script, expect=0)
    try:
        assert ended("a", timeout=60).outcome == "succeeded"
    finally:
        for event in events_of("a", "members_seen"):
            for member in event["members"]:
                _end(int(member["token"].split(".")[1]), "yes")


def _end(pid: int, comm: str) -> None:
    try:
        if Path(f"/proc/{pid}/comm").read_text().strip() == comm:
            os.kill(pid, 9)
    except OSError:
        pass


FLOOD = """\
import os
line = b"%07d\\n"
data = b"".join(line % number for number in range(1 << 17))
for _ in range(60):
    os.write(1, data)
os.write(1, b"fin\\n")
"""


def test_a_flood_of_lines_is_not_the_runs_time(holdfast):
    holdfast("run", "-n", "a", "--done-when", "fi+n", sys.executable, "-c", FLOOD, expect=0)
    info = ended("a", timeout=120)
    exited = events_of("a", "root_exited")[0]
    assert (info.outcome, info.ended_at) == ("succeeded", exited["at"])
    assert info.completion is not None, "the end is read, however much there was before it"
    assert info.completion["proof"] == "fin"
