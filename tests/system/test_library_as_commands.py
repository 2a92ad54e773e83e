"""The library does what the command line does: remove, archive, report, clean, usage, doctor."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tarfile

import pytest

from holdfast import (
    AsyncRuns,
    Cleaned,
    Diagnosis,
    NotFound,
    Outcome,
    Runs,
    StillAlive,
    Usage,
    WrongUse,
)
from tests.support.records import append_events
from tests.support.running import settled


def _end(runs, *argv, **options):
    run = runs.start(argv, **options)
    assert run.wait(60).state == "ended"
    settled(run.id)
    return run


def test_an_ended_run_is_removed(runs):
    run = _end(runs, "true", name="x")
    removed = run.remove()
    assert (removed.id, removed.name) == (run.id, "x")
    assert removed.freed_bytes > 0
    with pytest.raises(NotFound):
        runs.get("x")


def test_S6_a_live_run_is_not_removed_unless_it_is_stopped(runs):
    run = runs.start(["sleep", "600"], name="x")
    with pytest.raises(StillAlive) as refused:
        run.remove()
    assert "remove(stop=True)" in str(refused.value.hint)
    assert run.info().state == "running"
    run.remove(stop=True)
    assert runs.list(name="x") == []


def test_a_run_is_packed_away(runs):
    run = _end(runs, "echo", "hi", name="x")
    archived = run.archive()
    assert archived.removed.id == run.id
    with tarfile.open(archived.path) as archive:
        assert f"{run.id}/output.log" in archive.getnames()
    assert os.path.getsize(archived.path) == archived.archive_bytes


def test_a_report_has_the_fields_of_its_document(runs):
    run = _end(runs, "sh", "-c", "echo no such file; exit 3", name="x")
    report = run.report()
    document = report.to_json()
    assert set(document) - {"schema"} <= {*dir(report)}
    assert (report.run.outcome, report.samples) == (Outcome.FAILED, document["samples"])
    for text in (report.text(), report.markdown(plot=True), report.html()):
        assert "no such file" in text
    with pytest.raises(AttributeError, match="frozen"):
        report.seconds = 1.0


def test_clean_keeps_what_is_asked_for_and_touches_only_its_scope(runs):
    other = _end(runs, "true", name="other")
    mine = Runs(runs.home.path, tags={"batch": "7"})
    first, second = (_end(mine, "true", name=name) for name in ("a", "b"))
    (would,) = mine.clean(keep=1, dry_run=True)
    assert isinstance(would, Cleaned)
    assert (would.id, runs.get("a").id) == (first.id, first.id)
    (cleaned,) = mine.clean(keep=1)
    assert (cleaned.id, cleaned.fate) == (first.id, "removed")
    assert {info.id for info in runs.list()} == {other.id, second.id}
    assert [one.id for one in mine.clean(older_than="0s")] == [second.id]


def test_usage_adds_up(runs):
    run = _end(runs, "true", tags={"team": "a"})
    append_events(run, {"kind": "usage_read", "tokens_in": 1000, "cost_usd": 0.25})
    _end(runs, "true")
    usage = runs.usage(by="tag")
    assert isinstance(usage, Usage)
    assert (usage.total.runs, usage.total.cost_usd) == (2, 0.25)
    assert (usage.total.tokens_out, usage.total.known_of["cost_usd"]) == (None, 1)
    assert usage.by is not None
    assert {name: one.runs for name, one in usage.by["tag"].items()} == {"none": 1, "team=a": 1}
    assert Runs(runs.home.path, tags={"team": "a"}).usage().total.runs == 1


_EXAMINES = """
import os, subprocess, threading
from holdfast import Runs
found = Runs().doctor(agents=True)
orphan = subprocess.run(["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"], capture_output=True)
print(found.ok, len(found.findings), len(found.agents), threading.active_count())
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no child")
os.kill(int(orphan.stdout), 9)
"""


def test_doctor_examines_the_machine_and_changes_nothing_here(runs):
    found = runs.doctor()
    assert isinstance(found, Diagnosis)
    assert {"identity", "state"} <= {one.name for one in found.findings}
    (state,) = [one for one in found.findings if one.name == "state"]
    assert os.path.basename(runs.home.path) in state.says
    assert found.agents is None
    # It makes itself a subreaper on the way: an orphan of this program must not become its child.
    done = subprocess.run(
        [sys.executable, "-c", _EXAMINES], capture_output=True, text=True, timeout=100, check=True
    )
    first, last = done.stdout.splitlines()
    assert int(first.split()[1]) >= len(found.findings)
    assert int(first.split()[2]) >= 5
    assert (first.split()[3], last) == ("1", "no child")


def test_all_of_it_can_be_awaited(runs):
    async def play() -> None:
        library = AsyncRuns(runs.home.path)
        run = await library.start(["sh", "-c", "echo oops; exit 3"], name="x")
        await run.wait(60)
        assert "oops" in (await run.report()).text()
        assert (await library.usage()).total.runs == 1
        assert (await library.doctor()).findings
        assert await library.clean(keep=5) == []
        assert (await (await library.start(["sleep", "600"])).remove(stop=True)).id
        assert (await run.archive()).removed.name == "x"
        assert await library.list() == []

    asyncio.run(play())


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda runs: runs.start(["true"], idle_timeout="soon"), "idle_timeout: 'soon'"),
        (lambda runs: runs.start(["true"], memory_max=-1), "memory_max: -1"),
        (lambda runs: runs.start(["true"], tags={"": "x"}), "tags: ''"),
        (lambda runs: runs.start(["true"], pty=True, split_stderr=True), "split_stderr: "),
        (lambda runs: runs.clean(older_than="soon"), "older_than: 'soon'"),
        (lambda runs: runs.clean(keep=-1), "keep: -1"),
        (lambda runs: runs.usage(by="moon"), "by: 'moon'"),
    ],
)
def test_messages_name_the_argument_and_no_option(runs, call, named):
    with pytest.raises(WrongUse) as refused:
        call(runs)
    assert refused.value.message.startswith(named)
    assert "--" not in f"{refused.value.message} {refused.value.hint}"


def test_the_command_line_names_the_option(holdfast, runs):
    assert "--idle-timeout: 'soon'" in holdfast("run", "--idle-timeout", "soon", "true").stderr
    assert "--older-than: 'soon'" in holdfast("clean", "--older-than", "soon").stderr
    runs.start(["sleep", "600"], name="x")
    assert "rm --stop" in holdfast("rm", "x", expect=4).stderr
