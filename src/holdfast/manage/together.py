"""Several operations at once: a wake goes on with those that it concerns (decision 0066)."""

from __future__ import annotations

import heapq
import select

from holdfast.errors import HoldfastError, as_our_error
from holdfast.manage.operations import Wait, run_steps
from holdfast.process.clock import boottime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from typing import Any

    from holdfast.manage.operations import Steps


class Watched:
    """Descriptors of which any may become ready: a wake costs as much as is ready, not as much as
    is watched, where the system has epoll.

    Remove a descriptor before closing it.
    """

    def __init__(self) -> None:
        self._fds: set[int] = set()
        self._epoll = select.epoll() if hasattr(select, "epoll") else None

    def add(self, fd: int) -> None:
        """From now on."""
        self._fds.add(fd)
        if self._epoll is not None:
            self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        """No longer."""
        self._fds.discard(fd)
        if self._epoll is not None:
            self._epoll.unregister(fd)

    def wait(self, seconds: float | None) -> Steps[set[int]]:
        """Those that are ready; none: the time is over."""
        if self._epoll is None:
            return (yield Wait(tuple(self._fds), seconds))
        yield Wait((self._epoll.fileno(),), seconds)
        return {fd for fd, _ in self._epoll.poll(0)}

    def close(self) -> None:
        if self._epoll is not None:
            self._epoll.close()


def run_together(
    operations: Sequence[Generator[Wait, set[int], Any]], at_once: int | None = None
) -> list[Any]:
    """Run several operations at once in the calling thread: each one's result, or its error."""
    results: list[Any] = run_steps(together(operations, at_once))
    return results


def together(
    operations: Sequence[Generator[Wait, set[int], Any]],
    at_once: int | None = None,
    *,
    until: Callable[[Any], bool] | None = None,
) -> Steps[list[Any]]:
    """Several operations, up to `at_once` at a time: the result or error of each, in order.

    `until`: over when it says so of a result; what is not over then is given up, and has None.
    """
    crowd = _Crowd(operations)
    try:
        while crowd.is_busy and not (until is not None and crowd.has_one(until)):
            crowd.begin(at_once)
            if crowd.is_waiting:
                yield from crowd.go_on()
        return crowd.results
    finally:
        crowd.close()
        for steps in operations:
            steps.close()


class _Crowd:
    """Operations that wait at the same time: a wake goes on with those that it concerns."""

    def __init__(self, operations: Sequence[Generator[Wait, set[int], Any]]) -> None:
        self.results: list[Any] = [None] * len(operations)
        self._operations = operations
        self._next = 0
        self._waits: dict[int, tuple[Wait, float | None]] = {}
        self._watched = Watched()
        self._places: dict[int, set[int]] = {}  # by descriptor: the operations that wait for it
        self._ends: list[tuple[float, int]] = []  # a heap; some are over for other reasons

    def has_one(self, fits: Callable[[Any], bool]) -> bool:
        """Whether there is such a result."""
        return any(one is not None and fits(one) for one in self.results)

    @property
    def is_busy(self) -> bool:
        return self._next < len(self._operations) or bool(self._waits)

    @property
    def is_waiting(self) -> bool:
        return bool(self._waits)

    def begin(self, at_once: int | None) -> None:
        """How many are under way."""
        while self._next < len(self._operations) and (
            at_once is None or len(self._waits) < at_once
        ):
            self._next += 1
            self._advance(self._next - 1, None)

    def go_on(self) -> Steps[None]:
        """Wait until one of them can go on, and go on with all that can."""
        until = self._soonest()
        ready = yield from self._watched.wait(None if until is None else until - boottime())
        now = boottime()
        places = {place for fd in ready for place in self._places.get(fd, ())}
        while self._ends and self._ends[0][0] <= now:
            end, place = heapq.heappop(self._ends)
            if place in self._waits and self._waits[place][1] == end:
                places.add(place)
        for place in sorted(places):
            wait, _ = self._waits.pop(place)
            self._unwatch(place, wait)
            self._advance(place, ready.intersection(wait.fds))

    def _soonest(self) -> float | None:
        while self._ends:
            end, place = self._ends[0]
            if place in self._waits and self._waits[place][1] == end:
                return end
            heapq.heappop(self._ends)
        return None

    def _advance(self, place: int, ready: set[int] | None) -> None:
        steps = self._operations[place]
        try:
            wait = next(steps) if ready is None else steps.send(ready)
            self._watch(place, wait)
        except StopIteration as done:
            self.results[place] = done.value
        except (HoldfastError, OSError) as error:  # of this one: the others go on
            self._waits.pop(place, None)
            self.results[place] = as_our_error(error)

    def _watch(self, place: int, wait: Wait) -> None:
        end = None if wait.seconds is None else boottime() + wait.seconds
        self._waits[place] = (wait, end)
        if end is not None:
            heapq.heappush(self._ends, (end, place))
        for fd in wait.fds:
            if fd not in self._places:
                self._watched.add(fd)
            self._places.setdefault(fd, set()).add(place)

    def _unwatch(self, place: int, wait: Wait) -> None:
        for fd in wait.fds:
            places = self._places[fd]
            places.discard(place)
            if not places:
                del self._places[fd]
                self._watched.remove(fd)

    def close(self) -> None:
        self._watched.close()
