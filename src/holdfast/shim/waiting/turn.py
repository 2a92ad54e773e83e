"""A run's turn in its queue: it stands in line, plans under the baton, and admits only itself.

The marker in the line comes before the look, and who leaves removes its marker before it tells the
first in line: one of the two always sees the other. A look that fails is no verdict: nothing is
admitted, it is said once, and looked at again later.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.run.control_socket import tell
from holdfast.run.crashpoints import crash_point
from holdfast.run.directory import RunDirectory
from holdfast.run.events import Kind
from holdfast.run.queueing.disk import Queue, order_in
from holdfast.run.queueing.plan import Waiter, order_of, plan, priority_in, submitted_in
from holdfast.run.queueing.waking import VERB, wake_first

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.run.locks import HeldLock
    from holdfast.run.queueing.disk import QueueSettings
    from holdfast.run.queueing.plan import QueuePlace
    from holdfast.shim.supervisor import Supervisor

_SLOW_SECONDS = 15.0  # times the place in the line: for a wake-up that never came
_SLOWEST_SECONDS = 300.0
_SILENT_SECONDS = 2.0  # who was told that it may start, and does not for so long, is gone past
_FORGIVEN_SECONDS = 60.0  # later it has another chance: it may only have been stopped for a while
_BATON_SECONDS = 0.01  # between tries to take it; then longer and longer
_LONGEST_BATON_SECONDS = 1.0


class QueueBusy(ValueError):
    """The baton is taken: it is asked again soon."""


class Turn:
    """The place of one waiting run in one queue."""

    def __init__(
        self, supervisor: Supervisor, waits: dict[str, Any], look: Callable[[], None]
    ) -> None:
        self._supervisor = supervisor
        self._loop = supervisor.loop
        self._id = supervisor.directory.id
        self._queue = Queue(supervisor.directory.home, str(waits["queue"]))
        self._look = look
        self._is_in_line = False
        self._baton_pause = _BATON_SECONDS
        self._able: dict[str, float] = {}  # who may start before us, and when it was told
        self._has_failed = False

    def holds(self) -> bool:
        """Whether it was admitted, by itself, just now."""
        self._loop.cancel("turn")
        try:
            is_admitted = self._try()
        except (HoldfastError, OSError) as error:
            if not self._has_failed:
                self._has_failed = True
                self._supervisor.journal.record_fault("queue", error)
            self._loop.after("turn", _SLOW_SECONDS, self._look)
            return False
        self._has_failed = False
        return is_admitted

    def close(self) -> None:
        self._loop.cancel("turn")

    def step_back(self) -> None:
        """Out of the line, for a run that is paused; its place is kept by its order.

        The marker may be that of a shim which died before it could step back.
        """
        self._loop.cancel("turn")
        self._is_in_line = False
        if self._queue.exists():
            self._queue.leave(self._id)
            wake_first(self._queue)

    def move(self, priority: int | None, *, first: bool) -> None:
        """Record another place in the line, then take it. QueueBusy: somebody plans."""
        order = self._order()
        with self._queue.take_baton() or _busy():
            line = [one for one, run_id in self._queue.waiting() if run_id != self._id]
            if first and line:
                ahead = min(line)
                to = order_of(priority_in(ahead), submitted_in(ahead) - 1)
            else:
                now = priority_in(order) if priority is None else priority
                to = order_of(now, submitted_in(order))
            record = self._supervisor.journal.record
            record(Kind.REQUEUED, order=to, priority=priority_in(to))
            if self._is_in_line:
                self._queue.line_up(to, self._id)
        wake_first(self._queue)

    def _try(self) -> bool:
        self._stand_in_line()
        baton = self._queue.take_baton()
        if baton is None:
            self._loop.after("turn", self._baton_pause * _spread(), self._look)
            self._baton_pause = min(2 * self._baton_pause, _LONGEST_BATON_SECONDS)
            return False
        self._baton_pause = _BATON_SECONDS
        crash_point("shim.baton-taken")
        with baton:
            place, able = self._plan(self._queue.read_settings())
        crash_point("shim.baton-released")
        if place.reason is None:
            wake_first(self._queue)
        else:
            self._look_later(place, able)
        return place.reason is None

    def _stand_in_line(self) -> None:
        if not self._is_in_line:
            self._queue.make()
            self._queue.line_up(self._order(), self._id)
            self._is_in_line = True
            crash_point("shim.in-line")

    def _order(self) -> str:
        return order_in(self._supervisor.directory, self._supervisor.journal.facts)

    def _plan(self, settings: QueueSettings) -> tuple[QueuePlace, list[str]]:
        """Our place, which may be a slot by now, and who may start before us."""
        active = self._queue.count_active()
        place, ahead = self._place(settings, active)
        if place.reason is None:
            order = self._order()
            self._queue.admit(order, self._id)
            crash_point("shim.slot-taken")
            self._supervisor.journal.record(Kind.ADMITTED, queue=self._queue.name)
            crash_point("shim.admission-recorded")
        return place, [one.id for one in ahead if one.reason is None]

    def _place(self, settings: QueueSettings, active: int) -> tuple[QueuePlace, list[QueuePlace]]:
        """Our place, and those before us as far as they matter to it."""
        line = self._queue.waiting()
        ours = [place for place, (_, run_id) in enumerate(line) if run_id == self._id]
        if not ours:  # somebody removed the marker
            self._is_in_line = False
            self._stand_in_line()
            line = self._queue.waiting()
            ours = [place for place, (_, run_id) in enumerate(line) if run_id == self._id]
        slots = 0 if settings.paused else max(0, settings.limit - active)
        waiters, living = [], 0
        for order, run_id in line[: ours[0]]:
            if living >= slots:
                break
            is_gone = not self._sibling(run_id).lock_is_held()
            if is_gone and self._queue.drop_if_over(order, run_id):
                continue
            living += not is_gone
            waiters.append(Waiter(run_id, order, is_gone=is_gone))
        waiters.append(Waiter(self._id, line[ours[0]][0]))
        *ahead, own = plan(
            waiters,
            limit=settings.limit,
            active=active,
            is_paused=settings.paused,
            left_out=self._silent(),
        )
        return own.replace(position=ours[0] + 1), ahead

    def _sibling(self, run_id: str) -> RunDirectory:
        return self._supervisor.directory.sibling(run_id)

    def _silent(self) -> set[str]:
        before = self._loop.awake() - _SILENT_SECONDS
        return {run_id for run_id, told in self._able.items() if told <= before}

    def _look_later(self, place: QueuePlace, able: list[str]) -> None:
        """Once those ahead have had their time to start; else when a wake-up must have got lost."""
        now, silent = self._loop.awake(), self._silent()
        self._able = {
            one: told
            for one, told in self._able.items()
            if one in able or (one in silent and told > now - _FORGIVEN_SECONDS)
        }
        for one in able:
            if one not in self._able:  # the wake-up that it was sent may have got lost
                self._able[one] = now
                tell(self._sibling(one).path, VERB)
        if able:
            self._loop.after("turn", _SILENT_SECONDS, self._look)
            return
        slow = min(_SLOW_SECONDS * place.position, _SLOWEST_SECONDS)
        self._loop.after("turn", slow * _spread(), self._look)


def _busy() -> HeldLock:
    raise QueueBusy("somebody else has the queue's baton")


def _spread() -> float:
    return 0.75 + os.urandom(1)[0] / 510
