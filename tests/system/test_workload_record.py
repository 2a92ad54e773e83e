"""`RunInfo.workload` is a frozen record with typed states; it reads like its JSON document too."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import ProcessIdentity, ProcessInfo, Runs, Verdict
from holdfast.process.procfs import ProcessState
from tests.support.waiting import eventually


def test_the_workload_of_a_run_is_a_record(holdfast_runs: Runs):
    run = holdfast_runs.start(["sh", "-c", "sleep 600; true"])

    def resolved() -> ProcessInfo | None:
        found = run.info().workload
        return found if found is not None and found.state is ProcessState.SLEEPING else None

    workload = eventually(resolved, why="the workload is resolved, and sleeps")
    assert type(workload) is ProcessInfo
    assert workload.verdict is Verdict.SAME
    assert (workload.comm, workload.cmdline) == ("sleep", ("sleep", "600"))
    assert workload.identity == ProcessIdentity.of(workload.pid)
    changed: Any = workload
    with pytest.raises(AttributeError, match="frozen"):
        changed.pid = 1
    (wrapper,) = run.info().wrappers
    assert (wrapper.comm, wrapper.verdict) == ("sh", Verdict.SAME)
    run.stop(grace=0)
    over = run.wait().workload
    assert over is not None
    assert over.verdict in (Verdict.GONE, Verdict.RECYCLED)


def test_it_reads_like_its_document(holdfast_runs: Runs):
    run = holdfast_runs.start(["sleep", "600"])
    eventually(lambda: run.info().workload, why="the workload is known")
    info = run.info()
    workload = info.workload
    assert workload is not None
    document = json.loads(json.dumps(info.to_json()))["workload"]
    assert document == {**workload} == workload.to_json()
    assert workload["pid"] == workload.get("pid") == document["pid"]
    assert workload.get("nothing") is None
    assert list(workload) == list(document)
    assert "pid" in workload
    assert "nothing" not in workload
    assert ProcessIdentity.from_json(workload) == workload.identity
    assert ProcessInfo.from_json(document) == workload
    run.stop(grace=0)


def test_words_that_are_not_known_are_none():
    read = ProcessInfo.from_json(
        {"pid": 7, "token": "t", "verdict": "PERHAPS", "state": ["x"], "cmdline": "text"}
    )
    assert (read.verdict, read.state, read.cmdline, read.comm) == (None, None, None, None)
