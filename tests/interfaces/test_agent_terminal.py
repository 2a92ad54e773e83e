"""An agent that would talk to somebody, started where nobody can: said at the start."""

from __future__ import annotations

import pytest

from holdfast.agents.recognition import needs_terminal
from tests.support.running import ended

WARNING = "expects a terminal, and this run has none"


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Programs that are called as agents are, and end at once."""
    for name in ("claude", "codex"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")


@pytest.mark.usefixtures("path")
def test_claude_without_p_is_warned_of_with_what_to_add(holdfast):
    done = holdfast("run", "-n", "a", "claude", "fix the tests", expect=0)
    assert f"claude {WARNING}" in done.stderr
    assert "--pty" in done.stderr
    assert "claude -p" in done.stderr
    assert done.stdout == "a\n", "it was started all the same"
    ended("a")
    assert "codex exec" in holdfast("run", "-n", "b", "codex", expect=0).stderr
    ended("b")


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("options", "command"),
    [
        (["--pty"], ["claude"]),
        (["-q"], ["claude"]),
        (["--stdin", "pipe"], ["claude"]),
        (["--agent", "none"], ["claude"]),
        ([], ["claude", "-p", "fix the tests"]),
        ([], ["env", "A=b", "claude", "--print", "fix the tests"]),
        ([], ["claude", "mcp", "list"]),
        ([], ["codex", "exec", "fix the tests"]),
        ([], ["true"]),
    ],
)
def test_where_none_is_needed_nothing_is_said(holdfast, options, command):
    done = holdfast("run", "-n", "a", *options, *command, expect=0)
    assert WARNING not in done.stderr
    ended("a")


@pytest.mark.parametrize(
    ("words", "agent"),
    [
        ("gemini", "gemini"),
        ("gemini -m flash", "gemini"),
        ("gemini --prompt=hello", None),
        ("claude -phello", None),
        ("opencode", "opencode"),
        ("opencode run hello", None),
        ("opencode serve", None),
        ("aider a.py", "aider"),
        ("aider --message hello a.py", None),
        ("npx @openai/codex", "codex"),
        ("python3 -m aider", "aider"),
        ("make", None),
    ],
)
def test_the_profile_says_what_needs_a_terminal(words, agent):
    needed = needs_terminal(words.split())
    assert (None if needed is None else needed[0]) == agent
