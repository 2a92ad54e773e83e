"""Runs of 0.1.0 are listed, shown, followed, waited for, recovered and removed.

Stored ones are in data/, made by the real 0.1.0, with what it said of them. Live ones are started
by that version's code, out of the git history; there both versions work on one home.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.features import needs
from tests.support.pretend_claude import install
from tests.support.records import append_events, rewrite_spec
from tests.support.recovering import gated, kill, known, orphan, recovered, wait_gone
from tests.support.running import (
    ended,
    events_of,
    is_alive,
    loaded_shim,
    run_of,
    settled,
    wait_for_output,
    workload_pid,
)
from tests.system.old_home import EXPECTED, Json, OldCommandLine, expected, lay_out, old_source

SAID = json.loads(EXPECTED.read_text())
NAMES = {run_id: run["name"] for run_id, run in SAID["status"].items()}
EACH = [pytest.param(run_id, id=f"{NAMES[run_id]}-{run_id[-4:]}") for run_id in sorted(NAMES)]

# Of a live run, between two looks: figures, output, and what its workload is at.
MOVING = ("usage", "now", "log_bytes", "last_output_at", "duration_seconds", "workload", "wrappers")

EVERY_OPTION = (
    "--tag=k=v --key=k --timeout=1h --idle-timeout=10m --done-when=never --drain=5s --grace=9s "
    "--stop-signal=INT --memory-max=8G --restart=on-failure:2 --leftovers=keep --workload=sh "
    "--sample-interval=0.1 --split-stderr --log-max=1M --stdin=pipe --independent --agent=none"
)


def _differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Every field of the old document that the new one lacks, or has another value of."""
    if isinstance(old, dict) and isinstance(new, dict):
        missing = [f"{where}.{key} is missing" for key in old if key not in new]
        both = [(old[key], new[key], f"{where}.{key}") for key in old if key in new]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        missing = []
        both = [(*pair, f"{where}[{at}]") for at, pair in enumerate(zip(old, new, strict=True))]
    else:
        return [] if old == new else [f"{where}: {old!r} became {new!r}"]
    return missing + [difference for pair in both for difference in _differences(*pair)]


def _fields(document: Json, *without: str) -> Json:
    return {key: value for key, value in document.items() if key not in without}


def _content(path: str | Path) -> dict[str, str]:
    """A hash of each file below the path; a socket has no content."""
    return {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(Path(path).rglob("*"))
        if file.is_file()
    }


def _listed(holdfast) -> dict[str, Json]:
    return {run["id"]: run for run in holdfast("ls", "--all", "--json", expect=0).json["runs"]}


@pytest.fixture
def home(tmp_path):
    return lay_out(tmp_path)


def test_a_document_that_lost_or_changed_a_field_is_noticed():
    old = {"a": [{"b": 1}], "c": None}
    assert _differences(old, {"a": [{"b": 1, "new": 2}], "c": None, "d": 3}) == []
    assert _differences(old, {"a": [{"b": 1}]}) == [".c is missing"]
    assert _differences(old, {"a": [{"b": 2}], "c": None}) == [".a[0].b: 1 became 2"]
    assert _differences(old, {"a": [], "c": None}) == [".a: [{'b': 1}] became []"]


@pytest.mark.usefixtures("home")
def test_every_stored_run_is_listed_with_all_that_was_known(holdfast):
    said, listed = expected()["status"], _listed(holdfast)
    assert sorted(listed) == sorted(said)
    for run_id, was in said.items():
        # A listing does not look for suspects; evidence is made anew, for people, at each look.
        assert _differences(_fields(was, "suspects", "evidence"), listed[run_id]) == []
    page = holdfast("ls", "--all", expect=0).stdout
    assert all(name in page for name in NAMES.values())


@pytest.mark.parametrize("run_id", EACH)
def test_a_stored_run_is_shown_and_its_output_and_events_are_read(home, holdfast, run_id):
    was = expected()["status"][run_id]
    now = holdfast("status", run_id, "--json", expect=0).json
    # An ending that is not recorded is worked out anew, and so is the sentence about it.
    assert _differences(was if was["is_recorded"] else _fields(was, "evidence"), now) == []
    assert now["evidence"]
    assert was["name"] in holdfast("status", run_id, expect=0).stdout
    directory = home / "runs" / run_id
    assert holdfast("logs", "-f", run_id, expect=0).raw == (directory / "output.log").read_bytes()
    recorded = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
    assert _differences(recorded, holdfast("events", run_id, expect=0).json_lines) == []


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("run_id", EACH)
def test_the_code_of_a_stored_run_is_waited_for(holdfast, run_id):
    assert holdfast("wait", run_id).returncode == SAID["wait"][run_id]


@pytest.mark.usefixtures("home")
def test_what_else_is_told_of_stored_runs(holdfast):
    assert holdfast("logs", "--stderr", "succeeded", expect=0).stdout == "oops\n"
    assert holdfast("result", "agent", expect=0).stdout == "done: two\n"
    assert holdfast("usage", "--json", expect=0).json["total"]["cost_usd"] == 0.75
    assert "sleep" in holdfast("report", "running", expect=0).stdout
    assert "GONE" in holdfast("tree", "stopped", expect=0).stdout
    tagged = holdfast("ls", "--all", "--tag", "team=blue", "--json", expect=0).json["runs"]
    assert [run["name"] for run in tagged] == ["succeeded"]


def test_stored_runs_that_had_not_ended_are_recovered(home, holdfast):
    """They were lost to a reboot, and all that was known of them is kept."""
    said = expected()
    before = {run_id: _content(home / "runs" / run_id) for run_id in NAMES}
    told = {run["id"]: run for run in holdfast("recover", "--json", expect=0).json["runs"]}
    for was in said["recover"]:
        assert _differences(_fields(was, "evidence"), told.pop(was["id"])) == []
    assert told == {}
    listed = _listed(holdfast)
    for run_id, was in said["recovered"].items():
        settled(run_id)
        assert _differences(_fields(was, "suspects", "evidence"), listed[run_id]) == []
        assert listed[run_id]["loss"] == "reboot"
        assert holdfast("wait", run_id).returncode == 125
    touched = {run_id for run_id in NAMES if _content(home / "runs" / run_id) != before[run_id]}
    assert touched == set(said["recovered"])
    assert holdfast("recover", "--json", expect=0).json["runs"] == []


def test_stored_runs_of_another_host_are_unknown_and_left_alone(tmp_path, holdfast):
    lay_out(tmp_path, on_this_host=False)
    before = _content(tmp_path / "runs")
    listed = _listed(holdfast)
    assert {listed[run_id]["state"] for run_id in SAID["recovered"]} == {"unknown"}
    for run_id in SAID["recovered"]:
        assert holdfast("rm", run_id).returncode == 4
        assert holdfast("stop", run_id).returncode == 4
    assert {one["action"] for one in recovered(holdfast).values()} == {"unknown"}
    assert _content(tmp_path / "runs") == before


def test_stored_runs_are_removed(home, holdfast):
    ids = [run_id for run_id in NAMES if run_id not in SAID["recovered"]]
    holdfast("archive", ids[0], expect=0)
    holdfast("rm", *ids[1:], expect=0)
    holdfast("recover", expect=0)
    holdfast("rm", *SAID["recovered"], expect=0)
    assert _listed(holdfast) == {}
    assert os.listdir(home / "runs") == []
    assert os.listdir(home / "names") == []
    assert os.listdir(home / "active") == []


def test_a_key_of_a_stored_run_still_leads_to_it(home, holdfast):
    again = holdfast("run", "--key", "build-7", "--json", "touch", home / "no", expect=0).json
    assert NAMES[again["id"]] == "succeeded"
    assert not (home / "no").exists()


def test_a_stored_run_is_started_again_as_it_was(home, holdfast):
    holdfast("rerun", "succeeded", "-C", home, expect=0)
    again = ended("succeeded")
    was = next(run for run in SAID["status"].values() if run["name"] == "succeeded")
    assert (again.outcome, again.command, again.tags) == ("succeeded", was["command"], was["tags"])
    assert _differences(was["wanted"], again.wanted) == []
    assert holdfast("logs", "--stderr", "succeeded", expect=0).stdout == "oops\n"
    settled("succeeded")


# Both versions, live, on one home.


@pytest.fixture(scope="session")
def source(tmp_path_factory) -> Path:
    needs("history")
    return old_source(tmp_path_factory.mktemp("old"))


@pytest.fixture
def old(source) -> OldCommandLine:
    return OldCommandLine(source)


def test_the_old_command_line_is_the_old_code(old, source):
    program = [*old.argv()[:-2], "-c", "import holdfast; print(holdfast.__file__)"]
    said = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    assert Path(said.strip()).is_relative_to(source)


@pytest.mark.usefixtures("runs")
class TestALiveRunOfTheOld:
    def test_is_listed_shown_followed_and_waited_for(self, old, holdfast, tmp_path):
        gate = tmp_path / "gate"
        old("run", "-n", "a", *gated(gate, "echo over; exit 7"), expect=0)
        wait_for_output("a", b"tick")
        was = old.status("a")
        assert was["state"] == "running"
        steady = _fields(was, *MOVING, "evidence", "suspects")
        now = holdfast("status", "a", "--json", expect=0).json
        assert _differences(steady, now) == []
        assert _differences(steady, _listed(holdfast)[was["id"]]) == []
        with subprocess.Popen(holdfast.argv("logs", "-f", "a"), stdout=subprocess.PIPE) as follower:
            assert follower.stdout is not None
            assert follower.stdout.readline() == b"tick\n"
            gate.touch()
            assert holdfast("wait", "a").returncode == 7
            assert follower.stdout.read().endswith(b"tick\nover\n")
        assert ended("a").evidence == old.status("a")["evidence"]

    def test_is_stopped(self, old, holdfast):
        old("run", "-n", "a", "sh", "-c", "setsid sleep 600 & sleep 600; true", expect=0)
        (stopped,) = holdfast("stop", "a", "--json", expect=0).json["runs"]
        assert stopped["cleanup"]["complete"] is True
        assert ended("a").outcome == "stopped"
        assert events_of("a", "supervised")[-1]["how"] == "launched"  # by the old shim itself

    def test_is_written_to(self, old, holdfast):
        old("run", "-n", "a", "--stdin", "pipe", "cat", expect=0)
        holdfast("send", "a", "hello", expect=0)
        wait_for_output("a", b"hello\n")
        holdfast("stop", "a", expect=0)

    @pytest.mark.parametrize("words", ["pause a", "adjust a --timeout 1h"])
    def test_says_what_its_shim_can_not_do(self, old, holdfast, words):
        old("run", "-n", "a", "sleep", "600", expect=0)
        refused = holdfast(*words.split(), expect=4)
        assert "is of an earlier Holdfast" in refused.stderr
        assert holdfast("status", "a", "--json", expect=0).json["state"] == "running"
        holdfast("stop", "a", expect=0)

    def test_holds_its_name_and_key(self, old, holdfast):
        old("run", "-n", "a", "--key", "k", "sleep", "600", expect=0)
        holdfast("run", "-n", "a", "true", expect=4)
        again = holdfast("run", "--key", "k", "--json", "true", expect=0).json
        assert again["id"] == run_of("a").id
        holdfast("run", "-n", "a", "--replace", "--grace", "0", "true", expect=0)
        assert ended("a").outcome == "succeeded"

    def test_whose_shim_is_killed_is_adopted_and_has_its_true_code(self, old, holdfast, tmp_path):
        gate = tmp_path / "gate"
        was = orphan(old, "a", *gated(gate, "exit 7"))
        assert old.status("a")["state"] == "orphaned"
        assert recovered(holdfast)["a"]["action"] == "adopted"
        adopted = known("a")
        assert adopted.state == "running"
        assert adopted.workload["pid"] == was.workload["pid"]
        assert adopted.shim["pid"] != was.shim["pid"]
        gate.touch()
        assert holdfast("wait", "a").returncode == 7
        assert (ended("a").outcome, ended("a").exit_code) == ("failed", 7)
        settled("a")
        assert _differences(_fields(old.status("a"), "suspects"), known("a").to_json()) == []

    def test_that_dies_with_its_shim_has_no_made_up_code(self, old, holdfast):
        was = orphan(old, "a", "sleep", "600")
        kill(was.workload)
        wait_gone(was.workload)
        holdfast("recover", expect=0)
        lost = settled("a")
        assert (lost.outcome, lost.exit_code, lost.loss) == ("lost", None, "unseen")


@pytest.mark.usefixtures("runs")
class TestALiveRunOfTheNew:
    """Its records are those that the old version reads, until a schema number says otherwise."""

    def test_is_shown_and_stopped_by_the_old(self, old, holdfast):
        holdfast("run", "-n", "a", "--tag", "x=y", "sh", "-c", "sleep 600; true", expect=0)
        workload_pid("a")
        was = old.status("a")
        steady = _fields(was, *MOVING, "evidence", "suspects")
        assert _differences(steady, known("a").to_json()) == []
        assert was["state"] == "running"
        old("stop", "--grace", "1s", "a", expect=0)
        settled("a")
        assert _differences(_fields(old.status("a"), "suspects"), known("a").to_json()) == []
        assert ended("a").outcome == "stopped"

    def test_with_every_option_is_read_by_the_old(self, old, holdfast):
        words = ("--notify", "true", "sh", "-c", "echo done")
        holdfast("run", "-n", "a", *EVERY_OPTION.split(), *words, expect=0)
        settled("a")
        was = old.status("a")
        assert (was["outcome"], was["tags"], was["key"]) == ("succeeded", {"k": "v"}, "k")
        assert _differences(_fields(was, "suspects"), known("a").to_json()) == []
        assert _differences(old("events", "a").json_lines, holdfast("events", "a").json_lines) == []

    def test_of_an_agent_that_was_handed_hooks_is_unknown_to_the_old(
        self, old, holdfast, tmp_path, monkeypatch
    ):
        monkeypatch.setenv("HOME", str(tmp_path))
        holdfast("run", "-n", "a", install(tmp_path), "-p", "one", expect=0)
        settled("a")
        before = _content(run_of("a").directory.path)
        assert old.status("a")["state"] == "unknown"
        for words in ("rm --force a", "archive a", "clean --keep 0"):
            old(*words.split(), expect=4)
        assert _content(run_of("a").directory.path) == before
        assert holdfast("result", "a", expect=0).stdout == "done: one\n"

    def test_whose_shim_is_killed_is_adopted_by_the_old(self, old, holdfast, tmp_path):
        gate = tmp_path / "gate"
        orphan(holdfast, "a", *gated(gate, "exit 7"))
        assert recovered(old)["a"]["action"] == "adopted"
        gate.touch()
        assert old("wait", "a").returncode == 7
        assert ended("a").exit_code == 7

    @pytest.mark.parametrize("marked", ["schema", "event"])
    def test_of_a_later_version_is_unknown_to_the_old_and_kept(self, old, holdfast, marked):
        """A later version is marked by the spec's schema number, or by a kind of event."""
        holdfast("run", "-n", "a", "true", expect=0)
        settled("a")
        run = run_of("a")
        if marked == "schema":
            rewrite_spec(run, schema=2)
        else:
            append_events(run, {"kind": "newfangled"})
        self._is_left_alone(old, run)
        assert old("logs", "a", expect=0).stdout == ""

    @pytest.mark.parametrize("how", ["queued", "paused", "adjusted", "limited"])
    def test_with_what_the_old_does_not_know_is_left_alone(self, old, holdfast, how):
        options = {"queued": ["--in", "1h"], "limited": ["--silence-timeout", "1h"]}.get(how, [])
        sleep = ["--sample-interval", "0", "sleep", "600"]
        holdfast("run", "-n", "a", *options, *sleep, expect=0)
        if how != "queued":
            loaded_shim("a")
        if how == "paused":
            holdfast("pause", "a", expect=0)
        if how == "adjusted":
            holdfast("adjust", "a", "--timeout", "1h", expect=0)
        run = run_of("a")
        before = _content(run.directory.path)
        assert old.status("a")["state"] == "unknown"
        assert _listed(old)[run.id]["state"] == "unknown"
        for words in ("stop a", "rm --force a", "archive a", "clean --keep 0"):
            old(*words.split(), expect=4)
        old("run", "-n", "a", "--replace", "true", expect=4)
        assert {one["action"] for one in recovered(old).values()} <= {"unknown"}
        assert _content(run.directory.path) == before
        assert known("a").state == ("queued" if how == "queued" else "running")
        holdfast("stop", "--grace", "0", "a", expect=0)

    def test_of_a_later_version_is_not_stopped_by_the_old(self, old, holdfast):
        # Without samples: nothing is written by its own shim.
        holdfast("run", "-n", "a", "--sample-interval", "0", "sleep", "600", expect=0)
        pid = workload_pid("a")
        run = run_of("a")
        loaded_shim("a")
        rewrite_spec(run, schema=2)
        self._is_left_alone(old, run)
        old("run", "-n", "a", "true", expect=4)  # its lock is held
        assert is_alive(pid)
        rewrite_spec(run, schema=1)
        holdfast("stop", "--grace", "0", "a", expect=0)

    def _is_left_alone(self, old, run):
        before = _content(run.directory.path)
        status = old.status("a")
        assert (status["state"], status["outcome"]) == ("unknown", None)
        assert "version" in status["evidence"]
        assert _listed(old)[run.id]["state"] == "unknown"
        for words in ("stop a", "wait a", "rm --force a", "archive a", "clean --keep 0"):
            assert "version" in str(old(*words.split(), "--json", expect=4).json), words
        assert {one["action"] for one in recovered(old).values()} <= {"unknown"}
        assert _content(run.directory.path) == before
