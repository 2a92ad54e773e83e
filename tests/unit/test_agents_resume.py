"""Resuming keeps the program and its options, and replaces prompt and session."""

from __future__ import annotations

import pytest

from holdfast.agents.arguments import (
    continues_session,
    has_many_turns,
    is_headless,
    read_arguments,
)
from holdfast.agents.loader import load_profile
from holdfast.agents.resume import resume_command
from holdfast.errors import Refused, WrongUse

CASES = [
    (
        "claude",
        ["claude", "-p", "old words", "--output-format", "stream-json", "--verbose"],
        ["claude", "--output-format", "stream-json", "--verbose"],
        ["--resume", "S", "--print", "--", "new words"],
    ),
    (
        "claude",
        ["claude", "--allowedTools", "Bash", "Edit", "--model=opus", "-p", "--", "-old"],
        ["claude", "--allowedTools", "Bash", "Edit", "--model=opus"],
        ["--resume", "S", "--print", "--", "new words"],
    ),
    (
        "claude",
        ["claude", "-r", "OLD", "--fork-session", "-p", "old", "-c", "--session-id", "X"],
        ["claude"],
        ["--resume", "S", "--print", "--", "new words"],
    ),
    (
        "claude",
        ["env", "A=1", "npx", "@anthropic-ai/claude-code", "-p", "old", "--debug", "--verbose"],
        ["env", "A=1", "npx", "@anthropic-ai/claude-code", "--debug", "--verbose"],
        ["--resume", "S", "--print", "--", "new words"],
    ),
    (
        "claude",
        ["sh", "-c", "claude -p 'old words' --model opus"],
        ["claude", "--model", "opus"],
        ["--resume", "S", "--print", "--", "new words"],
    ),
    (
        "claude",
        ["./my-claude.sh", "-p", "old"],
        ["./my-claude.sh"],
        ["--resume", "S", "--print", "--", "new words"],
    ),
    (
        "codex",
        ["codex", "-c", "a=b", "exec", "--json", "-C", "/x", "old words", "--skip-git-repo-check"],
        ["codex", "-c", "a=b", "exec", "--json", "-C", "/x", "--skip-git-repo-check"],
        ["resume", "S", "--", "new words"],
    ),
    (
        "codex",
        ["codex", "exec", "resume", "OLD", "old words", "--json"],
        ["codex", "exec", "--json"],
        ["resume", "S", "--", "new words"],
    ),
    (
        "codex",
        ["codex", "exec", "--json", "resume", "--last", "exec"],
        ["codex", "exec", "--json"],
        ["resume", "S", "--", "new words"],
    ),
    (
        "gemini",
        ["gemini", "-m", "flash", "-p", "old words", "-o", "stream-json", "-y"],
        ["gemini", "-m", "flash", "-o", "stream-json", "-y"],
        ["--resume", "S", "--prompt=new words"],
    ),
    (
        "gemini",
        ["gemini", "--prompt=old", "--resume=latest", "old words", "-e", "a", "b"],
        ["gemini", "-e", "a", "b"],
        ["--resume", "S", "--prompt=new words"],
    ),
    (
        "opencode",
        ["opencode", "run", "--format", "json", "old", "words", "-s", "OLD"],
        ["opencode", "run", "--format", "json"],
        ["--session", "S", "--", "new words"],
    ),
]


@pytest.mark.parametrize(("agent", "argv", "kept", "added"), CASES)
def test_options_are_kept_and_the_prompt_is_new(agent, argv, kept, added):
    assert resume_command(load_profile(agent), argv, "S", "new words") == [*kept, *added]


@pytest.mark.parametrize(("agent", "argv"), [case[:2] for case in CASES])
def test_resuming_the_resumed_gives_the_same(agent, argv):
    profile = load_profile(agent)
    once = resume_command(profile, argv, "S", "new words")
    assert resume_command(profile, once, "S", "new words") == once


def test_a_prompt_that_looks_like_an_option_or_a_template_stays_a_prompt():
    profile = load_profile("gemini")
    command = resume_command(profile, ["gemini", "-p", "x"], "S", "--yolo {session} {prompt}")
    assert command[-1] == "--prompt=--yolo {session} {prompt}"


def test_without_a_prompt_the_agent_is_told_to_continue():
    command = resume_command(load_profile("codex"), ["codex", "exec", "x"], "S", None)
    assert command[-1] == "Continue where you left off."


@pytest.mark.parametrize("agent", ["aider", "generic"])
def test_an_agent_without_sessions_is_refused(agent):
    with pytest.raises(Refused, match="no sessions"):
        resume_command(load_profile(agent), [agent], "S", "x")


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", "claude -p hi; sleep 9"],
        ["bash", "-lc", "cd x && claude"],
        ["npx", "my-claude"],
    ],
)
def test_a_shell_text_with_more_in_it_than_the_agent_is_refused(argv):
    with pytest.raises(Refused, match=argv[0]) as refused:
        resume_command(load_profile("claude"), argv, "S", "new words")
    assert "its session is S" in str(refused.value.hint)


def test_a_run_without_a_command_is_refused():
    with pytest.raises(WrongUse):
        resume_command(load_profile("claude"), [], "S", "x")


@pytest.mark.parametrize(
    ("agent", "words", "expected"),
    [
        ("claude", ["-p", "x"], True),
        ("claude", ["--model", "-p"], False),
        ("claude", ["x"], False),
        ("codex", ["-c", "a", "exec", "x"], True),
        ("codex", ["review", "exec"], False),
        ("codex", ["x"], False),
        ("gemini", ["--prompt=x"], True),
        ("gemini", ["-px"], True),
        ("opencode", ["run", "x"], True),
        ("aider", ["--message", "x"], True),
    ],
)
def test_headless(agent, words, expected):
    assert is_headless(load_profile(agent).options, words) is expected


def test_turns_and_sessions_are_seen_in_either_spelling():
    claude, codex = load_profile("claude").options, load_profile("codex").options
    assert has_many_turns(claude, ["-p", "--input-format", "stream-json"])
    assert has_many_turns(claude, ["-p", "--input-format=stream-json"])
    assert not has_many_turns(claude, ["-p", "--input-format", "text"])
    assert continues_session(claude, ["-p", "--resume=X"])
    assert continues_session(codex, ["exec", "--json", "resume", "X", "go on"])
    assert not continues_session(codex, ["exec", "please resume"])


def test_after_two_dashes_every_word_stands_for_itself():
    arguments = read_arguments(load_profile("claude").options, ["-p", "--", "--resume", "X"])
    assert [argument.option for argument in arguments] == ["-p", None, None]
