"""D6: a run that lost its spec is listed and kept; its name is not given away while it lives."""

from __future__ import annotations

import os

from holdfast.process.identity import ProcessIdentity
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home
from tests.support.recovering import kill, known, recovered, shim_is_dead
from tests.support.running import is_alive, run_of, settled, stop


def _lose_spec(directory):
    """Take the spec away; where it is now."""
    kept = f"{directory.home.path}/spec-of-{directory.id}"
    os.rename(directory.spec_path, kept)
    return kept


def _is_listed_as_unknown(holdfast, run_id, name):
    for words in ((), ("--all",)):
        runs = holdfast("ls", "--json", *words, expect=0).json["runs"]
        (listed,) = [run for run in runs if run["id"] == run_id]
        assert (listed["state"], listed["name"]) == ("unknown", name)
    assert "spec.json is missing" in holdfast("status", name, expect=0).stdout


def test_D6_a_live_run_without_its_spec_keeps_its_name(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    before, directory = known("a"), run_of("a").directory
    kept = _lose_spec(directory)
    _is_listed_as_unknown(holdfast, before.id, "a")
    for words in (("run", "-n", "a", "sleep", "601"), ("rm", "--force", "a"), ("stop", "a")):
        holdfast(*words, expect=4)
    refused = holdfast("run", "-n", "A", "--replace", "sleep", "601", expect=4)
    assert before.workload["token"] in refused.stderr
    holdfast("recover", expect=0)
    assert is_alive(before.workload["pid"])
    assert Home.locate().run_ids() == [before.id]

    kill(before.shim)  # its lock is free now, and its workload lives
    holdfast("run", "-n", "a", "sleep", "601", expect=4)
    holdfast("rm", "--force", "a", expect=4)
    assert recovered(holdfast)["a"]["action"] == "unknown"
    os.rename(kept, directory.spec_path)
    stop(holdfast, "a")


def test_D6_a_live_run_without_its_spec_is_ended_by_token_and_removed(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    before, directory = known("a"), run_of("a").directory
    _lose_spec(directory)
    refused = holdfast("rm", "--force", "a", expect=4)
    assert before.workload["token"] in refused.stderr
    holdfast("signal", "TERM", before.workload["token"], expect=0)
    assert ProcessIdentity.from_json(before.shim).wait(30)
    shim_is_dead(before.id)
    holdfast("rm", "a", expect=4)
    holdfast("rm", "--force", "a", expect=0)
    missing = holdfast("status", "a", expect=3)
    assert "did you mean" not in missing.stderr
    assert Home.locate().names() == []


def test_D6_an_ended_run_without_its_spec_is_kept_and_its_name_is_free(holdfast):
    holdfast("run", "-n", "a", "true", expect=0)
    before = settled("a")
    _lose_spec(run_of("a").directory)
    _is_listed_as_unknown(holdfast, before.id, "a")
    holdfast("clean", "--keep", "0")
    assert before.id in Home.locate().run_ids()
    assert "unknown" in holdfast("run", "-n", "a", "true", expect=0).stderr
    assert settled("a").id != before.id
    holdfast("rm", before.id, expect=4)
    holdfast("rm", "--force", before.id, expect=0)
    assert Home.locate().run_ids() == [known("a").id]


def test_D6_a_directory_that_never_began_is_no_run(holdfast):
    crash = {"HOLDFAST_CRASH_AT": "launcher.directory-made@launcher"}
    holdfast("run", "-n", "a", "true", env=crash)
    (empty,) = Home.locate().run_ids()
    assert not RunDirectory(Home.locate(), empty).exists()
    assert holdfast("ls", "--all", "--json", expect=0).json["runs"] == []
    holdfast("status", empty, expect=3)
    holdfast("rm", "--force", empty, expect=3)
    holdfast("run", "-n", "a", "true", expect=0)
    settled("a")
