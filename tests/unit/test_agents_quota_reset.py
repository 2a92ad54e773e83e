"""The many ways in which agents say when a quota comes back."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import pytest

from holdfast.agents.facts import LimitHit
from holdfast.agents.loader import load_profile
from holdfast.agents.stream import StreamReader
from tests.agents.recordings import of_kind

NOW = 1_800_000_000.0  # 2027-01-15 08:00:00 UTC, a Friday


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kolkata"])
def _zone(request, monkeypatch):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _retry(agent: str, record: Mapping[str, object]) -> str | None:
    reader = StreamReader(load_profile(agent), clock=lambda: NOW)
    (hit,) = of_kind(reader.feed(json.dumps(record).encode(), 0), LimitHit)
    return hit.retry_at


def _claude(text: str) -> dict[str, object]:
    return {"type": "result", "is_error": True, "api_error_status": 429, "result": text}


@pytest.mark.usefixtures("_zone")
@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("You've hit your session limit · resets 11:43pm (UTC)", "2027-01-15T23:43:00Z"),
        ("You've hit your limit · resets 3pm (America/New_York)", "2027-01-15T20:00:00Z"),
        ("You've hit your limit · resets 2am (UTC)", "2027-01-16T02:00:00Z"),
        ("You've hit your limit · resets 8am (UTC)", "2027-01-15T08:00:00Z"),
        ("Something else is wrong", None),
    ],
)
def test_claude_says_a_clock_and_its_zone(text, at):
    assert _retry("claude", _claude(text)) == at


def test_a_zone_that_does_not_exist_is_survived():
    assert _retry("claude", _claude("limit · resets 3pm (Mars/Olympus)")) is not None


def test_codex_says_a_clock_of_this_machine(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        limit = "You've hit your usage limit. Upgrade to Pro or try again at "
        texts = {
            "9:05 PM.": "2027-01-16T02:05:00Z",
            "2:05 AM.": "2027-01-16T07:05:00Z",
            "Jan 18th, 2027 9:05 AM.": "2027-01-18T14:05:00Z",
            "some point": None,
        }
        for text, at in texts.items():
            failed = {"type": "turn.failed", "error": {"message": limit + text}}
            assert _retry("codex", failed) == at
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("You have exhausted your capacity; will reset after 2h3m4s.", "2027-01-15T10:03:04Z"),
        ("You have exhausted your quota. Please retry in 41.2s.", "2027-01-15T08:00:41Z"),
        ("You have exhausted your daily quota on this model.", None),
    ],
)
def test_gemini_says_a_duration(text, at):
    assert _retry("gemini", {"type": "result", "status": "error", "error": {"message": text}}) == at


def test_opencode_says_seconds_in_a_header():
    data = {"statusCode": 429, "message": "no more", "responseHeaders": {"retry-after": "90"}}
    assert _retry("opencode", {"type": "error", "error": {"data": data}}) == "2027-01-15T08:01:30Z"


@pytest.mark.parametrize("epoch", [1_800_003_600, 1_800_003_600_000])
def test_an_epoch_may_be_in_milliseconds(epoch):
    info = {"status": "rejected", "resetsAt": epoch}
    record = {"type": "rate_limit_event", "rate_limit_info": info}
    assert _retry("claude", record) == "2027-01-15T09:00:00Z"


@pytest.mark.parametrize("epoch", [0, 5_000_000_000, -1, "soon", None])
def test_a_time_that_makes_no_sense_is_unknown(epoch):
    info = {"status": "rejected", "resetsAt": epoch}
    assert _retry("claude", {"type": "rate_limit_event", "rate_limit_info": info}) is None
