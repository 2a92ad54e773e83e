"""`usage` and `now` of a run that goes on: in the document, the list, the library and the page."""

from __future__ import annotations

import sys
from typing import Any

from holdfast.manage.info import RunInfo
from holdfast.manage.runs import Runs
from tests.support.cli import CommandLine
from tests.support.recovering import kill_shim
from tests.support.running import info_of, settled, stop, wait_for
from tests.support.waiting import eventually

_MEGABYTES = 48
# It uses memory, is seen doing so (it waits for the file), and gives most of it back.
_GROWS = """
import os, sys, time
held = bytearray(48 << 20)
print("grown", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
del held
print("shrunk", flush=True)
time.sleep(600)
"""
_NOW = {"at", "cpu_percent", "rss_bytes", "swap_bytes", "processes"}


def _now(name: str) -> dict[str, Any] | None:
    return info_of(name).now


def _resident(name: str) -> int:
    return int((_now(name) or {}).get("rss_bytes") or 0)


# On a busy machine a shim can be late, and then nothing is said about now: look again.


def _measured(info: RunInfo, below: int) -> RunInfo | None:
    resident = (info.now or {}).get("rss_bytes") or 0
    return info if 0 < resident < below else None


def _listed(holdfast: CommandLine) -> dict[str, Any] | None:
    (listed,) = holdfast("ls", "--json", expect=0).json["runs"]
    return listed if listed["now"] is not None else None


def _page(holdfast: CommandLine) -> dict[str, str] | None:
    page = holdfast("status", "a", expect=0).stdout
    lines = {line.split()[0]: line for line in page.splitlines() if line[:1] != " "}
    return lines if "now" in lines else None


def test_a_run_that_goes_on_shows_what_it_uses_and_has_used(holdfast, tmp_path):
    gate = tmp_path / "gate"
    words = ("--sample-interval", "0.2s", sys.executable, "-c", _GROWS, gate)
    holdfast("run", "-n", "a", *words, expect=0)
    eventually(lambda: _resident("a") >= _MEGABYTES << 20, why="its memory is measured")
    gate.touch()
    why = "it is measured without it"
    info = eventually(lambda: _measured(info_of("a"), below=_MEGABYTES << 20), why=why)
    assert info.now is not None
    assert set(info.now) == _NOW
    assert info.now["processes"] == 1
    assert info.usage is not None
    assert info.usage["peak_rss_bytes"] >= _MEGABYTES << 20  # a peak that is over
    assert info.usage["cpu_seconds"] > 0
    assert info.usage["peak_processes"] == 1
    document = holdfast("status", "a", "--json", expect=0).json
    assert document["usage"]["peak_rss_bytes"] >= _MEGABYTES << 20
    listed = eventually(lambda: _listed(holdfast), why="ls shows a fresh sample")
    assert set(listed["now"]) == _NOW
    assert listed["usage"]["peak_rss_bytes"] >= _MEGABYTES << 20
    (found,) = Runs().list(active=True)
    assert found.usage is not None
    lines = eventually(lambda: _page(holdfast), why="status shows a fresh sample")
    assert "RSS" in lines["now"]
    assert "1 process" in lines["now"]
    assert "RSS" in lines["peak"]
    stop(holdfast, "a")
    final = settled("a")
    assert final.now is None
    assert final.usage is not None
    assert final.usage["peak_rss_bytes"] >= _MEGABYTES << 20


def test_what_was_used_is_known_while_nobody_supervises_and_by_whoever_takes_over(holdfast):
    spins = "import time\nwhile True: time.sleep(0.05)"
    words = ("--sample-interval", "0.2s", sys.executable, "-c", spins)
    holdfast("run", "-n", "a", *words, expect=0)
    wait_for("a", lambda info: info.usage, why="it is measured")
    kill_shim("a")
    wait_for("a", lambda info: info.now is None, why="the newest sample is too old to be now")
    left = info_of("a").usage
    assert left is not None
    assert left["cpu_seconds"] is not None
    holdfast("recover", expect=0)
    eventually(lambda: _now("a"), why="the adopter measures")
    taken = info_of("a").usage
    assert taken is not None
    assert taken["peak_rss_bytes"] >= left["peak_rss_bytes"]
    kill_shim("a")
    stop(holdfast, "a")


def test_without_samples_nothing_is_made_up(holdfast):
    holdfast("run", "-n", "a", "--sample-interval", "0", "sleep", "600", expect=0)
    info = info_of("a")
    assert (info.now, info.usage) == (None, None)
    assert "\nnow " not in holdfast("status", "a", expect=0).stdout
    stop(holdfast, "a")
