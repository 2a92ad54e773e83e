"""S1, S2: stopping a tree means that it is empty, whatever its members do about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import tree_scenes
from tests.support.cgroups import pids_cgroup
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in
from tests.support.places import namespace_of

ACTORS = {
    "obedient": 1,
    "stubborn": 1,
    "setsid": 2,
    "double_fork": 2,
    "stubborn_daemon": 2,
    "orphaned_daemon": 1,
    "respawner": 1,
    "guarding_pair": 1,
    "child_of_a_thread": 1,
    "first_thread_ended": 2,
    "stopped": 2,
    "vfork_parent": 1,
    "container": 2,
    "deep": 41,
    "wide": 401,
}
"""Each actor, and how many members it says are in place."""


def assert_gone(facts: dict[str, Any]) -> None:
    assert facts["left"] == {}, "looked up in /proc, without the code under test"
    assert facts["complete"] is True
    assert facts["survivors"] == []
    assert facts["refused"] == 0
    assert not [sent for sent in facts["sent"] if not sent.endswith(("delivered", "gone"))]


@pytest.mark.parametrize("actor", ACTORS)
def test_S2_all_gone(actor: str) -> None:
    place = namespace_of("root")
    for facts in run_in(place, tree_scenes.stop, actor=actor, members=ACTORS[actor], rounds=2):
        assert_gone(facts)


@pytest.mark.parametrize("actor", ["setsid", "stubborn_daemon", "respawner", "container"])
def test_S2_all_gone_for_an_ordinary_user(actor: str) -> None:
    place = namespace_of("ordinary user")
    for facts in run_in(place, tree_scenes.stop, actor=actor, members=ACTORS[actor], rounds=2):
        assert_gone(facts)


@pytest.mark.parametrize("actor", ["respawner", "guarding_pair", "stubborn_daemon", "deep"])
def test_S2_all_gone_while_the_supervisor_reaps(actor: str) -> None:
    scene, members = tree_scenes.stop, ACTORS[actor]
    for facts in run_in(Place(), scene, actor=actor, members=members, rounds=2, reaps=True):
        assert_gone(facts)


def test_S2_comet_that_forks_and_ends_at_once_is_never_taken_for_empty() -> None:
    """A walk that meets only the dead proves nothing: each may have left a child."""
    place = namespace_of("root")
    for facts in run_in(place, tree_scenes.stop, actor="comet", members=1, rounds=5, reaps=True):
        assert_gone(facts)


def _stop_bombs(rounds: int, limit: int, reaps: bool) -> list[dict[str, Any]]:
    needs("root", "pid_namespace", "pids_cgroup")
    with pids_cgroup(limit) as group:
        facts: list[dict[str, Any]] = run_in(
            Place(),
            tree_scenes.stop,
            actor="bomb",
            members=1,
            cgroup=str(group.path),
            fill=limit,
            rounds=rounds,
            reaps=reaps,
            timeout=110,
        )
    return facts


def test_S2_fork_bomb_is_gone_5_of_5() -> None:
    for facts in _stop_bombs(rounds=5, limit=100, reaps=True):
        assert_gone(facts)
        assert facts["signalled"] >= 50


@pytest.mark.faults
@pytest.mark.parametrize("reaps", [True, False])
def test_S2_fork_bomb_is_gone_20_of_20(reaps: bool) -> None:
    for facts in _stop_bombs(rounds=20, limit=300, reaps=reaps):
        assert_gone(facts)


@pytest.mark.faults
@pytest.mark.parametrize("actor", [*ACTORS, "comet"])
def test_S2_all_gone_20_of_20(actor: str) -> None:
    place, scene, members = namespace_of("root"), tree_scenes.stop, ACTORS.get(actor, 1)
    arguments = {"actor": actor, "members": members, "rounds": 20, "reaps": True}
    for facts in run_in(place, scene, timeout=110, **arguments):
        assert_gone(facts)


def test_S1_only_who_ignores_the_polite_signal_is_killed() -> None:
    place = namespace_of("root")
    (obedient,) = run_in(place, tree_scenes.stop, actor="obedient", members=1, grace_seconds=20)
    assert obedient["sent"] == ["SIGTERM delivered"]
    assert obedient["seconds"] < 15, "it ended long before the grace"
    (stubborn,) = run_in(place, tree_scenes.stop, actor="stubborn", members=1, grace_seconds=0.5)
    assert "SIGKILL delivered" in stubborn["sent"]
    assert stubborn["seconds"] >= 0.5, "the grace was given"


def test_S2_without_a_reaper_an_empty_tree_is_never_called_complete() -> None:
    """A daemon of the tree went to somebody else's PID 1: nothing leads to it any more."""
    scene = tree_scenes.stop
    place = namespace_of("root")
    (facts,) = run_in(place, scene, actor="orphaned_daemon", members=1, is_reaper=False)
    assert facts["left"], "the daemon was out of sight"
    assert facts["complete"] is None
    (facts,) = run_in(place, scene, actor="setsid", members=2, is_reaper=False)
    assert facts["left"] == {}, "ancestry led to all"
    assert facts["complete"] is None


@pytest.mark.parametrize("spare", [1, 2, 3, 4, 6])
def test_S2_supervisor_without_descriptors_does_not_claim_what_it_could_not_see(
    spare: int,
) -> None:
    facts = run_in(namespace_of("root"), tree_scenes.stop_without_descriptors, spare=spare)
    assert facts["complete"] is (None if facts["left"] else True)


def test_S2_walk_finds_all_below_and_nobody_else() -> None:
    facts = run_in(namespace_of("root"), tree_scenes.walk_a_tree)
    assert facts["count"] == 43
    assert facts["pids_right"]
    assert facts["parents_right"]
    assert facts["all_same"]
    assert facts["bystander_untouched"]


def test_S2_run_whose_root_ends_beside_a_comet_leaves_nobody(tmp_path: Path) -> None:
    needs("root", "pid_namespace")
    scene = tree_scenes.run_that_leaves_a_comet
    for facts in run_in(Place(), scene, home=str(tmp_path), rounds=3, timeout=100):
        assert facts["left"] == {}
        assert (facts["code"], facts["outcome"]) == (0, "succeeded")
        assert facts["cleanup"]["complete"] is True
