"""F1-F5, F7, F10, F12 with a real Slurm of two nodes: one run for a key, and the node decides."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.run.crashpoints import POINTS
from tests.fleet.parity import assert_same_words
from tests.fleet.slurm_cluster import Cluster, SlurmSubmitter, made_cluster, running_cluster
from tests.support import pretend_claude
from tests.support.cli import Finished
from tests.support.terminals import DETACH, Screen
from tests.support.waiting import eventually

SUBMITTER_POINTS = [point for point in POINTS if point.startswith("submitter.")]
SECRET = "hunter2-xyzzy-do-not-keep"
ON = ("run", "--on", "slurm", "--json")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as made:
        yield made


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


def test_F3_a_release_that_slurm_lost_is_given_again(submitter, cluster):
    submitter.configure("--begin=now+1hour")
    run = (*ON, "-n", "w", "--key", "k", "true")
    run_id = submitter(*run, expect=0).json["id"]
    job = submitter.job_of(run_id)

    def is_held() -> bool:
        return "Reason=JobHeldUser" in cluster("scontrol", "show", "job", "-o", job).stdout

    # As slurmctld has it after `kill -9` right after the release: it saves what it knows later.
    cluster("scontrol", "uhold", job)
    assert is_held()
    (row,) = submitter("fleet", "recover", "--json", expect=0).json["placements"]
    assert (row["id"], row["outcome"], is_held()) == (run_id, "started", False)
    assert submitter("fleet", "recover", "--json", expect=0).json["placements"] == []
    cluster("scontrol", "uhold", job)
    assert submitter(*run, expect=0).json["id"] == run_id
    assert not is_held()
    cluster("scontrol", "hold", job)  # an administrator's
    assert submitter(*run, expect=0).json["state"] == "queued"
    assert "Reason=JobHeldAdmin" in cluster("scontrol", "show", "job", "-o", job).stdout
    submitter("stop", "w", expect=0)


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

    eventually(lambda: cluster.jobs().get(job) == "PENDING", 90, "it is in the queue again")
    # Its second credential has to be younger than the word that ended the first one, by a second;
    # slurmd refuses it otherwise. Slurm itself would wait for two minutes.
    assert cluster("scontrol", "update", f"JobId={job}", "StartTime=now+2").returncode == 0

    def is_refused() -> bool:
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


@pytest.mark.fleet
def test_F5_in_a_job_every_word_answers_as_here(submitter):
    claude = pretend_claude.install(submitter.user_home)
    assert_same_words(submitter, "slurm", claude)


def test_F5_output_is_followed_until_the_end_of_the_run(submitter):
    script = "echo one; read x; echo two"
    submitter(*ON, "-n", "f", "--stdin", "pipe", "sh", "-c", script, expect=0)
    submitter.await_running("f")
    following = submitter.start("logs", "-f", "f")
    assert following.stdout.readline() == b"one\n"
    submitter("send", "f", "go", expect=0)
    rest, errors = following.communicate(timeout=90)
    assert (following.returncode, rest) == (0, b"two\n"), errors


def test_F5_several_jobs_are_waited_for_together(submitter):
    codes = (0, 3, 4, 5)
    for code in codes:
        submitter(*ON, "-n", f"w{code}", "sh", "-c", f"exit {code}", expect=0)
    waited = submitter("wait", "--json", *(f"w{code}" for code in codes), expect=3)
    assert [one["exit_code"] for one in waited.json["runs"]] == list(codes)
    assert all(one["state"] == "ended" for one in waited.json["runs"])


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


def test_F7_a_stop_that_does_not_reach_the_node_is_left_to_slurm(submitter):
    script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    run_id = submitter(*ON, "-n", "a", "sh", "-c", script, expect=0).json["id"]
    submitter.await_running(run_id)
    eventually(lambda: "ready" in submitter("logs", "a").stdout, 60)
    submitter.configure(command="/nowhere/holdfast")
    left = submitter("stop", "a", "--json")
    error = left.json["error"]
    assert (left.returncode, error["code"]) == (6, "left-to-engine"), left
    job = submitter.job_of(run_id)
    assert f"Slurm was asked to end its job {job} (scancel)" in error["message"]
    submitter.configure()
    eventually(lambda: submitter.info("a")["state"] == "ended", 90)
    assert submitter.info("a")["outcome"] == "stopped"
    submitter.configure(command="/nowhere/holdfast")
    over = submitter("stop", "a", "--json")  # nothing is left that Slurm could end
    assert (over.returncode, over.json["error"]["code"]) == (6, "no-answer"), over


def test_F7_a_signal_before_the_limit_moves_the_deadline_and_another_is_a_stop(submitter, cluster):
    run_id = submitter(*ON, "-n", "a", "sleep", "600", expect=0).json["id"]
    job = submitter.job_of(run_id)
    assert submitter.await_running("a")["wanted"]["timeout_seconds"] is None
    cluster("scontrol", "update", f"JobId={job}", "TimeLimit=2")
    cluster("scancel", "--batch", "--signal=TERM", job)  # as Slurm does a minute before the limit

    def has_deadline() -> bool:
        seconds = submitter.info("a")["wanted"]["timeout_seconds"] or 0
        return 60 < seconds <= 120 - 10 - 10 + 1  # Slurm tells whole seconds

    eventually(has_deadline, 60, "the run has a deadline of its own")
    assert submitter.info("a")["state"] == "running"
    cluster("scontrol", "update", f"JobId={job}", "TimeLimit=60")
    cluster("scancel", "--batch", "--signal=TERM", job)
    eventually(lambda: submitter.info("a")["state"] == "ended", 90)
    assert submitter.info("a")["outcome"] == "stopped"


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
    submitter.configure(command="false")  # no node answers any more
    info = submitter.info("a")
    # Slurm kills the group: whether the shim still saw that is left to chance.
    assert info["outcome"] in ("lost", "killed")
    assert (info["state"], info["exit_code"]) == ("ended", None)
    assert submitter("wait", "a").returncode == (125 if info["outcome"] == "lost" else 137)


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


def test_an_attendant_gives_up_when_nobody_brings_the_secrets(submitter, cluster):
    submitter.write_node_program(
        "import holdfast.fleet.slurm.attendant as a; a._HAND_SECONDS = 1.0"
    )
    submitter.configure("--begin=now+1hour")
    mark = submitter.user_home / "mark"
    waiting = submitter.start(
        "run", "--on", "slurm", "-n", "a", "-e", f"A={SECRET}", *counted(mark)
    )
    eventually(lambda: "PENDING" in cluster.jobs().values(), 60, "it is submitted")
    (job,) = cluster.jobs()

    def is_released() -> bool:
        return "JobHeld" not in cluster("scontrol", "show", "job", "-o", job).stdout

    eventually(is_released, 60, "it waits for a node")
    waiting.kill()
    waiting.communicate()
    cluster("scontrol", "update", f"JobId={job}", "StartTime=now")
    eventually(lambda: submitter.info("a")["state"] == "ended", 90)
    ended = submitter.info("a")
    assert (ended["outcome"], starts(mark)) == ("never_started", 0)
    assert "brought no secrets for 1 s" in ended["evidence"]


def test_F9_a_node_of_another_version_starts_nothing_and_says_so(submitter):
    submitter.write_node_program("import holdfast.fleet.node as n; n.PROTOCOL = 2")
    mark = submitter.user_home / "mark"
    run_id = _told_or_placed(submitter(*ON, "-n", "a", *counted(mark)))
    eventually(lambda: submitter.info(run_id)["state"] == "ended", 90)
    refused = submitter.info(run_id)
    assert (refused["outcome"], starts(mark)) == ("never_started", 0)
    assert "speaks protocol 2, and its submitter 1" in refused["evidence"]
    told = submitter(*ON, "-n", "b", "-e", "A=b", *counted(mark))  # which waits for the node
    assert (told.returncode, told.json["error"]["code"]) == (4, "refused"), told
    assert "speaks protocol 2" in told.json["error"]["message"]
    submitter.write_node_program("import holdfast.options as o; del o.OPTIONS['drain']")
    run_id = _told_or_placed(submitter(*ON, "-n", "c", "--drain", "1", *counted(mark)))
    eventually(lambda: submitter.info(run_id)["state"] == "ended", 90)
    assert "does not know --drain" in submitter.info(run_id)["evidence"]
    assert (starts(mark), submitter.run_ids()) == (0, [])


def _told_or_placed(done: Finished) -> str:
    """The id. A job that refuses at once may have said so before `run` returns."""
    assert done.returncode in (0, 125), done
    assert done.returncode == 0 or done.json["error"]["code"] == "never-started", done
    return str(done.json["id"])


def test_F12_settings_of_slurm_that_would_harm_a_run_are_named_and_refused(shared):
    harmful = {"ProctrackType": "proctrack/linuxproc", "KillWait": 5}
    harmful["PartitionName"] = "p Nodes=ALL Default=YES State=INACTIVE"  # a job is refused at once
    with made_cluster("bad", **harmful) as cluster:
        for name in ("munged", "slurmctld"):
            cluster.start_one(name)
        eventually(lambda: cluster("scontrol", "ping").returncode == 0, 60, "slurmctld answers")
        submitter = SlurmSubmitter(shared, cluster)
        found = submitter("fleet", "check", "slurm", "--json")
        failed = {one["name"]: one for one in found.json["findings"] if one["status"] == "fail"}
        assert found.returncode == 1
        assert {"proctrack", "kill-wait", "reach"} == failed.keys()
        assert "proctrack/linuxproc" in failed["proctrack"]["says"]
        assert "KillWait of 15 s, and Slurm's is 5 s" in failed["kill-wait"]["says"]
        refused = submitter(*ON, "-n", "a", "true")
        assert (refused.returncode, refused.json["error"]["code"]) == (4, "refused")
        assert "proctrack/linuxproc" in refused.json["error"]["message"]
        assert (cluster.jobs(), submitter("status", "a").returncode) == ({}, 3)


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


@pytest.mark.usefixtures("ledger")
def test_F5_what_an_attendant_exported_is_known_when_its_node_is_gone(submitter, cluster, database):
    submitter.configure(ledger=database.url)
    submitter(*ON, "-n", "long", "sleep", "600", expect=0)
    submitter(*ON, "-n", "bad", "sh", "-c", "exit 4", expect=0)
    known = "select looked_state, outcome from holdfast_run order by name"
    both = [("ended", "failed"), ("running", None)]
    eventually(lambda: database.rows(known) == both, 90, "one exported its start, one its end")
    submitter.configure(ledger=database.url, command="false")  # no node answers any more
    bad, long = submitter.info("bad"), submitter.info("long")
    assert (bad["state"], bad["outcome"], bad["exit_code"]) == ("ended", "failed", 4)
    assert "exported at" in bad["evidence"]
    assert (long["state"], long["outcome"]) == ("unknown", None)
    assert "last fact: " in long["evidence"]
    assert "Slurm says RUNNING" in long["evidence"]
    assert submitter("wait", "bad").returncode == 4
    database.pause()  # an attendant that waits for it would be killed in the middle
    try:
        cluster("scancel", "--me")
        log = next(submitter.nodes_folder.glob(f"*/runs/{long['id']}/events.jsonl"))
        eventually(lambda: '"outcome":"stopped"' in log.read_text(), 60, "its end is recorded")
    finally:
        database.resume()
