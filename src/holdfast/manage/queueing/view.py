"""How queues stand, and what a queued run waits for. Takes no lock and writes nothing.

A reader makes the plan that the waiters make, so what it shows is what they would do.
"""

from __future__ import annotations

import os
import time

from holdfast.errors import HoldfastError
from holdfast.manage.queueing.memory_view import SETTLED_NS, memory_reasons
from holdfast.manage.state import read_facts, view_run
from holdfast.process import this_host
from holdfast.process.clock import boottime, iso_time, seconds_of
from holdfast.record import Record
from holdfast.run.directory import RunDirectory
from holdfast.run.facts import State
from holdfast.run.queueing.disk import Queue, Slot, queue_names, slot_of
from holdfast.run.queueing.plan import Reason, Waiter, plan, priority_in
from holdfast.run.units import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.state import RunView
    from holdfast.run.home import Home
    from holdfast.run.queueing.disk import QueueSettings

    Json = dict[str, Any]

BATON_SECONDS = 5.0  # a plan takes milliseconds: a process that has it longer may be stopped
_lines: dict[str, tuple[int, list[str]]] = {}  # by path: as of which change, and the runs that wait


class QueueInfo(Record):
    """One queue at one look. `error`: its settings can't be read; then nothing is admitted."""

    name: str
    limit: int | None
    paused: bool | None
    needs_memory: int | str | None  # of runs that do not say: bytes, or auto
    active: tuple[Json, ...]  # id, name; waits_for: of one that waits for its agent's quota
    # id, name, position, priority, waits_for; in order, then those that are not in line yet
    waiting: tuple[Json, ...]
    unknown: tuple[Json, ...]  # that had a slot; whether they live is not known
    baton_held_by: int | None  # a PID, if it has planned for 5 s: it may be stopped
    error: str | None = None
    # Of a deadlock: runs with its slots that wait for one another (id, name, queue, waits_in).
    circle: tuple[Json, ...] = ()

    def to_json(self) -> Json:
        """For `queue --json`."""
        names = ("active", "waiting", "unknown", "circle")
        lists = {key: list(getattr(self, key)) for key in names}
        return {**self.as_dict(), **lists}


def describe_queue(view: RunView) -> Json | None:
    """The contract's `queue` of a run; None: it neither waits nor has waited."""
    waits, limit = view.spec.waits or {}, view.facts.limit_wait
    if view.spec.waits is None and limit is None:
        return None
    facts, name = view.facts, waits.get("queue")
    position, reason = None, None
    if limit is not None and view.standing.state.is_active:
        reason = _of_limit(view.directory, limit)
    elif view.standing.state is State.QUEUED:
        reason = _reason(view, waits)
        if name is not None:
            position = _position(Queue(view.directory.home, name), view.directory.id)
    priority = (facts.requeued or {}).get("priority", waits.get("priority"))
    return {
        "name": name,
        "priority": priority,
        "position": position,
        "waits_for": reason,
        "needs_memory": waits.get("needs_memory"),
    }


def _reason(view: RunView, waits: Json) -> Json | None:
    if not view.directory.lock_is_held():
        return _waits_for("shim", "its shim is gone: holdfast recover")
    if view.facts.paused is not None:
        return _waits_for("paused", "it is paused: holdfast unpause")
    moment = moment_of(waits)
    if moment is not None and time.time() < moment:
        return _waits_for("time", "a time", iso_time(moment))
    for target in waits.get("after") or ():
        why = _why_not_over(view.directory.sibling(target["run"]))
        if why is not None:
            return _waits_for("after", f"{target['name']}: {why}")
    if waits.get("queue") is None:
        return None
    queue = Queue(view.directory.home, waits["queue"])
    try:
        settings = queue.read_settings()
    except (HoldfastError, OSError) as error:
        return _waits_for("slot", f"the queue's settings can't be read: {error}")
    return memory_reasons(queue, settings).get(view.directory.id) or _of_queue(queue, settings)


def _of_limit(directory: RunDirectory, limit: Json) -> Json:
    """An attempt that waits for its agent's quota; `until`: when it starts."""
    if not directory.lock_is_held():
        return _waits_for("shim", "its shim is gone: holdfast recover", limit["at"])
    return _waits_for("limit", limit_text(limit["until"]), limit["at"])


def limit_text(until: str | None) -> str:
    """`usage limit until 16:00:00`, as far as the agent said so."""
    return "usage limit" if until is None else f"usage limit until {clock(until, time.time())}"


def _waits_for(kind: str, detail: str, until: str | None = None) -> Json:
    return {"kind": kind, "detail": detail, "until": until}


def _of_queue(queue: Queue, settings: QueueSettings) -> Json:
    if settings.paused:
        return _waits_for("paused", f"queue {queue.name} is paused")
    return _waits_for("slot", f"a slot of {queue.name}, which has {settings.limit}")


def moment_of(waits: Json) -> float | None:
    """When the time that was asked for comes, by the wall clock; None: none was."""
    if waits.get("at") is not None:
        return seconds_of(waits["at"])
    delay = waits.get("in")
    if delay is None:
        return None
    if delay["boot_id"] == this_host.place().boot_id:
        return time.time() - boottime() + float(delay["boottime"]) + float(delay["seconds"])
    return seconds_of(delay["at"]) + float(delay["seconds"])


def _why_not_over(target: RunDirectory) -> str | None:
    """Why an awaited run does not let us go on; None: it has ended."""
    try:
        facts = read_facts(target)
    except (HoldfastError, OSError) as error:
        return f"it can't be read: {error}"
    if facts.has_ended:
        return None
    return facts.phase.value if target.lock_is_held() else "its shim is gone"


def _position(queue: Queue, run_id: str) -> int | None:
    """From 1; None: it does not stand in line yet."""
    try:
        changed = os.stat(queue.waiting_path).st_mtime_ns
        known = _lines.get(queue.waiting_path)
        if known is None or known[0] != changed:
            known = changed, [one for _, one in queue.waiting()]
            if time.time_ns() - changed > SETTLED_NS:
                _lines[queue.waiting_path] = known
        return known[1].index(run_id) + 1
    except (OSError, ValueError):
        return None


# Whole queues


def list_queues(home: Home) -> list[QueueInfo]:
    """Every queue of a home, by name."""
    from holdfast.manage.queueing.slot_deadlocks import with_circles

    return with_circles(home, [_look_at(Queue(home, name)) for name in queue_names(home)])


def look_at_queue(queue: Queue) -> QueueInfo:
    """One queue: a circle may go through others."""
    name = queue.name.lower()
    return next(one for one in list_queues(queue.home) if one.name.lower() == name)


def _look_at(queue: Queue) -> QueueInfo:
    """The runs that have a slot, and those that wait: in which order, and why."""
    active, unknown = [], []
    for run_id in queue.active():
        directory = RunDirectory(queue.home, run_id)
        slot = slot_of(directory)
        if slot is Slot.TAKEN:
            active.append({**_named(directory), "waits_for": _next_attempt(directory)})
        elif slot is Slot.UNKNOWN:
            unknown.append(_named(directory))
    held_seconds = queue.baton_held_seconds() or 0.0
    holder = queue.baton_pid() if held_seconds >= BATON_SECONDS else None
    try:
        settings = queue.read_settings()
    except (HoldfastError, OSError) as error:
        return QueueInfo(
            queue.name, None, None, None, tuple(active), (), tuple(unknown), holder, str(error)
        )
    line = _line(queue, settings, len(active))
    shown = {one["id"] for one in (*active, *unknown, *line)}
    return QueueInfo(
        queue.name,
        settings.limit,
        settings.paused,
        settings.needs_memory,
        tuple(active),
        (*line, *_not_in_line(queue, shown)),
        tuple(unknown),
        holder,
    )


def _next_attempt(directory: RunDirectory) -> Json | None:
    """What the next attempt of an active run waits for, if it waits for its agent's quota."""
    try:
        limit = read_facts(directory).limit_wait
    except (HoldfastError, OSError):
        return None
    return None if limit is None else _of_limit(directory, limit)


def _line(queue: Queue, settings: QueueSettings, active: int) -> list[Json]:
    waiters = []
    for order, run_id in queue.waiting():
        directory = RunDirectory(queue.home, run_id)
        is_gone = not directory.lock_is_held()
        if not is_gone or directory.is_marked_active():  # else it has ended: the marker goes
            waiters.append(Waiter(run_id, order, is_gone=is_gone))
    places = plan(waiters, limit=settings.limit, active=active, is_paused=settings.paused)
    held = memory_reasons(queue, settings)
    said = {
        Reason.PAUSED: _of_queue(queue, settings),
        Reason.SLOT: _of_queue(queue, settings),
        Reason.SHIM: _waits_for("shim", "its shim is gone: holdfast recover"),
        None: None,  # it is about to start
    }
    return [
        {
            **_named(RunDirectory(queue.home, place.id)),
            "position": place.position,
            "priority": priority_in(waiter.order),
            "waits_for": held.get(place.id) or said[place.reason],
        }
        for place, waiter in zip(places, waiters, strict=True)
    ]


def _not_in_line(queue: Queue, shown: set[str]) -> list[Json]:
    """Runs of the queue that are paused, or whose other conditions do not hold yet."""
    rows = []
    for run_id in queue.home.run_ids(active=True):
        directory = RunDirectory(queue.home, run_id)
        try:
            waits = None if run_id in shown else directory.read_spec().waits
            if waits is None or str(waits.get("queue")).lower() != queue.name.lower():
                continue
            described = describe_queue(view_run(directory, members=False, closely=False)) or {}
        except (HoldfastError, OSError):  # its queue is not known: `ls` lists it as unknown
            continue
        reason = described.get("waits_for")
        if reason is not None and reason["kind"] != "slot":
            rows.append((str(waits.get("order")), {**described, **_named(directory)}))
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]


def _named(directory: RunDirectory) -> Json:
    try:
        name: str | None = directory.read_spec().name
    except (HoldfastError, OSError):
        name = None
    return {"id": directory.id, "name": name}
