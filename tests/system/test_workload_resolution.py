"""W1-W4 and L11 with the real wrappers: whose figures are they, and which process is meant?"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from holdfast.process.workload.resolution import ResolutionKind
from holdfast.wrappers import WRAPPERS
from tests.support.features import needs
from tests.support.waiting import eventually
from tests.support.watched import PYTHON, Watched, faulty

UV = str(Path(sys.executable).with_name("uv"))  # of our own tools
HOG = faulty("hog60")
HOG_TEXT = shlex.join(HOG)
PEAK_BYTES = 30_000 * 1024
NODE_SHIM = """#!/usr/bin/env node
const { spawn } = require("child_process");
const child = spawn(process.argv[2], process.argv.slice(3), { stdio: "inherit" });
child.on("exit", (code) => process.exit(code));
"""

# Each forks: the workload has another PID than the root.
FORKING = {
    "script": ["script", "-qefc", HOG_TEXT, "/dev/null"],
    "sh -c": ["sh", "-c", f"{HOG_TEXT}; true"],
    "sh -c pipe": ["sh", "-c", f"{HOG_TEXT} | cat"],
    "sh -c subshell": ["sh", "-c", f"({HOG_TEXT}; true); true"],
    "bash -lc": ["bash", "-lc", f"{HOG_TEXT}; true"],
    "timeout": ["timeout", "600", *HOG],
    "setsid": ["setsid", *HOG],
    "flock": ["flock", "-n", "{tmp}/lock", *HOG],
    "script, sh -c": ["script", "-qefc", f"sh -c {shlex.quote(HOG_TEXT + '; true')}", "/dev/null"],
    "timeout, bash -lc": ["timeout", "600", "bash", "-lc", f"{HOG_TEXT}; true"],
    "sh -c, timeout": ["sh", "-c", f"timeout 600 {HOG_TEXT}; true"],
    "nice, timeout": ["nice", "timeout", "600", *HOG],
    "env, script": ["env", "A=b", "script", "-qefc", HOG_TEXT, "/dev/null"],
}

# Each becomes its program: the identity of the root is the workload's.
EXECING = {
    "env": ["env", "A=b", *HOG],
    "nice": ["nice", "-n", "1", *HOG],
    "stdbuf": ["stdbuf", "-oL", *HOG],
    "nohup": ["nohup", *HOG],
    "sh -c exec": ["sh", "-c", f"exec {HOG_TEXT}"],
    "bash -lc exec": ["bash", "-lc", f"exec {HOG_TEXT}"],
    "env, nice, stdbuf": ["env", "nice", "stdbuf", "-oL", *HOG],
}


def assert_it_is_the_hog(watched: Watched) -> None:
    watched.until(lambda: watched.resolution.workload is not None, "the workload is found")
    watched.until(
        lambda: (watched.peaks.usage()["peak_rss_bytes"] or 0) > PEAK_BYTES, "its memory is seen"
    )
    workload = watched.resolution.workload
    assert workload is not None
    assert str(FAULTY_HOG) in workload.cmdline
    comms = {row["comm"] for row in watched.rows if "comm" in row}
    assert not comms & set(WRAPPERS) - {"python"}, comms
    assert not comms & {"sh", "bash", "dash", "node"}, comms
    tokens = {row["token"] for row in watched.rows if "token" in row}
    assert tokens == {workload.identity.token}
    assert watched.anomalies == []


FAULTY_HOG = HOG[-1]


@pytest.mark.parametrize("name", FORKING)
def test_W1_W2_the_workload_behind_a_wrapper_that_forks(name, tmp_path):
    command = [word.replace("{tmp}", str(tmp_path)) for word in FORKING[name]]
    with Watched(command, interval=0.05) as watched:
        assert_it_is_the_hog(watched)
        workload = watched.resolution.workload
        assert workload is not None
        assert watched.resolution.kind is ResolutionKind.RESOLVED
        assert workload.identity.pid != watched.root.pid


@pytest.mark.parametrize("name", EXECING)
def test_W2_the_workload_that_a_wrapper_becomes(name):
    with Watched(EXECING[name], interval=0.05) as watched:
        assert_it_is_the_hog(watched)
        assert watched.resolution.kind is ResolutionKind.DIRECT
        assert watched.resolution.workload is not None
        assert watched.resolution.workload.identity == watched.root


@pytest.mark.parametrize("deep", [False, True])
def test_W2_a_node_shim(deep, tmp_path):
    needs("node")
    shim = tmp_path / "tool"
    shim.write_text(NODE_SHIM)
    shim.chmod(0o755)
    command = ["sh", "-c", f"{shim} {HOG_TEXT}; true"] if deep else [str(shim), *HOG]
    with Watched(command, interval=0.1) as watched:
        assert_it_is_the_hog(watched)
        assert len(watched.resolution.wrappers) == 1 + deep


def test_W2_npm_exec(tmp_path):
    needs("npm")
    bin_directory = tmp_path / "node_modules" / ".bin"
    bin_directory.mkdir(parents=True)
    (tmp_path / "package.json").write_text("{}")
    (bin_directory / "tool").write_text(NODE_SHIM)
    (bin_directory / "tool").chmod(0o755)
    quiet = {"npm_config_update_notifier": "false", "npm_config_cache": str(tmp_path / "cache")}
    with Watched(["npx", "--no-install", "tool", *HOG], cwd=tmp_path, env=quiet) as watched:
        assert_it_is_the_hog(watched)


def test_W2_uv_run(tmp_path):
    run = [UV, "run", "--no-project", "--offline", "--python", PYTHON]
    (tmp_path / "work").mkdir()
    cache = {"UV_CACHE_DIR": str(tmp_path / "cache")}
    with Watched([*run, *HOG], cwd=tmp_path / "work", env=cache) as watched:
        assert_it_is_the_hog(watched)
        assert watched.resolution.kind is ResolutionKind.RESOLVED


# Names.


@pytest.mark.parametrize("name", ["hog60.py", "hog60", "python", os.path.basename(PYTHON)])
def test_a_workload_is_found_by_any_of_its_names(name):
    with Watched(FORKING["script, sh -c"], expected=name, interval=0.05) as watched:
        assert_it_is_the_hog(watched)


def test_W3_a_name_that_never_appears_gets_nobodys_figures():
    with Watched(FORKING["sh -c"], expected="claude", interval=0.05) as watched:
        watched.until(lambda: watched.rows[-1]["tree"]["processes"] == 2, "the hog runs")
        watched.for_samples(5)
        assert watched.resolution.kind is ResolutionKind.UNRESOLVED
        assert "claude" in watched.resolution.why
        for row in watched.rows:
            assert row["resolution"] == "unresolved"
            assert set(row) == {"at", "boottime", "resolution", "tree"}
            assert set(row["tree"]) == {"processes"}
        assert set(watched.peaks.usage().values()) == {None}


def test_two_programs_at_once_are_said_and_summed_but_not_named():
    with Watched(["sh", "-c", f"{HOG_TEXT} & sleep 600"], interval=0.05) as watched:
        watched.until(lambda: watched.resolution.candidates, "both run")
        watched.until(
            lambda: (watched.peaks.usage()["peak_rss_bytes"] or 0) > PEAK_BYTES, "their sum"
        )
        assert watched.resolution.kind is ResolutionKind.UNRESOLVED
        assert "hog60.py" in watched.resolution.why
        assert "sleep" in watched.resolution.why
        assert not [row for row in watched.rows if "comm" in row]


# W4.


def test_W4_a_short_workload_is_itself_or_nobody():
    for _ in range(5):
        with Watched(["sh", "-c", "sleep 0.05; exit 3"], interval=0.0) as watched:
            watched.until(lambda: watched.process.poll() is not None, "it ends")
            assert {row.get("comm") for row in watched.rows} <= {None, "sleep"}


def test_W4_exec_is_a_fact_and_keeps_the_identity():
    code = "import os, time; time.sleep(0.5); os.execvp('sleep', ['sleep', '600'])"
    with Watched([PYTHON, "-S", "-c", code]) as watched:
        watched.until(lambda: watched.resolution.workload is not None, "it runs")
        watched.until(lambda: watched.rows[-1].get("comm") == "sleep", "it has become sleep")
        [fact] = [fact for fact in watched.finder.take_execs() if fact.comm == "sleep"]
        assert fact.identity == watched.root
        assert fact.was.startswith("python")
        assert watched.resolution.workload is not None
        assert watched.resolution.workload.identity == watched.root
        assert watched.anomalies == []


def test_W4_workers_that_outlive_the_root_are_leftovers(tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    code = "import os, signal, sys; os.fork() or signal.pause(); open(sys.argv[1]).read()"
    command = [PYTHON, "-S", "-c", code, str(gate)]
    for expected in (None, "python"):
        with Watched(command, interval=0.02, expected=expected) as watched:
            watched.until(lambda: watched.resolution.workload is not None, "the root is seen")
            gate.write_text("")
            watched.until(lambda: watched.process.poll() is not None, "the root exits")
            members = watched.tree.walk()
            resolution = watched.finder.look(members)
            assert len(members) == 1
            assert resolution.kind is ResolutionKind.DIRECT
            assert resolution.workload is not None
            assert resolution.workload.identity == watched.root
            assert not resolution.outlives_root


# The root exits first.


def test_L11_setsid_leaves_a_workload_that_the_run_lasts_for():
    with Watched(["setsid", *HOG], interval=0.05) as watched:
        assert_it_is_the_hog(watched)
        watched.until(lambda: watched.process.poll() is not None, "the root exits")
        assert watched.process.poll() == 0
        assert watched.resolution.workload is not None
        assert watched.finder.root == watched.resolution.workload.identity


def test_L11_what_a_shell_leaves_counts_only_when_named():
    command = ["sh", "-c", f"{HOG_TEXT} &"]
    with Watched(command, expected="hog60.py", interval=0.05) as watched:
        assert_it_is_the_hog(watched)
        assert watched.resolution.outlives_root
    with Watched(command, interval=0.05) as watched:
        eventually(lambda: watched.process.poll() is not None, why="the shell exits")
        watched.for_samples(5)
        assert len(watched.tree.walk()) == 1
        assert not watched.resolution.outlives_root


# Shells that do the work.


def test_a_shell_that_computes_itself_is_the_workload_in_the_end():
    with Watched(["sh", "-c", "eval 'while :; do :; done'"]) as watched:
        assert watched.step()["resolution"] == "unresolved"
        watched.until(
            lambda: watched.resolution.kind is ResolutionKind.DIRECT, "it has used a second"
        )
        assert watched.resolution.workload is not None
        assert watched.resolution.workload.identity == watched.root


def test_a_script_file_is_the_workload_whatever_it_runs(tmp_path):
    script = tmp_path / "agent.sh"
    script.write_text("#!/bin/sh\nsleep 600\n")
    script.chmod(0o755)
    for command in (["sh", str(script)], [str(script)]):
        with Watched(command) as watched:
            watched.until(lambda: watched.rows[-1]["tree"]["processes"] == 2, "it sleeps")
            watched.until(
                lambda: watched.resolution.kind is ResolutionKind.DIRECT, "it is the workload"
            )
            watched.for_samples(5)
            assert watched.resolution.kind is ResolutionKind.DIRECT


def test_a_loop_of_commands_becomes_the_workload_itself():
    with Watched(["sh", "-c", "while sleep 0.15; do :; done"], interval=0.05) as watched:
        watched.until(lambda: watched.resolution.kind is ResolutionKind.DIRECT, "it is a script")
        assert "does the work itself" in watched.resolution.why
        os.kill(watched.root.pid, signal.SIGTERM)
