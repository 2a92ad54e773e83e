"""Transcripts: found where the agents put them, read from where this run began."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.agents.facts import CompletionProven, ResultRead, UsageRead
from holdfast.agents.loader import load_profile
from holdfast.agents.transcript import TranscriptReader, find_transcript
from tests.agents.recordings import of_kind, recorded

if TYPE_CHECKING:
    from holdfast.agents.facts import Fact

HEADLESS = {"claude": ("-p", "x"), "codex": ("exec", "x")}
SETTLED = 31.0


def _reader(agent: str, path: Path, start: int | None = None) -> TranscriptReader:
    starts = None if start is None else {"": start}
    return TranscriptReader(load_profile(agent), str(path), HEADLESS[agent], starts=starts)


def _poll_until_settled(reader: TranscriptReader) -> list[Fact]:
    return [*reader.poll(0.0), *reader.poll(SETTLED)]


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    return tmp_path / "t.jsonl"


@pytest.mark.parametrize(
    ("agent", "session", "relative"),
    [
        ("claude", "5e0c", ".claude/projects/-src-my-app-x/5e0c.jsonl"),
        ("codex", "01a1-7f13", ".codex/sessions/2026/11/15/rollout-2026-11-15T1-01a1-7f13.jsonl"),
    ],
)
def test_the_transcript_is_found(agent, session, relative, tmp_path):
    file = tmp_path / relative
    file.parent.mkdir(parents=True)
    file.write_text("")
    (file.parent / "other.jsonl").write_text("")
    env = {"HOME": str(tmp_path)}
    found = find_transcript(load_profile(agent), session, cwd="/src/my_app.x", env=env)
    assert found == str(file)
    assert find_transcript(load_profile(agent), "0000", cwd="/src", env=env) is None
    assert find_transcript(load_profile(agent), session, cwd="/src", env={}) is None


def test_claude_in_another_directory_is_found_too(tmp_path):
    file = tmp_path / ".claude" / "projects" / "-elsewhere" / "5e0c.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("")
    env = {"HOME": str(tmp_path)}
    assert find_transcript(load_profile("claude"), "5e0c", cwd="/link", env=env) == str(file)


@pytest.mark.parametrize(
    ("agent", "variable", "relative"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", "projects/-x/abcdefgh-1.jsonl"),
        ("codex", "CODEX_HOME", "sessions/2026/11/15/rollout-t-abcdefgh-1.jsonl"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/tmp/x/chats/session-t-abcdefgh.jsonl"),
    ],
)
def test_the_agents_own_variable_moves_its_transcripts(agent, variable, relative, tmp_path):
    file = tmp_path / relative
    file.parent.mkdir(parents=True)
    file.write_text('{"sessionId":"abcdefgh-1"}\n')
    env = {"HOME": "/nowhere", variable: str(tmp_path)}
    assert find_transcript(load_profile(agent), "abcdefgh-1", cwd="/x", env=env) == str(file)


def test_gemini_shortens_the_id_so_the_first_record_must_hold_it_whole(tmp_path):
    chats = tmp_path / ".gemini" / "tmp" / "x" / "chats"
    chats.mkdir(parents=True)
    for day, session in enumerate(["60ab4150-other", "60ab4150-mine", "60ab4150-third"]):
        file = chats / f"session-2026-11-1{day}-60ab4150.jsonl"
        file.write_text(json.dumps({"sessionId": session}) + "\n")
    found = find_transcript(
        load_profile("gemini"), "60ab4150-mine", cwd="/x", env={"HOME": str(tmp_path)}
    )
    assert found is not None
    assert found.endswith("-11-11-60ab4150.jsonl")


@pytest.mark.parametrize("agent", ["opencode", "aider", "generic"])
def test_an_agent_without_a_transcript_has_none(agent, tmp_path):
    env = {"HOME": str(tmp_path)}
    assert find_transcript(load_profile(agent), "x", cwd="/x", env=env) is None


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_C3_the_end_of_the_work_is_proven(agent, transcript):
    transcript.write_bytes(b"")
    reader = _reader(agent, transcript)
    transcript.write_bytes(recorded(f"{agent}-transcript-first.jsonl"))
    facts = _poll_until_settled(reader)
    (proven,) = of_kind(facts, CompletionProven)
    assert (proven.source, proven.is_error) == ("transcript", False)
    assert of_kind(facts, ResultRead) == [ResultRead("hello from the stub", is_error=False)]
    assert transcript.read_bytes()[proven.at_byte :].startswith(b"{")


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_failure_is_proven_too(agent, transcript):
    transcript.write_bytes(recorded(f"{agent}-transcript-failed.jsonl"))
    facts = _poll_until_settled(_reader(agent, transcript, start=0))
    (proven,) = of_kind(facts, CompletionProven)
    assert proven.is_error
    assert "asked to fail" in of_kind(facts, ResultRead)[0].text


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_C2_marks_of_an_earlier_turn_are_not_this_runs(agent, transcript):
    first = recorded(f"{agent}-transcript-first.jsonl")
    both = recorded(f"{agent}-transcript-resumed.jsonl")
    assert both.startswith(first)
    transcript.write_bytes(first)
    reader = _reader(agent, transcript)
    assert _poll_until_settled(reader) == []
    transcript.write_bytes(both)
    (proven,) = of_kind([*reader.poll(100.0), *reader.poll(200.0)], CompletionProven)
    assert proven.at_byte >= len(first)


@pytest.mark.parametrize("agent", ["claude", "codex"])
@pytest.mark.parametrize("written", [1, 40, -1])
def test_C2_a_record_that_is_half_written_when_it_is_found_is_not_lost(agent, written, transcript):
    content = recorded(f"{agent}-transcript-first.jsonl")
    (mark,) = of_kind(
        _facts_of(agent, transcript, content), CompletionProven
    )  # the record that proves it, and where it begins
    assert mark.at_byte is not None
    record = content[mark.at_byte :].partition(b"\n")[0]
    found = content[: mark.at_byte] + record[:written]
    transcript.write_bytes(found)
    reader = _reader(agent, transcript)
    assert _poll_until_settled(reader) == []
    transcript.write_bytes(content)
    (proven,) = of_kind([*reader.poll(100.0), *reader.poll(200.0)], CompletionProven)
    assert proven.at_byte == mark.at_byte


def _facts_of(agent: str, transcript: Path, content: bytes) -> list[Fact]:
    transcript.write_bytes(content)
    return _poll_until_settled(_reader(agent, transcript, start=0))


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_C2_the_last_record_of_an_earlier_turn_may_lack_its_newline(agent, transcript):
    content = recorded(f"{agent}-transcript-first.jsonl").rstrip(b"\n")
    transcript.write_bytes(content)
    reader = _reader(agent, transcript)
    transcript.write_bytes(content + b"\n")
    assert _poll_until_settled(reader) == []


@pytest.mark.parametrize("agent", ["claude", "codex"])
@pytest.mark.parametrize("size", [13, 100, 1000])
def test_C2_a_record_split_over_polls_is_not_lost(agent, size, transcript):
    content = recorded(f"{agent}-transcript-first.jsonl")
    transcript.write_bytes(b"")
    reader = _reader(agent, transcript)
    facts = []
    for at in range(0, len(content), size):
        with transcript.open("ab") as opened:
            opened.write(content[at : at + size])
        facts += reader.poll(0.0)
    facts += reader.poll(SETTLED)
    whole = _poll_until_settled(_reader(agent, transcript, start=0))
    assert facts == whole
    assert of_kind(facts, CompletionProven)


def test_a_codex_turn_counts_its_own_tokens_also_after_a_resume(transcript):
    first = recorded("codex-transcript-first.jsonl")
    transcript.write_bytes(recorded("codex-transcript-resumed.jsonl"))
    facts = _reader("codex", transcript, start=len(first)).poll(0.0)
    assert of_kind(facts, UsageRead)[-1] == UsageRead(5, 7, None, "transcript")


def test_a_turn_that_goes_on_is_no_end(transcript):
    end = {"type": "assistant", "isSidechain": False, "message": {"stop_reason": "end_turn"}}
    tool = {"type": "assistant", "isSidechain": False, "message": {"stop_reason": "tool_use"}}
    title = {"type": "ai-title", "title": "x"}
    transcript.write_text("")
    reader = _reader("claude", transcript)
    transcript.write_text(json.dumps(end) + "\n")
    assert reader.poll(0.0) == []
    with transcript.open("a") as opened:
        opened.write(json.dumps(tool) + "\n")
    assert reader.poll(20.0) == []
    assert reader.poll(1000.0) == []
    with transcript.open("a") as opened:
        opened.write(json.dumps(end) + "\n" + json.dumps(title) + "\n")
    assert reader.poll(2000.0) == []
    assert len(of_kind(reader.poll(2030.0), CompletionProven)) == 1
    assert reader.poll(3000.0) == []


def test_a_subagents_end_is_not_the_agents(transcript):
    end = {"type": "assistant", "isSidechain": True, "message": {"stop_reason": "end_turn"}}
    transcript.write_text(json.dumps(end) + "\n")
    assert _poll_until_settled(_reader("claude", transcript, start=0)) == []


@pytest.mark.parametrize("arguments", [("hi",), ("-p", "--input-format", "stream-json")])
def test_a_turns_end_is_no_completion_where_another_turn_may_follow(arguments, transcript):
    transcript.write_bytes(recorded("claude-transcript-first.jsonl"))
    reader = TranscriptReader(load_profile("claude"), str(transcript), arguments, is_new=True)
    assert of_kind(_poll_until_settled(reader), CompletionProven) == []


def test_a_file_that_shrinks_or_goes_is_survived(transcript):
    content = recorded("codex-transcript-first.jsonl")
    transcript.write_bytes(content)
    reader = _reader("codex", transcript)
    transcript.write_bytes(content[: len(content) // 2])
    assert reader.poll(0.0) == []
    transcript.unlink()
    assert reader.poll(1.0) == []
    transcript.write_bytes(content)
    reader.poll(2.0)


def test_a_line_without_end_is_skipped_and_what_follows_is_read(transcript):
    end = recorded("codex-transcript-first.jsonl").splitlines()[-1]
    transcript.write_bytes(b"")
    reader = _reader("codex", transcript)
    with transcript.open("wb") as opened:
        for _ in range(35):
            opened.write(b"x" * 1024 * 1024)
        opened.write(b"\n" + end + b"\n")
    facts = reader.poll(0.0)
    while reader.is_behind:
        facts += reader.poll(0.0)
    (proven,) = of_kind(facts, CompletionProven)
    assert proven.at_byte == 35 * 1024 * 1024 + 1


@pytest.mark.parametrize("what", ["fifo", "device"])
def test_a_transcript_that_became_no_file_keeps_nobody_waiting(what, transcript):
    transcript.write_text('{"type":"user"}\n')
    reader = _reader("claude", transcript)
    transcript.unlink()
    if what == "fifo":
        os.mkfifo(transcript)
    else:
        transcript.symlink_to("/dev/zero")
    assert [*reader.poll(0.0), *reader.poll(1.0)] == []
    assert not reader.is_behind
