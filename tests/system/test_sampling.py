"""Samples and anomalies of real processes: C5, C6, and what may never end a sampler."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from holdfast.process.identity import ProcessIdentity
from holdfast.process.sampling.sampler import Sampler
from holdfast.process.tree import Tree
from holdfast.run.anomalies.progress_rules import Spin
from holdfast.run.anomalies.rule import Threshold
from tests.support.features import needs
from tests.support.kernel_lab import OTHER_UID, Place, run_in
from tests.support.waiting import eventually
from tests.support.watched import PYTHON, Watched, faulty
from tests.system import sampling_scenes
from tests.system.sampling_scenes import direct, member

PAUSE = [PYTHON, "-S", "-c", "import signal; print('ready', flush=True); signal.pause()"]


# C5: each fault fires its own anomaly, once, and no other.

FAULTS = {
    "memory_hog": "memory_growth",
    "fd_leak": "fd_exhaustion",
    "zombie_maker": "zombie_pile_up",
    "disk_sleep": "disk_sleep",
    "spinner": "cpu_spin",
    "thread_bomb": "thread_explosion",
    "deleted_cwd": "deleted_cwd",
}


@pytest.mark.parametrize(("program", "rule"), FAULTS.items())
def test_C5_a_fault_fires_its_own_anomaly_once(program, rule, monkeypatch):
    # Ten seconds of spinning are too long for a test; the rest of the rule is as it is.
    monkeypatch.setattr(Spin, "seconds", Threshold(2.0, "in a test"))
    with Watched(faulty(program)).ready() as watched:
        watched.until(lambda: watched.anomalies, f"{rule} fires")
        watched.for_samples(5)
        assert [anomaly.rule for anomaly in watched.anomalies] == [rule]
        anomaly = watched.anomalies[0]
        assert anomaly.token == watched.root.token
        assert anomaly.evidence


def test_C5_a_quiet_program_fires_nothing():
    with Watched(faulty("quiet")).ready() as watched:
        watched.for_samples(15)
        assert watched.anomalies == []


def test_C5_disk_sleep_says_where_it_hangs():
    with Watched(faulty("disk_sleep")).ready() as watched:
        watched.until(lambda: watched.anomalies, "it hangs")
        [stuck] = watched.rows[-1]["stuck"]
        assert watched.rows[-1]["state"] == "disk sleep"
        assert stuck["token"] == watched.root.token
        with open(f"/proc/{watched.root.pid}/wchan") as file:
            assert (stuck["wait_channel"] or "0") == (file.read() or "0")


# C6.


def test_C6_times_increase_when_both_clocks_step_back():
    with Watched(PAUSE).ready() as watched:
        members = watched.tree.walk()
        resolution = watched.finder.look(members)
        clocks = [(100.0, 2e9), (101.0, 2e9 - 3600), (90.0, 1e9), (90.0, 1e9), (102.0, 1e9)]
        samples = [
            watched.sampler.sample(members, resolution, now=now, wall=wall) for now, wall in clocks
        ]
        for texts in ([s.at for s in samples], [s.to_json()["boottime"] for s in samples]):
            assert texts == sorted(set(texts))


def test_C6_an_adopter_goes_on_after_the_last_row_of_the_shim_before():
    with Watched(PAUSE).ready() as watched:
        members = watched.tree.walk()
        later = "2999-01-01T00:00:00.000000Z"
        sample = Sampler(last_at=later).sample(members, watched.finder.look(members))
        assert sample.at > later


# What is measured.


def test_the_figures_are_those_of_the_process():
    with Watched(faulty("hog60")).ready() as watched:
        watched.for_samples(3)
        row = watched.rows[-1]
        assert row["token"] == watched.root.token
        assert 60e6 < row["rss_bytes"] < 200e6
        assert row["threads"] == 1
        assert row["fds"] == len(os.listdir(f"/proc/{watched.root.pid}/fd"))
        assert row["swap_bytes"] >= 0
        assert row["cpu_percent"] >= 0
        assert row["oom_score"] == int(Path(f"/proc/{watched.root.pid}/oom_score").read_text())
        assert "cpu_percent" not in watched.rows[0]  # there is no interval yet
        first = watched.rows[0]  # the first has the rarely asked figures as well
        assert first["fd_limit"] > 0
        assert first["blocked"] == "0"
        assert 30e6 < first["tree"]["pss_bytes"] <= first["rss_bytes"] * 1.1
        assert watched.peaks.usage()["peak_rss_bytes"] > 60e6


def test_a_row_is_about_350_bytes():
    with Watched(PAUSE).ready() as watched:
        watched.for_samples(4)
        sizes = [len(json.dumps(row, separators=(",", ":"))) for row in watched.rows[1:]]
        assert max(sizes) < 460  # a day of them stays below 8 MB even before it is thinned


def test_cpu_comes_from_deltas_and_counts_ended_children():
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    code = f"""if 1:
        import subprocess, sys, signal
        print("ready", flush=True)
        for _ in range(3):
            subprocess.run([sys.executable, "-S", "-c", {burn!r}])
        print("done", flush=True)
        signal.pause()"""
    with Watched([PYTHON, "-S", "-c", code], interval=0.05).ready() as watched:
        watched.until(
            lambda: (watched.rows[-1]["tree"].get("cpu_seconds") or 0) >= 0.9, "all is counted"
        )
        watched.for_samples(3)
        seconds = [r["tree"]["cpu_seconds"] for r in watched.rows if "cpu_seconds" in r["tree"]]
        assert seconds == sorted(seconds)
        assert seconds[-1] < 1.6  # nothing is counted twice
        percents = [r["tree"].get("cpu_percent") or r.get("cpu_percent") or 0 for r in watched.rows]
        assert max(percents) <= 100 * (os.cpu_count() or 1)


def _burning_child(then: str) -> list[str]:
    """A program whose child uses half a second of CPU and stays until it gets SIGUSR1."""
    child = """if 1:
        import signal, time
        while time.process_time() < 0.5:
            pass
        signal.sigwait([signal.SIGUSR1])"""
    code = f"""if 1:
        import signal, subprocess, sys
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])  # in both of them
        child = subprocess.Popen([sys.executable, "-S", "-c", {child!r}])
        print("ready", flush=True)
        {then}"""
    return [PYTHON, "-S", "-c", code]


def _cpu_seconds(watched: Watched) -> float:
    return watched.rows[-1]["tree"].get("cpu_seconds") or 0.0 if watched.rows else 0.0


def _end_the_child(watched: Watched) -> float:
    """Once it has been seen at work; what had been counted by then."""
    watched.until(lambda: _cpu_seconds(watched) >= 0.45, "it has worked")  # ticks are cut
    [child] = [m.identity for m in watched.tree.walk() if m.identity != watched.root]
    os.kill(child.pid, signal.SIGUSR1)
    return _cpu_seconds(watched)


def test_cpu_of_a_child_that_is_waited_for_late_is_counted_once():
    wait = "signal.sigwait([signal.SIGUSR1]); child.wait(); print('waited', flush=True)"
    with Watched(_burning_child(f"{wait}; signal.pause()")).ready() as watched:
        before = _end_the_child(watched)
        watched.until(lambda: len(watched.tree.walk()) == 1, "it has ended")
        watched.for_samples(3)
        assert before <= _cpu_seconds(watched) < before + 0.3
        os.kill(watched.root.pid, signal.SIGUSR1)
        assert b"waited" in watched.process.output.readline()
        watched.for_samples(3)
        assert before <= _cpu_seconds(watched) < before + 0.3


def test_cpu_of_a_child_that_ends_together_with_its_parent_is_counted_once():
    with Watched(_burning_child("child.wait()")).ready() as watched:
        before = _end_the_child(watched)
        os.waitid(os.P_PID, watched.root.pid, os.WEXITED | os.WNOWAIT)
        watched.step()
        assert before <= _cpu_seconds(watched) < before + 0.3


def test_process_directed_signals_are_seen_as_pending():
    code = (
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]);"
        "print('ready', flush=True); signal.pause()"
    )
    with Watched([PYTHON, "-S", "-c", code]).ready() as watched:
        os.kill(watched.root.pid, signal.SIGUSR1)  # process-directed: in ShdPnd, not in SigPnd
        mask = f"{1 << (signal.SIGUSR1 - 1):x}"
        watched.until(lambda: watched.step().get("pending") == mask, "it is pending")
        assert watched.rows[-1]["blocked"] == mask


def test_sockets_are_those_of_the_process_not_of_the_machine():
    code = """if 1:
        import signal, socket, sys
        peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        print("ready", flush=True)
        signal.pause()"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        with Watched([PYTHON, "-S", "-c", code, port]).ready() as watched, Watched(PAUSE) as other:
            assert watched.step()["tree"]["sockets"] == 1
            assert other.ready().step()["tree"]["sockets"] == 0


def test_memory_of_forks_that_share_is_not_counted_many_times():
    code = """if 1:
        import os, signal
        kept = bytearray(b"x") * 50_000_000
        for _ in range(4):
            if os.fork() == 0:
                signal.pause()
        print("ready", flush=True)
        signal.pause()"""
    with Watched([PYTHON, "-S", "-c", code]).ready() as watched:
        eventually(lambda: len(watched.tree.walk()) == 5, why="all forked")
        members = watched.tree.walk()
        sum_of_rss = watched.sampler.memory_bytes(members, limit_bytes=1 << 40)
        assert sum_of_rss is not None
        assert sum_of_rss > 200e6
        within = watched.sampler.memory_bytes(members, limit_bytes=150_000_000)
        assert within is not None
        assert within <= 150_000_000


def test_activity_grows_with_work_and_not_with_sleep():
    with Watched(faulty("spinner")).ready() as busy, Watched(PAUSE).ready() as idle:
        before = busy.sampler.activity(busy.tree.walk())
        still = idle.sampler.activity(idle.tree.walk())
        eventually(
            lambda: busy.sampler.activity(busy.tree.walk()).cpu_seconds > before.cpu_seconds + 0.2,
            why="it works",
        )
        now = idle.sampler.activity(idle.tree.walk())
        assert now.cpu_seconds - still.cpu_seconds < 0.1
        assert now.io_bytes == still.io_bytes


def test_what_a_short_program_used_is_seen_before_its_reap():
    code = "import time\nwhile time.process_time() < 0.4: pass"
    with Watched([PYTHON, "-S", "-c", code]) as watched:
        watched.until(lambda: watched.resolution.workload is not None, "it runs")
        os.waitid(os.P_PID, watched.root.pid, os.WEXITED | os.WNOWAIT)
        last = watched.step()
        assert "token" not in last
        assert last["tree"]["processes"] == 0
        assert 0.3 <= watched.peaks.usage()["cpu_seconds"] < 2


def test_forks_of_a_shell_and_filters_are_not_counted_with_the_workload():
    text = shlex.join(faulty("hog60"))
    with Watched(["sh", "-c", f"({text}; true) | cat"]) as watched:
        watched.until(lambda: watched.resolution.workload is not None, "it runs")
        watched.for_samples(2)
        assert len(watched.tree.walk()) > 2
        assert watched.rows[-1]["tree"]["processes"] == 1


# What may never end a sampler.


def test_a_zombie_and_a_vanished_process_are_no_fault():
    ended = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    living = subprocess.Popen(PAUSE, stdout=subprocess.PIPE)
    members = [member(living.pid), member(ended.pid)]
    assert ended.stdin is not None
    ended.stdin.close()
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    sampler = Sampler()
    try:
        resolution = direct(members[0])
        while_zombie = sampler.sample(members, resolution, full=True)
        ended.wait()
        not_looked_at = sampler.sample(members, resolution, full=True)
        assert not_looked_at.tree.processes == 1
        for one in members:
            one.look()
        after_reap = sampler.sample(members, resolution)
        assert while_zombie.workload is not None
        assert after_reap.workload is not None
        assert after_reap.tree.processes == 1
    finally:
        living.kill()
        living.communicate()


def test_a_workload_that_vanishes_between_samples_leaves_an_empty_row():
    living = subprocess.Popen(PAUSE, stdout=subprocess.PIPE)
    members = [member(living.pid)]
    sampler = Sampler()
    try:
        resolution = direct(members[0])
        assert sampler.sample(members, resolution).workload is not None
        living.kill()
        living.communicate()
        row = sampler.sample(members, resolution, full=True).to_json()
        assert "token" not in row
        assert "rss_bytes" not in row["tree"] or row["tree"]["rss_bytes"] == 0
    finally:
        living.kill()


def test_no_descriptor_is_left_open():
    before = set(os.listdir("/proc/self/fd"))
    with Watched(faulty("zombie_maker")).ready() as watched:
        watched.for_samples(3)
    assert set(os.listdir("/proc/self/fd")) <= before


def test_the_number_of_kept_descriptors_is_bounded():
    children = [subprocess.Popen(["sleep", "600"]) for _ in range(20)]
    before = len(os.listdir("/proc/self/fd"))
    roots = [ProcessIdentity.of(child.pid) for child in children]
    sampler = Sampler()
    try:
        with Tree(roots, most_descriptors=40) as tree:
            for _ in range(3):
                members = tree.walk()
                sample = sampler.sample(members, direct(members[0]), full=True)
                assert sample.tree.processes == 20  # also those whose files are not kept
                assert sample.tree.threads == 20
                kept = len(os.listdir("/proc/self/fd")) - before - len(roots)
                assert kept == 20
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_a_recycled_pid_is_never_sampled_for_the_old_one():
    needs("pid_namespace")
    assert run_in(Place(), sampling_scenes.sample_a_recycled_pid) == [True] * 7


def test_another_users_process_has_unknown_figures_not_zeros():
    needs("root")
    with Watched(PAUSE).ready() as watched:
        row = run_in(
            Place(pid_namespace=False, uid=OTHER_UID),
            sampling_scenes.sample_as_another_user,
            pid=watched.root.pid,
        )
        assert row["rss_bytes"] > 0
        for name in ("read_bytes", "write_bytes", "sockets"):
            assert name not in row
        for name in ("chars", "pss_bytes"):
            assert name not in row["tree"]


def test_the_walk_and_the_sample_agree_on_a_tree():
    code = "import os, signal; os.fork(); os.fork(); print('ready', flush=True); signal.pause()"
    with Watched([PYTHON, "-S", "-c", code]).ready() as watched:
        watched.until(lambda: watched.rows[-1]["tree"]["processes"] == 4, "all four are there")
        assert watched.rows[-1]["tree"]["rss_bytes"] > 3 * watched.rows[-1]["rss_bytes"] / 2


def test_a_sample_is_not_older_than_what_the_workload_was_found_by():
    code = """if 1:
        import os, signal
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        print("ready", flush=True)
        signal.sigwait([signal.SIGUSR1])
        os.execvp("sleep", ["sleep", "600"])"""
    with Watched([PYTHON, "-S", "-c", code]).ready() as watched:
        members = watched.tree.walk()
        os.kill(watched.root.pid, signal.SIGUSR1)
        name = Path(f"/proc/{watched.root.pid}/comm")
        eventually(lambda: name.read_text() == "sleep\n", why="it has execed since the walk")
        resolution = watched.finder.look(members)
        assert resolution.workload is not None
        assert resolution.workload.comm == "sleep"
        assert watched.sampler.sample(members, resolution).to_json()["comm"] == "sleep"


# A process that shows what it showed before is not measured again.

_OPENS_WHEN_TOLD = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print('ready', flush=True)
signal.sigwait([signal.SIGUSR1])
os.open('/dev/null', os.O_RDONLY)
signal.sigwait([signal.SIGUSR1])
"""


def test_an_idle_process_is_told_by_its_files_and_a_change_is_seen():
    with Watched([PYTHON, "-S", "-c", _OPENS_WHEN_TOLD]).ready() as watched:
        tree, sampler, now = watched.tree, Sampler(), 1000.0
        resolution = watched.finder.look(tree.walk())
        assert not sampler.is_idle(now)  # there is no last sample
        assert not tree.shows_the_same()  # nor anything to compare with

        def idle() -> bool:
            nonlocal now
            now += 1
            if sampler.is_idle(now) and tree.shows_the_same():
                return True
            sampler.sample(tree.walk(), resolution, now=now)
            return False

        eventually(idle, why="it sleeps, and shows the same again")
        now += 1
        assert sampler.is_idle(now)
        assert tree.shows_the_same()
        then, at = sampler.go_on(now)
        assert then == now
        before = sampler.sample(tree.walk(), resolution, now=now + 0.5, full=True)
        assert before.at > at
        assert before.workload is not None
        fds = before.workload.fds or 0
        assert tree.shows_the_same()
        os.kill(watched.root.pid, signal.SIGUSR1)

        def opened() -> bool:
            nonlocal now
            now += 1
            if tree.shows_the_same():
                return False
            after = sampler.sample(tree.walk(), resolution, now=now, full=True)
            assert after.workload is not None
            return after.workload.fds == fds + 1

        eventually(opened, why="the next sample shows the new descriptor")
        assert not sampler.is_idle(now + 100)  # the rare figures are due


def test_a_signal_that_waits_and_a_child_of_a_thread_are_changes():
    code = """if 1:
        import signal, subprocess, threading
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])
        def start():
            signal.sigwait([signal.SIGUSR2])
            subprocess.Popen(["sleep", "600"])
            signal.pause()
        threading.Thread(target=start).start()
        print("ready", flush=True)
        signal.pause()"""
    with Watched([PYTHON, "-S", "-c", code]).ready() as watched:
        tree, sampler = watched.tree, watched.sampler
        resolution = watched.finder.look(tree.walk())

        def still() -> bool:
            sampler.sample(tree.walk(), resolution, full=True)
            return tree.shows_the_same() and tree.shows_the_same()

        eventually(still, why="both threads wait")
        os.kill(watched.root.pid, signal.SIGUSR1)  # nobody takes it, and nobody wakes
        assert not tree.shows_the_same()
        assert tree.shows_the_same()
        os.kill(watched.root.pid, signal.SIGUSR2)
        eventually(lambda: not tree.shows_the_same(), why="a child was started")


def test_a_recycled_pid_does_not_show_the_same():
    needs("pid_namespace")
    assert run_in(Place(), sampling_scenes.compare_a_recycled_pid) == [True, False, False]
