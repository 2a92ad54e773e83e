"""Q4, Q5, Q7, Q9, Q10, Q12: waiting work on damaged disks, with few descriptors, after a reboot."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import resource
import signal
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from holdfast.run.facts import State
from holdfast.run.outcomes import Outcome
from tests.support.cgroups import pids_cgroup
from tests.support.features import needs
from tests.support.kernel_lab import BOOT_ID, Place, run_in
from tests.support.neighbours import wait_until_watched
from tests.support.queues import blocker, most_at_once, names_in, queue_of, recording
from tests.support.recovering import OTHER_BOOT, gated, kill, kill_shim, known, recovered
from tests.support.running import (
    events_of,
    limit_descriptors,
    run_of,
    shim_pid,
    wait_for_events,
)
from tests.support.waiting import eventually
from tests.system.queue_scenes import full_disk, read_only_queue, recover_here


def timers_of(pid: int) -> list[tuple[int, int, float]]:
    """(clock, flags, seconds that are left) of each timer descriptor that is set."""
    found = []
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            text = info.read_text()
            if "clockid" in text:
                numbers = [
                    int(number, 8 if name == "settime flags" else 10)
                    for name, number in re.findall(r"(clockid|settime flags): (\d+)", text)
                ]
                left = re.search(r"it_value: \((\d+), (\d+)\)", text)
                assert left is not None
                seconds = int(left[1]) + int(left[2]) / 1e9
                if seconds:
                    found.append((numbers[0], numbers[1], seconds))
    return found


REALTIME, BOOTTIME = 0, 7
ABSOLUTE = 1


def test_Q7_at_is_an_absolute_instant_of_the_wall_clock_also_across_an_adoption(holdfast, runs):
    moment = datetime.now().astimezone() + timedelta(hours=2)
    run = runs.start(["true"], at=moment, name="a")
    for _ in range(2):
        timers = [one for one in timers_of(shim_pid("a")) if one[0] == REALTIME]
        # The kernel moves such a timer when somebody sets the clock, forward or back.
        assert [flags for _, flags, _ in timers] == [ABSOLUTE]
        assert 7000 < timers[0][2] <= 7200
        kill_shim("a")
        assert recovered(holdfast)["a"]["action"] == "waiting again"
    run.stop()


def test_Q7_in_counts_on_a_clock_that_nobody_sets(runs):
    run = runs.start(["true"], delay="2h", name="a")
    pid = shim_pid("a")

    def is_set() -> bool:
        timers = timers_of(pid)
        return {clock for clock, _, _ in timers} == {BOOTTIME} and timers[0][2] > 6900

    eventually(is_set, why="its loop waits, and for nothing before")
    run.stop()


def test_Q5_a_chain_of_50_ends_at_once_when_its_first_run_fails(runs, tmp_path):
    gate = tmp_path / "gate"
    before = runs.start(gated(gate, "exit 4"), name="c00")
    chain = []
    for number in range(1, 50):
        before = runs.start(["true"], name=f"c{number:02}", after=[before], sample_interval=0)
        chain.append(before)
    gate.touch()
    infos = [run.wait(100) for run in chain]
    assert {info.outcome for info in infos} == {Outcome.NEVER_STARTED}
    assert infos[0].evidence.startswith("after c00: failed, exit 4")
    for ahead, info in itertools.pairwise(infos):
        assert info.evidence.startswith(f"after {ahead.name}: never_started")


# Q4


def test_Q4_a_run_of_which_nobody_can_tell_whether_it_lives_does_not_hold_its_slot(
    holdfast, runs, tmp_path
):
    held, gate = blocker(runs, tmp_path)
    kill_shim("blocker")
    path = Path(held.directory.path) / "events.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"\0" * 64 + whole)
    then = runs.start(["true"], queue="main", name="then")
    assert then.wait(60).outcome is Outcome.SUCCEEDED
    assert [one["id"] for one in runs.queues()[0].unknown] == [held.id]
    assert "unknown  blocker: it holds no slot" in holdfast("queue", expect=0).stdout
    path.write_bytes(whole)
    gate.touch()
    holdfast("recover", expect=0)


# Q9


def _link(path: Path) -> None:
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("spoil", [Path.mkdir, _link], ids=["directory", "link"])
def test_Q9_a_baton_that_is_none_admits_nothing_and_harms_nothing_that_runs(
    holdfast, runs, tmp_path, spoil
):
    held, gate = blocker(runs, tmp_path)
    baton = Path(queue_of(tmp_path).baton_path)
    baton.unlink()
    spoil(baton)
    then = runs.start(["true"], queue="main", name="then")
    gate.touch()
    assert held.wait(60).outcome is Outcome.SUCCEEDED
    assert then.info().state is State.QUEUED
    assert [event["where"] for event in events_of("then", "fault")] == ["queue"]
    assert "locks are plain files" in holdfast("queue", "set", "main", "--limit", "2").stderr
    baton.rmdir() if baton.is_dir() else baton.unlink()
    holdfast("queue", "set", "main", "--limit", "2", expect=0)
    assert then.wait(60).outcome is Outcome.SUCCEEDED


def test_Q9_an_overwritten_baton_is_still_a_lock(runs, tmp_path):
    _, gate = blocker(runs, tmp_path)
    Path(queue_of(tmp_path).baton_path).write_bytes(os.urandom(64))
    then = runs.start(["true"], queue="main", name="then")
    assert runs.queues()[0].baton_held_by is None
    gate.touch()
    assert then.wait(60).outcome is Outcome.SUCCEEDED


def test_Q9_a_waiter_without_descriptors_waits_and_starts_when_it_has_some(
    holdfast, runs, tmp_path
):
    held, gate = blocker(runs, tmp_path)
    # What `then` watches as its neighbour: the end of the other would give it a descriptor back.
    runs.start(["sleep", "600"], name="between")
    then = runs.start(["true"], queue="main", name="then")
    wait_until_watched("between", "then", "blocker")
    pid = shim_pid("then")
    used = len(os.listdir(f"/proc/{pid}/fd"))
    limit_descriptors("then", used + 1)  # for who tells it
    gate.touch()
    assert held.wait(60).outcome is Outcome.SUCCEEDED
    wait_for_events("then", "fault", why="it says that it could not look")
    assert then.info().state is State.QUEUED
    assert then.info().attempt is None
    limit_descriptors("then", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    holdfast("queue", "set", "main", "--limit", "1", expect=0)
    assert then.wait(60).outcome is Outcome.SUCCEEDED


def test_Q9_a_queue_on_a_read_only_disk_admits_nothing_and_goes_on_later(tmp_path):
    needs("root", "pid_namespace")
    place = Place(covers={"/etc/hostname": "x\n"})
    seen = run_in(place, read_only_queue, home=str(tmp_path))
    assert seen["while_read_only"] == ["ended", "queued"]
    assert seen["set_code"] != 0
    assert "Read-only" in seen["set_said"]
    assert seen["afterwards"] == ["succeeded", "succeeded"]


def test_Q9_a_full_disk_admits_nothing_by_mistake_and_goes_on_when_there_is_room(tmp_path):
    needs("root", "pid_namespace")
    place = Place(covers={"/etc/hostname": "x\n"})
    seen = run_in(place, full_disk, home=str(tmp_path), timeout=110)
    assert seen["most_at_once"] == 1
    assert seen["told"] == ["blocker", "then"]
    assert seen["outcomes"] == ["succeeded", "succeeded"]


# Q10


@pytest.mark.parametrize("point", ["shim.pause-begun", None])
def test_Q10_a_queued_run_whose_shim_dies_while_it_is_paused_stays_held_and_out_of_the_line(
    holdfast, runs, tmp_path, monkeypatch, point
):
    _, gate = blocker(runs, tmp_path)
    if point is not None:
        monkeypatch.setenv("HOLDFAST_CRASH_AT", f"{point}@shim")
    held = runs.start(["true"], queue="main", name="held")
    monkeypatch.delenv("HOLDFAST_CRASH_AT", raising=False)
    last = runs.start(["true"], queue="main", name="last")
    holdfast("pause", "held")
    if point is None:
        kill_shim("held")
    wait_for_events("held", "queued", 2, "its neighbour has it set waiting again")
    eventually(lambda: known("held").queue["waits_for"]["kind"] == "paused")
    eventually(lambda: [i for _, i in queue_of(tmp_path).waiting()] == [last.id])
    gate.touch()
    assert last.wait(60).outcome is Outcome.SUCCEEDED
    assert held.info().state is State.QUEUED
    held.unpause()
    assert held.wait(60).outcome is Outcome.SUCCEEDED


# Q12


def test_Q12_after_a_reboot_each_waits_again_once_however_many_recover(runs, tmp_path):
    needs("root")
    _, gate = blocker(runs, tmp_path)
    told = tmp_path / "told"
    names = [f"w{number}" for number in range(3)]
    for name in names:
        runs.start(recording(told, name), queue="main", name=name)
    late = runs.start(recording(told, "late"), delay=0.5, after_any=["blocker"], name="late")
    shims = [known(name).shim for name in (*names, "late", "blocker")]
    workload = known("blocker").workload.pid
    for shim in shims:
        os.kill(shim["pid"], signal.SIGSTOP)  # nobody rescues another
    for shim in shims:
        kill(shim)
    os.kill(workload, signal.SIGKILL)
    place = Place(pid_namespace=False, covers={BOOT_ID: OTHER_BOOT})
    seen = run_in(place, recover_here, home=str(tmp_path), names=[*names, "late"], at_once=3)
    assert seen == dict.fromkeys((*names, "late"), "succeeded")
    # The order is left to chance: who is not set waiting again yet does not hold up the others.
    assert sorted(names_in(told)) == ["late", *names]
    for name in (*names, "late"):
        assert len(events_of(name, "queued")) == 2
        assert len(events_of(name, "attempt_started")) == 1
    assert late.info().outcome is Outcome.SUCCEEDED
    assert not gate.exists()
    assert most_at_once(told) <= 2  # late is in no queue


def test_Q12_each_run_has_its_own_submitter_s_environment_and_control_group(
    holdfast, runs, tmp_path
):
    needs("root", "pids_cgroup")
    _, gate = blocker(runs, tmp_path)
    with pids_cgroup(500) as group:
        script = "echo $OWN; grep pids /proc/self/cgroup || cat /proc/self/cgroup"
        for name, preparing in (("a", group.add_self), ("b", None)):
            words = holdfast.argv("run", "-n", name, "-Q", "main", "sh", "-c", script)
            env = {**os.environ, "OWN": f"of {name}"}
            subprocess.run(words, env=env, preexec_fn=preparing, check=True, capture_output=True)
        gate.touch()
        said = {name: (run_of(name).wait(60), run_of(name).output().decode()) for name in "ab"}
        for name, (info, output) in said.items():
            assert info.outcome is Outcome.SUCCEEDED
            assert output.startswith(f"of {name}\n")
        assert group.path.name in said["a"][1]
        assert group.path.name not in said["b"][1]


def test_Q4_a_dead_waiter_of_another_context_is_left_to_recover(holdfast, runs, tmp_path):
    _, gate = blocker(runs, tmp_path)
    words = holdfast.argv("run", "-n", "other", "-Q", "main", "true")
    subprocess.run(["sh", "-c", 'umask 077; exec "$@"', "sh", *words], check=True)
    kill_shim("other")
    other = runs.start(["true"], queue="main", name="new")  # which looks at the ring
    gate.touch()
    assert other.wait(60).outcome is Outcome.SUCCEEDED
    assert len(events_of("other", "queued")) == 1
    assert known("other").queue["waits_for"]["kind"] == "shim"
    assert recovered(holdfast)["other"]["action"] == "waiting again"
    assert run_of("other").wait(60).outcome is Outcome.SUCCEEDED
