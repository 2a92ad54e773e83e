"""Operations one by one and together: results in order, errors apart, nobody waits for another."""

from __future__ import annotations

import os
import time

import pytest

from holdfast.errors import Refused
from holdfast.manage.steps import Wait, run_steps, run_together


def _pause(seconds, result):
    yield Wait((), seconds)
    return result


def _fail(seconds):
    yield Wait((), seconds)
    raise Refused("no")


def _read(fd):
    ready = yield Wait((fd,), 10)
    return fd in ready


def test_one_operation_gives_its_result_and_its_error():
    assert run_steps(_pause(0, 5)) == 5
    with pytest.raises(Refused):
        run_steps(_fail(0))


def test_many_run_at_once_and_their_results_are_in_order():
    began = time.monotonic()
    results = run_together([_pause(0.6, "a"), _fail(0.1), _pause(0.3, "b")])
    assert time.monotonic() - began < 5
    assert (results[0], results[2]) == ("a", "b")
    assert isinstance(results[1], Refused)
    assert run_together([]) == []


def test_each_is_told_of_its_own_descriptor():
    first, second = os.pipe(), os.pipe()
    try:
        os.write(first[1], b"x")
        os.write(second[1], b"x")
        assert run_together([_read(first[0]), _pause(0.05, 1), _read(second[0])]) == [True, 1, True]
    finally:
        for fd in (*first, *second):
            os.close(fd)


def test_an_unforeseen_error_closes_the_others():
    closed = []

    def careful():
        try:
            yield Wait((), 60)
        finally:
            closed.append(True)

    def broken():
        yield Wait((), 0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_together([careful(), broken()])
    assert closed == [True]
