"""Axes: round numbers that cover what was measured, with their unit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.manage.report.figures import Chart, Measure
from holdfast.manage.report.scale import amount, time_axis, value_axis, volume
from holdfast.manage.report.series import Curve, CurveShape

MIB = 1 << 20


def chart(highest: float | None, measure: Measure = Measure.BYTES, limit=None) -> Chart:
    points = () if highest is None else ((0.0, highest),)
    return Chart("k", "A chart", measure, (Curve("k", "a line", CurveShape.LEVEL, points),), limit)


@given(st.floats(0, 1e18), st.sampled_from(list(Measure)))
def test_an_axis_covers_the_highest_value_in_few_steps(highest, measure):
    axis = value_axis(chart(highest, measure))
    assert axis.top >= highest * 0.999999
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 6
    assert (ticks[0], ticks[-1][0]) == ((0.0, ticks[0][1]), 1.0)
    assert float(ticks[0][1]) == 0
    assert len({text for _, text in ticks}) == len(ticks)


def test_the_units_fit_the_numbers():
    assert value_axis(chart(287 * MIB)).unit == "MiB"
    assert value_axis(chart(287 * MIB)).ticks()[-1] == (1.0, "300")
    assert value_axis(chart(64 << 30)).unit == "GiB"
    assert value_axis(chart(812.0, Measure.BYTES_PER_SECOND)).unit == "bytes/s"
    assert value_axis(chart(8.0 * MIB, Measure.BYTES_PER_SECOND)).unit == "MiB/s"
    assert value_axis(chart(395.0, Measure.PERCENT)).ticks()[-1] == (1.0, "400")


def test_processes_are_counted_in_whole_steps():
    assert [text for _, text in value_axis(chart(2.0, Measure.NUMBER)).ticks()] == ["0", "1", "2"]


def test_an_axis_without_values_is_there_all_the_same():
    assert value_axis(chart(None)).ticks() == [(0.0, "0"), (1.0, "1")]


def test_a_limit_is_on_the_axis():
    assert value_axis(chart(10 * MIB, limit=600 * MIB)).top >= 600 * MIB


@given(st.floats(0, 1e9), st.integers(2, 12))
def test_a_time_axis_begins_at_0_and_stays_within(seconds, most):
    ticks = time_axis(seconds, most)
    assert ticks[0] == (0.0, "0s")
    assert len(ticks) <= most + 2
    assert all(0 <= share <= 1.0001 for share, _ in ticks)


def test_times_are_counted_as_people_do():
    assert [text for _, text in time_axis(130, 5)] == ["0s", "30s", "1m", "1m30s", "2m"]
    assert [text for _, text in time_axis(5 * 3600, 3)] == ["0s", "2h", "4h"]
    assert next(text for _, text in time_axis(0.0, 3)) == "0s"


@pytest.mark.parametrize(
    ("measure", "value", "text"),
    [
        (Measure.PERCENT, 38.0, "38 %"),
        (Measure.PERCENT, 0.0, "0 %"),
        (Measure.PERCENT, 0.01, "<0.1 %"),
        (Measure.BYTES, 287.4 * MIB, "287 MiB"),
        (Measure.BYTES, 1.6 * MIB, "1.6 MiB"),
        (Measure.BYTES_PER_SECOND, 812.0, "812 bytes/s"),
        (Measure.NUMBER, 4.0, "4"),
        (Measure.PERCENT, None, "unknown"),
        (Measure.BYTES, None, "unknown"),
    ],
)
def test_an_amount_has_its_unit_and_unknown_is_said(measure, value, text):
    assert amount(measure, value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "unknown"), (0, "0 bytes"), (4096, "4 KiB"), (103.4 * MIB, "103 MiB")],
)
def test_a_volume_has_its_unit_and_unknown_is_said(value, text):
    assert volume(value) == text
