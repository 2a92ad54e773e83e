"""Q11 with the real agents: a used-up quota, and the session goes on by itself when it is back."""

from __future__ import annotations

from importlib import resources
from typing import Any

import pytest

from holdfast.process.clock import seconds_of
from tests.agents.stub_model import ANSWER
from tests.agents.supervised import Supervised
from tests.support.waiting import eventually

pytestmark = pytest.mark.agents

SOON = ("--limit-margin", "0", "--limit-spread", "0", "--limit-waits", "0")
# claude names the time only to those who are logged in.
LOGGED_IN = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "dummy"}
PROMPT = "Continue where you left off."


def _start(held: Supervised, agent: str, seconds: int, policy: str = "resume") -> None:
    env = LOGGED_IN if agent == "claude" else None
    held.run(agent, f"hi [[limit: {seconds}]]", "--on-limit", policy, *SOON, env=env)


def _waiting(held: Supervised, agent: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        info = held.info(agent)
        reason = (info["queue"] or {}).get("waits_for") or {}
        return info if reason.get("kind") == "limit" else None

    return eventually(look, timeout=60, why=f"{agent} waits for its quota")


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_Q11_it_goes_on_once_by_itself(held: Supervised, agent: str) -> None:
    _start(held, agent, 8)
    info = held.ended(agent)
    assert (info["outcome"], info["attempt"], info["limit"]) == ("succeeded", 2, None)
    assert info["result"]["text"] == ANSWER
    first, second = info["attempts"]
    assert first["command"] == info["command"]
    assert first["outcome"] == "failed"
    session = info["session"]["id"]
    assert any(session in word for word in second["command"])
    assert PROMPT in second["command"][-1]
    assert second["command"][0] == first["command"][0]
    if first["limit"]["retry_at"] is not None:
        assert seconds_of(second["started_at"]) >= seconds_of(first["limit"]["retry_at"])
    assert len(held.events(agent, "restart_scheduled")) == 1
    prompts = held.lab.requests()[-1]["prompts"]
    assert any("hi [[limit" in one for one in prompts), "the session has what was asked first"


def test_Q11_gemini_keeps_no_session_that_had_no_answer(held: Supervised) -> None:
    _start(held, "gemini", 8)
    info = held.ended("gemini", expect=42)
    assert (info["outcome"], info["attempt"]) == ("failed", 2)
    assert "No previous sessions found" in held("logs", "gemini").stdout
    assert len(held.events("gemini", "restart_scheduled")) == 1


def test_Q11_each_attempt_is_in_attempts_and_the_cap_holds(held: Supervised) -> None:
    built_in = resources.files("holdfast.agents.profiles").joinpath("claude.toml").read_text()
    again = built_in.replace("[resume]", '[resume]\ndefault_prompt = "again [[limit: 2]]"')
    own = held.lab.home / ".config" / "holdfast" / "agents" / "claude.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f"replaces = true\n{again}")
    _start(held, "claude", 2, "resume:2")
    info = held.ended("claude", expect=1)
    assert (info["outcome"], info["attempt"]) == ("failed", 3)
    assert "2 times was the most" in info["evidence"]
    commands = [one["command"] for one in info["attempts"]]
    assert [one[-1] for one in commands[1:]] == ["again [[limit: 2]]"] * 2
    assert all("--resume" in one for one in commands[1:])
    assert [one["limit"]["retry_at"] is not None for one in info["attempts"]] == [True] * 3


def test_Q11_stop_ends_the_wait(held: Supervised) -> None:
    _start(held, "claude", 7200)
    info = _waiting(held, "claude")
    assert info["state"] == "starting"
    assert "usage limit until" in held("ls").stdout
    held("stop", "claude")
    info = held.info("claude")
    assert (info["outcome"], info["attempt"]) == ("stopped", 1)
