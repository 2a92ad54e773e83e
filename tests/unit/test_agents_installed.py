"""`doctor --agents`: which agents are here, and what can be seen of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agents.installed import FoundAgent, find_agents, visibility
from holdfast.agents.loader import load_profile


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return directory


def _program(directory: Path, name: str, script: str) -> None:
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


def _found(name: str, seconds: float = 20.0) -> FoundAgent:
    return next(agent for agent in find_agents(seconds) if agent.name == name)


def test_a_version_is_read_out_of_what_the_program_says(programs):
    _program(programs, "claude", "echo '2.1.197 (Claude Code)'")
    _program(programs, "codex", "echo codex-cli 0.166.0 >&2")
    claude = _found("claude")
    assert (claude.version, claude.problem) == ("2.1.197", None)
    assert claude.path == str(programs / "claude")
    assert _found("codex").version == "0.166.0"


@pytest.mark.usefixtures("programs")
def test_a_missing_agent_is_listed_with_how_to_install_it():
    gemini = _found("gemini")
    assert (gemini.path, gemini.version, gemini.problem) == (None, None, "not on PATH")
    assert "npm install" in str(gemini.install)


def test_a_program_that_fails_is_a_problem_not_an_error(programs):
    _program(programs, "gemini", "echo broken; exit 3")
    assert "exit code 3, 'broken'" in str(_found("gemini").problem)


def test_a_program_that_hangs_is_given_up(programs):
    _program(programs, "codex", "exec sleep 60")
    assert "did not end within 0.5 s" in str(_found("codex", 0.5).problem)


def test_generic_is_no_program():
    assert "generic" not in [agent.name for agent in find_agents()]


def test_what_can_be_seen_is_said():
    assert visibility(load_profile("claude")).as_dict() == {
        "session": "stdout, hooks",
        "completion": "stdout, transcript",
        "usage": "tokens while it works, cost",
        "budget": "max-tokens, max-cost by its own --max-budget-usd",
        "limit": "stdout",
        "resume": "by session id",
        "attention": "permission, question, turn over",
        "approve": "in a terminal",
        "hooks": "--settings",
        "why_no_hooks": None,
    }
    aider = visibility(load_profile("aider"))
    assert (aider.session, aider.completion, aider.usage) == (None, None, "cost")
    assert (aider.attention, aider.approve) == (None, None)
    assert aider.budget == "max-cost"
    held = {name: visibility(load_profile(name)).budget for name in ("codex", "gemini", "opencode")}
    assert held == {
        "codex": "max-tokens",
        "gemini": "max-tokens",
        "opencode": "max-tokens, max-cost",
    }
    assert set(visibility(load_profile("generic")).as_dict().values()) == {None}
