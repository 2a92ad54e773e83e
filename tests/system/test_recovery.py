"""`recover` in places that can't see everything, and what it says."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess

from holdfast.manage import recovery
from holdfast.manage.recovery import Action
from holdfast.manage.runs import Runs
from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Verdict
from holdfast.run.facts import State
from tests.support import recovery_scenes
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in
from tests.support.recovering import (
    kill,
    known,
    nobody_rescues,
    orphan,
    orphans,
    recovered,
    wait_gone,
)
from tests.support.running import events_of, run_of, stop
from tests.support.waiting import eventually


def test_other_namespaces_and_the_users_word():
    needs("root", "pid_namespace")
    facts = run_in(Place(), recovery_scenes.other_namespaces, timeout=100)
    assert facts["live, unseen"]["action"] == "unknown"
    assert "namespace" in facts["live, unseen"]["evidence"]
    assert facts["from above"]["action"] == "adopted", "proven alive by its inode"
    assert facts["gone, no word"]["action"] == "unknown"
    # I9: the name is not blocked by what can't be told, and that is said.
    assert facts["start"]["code"] == 0
    assert "unknown" in facts["start"]["stderr"]
    assert facts["gone, word"]["action"] == "lost"
    assert "the user says" in facts["gone, word"]["evidence"]
    assert facts["again"] == {}


def test_the_text_of_recover(holdfast, tmp_path):
    lives, dead = orphans(holdfast, "train", "etl", words=["sleep", "600"])
    kill(dead.workload)
    wait_gone(dead.workload)
    would = holdfast("recover", "--dry-run", expect=0).stdout
    assert "nothing was changed" in would
    with nobody_rescues(tmp_path / "fifo"):
        done = holdfast("recover", expect=0).stdout
    lines = {line.split()[0]: line for line in done.splitlines()}
    assert lines["train"].split()[1] == "adopted"
    assert f"workload {lives.workload['pid']} SAME (pidfd inode)" in lines["train"]
    assert f"new shim {known('train').shim['pid']}" in lines["train"]
    assert lines["etl"].split()[1] == "lost"
    assert done.splitlines()[-1] in (
        "1 adopted, 1 lost; 0 signals sent",
        "1 lost, 1 adopted; 0 signals sent",
    )
    assert holdfast("recover", "-q", expect=0).stdout == ""
    assert "nothing to recover" in holdfast("recover", expect=0).stderr
    stop(holdfast, "train")


def test_the_library_recovers(holdfast):
    orphan(holdfast, "a", "sleep", "600")
    (would,) = Runs().recover(dry_run=True)
    assert would.action is Action.ADOPTED
    assert known("a").state is State.ORPHANED
    (one,) = Runs().recover()
    assert (one.name, one.action) == ("a", Action.ADOPTED)
    assert one.shim == events_of("a", "supervised")[-1]["shim"]
    assert Runs().recover() == []
    stop(holdfast, "a")


def test_no_home_is_nothing_to_recover(holdfast, tmp_path):
    elsewhere = {"HOLDFAST_HOME": str(tmp_path / "nothing")}
    assert holdfast("recover", "--json", env=elsewhere, expect=0).json["runs"] == []
    assert not (tmp_path / "nothing").exists(), "a look makes nothing"


def test_a_run_that_lost_its_marker_is_found(holdfast):
    orphan(holdfast, "a", "sleep", "600")
    run_of("a").directory.drop_marker()
    assert recovered(holdfast)["a"]["action"] == "adopted"
    stop(holdfast, "a")


def test_a_restored_home_on_the_same_machine_after_a_move(holdfast, tmp_path):
    """A home that was renamed while its shim was dead is recovered where it is now."""
    before = orphan(holdfast, "a", "sleep", "600")
    moved = tmp_path.parent / f"{tmp_path.name}-moved"
    os.rename(tmp_path, moved)
    tmp_path.mkdir()
    elsewhere = {"HOLDFAST_HOME": str(moved)}
    told = holdfast("recover", "--json", env=elsewhere, expect=0).json["runs"]
    assert [one["action"] for one in told] == ["adopted"]
    holdfast("stop", "--grace", "0", "a", env=elsewhere, expect=0)
    assert before.workload["pid"]


def test_suspects_of_a_lost_run_are_told_and_left_alone(holdfast):
    before = orphan(holdfast, "a", "sleep", "600")
    kill(before.workload)
    wait_gone(before.workload)
    env = {**os.environ, "HOLDFAST_RUN_ID": before.id}
    with subprocess.Popen(["sleep", "600"], env=env) as stranger:
        try:
            told = recovered(holdfast)["a"]
            assert told["action"] == "lost"
            assert [one["pid"] for one in told["suspects"]] == [stranger.pid]
            text = holdfast("recover", expect=0).stdout
            assert f"suspect {stranger.pid} sleep: carries this run's stamp" in text
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_what_can_not_be_cleared_away_keeps_no_other_run_from_being_recovered(
    holdfast, monkeypatch
):
    before = orphan(holdfast, "a", "sleep", "600")
    home = run_of("a").directory.home
    empty = "00" + before.id[2:]  # of a launcher that died before it wrote what was asked
    os.mkdir(f"{home.runs_path}/{empty}", 0o700)

    def refuse(_directory):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(recovery, "_remove_empty", refuse)
    told = {one.id: one for one in Runs(home.path).recover()}
    assert told[before.id].action is Action.ADOPTED
    assert told[empty].action is Action.UNKNOWN
    assert "Permission denied: kept, untouched" in told[empty].evidence
    stop(holdfast, "a")


def test_runs_inside_runs_are_no_suspects_of_each_other(holdfast):
    holdfast("run", "-n", "outer", *holdfast.argv("run", "-n", "inner", "sleep", "600"), expect=0)
    holdfast("wait", "outer", expect=0)
    told = recovered(holdfast)
    assert "outer" not in told or told["outer"]["suspects"] == []
    stop(holdfast, "inner")


def test_many_orphans_are_adopted_side_by_side(holdfast):
    names = [f"run-{number}" for number in range(12)]
    orphans(holdfast, *names, words=["sleep", "600"])
    told = recovered(holdfast)
    # An adopter that has come up rescues its neighbour, which `recover` has not got to.
    assert {one["action"] for one in told.values()} == {"adopted"}
    assert told.keys() <= set(names)
    eventually(
        lambda: {known(name).state for name in names} == {State.RUNNING}, why="all are adopted"
    )
    stop(holdfast, *names)


def test_a_restart_is_decided_by_the_runs_own_code(holdfast):
    """A child of the shell passes for the workload and exits 0: the run's code is the shell's."""
    script = "sleep 0.5; echo try; exit 3"
    holdfast("run", "-n", "a", "--restart", "on-failure:1", "sh", "-c", script, expect=0)
    holdfast("wait", "a", expect=3)
    assert known("a").attempt == 2


def test_a_command_that_cannot_be_started_again_did_start_once(holdfast, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nrm $0\nexit 3\n")
    program.chmod(0o755)
    holdfast("run", "-n", "a", "--restart", "on-failure:1", program, expect=0)
    holdfast("wait", "a", expect=127)
    final = known("a")
    assert (final.outcome, final.exit_code, final.attempt) == ("failed", 127, 2)


def test_a_shim_whose_directory_was_removed_by_force_ends_with_its_workload(holdfast, tmp_path):
    """`rm -rf` of the whole home: nothing can be recorded any more, and nothing lingers."""
    gate = tmp_path.parent / f"{tmp_path.name}-gate"
    os.mkfifo(gate)
    holdfast("run", "-n", "a", "sh", "-c", f"read line <'{gate}'", expect=0)
    shim = ProcessIdentity.from_json(known("a").shim)
    eventually(lambda: _removed(tmp_path), why="the shim writes nothing in between")
    assert shim.verdict() is Verdict.SAME
    gate.write_text("\n")
    assert shim.wait(30), "the shim ends by itself"


def _removed(home):
    """Whether nothing is left below it: the shim may write while it is removed."""
    for name in os.listdir(home):
        shutil.rmtree(home / name, ignore_errors=True)
    return not os.listdir(home)
