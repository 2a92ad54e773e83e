"""Operations that have to wait, written once for both kinds of caller.

An operation is a generator that yields what it waits for. `run_steps` waits by poll; the
asynchronous library waits in its event loop. Neither needs a thread or a signal handler.
"""

from __future__ import annotations

import os
import select

from holdfast.errors import HoldfastError, is_shortage, out_of_room
from holdfast.process.clock import boottime
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from typing import Any, TypeAlias, TypeVar

    Result = TypeVar("Result")


_SPARE_DESCRIPTORS = 16
_MOST_AT_ONCE = 256


class Wait(Record):
    """Until one of the descriptors can be read or hangs up, or the time is over."""

    fds: tuple[int, ...] = ()
    seconds: float | None = None


if TYPE_CHECKING:
    Steps: TypeAlias = Generator[Wait, set[int], Result]


def run_steps(steps: Generator[Wait, set[int], Any]) -> Any:
    """Run an operation to its end in the calling thread."""
    ready: set[int] | None = None
    try:
        while True:
            wait = next(steps) if ready is None else steps.send(ready)
            ready = _poll(wait)
    except StopIteration as done:
        return done.value
    except OSError as error:
        if not is_shortage(error):
            raise
        raise out_of_room(error) from error
    finally:
        steps.close()


def room_for(descriptors: int) -> int:
    """How many operations that hold so many descriptors each may be under way at once.

    Some are left for what else is open, and for what each opens for a moment. A limit that is
    raised would be inherited by the runs.
    """
    soft = os.sysconf("SC_OPEN_MAX")  # the soft limit of now, without loading `resource`
    if soft < 0:  # there is none
        return _MOST_AT_ONCE
    return max(1, min((soft - _SPARE_DESCRIPTORS) // descriptors, _MOST_AT_ONCE))


def _poll(wait: Wait) -> set[int]:
    poll = select.poll()
    for fd in wait.fds:
        poll.register(fd, select.POLLIN)
    timeout = None if wait.seconds is None else max(0.0, wait.seconds) * 1000
    return {fd for fd, _ in poll.poll(timeout)}


def run_together(
    operations: Sequence[Generator[Wait, set[int], Any]], at_once: int | None = None
) -> list[Any]:
    """Run several operations at once in the calling thread: each one's result, or its error."""
    results: list[Any] = run_steps(together(operations, at_once))
    return results


def together(
    operations: Sequence[Generator[Wait, set[int], Any]], at_once: int | None = None
) -> Steps[list[Any]]:
    """Several operations, up to so many at once: each one's result, or its error, in order."""
    results: list[Any] = [None] * len(operations)
    waits: dict[int, tuple[Wait, float | None]] = {}
    todo = list(range(len(operations)))
    try:
        while todo or waits:
            while todo and (at_once is None or len(waits) < at_once):
                place = todo.pop(0)
                _advance(place, operations[place], None, results, waits)
            if not waits:
                continue
            ready = yield _nearest(waits)
            now = boottime()
            for place, (wait, until) in list(waits.items()):
                found = ready.intersection(wait.fds)
                if found or (until is not None and until <= now):
                    _advance(place, operations[place], found, results, waits)
    finally:
        for steps in operations:
            steps.close()
    return results


def _advance(
    place: int,
    steps: Generator[Wait, set[int], Any],
    ready: set[int] | None,
    results: list[Any],
    waits: dict[int, tuple[Wait, float | None]],
) -> None:
    try:
        wait = next(steps) if ready is None else steps.send(ready)
    except StopIteration as done:
        results[place] = done.value
        waits.pop(place, None)
    except HoldfastError as error:
        results[place] = error
        waits.pop(place, None)
    except OSError as error:
        if not is_shortage(error):
            raise
        results[place] = out_of_room(error)  # of this one: the others go on
        waits.pop(place, None)
    else:
        waits[place] = (wait, None if wait.seconds is None else boottime() + wait.seconds)


def _nearest(waits: dict[int, tuple[Wait, float | None]]) -> Wait:
    fds = tuple({fd for wait, _ in waits.values() for fd in wait.fds})
    ends = [until for _, until in waits.values() if until is not None]
    return Wait(fds, min(ends) - boottime() if ends else None)
