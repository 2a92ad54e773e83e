"""Q8: runs of queues that wait until there is memory for them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import Refused, WrongUse
from holdfast.process.memory import memory_bounds, own_groups
from holdfast.run.facts import State
from holdfast.run.outcomes import Outcome
from tests.support.cgroups import CGroup, memory_cgroup
from tests.support.features import needs
from tests.support.recovering import gated, held_at, known
from tests.support.running import (
    events_of,
    info_of,
    run_of,
    start_all,
    wait_for,
    wait_for_events,
    wait_for_output,
)
from tests.support.waiting import eventually

M = 1 << 20
# Touches so many MiB, says so, and keeps them until a file is there, or for some time.
HOG = """
import os, sys, time
kept = b"x" * (int(sys.argv[1]) << 20)
print("ready", flush=True)
while not os.path.exists(sys.argv[2]) and sys.argv[2].startswith("/"):
    time.sleep(0.02)
if not sys.argv[2].startswith("/"):
    time.sleep(float(sys.argv[2]))
"""


def hog(mib: int, until: Path | float) -> list[str]:
    return [sys.executable, "-S", "-c", HOG, str(mib), str(until)]


def most_of_it() -> int:
    """A need of which two never fit, however much is in use: one alone is admitted anyway."""
    return int(memory_bounds(own_groups()).most_bytes * 0.6)


def need_of(name: str) -> dict:
    return known(name).queue["needs_memory"]


def waits_for_memory(name: str) -> str | None:
    reason = known(name).queue["waits_for"] or {}
    return reason["detail"] if reason.get("kind") == "memory" else None


def inside(group: CGroup, holdfast, *words: object) -> subprocess.CompletedProcess[str]:
    """A command of ours in a control group: its runs are in it, too."""
    enter = f"echo $$ >{group.path}/cgroup.procs; exec "
    command = ["sh", "-c", enter + shlex.join(holdfast.argv(*words))]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done


# Whether it fits


def test_Q8_a_run_waits_until_there_is_memory_for_it_and_holds_up_those_behind_it(
    holdfast, runs, tmp_path
):
    holdfast("queue", "set", "main", "--limit", "5", expect=0)
    gate = tmp_path / "gate"
    runs.start(gated(gate, "exit 0"), queue="main", needs_memory=most_of_it(), name="a")
    runs.start(["true"], queue="main", needs_memory=most_of_it(), name="b")
    runs.start(["true"], queue="main", name="c")
    told = waits_for_memory("b")
    assert told is not None
    assert told.startswith("needs ")
    assert told.endswith(" free after the floor")
    assert str(waits_for_memory("c")).startswith("behind b, which needs ")
    for shown in (holdfast("ls", expect=0).stdout, holdfast("status", "b", expect=0).stdout):
        assert f"in main: 1st; {told.split(',')[0]}" in shown
    (queue,) = holdfast("queue", "--json", expect=0).json["queues"]
    assert [one["waits_for"]["kind"] for one in queue["waiting"]] == ["memory", "memory"]
    assert f"b: {told.split(',')[0]}" in holdfast("queue", expect=0).stdout
    assert {known(name).state for name in "bc"} == {State.QUEUED}
    gate.touch()
    for name in "abc":
        assert run_of(name).wait(60).outcome is Outcome.SUCCEEDED
    began = [events_of(name, "admitted")[0]["at"] for name in "abc"]
    assert began == sorted(began)


def test_Q8_two_queues_at_once_see_each_others_admission(holdfast, runs, tmp_path):
    need, fifo = str(most_of_it()), tmp_path / "fifo"
    command = ["run", "-n", "a", "-Q", "one", "--needs-memory", need, "sleep", "1000"]
    with held_at(holdfast, fifo, "shim.memory-locked@shim", *command):
        runs.start(["sleep", "1000"], queue="two", needs_memory=need, name="b")
        assert known("b").state is State.QUEUED  # nothing is active, but another looks
        assert str(waits_for_memory("b")).endswith(" looks at the memory")
    wait_for("a", lambda info: info.state is State.RUNNING)
    eventually(lambda: str(waits_for_memory("b")).startswith("needs "), why="it has seen a")
    assert known("b").state is State.QUEUED
    run_of("a").stop(grace=0)
    wait_for("b", lambda info: info.state is State.RUNNING, why="nothing of any queue is active")
    run_of("b").stop(grace=0)


@pytest.mark.usefixtures("runs")
def test_Q8_many_queues_at_once_never_admit_what_does_not_fit(holdfast, tmp_path):
    need, told = str(most_of_it()), tmp_path / "told"
    work = f"echo + >>{told}; sleep 0.05; echo - >>{told}"
    names = [f"r{number}" for number in range(5)]
    commands = [
        ["run", "-n", name, "-Q", f"q-{name}", "--needs-memory", need, "sh", "-c", work]
        for name in names
    ]
    for process in start_all(holdfast, commands):
        assert process.returncode == 0, process.complained  # type: ignore[attr-defined]
    for name in names:
        assert run_of(name).wait(100).outcome is Outcome.SUCCEEDED
    assert told.read_text().split() == ["+", "-"] * len(names)


@pytest.mark.usefixtures("runs")
def test_Q8_what_a_run_uses_of_its_need_is_counted_once(holdfast, tmp_path):
    needs("root", "memory_cgroup")
    holdfast("queue", "set", "main", "--limit", "5", expect=0)
    gate = tmp_path / "gate"
    with memory_cgroup(1 << 30) as group:
        asked = ("-Q", "main", "--needs-memory")
        inside(group, holdfast, "run", "-n", "a", *asked, "300M", *hog(300, gate))
        wait_for_output("a", b"ready")
        # 1024 - 300 in use - 256 of the floor: there is no room for what a has announced, too.
        inside(group, holdfast, "run", "-n", "b", *asked, "300M", *hog(300, gate))
        wait_for_output("b", b"ready")
        # What the group has left decides, not what the machine has.
        inside(group, holdfast, "run", "-n", "c", *asked, "300M", *hog(300, gate))
        detail = eventually(lambda: waits_for_memory("c"))
        assert detail.startswith("needs 300M, ")
        gate.touch()
        for name in "abc":
            assert run_of(name).wait(60).outcome is Outcome.SUCCEEDED


@pytest.mark.usefixtures("runs")
def test_Q8_ten_runs_of_300_mb_in_1_gb_all_succeed_and_without_admission_some_are_lost(
    holdfast, tmp_path
):
    needs("root", "memory_cgroup")
    holdfast("queue", "set", "main", "--limit", "10", expect=0)
    gate = tmp_path / "gate"

    def start(group: CGroup, name: str, need: str, until: Path | float) -> list[str]:
        lines = tmp_path / f"{name}.jsonl"
        lines.write_text(f"{json.dumps({'command': hog(290, until)})}\n" * 10)
        words = ("-n", name, "-Q", "main", "--needs-memory", need, "--batch", lines)
        return inside(group, holdfast, "run", *words).stdout.split()

    with memory_cgroup(1 << 30) as group:
        names = start(group, "with", "300M", 0.2)
        infos = [run_of(name).wait(100) for name in names]
        assert [info.outcome for info in infos] == [Outcome.SUCCEEDED] * 10
        assert all((info.usage or {})["peak_rss_bytes"] > 290 * M for info in infos)

        names = start(group, "without", "off", gate)  # the same, and nobody asks for memory
        lost = eventually(
            lambda: [one for one in names if info_of(one).outcome is Outcome.OUT_OF_MEMORY],
            why="the kernel has killed one of them",
        )
        gate.touch()
        ends = [run_of(name).wait(100).outcome for name in names]
        assert len(names) == 10
        assert ends.count(Outcome.SUCCEEDED) <= 10 - len(lost)


# What it needs


def test_Q8_what_is_learned_from_earlier_runs_is_used_and_told(holdfast, runs):
    first = holdfast("run", "-n", "train", "-Q", "main", "--needs-memory", "auto", *hog(40, 0.0))
    assert "it does not wait for memory: no run named train was measured before" in first.stderr
    assert need_of("train")["bytes"] is None
    for _ in range(2):
        run_of("train").wait(60)
        run_of("train").rerun()
    run_of("train").wait(60)
    peaks = sorted(info.usage["peak_rss_bytes"] for info in runs.list(name="train"))
    assert peaks[0] > 40 * M

    holdfast("queue", "set", "main", "--needs-memory", "auto", "--limit", "3", expect=0)
    assert "memory auto" in holdfast("queue", expect=0).stdout
    told = holdfast("run", "-n", "train", "-Q", "main", *hog(40, 0.0), expect=0).stderr
    assert ": learned from 3 runs named train" in told
    need = need_of("train")
    assert (need["asked"], need["by"]) == ("auto", "queue")
    assert need["bytes"] == peaks[1]
    assert "learned from 3 runs named train" in holdfast("status", "train", expect=0).stdout
    run_of("train").wait(60)
    unasked = runs.start(["true"], queue="main", needs_memory="off").wait(60)
    assert unasked.queue["needs_memory"] is None


def test_Q8_a_name_without_history_learns_from_its_agent(runs):
    runs.start(hog(40, 0.0), agent="claude", name="a").wait(60)
    run = runs.start(["true"], agent="claude", name="b", queue="main", needs_memory="auto")
    need = run.wait(60).queue["needs_memory"]
    assert need["from"] == "learned from 1 run of claude"
    assert need["bytes"] > 40 * M


def test_Q8_one_leak_does_not_decide_and_what_is_learned_can_be_given(holdfast, runs):
    needs("root", "memory_cgroup")
    runs.start(hog(350, 0.0), name="a").wait(60)  # a leak
    for _ in range(2):
        runs.start(hog(20, 0.0), name="a").wait(60)
    run = runs.start(["true"], name="a", queue="main", needs_memory="auto")
    assert run.wait(60).queue["needs_memory"]["bytes"] < 100 * M

    runs.start(hog(350, 0.0), name="b").wait(60)  # all that is known of it
    with memory_cgroup(512 * M) as group:
        inside(group, holdfast, "run", "-n", "b", "-Q", "main", "--needs-memory", "auto", "true")
        assert run_of("b").wait(60).outcome is Outcome.SUCCEEDED
    need = need_of("b")
    assert need["bytes"] == 256 * M
    assert need["from"].endswith(": more than can ever be free")


def test_Q8_an_explicit_need_that_can_never_fit_is_refused_and_leaves_nothing(holdfast, runs):
    total = memory_bounds(own_groups()).tightest.total_bytes
    words = ("-n", "a", "-Q", "main", "--needs-memory", total, "true")
    refused = holdfast("run", *words, expect=4)
    assert "can ever be free here" in refused.stderr
    assert runs.list() == []
    assert runs.start(["true"], name="a").wait(60).outcome is Outcome.SUCCEEDED
    holdfast("queue", "set", "main", "--needs-memory", total, expect=0)
    with pytest.raises(Refused, match="queue main is set to"):
        runs.start(["true"], queue="main")


def test_a_need_without_a_queue_is_refused_unless_it_is_a_default(holdfast, runs, config):
    refused = holdfast("run", "--needs-memory", "1G", "true", expect=2)
    assert "only a run of a queue waits for memory" in refused.stderr
    with pytest.raises(WrongUse, match="needs_memory"):
        runs.start(["true"], needs_memory="auto")
    config('[defaults]\nneeds_memory = "auto"\n')
    holdfast("run", "-n", "a", "true", expect=0)
    assert known("a").queue is None
    assert "no run named b" in holdfast("run", "-n", "b", "-Q", "main", "true", expect=0).stderr


@pytest.mark.parametrize("bad", ["much", "-1G", "0", 0, True, 1.5, "", [1]])
def test_a_need_that_is_none_is_refused(runs, bad):
    with pytest.raises(WrongUse):
        runs.start(["true"], queue="main", needs_memory=bad)


def test_rerun_keeps_the_need_that_was_asked_for(runs):
    run = runs.start(["true"], queue="main", needs_memory="5M", name="a")
    run.wait(60)
    assert run.rerun().wait(60).queue["needs_memory"]["bytes"] == 5 * M


# When it can't be known


BLIND = """
set -e
"$1" -m holdfast run -n a -Q main --needs-memory "$2" sleep 1000
"$1" -m holdfast run -n b -Q main --needs-memory "$2" sleep 1000
mount --bind /dev/null /proc/meminfo
"$1" -m holdfast stop --grace 0 a
until grep -q '"fault"' "$3"/runs/*/events.jsonl; do sleep 0.05; done
"$1" -m holdfast ls --json
umount /proc/meminfo
"$1" -m holdfast queue set main --limit 4
until "$1" -m holdfast ls --json --state running | grep -q '"name": "b"'; do sleep 0.05; done
"$1" -m holdfast stop --grace 0 b
"""


@pytest.mark.usefixtures("runs")
def test_Q8_a_look_that_fails_admits_nothing_and_is_said(holdfast, tmp_path):
    needs("root", "pid_namespace")
    holdfast("queue", "set", "main", "--limit", "3", expect=0)
    words = [sys.executable, str(most_of_it()), str(tmp_path)]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", BLIND, "sh", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    listed = next(json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{")
    b = next(run for run in listed["runs"] if run["name"] == "b")
    assert (b["state"], b["queue"]["waits_for"]["kind"]) == ("queued", "memory")
    assert b["queue"]["waits_for"]["detail"].startswith("the memory can't be looked at: ")
    (fault,) = wait_for_events("b", "fault")
    assert fault["where"] == "queue"
