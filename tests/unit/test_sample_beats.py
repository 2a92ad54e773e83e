"""Shims of one machine sample at the same moments, whenever they were started."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.run.live import _STALE_INTERVALS
from holdfast.run.trace import late_after
from holdfast.shim.observer import even_beat, next_beat

intervals = st.sampled_from([0.5, 1.0, 5.0, 60.0])
times = st.floats(min_value=0, max_value=1e8)


@given(now=times, interval=intervals)
def test_a_sample_is_due_at_a_multiple_of_the_interval(now, interval):
    due = next_beat(now, interval)
    assert due / interval == int(due / interval)
    assert 0.5 * interval <= due - now <= 1.5 * interval


@given(beat=st.integers(min_value=0, max_value=10**7), interval=intervals)
def test_who_keeps_the_beat_samples_at_the_interval(beat, interval):
    late = interval / 10  # a wake is never early, and on a busy machine it is late
    assert next_beat(beat * interval + late, interval) == (beat + 1) * interval


@given(one=times, interval=intervals, part=st.floats(min_value=0, max_value=1))
def test_shims_that_started_apart_come_to_the_same_moments(one, interval, part):
    first, other = next_beat(one, interval), next_beat(one + part * interval, interval)
    while first < other:
        first = next_beat(first, interval)
    while other < first:
        other = next_beat(other, interval)
    assert first == other


@given(beat=st.integers(min_value=0, max_value=10**7), interval=intervals)
def test_an_idle_tree_is_looked_at_every_other_beat(beat, interval):
    now = beat * interval + interval / 10
    due = even_beat(next_beat(now, interval), interval)
    assert due / interval % 2 == 0
    assert interval / 2 < due - now < 2 * interval
    again = even_beat(next_beat(due, interval), interval)
    assert again - due == 2 * interval


def test_what_is_looked_at_every_other_beat_is_neither_late_nor_stale():
    for interval in (5.0, 60.0):
        assert 2.5 * interval < late_after(interval)
        assert 2.5 * interval < _STALE_INTERVALS * interval
