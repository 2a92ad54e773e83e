"""Which runs of a queue wait for memory, and for how much: the plan that the waiters make."""

from __future__ import annotations

import os
import time

from holdfast.errors import HoldfastError
from holdfast.manage.state import read_facts
from holdfast.run.directory import RunDirectory
from holdfast.run.locks import lock_is_held
from holdfast.run.queueing.disk import Queue, Slot, need_of, slot_of
from holdfast.run.queueing.memory import look_at_memory, memory_lock_path, memory_lock_pid
from holdfast.run.queueing.plan import Reason, Waiter, plan
from holdfast.run.units import size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.queueing.disk import QueueSettings
    from holdfast.run.queueing.plan import QueuePlace

    Json = dict[str, Any]
    Reasons = dict[str, Json]

SETTLED_NS = 100_000_000  # a change within the same tick of the kernel's clock shows no later time
_KEPT_SECONDS = 0.25  # one listing shows many runs of a queue
_kept: dict[str, tuple[object, float, Reasons]] = {}  # by path: as of what, and when


def memory_reasons(queue: Queue, settings: QueueSettings) -> Reasons:
    """`waits_for` of each run that has a slot in sight and waits for memory, by id."""
    try:
        seen = settings, _changed(queue.waiting_path), _changed(queue.active_path)
        known = _kept.get(queue.path)
        if known is None or known[0] != seen or time.monotonic() - known[1] > _KEPT_SECONDS:
            known = seen, time.monotonic(), _look(queue, settings)
            if time.time_ns() - max(seen[1:]) > SETTLED_NS:
                _kept[queue.path] = known
        return known[2]
    except (HoldfastError, OSError):
        return {}  # something was removed meanwhile: they wait for a slot, as far as is known


def _changed(path: str) -> int:
    return os.stat(path).st_mtime_ns


def _look(queue: Queue, settings: QueueSettings) -> Reasons:
    active = sum(slot_of(RunDirectory(queue.home, one)) is Slot.TAKEN for one in queue.active())
    slots = 0 if settings.paused else settings.limit - active
    waiters: list[Waiter] = []
    for order, run_id in queue.waiting():
        if len(waiters) >= slots:
            break
        directory = RunDirectory(queue.home, run_id)
        if directory.lock_is_held():
            waiters.append(Waiter(run_id, order, need_of(directory.read_spec())))
    needy = [one for one in waiters if one.needs_bytes]
    if not needy:
        return {}
    try:
        look = look_at_memory(queue.home, _groups_of(RunDirectory(queue.home, needy[0].id)))
    except (HoldfastError, OSError) as error:
        return {one.id: _reason(f"the memory can't be looked at: {error}") for one in needy}
    places = plan(
        waiters,
        limit=settings.limit,
        active=active,
        free_bytes=look.free_bytes,
        nothing_active=look.nothing_active,
    )
    free = look.free_bytes - sum(
        one.needs_bytes for one, place in zip(waiters, places, strict=True) if place.reason is None
    )
    needs, holder = {one.id: one.needs_bytes for one in waiters}, _holder(queue)
    held = {one.id: _reason(holder) for one in needy if holder}
    return held | {
        place.id: _reason(_detail(queue, place, needs, free))
        for place in places
        if place.reason is Reason.MEMORY
    }


def _groups_of(directory: RunDirectory) -> bytes:
    """The control groups of the shim that waits: its own count, not those of the reader."""
    context: Json = (read_facts(directory).queued or {}).get("context") or {}
    return str(context.get("cgroup", "")).encode("utf-8", "replace")


def _reason(detail: str) -> Json:
    return {"kind": Reason.MEMORY.value, "detail": detail, "until": None}


def _detail(queue: Queue, place: QueuePlace, needs: dict[str, int], free: int) -> str:
    if place.behind is None:
        return f"needs {size(needs[place.id])}, {size(max(0, free))} free after the floor"
    ahead = RunDirectory(queue.home, place.behind).read_spec().name
    return f"behind {ahead}, which needs {size(needs[place.behind])}"


def _holder(queue: Queue) -> str:
    """The process that holds the lock for admission by memory, as a reason to wait; empty: none.

    While it holds that lock, no queue admits a run by memory; if it hangs, that lasts.
    """
    if not lock_is_held(memory_lock_path(queue.home)):
        return ""
    return f"process {memory_lock_pid(queue.home) or '?'} looks at the memory"
