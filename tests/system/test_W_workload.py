"""W1-W4 and C5 from outside: what a run says about the process that its user means."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.run.lifecycle import fold
from holdfast.run.trace_rows import read_rows
from tests.support.running import ended, events_of, info_of, run_of, stop, wait_for, wait_for_events
from tests.support.waiting import eventually
from tests.support.watched import PYTHON, faulty

HOG = faulty("hog60")
TEXT = shlex.join(HOG)
PEAK_BYTES = 30_000 * 1024


def rows_of(name: str) -> list[dict[str, Any]]:
    return list(read_rows(run_of(name).directory.trace_path))


def anomalies_of(name: str) -> list[dict[str, Any]]:
    try:
        with open(run_of(name).directory.anomalies_path) as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


def usage_of(name: str) -> dict[str, Any]:
    return ended(name).usage or {}


def run(holdfast, *words: object) -> None:
    holdfast("run", "-n", "a", "--agent", "none", "--sample-interval", "0.2", *words, expect=0)


@pytest.mark.parametrize(
    "command",
    [
        ["script", "-qefc", TEXT, "/dev/null"],
        ["sh", "-c", f"{TEXT}; true"],
        ["timeout", "600", "bash", "-lc", f"{TEXT}; true"],
        ["setsid", *HOG],
        ["env", "nice", "stdbuf", "-oL", *HOG],
    ],
    ids=lambda command: command[0],
)
def test_W1_W2_the_figures_are_the_workloads(holdfast, command):
    run(holdfast, *command)
    eventually(
        lambda: max((row.get("rss_bytes", 0) for row in rows_of("a")), default=0) > PEAK_BYTES,
        why="its memory is seen",
    )
    info = info_of("a")
    assert info.workload is not None
    assert info.workload["comm"].startswith("python")
    root = events_of("a", "attempt_started")[0]["root"]
    becomes = command[0] == "env"
    assert (info.workload["pid"] == root["pid"]) is becomes
    assert info.workload_resolution == ("direct" if becomes else "resolved")
    assert {row["comm"] for row in rows_of("a") if "comm" in row} == {info.workload["comm"]}
    assert {row["token"] for row in rows_of("a") if "token" in row} == {info.workload["token"]}
    stop(holdfast, "a")
    assert usage_of("a")["peak_rss_bytes"] > PEAK_BYTES
    assert anomalies_of("a") == []


def test_W3_a_name_that_never_appears_is_said_and_gets_nobodys_figures(holdfast):
    run(holdfast, "--workload", "claude", "sh", "-c", f"{TEXT}; true")
    eventually(lambda: len(rows_of("a")) > 15, why="some samples")
    info = info_of("a")
    assert (info.state, info.workload_resolution) == ("running", "unresolved")
    for row in rows_of("a"):
        assert row["resolution"] == "unresolved"
        assert not {"comm", "token", "rss_bytes", "cpu_percent"} & set(row)
        assert set(row["tree"]) == {"processes"}
    stop(holdfast, "a")
    assert usage_of("a").get("peak_rss_bytes") is None


def test_W3_a_required_workload_that_never_appears_fails_the_run(holdfast):
    run(holdfast, "--workload", "claude", "--require-workload", "sh", "-c", "sleep 600; true")
    root = events_of("a", "attempt_started")[0]["root"]["pid"]
    info = ended("a")
    assert str(root) in info.evidence
    assert "claude" in info.evidence
    assert holdfast("wait", "a").returncode != 0


def test_W4_a_short_workload_is_itself_or_nobody(holdfast):
    run(holdfast, "sh", "-c", "sleep 0.1; exit 3")
    info = ended("a")
    assert (info.outcome, info.exit_code) == ("failed", 3)
    assert info.workload is None or info.workload["comm"] == "sleep"
    assert {row.get("comm") for row in rows_of("a")} <= {None, "sleep"}


def test_W4_exec_is_a_fact_and_keeps_the_identity(holdfast):
    code = "import os, time; time.sleep(1.5); os.execvp('sleep', ['sleep', '600'])"
    run(holdfast, PYTHON, "-S", "-c", code)
    [fact] = wait_for_events("a", "execed", why="it execs")
    assert fact["comm"] == "sleep"
    assert fact["token"] == events_of("a", "attempt_started")[0]["root"]["token"]
    eventually(lambda: rows_of("a")[-1].get("comm") == "sleep", why="rows have the new name")
    assert {row["token"] for row in rows_of("a") if "token" in row} == {fact["token"]}
    stop(holdfast, "a")
    assert anomalies_of("a") == []


def test_W4_workers_of_a_workload_that_exits_first_are_leftovers(holdfast):
    code = "import os, signal, sys; os.fork() or signal.pause(); sys.exit(5)"
    run(holdfast, PYTHON, "-S", "-c", code)
    info = ended("a")
    assert (info.outcome, info.exit_code) == ("failed", 5)
    assert info.cleanup is not None
    assert info.cleanup["signalled"] == 1


def _workload_other_than(known: list[str]) -> str | None:
    workload = fold(run_of("a").directory.read_events().events).attempt.workload_identity
    return workload.token if workload and workload.token not in known else None


def test_W4_a_workload_that_ends_with_its_root_has_its_code_recorded(holdfast, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    fifo = os.open(go, os.O_RDWR)
    run(holdfast, "sh", "-c", f"head -n 1 {go}; exit 7")
    eventually(lambda: _workload_other_than([]), why="the workload is found")
    os.write(fifo, b"go\n")
    info = ended("a")
    os.close(fifo)
    assert info.workload is not None
    assert (info.workload["comm"], info.workload_exit_code) == ("head", 0)
    assert info.exit_code == 7


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        ("memory_hog", "memory_growth"),
        ("fd_leak", "fd_exhaustion"),
        ("zombie_maker", "zombie_pile_up"),
        ("disk_sleep", "disk_sleep"),
        ("thread_bomb", "thread_explosion"),
        ("deleted_cwd", "deleted_cwd"),
    ],
)
def test_C5_a_fault_fires_its_anomaly_once_while_the_run_is_live(holdfast, program, rule):
    with _few_descriptors():
        run(holdfast, *faulty(program))
    eventually(lambda: anomalies_of("a"), why=f"{rule} fires")
    seen = rows_of("a")[-1]["boottime"]
    # While nothing changes the last row is written over: its time is that of the last look.
    eventually(lambda: rows_of("a")[-1]["boottime"] > seen + 5 * 0.2, why="more samples")
    assert [anomaly["rule"] for anomaly in anomalies_of("a")] == [rule]
    assert [event["rule"] for event in events_of("a", "anomaly_fired")] == [rule]
    assert info_of("a").state == "running"
    stop(holdfast, "a")


@contextlib.contextmanager
def _few_descriptors() -> Iterator[None]:
    """What is started here has the limit of `fd_leak` from its first moment.

    A limit is read seldom: one that a program gives itself may be seen a minute later.
    """
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_C5_a_crash_loop_fires_once(holdfast):
    run(holdfast, "--restart", "on-failure:3", *faulty("crash_loop"))
    ended("a", timeout=60)
    assert [anomaly["rule"] for anomaly in anomalies_of("a")] == ["crash_loop"]


def _code_of_both(holdfast, tmp_path, resolution: str, *options: str) -> tuple[int | None, ...]:
    """A root that exits with 7 once its workload is settled: the run's code and the workload's."""
    go = tmp_path / "go"
    os.mkfifo(go)
    fifo = os.open(go, os.O_RDWR)
    run(holdfast, *options, PYTHON, "-c", f"open({str(go)!r}).readline(); exit(7)")
    wait_for("a", lambda info: info.workload_resolution == resolution, why=resolution)
    os.write(fifo, b"go\n")
    info = ended("a")
    os.close(fifo)
    return info.exit_code, info.workload_exit_code


def test_W4_a_workload_that_is_the_root_has_the_roots_code(holdfast, tmp_path):
    assert _code_of_both(holdfast, tmp_path, "direct") == (7, 7)


def test_W4_nobodys_code_is_the_unresolved_workloads(holdfast, tmp_path):
    assert _code_of_both(holdfast, tmp_path, "unresolved", "--workload", "nonesuch") == (7, None)
