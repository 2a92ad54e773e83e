"""Operations one by one and together: results in order, errors apart, nobody waits for another."""

from __future__ import annotations

import errno
import os

import pytest

from holdfast.errors import Bug, Refused, Unavailable, as_our_error
from holdfast.manage.operations import Wait, run_steps
from holdfast.manage.together import run_together


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
    results = run_together([_pause(0.06, "a"), _fail(0.01), _pause(0.03, "b")])
    assert (results[0], results[2]) == ("a", "b")
    assert isinstance(results[1], Refused)
    assert run_together([]) == []


def _forbid(seconds):
    yield Wait((), seconds)
    raise PermissionError(errno.EACCES, "Permission denied", "/there")


def test_what_the_system_refuses_to_one_is_its_own_error():
    refused, other = run_together([_forbid(0.01), _pause(0.03, "b")])
    assert other == "b"
    assert isinstance(refused, Bug)
    assert isinstance(refused.__cause__, PermissionError)
    assert "/there" in refused.message


def test_any_exception_as_an_error_of_ours():
    ours = Refused("no")
    assert as_our_error(ours) is ours
    full = as_our_error(OSError(errno.ENOSPC, "No space left on device"))
    assert isinstance(full, Unavailable)
    short = as_our_error(MemoryError())
    assert isinstance(short, Unavailable)
    assert str(short) == "Cannot allocate memory"
    bug = as_our_error(KeyError("x"))
    assert (bug.exit_code, bug.hint) == (70, "please report it")


def test_each_is_told_of_its_own_descriptor():
    first, second = os.pipe(), os.pipe()
    try:
        os.write(first[1], b"x")
        os.write(second[1], b"x")
        assert run_together([_read(first[0]), _pause(0.05, 1), _read(second[0])]) == [True, 1, True]
    finally:
        for fd in (*first, *second):
            os.close(fd)


def _two_pipes(written):
    """Waits for one pipe, closes it, and waits for another, which may have the same number."""
    found = []
    for _ in range(2):
        read_end, write_end = os.pipe()
        if written:
            os.write(write_end, b"x")
        ready = yield Wait((read_end,), 0.05)
        found.append(read_end in ready)
        os.close(read_end)
        os.close(write_end)
    return found


def test_a_descriptor_that_is_closed_is_not_taken_for_the_next_of_its_number():
    operations = [_two_pipes(number % 2 == 0) for number in range(40)]
    assert run_together(operations) == [[True, True], [False, False]] * 20


def test_many_may_wait_for_one_descriptor():
    read_end, write_end = os.pipe()

    def write_later():
        yield Wait((), 0.05)
        os.write(write_end, b"x")

    try:
        found = run_together([_read(read_end), _read(read_end), write_later()])
        assert found == [True, True, None]
    finally:
        os.close(read_end)
        os.close(write_end)


def test_no_more_are_under_way_than_allowed():
    under_way = []
    most = []

    def one():
        under_way.append(1)
        most.append(len(under_way))
        yield Wait((), 0.001)
        under_way.pop()

    run_together([one() for _ in range(20)], at_once=3)
    assert max(most) == 3


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
