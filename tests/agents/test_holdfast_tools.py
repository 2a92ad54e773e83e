"""What a real agent's shell tool starts: other runs, and processes that outlive the agent."""

from __future__ import annotations

import shlex

import pytest

from holdfast.agents.recognition_table import SESSION_VARIABLES
from tests.agents.lab import AGENTS, UNATTENDED, Lab
from tests.agents.supervised import WELL, Supervised
from tests.support.waiting import eventually

pytestmark = pytest.mark.agents


@pytest.mark.parametrize("agent", AGENTS)
def test_L7_a_run_started_from_inside_an_agent_inherits_no_session(
    held: Supervised, lab: Lab, agent: str
) -> None:
    _script(lab, "outside", "env -0 > outside.env")
    _script(lab, "inside", "env -0 > inside.part && mv inside.part inside.env")
    _script(lab, "nest", f"./outside; exec {shlex.join(held.argv('run', '-n', 'inner'))} ./inside")
    held.run(agent, "hi [[run: ./nest]]", own=UNATTENDED[agent])
    outer = held.ended(agent)
    inner = held.ended("inner")
    given, inherited = _environment(lab, "outside.env"), _environment(lab, "inside.env")

    assert set(given) & SESSION_VARIABLES  # the agent does hand down something
    assert not set(inherited) & SESSION_VARIABLES
    own = [name for name in set(inherited) - set(held.env) if name.startswith(agent.upper())]
    assert not [name for name in own if "SESSION" in name or "TOKEN" in name], "nor a newer one"
    assert outer["session"]["id"] not in "".join(inherited.values())
    assert given["HOLDFAST_RUN_ID"] == outer["id"]
    assert inherited["HOLDFAST_RUN_ID"] == inner["id"] != outer["id"]
    assert inner["started_in"] == outer["id"]
    assert (inner["outcome"], inner["agent"], inner["session"]) == ("succeeded", None, None)
    assert outer["outcome"] in WELL[agent]
    assert outer["started_in"] is None


def test_L11_what_a_tool_left_behind_is_seen_and_stopped(held: Supervised) -> None:
    """By itself, claude exits 0 and leaves it to PID 1."""
    sleeping = _leave_sleeping(held)
    info = held.ended("claude")
    assert (info["outcome"], info["exit_code"]) == ("succeeded", 0)
    assert info["cleanup"] == {"signalled": 1, "refused": 0, "survivors": [], "complete": True}
    held("check", sleeping, expect=10)


def test_L11_what_a_tool_left_behind_is_kept_if_told(held: Supervised) -> None:
    sleeping = _leave_sleeping(held, "--leftovers", "keep")
    info = held.ended("claude")
    assert (info["outcome"], info["exit_code"]) == ("succeeded", 0)
    assert not (info["cleanup"] or {}).get("signalled")
    held("check", sleeping, expect=0)
    # Two agents in one session would be worse than none.
    assert "sleep" in held("resume", "claude", "go on", expect=4).stderr
    held("rm", "claude", expect=4)
    held("signal", "KILL", sleeping)
    eventually(lambda: held("check", sleeping, expect=None).returncode == 10, why="it is gone")
    held("resume", "claude", "go on")
    assert held.ended("claude")["resumed_from"] == info["id"]


def _leave_sleeping(held: Supervised, *options: str) -> str:
    """The token of the `sleep` that claude's tool has put in the background."""
    prompt = "hi [[run: setsid sleep 1000 & ]] [[delay: 2]]"
    held.run("claude", prompt, *options, own=UNATTENDED["claude"])
    seen = held.seen("claude", lambda process: process["comm"] == "sleep")
    assert seen["verdict"] == "SAME"
    assert "sleep 1000" in held("tree", "claude").stdout
    token: str = seen["token"]
    return token


def _script(lab: Lab, name: str, text: str) -> None:
    path = lab.work_dir / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _environment(lab: Lab, name: str) -> dict[str, str]:
    lines = (lab.work_dir / name).read_text(errors="surrogateescape").split("\0")
    return dict(line.split("=", 1) for line in lines if "=" in line)
