"""The plan of a queue, whatever waits: the limit holds, nobody overtakes, everybody starts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.run.queueing.plan import (
    MOST_PRIORITY,
    Reason,
    Waiter,
    order_of,
    plan,
    priority_in,
    submitted_in,
)

priorities = st.integers(-MOST_PRIORITY, MOST_PRIORITY)
instants = st.integers(0, 10**19 - 1)


@st.composite
def lines(draw):
    """Waiting runs: priority, submission, need, and whether somebody is there to start them."""
    count = draw(st.integers(0, 12))
    return [
        Waiter(
            f"run{number:02}",
            order_of(draw(st.integers(-2, 2)), number),
            needs_bytes=draw(st.sampled_from([0, 0, 1, 5, 50])),
            is_gone=draw(st.integers(0, 4)) == 0,
        )
        for number in range(count)
    ]


@given(lines(), st.integers(1, 6), st.integers(0, 8), st.none() | st.integers(0, 60))
def test_the_limit_and_the_memory_hold(waiting, limit, active, free):
    places = plan(waiting, limit=limit, active=active, free_bytes=free)
    starting = {place.id for place in places if place.reason is None}
    assert active + len(starting) <= max(limit, active)
    needed = sum(one.needs_bytes for one in waiting if one.id in starting)
    assert free is None or needed <= free


@given(lines(), st.integers(1, 6), st.integers(0, 8), st.none() | st.integers(0, 60))
def test_nobody_overtakes_one_that_could_start(waiting, limit, active, free):
    places = plan(waiting, limit=limit, active=active, free_bytes=free)
    assert [place.position for place in places] == list(range(1, len(places) + 1))
    held_up = False
    for place in places:
        if place.reason is None:
            assert not held_up, "one that waits for a slot or memory is gone past"
        elif place.reason is not Reason.SHIM:
            held_up = True


@given(lines(), st.integers(1, 6), st.integers(0, 8), st.integers(-5, 60))
def test_who_waits_for_memory_does_not_fit_or_is_behind_the_first_that_does_not(
    waiting, limit, active, free
):
    places = plan(waiting, limit=limit, active=active, free_bytes=free)
    needs = {one.id: one.needs_bytes for one in waiting}
    held = [place for place in places if place.reason is Reason.MEMORY]
    starting = sum(needs[place.id] for place in places if place.reason is None)
    if held:
        assert held[0].behind is None
        assert needs[held[0].id] > free - starting
    assert all(place.behind == held[0].id for place in held[1:])
    assert all(place.behind is None for place in places if place not in held)
    # They are shown as many slots as there are: who waits for memory would have one.
    count = sum(place.reason in (None, Reason.MEMORY) for place in places)
    assert count <= max(0, limit - active)


@given(lines(), st.integers(1, 6), st.integers(0, 3), st.integers(-5, 60))
def test_of_what_does_not_fit_one_is_admitted_when_nothing_is_active(waiting, limit, paused, free):
    places = plan(
        waiting,
        limit=limit,
        active=0,
        is_paused=not paused,
        free_bytes=free,
        nothing_active=True,
    )
    there = [one for one in sorted(waiting, key=lambda one: one.order) if not one.is_gone]
    starting = [place.id for place in places if place.reason is None]
    assert starting[:1] == [one.id for one in there[:1] if paused]
    needs = {one.id: one.needs_bytes for one in waiting}
    for count in range(2, len(starting) + 1):
        latest = needs[starting[count - 1]]
        assert not latest or sum(needs[one] for one in starting[:count]) <= free


@given(lines(), st.integers(1, 6), st.integers(0, 60), st.data())
def test_over_time_needs_never_exceed_the_memory_unless_one_is_alone(waiting, limit, total, data):
    """Runs end in any order; each plan is made with what the active ones leave."""
    needs = {one.id: one.needs_bytes for one in waiting}
    left, order = list(waiting), []
    active: list[str] = []
    while True:
        free = total - sum(needs[one] for one in active)
        is_idle = not active
        places = plan(
            left, limit=limit, active=len(active), free_bytes=free, nothing_active=is_idle
        )
        first = next((place.id for place in places if place.reason is None), None)
        if first is not None:  # everybody admits itself alone
            active.append(first)
            order.append(first)
            left = [one for one in left if one.id != first]
            assert len(active) <= limit
            assert not needs[first] or is_idle or sum(needs[one] for one in active) <= total
        elif active:
            active.remove(data.draw(st.sampled_from(active)))
        else:
            break
    there = [one for one in sorted(waiting, key=lambda one: one.order) if not one.is_gone]
    assert order == [one.id for one in there]


@given(lines(), st.integers(1, 6))
def test_everybody_who_is_there_starts_in_the_end_each_once(waiting, limit):
    left, order = list(waiting), []
    while True:
        places = plan(left, limit=limit, active=0, free_bytes=0, nothing_active=True)
        starting = [place.id for place in places if place.reason is None]
        if not starting:
            break
        order += starting
        left = [one for one in left if one.id not in starting]
    there = [one for one in waiting if not one.is_gone]
    assert order == [one.id for one in sorted(there, key=lambda one: one.order)]


@given(lines(), st.integers(1, 6), st.integers(0, 8))
def test_a_paused_queue_starts_nobody(waiting, limit, active):
    places = plan(waiting, limit=limit, active=active, is_paused=True)
    assert {place.reason for place in places} <= {Reason.PAUSED}


@given(lines(), st.integers(1, 6), st.integers(0, 8))
def test_who_is_left_out_changes_only_whom_the_slots_go_to(waiting, limit, active):
    ids = [one.id for one in waiting[::2]]
    places = plan(waiting, limit=limit, active=active, left_out=ids)
    starting = {place.id for place in places if place.reason is None}
    assert not starting & set(ids)
    assert active + len(starting) <= max(limit, active)


@given(priorities, instants, priorities, instants)
def test_the_order_is_by_priority_and_then_by_submission(first, began, second, later):
    one, other = order_of(first, began), order_of(second, later)
    assert (one < other) == ((-first, began) < (-second, later))
    assert (priority_in(one), submitted_in(one)) == (first, began)
