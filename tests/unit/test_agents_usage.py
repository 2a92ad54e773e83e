"""What an agent has used so far, from messages, transcripts and the records at the end of turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.agents import growing_file
from holdfast.agents import usage as module
from holdfast.agents.facts import UsageRead
from holdfast.agents.json_lines import JsonLine, total_at
from holdfast.agents.loader import load_profile
from holdfast.agents.transcript import TranscriptReader
from holdfast.agents.usage import STDOUT, TRANSCRIPT, UsageMeter

CLAUDE = load_profile("claude")
STREAM = ("-p", "x", "--output-format", "stream-json", "--verbose")


def message(name: str, tokens_in: int, tokens_out: int, **more: Any) -> dict[str, Any]:
    figures = {"input_tokens": tokens_in, "output_tokens": tokens_out}
    return {"type": "assistant", "message": {"id": name, "usage": figures}, **more}


def result(tokens_in: int, tokens_out: int, cost: float = 0.5) -> dict[str, Any]:
    """As claude ends a turn: `modelUsage` is of the whole process."""
    figures = {"inputTokens": tokens_in, "outputTokens": tokens_out}
    return {"type": "result", "modelUsage": {"model-4.8": figures}, "total_cost_usd": cost}


class Feed:
    """A meter, and what was said to it."""

    def __init__(self, agent: str = "claude", arguments: tuple[str, ...] = STREAM) -> None:
        self.meter = UsageMeter(load_profile(agent), arguments)

    def said(self, *records: dict[str, Any]) -> tuple[int | None, int | None, str]:
        return self._take(STDOUT, records)

    def written(self, *records: dict[str, Any]) -> tuple[int | None, int | None, str]:
        return self._take(TRANSCRIPT, records)

    def _take(self, source: str, records: tuple[dict[str, Any], ...]) -> Any:
        for record in records:
            self.meter.take(JsonLine(json.dumps(record).encode()), source)
        total = self.meter.total()
        return total.tokens_in, total.tokens_out, total.source


def test_A5_the_tokens_grow_with_each_message_before_the_turn_is_over():
    feed = Feed()
    assert feed.said(message("m1", 1000, 1)) == (1000, 1, "stdout")
    assert feed.said(message("m2", 1100, 1)) == (2100, 2, "stdout")
    assert feed.said(result(2100, 90)) == (2100, 90, "final")


def test_a_message_in_several_records_is_one_message():
    feed = Feed()
    feed.said(message("m1", 1000, 1), message("m1", 1000, 4))
    assert feed.written(message("m1", 1000, 80), message("m1", 1000, 80)) == (
        1000,
        80,
        "transcript",
    )
    assert feed.said(message("m1", 1000, 4)) == (1000, 80, "stdout")


def test_what_is_read_late_from_the_transcript_is_not_counted_twice():
    feed = Feed()
    feed.said(message("m1", 1000, 1), result(1005, 87))
    assert feed.written(message("m1", 1000, 80)) == (1005, 87, "final")
    feed.said(message("m2", 1200, 1))
    assert feed.written(message("m2", 1200, 40)) == (2200, 120, "transcript")
    assert feed.said(result(2210, 130)) == (2210, 130, "final")


def test_the_final_record_wins_over_messages_that_came_to_more():
    feed = Feed()
    feed.said(message("m1", 1000, 10), message("m2", 1000, 10))
    assert feed.said(result(1500, 12)) == (1500, 12, "final")
    # What comes after it counts on from there.
    assert feed.said(message("m3", 100, 5)) == (1600, 17, "stdout")


def test_the_record_of_a_used_up_budget_lacks_the_last_message_and_the_models_have_it():
    feed = Feed()
    feed.said(message("m1", 1000, 50), message("m2", 1000, 50))
    short = {"input_tokens": 1000, "output_tokens": 50}
    last = {**result(2000, 100, 0.0125), "subtype": "error_max_budget_usd", "usage": short}
    assert feed.said(last) == (2000, 100, "final")
    assert feed.meter.total().cost_usd == 0.0125


def test_a_record_without_models_is_read_by_its_turn():
    feed = Feed()
    one = {"type": "result", "usage": {"input_tokens": 5, "output_tokens": 7}}
    assert feed.said(one) == (5, 7, "final")
    assert feed.said(one) == (10, 14, "final")


def test_codex_counts_its_turn_while_it_goes_on_and_once():
    feed = Feed("codex", ("exec", "--json", "x"))

    def turn(name: str, tokens_in: int, tokens_out: int) -> dict[str, Any]:
        figures = {"input_tokens": tokens_in, "output_tokens": tokens_out}
        payload = {"turn_id": name, "turn_token_usage": figures}
        return {"type": "token_usage_record", "payload": payload}

    assert feed.written(turn("t", 5, 7)) == (5, 7, "transcript")
    assert feed.written(turn("t", 11, 15)) == (11, 15, "transcript")
    done = {"type": "turn.completed", "usage": {"input_tokens": 16, "output_tokens": 22}}
    assert feed.said(done) == (16, 22, "final")
    assert feed.written(turn("t", 16, 22)) == (16, 22, "final")


def test_gemini_counts_its_messages_and_its_thoughts():
    feed = Feed("gemini", ("-p", "x", "--output-format", "stream-json"))
    tokens = {"input": 5, "output": 7, "cached": 2, "thoughts": 30, "tool": 0, "total": 42}
    assert feed.written({"type": "gemini", "id": "a", "tokens": tokens}) == (5, 37, "transcript")
    assert feed.written({"type": "gemini", "id": "a", "tokens": None}) == (5, 37, "transcript")
    assert feed.written({"type": "gemini", "id": "b", "tokens": tokens}) == (10, 74, "transcript")
    stats = {"total_tokens": 84, "input_tokens": 10, "output_tokens": 14}
    assert feed.said({"type": "result", "stats": stats}) == (10, 74, "final")


def test_what_is_taken_off_never_leaves_less_than_nothing():
    assert total_at({"a": 3, "b": 5}, [("a",), ("-b",)]) is None
    assert total_at({"a": 5, "b": 5}, [("a",), ("-b",)]) == 0
    assert total_at({"b": 5}, [("-b",)]) is None
    assert total_at({"m": {"x": {"n": 1}, "y.z": {"n": 2}, "w": 3}}, [("m", "*", "n")]) == 3
    assert total_at({"m": [1]}, [("m", "*", "n")]) is None


def test_subagents_count_too_and_those_of_an_earlier_run_do_not(tmp_path: Path):
    transcript = tmp_path / "session.jsonl"
    subagents = tmp_path / "session" / "subagents"
    subagents.mkdir(parents=True)
    transcript.write_text(json.dumps(message("old", 900, 9)) + "\n")
    (subagents / "agent-old.jsonl").write_text(json.dumps(message("older", 800, 8)) + "\n")
    reader = TranscriptReader(CLAUDE, str(transcript), ("--resume", "session", *STREAM))
    sizes = {"": transcript, "subagents/agent-old.jsonl": subagents / "agent-old.jsonl"}
    assert reader.from_bytes == {name: path.stat().st_size for name, path in sizes.items()}
    assert reader.poll(0.0) == []
    with transcript.open("a") as file:
        file.write(json.dumps(message("m1", 10, 1)) + "\n")
    (subagents / "agent-new.jsonl").write_text(json.dumps(message("m2", 20, 2)) + "\n")
    assert reader.poll(0.0)[-1] == UsageRead(30, 3, None, "transcript")

    # Whoever takes over reads all of this run again, and nothing of the earlier one.
    adopter = TranscriptReader(CLAUDE, str(transcript), STREAM, starts=reader.from_bytes)
    assert adopter.poll(0.0)[-1] == UsageRead(30, 3, None, "transcript")


def test_a_subagents_end_of_turn_is_not_the_runs(tmp_path: Path):
    transcript = tmp_path / "session.jsonl"
    transcript.write_text("")
    reader = TranscriptReader(CLAUDE, str(transcript), STREAM)
    (tmp_path / "session" / "subagents").mkdir(parents=True)
    end = message("m1", 1, 1, isSidechain=False)
    end["message"]["stop_reason"] = "end_turn"
    (tmp_path / "session" / "subagents" / "a.jsonl").write_text(json.dumps(end) + "\n")
    assert [type(fact) for fact in reader.poll(0.0) + reader.poll(1000.0)] == [UsageRead]


def test_the_messages_that_are_told_apart_are_bounded_and_none_is_lost(monkeypatch):
    monkeypatch.setattr(module, "MOST_MESSAGES", 10)
    feed = Feed()
    for number in range(100):
        feed.said(message(f"m{number}", 3, 2))
    assert len(feed.meter._messages) == 10
    assert feed.said(message("m99", 3, 2)) == (300, 200, "stdout")


records = st.tuples(
    st.sampled_from([STDOUT, TRANSCRIPT]), st.integers(0, 8), st.integers(0, 100), st.booleans()
)


@given(st.lists(records, max_size=40), st.lists(st.integers(1, 50), min_size=9, max_size=9))
def test_in_any_order_no_more_is_told_than_was_used_and_the_end_tells_it_all(order, sizes):
    """Each message has one true size; a record tells a part of it, or all."""
    feed, shown = Feed(), set()
    for source, name, share, is_whole in order:
        size = sizes[name] if is_whole else sizes[name] * share // 101
        told = (feed.said if source == STDOUT else feed.written)(message(f"m{name}", size, 0))
        shown.add(name)
        assert (told[0] or 0) <= sum(sizes[one] for one in shown)
    everything = sum(sizes)
    assert feed.said(result(everything, 0))[0] == everything
    for name in range(9):
        assert feed.written(message(f"m{name}", sizes[name], 0)) == (everything, 0, "final")


def test_of_a_transcript_that_is_there_what_was_written_since_the_start_is_read(tmp_path: Path):
    transcript = tmp_path / "session.jsonl"
    times = ["2026-11-15T22:04:50.543Z", "2026-11-15T22:04:51Z", "2026-11-15T22:04:51.9Z"]
    records = [message(f"m{n}", 10**n, 0, timestamp=at) for n, at in enumerate(times)]
    records.insert(1, {"type": "summary", "timestamp": "tomorrow"})
    transcript.write_text("".join(json.dumps(one) + "\n" for one in records))

    def tokens_since(since: str) -> int | None:
        reader = TranscriptReader(CLAUDE, str(transcript), STREAM, since=since)
        last: Any = reader.poll(0.0)[-1:] or [UsageRead(None, None, None, "")]
        tokens: int | None = last[0].tokens_in
        return tokens

    assert tokens_since("2026-11-15T22:04:50.543000Z") == 110
    assert tokens_since("2026-11-15T22:04:50.000000Z") == 111
    assert tokens_since("2026-11-15T22:04:51.500000Z") == 100
    assert tokens_since("2026-11-16T00:00:00.000000Z") is None


def cost_state(tokens_in: int, tokens_out: int, cost: float) -> dict[str, Any]:
    """As claude 2.1.326 ends a transcript: the totals of the session."""
    figures = {"inputTokens": tokens_in, "outputTokens": tokens_out, "cacheReadInputTokens": 0}
    return {"type": "cost-state", "modelUsage": {"m": figures}, "totalCostUSD": cost}


def resumed(path: Path, *records: dict[str, Any]) -> UsageMeter:
    """The meter of a process that goes on with a session of which these records were written."""
    lines = [json.dumps(record) for record in records]
    path.write_text("".join(f"{line}\n" for line in lines))
    meter = UsageMeter(CLAUDE, (*STREAM, "--resume", "s"))
    TranscriptReader(CLAUDE, str(path), STREAM, meter=meter, starts={"": path.stat().st_size})
    return meter


def totals(meter: UsageMeter, *records: dict[str, Any]) -> tuple[Any, ...]:
    for record in records:
        meter.take(JsonLine(json.dumps(record).encode()), STDOUT)
    total = meter.total()
    return total.tokens_in, total.tokens_out, total.cost_usd


def test_an_agent_that_counts_on_from_a_resumed_session_is_told_by_what_it_added(tmp_path: Path):
    earlier = [cost_state(500, 5, 0.1), message("m1", 10, 14), cost_state(1010, 14, 0.3)]
    meter = resumed(tmp_path / "t", *earlier, message("m2", 5, 7))
    assert totals(meter, result(1015, 21, 0.4)) == (5, 7, 0.1)
    assert totals(meter, result(1030, 30, 0.5)) == (20, 16, 0.2), "of the process, turn by turn"


def test_an_agent_that_counts_from_nothing_is_taken_at_its_word(tmp_path: Path):
    """A session of a newer version, resumed by one that keeps no totals."""
    meter = resumed(tmp_path / "t", cost_state(1010, 14, 0.3))
    assert totals(meter, result(5, 7, 0.01)) == (5, 7, 0.01)


def test_the_totals_before_are_found_far_back_and_over_the_edges_of_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(growing_file, "_LOOK_BACK_BYTES", 100)
    many = [message(f"m{number}", 1, 1) for number in range(50)]
    meter = resumed(tmp_path / "t", cost_state(1000, 10, 0.25), *many)
    assert totals(meter, result(1007, 17, 0.5)) == (7, 7, 0.25)
    monkeypatch.setattr(growing_file, "_MOST_LOOKED_BACK", 500)
    meter = resumed(tmp_path / "t", cost_state(1000, 10, 0.25), *many)
    assert totals(meter, result(1007, 17, 0.5)) == (1007, 17, 0.5), "no further than that"
