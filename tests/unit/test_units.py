from __future__ import annotations

import calendar
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.process.clock import iso_time, seconds_of
from holdfast.run.units import clock, count, money, percent, span


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (None, ""),
        (0, "0"),
        (812, "812"),
        (999, "999"),
        (1000, "1k"),
        (6_000, "6k"),
        (81_234, "81k"),
        (999_600, "1M"),
        (1_234_567, "1.2M"),
    ],
)
def test_counts(number, says):
    assert count(number) == says


@pytest.mark.parametrize(
    ("dollars", "says"),
    [(None, ""), (0, "$0.00"), (0.001, "<$0.01"), (0.31, "$0.31"), (12, "$12.00")],
)
def test_money_tells_little_from_nothing(dollars, says):
    assert money(dollars) == says


def test_shares_and_spans():
    assert [percent(one) for one in (None, 0, 37.6, 790)] == ["", "0%", "38%", "790%"]
    assert [span(one) for one in (0.3, 1, 90, 900, 5400)] == ["0.3s", "1s", "1m30s", "15m", "1h30m"]


@given(st.integers(0, 4102444800), st.integers(0, 999999))
def test_seconds_are_what_the_calendar_says(whole, micros):
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{micros:06d}Z"
    assert seconds_of(text) == pytest.approx(whole + micros / 1e6, abs=1e-6)
    assert abs(seconds_of(iso_time(whole)) - whole) < 1e-6


def test_leap_days():
    for text in ("2000-02-29", "2024-02-29", "2100-03-01", "1999-12-31", "2024-12-31"):
        expected = calendar.timegm(time.strptime(text, "%Y-%m-%d"))
        assert seconds_of(f"{text}T00:00:00.000000Z") == expected


def test_the_clock_shows_the_date_when_it_is_not_today(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    now = seconds_of("2026-11-15T12:00:00.000000Z")
    assert clock("2026-11-15T04:12:09.500000Z", now) == "04:12:09"
    assert clock("2026-11-14T22:10:03.000000Z", now) == "11-14 22:10:03"
    assert clock("2025-11-14T22:10:03.000000Z", now) == "2025-11-14 22:10:03"
    assert clock(None, now) == ""
