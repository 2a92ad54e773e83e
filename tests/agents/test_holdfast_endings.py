"""How runs of real agents end: stopped, stalled, failed, out of quota, done but hanging."""

from __future__ import annotations

import pytest

from holdfast.run.units import duration
from tests.agents.lab import AGENTS, Lab
from tests.agents.stub_model import ANSWER
from tests.agents.supervised import IMPATIENT, Supervised
from tests.agents.test_holdfast_turns import SHAPES

pytestmark = pytest.mark.agents
every_agent = pytest.mark.parametrize("agent", AGENTS)


@every_agent
def test_S1_W2_a_hanging_agent_is_shown_and_stopped(held: Supervised, agent: str) -> None:
    held.run(agent, "hi [[hang]]")
    held.asked()
    workload = held.seen(agent, lambda process: process["role"] == "workload")
    comm, wrappers = SHAPES[agent]
    assert (workload["comm"], workload["verdict"]) == (comm, "SAME")
    tree = held.tree(agent)
    assert [one["comm"] for one in tree if one["role"] == "wrapper"] == wrappers
    shown = held("tree", agent).stdout
    assert f"workload {workload['pid']} SAME" in shown
    refused = held("resume", agent, "go on", expect=4)
    assert "SAME" in refused.stderr
    argv, _ = held.lab.command(agent, "hi")
    held("run", "-n", agent, "--", *argv, expect=4)

    held("stop", agent)
    info = held.info(agent)
    assert (info["state"], info["outcome"], info["ended_by"]) == ("ended", "stopped", "holdfast")
    assert info["session"]["id"]
    assert info["completion"] is None
    assert info["cleanup"]["signalled"] >= 1
    assert info["cleanup"]["survivors"] == []
    assert info["cleanup"]["complete"] is True
    for process in tree:
        held("check", process["token"], expect=10)


@every_agent
def test_a_failure_of_the_api_fails_the_run(held: Supervised, agent: str) -> None:
    # gemini can't be told to give up on a 500 before it has tried for four minutes.
    status = 400 if agent == "gemini" else 500
    env, own = IMPATIENT[agent]
    held.run(agent, f"hi [[fail: {status}]]", own=own, env=env)
    code = status % 256 if agent == "gemini" else 1
    info = held.ended(agent, expect=code)
    assert (info["outcome"], info["exit_code"], info["ended_by"]) == ("failed", code, "itself")
    assert info["completion"]["is_error"] is True
    assert info["result"]["is_error"] is True
    assert info["limit"] is None
    assert info["usage"]["peak_processes"] != 0  # a short life: measured, or not known
    said = held("result", agent, expect=1)
    assert said.stdout.strip() == info["result"]["text"].strip()
    assert "says that it failed" in said.stderr


def test_a_failure_counts_although_the_exit_code_is_0(held: Supervised) -> None:
    held.run_text("claude", "hi [[fail: 400]]", "exit 0")
    info = held.ended("claude", expect=1)
    assert (info["outcome"], info["exit_code"]) == ("failed", 0)
    assert info["workload"]["comm"] == "claude"
    assert "the agent says that it failed" in held("ls").stdout


@every_agent
def test_a_used_up_quota_is_told_apart(held: Supervised, agent: str) -> None:
    knows_the_time = agent != "gemini"
    # claude names the time only to those who are logged in.
    token = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "dummy"}
    held.run(agent, "hi [[limit: 7200]]", env=token if agent == "claude" else None)
    info = held.ended(agent, expect=429 % 256 if agent == "gemini" else 1)
    assert info["outcome"] == "failed"
    assert info["limit"]["text"]
    assert (info["limit"]["retry_at"] is not None) is knows_the_time
    listed, told = held("ls").stdout, held("status", agent).stdout
    assert ("usage limit until" if knows_the_time else "usage limit") in listed
    assert ("a quota is used up, again at" if knows_the_time else "was not said") in told


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_C1_an_agent_that_waits_for_an_answer_stalls_within_the_extension(
    held: Supervised, agent: str
) -> None:
    """To wait on an open connection is no work; what else it does may put the stall off a while."""
    held.run(agent, "hi [[hang]]", "--idle-timeout", "3s")
    held.asked()
    info = held.ended(agent, expect=124)
    assert info["outcome"] == "stalled"
    assert info["completion"] is None
    assert info["cleanup"]["complete"] is True
    assert 3 <= info["stop_figure"] <= 30  # 3 s and their extension to 12 s; it may be slow here
    assert f"silent {duration(info['stop_figure'])}, stopped" in held("ls").stdout


@every_agent
def test_C3_a_process_that_hangs_after_completion_is_drained(held: Supervised, agent: str) -> None:
    held.run_text(agent, "hi", "sleep 1000", "--drain", "1s")
    info = held.ended(agent)
    assert (info["outcome"], info["ended_by"]) == ("completed", "holdfast")
    if agent != "gemini":  # which takes its time to exit, and exits with 0 on SIGTERM
        assert info["exit_code"] != 0 or info["signal"] is not None
    assert info["completion"]["is_error"] is False
    assert info["result"] == {"text": ANSWER, "is_error": False}
    assert info["cleanup"]["complete"] is True
    (proven,) = held.events(agent, "completion_proven")
    (begun,) = held.events(agent, "stop_begun")
    assert begun["cause"] == "completion"
    assert begun["boottime"] - proven["boottime"] >= 1.0
    refused = held("resume", agent, "more", expect=4)
    assert info["session"]["id"] in refused.stderr


def test_C3_completion_is_proven_by_the_transcript_alone(held: Supervised, lab: Lab) -> None:
    """A wrapper that keeps the agent's output to itself, but for the line with the session."""
    _settle_quickly(lab)
    _wrap(lab, "| sed -un 1p")
    held("run", "-n", "quiet", "--agent", "claude", "--drain", "1s", "--", "./mine", "-p", "hi")
    info = held.ended("quiet")
    assert info["completion"]["source"] == "transcript"
    assert info["completion"]["is_error"] is False
    assert (info["outcome"], info["result"]["text"]) == ("completed", ANSWER)


def test_C2_the_completion_in_a_resumed_transcript_is_not_this_runs(
    held: Supervised, lab: Lab
) -> None:
    _settle_quickly(lab)
    _wrap(lab, "")
    held("run", "-n", "mine", "--agent", "claude", "--drain", "1s", "--", "./mine", "-p", "hi")
    first = held.ended("mine")
    asked = len(lab.requests())
    held("resume", "mine", "go on [[delay: 8]]")
    held.asked(asked + 1)
    second = held.ended("mine")
    assert second["session"] == first["session"]
    assert second["result"] == {"text": ANSWER, "is_error": False}
    (proven,) = held.events(second["id"], "completion_proven")
    (session, *_) = held.events(second["id"], "session_found")
    assert proven["boottime"] - session["boottime"] > 6


def _wrap(lab: Lab, then: str) -> None:
    """A script around claude that passes its arguments on, and does not end."""
    (program, *_), _ = lab.command("claude", "")
    script = lab.work_dir / "mine"
    options = "--output-format stream-json --verbose"
    script.write_text(f'#!/bin/sh\n{program} {options} "$@" {then}\nsleep 1000\n')
    script.chmod(0o755)


def _settle_quickly(lab: Lab) -> None:
    """Claude's own profile, but that its transcript need not be quiet for half a minute."""
    from holdfast.agents.places import BUILT_IN_DIRECTORY

    with open(f"{BUILT_IN_DIRECTORY}/claude.toml", encoding="utf-8") as file:
        text = file.read()
    assert "settle_seconds = 30" in text
    directory = lab.home / ".config" / "holdfast" / "agents"
    directory.mkdir(parents=True)
    text = text.replace("settle_seconds = 30", "settle_seconds = 1")
    (directory / "claude.toml").write_text("replaces = true\n" + text)
