"""L5: the disk is full. No ending is lost that can be written later; nothing is told before."""

from __future__ import annotations

import pytest

from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in
from tests.system import full_disk_scenes

OWN_MOUNTS = Place(pid_namespace=False, covers={"/etc/hostname": "x\n"})


@pytest.fixture
def play(tmp_path):
    needs("root")
    small = tmp_path / "small"
    small.mkdir()

    def play(scene):
        return run_in(OWN_MOUNTS, scene, timeout=100, path=str(small))

    return play


def test_L5_the_reserve_takes_the_ending(play):
    facts = play(full_disk_scenes.ends_when_full)
    assert (facts["outcome"], facts["exit_code"], facts["waited"]) == ("failed", 42, 42)
    assert facts["kinds"][-2:] == ["root_exited", "ended"]
    assert facts["damage"] is None
    assert facts["active"] == []
    assert set(facts["told"].values()) <= {"cleared"}


def test_L5_nothing_is_told_that_was_not_recorded(play):
    facts = play(full_disk_scenes.ends_without_a_reserve)
    if not facts["was_recorded"]:
        assert facts["before"][0] != "ended", "the shim holds the ending, and the lock"
    assert facts["after"] == ["failed", 42]
    assert facts["damage"] is None


def test_L5_a_stop_empties_the_tree_though_its_history_cannot_be_written(play):
    facts = play(full_disk_scenes.stops_when_full)
    assert (facts["code"], facts["outcome"]) == (0, "stopped")
    assert facts["workload"] == "GONE"


def test_L5_what_a_read_only_disk_did_not_take_is_not_claimed(play):
    facts = play(full_disk_scenes.stops_when_read_only)
    assert "1 signalled, which signals.jsonl does not have; tree empty" in facts["said"]
    code, said = facts["recovered"]
    assert code == 1
    assert "its marker in active/ can't be removed" in said
    code, said = facts["refused"]
    assert code == 6
    assert "hint: mount it for writing" in said
    assert (facts["again"], facts["active"]) == ("cleared", [])


def test_L5_an_orphan_is_adopted_on_a_full_disk(play):
    facts = play(full_disk_scenes.adopts_when_full)
    assert facts["action"] == "adopted"
    assert (facts["outcome"], facts["exit_code"]) == ("failed", 42)
    assert facts["damage"] is None


def test_L5_a_loss_is_recorded_on_a_full_disk(play):
    facts = play(full_disk_scenes.records_a_loss_when_full)
    assert facts["outcome"] == "lost"
    assert set(facts["first"] + facts["again"]) <= {"lost", "cleared"}
    assert facts["active"] == []


def test_L5_a_start_without_room_is_refused_and_leaves_nothing(play):
    facts = play(full_disk_scenes.starts_when_full)
    assert facts["code"] == 6, facts["stderr"]
    assert facts["left"] == 0
    assert facts["later"] == 0
    assert facts["active"] == []


def test_L5_output_that_could_be_written_is_kept(play):
    facts = play(full_disk_scenes.output_when_full)
    assert facts == {"output": "begin\n", "exit_code": 3}


def test_L5_a_run_is_removed_from_a_full_disk_and_what_it_used_is_kept(play):
    seen = play(full_disk_scenes.removes_when_full)
    assert (seen["refused"], seen["stays"]) == (6, "succeeded")
    assert "can't be kept" in seen["said"]
    # What has output makes room for its own line, and for the next one's.
    assert (seen["removed"], seen["again"], seen["runs"]) == (0, 0, 2)
