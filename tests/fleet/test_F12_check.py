"""F12: `fleet check` names what is wrong before a run is placed; over ssh, each as really met."""

from __future__ import annotations

import pytest

from holdfast.fleet.check import judge_node
from holdfast.fleet.probe import probe_node
from holdfast.manage.doctor.findings import FindingStatus
from holdfast.manage.starting.logout import survival_in
from holdfast.run.home import Home
from tests.support.features import needs
from tests.support.fuse_server import mounted
from tests.support.waiting import eventually

# Lines of Python that a node's program begins with.
OOM_SCORE = "open('/proc/self/oom_score_adj', 'w').write('500')"
SUBREAPER = """\
import ctypes, os
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
if child := os.fork():
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def failures(submitter, where="ssh:n1"):
    """What `check` calls wrong, by name."""
    found = submitter("fleet", "check", where, "--json")
    failed = {one["name"]: one for one in found.json["findings"] if one["status"] == "fail"}
    assert found.returncode == (1 if failed else 0)
    return failed


def begin_with(node, lines: str) -> None:
    """The node's holdfast does this first."""
    first, rest = node.program.read_text().split("\n", 1)
    node.program.write_text(f"{first}\n{lines}\n{rest}")


def test_F12_check_names_what_is_wrong_before_a_run_is_placed(submitter, world):
    fine = submitter("fleet", "check", "ssh:n1", "--json")
    assert fine.returncode == 0, fine.stdout
    names = {one["name"]: one["status"] for one in fine.json["findings"]}
    assert names["sessions"] == "ok", "also by the first command that goes there"
    assert {"ledger", "sessions", "reach", "version", "home", "parent", "oom"} <= names.keys()
    world.node("n2", sessions=2)
    world.configure()
    few = submitter("fleet", "check", "ssh:n2", "--json").json["findings"]
    sessions = next(one for one in few if one["name"] == "sessions")
    assert (sessions["status"], "carries" in sessions["says"]) == ("missing", True)
    node = world.nodes["n1"]
    node.home.chmod(0o777)
    home = submitter("fleet", "check", "ssh:n1", "--json")
    assert home.returncode == 1
    assert "home" in [one["name"] for one in home.json["findings"] if one["status"] == "fail"]
    node.home.chmod(0o700)
    world.configure(command="/nowhere/holdfast")
    absent = submitter("fleet", "check", "ssh:n1")
    assert absent.returncode == 1
    assert "no /nowhere/holdfast" in absent.stdout
    node.stop()
    down = submitter("fleet", "check", "ssh:n1")
    assert down.returncode == 1
    assert f"-p {node.port}" in down.stdout, "what to type leads there"
    assert "says more" not in down.stdout


def test_F12_sessions_in_use_are_not_counted_as_missing(submitter, world):
    submitter("run", "--on", "ssh:n1", "-n", "a", "sleep", "600", expect=0)
    following = [submitter.start("logs", "-f", "a") for _ in range(2)]
    eventually(lambda: len(world.nodes["n1"].commands()) == 2, 60, "both are there")
    findings = submitter("fleet", "check", "ssh:n1", "--json", expect=0).json["findings"]
    assert next(one["status"] for one in findings if one["name"] == "sessions") == "ok"
    submitter("stop", "a", expect=0)
    for one in following:
        one.communicate(timeout=60)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo one >&2; echo two >&2; exit 3", "one; two"),
        ("exit 137", "it ended with exit code 137, and said nothing"),
    ],
)
def test_F12_a_holdfast_that_does_not_begin_is_quoted_in_one_line(submitter, world, script, says):
    node = world.nodes["n1"]
    node.program.write_text(f"#!/bin/sh\n{script}\n")
    says_reach = failures(submitter)["reach"]["says"]
    assert says_reach.endswith(f"did not begin: {says}"), says_reach


@pytest.mark.parametrize(
    ("lines", "name", "says"),
    [(OOM_SCORE, "oom", "oom_score_adj of 500"), (SUBREAPER, "parent", "a shim's parent is PID")],
    ids=["oom", "parent"],
)
def test_F12_what_runs_there_would_inherit_is_named(submitter, world, lines, name, says):
    begin_with(world.nodes["n1"], lines)
    failed = failures(submitter)
    assert (set(failed), says in failed[name]["says"]) == ({name}, True), failed


def test_F12_a_home_on_a_file_system_whose_locks_may_lie_is_named(submitter, world):
    needs("root", "fuse")
    node = world.nodes["n1"]
    place = node.folder / "far"
    place.mkdir()
    world.configure(home=str(place))
    node.stop()
    with mounted(str(place), "fuse.sshfs", node.uid):
        node.start()  # which may have mounts of its own from then on
        failed = failures(submitter)
        node.stop()
    assert (set(failed), "fuse.sshfs" in failed["home"]["says"]) == ({"home"}, True), failed


def test_F12_a_database_that_does_not_answer_is_named(submitter, world):
    world.configure('[fleet]\nledger = "postgresql://nobody@127.0.0.1:1/none"\n')
    failed = failures(submitter)
    assert "127.0.0.1" in failed["ledger"]["says"]


def test_F12_a_logind_that_ends_runs_at_logout_is_named(tmp_path):
    conf = tmp_path / "etc" / "systemd" / "logind.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text("[Login]\nKillUserProcesses=yes\nKillExcludeUsers=\n")
    fate = survival_in("/user.slice/user-7.slice/session-3.scope", str(tmp_path))
    document = {**probe_node(Home(str(tmp_path / "home")).prepare()), "logout": fate.as_dict()}
    failed = [one for one in judge_node(document, "ssh") if one.status is FindingStatus.FAIL]
    assert [one.name for one in failed] == ["logout"]
    assert "logind kills" in failed[0].says


def test_F12_an_engine_that_does_not_answer_is_one_finding(submitter, monkeypatch):
    needs("slurmctld")
    monkeypatch.setenv("SLURM_CONF", "/nonexistent/slurm.conf")
    assert failures(submitter, "slurm").keys() == {"slurm"}
