"""I1, I2: the recorded PID belongs to somebody else now. Real PID reuse, no fakes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support import identity_scenes
from tests.support.kernel_lab import ROOT, run_in
from tests.support.places import USERS, namespace_of

each_user = pytest.mark.parametrize("user", USERS)


@each_user
def test_I1_stranger_with_the_recorded_pid_is_told_apart_and_never_signalled(user: str) -> None:
    facts = run_in(namespace_of(user), identity_scenes.recycled)
    assert facts["before"] == "SAME"
    assert facts["same_pid"]
    assert facts["verdict"] == facts["parsed"] == "RECYCLED"
    assert set(facts["fates"]) == {"recycled"}
    assert facts["stranger_untouched"]


@each_user
def test_I1_ours_counts_as_gone(user: str) -> None:
    facts = run_in(namespace_of(user), identity_scenes.recycled)
    assert facts["waited"] is True
    assert facts["hold"] == "process-gone"
    assert "is gone" in facts["evidence"]


@each_user
def test_I2_stranger_born_in_the_same_tick_is_told_apart_by_its_inode(user: str) -> None:
    facts = run_in(namespace_of(user), identity_scenes.recycled_in_the_same_tick)
    assert facts["same_pid"]
    assert facts["same_tick"]
    assert facts["verdict"] == "RECYCLED"
    assert facts["proof"] == "pidfd inode"
    assert set(facts["fates"]) == {"recycled"}
    assert facts["stranger_untouched"]


@each_user
def test_I2_recycled_between_proof_and_signal_hits_nobody(user: str) -> None:
    scene = identity_scenes.recycled_between_proof_and_signal
    facts = run_in(namespace_of(user), scene, rounds=100)
    assert facts["hits"] == 0
    assert facts["fates"] == ["gone"]
    assert facts["collisions"] > 0


def test_I1_ticks_alone_tell_a_stranger_of_another_tick() -> None:
    scene = identity_scenes.recycled_with_ticks_only
    facts = run_in(namespace_of("root"), scene, same_tick=False)
    assert facts["verdict"] == "RECYCLED"
    assert facts["proof"] == "start ticks"
    assert facts["fate"] == "recycled"
    assert facts["stranger_untouched"]


def test_I2_ticks_alone_are_fooled_and_the_proof_says_that_it_is_weaker() -> None:
    """Why the inode comes first: without it a stranger of the same tick passes."""
    scene = identity_scenes.recycled_with_ticks_only
    facts = run_in(namespace_of("root"), scene, same_tick=True)
    assert facts["verdict"] == "SAME"
    assert facts["proof"] == "start ticks"
    assert "weaker" in facts["evidence"]


def test_I1_number_that_is_now_a_mere_thread_is_recycled() -> None:
    facts = run_in(namespace_of("root"), identity_scenes.recycled_as_a_thread)
    assert facts["same_number"]
    assert facts["verdict"] == "RECYCLED"
    assert facts["fates"] == ["recycled", "recycled"]


@each_user
def test_I1_zombie_has_ended_though_its_pid_is_taken(user: str) -> None:
    facts = run_in(namespace_of(user), identity_scenes.zombie)
    assert facts["verdict"] == "GONE"
    assert facts["ticks_only"] == "GONE"
    assert facts["fates"] == ["gone"]
    assert facts["capture"] == "process-gone"
    assert facts["reaped"]["verdict"] == "GONE"
    assert facts["reaped"]["fates"] == ["gone"]


@each_user
def test_I1_process_whose_first_thread_has_ended_is_alive(user: str) -> None:
    facts = run_in(namespace_of(user), identity_scenes.leader_has_exited)
    assert facts["shown_as"] == "Z"
    assert facts["verdict"] == "SAME"
    assert facts["ticks_only"]["verdict"] == "SAME"
    assert facts["fate"] == "delivered"
    assert facts["ended_by"] == 15


@pytest.mark.timeout(400)  # thousands of forks: minutes on a machine with other work
@each_user
def test_I2_bench_of_forced_reuse_never_hits_a_stranger(user: str) -> None:
    """The same attack on os.kill hits every time: the bench has teeth."""
    namespace_of(user)
    command = [sys.executable, "-m", "bench.recycle", "--quick", "--json"]
    if user != "root":
        command.append("--ordinary-user")
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    between, race = json.loads(ran.stdout).values()
    assert between["os.kill"]["wrong"] == between["os.kill"]["rounds"] > 0
    assert between["psutil"]["wrong"] > 0
    for rows in (between, race):
        assert rows["holdfast"]["wrong"] == rows["holdfast, held"]["wrong"] == 0
    # A busy machine rarely recycles within a tick: of all rounds together, some were.
    assert sum(row["same_tick"] for rows in (between, race) for row in rows.values()) > 0
