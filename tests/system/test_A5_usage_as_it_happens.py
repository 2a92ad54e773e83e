"""A5: what an agent has used is known while its turn goes on, and its final record wins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.pretend_claude import install
from tests.support.recovering import kill_shim, recovered
from tests.support.running import ended, events_of, wait_for
from tests.support.spending import STREAM, let_go, start_turn, tokens, used, wait_for_tokens


@pytest.fixture
def claude(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return install(tmp_path)


def _usage(name: str) -> Any:
    return ended(name).usage


def test_A5_tokens_grow_during_a_turn_and_the_final_record_agrees(holdfast, claude, tmp_path):
    start_turn(holdfast, claude, "steps=3 wait")
    first = wait_for_tokens(1)
    # Of the tokens out, stdout has what the message began with; the transcript has all.
    assert first.usage["tokens_source"] == "transcript"
    assert first.usage["cost_usd"] is None
    let_go(tmp_path, 2)
    wait_for_tokens(2)
    let_go(tmp_path, 3)
    last = ended("a")
    assert used(last) == tokens(3)
    usage = _usage("a")
    assert usage["tokens_source"] == "final"
    assert usage["cost_usd"] == pytest.approx(0.03)
    rows = holdfast("usage", "--json", expect=0).json["total"]
    assert (rows["tokens_in"], rows["tokens_out"]) == tokens(3)


def test_A5_subagents_count_while_they_work(holdfast, claude, tmp_path):
    start_turn(holdfast, claude, "steps=2 wait helper")
    wait_for_tokens(2)
    let_go(tmp_path, 2)
    assert used(ended("a")) == tokens(4)


def test_A5_whoever_takes_over_counts_nothing_twice_and_nothing_less(holdfast, claude, tmp_path):
    start_turn(holdfast, claude, "steps=4 wait helper")
    let_go(tmp_path, 2)
    wait_for_tokens(4)
    kill_shim("a")
    let_go(tmp_path, 3)
    recovered(holdfast)
    wait_for_tokens(6)
    seen = [(one["tokens_in"], one["tokens_out"]) for one in events_of("a", "usage_read")]
    assert seen == sorted(seen)
    let_go(tmp_path, 4)
    assert used(ended("a")) == tokens(8)


def test_A5_each_attempt_adds_to_what_those_before_it_used(holdfast, claude, tmp_path):
    program = tmp_path / "twice"
    program.write_text(
        f'#!/bin/sh\n"{claude}" "$@"\n[ -e failed ] || {{ touch failed; exit 1; }}\n'
    )
    program.chmod(0o755)
    words = ("--agent", "claude", "--restart", "on-failure:1", "--", program, *STREAM)
    holdfast("run", "-n", "a", *words, "-p", "steps=2", expect=0)
    info = ended("a")
    assert [one["exit_code"] for one in info.attempts] == [1, 0]
    assert used(info) == tokens(4)
    assert _usage("a")["cost_usd"] == pytest.approx(0.04)


def test_A5_a_resumed_session_counts_its_own_turn(holdfast, claude, tmp_path):
    start_turn(holdfast, claude, "steps=2 helper")
    first = ended("a")
    assert used(first) == tokens(4)
    holdfast("resume", "a", "steps=2 wait helper", expect=0)
    second = wait_for_tokens(2)
    assert second.resumed_from == first.id
    kill_shim("a")
    recovered(holdfast)
    let_go(tmp_path, 2)
    assert used(ended("a")) == tokens(4)


def test_A5_a_turn_of_many_messages_makes_few_events(holdfast, claude):
    start_turn(holdfast, claude, "steps=2000")
    assert used(ended("a")) == tokens(2000)
    # Each adds a fiftieth at least, or comes a minute later.
    assert len(events_of("a", "usage_read")) < 500


def test_the_document_tells_the_session_and_not_how_it_is_read(holdfast, claude):
    start_turn(holdfast, claude, "steps=1")
    ended("a")
    document = holdfast("status", "--json", "a", expect=0).json
    assert set(document["session"]) == {"id", "transcript"}
    assert Path(document["session"]["transcript"]).exists()
    (event,) = events_of("a", "session_found")
    assert event["attempt"] == 1


def test_A7_what_no_agent_says_is_null(holdfast, tmp_path):
    program = tmp_path / "aider"
    said = "Tokens: 2.3k sent, 4 received. Cost: $0.01 message, $0.01 session."
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    holdfast("run", "-n", "a", "--", program, "--message", "hi", expect=0)
    usage = _usage("a")
    assert (usage["tokens_in"], usage["tokens_out"], usage["tokens_source"]) == (None, None, None)
    assert usage["cost_usd"] == 0.01
    holdfast("run", "-n", "b", "true", expect=0)
    assert wait_for("b", lambda info: info.outcome, why="it ends")
    assert json.loads(holdfast("status", "--json", "b").stdout)["usage"]["tokens_in"] is None
