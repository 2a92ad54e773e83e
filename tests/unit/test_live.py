"""What a run uses now, from one row of its trace: and what is not believed of it."""

from __future__ import annotations

import json

import pytest

from holdfast.process.clock import boottime
from holdfast.run.live import Live, read_live
from holdfast.run.trace import PEAKS, TraceWriter, UsagePeaks

AT = "2026-11-15T12:00:00.000000Z"
WORKLOADS = ("ours",)


def _row(**fields):
    row = {"at": AT, "boottime": boottime(), "token": "ours", "rss_bytes": 100, PEAKS: {}}
    return {**row, "cpu_percent": 5.0, "tree": {"processes": 1, "cpu_seconds": 0.5}, **fields}


def _read(tmp_path, *rows, workloads=WORKLOADS):
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_live(str(trace), workloads, 5.0)


def test_a_tree_of_one_and_a_tree_of_many(tmp_path):
    one = _read(tmp_path, _row()).now
    assert one == {
        "at": AT,
        "cpu_percent": 5.0,
        "rss_bytes": 100,
        "swap_bytes": None,
        "processes": 1,
    }
    many = {"processes": 2, "rss_bytes": 300, "swap_bytes": 50}
    two = _read(tmp_path, _row(tree=many)).now
    assert two == {
        "at": AT,
        "cpu_percent": None,  # the workload's own is not the tree's
        "rss_bytes": 300,
        "swap_bytes": 50,
        "processes": 2,
    }


def test_the_newest_row_alone_tells_all_peaks(tmp_path):
    path, peaks = str(tmp_path / "trace.jsonl"), UsagePeaks()
    writer = TraceWriter(path)
    for rss, processes in ((100, 1), (900, 7), (300, 2), (300, 2), (200, 1)):
        row = _row(tree={"processes": processes, "rss_bytes": rss, "cpu_seconds": 1.5})
        peaks.add(row)
        row[PEAKS] = peaks.beyond(row)
        assert writer.append(row) is None
        assert read_live(path, WORKLOADS, 5.0).usage == peaks.usage()
    unresolved = {"at": AT, "boottime": boottime(), "resolution": "unresolved", "tree": {}}
    peaks.add(unresolved)
    writer.append({**unresolved, PEAKS: peaks.beyond(unresolved)})
    live = read_live(path, WORKLOADS, 5.0)
    assert live.now is None  # a count of wrappers is nobody's
    assert live.usage == peaks.usage()
    writer.close()


def test_a_stale_sample_is_not_about_now_but_tells_what_was_used(tmp_path):
    live = _read(tmp_path, _row(boottime=boottime() - 60))
    assert live.now is None
    assert live.usage["peak_rss_bytes"] == 100


def test_a_row_of_an_earlier_version_does_not_tell_what_was_before_it(tmp_path):
    row = _row()
    del row[PEAKS]
    live = _read(tmp_path, row)
    assert live.now["rss_bytes"] == 100
    assert live.usage is None


def test_nothing_is_known_without_a_trace(tmp_path):
    assert read_live(str(tmp_path / "none"), WORKLOADS, 5.0) == Live()
    assert _read(tmp_path) == Live()


@pytest.mark.parametrize(
    "wrong",
    [
        {"token": "of somebody else"},
        {"tree": [1]},
        {"tree": "text"},
        {"tree": None},
    ],
)
def test_a_row_about_somebody_else_or_of_another_shape_is_not_believed(tmp_path, wrong):
    assert _read(tmp_path, _row(**wrong)) == Live()


@pytest.mark.parametrize("wrong", ["text", True, -1, float("inf"), float("nan"), [], {}])
def test_a_row_with_what_is_no_number_is_passed_over(tmp_path, wrong):
    before = _row()
    tree = {"processes": 2, "rss_bytes": wrong, "cpu_seconds": 2.0}
    for damaged in (
        _row(tree=tree),
        _row(peaks={"peak_processes": wrong}),
        _row(boottime=wrong),
        _row(at="yesterday"),
    ):
        assert _read(tmp_path, damaged) == Live()
        assert _read(tmp_path, before, damaged) == _read(tmp_path, before)
