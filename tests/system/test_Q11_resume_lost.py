"""Q11: `recover --resume-lost` goes on with agents that a reboot ended, each once."""

from __future__ import annotations

import itertools
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from holdfast.manage.runs import Runs
from tests.support.features import needs
from tests.support.kernel_lab import run_in
from tests.support.pretend_claude import install, quota
from tests.support.recovering import kill, kill_shim, shim_is_dead
from tests.support.running import info_of, wait_for
from tests.support.waiting import eventually
from tests.system import lost_scenes
from tests.system.test_D3_reboot import AFTER_REBOOT

STREAM = ("--output-format", "stream-json", "--verbose")
pytestmark = pytest.mark.usefixtures("claude")


@pytest.fixture
def claude(tmp_path, monkeypatch):
    needs("root")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return install(tmp_path)


@pytest.fixture
def started(holdfast, claude):
    def start(name: str, *options: str, prompt: str = "hold") -> None:
        words = (*options, "--", claude, *STREAM, "-p", prompt)
        holdfast("run", "-n", name, *words, expect=0)
        if "silent" not in prompt:
            wait_for(name, lambda info: info.session, why=f"{name} names its session")

    return start


def go_down(*names: str) -> list[Any]:
    """All of a sudden: the runs as they were before."""
    infos: list[Any] = [
        wait_for(name, lambda info: info if info.workload else None) for name in names
    ]
    for info in infos:  # at once: nobody is left to adopt another
        os.kill(info.shim["pid"], signal.SIGKILL)
    for info in infos:
        kill(info.workload)
        shim_is_dead(info.name)
    return infos


def recovered(tmp_path, *names: str, **how: Any) -> Any:
    words = ["--resume-lost"]
    return run_in(
        AFTER_REBOOT, lost_scenes.resume_lost, home=str(tmp_path), words=words, names=names, **how
    )


def told(tmp_path, *words: str) -> Any:
    return run_in(AFTER_REBOOT, lost_scenes.told_by, home=str(tmp_path), words=list(words))


def actions(rows: list[dict[str, Any]], name: str) -> list[str]:
    return [one["action"] for one in rows if one["name"] == name]


def test_Q11_an_agent_that_a_reboot_ended_goes_on_once(started, tmp_path):
    started("a")
    [lost] = go_down("a")
    found = recovered(tmp_path, "a", times=2)
    first, again = found["told"]
    assert actions(first, "a") == ["lost", "resumed"]
    assert again == []
    last = first[-1]
    run = found["runs"]["a"]
    assert (last["id"], last["resumed_as"]) == (lost.id, run["id"])
    assert lost.session["id"] in last["evidence"]
    assert (run["outcome"], run["resumed_from"]) == ("succeeded", lost.id)
    assert run["session"]["id"] == lost.session["id"]
    assert len(Runs().list()) == 2


def test_Q11_two_recoveries_at_once_resume_it_once(started, tmp_path):
    started("a")
    go_down("a")
    found = recovered(tmp_path, "a", at_once=3)
    assert {one["resumed_as"] for one in found["told"][0] if one["action"] == "resumed"} == {
        found["runs"]["a"]["id"]
    }
    assert len(Runs().list()) == 2


def test_Q11_they_go_through_their_queue_in_order(started, holdfast, tmp_path):
    holdfast("queue", "set", "main", "--limit", "3", expect=0)
    for name in ("a", "b", "c"):
        started(name, "-Q", "main", "--priority", "2")
    go_down("a", "b", "c")
    holdfast("queue", "set", "main", "--limit", "1", expect=0)
    found = recovered(tmp_path, "a", "b", "c")
    runs = found["runs"]
    for name in ("a", "b", "c"):
        assert actions(found["told"][0], name) == ["lost", "resumed"]
        assert (runs[name]["queue"]["name"], runs[name]["queue"]["priority"]) == ("main", 2)
    times = sorted((run["started_at"], run["ended_at"]) for run in runs.values())
    assert all(one[1] <= after[0] for one, after in itertools.pairwise(times))


def test_Q11_what_is_not_resumed_is_told_with_the_reason(started, holdfast, tmp_path):
    started("nameless", prompt="hold silent")
    holdfast("run", "-n", "plain", "sleep", "600", expect=0)
    go_down("nameless", "plain")
    [rows] = recovered(tmp_path)["told"]
    why = {one["name"]: one["evidence"] for one in rows if one["action"] == "not resumed"}
    assert "no session of claude was seen" in why["nameless"]
    assert "no agent's" in why["plain"]
    assert {info.outcome for info in Runs().list()} == {"lost"}


def test_Q11_without_the_option_nothing_is_resumed_and_a_dry_run_changes_nothing(started, tmp_path):
    started("a")
    go_down("a")
    dry = told(tmp_path, "--resume-lost", "--dry-run")
    assert "nothing was changed" in dry
    assert info_of("a").is_recorded is False
    assert "lost" in told(tmp_path)
    assert len(Runs().list()) == 1
    dry = told(tmp_path, "--resume-lost", "--dry-run")
    assert "resumed" in dry
    assert len(Runs().list()) == 1
    found = recovered(tmp_path, "a")  # what an earlier recovery found lost in this boot
    assert actions(found["told"][0], "a") == ["resumed"]


def test_Q11_what_was_found_lost_in_an_earlier_boot_is_left_to_people(started, tmp_path):
    started("a")
    go_down("a")
    told(tmp_path)
    assert Runs().recover(resume_lost=True) == []  # the boot of this machine is another one again
    assert len(Runs().list()) == 1


def test_Q11_one_that_somebody_has_resumed_is_not_resumed_again(started, holdfast, tmp_path):
    started("a")
    [lost] = go_down("a")
    told(tmp_path)
    holdfast("resume", "a", "two", expect=0)
    running = wait_for("a", lambda info: info if info.state == "ended" else None)
    assert running.resumed_from == lost.id
    assert recovered(tmp_path)["told"] == [[]]


def test_Q11_one_that_was_resumed_under_a_smaller_id_is_not_resumed_again(
    started, holdfast, tmp_path
):
    """Ids of one second sort by chance, and after a reboot the clock may be behind."""
    started("a")
    [lost] = go_down("a")
    told(tmp_path)
    holdfast("resume", "a", "two", expect=0)
    resumed = wait_for("a", lambda info: info if info.state == "ended" else None)
    eventually(lambda: resumed.id not in Runs().home.run_ids(active=True))
    smaller = "00" + resumed.id[2:]
    directory = Runs().home.runs_path + "/"
    os.rename(directory + resumed.id, directory + smaller)
    spec = Path(directory, smaller, "spec.json")
    spec.write_text(spec.read_text().replace(resumed.id, smaller))
    assert recovered(tmp_path)["told"] == [[]]
    assert {info.id for info in Runs().list()} == {smaller, lost.id}


def test_Q11_one_that_waited_for_its_quota_goes_on_when_that_is_back(holdfast, claude, tmp_path):
    quota(tmp_path, 1, seconds=5)
    words = ("--on-limit", "resume", "--limit-margin", "0", "--limit-spread", "0")
    holdfast("run", "-n", "a", *words, "--", claude, *STREAM, "-p", "one", expect=0)
    info: Any = wait_for("a", lambda info: info if info.queue else None)
    due = info.queue["waits_for"]["until"]
    kill_shim("a")
    found = recovered(tmp_path, "a")
    assert actions(found["told"][0], "a") == ["recorded", "resumed"]
    run = found["runs"]["a"]
    assert (run["outcome"], run["resumed_from"]) == ("succeeded", info.id)
    assert run["started_at"] >= due
    assert run["wanted"]["on_limit"] == "resume"
    commands = (tmp_path / "commands").read_text().splitlines()
    assert [json.loads(line)[-1] for line in commands] == ["one", "Continue where you left off."]
