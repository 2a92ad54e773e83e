"""Figures are declared once: what rows, checks, usage and `now` make of the declarations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.process.procfs import ProcessState
from holdfast.process.sampling.figures import (
    NOW,
    NUMBERS,
    OF_PROCESS,
    OF_TREE,
    TEXTS,
    USAGE,
    ProcessSample,
    TreeFigures,
    highest,
    sum_of,
)
from holdfast.process.sampling.samples import Sample
from holdfast.run.trace_rows import last_row

AT = "2026-11-15T12:00:00.000000Z"
ALL = {one.name: 7 for one in OF_PROCESS} | {"wait_channel": "pipe_read"}
PROCESS = ProcessSample(token="t", comm="work", state=ProcessState.RUNNING).replace(**ALL)
OTHER = PROCESS.replace(token="u")
TREE = TreeFigures().replace(**{one.name: 7 for one in OF_TREE}).replace(processes=2)


def row(*, slow: bool = False, **changes: Any) -> dict:
    process = PROCESS.replace(**changes)
    return Sample(AT, 1.0, False, TREE, process, (process, OTHER), is_slow=slow).to_json()


def test_a_row_has_every_name_of_version_0_1_0():
    rare = {"fd_limit", "involuntary_switches", "pending", "blocked", "caught", "wait_channel"}
    rare |= {"sockets", "switches"}
    usual = {"at", "boottime", "token", "comm", "state", "cpu_percent", "rss_bytes", "swap_bytes"}
    usual |= {"threads", "fds", "read_bytes", "write_bytes", "oom_score", "tree"}
    tree = {"processes", "rss_bytes", "cpu_percent", "cpu_seconds", "threads", "swap_bytes"}
    tree |= {"chars", "read_bytes", "write_bytes", "zombies", "oom_score", "fd_ratio"}
    tree |= {"pss_bytes", "sockets"}
    quiet: dict[str, Any] = {"pending": 0, "state": ProcessState.SLEEPING}
    assert row(**quiet).keys() >= usual
    assert not rare & row(**quiet).keys()
    running = row(**{**quiet, "state": ProcessState.RUNNING}).keys()
    assert rare & running == {"switches"}
    assert row(slow=True, **quiet).keys() == row().keys() >= usual | rare
    assert row()["tree"].keys() >= tree
    assert row()["pending"] == "7"


def test_what_was_not_asked_for_is_in_no_row():
    blank = ProcessSample(token="t", comm="work", state=ProcessState.SLEEPING)
    assert [getattr(blank, one.name) for one in OF_PROCESS] == [None] * len(OF_PROCESS)
    sample = Sample(AT, 1.0, False, TreeFigures(processes=1), blank, (blank,), is_slow=True)
    assert sample.to_json().keys() == {"at", "boottime", "token", "comm", "state", "tree"}
    assert sample.to_json()["tree"] == {"processes": 1}


@pytest.mark.parametrize("name", [*NUMBERS, *TEXTS])
def test_every_figure_of_a_row_is_checked_when_it_is_read_back(tmp_path, name):
    path = tmp_path / "trace.jsonl"
    sound = row(slow=True)
    path.write_text(json.dumps(sound) + "\n")
    assert last_row(str(path)) == sound
    wrong = "7" if name in NUMBERS else 7
    path.write_text(json.dumps({**sound, name: wrong}) + "\n")
    assert last_row(str(path)) is None


def test_usage_and_now_are_what_the_contract_says():
    assert set(USAGE) == {
        "peak_rss_bytes",
        "peak_swap_bytes",
        "cpu_seconds",
        "peak_cpu_percent",
        "peak_oom_score",
        "peak_fd_ratio",
        "read_bytes",
        "write_bytes",
        "peak_processes",
    }
    assert NOW == ("cpu_percent", "rss_bytes", "swap_bytes", "processes")
    assert USAGE["peak_rss_bytes"] == ("rss_bytes", "peak_rss_bytes")


def test_a_total_with_an_unknown_part():
    assert (sum_of([1, 2]), sum_of([1, None])) == (3, None)
    assert (highest([1, None, 3]), highest([None])) == (3, None)
