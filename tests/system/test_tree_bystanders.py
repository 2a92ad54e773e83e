"""S3: nearness, names and stamps make nobody a member."""

from __future__ import annotations

import subprocess

import pytest

from holdfast.process.identity import ProcessIdentity
from holdfast.process.tree import Tree
from holdfast.process.tree_stop import TreeStop
from tests.support import tree_scenes
from tests.support.kernel_lab import run_in
from tests.support.places import USERS, namespace_of


@pytest.mark.parametrize("user", USERS)
def test_S3_bystanders_are_not_signalled(user: str) -> None:
    facts = run_in(namespace_of(user), tree_scenes.stop_beside_bystanders, run_id="01hzs3")
    assert facts["bystander"] == {"session": facts["session"], "group": facts["group"]}
    assert facts["untouched"] == {
        "same session, group and name": True,
        "same name, own session": True,
        "stamp": True,
    }
    assert facts["left"] == {}
    assert facts["complete"] is True
    assert facts["signalled"] == 2


def test_S3_process_with_the_stamp_alone_is_a_suspect_and_no_target() -> None:
    scene = tree_scenes.stop_beside_bystanders
    facts = run_in(namespace_of("root"), scene, run_id="01hzs3")
    assert facts["suspects"] == [facts["stamped"]]
    assert facts["known"] == [], "a member that is known is no suspect"
    assert facts["untouched"]["stamp"]


def test_S3_recorded_member_whose_pid_was_recycled_is_no_member() -> None:
    facts = run_in(namespace_of("root"), tree_scenes.walk_after_recycling)
    assert facts == {"added": False, "members": [], "untouched": True}


def test_S3_spared_member_and_all_below_it_live_on() -> None:
    facts = run_in(namespace_of("root"), tree_scenes.stop_sparing)
    assert facts["complete"] is True
    assert facts["signalled"] == 2
    assert facts["spared"] == ["SAME", "SAME"]
    assert facts["then"]["signalled"] == 2
    assert facts["left"] == {}


def test_S3_member_that_turns_out_to_be_spared_lives_on() -> None:
    """The shim of an inner run may be met before its run says whose it is."""
    with subprocess.Popen(["sleep", "600"]) as process:
        known: set[ProcessIdentity] = set()
        identity = ProcessIdentity.of(process.pid)
        with Tree([identity], spare=known.__contains__) as tree:
            assert [member.identity for member in tree.walk()] == [identity]
            known.add(identity)
            stop = TreeStop(tree, (), grace_seconds=0)
            while stop.result is None:
                stop.step()
            assert stop.result.signalled == 0
            assert tree.is_empty()
        assert process.poll() is None
        process.kill()
