"""D3: the machine was rebooted: every process of the run is gone, and all that is known is kept."""

from __future__ import annotations

from holdfast.run.facts import State
from tests.support import recovery_scenes
from tests.support.features import needs
from tests.support.kernel_lab import BOOT_ID, MACHINE_ID, Place, run_in
from tests.support.recovering import (
    OTHER_BOOT,
    kill,
    kill_shim,
    known,
    shim_is_dead,
    wait_gone,
)
from tests.support.running import output_of, stop, wait_for_output

AFTER_REBOOT = Place(pid_namespace=False, covers={BOOT_ID: OTHER_BOOT})
OTHER_HOST = Place(pid_namespace=False, covers={MACHINE_ID: "f" * 32 + "\n"})


def _orphan(holdfast):
    holdfast("run", "-n", "a", "--tag", "k=v", "sh", "-c", "echo hello; exec sleep 600", expect=0)
    wait_for_output("a", b"hello")
    before = known("a")
    kill_shim("a")
    return before


def test_D3_lost_to_a_reboot(holdfast, tmp_path):
    needs("root")
    before = _orphan(holdfast)
    home = str(tmp_path)
    looked = run_in(AFTER_REBOOT, recovery_scenes.stands, home=home, name="a")
    assert (looked["state"], looked["outcome"]) == ("ended", "lost")
    told = run_in(AFTER_REBOOT, recovery_scenes.recover_in, home=home, words=[])["a"]
    assert told["action"] == "lost"
    assert "reboot" in told["evidence"]
    assert told["signals"] == 0

    final = known("a")
    assert (final.state, final.outcome, final.exit_code) == (State.ENDED, "lost", None)
    assert "lost to a reboot: last seen alive at" in final.evidence
    assert (final.tags, final.command, final.started_at) == (
        before.tags,
        before.command,
        before.started_at,
    )
    assert output_of("a") == b"hello\n"
    # It only looked like a reboot: no process was signalled on the strength of it.
    assert final.workload["verdict"] == "SAME"
    kill(before.workload)


def test_D3_a_restart_that_was_due_is_not_done_after_a_reboot(holdfast, tmp_path):
    needs("root")
    crash = {"HOLDFAST_CRASH_AT": "shim.restart-scheduled@shim"}
    holdfast("run", "-n", "a", "--restart", "on-failure", "sh", "-c", "exit 3", env=crash)
    shim_is_dead("a")
    before = known("a")
    assert before.state is State.STARTING, before.evidence
    assert "restart was due" in before.evidence
    told = run_in(AFTER_REBOOT, recovery_scenes.recover_in, home=str(tmp_path), words=[])["a"]
    assert (told["action"], told["exit_code"]) == ("recorded", 3)
    assert known("a").attempt == 1


def test_D3_without_a_reboot_the_restart_is_done(holdfast):
    crash = {"HOLDFAST_CRASH_AT": "shim.restart-scheduled@shim"}
    words = ("--restart", "on-failure:1", "sh", "-c", "echo try; exit 3")
    holdfast("run", "-n", "a", *words, env=crash)
    shim_is_dead("a")
    holdfast("wait", "a", expect=3)
    final = known("a")
    assert final.attempt == 2
    assert output_of("a") == b"try\ntry\n"


def test_D3_a_restart_that_was_due_is_not_done_when_it_is_to_be_stopped(holdfast):
    crash = {"HOLDFAST_CRASH_AT": "shim.restart-scheduled@shim"}
    holdfast("run", "-n", "a", "--restart", "on-failure", "sh", "-c", "exit 3", env=crash)
    shim_is_dead("a")
    holdfast("stop", "a", expect=0)
    final = known("a")
    assert (final.state, final.attempt) == (State.ENDED, 1)


def test_another_host_is_unknown_and_left_alone(holdfast, tmp_path):
    needs("root")
    before = _orphan(holdfast)
    home = str(tmp_path)
    looked = run_in(OTHER_HOST, recovery_scenes.stands, home=home, name="a")
    assert looked["state"] == "unknown"
    assert "another host" in looked["evidence"]
    told = run_in(OTHER_HOST, recovery_scenes.recover_in, home=home, words=[])["a"]
    assert told["action"] == "unknown"
    for words, code in ((["stop", "a"], 4), (["rm", "a"], 4), (["run", "-n", "a", "true"], 0)):
        done = run_in(OTHER_HOST, recovery_scenes.command_in, home=home, words=words)
        assert done["code"] == code, done
    assert known(before.id).state is State.ORPHANED
    stop(holdfast, before.id)


def test_an_ended_run_of_another_host_is_history_that_needs_force_to_go(holdfast, tmp_path):
    needs("root")
    holdfast("run", "-n", "a", "sh", "-c", "exit 3", expect=0)
    holdfast("wait", "a", expect=3)
    home = str(tmp_path)
    looked = run_in(OTHER_HOST, recovery_scenes.stands, home=home, name="a")
    assert (looked["state"], looked["outcome"]) == ("ended", "failed")
    refused = run_in(OTHER_HOST, recovery_scenes.command_in, home=home, words=["rm", "a"])
    assert refused["code"] == 4
    assert "another host" in refused["stdout"]
    forced = ["rm", "--force", "a"]
    assert run_in(OTHER_HOST, recovery_scenes.command_in, home=home, words=forced)["code"] == 0


def test_both_dead_before_the_reboot_is_lost_to_it_as_well(holdfast, tmp_path):
    needs("root")
    before = _orphan(holdfast)
    kill(before.workload)
    wait_gone(before.workload)
    told = run_in(AFTER_REBOOT, recovery_scenes.recover_in, home=str(tmp_path), words=[])["a"]
    assert told["action"] == "lost"
