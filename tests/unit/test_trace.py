"""The trace: bounded, never without its peaks, and never a reason for a run to fail."""

from __future__ import annotations

import io
import itertools
import json
import os

import pytest

from holdfast.process.sampling.figures import USAGE
from holdfast.run.trace import MOST_BYTES, TraceWriter, UsagePeaks, thin
from holdfast.run.trace_rows import last_row, read_rows

TOKEN = "hf1.48213.1234567.777777.4026531836." + "b" * 32 + "." + "a" * 8
DAY_OF_SAMPLES = 24 * 60 * 60 // 5


def row(number: int, **changes: object) -> dict:
    seconds = 5.0 * number
    return {
        "at": f"2026-11-15T{int(seconds // 3600):02}:{int(seconds // 60) % 60:02}:00.{number:06}Z",
        "boottime": seconds,
        "token": TOKEN,
        "comm": "python3",
        "state": "sleeping",
        "cpu_percent": 1.5,
        "rss_bytes": 60_000_000,
        "swap_bytes": 0,
        "threads": 4,
        "fds": 12,
        "read_bytes": 123_456,
        "write_bytes": 654_321,
        "oom_score": 667,
        "quiet_seconds": 12.5,
        "tree": {"processes": 1, "cpu_seconds": 12.34, "chars": 1_234_567, "fd_ratio": 0.012},
        **changes,
    }


def thinned(data: bytes) -> bytes:
    new = io.BytesIO()
    thin(io.BytesIO(data), new, len(data) // 2)
    return new.getvalue()


def test_rows_come_back_as_they_were_written(tmp_path):
    path = str(tmp_path / "trace.jsonl")
    writer = TraceWriter(path)
    rows = [row(n) for n in range(10)]
    assert [writer.append(r) for r in rows] == [None] * 10
    assert list(read_rows(path)) == rows
    assert last_row(path) == rows[-1]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_missing_or_empty_trace_has_no_rows(tmp_path):
    path = str(tmp_path / "trace.jsonl")
    assert list(read_rows(path)) == []
    assert last_row(path) is None
    (tmp_path / "trace.jsonl").write_bytes(b"")
    assert last_row(path) is None


def test_a_days_trace_is_below_8_MB_and_keeps_its_peaks(tmp_path):
    path = str(tmp_path / "trace.jsonl")
    writer = TraceWriter(path)
    padding = {"wait_channel": "x" * 150}  # larger rows than a usual run has
    peaks: dict[int, dict] = {
        700: {"rss_bytes": 900_000_000},
        1501: {"cpu_percent": 799.5},
        2333: {"oom_score": 1200},
        3007: {"tree": {"processes": 1, "fd_ratio": 0.99}},
    }
    biggest = 0
    for number in range(DAY_OF_SAMPLES):
        writer.append(row(number, **padding, **peaks.get(number, {})))
        if number % 500 == 0:
            biggest = max(biggest, os.path.getsize(path))
    assert biggest <= MOST_BYTES + 100_000 < 8_000_000
    rows = list(read_rows(path))
    assert max(r["rss_bytes"] for r in rows) == 900_000_000
    assert max(r["cpu_percent"] for r in rows) == 799.5
    assert max(r["oom_score"] for r in rows) == 1200
    assert max(r["tree"]["fd_ratio"] for r in rows) == 0.99
    assert [r["boottime"] for r in rows] == sorted(r["boottime"] for r in rows)
    assert rows[-1] == row(DAY_OF_SAMPLES - 1, **padding)


def test_thinning_halves_the_older_half_evenly():
    data = b"".join(json.dumps(row(n)).encode() + b"\n" for n in range(800))
    kept = [json.loads(line)["boottime"] / 5 for line in thinned(data).splitlines()]
    assert kept[-395:] == list(range(405, 800))
    assert 595 <= len(kept) <= 610
    assert max(b - a for a, b in itertools.pairwise(kept)) <= 8


def test_thinning_keeps_what_an_anomaly_fired_on_and_what_is_around_it():
    rows = [row(n, **({"anomalies": ["stall"]} if n == 101 else {})) for n in range(800)]
    data = b"".join(json.dumps(r, separators=(",", ":")).encode() + b"\n" for r in rows)
    for _ in range(2):
        data = thinned(data)
    kept = [json.loads(line)["boottime"] / 5 for line in data.splitlines()]
    assert {100, 101, 102} <= set(kept)


def test_an_unwritable_trace_is_said_once_and_heals(tmp_path):
    directory = tmp_path / "gone"
    writer = TraceWriter(str(directory / "trace.jsonl"))
    said = [writer.append(row(n)) for n in range(5)]
    assert said[0] is not None
    assert "can't be written" in said[0]
    assert said[1:] == [None] * 4
    directory.mkdir()
    assert writer.append(row(6)) is None
    assert list(read_rows(str(directory / "trace.jsonl"))) == [row(6)]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full (Linux)")
def test_a_full_disk_is_said_once():
    writer = TraceWriter("/dev/full")
    said = [writer.append(row(n)) for n in range(3)]
    assert said[0] is not None
    assert said[1:] == [None, None]


def test_a_torn_line_costs_only_itself(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_bytes(json.dumps(row(0)).encode() + b'\n{"at":"2026-')
    writer = TraceWriter(str(path))
    writer.append(row(1))
    assert list(read_rows(str(path))) == [row(0), row(1)]
    assert last_row(str(path)) == row(1)


def test_a_symbolic_link_is_not_written_through(tmp_path):
    target = tmp_path / "elsewhere"
    (tmp_path / "trace.jsonl").symlink_to(target)
    assert TraceWriter(str(tmp_path / "trace.jsonl")).append(row(0)) is not None
    assert not target.exists()


def test_usage_has_every_figure_and_the_highest_of_each():
    peaks = UsagePeaks()
    nothing = dict.fromkeys(peaks.usage())
    assert set(nothing) == set(USAGE)
    assert peaks.usage() == nothing
    peaks.add(row(0))
    peaks.add(row(1, rss_bytes=70_000_000, tree={"processes": 1, "peak_rss_bytes": 90_000_000}))
    peaks.add(
        row(2, tree={"processes": 5, "rss_bytes": 80_000_000, "cpu_seconds": 20.5, "fd_ratio": 0.5})
    )
    assert peaks.usage() == {
        "peak_rss_bytes": 90_000_000,
        "peak_swap_bytes": 0,
        "cpu_seconds": 20.5,
        "peak_cpu_percent": 1.5,
        "peak_oom_score": 667,
        "peak_fd_ratio": 0.5,
        "read_bytes": 123_456,
        "write_bytes": 654_321,
        "peak_processes": 5,
    }


def test_W3_an_unresolved_row_adds_nothing_to_the_usage():
    peaks = UsagePeaks()
    peaks.add({"at": "x", "boottime": 1, "resolution": "unresolved", "tree": {"processes": 3}})
    assert set(peaks.usage().values()) == {None}


def test_a_workload_that_was_gone_before_its_first_sample_used_nobody_knows_what():
    peaks = UsagePeaks()
    over = {"at": "x", "boottime": 1, "tree": {"processes": 0, "cpu_seconds": 0.0}}
    peaks.add(over)
    assert set(peaks.usage().values()) == {None}
    peaks.add(row(1))
    known = peaks.usage()
    peaks.add(over)
    assert peaks.usage() == known


# A row that is written over.


def _repeat(writer: TraceWriter, number: int, looks: int) -> None:
    repeated = row(number, unchanged_since=5.0)
    times = (repeated.pop("at"), repeated.pop("boottime"), repeated.pop("quiet_seconds"), looks)
    assert writer.repeat(times, lambda: repeated) is None


def test_a_row_that_repeats_the_last_one_is_written_over(tmp_path):
    path = str(tmp_path / "trace.jsonl")
    writer = TraceWriter(path)
    writer.append(row(1))
    _repeat(writer, 2, 1)
    size = os.path.getsize(path)
    for number in (3, 70_000):
        _repeat(writer, number, number)
    assert os.path.getsize(path) == size
    assert list(read_rows(path)) == [row(1), row(70_000, looks=70_000, unchanged_since=5.0)]
    writer.append(row(70_001))
    _repeat(writer, 70_002, 1)
    found = list(read_rows(path))
    assert [one.get("looks") for one in found] == [None, 70_000, None, 1]
    assert last_row(path) == found[-1] == row(70_002, looks=1, unchanged_since=5.0)


def test_what_somebody_else_wrote_is_not_written_over(tmp_path):
    path = tmp_path / "trace.jsonl"
    writer = TraceWriter(str(path))
    writer.append(row(1))
    _repeat(writer, 2, 1)
    with path.open("a") as file:
        file.write(json.dumps(row(3)) + "\n")
    _repeat(writer, 4, 2)
    assert [one.get("looks") for one in read_rows(str(path))] == [None, 1, None, 2]
    os.truncate(path, 0)
    _repeat(writer, 5, 3)
    assert [one.get("looks") for one in read_rows(str(path))] == [3]


def test_a_row_that_is_written_over_survives_a_thinning(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.run.trace.MOST_BYTES", 20_000)
    path = str(tmp_path / "trace.jsonl")
    writer = TraceWriter(path)
    for number in range(0, 300, 3):
        writer.append(row(number))
        _repeat(writer, number + 1, 1)
        _repeat(writer, number + 2, 2)
        assert last_row(path) == row(number + 2, looks=2, unchanged_since=5.0)
    times = [one["boottime"] for one in read_rows(path)]
    assert times == sorted(set(times))
