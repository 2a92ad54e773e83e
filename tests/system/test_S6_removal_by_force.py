"""S6: `rm --stop --force` of what a stop can't end: removed, and those who live on stay named."""

from __future__ import annotations

import json
import os

import pytest

from holdfast.errors import StillAlive
from holdfast.manage.removal import giving_up, remove
from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Verdict
from holdfast.run.home import Home
from tests.support.cgroups import freezer_cgroup
from tests.support.features import needs
from tests.support.recovering import known, over, recovered
from tests.support.running import output_of, run_of, wait_for_output
from tests.support.tracer import held_at_exit
from tests.support.waiting import eventually


def _listed():
    path = Home.locate().abandoned_path
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file]


def _doctor(holdfast):
    findings = holdfast("doctor", "--json").json["findings"]
    return next(one for one in findings if one["name"] == "abandoned")


def test_S6_a_root_that_cannot_be_killed_is_abandoned_by_name(holdfast):
    needs("root")
    holdfast("run", "-n", "a", "--grace", "0", "sleep", "600", expect=0)
    before = known("a")
    root = before.workload
    with held_at_exit(root["pid"]):
        refused = holdfast("rm", "--stop", "a", expect=4)
        assert "NOT removed" in refused.stdout
        holdfast("rm", "--force", "a", expect=4)
        assert known("a").id == before.id

        done = holdfast("rm", "--stop", "--force", "a", "--json", expect=0).json["runs"][0]
        assert done["removed"] is True
        assert [one["token"] for one in done["abandoned"]] == [root["token"]]
        assert f"{root['pid']} sleep ({root['token']})" in done["evidence"]
        holdfast("status", "a", expect=3)
        assert ProcessIdentity.from_json(before.shim).wait(30), "nobody supervises it any more"
        (listed,) = _listed()
        assert (listed["name"], listed["run"], listed["pid"]) == ("a", before.id, root["pid"])

        for words in (("run", "-n", "A", "true"), ("run", "--replace", "-n", "a", "true")):
            refused = holdfast(*words, expect=4)
            assert str(root["pid"]) in refused.stderr
            assert root["token"] in refused.stderr
        holdfast("run", "-n", "b", "true", expect=0)
        for options in ((), ("--dry-run",)):
            told = recovered(holdfast, *options)["a"]
            assert told["action"] == "abandoned"
            assert root["token"] in told["evidence"]
        found = _doctor(holdfast)
        assert found["status"] == "missing"
        assert root["token"] in found["says"]
        assert [one["token"] for one in _listed()] == [root["token"]]
    identity = ProcessIdentity.from_json(root)
    eventually(lambda: identity.verdict() is not Verdict.SAME, why="it was let go", timeout=60)
    assert _doctor(holdfast)["status"] == "ok"
    assert recovered(holdfast, "--dry-run")["a"]["action"] == "forgotten"
    assert len(_listed()) == 1
    assert recovered(holdfast)["a"]["action"] == "forgotten"
    assert not os.path.exists(Home.locate().abandoned_path)
    holdfast("run", "-n", "a", "true", expect=0)
    over("a")


def test_S6_a_name_is_free_once_whom_it_abandoned_has_gone(holdfast):
    """Nobody needs to have recovered in between."""
    needs("root")
    script = "sleep 600 & echo $!; wait"
    holdfast("run", "-n", "a", "--grace", "0", "sh", "-c", script, expect=0)
    wait_for_output("a", b"\n")
    pid = int(output_of("a"))
    with held_at_exit(pid):
        done = holdfast("rm", "--stop", "--force", "a", expect=0)
        assert f"{pid} sleep (hf1.{pid}." in done.stdout
        (listed,) = _listed()
        assert listed["pid"] == pid
        holdfast("run", "-n", "a", "true", expect=4)
    identity = ProcessIdentity.parse(listed["token"])
    eventually(lambda: identity.verdict() is not Verdict.SAME, why="it was let go", timeout=60)
    holdfast("run", "-n", "a", "true", expect=0)
    over("a")


def test_S6_nobody_is_abandoned_where_a_stop_ends_everybody(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    done = holdfast("rm", "--stop", "--force", "a", "--json", expect=0).json["runs"][0]
    assert done["abandoned"] == []
    assert done["evidence"] == "every process that it ever recorded is gone"
    assert _listed() == []


def test_S6_a_run_that_is_frozen_with_its_shim_is_abandoned_whole(holdfast, monkeypatch):
    """SIGKILL waits for the thaw: the shim holds its lock, and never does anything again."""
    needs("root", "freezer_cgroup")
    for module in (giving_up, remove):
        monkeypatch.setattr(module, "_SHIM_SECONDS", 0.3)
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    before, directory = known("a"), run_of("a").directory
    with freezer_cgroup() as group:
        for process in (before.shim, before.workload):
            group.add(process["pid"])
        group.freeze()
        with pytest.raises(StillAlive):
            remove.remove_run(directory, force=True)
        removed = remove.remove_run(directory, force=True, abandon=True)
        tokens = {one.identity.token for one in removed.abandoned}
        assert tokens == {before.shim["token"], before.workload["token"]}
        assert {one["token"] for one in _listed()} == tokens
        holdfast("run", "-n", "a", "true", expect=4)
        group.thaw()
        assert ProcessIdentity.from_json(before.shim).wait(30), "SIGKILL was on its way"
    assert not os.path.exists(directory.path)
    assert ProcessIdentity.from_json(before.workload).wait(30), "it ended with its group"
    holdfast("run", "-n", "a", "true", expect=0)
    over("a")


def test_S6_a_list_that_is_torn_or_foreign_blocks_nobody(holdfast):
    holdfast("run", "-n", "a", "true", expect=0)
    over("a")
    path = Home.locate().abandoned_path
    with open(path, "w") as file:
        file.write('{"token": "hf1.x", "name": "a"}\nnot json\n[]\n{"name": "a", "token"')
    holdfast("run", "-n", "a", "true", expect=0)
    over("a")
    assert _doctor(holdfast)["status"] == "ok"
    holdfast("recover", expect=0)
