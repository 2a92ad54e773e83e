"""Operations that wait, alone and side by side."""

from __future__ import annotations

import os
import time

import pytest

from holdfast.manage.steps import Wait, run_steps, together


def _reading(fd, order, name):
    ready = yield Wait((fd,), 10)
    order.append(name)
    return (name, ready == {fd})


def _sleeping(seconds, order, name):
    ready = yield Wait((), seconds)
    order.append(name)
    return (name, ready)


def test_results_come_in_the_order_given_whoever_is_first():
    one, two = os.pipe(), os.pipe()
    order: list[str] = []
    os.write(two[1], b"!")

    def last():
        yield Wait((), 0.01)
        os.write(one[1], b"!")
        return ("last", None)

    found = run_steps(
        together([_reading(one[0], order, "one"), _reading(two[0], order, "two"), last()])
    )
    assert found == [("one", True), ("two", True), ("last", None)]
    assert order == ["two", "one"]
    for fd in (*one, *two):
        os.close(fd)


def test_no_more_than_so_many_are_under_way():
    order: list[str] = []
    operations = [_sleeping(0.01, order, str(number)) for number in range(7)]
    assert run_steps(together(operations, at_once=2)) == [(str(n), set()) for n in range(7)]
    assert sorted(order) == [str(n) for n in range(7)]


def test_waits_run_side_by_side():
    began = time.monotonic()
    order: list[str] = []
    run_steps(together([_sleeping(0.5, order, str(number)) for number in range(8)]))
    assert time.monotonic() - began < 3


def test_a_fault_of_one_closes_the_others():
    closed = []

    def patient():
        try:
            yield Wait((), 60)
        finally:
            closed.append(True)

    def failing():
        yield Wait((), 0)
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        run_steps(together([patient(), failing()]))
    assert closed == [True]


def test_nothing_to_do_is_done():
    assert run_steps(together([])) == []
