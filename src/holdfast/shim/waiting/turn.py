"""A run's turn in its queue: it stands in line, plans under the baton, and admits only itself.

A run puts its marker into the line before it looks; one that leaves removes its marker before it
tells the first in line: so one of the two always sees the other. A look that fails is no verdict:
nothing is admitted, it is said once, and looked at again later.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.record import Record
from holdfast.run.control_socket import tell
from holdfast.run.crashpoints import crash_point
from holdfast.run.directory import RunDirectory
from holdfast.run.events import Kind
from holdfast.run.queueing.disk import Queue, need_of, order_in
from holdfast.run.queueing.plan import (
    Reason,
    Waiter,
    order_of,
    plan,
    priority_in,
    submitted_in,
)
from holdfast.run.queueing.waking import VERB, wake_first

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.run.locks import HeldLock
    from holdfast.run.queueing.disk import QueueSettings
    from holdfast.run.queueing.memory import MemoryLook
    from holdfast.run.queueing.plan import QueuePlace
    from holdfast.shim.supervisor import Supervisor

_SLOW_SECONDS = 15.0  # times the place in the line: for a wake-up that never came
_SLOWEST_SECONDS = 300.0
# A run that was told to start and has not started after this time is skipped.
_SILENT_SECONDS = 2.0
_FORGIVEN_SECONDS = 60.0  # then it is no longer skipped: its shim may only have been stopped
_MEMORY_SECONDS = 2.0  # between looks of the first that waits for memory
_BUSY_SECONDS = 0.01  # between tries while another plans; then longer and longer
_LONGEST_BUSY_SECONDS = 1.0


class QueueBusy(ValueError):
    """The baton is taken: it is asked again soon."""


class Planned(Record):
    """What a look came to: our place, which is a slot by now if it has no reason against it."""

    place: QueuePlace
    able: list[str]  # runs that may start before ours
    slots_left: bool


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
        self._busy_pause = _BUSY_SECONDS
        self._able: dict[str, float] = {}  # runs that may start before ours; when each was told
        self._has_failed = False
        self._need = need_of(supervisor.spec)
        if self._need:  # before the wait: the files may be replaced meanwhile
            from holdfast.run.queueing import memory  # noqa: F401

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
        """Record another place in the line, then take it.

        QueueBusy: another process holds the baton.
        """
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
            return self._try_soon()
        crash_point("shim.baton-taken")
        with baton:
            planned = self._plan(self._queue.read_settings())
        crash_point("shim.baton-released")
        if planned is None:
            return self._try_soon()
        self._busy_pause = _BUSY_SECONDS
        place = planned.place
        if place.reason is not None:
            self._look_later(place, planned.able)
        elif planned.slots_left:  # else the run that gives up a slot wakes the next
            wake_first(self._queue)
        return place.reason is None

    def _try_soon(self) -> bool:
        """Another plans: we are not admitted yet."""
        self._loop.after("turn", self._busy_pause * _spread(), self._look)
        self._busy_pause = min(2 * self._busy_pause, _LONGEST_BUSY_SECONDS)
        return False

    def _stand_in_line(self) -> None:
        if not self._is_in_line:
            self._queue.make()
            self._queue.line_up(self._order(), self._id)
            self._is_in_line = True
            crash_point("shim.in-line")

    def _order(self) -> str:
        return order_in(self._supervisor.directory, self._supervisor.journal.facts)

    def _plan(self, settings: QueueSettings) -> Planned | None:
        """Our place, which may be a slot by now, and the runs that may start before ours.

        None: another process has the lock for admission by memory.
        """
        active = self._queue.count_active()
        slots = 0 if settings.paused else max(0, settings.limit - active)
        waiters, position = self._line(slots)
        if not slots or not any(one.needs_bytes for one in waiters):
            return self._decide(settings, active, waiters, position, None)
        from holdfast.process.memory import own_groups
        from holdfast.run.queueing.memory import look_at_memory, take_memory_lock

        lock = take_memory_lock(self._queue.home)
        if lock is None:
            return None
        with lock:
            crash_point("shim.memory-locked")
            look = look_at_memory(self._queue.home, own_groups())
            return self._decide(settings, active, waiters, position, look)

    def _line(self, slots: int) -> tuple[list[Waiter], int]:
        """Those before us as far as they matter to our place, then we; and our position."""
        line = self._queue.waiting()
        ours = [place for place, (_, run_id) in enumerate(line) if run_id == self._id]
        if not ours:  # the marker was removed
            self._is_in_line = False
            self._stand_in_line()
            line = self._queue.waiting()
            ours = [place for place, (_, run_id) in enumerate(line) if run_id == self._id]
        waiters, living = [], 0
        for order, run_id in line[: ours[0]]:
            if living >= slots:
                break
            sibling = self._sibling(run_id)
            is_gone = not sibling.lock_is_held()
            if is_gone and self._queue.drop_if_over(order, run_id):
                continue
            living += not is_gone
            need = 0 if is_gone else need_of(sibling.read_spec())
            waiters.append(Waiter(run_id, order, need, is_gone))
        waiters.append(Waiter(self._id, line[ours[0]][0], self._need))
        return waiters, ours[0] + 1

    def _decide(
        self,
        settings: QueueSettings,
        active: int,
        waiters: list[Waiter],
        position: int,
        memory: MemoryLook | None,
    ) -> Planned:
        """Admit ourselves if the plan says so."""
        *ahead, own = plan(
            waiters,
            limit=settings.limit,
            active=active,
            is_paused=settings.paused,
            free_bytes=None if memory is None else memory.free_bytes,
            nothing_active=memory is not None and memory.nothing_active,
            left_out=self._silent(),
        )
        able = [one.id for one in ahead if one.reason is None]
        if own.reason is None and able:
            # Runs ahead may start: let them go first, so the order and the memory counted for
            # them hold.
            own = own.replace(reason=Reason.SLOT)
        if own.reason is None:
            self._queue.admit(self._order(), self._id)
            crash_point("shim.slot-taken")
            self._supervisor.journal.record(Kind.ADMITTED, queue=self._queue.name)
            crash_point("shim.admission-recorded")
        slots_left = settings.limit - active - (own.reason is None)
        return Planned(own.replace(position=position), able, slots_left > 0)

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
        elif place.reason is Reason.MEMORY and place.behind is None:
            # Nothing tells when memory becomes free: the first that waits for it looks.
            self._loop.after("turn", _MEMORY_SECONDS, self._look)
        else:
            slow = min(_SLOW_SECONDS * place.position, _SLOWEST_SECONDS)
            self._loop.after("turn", slow * _spread(), self._look)


def _busy() -> HeldLock:
    raise QueueBusy("somebody else has the queue's baton")


def _spread() -> float:
    return 0.75 + os.urandom(1)[0] / 510
