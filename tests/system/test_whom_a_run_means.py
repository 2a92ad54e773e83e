"""Whom a run means: never a wrapper, the shell where it is a script, and what starts itself again
only once it has."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.support.running import ended, events_of, info_of, root_pid, stop, wait_for
from tests.support.waiting import eventually
from tests.support.watched import PYTHON

SLEEPER = shlex.join([PYTHON, "-S", "-c", "import time; time.sleep(600)"])

# It starts itself again when a file appears, ends after what it started, and tells their numbers.
RELAUNCHER = f"""#!{sys.executable} -S
import os, pathlib, subprocess, sys, time
here = pathlib.Path(__file__).parent
if "AGAIN" in os.environ:
    (here / "inner").write_text(str(os.getpid()))
    while not (here / "end").exists():
        time.sleep(0.02)
    sys.exit(0)
while not (here / "again").exists():
    time.sleep(0.02)
words = [sys.executable, "-S", "-X", "utf8", __file__, *sys.argv[1:]]
sys.exit(subprocess.call(words, env={{**os.environ, "AGAIN": "1"}}))
"""


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _roles(holdfast, name: str) -> dict[str, list[int]]:
    document = json.loads(holdfast("tree", name, "--json", expect=0).stdout)
    roles: dict[str, list[int]] = {}
    for one in document["processes"]:
        roles.setdefault(one["role"], []).append(one["pid"])
    return roles


def test_nobody_is_the_workload_before_it_is_known(holdfast):
    holdfast("run", "-n", "c", "script", "-qefc", SLEEPER, "/dev/null", expect=0)
    for _ in range(5):
        info, roles = info_of("c"), _roles(holdfast, "c")
        assert root_pid("c") not in roles.get("workload", [])
        assert (info.workload is None) is (info.workload_resolution == "unresolved")
        assert info.workload is None or info.workload["pid"] != root_pid("c")
    workload = wait_for("c", lambda info: info.workload, why="the workload is known")
    assert workload["comm"].startswith("python")
    stop(holdfast, "c")


def test_a_name_that_nobody_has_yet_is_unresolved_from_the_first_moment(holdfast):
    holdfast("run", "-n", "c", "--workload", "nonesuch", "sleep", "600", expect=0)
    info = info_of("c")
    assert (info.workload, info.workload_resolution) == (None, "unresolved")
    assert f"workload {root_pid('c')}" not in info.evidence
    stop(holdfast, "c")


def test_a_signal_to_a_run_that_was_just_started_waits_for_the_workload(holdfast):
    holdfast("run", "-n", "c", "script", "-qefc", SLEEPER, "/dev/null", expect=0)
    done = holdfast("signal", "URG", "c", "--json")
    if done.returncode == 4:  # a machine so slow that it was refused instead
        assert info_of("c").state == "running"
    else:
        signalled = json.loads(done.stdout)["identity"]["pid"]
        assert signalled != root_pid("c")
        workload = info_of("c").workload
        assert workload is not None
        assert signalled == workload["pid"]
    stop(holdfast, "c")


def test_a_signal_to_a_run_whose_workload_does_not_come_is_refused(holdfast):
    holdfast("run", "-n", "c", "--workload", "nonesuch", "sleep", "600", expect=0)
    done = holdfast("signal", "TERM", "c", expect=4)
    assert "not known" in done.stderr
    assert "holdfast tree c" in done.stderr
    assert info_of("c").state == "running"
    stop(holdfast, "c")


def test_a_short_program_behind_script_is_named(holdfast):
    short = shlex.join([PYTHON, "-S", "-c", "import time; time.sleep(0.8)"])
    named = []
    for number in range(5):  # on a machine that stands still for a second, nobody sees it
        name = f"c{number}"
        holdfast("run", "-n", name, "script", "-qefc", short, "/dev/null", expect=0)
        workload = ended(name).workload
        named.append(workload.comm or "" if workload is not None else "")
        if named[-1].startswith("python"):
            return
    pytest.fail(f"never named: {named}")


@pytest.mark.parametrize(
    "loop",
    ["while true; do sleep 0.05; done", "for i in 1 2 3 4 5 6 7 8; do sleep 0.05; done"],
)
def test_a_shell_loop_is_one_workload_the_shell(holdfast, loop):
    run = ("run", "-n", "l", "--sample-interval", "0.1", "bash", "-c", f"{loop}; sleep 600")
    holdfast(*run, expect=0)
    eventually(
        lambda: sum(len(event["members"]) for event in events_of("l", "members_seen")) > 2,
        why="it has run some programs",
    )
    found = events_of("l", "workload_resolved")
    assert [(event["resolution"], event["workload"]["comm"]) for event in found] == [
        ("direct", "bash")
    ]
    assert found[0]["workload"]["pid"] == root_pid("l")
    holdfast("stop", "l", expect=0)


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "{}; true"],
        ["bash", "-lc", "{}; true"],
        ["sh", "-c", "cd / && exec {}"],
        ["sh", "-c", "VAR=1 {}; exit"],
        ["sh", "-c", "mkdir -p . && {}; true"],
        ["sh", "-c", "{} & wait"],
    ],
    ids=lambda command: command[2],
)
def test_one_command_in_a_shell_is_still_found(holdfast, command):
    holdfast("run", "-n", "c", *(word.format(SLEEPER) for word in command), expect=0)
    workload = wait_for("c", lambda info: info.workload, why="the workload is known")
    assert workload["comm"].startswith("python")
    stop(holdfast, "c")


def test_an_agent_that_a_loop_starts_is_found(holdfast, tmp_path):
    agent = tmp_path / "claude"
    agent.write_text("#!/bin/sh\nexec sleep 600\n")
    agent.chmod(0o755)
    loop = f"sleep 0.1; while true; do {agent} -p x; sleep 0.1; done"
    holdfast("run", "-n", "c", "bash", "-c", loop, expect=0)
    wait_for("c", lambda info: info.workload, why="the workload is known")
    found = [event["workload"] for event in events_of("c", "workload_resolved")]
    assert root_pid("c") not in [one["pid"] for one in found if one is not None]
    stop(holdfast, "c")


def test_a_named_program_of_a_loop_is_found(holdfast):
    loop = "while true; do sleep 600; done"
    holdfast("run", "-n", "c", "--workload", "sleep", "bash", "-c", loop, expect=0)
    workload = wait_for("c", lambda info: info.workload, why="the workload is known")
    assert workload["comm"] == "sleep"
    stop(holdfast, "c")


def test_a_stop_asks_the_program_of_a_shell_that_traps_the_signal(holdfast):
    """The shell runs its trap when its program has ended: who asks the shell alone waits long."""
    script = "trap 'exit 0' TERM; echo ready; while true; do sleep 600; done"
    holdfast("run", "-n", "c", "--grace", "300", "bash", "-c", script, expect=0)
    eventually(lambda: len(_roles(holdfast, "c").get("descendant", [])) == 1, why="it sleeps")
    holdfast("stop", "c", expect=0, timeout=200)
    assert info_of("c").exit_code == 0


def test_an_agent_that_starts_itself_again_is_meant_only_then(holdfast, tmp_path):
    gemini = tmp_path / "gemini"
    gemini.write_text(RELAUNCHER)
    gemini.chmod(0o755)
    holdfast("run", "-n", "g", gemini, "-p", "hi", expect=0)
    info = info_of("g")
    assert info.agent == "gemini"
    assert (info.workload, info.workload_resolution) == (None, "unresolved")
    (tmp_path / "again").touch()
    workload = wait_for("g", lambda info: info.workload, why="the workload is known")
    inner = int(eventually(lambda: _text(tmp_path / "inner"), why="it tells its number"))
    assert (workload["pid"], inner != root_pid("g")) == (inner, True)
    (tmp_path / "end").touch()
    info = ended("g")
    assert info.workload is not None
    assert (info.outcome, info.workload["pid"]) == ("succeeded", inner)
    found = [event["workload"] for event in events_of("g", "workload_resolved")]
    assert {one["pid"] for one in found if one is not None} == {inner}


def test_a_launcher_whose_second_self_nobody_saw_is_not_taken_for_it(holdfast, tmp_path):
    gemini = tmp_path / "gemini"
    gemini.write_text("#!/bin/sh\nexit 0\n")
    gemini.chmod(0o755)
    holdfast("run", "-n", "g", gemini, "-p", "hi", expect=0)
    info = ended("g")
    assert (info.outcome, info.workload) == ("succeeded", None)
    assert info.workload_resolution == "unresolved"
