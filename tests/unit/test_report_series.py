"""Lines over time: breaks stay breaks, peaks stay peaks, whatever is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.manage.report.series import Curve, CurveShape, columns, lone_points, thin

values = st.one_of(st.none(), st.floats(0, 1e12, allow_nan=False))


def line(*points, shape=CurveShape.LEVEL) -> Curve:
    return Curve("k", "a line", shape, points)


def test_a_point_without_a_value_breaks_the_line():
    broken = line((0.0, 1.0), (1.0, 2.0), (2.0, None), (3.0, 4.0))
    assert broken.segments() == [[(0.0, 1.0), (1.0, 2.0)], [(3.0, 4.0)]]


def test_a_count_holds_until_the_next_one():
    held = line((0.0, 1.0), (5.0, 3.0), shape=CurveShape.COUNT)
    assert held.segments() == [[(0.0, 1.0), (5.0, 1.0), (5.0, 3.0)]]


def test_a_mean_stands_for_the_time_since_the_point_before():
    means = line((0.0, None), (5.0, 7.0), (8.0, 2.0), shape=CurveShape.MEAN)
    assert means.segments() == [[(0.0, 7.0), (5.0, 7.0), (5.0, 2.0), (8.0, 2.0)]]


def test_a_line_without_values_has_no_peak_and_is_not_known():
    assert line((0.0, None)).peak() is None
    assert not line((0.0, None)).is_known
    assert line().segments() == []


def test_a_known_zero_is_known():
    assert line((1.0, 0.0)).is_known
    assert line((1.0, 0.0)).peak() == (1.0, 0.0)


@given(st.lists(values, max_size=300), st.integers(1, 40))
def test_thinning_keeps_every_peak_and_every_break(found, buckets):
    whole = line(*((float(place), value) for place, value in enumerate(found)))
    for segment in whole.segments():
        thinned = thin(segment, float(len(found)), buckets)
        assert len(thinned) <= max(4, 4 * buckets)
        assert (thinned[0], thinned[-1]) == (segment[0], segment[-1])
        assert max(v for _, v in thinned) == max(v for _, v in segment)
        assert min(v for _, v in thinned) == min(v for _, v in segment)
        assert thinned == sorted(thinned, key=lambda point: point[0])


@given(
    st.lists(values, min_size=1, max_size=200),
    st.integers(1, 80),
    st.sampled_from(list(CurveShape)),
)
def test_columns_show_the_peak_and_nothing_that_was_not_measured(found, count, shape):
    whole = line(*((float(place), value) for place, value in enumerate(found)), shape=shape)
    shown = columns(whole, float(len(found)), count)
    assert len(shown) == count
    known = [value for value in found if value is not None]
    seen = [value for value in shown if value is not None]
    assert max(seen, default=None) == max(known, default=None)
    assert all(min(known) <= value <= max(known) for value in seen)


def test_columns_do_not_bridge_a_break():
    broken = line((0.0, 5.0), (1.0, 5.0), (1.5, None), (9.0, 5.0))
    assert columns(broken, 10.0, 10) == [5.0, 5.0, *[None] * 7, 5.0]


def test_columns_of_a_run_of_no_length():
    assert columns(line((0.0, 5.0)), 0.0, 3) == [5.0, None, None]


def test_lone_values_are_dots_and_the_highest_of_a_place_stands_for_all():
    alone = line(*(point for t in range(9) for point in ((t / 10, float(t)), (t / 10, None))))
    assert lone_points(alone.segments(), 1.0, 1) == [(0.8, 8.0)]
    assert len(lone_points(alone.segments(), 1.0, 100)) == 9


@pytest.mark.parametrize("shape", list(CurveShape))
def test_the_document_has_all_points(shape):
    document = line((0.0, 1.0), (1.0, None), shape=shape).to_json()
    assert document["points"] == [[0.0, 1.0], [1.0, None]]
    assert document["shape"] == shape.value


def test_points_that_are_too_rare_are_not_joined():
    rare = line((0.0, 1.0), (300.0, 9.0), (310.0, None), (600.0, 9.5), shape=CurveShape.POINTS)
    assert rare.segments() == [[(0.0, 1.0)], [(300.0, 9.0)], [(600.0, 9.5)]]
    assert lone_points(rare.segments(), 600.0, 10) == [(0.0, 1.0), (300.0, 9.0), (600.0, 9.5)]
