"""D4: recovering twice equals recovering once; of two at the same time one acts."""

from __future__ import annotations

import json
from typing import Any

from holdfast.run.facts import State
from tests.support.recovering import (
    held_at,
    kill,
    kill_shim,
    known,
    nobody_rescues,
    orphan,
    orphans,
    recovered,
    wait_gone,
)
from tests.support.running import events_of, run_of, start_all, stop, wait_for

AT_ONCE = 8


def _record(name):
    with open(run_of(name).directory.events_path, "rb") as file:
        return file.read()


def test_D4_the_second_recovery_finds_nothing_to_do(holdfast, tmp_path):
    before, dead = orphans(holdfast, "lives", "dead", words=["sleep", "600"])
    kill(dead.workload)
    wait_gone(dead.workload)
    with nobody_rescues(tmp_path / "fifo"):
        first = recovered(holdfast)
    assert {name: one["action"] for name, one in first.items()} == {
        "lives": "adopted",
        "dead": "lost",
    }
    record = _record("dead")
    assert recovered(holdfast) == {}
    assert _record("dead") == record
    assert len(events_of("lives", "supervised")) == 2
    assert known("lives").workload["token"] == before.workload["token"]
    stop(holdfast, "lives")


def test_D4_of_many_recoveries_at_once_one_adopts(holdfast):
    orphan(holdfast, "a", "sleep", "600")
    done: Any = start_all(holdfast, [["recover", "--json"] for _ in range(AT_ONCE)])
    told = [row for one in done for row in json.loads(one.said)["runs"]]
    assert len(events_of("a", "supervised")) == 2, "exactly one became its shim"
    # Who comes while the one has the lock, and has not recorded itself yet, leaves it to that one.
    adopted = [row for row in told if row["action"] != "not taken over"]
    assert [row["action"] for row in adopted] == ["adopted"], "said by the one that did it"
    assert adopted[0]["shim"]["token"] == known("a").shim["token"]
    assert known("a").state is State.RUNNING
    stop(holdfast, "a")


def test_D4_of_many_recoveries_at_once_one_records(holdfast):
    before = orphan(holdfast, "a", "sleep", "600")
    kill(before.workload)
    wait_gone(before.workload)
    start_all(holdfast, [["recover"] for _ in range(AT_ONCE)])
    assert len(events_of("a", "ended")) == 1
    assert len(events_of("a", "supervised")) == 2
    assert known("a").outcome == "lost"


def test_D4_a_recovery_does_not_take_a_run_from_an_adopter_that_is_slow(holdfast, tmp_path):
    orphan(holdfast, "a", "sleep", "600")
    with held_at(holdfast, tmp_path / "fifo", "adopter.locked@adopter", "recover"):
        assert recovered(holdfast) == {}
        assert "being taken over" in known("a").evidence
        assert len(events_of("a", "supervised")) == 1
    assert len(events_of("a", "supervised")) == 2
    stop(holdfast, "a")


def test_D4_a_recovery_leaves_a_start_alone(holdfast, tmp_path):
    with held_at(holdfast, tmp_path / "fifo", "launcher.name-written", "run", "-n", "a", "true"):
        told = recovered(holdfast)["a"]
        assert told["action"] == "starting"
        assert events_of("a") == []
    holdfast("wait", "a", expect=0)
    assert known("a").outcome == "succeeded"


def test_D4_recover_takes_over_in_the_middle_of_an_adoption_that_died(holdfast):
    orphan(holdfast, "a", "sleep", "600")
    for point in ("adopter.started", "adopter.locked", "adopter.recorded"):
        done = holdfast("recover", "--json", env={"HOLDFAST_CRASH_AT": point})
        assert done.json["runs"][0]["action"] in ("not taken over", "adopted")
        # It may have said that it adopted the run, and die in the next moment.
        wait_for("a", lambda info: info.state is State.ORPHANED, why="the adopter is dead")
    assert recovered(holdfast)["a"]["action"] == "adopted"
    kill_shim("a")
    recovered(holdfast)
    stop(holdfast, "a")
