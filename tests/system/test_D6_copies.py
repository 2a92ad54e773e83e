"""D6, L10: a copy of a live run is not believed: nobody is signalled or fed on its word."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from holdfast.errors import IdentityUnproven
from holdfast.manage.runs import Runs
from holdfast.run.facts import State
from holdfast.run.names import new_id
from tests.support.recovering import kill, known
from tests.support.running import run_of, settled, stop, wait_for_output


@pytest.fixture
def copied_home(tmp_path):
    """Copies the test's home; its path."""
    copy = tmp_path.parent / f"{tmp_path.name}-copy"

    def make():
        shutil.copytree(tmp_path, copy, ignore=shutil.ignore_patterns("control", "stdin"))
        return str(copy)

    yield make
    shutil.rmtree(copy, ignore_errors=True)


def test_D6_signal_and_send_refuse_a_copied_home(holdfast, tmp_path, copied_home):
    holdfast("run", "-n", "a", "--stdin", "pipe", "sleep", "600", expect=0)
    elsewhere = {"HOLDFAST_HOME": copied_home()}
    for words in (("signal", "TERM", "a"), ("send", "a", "text"), ("stop", "a")):
        refused = holdfast(*words, env=elsewhere, expect=4)
        assert f"copy of the run in {tmp_path}" in refused.stdout + refused.stderr
        assert f"HOLDFAST_HOME={tmp_path} holdfast status" in refused.stderr
        assert "other-namespaces-gone" not in refused.stderr
    with pytest.raises(IdentityUnproven):
        Runs(elsewhere["HOLDFAST_HOME"]).get("a").send(b"text\n")
    for home in (Runs(), Runs(elsewhere["HOLDFAST_HOME"])):
        assert home.get("a").directory.read_signals() == []
    assert known("a").state is State.RUNNING
    assert known("a").workload["verdict"] == "SAME"
    stop(holdfast, "a")


def test_D6_a_copy_of_hard_links_inside_the_home_is_not_fed(holdfast):
    """Lock and socket are those of the live run: only the spec tells that it is a copy."""
    holdfast("run", "-n", "a", "--stdin", "pipe", "cat", expect=0)
    directory = run_of("a").directory
    holdfast("send", "a", "first", expect=0)
    wait_for_output("a", b"first\n")
    copy = directory.sibling(new_id())
    os.mkdir(copy.path)
    for name in ("spec.json", "lock", "control", "events.jsonl"):
        os.link(f"{directory.path}/{name}", f"{copy.path}/{name}")
    holdfast("send", copy.id, "second", expect=4)
    holdfast("signal", "TERM", copy.id, expect=4)
    holdfast("send", "a", "third", expect=0)
    assert wait_for_output("a", b"third\n") == b"first\nthird\n"
    stop(holdfast, "a")


def test_L10_no_second_workload_beside_a_copy_of_a_live_run(holdfast, tmp_path, copied_home):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    workload = known("a").workload
    elsewhere = {"HOLDFAST_HOME": copied_home()}
    for words in ((), ("--replace",)):
        refused = holdfast("run", "-n", "a", *words, "true", env=elsewhere, expect=4)
        assert f"copy of the run in {tmp_path}" in refused.stderr
        assert workload["token"] in refused.stderr
        assert "use another name" in refused.stderr
    holdfast("run", "-n", "b", "true", env=elsewhere, expect=0)
    assert len(Runs(elsewhere["HOLDFAST_HOME"]).list()) == 2
    stop(holdfast, "a")
    settled("a")
    holdfast("run", "-n", "a", "true", env=elsewhere, expect=0)


def test_L10_no_second_workload_beside_a_live_run_with_damaged_events(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    events = Path(run_of("a").directory.events_path)
    shim = known("a").shim
    whole = events.read_bytes()
    with events.open("ab") as file:
        file.write(b"garbage\n")
    holdfast("run", "-n", "a", "true", expect=4)
    kill(shim)
    refused = holdfast("run", "-n", "a", "true", expect=4)
    assert "damaged" in refused.stderr
    os.truncate(events, len(whole))
    stop(holdfast, "a")


def _copy(name: str) -> str:
    """A copy of a run inside its own home, under another id; that id."""
    directory = run_of(name).directory
    copy = directory.sibling(new_id())
    shutil.copytree(directory.path, copy.path, ignore=shutil.ignore_patterns("control", "stdin"))
    return copy.id


def test_D6_who_chooses_a_copy_does_not_act_on_the_run_that_it_was_made_of(holdfast):
    holdfast("run", "-n", "lives", "sleep", "600", expect=0)
    holdfast("run", "-F", "-n", "over", "true", expect=0)
    settled("over")
    copies = _copy("lives"), _copy("over")
    for verb in ("stop", "pause", "rm"):
        holdfast(verb, "--state", "unknown", expect=4)
    assert known("lives").state is State.RUNNING
    assert known("over").state is State.ENDED
    assert run_of("lives").directory.read_signals() == []
    listed = holdfast("--json", "ls", "--all", expect=0).json["runs"]
    assert {run["id"]: run["state"] for run in listed} == {
        known("lives").id: "running",
        known("over").id: "ended",
        **dict.fromkeys(copies, "unknown"),
    }
    holdfast("rm", "--force", copies[1], expect=0)
    holdfast("rm", "--force", copies[0], expect=4)  # what it names is alive
    assert known("over").state is State.ENDED
    assert known("lives").state is State.RUNNING
    stop(holdfast, "lives")
