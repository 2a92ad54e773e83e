"""A trace on disk is not believed: whose rows they are, and whether they are rows at all."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from holdfast.run.trace_rows import StoredTrace, last_row, read_rows
from tests.support.running import (
    ended,
    events_of,
    root_pid,
    run_of,
    shim_pid,
    stop,
    wait_for,
)
from tests.support.waiting import eventually

GIB = 1 << 30


def _start(holdfast, *words: str) -> None:
    holdfast("run", "-n", "a", "--sample-interval", "0.1", *words, expect=0)
    eventually(lambda: len(_own_rows()) > 2, why="it is measured")


def _path() -> str:
    return run_of("a").directory.trace_path


def _own_rows() -> list[dict[str, Any]]:
    return [row for row in read_rows(_path()) if "token" in row]


def _append(*lines: bytes) -> None:
    with open(_path(), "ab") as file:
        file.writelines(line + b"\n" for line in lines)


def _like(row: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps({**row, **changes}).encode()


def _alien(row: dict[str, Any]) -> bytes:
    """As if another process, much larger, had been measured."""
    token = row["token"].replace(f"hf1.{row['token'].split('.')[1]}.", "hf1.1.", 1)
    return _like(row, token=token, comm="another", rss_bytes=64 * GIB)


def _kill_shim() -> None:
    os.kill(shim_pid("a"), signal.SIGKILL)
    wait_for("a", lambda info: info.state == "orphaned", why="its shim is gone")


def _adopt(holdfast) -> None:
    holdfast("recover", expect=0)
    wait_for("a", lambda info: info.state == "running", why="it is adopted")


def _anomalies() -> list[dict[str, Any]]:
    try:
        with open(run_of("a").directory.anomalies_path) as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


def _summary() -> dict[str, Any]:
    with open(f"{run_of('a').directory.path}/summary.json") as file:
        document: dict[str, Any] = json.load(file)
        return document


def test_rows_of_another_process_are_no_peaks_of_an_adopted_run_and_are_said(holdfast):
    _start(holdfast, "sleep", "600")
    _kill_shim()
    row = _own_rows()[-1]
    _append(_alien(row), _alien(row))
    _adopt(holdfast)
    eventually(
        lambda: [one["rule"] for one in _anomalies()] == ["identity_drift"], why="it is said"
    )
    stop(holdfast, "a")
    usage = ended("a").usage or {}
    assert usage["peak_rss_bytes"] is not None
    assert usage["peak_rss_bytes"] < GIB
    (anomaly,) = _anomalies()
    assert anomaly["rule"] == "identity_drift"
    assert anomaly["severity"] == "critical"
    assert anomaly["token"].startswith("hf1.1.")
    assert "2 rows" in anomaly["evidence"]
    assert _summary()["identity_drifted"] is True


def test_rows_of_another_process_are_in_no_report(holdfast):
    _start(holdfast, "sleep", "600")
    stop(holdfast, "a")
    ended("a")
    _append(_alien(_own_rows()[-1]))
    report = json.loads(holdfast("report", "a", "--json", expect=0).stdout)
    assert [one["rule"] for one in report["anomalies"]] == ["identity_drift"]
    memory = next(chart for chart in report["charts"] if chart["key"] == "memory")
    assert str(64 * GIB) not in json.dumps(memory)


DAMAGED: dict[str, dict[str, Any]] = {
    "a text for a number": {"rss_bytes": "much"},
    "a text in the tree": {"tree": {"processes": 1, "cpu_seconds": "long"}},
    "a number for a name": {"comm": 7},
    "no time": {"at": "yesterday"},
    "a flag for a number": {"boottime": True},
    "a negative number": {"cpu_percent": -1.0},
    "a tree that is none": {"tree": [1]},
    "a list that is none": {"stuck": {"token": "x"}},
    "an unnamed one that is stuck": {"stuck": [{"switches": 1}]},
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_row_is_left_out_and_counted(tmp_path, damage):
    path = tmp_path / "trace.jsonl"
    sound = {"at": "2026-11-15T18:00:00.000000Z", "boottime": 5.0, "tree": {"processes": 1}}
    bad = {**sound, **DAMAGED[damage]}
    path.write_text("".join(json.dumps(row) + "\n" for row in (sound, bad)) + '{"at":"20')
    trace = StoredTrace(str(path))
    assert list(trace) == [sound]
    assert trace.damaged == 1  # the last line is being written
    assert last_row(str(path)) == sound


def test_a_damaged_row_costs_neither_the_report_nor_an_adopted_run_its_usage(holdfast):
    _start(holdfast, "sleep", "600")
    _kill_shim()
    row = _own_rows()[-1]
    _append(_like(row, rss_bytes="much"), _like(row, tree={"cpu_seconds": []}))
    said = holdfast("report", "a", expect=0)
    assert "2 damaged, and left out" in said.stdout
    assert json.loads(holdfast("report", "a", "--json", expect=0).stdout)["damaged_samples"] == 2
    _adopt(holdfast)
    eventually(
        lambda: [event for event in events_of("a", "fault") if event["where"] == "trace"],
        why="it is said",
    )
    stop(holdfast, "a")
    assert (ended("a").usage or {})["peak_rss_bytes"]
    holdfast("report", "a", expect=0)


def test_an_oom_score_that_is_critical_from_the_first_sample_is_said(holdfast):
    script = "echo 1000 >/proc/self/oom_score_adj; exec sleep 600"
    _start(holdfast, "sh", "-c", script)
    eventually(
        lambda: "oom_score_critical" in [anomaly["rule"] for anomaly in _anomalies()],
        why="it is among the first that the kernel would end",
    )
    stop(holdfast, "a")


def test_a_summary_says_whose_figures_it_holds(holdfast):
    _start(holdfast, "sleep", "600")
    stop(holdfast, "a")
    info = ended("a")
    summary = eventually(_summary, why="it is written", ignoring=(FileNotFoundError,))
    assert info.workload is not None
    assert summary["workload"]["token"] == info.workload["token"]
    assert summary["workload"]["pid"] == root_pid("a")
    assert summary["usage_of"] == [info.workload["token"]]
    assert (summary["workload_resolution"], summary["identity_drifted"]) == ("direct", False)
