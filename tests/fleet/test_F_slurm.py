"""F1-F5, F7, F10, F12 with a real Slurm of two nodes: one run for a key, and the node decides."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.run.crashpoints import POINTS
from tests.fleet.slurm_cluster import Cluster, SlurmSubmitter
from tests.support.features import needs
from tests.support.terminals import DETACH, Screen
from tests.support.waiting import eventually

SUBMITTER_POINTS = [point for point in POINTS if point.startswith("submitter.")]
SECRET = "hunter2-xyzzy-do-not-keep"
ON = ("run", "--on", "slurm", "--json")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as made:
        yield made


@contextlib.contextmanager
def running_cluster(name: str = "") -> Iterator[Cluster]:
    needs("root", "slurmctld", "munged", "cgroup_v1")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="holdfast-slurm-") as folder:
        made = Cluster(Path(folder), name)
        try:
            made.start()
            yield made
        finally:
            made.close()


@pytest.fixture
def submitter(cluster: Cluster, shared: Path) -> Iterator[SlurmSubmitter]:
    yield SlurmSubmitter(shared, cluster)
    cluster.end_jobs()


def counted(path: Path) -> list[str]:
    """A command that leaves a line each time it is started."""
    return ["sh", "-c", f"echo started >> {path}; exec sleep 600"]


def starts(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_F1_the_submitter_dies_after_each_write_then_the_same_key_again(submitter, cluster):
    ids = {}
    for point in SUBMITTER_POINTS:
        run = (*ON, "--key", point, *counted(submitter.user_home / point))
        killed = submitter(*run, env={"HOLDFAST_CRASH_AT": f"{point}@submitter"})
        assert killed.returncode == -signal.SIGKILL, killed
        ids[point] = submitter(*run, expect=0).json["id"]
    for point, run_id in ids.items():
        submitter.await_running(run_id)
        assert starts(submitter.user_home / point) == 1
    assert submitter.run_ids() == sorted(ids.values())
    assert len(cluster.jobs()) == len(ids), "no held job is left"


def test_F1_recover_releases_what_a_killed_submitter_had_bound(submitter):
    run = ("run", "--on", "slurm", "-n", "a", "sleep", "600")
    submitter(*run, env={"HOLDFAST_CRASH_AT": "submitter.bound@submitter"})
    (row,) = submitter("fleet", "recover", "--json", expect=0).json["placements"]
    assert row["outcome"] == "started"
    submitter.await_running(row["id"])
    assert submitter.run_ids() == [row["id"]]


def test_F2_many_submitters_of_one_key_at_once_make_one_run(submitter, cluster):
    mark = submitter.user_home / "mark"
    every = [submitter.start(*ON, "--key", "k", *counted(mark)) for _ in range(4)]
    outputs = [one.communicate(timeout=100) for one in every]
    assert [one.returncode for one in every] == [0] * 4, outputs
    (placed,) = submitter("ls", "--fleet", "--json", expect=0).json["runs"]
    submitter.await_running(placed["id"])
    eventually(lambda: len(cluster.jobs()) == 1, 60, "the losers gave their jobs back")
    assert (starts(mark), submitter.run_ids()) == (1, [placed["id"]])


def test_F3_slurmd_and_slurmctld_die_and_the_run_goes_on(shared):
    with running_cluster("own") as cluster:  # a daemon that is started again is this test's own
        daemons_die(SlurmSubmitter(shared, cluster), cluster)


def daemons_die(submitter: SlurmSubmitter, cluster: Cluster) -> None:
    script = "echo one; read x; exit 5"
    submitter(*ON, "-n", "a", "--stdin", "pipe", "sh", "-c", script, expect=0)
    info = submitter.await_running("a")
    node = submitter("fleet", "nodes", "--json").json["nodes"][0]["hostname"]
    assert node in cluster.nodes
    for daemon in (node, "slurmctld"):
        cluster.kill(daemon)
        submitter.configure(answer="3s")
        unknown = submitter.info("a")
        assert (unknown["state"], unknown["outcome"]) == ("unknown", None), daemon
        assert "last fact: running" in unknown["evidence"]
        submitter.configure()
        cluster.start_one(daemon)
        cluster.await_nodes()
        eventually(lambda: submitter.info("a")["state"] == "running", 60)
    assert submitter.info("a")["shim"]["token"] == info["shim"]["token"], "the same one"
    submitter("send", "a", "go", expect=0)
    assert submitter("wait", "a").returncode == 5
    assert submitter.run_ids() == [info["id"]]


def test_F4_a_job_that_slurm_puts_back_starts_nothing_again(submitter, cluster):
    mark = submitter.user_home / "mark"
    run_id = submitter(*ON, "-n", "a", *counted(mark), expect=0).json["id"]
    submitter.await_running(run_id)
    job = submitter.job_of(run_id)
    assert cluster("scontrol", "requeue", job).returncode != 0, "it was submitted --no-requeue"
    cluster("scontrol", "update", f"JobId={job}", "Requeue=1")
    assert cluster("scontrol", "requeue", job).returncode == 0

    def is_refused() -> bool:
        cluster("scontrol", "update", f"JobId={job}", "StartTime=now")
        shown = cluster("scontrol", "show", "job", "-o", job).stdout
        return "ExitCode=96:0" in shown and "holdfast: Slurm has put this job" in shown

    eventually(is_refused, 90, "its second attendant refused")
    assert starts(mark) == 1
    ended = submitter.info(run_id)  # the node's record decides
    assert (ended["state"], ended["outcome"]) == ("ended", "stopped")


def test_F5_a_run_in_a_job_is_handled_like_one_here(submitter):
    run_id = submitter(*ON, "-n", "talk", "--pty", "cat", expect=0).json["id"]
    submitter.await_running("talk")
    submitter("send", "talk", "hello", expect=0)
    eventually(lambda: "hello\r\nhello" in submitter("logs", "--raw", "talk").stdout, 60)
    screen = Screen(submitter.argv("attach", "talk"), 30, 90, env=submitter.env())
    try:
        screen.read_until(b"attached to talk", 60)
        screen.type(b"over there\r")
        screen.read_until(b"over there\r\nover there", 60)
        screen.type(DETACH)
        assert screen.process.wait(60) == 0
    finally:
        screen.close()
    stopped = submitter("stop", "talk", "--json", expect=0).json
    assert stopped["runs"][0]["outcome"] == "stopped"
    assert submitter("wait", "talk").returncode == 128 + signal.SIGTERM
    # Its job is over: a short job on the same node reads the record.
    eventually(lambda: submitter.cluster.jobs() == {}, 60)
    ended = submitter.info("talk")
    assert (ended["id"], ended["outcome"]) == (run_id, "stopped")
    assert "over there" in submitter("logs", "talk", expect=0).stdout
    again = submitter("rerun", "talk", "--json", expect=0).json
    assert submitter.await_running(again["id"])["placement"]["engine"] == "slurm"
    submitter("stop", again["id"], expect=0)
    submitter("rm", run_id, expect=0)
    assert submitter("status", run_id).returncode == 3


def test_F5_output_is_followed_until_the_end_of_the_run(submitter):
    script = "echo one; read x; echo two"
    submitter(*ON, "-n", "f", "--stdin", "pipe", "sh", "-c", script, expect=0)
    submitter.await_running("f")
    following = submitter.start("logs", "-f", "f")
    assert following.stdout.readline() == b"one\n"
    submitter("send", "f", "go", expect=0)
    rest, errors = following.communicate(timeout=90)
    assert (following.returncode, rest) == (0, b"two\n"), errors


def test_F5_a_run_that_waits_is_queued_and_stop_takes_it_back(submitter, cluster):
    mark = submitter.user_home / "mark"
    submitter.configure("--begin=now+1hour")
    queued = submitter(*ON, "-n", "w", *counted(mark), expect=0).json
    assert (queued["state"], "PENDING" in queued["evidence"]) == ("queued", True)
    stopped = submitter("stop", "w", "--json", expect=0).json["runs"][0]
    assert (stopped["state"], stopped["outcome"]) == ("ended", "stopped")
    assert (cluster.jobs(), starts(mark)) == ({}, 0)
    assert submitter.info("w")["outcome"] == "stopped"


def test_F7_scancel_is_a_stop_that_the_node_records(submitter, cluster):
    script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    run_id = submitter(*ON, "-n", "a", "sh", "-c", script, expect=0).json["id"]
    submitter.await_running(run_id)
    eventually(lambda: "ready" in submitter("logs", "a").stdout, 60)
    cluster("scancel", submitter.job_of(run_id))
    eventually(lambda: submitter.info("a")["state"] == "ended", 90)
    assert submitter.info("a")["outcome"] == "stopped"
    assert submitter("logs", "a", expect=0).stdout.endswith("bye\n"), "it could end by itself"


def test_F7_a_deadline_of_its_own_comes_before_the_limit_of_the_job(submitter):
    submitter.configure("--time=2")
    submitter(*ON, "-n", "a", "sleep", "600", expect=0)
    seconds = submitter.await_running("a")["wanted"]["timeout_seconds"]
    assert 60 < seconds <= 120 - 10 - 10, "two minutes, less the grace and some room"


def test_F7_a_grace_that_slurm_would_not_wait_for_is_refused(submitter, cluster):
    refused = submitter("run", "--on", "slurm", "-n", "a", "--grace", "16", "true")
    assert (refused.returncode, "KillWait" in refused.stderr) == (4, True)
    assert (cluster.jobs(), submitter("status", "a").returncode) == ({}, 3)


def test_F7_the_attendant_is_killed_and_the_run_with_it(submitter):
    run_id = submitter(*ON, "-n", "a", "sleep", "600", expect=0).json["id"]
    shim = submitter.await_running(run_id)["shim"]["pid"]
    (attendant,) = set(processes("fleet attend", submitter)) - {shim}  # which was forked by it
    os.kill(attendant, signal.SIGKILL)
    eventually(lambda: submitter.info("a")["state"] == "ended", 90)
    ended = submitter.info("a")
    # Slurm kills the group: whether the shim still saw that is left to chance.
    assert (ended["outcome"] in ("lost", "killed"), ended["exit_code"]) == (True, None)


def test_F7_the_shim_is_killed_and_the_run_adopted_inside_the_job(submitter):
    run_id = submitter(*ON, "-n", "a", "--stdin", "pipe", "sh", "-c", "read x; exit 7").json["id"]
    before = submitter.await_running(run_id)
    os.kill(before["shim"]["pid"], signal.SIGKILL)

    def is_adopted() -> bool:
        now = submitter.info("a")
        return now["state"] == "running" and now["shim"]["pid"] != before["shim"]["pid"]

    eventually(is_adopted, 90, "another shim has it")
    adopter = submitter.info("a")["shim"]["pid"]
    group = f"job_{submitter.job_of(run_id)}/step_batch"
    assert group in Path(f"/proc/{adopter}/cgroup").read_text()
    submitter("stop", "a", expect=0)
    assert submitter.info("a")["outcome"] == "stopped"


def test_F10_secrets_are_in_no_ledger_no_job_script_and_no_process_list(submitter, cluster):
    check = submitter.user_home / "check.sh"
    check.write_text(f'test "$A" = "{SECRET}" && echo as it should be; exec sleep 600')
    env = submitter.folder / "env"
    env.write_text(f"A={SECRET}\n")
    run = (*ON, "-n", "a", "--env-file", env, "sh", check)
    run_id = submitter(*run, expect=0).json["id"]
    eventually(lambda: submitter("logs", "a").stdout == "as it should be\n", 60)
    script = cluster("scontrol", "write", "batch_script", submitter.job_of(run_id), "-").stdout
    assert run_id in script
    assert SECRET not in script
    for folder in (submitter.home, cluster.folder):
        found = subprocess.run(["grep", "-rla", SECRET, folder], capture_output=True, text=True)
        assert found.stdout == ""
    shown = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout
    assert SECRET not in shown
    assert submitter.await_running("a")["id"] == run_id


def test_a_start_that_the_node_refuses_is_told_as_never_started(submitter):
    first = submitter(*ON, "-n", "a", "sleep", "600", expect=0).json["id"]
    submitter.await_running(first)
    node = submitter("fleet", "nodes", "--json").json["nodes"][0]["hostname"]
    submitter.configure(f"--nodelist={node}")
    second = submitter(*ON, "-n", "a", "sleep", "600", expect=0).json["id"]
    eventually(lambda: submitter.info(second)["state"] == "ended", 90)
    refused = submitter.info(second)
    assert (refused["outcome"], "already" in refused["evidence"]) == ("never_started", True)
    assert submitter.run_ids() == [first]


def test_F12_check_tries_a_job(submitter):
    fine = submitter("fleet", "check", "slurm", "--json")
    assert fine.returncode == 0, fine.stdout
    found = {one["name"]: one["status"] for one in fine.json["findings"]}
    assert {"ledger", "slurm", "proctrack", "kill-wait", "reach", "version"} <= found.keys()
    none = submitter("fleet", "check", "slurm:nowhere", "--json")
    assert none.returncode == 1
    failed = [one["name"] for one in none.json["findings"] if one["status"] == "fail"]
    assert "partition" in failed


def processes(words: str, submitter: SlurmSubmitter) -> list[int]:
    """Those of this submitter's runs whose command line has these words."""
    shown = subprocess.run(["ps", "axww", "-o", "pid,args"], capture_output=True, text=True)
    wanted = f"{submitter.node_program} {words}"
    return [int(line.split()[0]) for line in shown.stdout.splitlines() if wanted in line]
