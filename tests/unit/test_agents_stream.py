"""Facts in the recorded output of the real agents, and in output that nobody planned for."""

from __future__ import annotations

import json

import pytest

from holdfast.agents.facts import (
    CompletionProven,
    LimitHit,
    ResultRead,
    SessionFound,
    UsageRead,
)
from holdfast.agents.loader import load_profile
from holdfast.agents.stream import StreamReader
from tests.agents.recordings import NOW, facts_of, of_kind, recorded

ANSWER = "hello from the stub"
FINISHED = [
    "claude-success.jsonl",
    "claude-tool.jsonl",
    "claude-json.jsonl",
    "claude-json-verbose.jsonl",
    "codex-success.jsonl",
    "codex-tool.jsonl",
    "gemini-success.jsonl",
    "gemini-tool.jsonl",
    "opencode-success.jsonl",
    "opencode-tool.jsonl",
]
FAILED = {
    "claude-failed.jsonl": "API Error: 400 asked to fail",
    "claude-max-turns.jsonl": "Reached maximum number of turns (1)",
    "codex-failed.jsonl": "asked to fail",
    "gemini-failed.jsonl": "asked to fail",
    "opencode-failed.jsonl": "asked to fail",
}


@pytest.mark.parametrize("name", FINISHED)
def test_C3_a_finished_turn_is_proven_with_its_answer(name):
    facts = facts_of(name)
    (proven,) = of_kind(facts, CompletionProven)
    assert (proven.source, proven.is_error) == ("stdout", False)
    assert of_kind(facts, ResultRead) == [ResultRead(ANSWER, is_error=False)]


@pytest.mark.parametrize("name", FINISHED)
def test_the_proof_quotes_the_record_that_it_points_at(name):
    (proven,) = of_kind(facts_of(name), CompletionProven)
    line = recorded(name)[proven.at_byte :].splitlines()[0]
    record = json.loads(line)
    record = record[-1] if isinstance(record, list) else record
    quoted = json.loads(proven.proof)
    assert quoted["type"] == record["type"]


@pytest.mark.parametrize(("name", "why"), FAILED.items())
def test_a_failure_is_proven_and_says_why(name, why):
    facts = facts_of(name)
    (proven,) = of_kind(facts, CompletionProven)
    (result,) = of_kind(facts, ResultRead)
    assert proven.is_error
    assert result.is_error
    assert why in result.text


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "opencode"])
def test_the_session_is_found_once_and_kept_by_a_resume(agent):
    (first,) = of_kind(facts_of(f"{agent}-success.jsonl"), SessionFound)
    (resumed,) = of_kind(facts_of(f"{agent}-resumed.jsonl"), SessionFound)
    assert first.id == resumed.id
    assert first.id in recorded(f"{agent}-success.jsonl").decode()


def test_codex_without_json_names_its_session_in_the_header():
    (found,) = of_kind(facts_of("codex-text.txt"), SessionFound)
    assert f"session id: {found.id}" in recorded("codex-text.txt").decode()


def test_a_later_plain_line_does_not_change_the_session():
    reader = StreamReader(load_profile("codex"))
    header = b"session id: 01a1e13a-7f78-7f21-b7d5-fa2db316f44a\n"
    assert len(reader.feed(header, 0)) == 1
    assert reader.feed(header.replace(b"01a1", b"ffff"), 50) == []


@pytest.mark.parametrize(
    ("name", "tokens_in", "tokens_out", "cost"),
    [
        ("claude-success.jsonl", 5, 7, 0.0002),
        ("claude-tool.jsonl", 10, 14, 0.0004),
        ("codex-success.jsonl", 5, 7, None),
        ("codex-tool.jsonl", 10, 14, None),
        ("gemini-success.jsonl", 5, 7, None),
        ("gemini-tool.jsonl", 10, 14, None),
        ("gemini-resumed.jsonl", 5, 7, None),
        ("opencode-success.jsonl", 5, 7, 0),
        ("opencode-tool.jsonl", 10, 14, 0),
    ],
)
def test_usage_is_of_this_run(name, tokens_in, tokens_out, cost):
    last = of_kind(facts_of(name), UsageRead)[-1]
    assert (last.tokens_in, last.tokens_out) == (tokens_in, tokens_out)
    assert last.cost_usd == (cost if cost is None else pytest.approx(cost))


def test_claude_counts_cached_tokens_as_tokens_in():
    record = {
        "type": "result",
        "usage": {"input_tokens": 3, "cache_read_input_tokens": 1000, "output_tokens": 2},
    }
    facts = StreamReader(load_profile("claude")).feed(json.dumps(record).encode(), 0)
    assert of_kind(facts, UsageRead) == [UsageRead(1003, 2, None, "final")]


def test_a_record_without_figures_is_no_usage():
    facts = StreamReader(load_profile("claude")).feed(b'{"type":"result"}', 0)
    assert of_kind(facts, UsageRead) == []


def test_codex_says_the_whole_thread_so_a_resumed_run_is_not_read_from_stdout():
    assert of_kind(facts_of("codex-resumed.jsonl"), UsageRead)[-1].tokens_in == 10
    assert of_kind(facts_of("codex-resumed.jsonl", "exec", "resume", "x"), UsageRead) == []


def test_many_turns_in_one_process_are_no_completion_and_add_up():
    arguments = ("-p", "--input-format", "stream-json", "--output-format=stream-json")
    facts = facts_of("claude-many-turns.jsonl", *arguments)
    assert of_kind(facts, CompletionProven) == []
    assert len(of_kind(facts, ResultRead)) == 2
    last = of_kind(facts, UsageRead)[-1]
    assert (last.tokens_in, last.tokens_out) == (10, 14)
    assert last.cost_usd == pytest.approx(0.0004)
    assert len(of_kind(facts_of("claude-many-turns.jsonl", "-p"), CompletionProven)) == 2


def test_the_answer_of_gemini_is_what_came_after_the_last_tool():
    reader = StreamReader(load_profile("gemini"))
    said = [
        {"type": "message", "role": "assistant", "content": "let me ", "delta": True},
        {"type": "message", "role": "assistant", "content": "look", "delta": True},
        {"type": "tool_use", "tool_name": "ls"},
        {"type": "message", "role": "assistant", "content": "it is ", "delta": True},
        {"type": "message", "role": "assistant", "content": "empty", "delta": True},
        {"type": "result", "status": "success"},
    ]
    facts = [fact for record in said for fact in reader.feed(json.dumps(record).encode(), 0)]
    assert of_kind(facts, ResultRead) == [ResultRead("it is empty", is_error=False)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("claude-limit.jsonl", "five_hour"),
        ("claude-limit-key.jsonl", "API Error: Request rejected (429)"),
        ("codex-limit.jsonl", "hit your usage limit"),
        ("gemini-limit.jsonl", "exhausted your daily quota"),
    ],
)
def test_a_used_up_quota_is_told_once(name, text):
    (hit,) = of_kind(facts_of(name), LimitHit)
    assert text in hit.text


def test_only_limits_are_limits():
    names = [*FINISHED, *FAILED]
    assert [name for name in names if of_kind(facts_of(name), LimitHit)] == []


def test_the_time_to_come_back_is_in_utc():
    info = {"status": "rejected", "resetsAt": 1_800_003_600, "rateLimitType": "five_hour"}
    line = json.dumps({"type": "rate_limit_event", "rate_limit_info": info}).encode()
    (hit,) = StreamReader(load_profile("claude"), clock=lambda: NOW).feed(line, 0)
    assert hit == LimitHit("2027-01-15T09:00:00Z", "five_hour")


def test_a_warning_about_a_limit_is_no_limit():
    info = {"status": "allowed_warning", "resetsAt": 1_800_003_600}
    line = json.dumps({"type": "rate_limit_event", "rate_limit_info": info}).encode()
    assert StreamReader(load_profile("claude")).feed(line, 0) == []


def test_aider_tells_its_cost_only():
    reader = StreamReader(load_profile("aider"))
    line = b"Tokens: 2.3k sent, 4 received. Cost: $0.0015 message, $0.0123 session.\n"
    assert reader.feed(line, 0) == [UsageRead(None, None, 0.0123, "final")]


@pytest.mark.parametrize(
    "identity", ["../../etc/passwd", "-rf", "a/b", "a b", "*", "", "x" * 200, 7, None]
)
def test_an_id_that_is_not_safe_as_an_argument_or_in_a_path_is_none(identity):
    line = json.dumps({"type": "thread.started", "thread_id": identity}).encode()
    assert StreamReader(load_profile("codex")).feed(line, 0) == []


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"{",
        b"[" * 100_000,
        b'{"type":' + b"[" * 50_000 + b'"result"',
        b'{"type":"result","usage":{"input_tokens":' + b"9" * 6000 + b"}}",
        b'{"type":"result","result":"\\ud800"}',
        b'{"type":"result","is_error":1}',
        b'{"type":"result","usage":{"input_tokens":-1,"output_tokens":NaN}}',
        b'{"type":"result","usage":[],"total_cost_usd":"much"}',
        b'{"type":["result"],"subtype":{}}',
        b'\xff\xfe{"type":"result"}',
        b'{"type":"result"' + b" " * (3 * 1024 * 1024) + b"}",
    ],
)
def test_strange_lines_never_raise(line):
    for agent in ("claude", "codex", "gemini", "opencode", "aider", "generic"):
        for fact in StreamReader(load_profile(agent)).feed(line, 0):
            json.dumps(fact.as_dict()).encode()


def test_a_flag_is_not_the_number_one():
    facts = StreamReader(load_profile("claude")).feed(b'{"type":"result","is_error":1}', 0)
    (proven,) = of_kind(facts, CompletionProven)
    assert not proven.is_error


def test_half_a_record_is_no_record():
    whole = recorded("claude-success.jsonl").splitlines()[-1]
    reader = StreamReader(load_profile("claude"))
    assert reader.feed(whole[: len(whole) // 2], 0) == []
    assert reader.feed(whole[len(whole) // 2 :], 0) == []
