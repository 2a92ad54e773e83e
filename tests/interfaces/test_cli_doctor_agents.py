"""`doctor --agents`: which agents are found, and what is told of each."""

from __future__ import annotations

import pytest


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A PATH with what the test puts there, and the system's own programs."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def add(name: str, script: str) -> None:
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)

    return add


def test_what_is_here_what_is_broken_and_what_is_missing(holdfast, programs, tmp_path):
    programs("claude", "echo '1.2.3 (Claude Code)'")
    programs("codex", "echo oops; exit 3")
    done = holdfast("doctor", "--agents")
    said = " ".join(done.stdout.split())
    assert "ok claude 1.2.3 (its profile was checked with " in said
    assert f"{tmp_path}/bin/claude" in "".join(done.stdout.split())
    assert "sees session (stdout, hooks), completion (stdout, transcript)" in said
    assert "usage (tokens while it works, cost)" in said
    assert "when run with --output-format stream-json --verbose; holds max-tokens" in said
    assert "max-cost by its own --max-budget-usd; reports by hooks (--settings):" in said
    assert "permission, question, turn over; can resume by session id" in said
    assert "-- codex" in said
    assert "does not work: --version: exit code 3, 'oops'" in said
    assert "-- gemini Gemini CLI is not on PATH fix: npm install -g @google/gemini-cli" in said
    assert max(map(len, done.stdout.splitlines())) <= 80
    # A missing agent is nobody's fault.
    assert done.returncode == holdfast("doctor").returncode


def test_json_has_every_agent_and_plain_doctor_none(holdfast, programs):
    programs("codex", "echo codex-cli 0.9.1")
    document = holdfast("doctor", "--agents", "--json").json
    agents = {agent["name"]: agent for agent in document["agents"]}
    assert agents.keys() >= {"claude", "codex", "gemini", "opencode", "aider"}
    codex = agents["codex"]
    assert (codex["version"], codex["problem"]) == ("0.9.1", None)
    assert codex["sees"] == {
        "session": "stdout, hooks",
        "completion": "stdout, transcript",
        "usage": "tokens while it works",
        "budget": "max-tokens",
        "limit": "stdout",
        "resume": "by session id",
        "attention": "permission, turn over",
        "approve": "in a terminal",
        "hooks": "-c, in a terminal",
        "why_no_hooks": None,
    }
    # A7: of aider only the cost is known.
    assert agents["aider"]["sees"]["usage"] == "cost"
    assert agents["aider"]["sees"]["budget"] == "max-cost"
    assert agents["claude"]["path"] is None
    assert "agents" not in holdfast("doctor", "--json").json


@pytest.mark.usefixtures("programs")
def test_a_profile_with_a_mistake_fails_and_is_named(holdfast, tmp_path):
    profiles = tmp_path / "config" / "holdfast" / "agents"
    profiles.mkdir(parents=True)
    (profiles / "mine.toml").write_text("[recognise]\ncommands = 7\n")
    done = holdfast("doctor", "--agents", "--json", expect=1)
    [found] = [one for one in done.json["findings"] if one["name"] == "agents"]
    assert found["status"] == "fail"
    assert "mine.toml" in found["says"]
    assert "FAIL  agents" in holdfast("doctor", "--agents", "-q", expect=1).stdout
