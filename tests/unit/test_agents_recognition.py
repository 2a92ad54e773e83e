"""Which agent a command starts, and what is stripped from the environment of a run."""

from __future__ import annotations

import pytest

from holdfast.agents.loader import built_in_profiles
from holdfast.agents.recognition import locate, recognise, strip_environment
from holdfast.agents.recognition_table import SESSION_VARIABLES
from holdfast.errors import InvalidProfile
from holdfast.shell_words import plain_words

RECOGNISED = [
    ("claude", ["claude", "-p", "x"]),
    ("claude", ["/opt/bin/claude"]),
    ("codex", ["codex", "exec", "x"]),
    ("gemini", ["gemini", "-p", "x"]),
    ("opencode", ["opencode", "run", "x"]),
    ("aider", ["aider", "-m", "x"]),
    ("claude", ["npx", "@anthropic-ai/claude-code", "-p", "x"]),
    ("claude", ["npx", "-y", "--", "@anthropic-ai/claude-code@2.1.197"]),
    ("codex", ["npx", "-p", "@openai/codex", "codex", "exec", "x"]),
    ("gemini", ["npm", "exec", "--", "@google/gemini-cli", "-p", "x"]),
    ("gemini", ["pnpm", "dlx", "@google/gemini-cli"]),
    ("gemini", ["bunx", "@google/gemini-cli@latest"]),
    ("claude", ["node", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js", "-p", "x"]),
    ("codex", ["node", "/x/node_modules/@openai/codex/bin/codex.js", "exec"]),
    ("gemini", ["node", "--no-warnings", "/x/@google/gemini-cli/bundle/gemini.js"]),
    ("codex", ["node", "node_modules/.bin/codex", "exec"]),
    ("aider", ["uvx", "--from", "aider-chat", "aider"]),
    ("aider", ["uvx", "aider-chat[browser]@0.86.2", "-m", "x"]),
    ("aider", ["uv", "tool", "run", "aider-chat"]),
    ("aider", ["uv", "run", "--with", "numpy", "aider"]),
    ("aider", ["pipx", "run", "aider-chat"]),
    ("aider", ["python3.12", "-m", "aider"]),
    ("aider", ["python", "/venv/bin/aider"]),
    ("claude", ["env", "claude"]),
    ("claude", ["/usr/bin/env", "-i", "-u", "X", "A=1", "B=", "claude", "-p", "x"]),
    ("claude", ["timeout", "-k", "5", "--signal=INT", "1h", "nice", "-n10", "claude"]),
    ("claude", ["nohup", "setsid", "-w", "stdbuf", "-oL", "claude"]),
    ("claude", ["sh", "-c", "claude -p 'fix it; all of it'"]),
    ("claude", ["bash", "-lc", 'exec claude -p "fix it?" --model=opus']),
    ("claude", ["script", "-qefc", "claude -p x", "/dev/null"]),
    ("claude", ["env", "A=1", "sh", "-c", "npx @anthropic-ai/claude-code -p x"]),
    ("claude", ["fish", "-c", "claude -p x"]),
    ("claude", ["bash", "-o", "pipefail", "-c", "claude -p x"]),
    ("claude", ["sh", "-c", "claude -p fix\\ it # all of it"]),
    ("claude", ["gtimeout", "1h", "claude"]),
    ("claude", ["taskset", "-c", "0-3", "claude"]),
    ("claude", ["flock", "-n", "/tmp/lock", "claude", "-p", "x"]),
    ("claude", ["flock", "/tmp/lock", "-c", "claude -p x"]),
    ("claude", ["tini", "-g", "--", "claude"]),
    ("claude", ["xvfb-run", "-a", "claude"]),
    ("aider", ["poetry", "run", "aider"]),
    ("aider", ["conda", "run", "-n", "work", "aider"]),
    ("aider", ["python", "-W", "ignore", "-m", "aider"]),
    ("codex", ["nodejs", "/x/node_modules/@openai/codex/bin/codex.js", "exec"]),
    ("codex", ["bun", "run", "/x/node_modules/@openai/codex/bin/codex.js", "exec"]),
    ("codex", ["bun", "x", "@openai/codex", "exec"]),
]
NOT_RECOGNISED = [
    [],
    [""],
    ["sleep", "60"],
    ["echo", "claude"],
    ["vim", "claude"],
    ["python", "train.py", "claude"],
    ["python", "-c", "claude"],
    ["node", "-e", "codex"],
    ["claude-wrapper", "-p", "x"],
    ["sh", "-c", "cd x && claude -p y"],
    ["sh", "-c", "claude -p y; rm z"],
    ["sh", "-c", "claude -p $(cat prompt)"],
    ["sh", "-c", 'claude -p "$PROMPT"'],
    ["sh", "-c", "A=1 claude"],
    ["sh", "-c", "claude -p 'unfinished"],
    ["sh", "-c", ""],
    ["sh", "claude"],
    ["env", "-S", "claude -p x"],
    ["timeout", "--strange", "1h", "claude"],
    ["npx", "--strange", "@openai/codex"],
    ["npx"],
    ["timeout", "1h"],
    ["taskset", "-p", "claude"],
    ["script", "claude"],
    ["script", "-q", "claude"],
    ["script", "-O", "claude", "-q"],
    ["flock", "/tmp/lock"],
    ["npm", "run", "claude"],
    ["poetry", "add", "aider"],
    ["sudo", "claude"],
    ["su", "-c", "claude", "bob"],
    ["python", "-"],
    ["generic"],
]


@pytest.mark.parametrize(("agent", "argv"), RECOGNISED)
def test_an_agent_is_recognised(agent, argv):
    assert recognise(argv) == agent


@pytest.mark.parametrize("argv", NOT_RECOGNISED)
def test_what_is_not_certain_is_no_agent(argv):
    assert recognise(argv) is None


def test_wrappers_without_end_are_given_up():
    assert recognise(["env"] * 50 + ["claude"]) is None


def test_program_and_arguments_are_told_apart():
    located = locate(["env", "A=1", "npx", "-y", "@openai/codex", "exec", "--json", "hi"])
    assert located is not None
    assert located.program == ("env", "A=1", "npx", "-y", "@openai/codex")
    assert located.arguments == ("exec", "--json", "hi")


def test_behind_a_shell_the_words_are_the_commands_own():
    located = locate(["sh", "-c", "claude -p 'two words'"])
    assert located is not None
    assert (located.program, located.arguments) == (("claude",), ("-p", "two words"))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("a b  c\td", ("a", "b", "c", "d")),
        ("a 'b c'\"d e\"f ''", ("a", "b cd ef", "")),
        ("exec a b", ("a", "b")),
        ("a '$x `y` \\z'", ("a", "$x `y` \\z")),
        ("a --x=1", ("a", "--x=1")),
        ("", ()),
        ("a *", None),
        ("a \\b", ("a", "b")),
        ('a "\\$x"', None),
        ("X=1 a", None),
        ("a #b", ("a",)),
        ("a\nb", None),
    ],
)
def test_plain_words(command, words):
    assert plain_words(command) == words


def test_L7_every_known_session_variable_is_stripped_and_nothing_else():
    kept = {"PATH": "/bin", "ANTHROPIC_API_KEY": "k", "CODEX_HOME": "/c", "HOLDFAST_RUN_ID": "r"}
    assert strip_environment({**kept, **dict.fromkeys(SESSION_VARIABLES, "x")}) == kept


def test_L7_the_variables_that_the_agents_set_are_known():
    known = {name for profile in built_in_profiles().values() for name in profile.environment.strip}
    assert known == SESSION_VARIABLES
    assert {
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_MESSAGING_TOKEN",
        "CODEX_THREAD_ID",
        "GEMINI_SESSION_ID",
    } <= SESSION_VARIABLES


@pytest.fixture
def user_profile(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    directory = tmp_path / "holdfast" / "agents"
    directory.mkdir(parents=True)
    return directory / "mine.toml"


def test_a_users_agent_is_recognised_and_its_variables_stripped(user_profile):
    user_profile.write_text(
        'name = "mine"\n[recognise]\ncommands = ["my-agent"]\n[environment]\nstrip = ["MY_ID"]\n'
    )
    assert recognise(["nice", "my-agent"]) == "mine"
    assert recognise(["claude"]) == "claude"
    assert strip_environment({"MY_ID": "1", "CLAUDECODE": "1", "A": "b"}) == {"A": "b"}


def test_a_users_profile_with_a_mistake_is_told_at_the_start(user_profile):
    user_profile.write_text("name = 7\n")
    with pytest.raises(InvalidProfile, match=r"mine\.toml: name: is a number"):
        recognise(["sleep", "1"])
