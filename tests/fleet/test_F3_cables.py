"""F3, F7 with nodes whose cable is cut, and with limits that take a minute: ssh and Slurm."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from tests.fleet.net_nodes import NetNodes
from tests.fleet.slurm_cluster import SlurmSubmitter, running_cluster
from tests.support.features import needs
from tests.support.waiting import eventually

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(600)]
SCRIPT = "echo one; read x; echo two; exit 5"
ON = ("run", "--on", "slurm", "--json")


@pytest.fixture
def net() -> Iterator[NetNodes]:
    """A machine with a cable."""
    needs("root")
    made = NetNodes("s", "n1")
    yield made
    made.close()


def test_F3_over_ssh_a_cable_is_cut_and_put_back(world, net):
    cable = net.nodes["n1"]
    submitter = world.submitter()
    node = world.node("n1", address=cable.address, inside=cable.inside())
    world.configure()
    run = ("run", "--on", "ssh:n1", "--stdin", "pipe", "-n")
    for name in ("a", "b"):
        submitter(*run, name, "sh", "-c", SCRIPT, expect=0)
    short, following = submitter.start("logs", "-f", "a"), submitter.start("logs", "-f", "b")
    assert short.stdout.readline() == following.stdout.readline() == b"one\n"
    cable.cut()
    world.on(node, "send", "a", "go")  # it says something that does not get here
    cable.heal()
    assert short.communicate(timeout=60)[0] == b"two\n", "TCP sends it again"
    assert short.returncode == 0
    waiting, said = submitter.start("wait", "b"), list[bytes]()
    listening = threading.Thread(target=lambda: said.extend(waiting.stderr))
    listening.start()
    eventually(lambda: len(node.commands()) >= 2, 60, "both have somebody there")
    cable.cut()
    world.configure(answer="3s")
    unknown = submitter.info("b")
    assert (unknown["state"], unknown["outcome"]) == ("unknown", None)
    assert "last fact: running" in unknown["evidence"]
    stopped = submitter("stop", "b", "--json")
    assert (stopped.returncode, stopped.json["error"]["code"]) == (6, "no-answer")
    _, why = following.communicate(timeout=90)  # ServerAlive takes 15 to 20 s
    assert following.returncode == 6, why
    eventually(lambda: b"waiting for it" in b"".join(said), 90, "the wait has noticed")
    world.on(node, "send", "b", "go")  # it ends while nobody can see it
    cable.heal()
    world.configure()
    assert waiting.wait(120) == 5
    listening.join()
    for pipe in (waiting.stdout, waiting.stderr):
        pipe.close()
    ended = submitter.info("b")
    assert (ended["outcome"], ended["exit_code"]) == ("failed", 5), "not what the stop wanted"
    assert len(world.run_ids(node)) == 2


def test_F3_slurm_gives_a_node_up_whose_cable_is_cut_and_ends_the_job_when_it_is_back(shared):
    with running_cluster("net", has_cables=True, SlurmdTimeout=20) as cluster:
        submitter = SlurmSubmitter(shared, cluster)
        mark = submitter.user_home / "mark"
        script = f"echo started >> {mark}; exec sleep 600"
        run_id = submitter(*ON, "-n", "a", "sh", "-c", script, expect=0).json["id"]
        workload = submitter.await_running("a")["workload"]["pid"]
        node = submitter("fleet", "nodes", "--json").json["nodes"][0]["hostname"]
        cable = cluster.cable_of(node)
        cable.cut()
        submitter.configure(answer="3s")
        unknown = submitter.info("a")
        assert (unknown["state"], unknown["outcome"]) == ("unknown", None)
        cable.heal()  # before Slurm has noticed
        submitter.configure()
        eventually(lambda: submitter.info("a")["state"] == "running", 60)
        cable.cut()
        submitter.configure(answer="3s")
        eventually(lambda: "Slurm says NODE_FAIL" in submitter.info("a")["evidence"], 150)
        unknown = submitter.info("a")
        assert (unknown["state"], unknown["outcome"]) == ("unknown", None)
        assert os.path.exists(f"/proc/{workload}"), "it lives, whatever Slurm says"
        left = submitter("stop", "a", "--json")
        assert (left.returncode, left.json["error"]["code"]) == (6, "no-answer"), left
        cable.heal()
        submitter.configure()
        eventually(lambda: submitter.info("a")["state"] == "ended", 150, "slurmd has ended it")
        assert submitter.info("a")["outcome"] == "stopped", "by its attendant, which got SIGTERM"
        assert (mark.read_text(), submitter.run_ids()) == ("started\n", [run_id])


def test_F3_slurmd_is_gone_and_a_stop_is_done_by_slurm_when_it_is_back(shared):
    with running_cluster("gone") as cluster:
        submitter = SlurmSubmitter(shared, cluster)
        submitter(*ON, "-n", "a", "sleep", "600", expect=0)
        submitter.await_running("a")
        node = submitter("fleet", "nodes", "--json").json["nodes"][0]["hostname"]
        cluster.kill(node)
        submitter.configure(answer="3s")
        left = submitter("stop", "a", "--json")
        assert (left.returncode, left.json["error"]["code"]) == (6, "left-to-engine"), left
        assert submitter.info("a")["state"] == "unknown", "what came of it is not known"
        submitter.configure()
        cluster.start_one(node)
        eventually(lambda: submitter.info("a")["state"] == "ended", 150)
        assert submitter.info("a")["outcome"] == "stopped"


def test_F7_a_limit_of_a_minute_and_one_that_was_lowered_end_runs_as_timed_out(shared):
    with running_cluster("limit") as cluster:
        submitter = SlurmSubmitter(shared, cluster)
        lowered = submitter(*ON, "-n", "b", "--grace", "1", "sleep", "600", expect=0).json["id"]
        assert submitter.await_running("b")["wanted"]["timeout_seconds"] is None
        job = submitter.job_of(lowered)
        cluster("scontrol", "update", f"JobId={job}", "TimeLimit=1")
        submitter.configure("--time=1")
        submitter(*ON, "-n", "a", "--grace", "1", "sleep", "600", expect=0)
        limit = submitter.await_running("a")["wanted"]["timeout_seconds"]
        assert 30 < limit <= 60 - 1 - 10
        for name in ("a", "b"):
            assert submitter("wait", name).returncode == 124
            ended = submitter.info(name)
            assert (ended["outcome"], ended["is_recorded"]) == ("timed_out", True)
            assert ended["duration_seconds"] < 60
