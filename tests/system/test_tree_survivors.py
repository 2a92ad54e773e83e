"""S4: what can't be ended is named with where it hangs, and the stop is not called complete."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import tree_scenes
from tests.support.cgroups import freezer_cgroup, mount_point
from tests.support.features import needs
from tests.support.kernel_lab import OTHER_UID, Place, run_in
from tests.support.places import namespace_of


def assert_named(facts: dict[str, Any], state: str) -> dict[str, Any]:
    assert facts["complete"] is False
    (survivor,) = facts["survivors"]
    assert survivor["pid"] == facts["root"]
    assert survivor["token"].startswith(f"hf1.{facts['root']}.")
    assert survivor["comm"]
    assert survivor["state"] == state
    return survivor


def test_S4_process_held_at_its_exit_by_a_tracer() -> None:
    facts = run_in(namespace_of("root"), tree_scenes.stop_held_at_exit)
    survivor = assert_named(facts, "traced")
    assert survivor["wait_channel"] in ("ptrace_stop", None)
    assert facts["living"][str(facts["root"])].endswith(" t")
    assert facts["went_when_let_go"]


def test_S4_frozen_process() -> None:
    needs("root", "pid_namespace")
    if mount_point("freezer") is None:
        pytest.skip("no v1 freezer: what a v2 freezer holds dies of SIGKILL all the same")
    with freezer_cgroup() as group:
        facts = run_in(Place(), tree_scenes.stop_frozen, cgroup=str(group.path))
    survivor = assert_named(facts, "disk sleep")
    assert survivor["wait_channel"] in ("__refrigerator", None)
    assert facts["went_when_let_go"]


def test_S4_survivor_does_not_keep_the_others_alive() -> None:
    facts = run_in(namespace_of("root"), tree_scenes.stop_beside_a_survivor)
    assert_named(facts, "traced")
    assert facts["signalled"] == 2
    assert facts["went_when_let_go"]


def test_S4_member_that_may_not_be_signalled_is_refused_and_named() -> None:
    needs("root", "pid_namespace")
    facts = run_in(Place(), tree_scenes.stop_as_another_user, uid=OTHER_UID)
    assert_named(facts, "sleeping")
    assert facts["refused"] == 1
    assert facts["signalled"] == 0
    assert list(facts["left"]) == [str(facts["root"])]
    assert all(sent.endswith("denied") for sent in facts["sent"])
