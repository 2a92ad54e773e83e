"""A1, A2, A3: the real claude reports by the hooks that it is handed, and takes answers by them."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from holdfast.agents.hook_words import PROGRAM
from tests.agents.lab import executable
from tests.agents.supervised import Supervised
from tests.support.waiting import eventually

pytestmark = pytest.mark.agents


def _prepare(held: Supervised) -> None:
    """What claude asks a person the first time it has a terminal."""
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
        "projects": {str(held.lab.work_dir): project},
    }
    (held.lab.home / ".claude.json").write_text(json.dumps(known))


def _talk(held: Supervised, prompt: str, *options: str) -> None:
    _prepare(held)
    held("run", "-n", "a", "--pty", *options, "--", executable("claude"), prompt)


def _asked(held: Supervised, count: int = 1) -> list[dict[str, Any]]:
    def look() -> list[dict[str, Any]] | None:
        asked = held.info("a")["attention"]
        found = [] if asked is None else [asked, *asked["others"]]
        found = [one for one in found if one["kind"] == "permission"]
        return found if len(found) == count else None

    return eventually(look, timeout=90, why="claude asks")


def test_A2_claude_is_allowed_from_another_process(held):
    _talk(held, "go [[ask: mkdir made]]", "--approve", "ask")
    (question,) = _asked(held)
    assert question["text"] == "permission for Bash: mkdir made"
    held("approve", "a", question["id"])
    eventually((held.lab.work_dir / "made").exists, timeout=60, why="the tool has run")
    assert held.events("a", "attention_over")[0]["how"] == "approved"
    held("stop", "a", "--grace", "2")


def test_A2_claude_is_refused_from_another_process(held):
    _talk(held, "go [[ask: mkdir made]]", "--approve", "ask")
    (question,) = _asked(held)
    held("deny", "a", question["id"], "--message", "not here")
    eventually(
        lambda: (held.info("a")["attention"] or {}).get("kind") == "turn_over",
        timeout=60,
        why="its turn is over",
    )
    assert not (held.lab.work_dir / "made").exists()
    held("stop", "a", "--grace", "2")


def test_A3_a_plain_turn_of_claude_is_resumed_and_hooks_of_the_user_run(held):
    settings = held.lab.home / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    mine = held.lab.directory / "mine"
    own = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": f"touch {mine}"}]}]}}
    settings.write_text(json.dumps(own))
    held("run", "-n", "a", "--", executable("claude"), "-p", "hello")
    info = held.ended("a")
    assert held("logs", "a").stdout == "hello from the stub\n"
    assert held("result", "a").stdout == "hello from the stub\n"
    assert info["usage"]["tokens_in"] == 5
    assert mine.exists()
    assert json.loads(settings.read_text()) == own
    held("resume", "a", "again")
    assert held.ended("a")["session"]["id"] == info["session"]["id"]


def test_a_hook_adds_at_most_60_ms_to_a_call(held):
    """The best of many, as the machine may be busy: what it costs, not what it waits for."""
    program = held.lab.directory / "claude"
    report = json.dumps({"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "x"})
    program.write_text(
        f"#!{sys.executable}\n"
        "import subprocess, time\n"
        f"command = {[sys.executable, '-I', '-S', PROGRAM]!r}\n"
        "def call():\n"
        "    began = time.perf_counter()\n"
        f"    subprocess.run(command, input={report!r}.encode(), check=True)\n"
        "    return time.perf_counter() - began\n"
        "print(min(call() for _ in range(30)))\n"
    )
    program.chmod(0o755)
    held("run", "-n", "a", "--", program, "-p", "x")
    info = held.ended("a")
    assert info["session"]["id"] == "s", "its reports were taken"
    seconds = float(held("logs", "a").stdout)
    assert seconds <= 0.060, seconds
