"""F1-F4, F9, F10 over ssh: whoever dies or is replaced, one run for a key, no invented end."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess

import pytest

from holdfast.run.crashpoints import POINTS
from tests.support.features import needs
from tests.support.sshd import end_shared_connections
from tests.support.waiting import eventually

SUBMITTER_POINTS = [point for point in POINTS if point.startswith("submitter.")]
LAUNCHER_POINTS = [
    *("launcher.claimed", "launcher.directory-made", "launcher.spec-written"),
    *("launcher.key-written", "launcher.name-written", "launcher.shim-spawned", "launcher.ready"),
]
SECRET = "hunter2-xyzzy-do-not-keep"


def counted(tmp: str) -> list[str]:
    """A command that leaves a line each time it is started."""
    return ["sh", "-c", f"echo started >> {tmp}; exec sleep 600"]


def has_started_once(path) -> bool:
    return starts(path) == 1


def starts(path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_F1_the_submitter_dies_after_each_write_then_the_same_key_again(submitter, world):
    node = world.nodes["n1"]
    for point in SUBMITTER_POINTS:
        mark = node.user_home / point
        run = ("run", "--on", "ssh:n1", "--key", point, *counted(mark))
        killed = submitter(*run, env={"HOLDFAST_CRASH_AT": f"{point}@submitter"})
        assert killed.returncode == -signal.SIGKILL, killed
        again = submitter(*run[:3], "--json", *run[3:])
        assert again.returncode == 0, again
        eventually(functools.partial(has_started_once, mark), 60)
        assert submitter.info(again.json["id"])["state"] == "running"
    assert len(world.run_ids(node)) == len(SUBMITTER_POINTS)


def test_F1_the_nodes_side_dies_on_the_way_then_the_same_key_again(submitter, world):
    node = world.nodes["n1"]
    for point in LAUNCHER_POINTS:
        mark = node.user_home / point
        run = ("run", "--on", "ssh:n1", "--json", "--key", point, *counted(mark))
        node.stop()
        node.set_environment({"HOLDFAST_CRASH_AT": f"{point}@launcher"})
        node.start()
        killed = submitter(*run)
        assert killed.returncode == 6, killed
        node.stop()
        node.set_environment({})
        node.start()
        again = submitter(*run)
        assert again.returncode == 0, (point, again)
        eventually(functools.partial(has_started_once, mark), 60)
    assert len(world.run_ids(node)) == len(LAUNCHER_POINTS)


def test_F1_recover_goes_on_with_what_a_killed_submitter_left(submitter, world):
    run = ("run", "--on", "ssh:n1", "-n", "a", "sleep", "600")
    for point in ("submitter.bound", "submitter.committed"):
        submitter(*run, env={"HOLDFAST_CRASH_AT": f"{point}@submitter"})
        (row,) = submitter("fleet", "recover", "--json", expect=0).json["placements"]
        expected = "started" if point == "submitter.bound" else "found"
        assert (row["outcome"], submitter.info(row["id"])["state"]) == (expected, "running")
        assert submitter("fleet", "recover", "--json", expect=0).json["placements"] == []
        submitter("stop", row["id"], expect=0)
    assert len(world.run_ids(world.nodes["n1"])) == 2


def test_F2_many_submitters_of_one_key_at_once_make_one_run(submitter, world):
    mark = world.nodes["n1"].user_home / "mark"
    run = ("run", "--on", "ssh:n1", "--json", "--key", "k", *counted(mark))
    every = [submitter.start(*run) for _ in range(5)]
    outputs = [one.communicate(timeout=100) for one in every]
    assert [one.returncode for one in every] == [0] * 5, outputs
    assert len(world.run_ids(world.nodes["n1"])) == 1
    eventually(lambda: starts(mark) == 1, 60)


def test_F3_sshd_and_its_sessions_die_and_the_run_goes_on(submitter, world):
    node = world.nodes["n1"]
    script = "echo one; read x; echo two; exit 5"
    submitter("run", "--on", "ssh:n1", "-n", "a", "--stdin", "pipe", "sh", "-c", script, expect=0)
    waiting, following = submitter.start("wait", "a"), submitter.start("logs", "-f", "a")
    script = "echo here; read x; exit 6"
    run = ("run", "-F", "--on", "ssh:n1", "-n", "b", "--stdin", "pipe", "sh", "-c", script)
    staying = submitter.start(*run)
    assert following.stdout.readline() == b"one\n"
    assert staying.stdout.readline() == b"here\n"
    eventually(lambda: len(node.commands()) >= 3, 60, "all three have somebody there")
    node.stop()
    unknown = submitter.info("a")
    assert (unknown["state"], unknown["outcome"], unknown["name"]) == ("unknown", None, "a")
    assert "does not answer" in unknown["evidence"]
    assert "last fact: running" in unknown["evidence"]
    assert submitter("stop", "a").returncode == 6
    assert submitter("logs", "a").returncode == 6
    (row,) = [r for r in submitter("ls", "--fleet", "--json").json["runs"] if r["name"] == "a"]
    assert row["state"] == "unknown"
    _, said = following.communicate(timeout=60)
    assert following.returncode == 6, said  # a cut stream does not look like its end
    node.start()
    world.on(node, "send", "a", "go")
    world.on(node, "send", "b", "go")
    waiting.communicate(timeout=90)
    staying.communicate(timeout=90)
    assert (waiting.returncode, staying.returncode) == (5, 6)
    ended = submitter.info("a")
    assert (ended["state"], ended["outcome"], ended["exit_code"]) == ("ended", "failed", 5)
    node.stop()  # what a node has recorded, and was seen, does not change
    seen = submitter.info("a")
    assert (seen["state"], seen["outcome"], seen["exit_code"]) == ("ended", "failed", 5)


def test_F3_sessions_are_killed_and_a_wait_goes_on_over_another(submitter, world):
    node = world.nodes["n1"]
    script = "read x; exit 5"
    submitter("run", "--on", "ssh:n1", "-n", "a", "--stdin", "pipe", "sh", "-c", script, expect=0)
    waiting = submitter.start("wait", "a")
    eventually(lambda: len(node.commands()) == 1, 60, "it has somebody there")
    node.kill_sessions()
    assert submitter.info("a")["state"] == "running"
    eventually(lambda: len(node.commands()) == 1, 60, "it has somebody there again")
    submitter("send", "a", "go", expect=0)
    _, said = waiting.communicate(timeout=90)
    assert (waiting.returncode, b"waiting for it" in said) == (5, True), said


def test_F3_a_power_cut_is_told_as_such_once_the_node_is_back(submitter, world):
    needs("root")  # to give it another boot id
    node = world.nodes["n1"]
    mark = node.user_home / "mark"
    run = ("run", "--on", "ssh:n1", "-n", "a", "--key", "k", "--json", *counted(mark))
    first = submitter(*run, expect=0).json["id"]
    eventually(lambda: starts(mark) == 1, 60)
    node.cut_power()
    unknown = submitter.info("a")
    assert (unknown["state"], unknown["outcome"]) == ("unknown", None)
    node.start()
    lost = submitter.info("a")
    assert (lost["state"], lost["outcome"], lost["loss"]) == ("ended", "lost", "reboot")
    assert submitter(*run, expect=0).json["id"] == first, "the key has its run"
    assert starts(mark) == 1


def test_F3_a_wrong_host_key_is_no_answer_and_starts_nothing(submitter, world):
    node = world.nodes["n1"]
    submitter("run", "--on", "ssh:n1", "-n", "a", "sleep", "600", expect=0)
    key = node.folder / "known_hosts"
    other = (node.folder / "user_key.pub").read_text().split()[1]
    key.write_text(f"[127.0.0.1]:{node.port} ssh-ed25519 {other}\n")
    end_shared_connections(submitter.runtime / "holdfast-ssh")
    refused = submitter("run", "--on", "ssh:n1", "-n", "b", "true")
    assert refused.returncode == 6
    assert "key" in refused.stderr
    assert submitter.info("a")["state"] == "unknown"
    assert submitter("status", "b").returncode == 3


def test_F4_a_replaced_home_is_another_node_and_gets_nothing_that_was_bound(submitter, world):
    node = world.nodes["n1"]
    mark = node.user_home / "mark"
    run = ("run", "--on", "ssh:n1", "--key", "k", "-n", "a", "--json", *counted(mark))
    first = submitter(*run, expect=0).json["id"]
    moved = node.folder / "moved"
    node.home.rename(moved)
    again = submitter(*run)
    assert (again.returncode, again.json["id"], again.json["state"]) == (0, first, "unknown")
    submitter("run", "--on", "ssh:n1", "-n", "other", "true", expect=0)  # a node is made anew
    unknown = submitter.info("a")
    assert unknown["state"] == "unknown"
    assert "another node" in unknown["evidence"]
    assert submitter("stop", "a").returncode == 6
    assert starts(mark) == 1
    # A person's word is evidence, and frees the key.
    submitter("fleet", "give-up", "a", "--reason", "disk replaced", expect=0)
    lost = submitter.info("a")
    assert (lost["outcome"], lost["vouched"]) == ("lost", True)
    assert "disk replaced" in lost["evidence"]
    submitter(*run, expect=0)
    eventually(lambda: starts(mark) == 2, 60)
    # The old home is back: its record decides again.
    world.on(node, "stop", "--all", "--grace", "0")
    shutil.rmtree(node.home)
    moved.rename(node.home)
    assert submitter.info(first)["state"] == "running"


def test_F4_give_up_is_refused_while_the_node_says_that_it_runs(submitter):
    submitter("run", "--on", "ssh:n1", "-n", "a", "sleep", "600", expect=0)
    refused = submitter("fleet", "give-up", "a")
    assert (refused.returncode, "running" in refused.stderr) == (4, True)


def test_a_run_that_its_node_removed_is_never_started_again(submitter, world):
    node = world.nodes["n1"]
    mark = node.user_home / "mark"
    command = ["sh", "-c", f"echo started >> {mark}"]
    run = ("run", "--on", "ssh:n1", "--key", "k", "-n", "a", *command)
    killed = submitter(*run, env={"HOLDFAST_CRASH_AT": "submitter.committed@submitter"})
    assert killed.returncode == -signal.SIGKILL
    (run_id,) = world.run_ids(node)
    eventually(lambda: world.on(node, "rm", run_id).returncode == 0, 60)
    again = submitter("fleet", "recover", "--json")
    assert again.json["placements"][0]["outcome"] == "found"
    submitter(*run, expect=0)
    assert (starts(mark), world.run_ids(node)) == (1, [])


def test_F9_a_node_of_another_version_is_told_before_a_start(submitter, world):
    node = world.nodes["n1"]
    later = node.program.read_text().replace(
        "from holdfast.cli import program",
        "import holdfast.fleet.node as n; n.PROTOCOL = 2\nfrom holdfast.cli import program",
    )
    node.program.write_text(later)
    told = submitter("run", "--on", "ssh:n1", "-n", "a", "true")
    assert (told.returncode, world.run_ids(node)) == (4, [])
    assert "protocol 2" in told.stderr
    found = submitter("fleet", "check", "ssh:n1", "--json")
    assert found.returncode == 1
    assert [one["name"] for one in found.json["findings"] if one["status"] == "fail"] == ["version"]


def test_F10_secrets_are_in_no_ledger_and_no_process_list(submitter, world):
    node = world.nodes["n1"]
    secret_file = node.user_home / "secrets"
    secret_file.write_text(f"B={SECRET}-2\n")
    secret_file.chmod(0o600)
    os.chown(secret_file, world.uid, world.uid)
    env_file = submitter.folder / "env"
    env_file.write_text(f"A={SECRET}-1\n")
    command = f'test "$A$B" = "{SECRET}-1{SECRET}-2" && read line && echo "$line"'
    checker = node.user_home / "check.sh"
    checker.write_text(command)
    started = submitter(
        *(
            "run",
            "--on",
            "ssh:n1",
            "-n",
            "a",
            "--env-file",
            env_file,
            "--secret-env-file",
            secret_file,
        ),
        *("--stdin", "-", "--", "sh", "-c", f". {checker}; sleep 600"),
        stdin=f"{SECRET}-3\n".encode(),
        expect=0,
    )
    assert started.stdout == "a\n"
    eventually(lambda: f"{SECRET}-3" in submitter("logs", "a").stdout, 60)
    ledger = subprocess.run(
        ["grep", "-r", "-l", "-a", SECRET, str(submitter.home)], capture_output=True, text=True
    )
    assert ledger.stdout == ""
    assert SECRET not in submitter("status", "a", "--json").stdout
    shown = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout
    assert SECRET not in shown


def test_F10_what_is_sent_is_in_no_process_list(submitter, world):
    node = world.nodes["n1"]
    log = node.folder / "argv.log"
    text = node.program.read_text().replace(
        "import sys\n", f"import sys\nopen({str(log)!r}, 'a').write(repr(sys.argv) + '\\n')\n", 1
    )
    node.program.write_text(text)
    log.touch()
    log.chmod(0o666)
    submitter("run", "--on", "ssh:n1", "-n", "a", "--stdin", "pipe", "cat", expect=0)
    submitter("send", "a", SECRET, expect=0)
    eventually(lambda: SECRET in submitter("logs", "a").stdout, 60)
    assert "relay" in log.read_text()
    assert SECRET not in log.read_text()


def test_nodes_are_listed_with_what_may_be_active_there(submitter):
    assert submitter("fleet", "nodes", "--json", expect=0).json["nodes"] == []
    submitter("run", "--on", "ssh:n1", "-n", "a", "sleep", "600", expect=0)
    (node,) = submitter("fleet", "nodes", "--json", expect=0).json["nodes"]
    assert (node["target"], node["active"], node["engine"]) == ("ssh:n1", 1, "ssh")
    assert "ssh:n1" in submitter("fleet", "nodes", expect=0).stdout


@pytest.mark.parametrize("noise", ["echo welcome to this machine", "printf 'a\\0holdfast {}\\n'"])
def test_what_a_login_script_prints_is_left_out(submitter, world, noise):
    node = world.nodes["n1"]
    wrapper = node.folder / "noisy"
    wrapper.write_text(f'#!/bin/sh\n{noise}\nexec {node.program} "$@"\n')
    wrapper.chmod(0o755)
    world.configure(command=str(wrapper))
    submitter("run", "--on", "ssh:n1", "-n", "a", "echo", "hi", expect=0)
    submitter("wait", "a", expect=0)
    assert submitter("logs", "a", expect=0).stdout == "hi\n"
    assert submitter.info("a")["outcome"] == "succeeded"


def test_what_no_node_can_say_has_the_codes_of_the_contract(submitter, world):
    node = world.nodes["n1"]
    for name in ("gone", "kept"):
        submitter("run", "--on", "ssh:n1", "-n", name, "sleep", "600", expect=0)
    removed = submitter.info("gone")["id"]
    assert world.on(node, "rm", "--stop", "gone").returncode == 0
    assert submitter.info("gone")["state"] == "unknown"
    assert submitter("logs", "gone").returncode == 3
    waited = submitter("wait", "gone")
    assert (waited.returncode, "has no record of it" in waited.stderr) == (125, True), waited
    assert f"give-up {removed}" in waited.stderr
    kept = submitter.info("kept")["id"]
    moved = node.folder / "moved"
    node.home.rename(moved)
    other = submitter("wait", "--timeout", "2s", "kept")
    assert (other.returncode, f"give-up {kept}" in other.stderr) == (125, True), other
    assert submitter("stop", "kept").returncode == 6
    shutil.rmtree(node.home, ignore_errors=True)
    moved.rename(node.home)
    node.stop()
    assert submitter("wait", "--timeout", "1s", "kept").returncode == 75
    silent = submitter("result", "kept")
    assert (silent.returncode, "does not answer" in silent.stderr) == (6, True), silent
    node.start()
