"""F1-F5, F8, F10, F12 with a real Ray, its nodes in network namespaces: one run for a key, and the
node decides, whatever Ray says, moves or forgets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.run.crashpoints import POINTS
from tests.fleet.parity import assert_same_words
from tests.fleet.ray_cluster import RayCluster, RaySubmitter
from tests.support import pretend_claude
from tests.support.features import needs
from tests.support.terminals import DETACH, Screen
from tests.support.waiting import eventually

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(600)]
SUBMITTER_POINTS = [point for point in POINTS if point.startswith("submitter.")]
SECRET = "hunter2-xyzzy-do-not-keep"
ON = ("run", "--on", "ray", "--json")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    needs("root")
    pytest.importorskip("ray", reason="Ray is not installed: make test-fleet installs it")
    made = RayCluster("n1", "n2")
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def submitter(cluster: RayCluster, shared: Path) -> Iterator[RaySubmitter]:
    os.chmod(shared, 0o755)
    made = RaySubmitter(shared, cluster)
    yield made
    made.close()


def counted(path: Path) -> list[str]:
    """A command that leaves a line each time it is started."""
    return ["sh", "-c", f"echo started >> {path}; exec sleep 600"]


def starts(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def await_start(path: Path) -> None:
    eventually(lambda: starts(path) == 1, 60, "it was started once")


def await_state(submitter: RaySubmitter, run: str, state: str) -> dict:
    eventually(lambda: submitter.info(run)["state"] == state, 120, f"{run} is {state}")
    return submitter.info(run)


def rejoin(cluster: RayCluster, name: str) -> None:
    """The node's Ray is started again, under another id."""
    cluster.stop(name)
    eventually(lambda: name not in cluster.alive(), 90, f"Ray calls {name} dead")
    cluster.start_one(name)
    cluster.await_nodes()


def test_F1_the_submitter_dies_after_each_write_then_the_same_key_again(submitter, cluster):
    ids = {}
    for point in SUBMITTER_POINTS:
        run = (*ON, "--key", point, *counted(submitter.marks / point))
        killed = submitter(*run, env={"HOLDFAST_CRASH_AT": f"{point}@submitter"})
        assert killed.returncode == -signal.SIGKILL, killed
        ids[point] = submitter(*run, expect=0).json["id"]
    for point, run_id in ids.items():
        assert submitter.info(run_id)["state"] == "running"
        await_start(submitter.marks / point)
    assert submitter.new_ids() == sorted(ids.values())
    assert {f"hf-{one}" for one in ids.values()} <= set(cluster.groups())


def test_F1_recover_starts_what_a_killed_submitter_had_bound(submitter):
    run = ("run", "--on", "ray", "-n", "a", "sleep", "600")
    submitter(*run, env={"HOLDFAST_CRASH_AT": "submitter.bound@submitter"})
    assert submitter.info("a")["state"] == "queued"
    (row,) = submitter("fleet", "recover", "--json", expect=0).json["placements"]
    assert (row["outcome"], submitter.info(row["id"])["state"]) == ("started", "running")
    assert submitter.new_ids() == [row["id"]]


def test_F2_many_submitters_of_one_key_at_once_make_one_run(submitter):
    mark = submitter.marks / "mark"
    every = [submitter.start(*ON, "--key", "k", *counted(mark)) for _ in range(4)]
    outputs = [one.communicate(timeout=200) for one in every]
    assert [one.returncode for one in every] == [0] * 4, outputs
    await_start(mark)
    assert len(submitter.new_ids()) == 1


def host_of(submitter: RaySubmitter, run: str) -> str:
    """The node that it is bound to."""
    where: str = submitter.info(run)["placement"]["reservation"]["host"]
    return where


def test_F3_desk_and_raylet_are_killed_and_the_run_goes_on_where_it_was(submitter, cluster):
    mark = submitter.marks / "mark"
    script = f"echo started >> {mark}; read x; exit 5"
    run = (*ON, "-n", "a", "--stdin", "pipe", "sh", "-c", script)
    run_id = submitter(*run, expect=0).json["id"]
    host = host_of(submitter, "a")
    (other,) = set(cluster.nodes) - {host}
    shim = submitter.info("a")["shim"]["token"]
    cluster.kill(host, "ray::Desk")
    assert await_state(submitter, "a", "running")["shim"]["token"] == shim
    cluster.kill(host, "raylet/raylet")
    eventually(lambda: host not in cluster.alive(), 90, "Ray calls it dead")
    eventually(lambda: cluster.groups().get(f"hf-{run_id}") == other, 90, "Ray moved the group")
    unknown = submitter.info("a")
    assert (unknown["state"], unknown["outcome"]) == ("unknown", None)
    assert f"its node DEAD on {other}" in unknown["evidence"], unknown["evidence"]
    assert "last fact: running" in unknown["evidence"]
    assert submitter("stop", "a").returncode == 6
    assert starts(mark) == 1
    rejoin(cluster, host)
    assert await_state(submitter, "a", "running")["shim"]["token"] == shim
    submitter("send", "a", "go", expect=0)
    assert submitter("wait", "a").returncode == 5
    assert starts(mark) == 1


def test_F4_a_group_that_ray_moved_starts_nothing(submitter, cluster):
    mark = submitter.marks / "mark"
    run = (*ON, "--key", "k", "-n", "a", *counted(mark))
    submitter(*run, env={"HOLDFAST_CRASH_AT": "submitter.bound@submitter"})
    (placement,) = (submitter.home / "fleet" / "placements").glob("*.json")
    host = json.loads(placement.read_text())["reservation"]["host"]
    cluster.kill(host, "raylet/raylet")
    eventually(lambda: host not in cluster.alive(), 90, "Ray calls it dead")
    refused = submitter(*run)
    assert (refused.returncode, starts(mark)) == (6, 0), refused
    assert submitter("fleet", "recover", "--json").returncode == 6
    rejoin(cluster, host)
    run_id = submitter(*run, expect=0).json["id"]
    await_start(mark)
    assert list((cluster.home_of(host) / "runs").glob(run_id)), "where it was bound to"


def test_F5_a_run_at_ray_is_handled_like_one_here(submitter, cluster):
    run_id = submitter(*ON, "-n", "talk", "--pty", "cat", expect=0).json["id"]
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
    eventually(lambda: f"hf-{run_id}" not in cluster.groups(), 60, "its group is given back")
    assert "over there" in submitter("logs", "talk", expect=0).stdout
    again = submitter("rerun", "talk", "--json", expect=0).json
    assert again["placement"]["node"] == submitter.info(run_id)["placement"]["node"]
    submitter("stop", again["id"], expect=0)
    submitter("rm", run_id, expect=0)
    assert submitter("status", run_id).returncode == 3


def test_F5_at_ray_every_word_answers_as_here(submitter, cluster):
    claude = pretend_claude.install(cluster.folder / "user")
    assert_same_words(submitter, "ray", claude)


def test_F9_a_node_of_another_version_is_told_before_a_start(submitter, cluster):
    other = cluster.folder / "other-version"
    begins = "from holdfast.cli import program"
    text = cluster.program.read_text().replace(
        begins, f"import holdfast.fleet.node as n; n.PROTOCOL = 2\n{begins}"
    )
    other.write_text(text)
    other.chmod(0o755)
    submitter.configure(command=str(other))
    before = cluster.groups()
    mark = submitter.marks / "mark"
    told = submitter(*ON, "-n", "a", *counted(mark))
    assert (told.returncode, told.json["error"]["code"]) == (4, "refused"), told
    assert "protocol 2" in told.json["error"]["message"]
    assert (starts(mark), submitter.new_ids(), set(cluster.groups()) - set(before)) == (
        0,
        [],
        set(),
    )
    checked = submitter("fleet", "check", "ray", "--json").json["findings"]
    assert [one["name"] for one in checked if one["status"] == "fail"] == ["version"]
    submitter.configure()


def test_F5_output_is_followed_until_the_end_of_the_run(submitter):
    script = "echo one; read x; echo two; exit 4"
    submitter(*ON, "-n", "f", "--stdin", "pipe", "sh", "-c", script, expect=0)
    following, waiting = submitter.start("logs", "-f", "f"), submitter.start("wait", "f")
    assert following.stdout.readline() == b"one\n"
    submitter("send", "f", "go", expect=0)
    rest, errors = following.communicate(timeout=90)
    assert (following.returncode, rest, errors) == (0, b"two\n", b"")
    waiting.communicate(timeout=90)
    assert waiting.returncode == 4


def test_what_ray_has_no_room_for_is_refused_and_nothing_is_held(submitter, cluster):
    submitter.configure(answer="5s")
    mark = submitter.marks / "mark"
    before = cluster.groups()
    refused = submitter("run", "--on", "ray", "-n", "big", "--cpus", "999", *counted(mark))
    assert (refused.returncode, "no room for 999 CPU" in refused.stderr) == (6, True), refused
    submitter.configure()
    assert (starts(mark), submitter("status", "big").returncode) == (0, 3)
    assert set(cluster.groups()) <= set(before)


def test_F8_oom_score_and_environment_are_those_of_a_login(submitter):
    script = "cat /proc/self/oom_score_adj; env"
    submitter(*ON, "-n", "e", "sh", "-c", script, expect=0)
    submitter("wait", "e", expect=0)
    first, *environment = submitter("logs", "e", expect=0).stdout.splitlines()
    assert first == "0"
    names = {line.partition("=")[0] for line in environment}
    assert not {name for name in names if name.startswith(("RAY_", "OMP_", "PYTHON"))}, names


def test_F8_the_head_is_killed_and_ray_begins_anew(submitter, cluster):
    script = "read x; exit 7"
    submitter(*ON, "-n", "a", "--stdin", "pipe", "sh", "-c", script, expect=0)
    shim = submitter.info("a")["shim"]["token"]
    for name in ("head", *cluster.nodes):
        cluster.stop(name)
    submitter.configure(answer="5s")
    unknown = submitter.info("a")
    assert (unknown["state"], unknown["outcome"]) == ("unknown", None)
    submitter.configure()
    cluster.start()
    assert await_state(submitter, "a", "running")["shim"]["token"] == shim
    submitter("send", "a", "go", expect=0)
    assert submitter("wait", "a").returncode == 7


def test_F3_a_node_is_cut_off_while_it_is_asked_to_start(submitter, cluster):
    mark = submitter.marks / "mark"
    run = ("run", "--on", "ray:n1", "--json", "--key", "k", *counted(mark))
    submitter("run", "--on", "ray:n1", "true", expect=0)  # its desk is there
    submitter.configure(answer="5s")
    cluster.nodes["n1"].cut()
    try:
        assert submitter(*run).returncode == 6
    finally:
        cluster.nodes["n1"].heal()
    submitter.configure()
    rejoin(cluster, "n1")
    submitter(*run, expect=0)
    await_start(mark)
    assert submitter(*run, expect=0).json["state"] == "running"
    assert starts(mark) == 1


def test_F3_a_node_is_cut_off_while_it_is_stopped_and_waited_for(submitter, cluster):
    script = "read x; exit 9"
    run = ("run", "--on", "ray:n1", "--json", "-n", "a", "--stdin", "pipe", "sh", "-c", script)
    submitter(*run, expect=0)
    waiting = submitter.start("wait", "a")
    said: list[bytes] = []
    listening = threading.Thread(target=lambda: said.extend(waiting.stderr))
    listening.start()
    cluster.nodes["n1"].cut()
    try:
        submitter.configure(answer="5s")
        assert submitter("stop", "a").returncode == 6
        unknown = submitter.info("a")
        assert (unknown["state"], unknown["outcome"]) == ("unknown", None)
        eventually(lambda: b"waiting for it" in b"".join(said), 90, "the wait has noticed")
        submitter.configure()
        submitter.on("n1", "send", "a", "go")  # it ends while nobody can see it
    finally:
        cluster.nodes["n1"].heal()
    rejoin(cluster, "n1")
    assert waiting.wait(200) == 9
    listening.join()
    for pipe in (waiting.stdout, waiting.stderr):
        pipe.close()
    ended = submitter.info("a")
    assert (ended["outcome"], ended["exit_code"]) == ("failed", 9), "not what the stop wanted"


def test_F10_secrets_are_in_no_ledger_and_no_process_list(submitter, cluster):
    check = submitter.marks / "check.sh"
    check.write_text(f'test "$A" = "{SECRET}" && echo as it should be; exec sleep 600')
    env = submitter.folder / "env"
    env.write_text(f"A={SECRET}\n")
    submitter(*ON, "-n", "a", "--env-file", env, "sh", check, expect=0)
    eventually(lambda: submitter("logs", "a").stdout == "as it should be\n", 60)
    rays = [cluster.folder / f"ray-{name}" for name in ("head", *cluster.nodes)]
    for folder in (submitter.home, submitter.runtime, *rays):
        found = subprocess.run(["grep", "-rla", SECRET, folder], capture_output=True, text=True)
        assert found.stdout == ""
    shown = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout
    assert SECRET not in shown


def test_F12_check_tries_a_node(submitter):
    fine = submitter("fleet", "check", "ray:n1", "--json")
    assert fine.returncode == 0, fine.stdout
    found = {one["name"]: one["status"] for one in fine.json["findings"]}
    assert {"ledger", "ray", "reach", "version", "parent", "oom"} <= found.keys()
    none = submitter("fleet", "check", "ray:nowhere", "--json")
    assert none.returncode == 1


@pytest.mark.usefixtures("ledger")
def test_F5_what_a_desk_exported_is_known_when_its_node_is_gone(submitter, cluster, database):
    for node in cluster.nodes:  # their desks, which have no database, may give groups back as well
        submitter("run", "--on", f"ray:{node}", "true", expect=0)
    user = submitter.folder / "user"  # whose config names the database: a desk of its own
    config = user / ".config" / "holdfast" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[fleet]\nledger = "{database.url}"\n')
    submitter.configure(command=f"env HOME={user} {cluster.program}")
    submitter.config.write_text(config.read_text() + submitter.config.read_text())
    submitter(*ON, "-n", "long", "sleep", "600", expect=0)
    submitter(*ON, "-n", "bad", "sh", "-c", "exit 4", expect=0)
    known = "select looked_state, outcome from holdfast_run where name in ('bad', 'long')"
    both = [("ended", "failed"), ("running", None)]
    eventually(lambda: database.rows(f"{known} order by name") == both, 120, "both are exported")
    submitter.configure(command="false")  # no node answers any more
    submitter.config.write_text(config.read_text() + submitter.config.read_text())
    bad, long = submitter.info("bad"), submitter.info("long")
    assert (bad["state"], bad["outcome"], bad["exit_code"]) == ("ended", "failed", 4)
    assert (long["state"], long["outcome"]) == ("unknown", None)
    assert "last fact: " in long["evidence"]
