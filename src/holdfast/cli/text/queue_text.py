"""What people read of queues."""

from __future__ import annotations

from holdfast.cli.text import streams
from holdfast.manage.plaintext import printable
from holdfast.run.units import size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.manage.queueing.view import QueueInfo

    Json = dict[str, Any]


def show_queues(queues: Sequence[QueueInfo], *, quiet: bool) -> None:
    """Each with its active and its waiting runs, in order."""
    if not queues and not quiet:
        streams.complain("there are no queues: `holdfast run -Q main CMD` makes one")
    for queue in queues:
        streams.say(printable(_head(queue)))
        for one in queue.active:
            why = f": {one['waits_for']['detail']}" if one["waits_for"] else ""
            streams.say(printable(f"  active   {_name(one)}{why}"))
        for one in queue.waiting:
            streams.say(printable(f"  {one['position'] or '-':>6}   {_name(one)}{_why(one)}"))
        for one in queue.unknown:
            streams.say(printable(f"  unknown  {_name(one)}: it holds no slot; holdfast recover"))
        if queue.baton_held_by is not None:
            held = f"process {queue.baton_held_by} has had its baton for 5 s or more"
            hint = f"it may be stopped: kill -CONT {queue.baton_held_by}, or end it"
            streams.say(f"  nothing is admitted: {held}; {hint}")
        for one in queue.circle:
            where = ", ".join(one["waits_in"])
            told = f"{_name(one)} has a slot of {one['queue']} and waits inside for one of {where}"
            streams.say(printable(f"  circle   {told}: holdfast stop one of them"))
    if queues and not quiet and not any(one.active or one.waiting for one in queues):
        streams.complain("hint: holdfast ls shows what has ended")


def _head(queue: QueueInfo) -> str:
    if queue.error is not None:
        return f"{queue.name}: nothing is admitted: {queue.error}"
    paused = ", paused" if queue.paused else ""
    used = f"{len(queue.active)} of {queue.limit} active, {len(queue.waiting)} waiting"
    return f"{queue.name}: {used}{need_text(queue.needs_memory)}{paused}"


def need_text(need: int | str | None) -> str:
    """What the runs of a queue need, if they do not say."""
    if need is None:
        return ""
    return f", memory {need if isinstance(need, str) else size(need)}"


def _name(one: Json) -> str:
    return str(one["name"] or one["id"])


def _why(one: Json) -> str:
    priority = f", priority {one['priority']}" if one["priority"] else ""
    reason = one["waits_for"]
    return f"{priority}: {reason['detail']}" if reason else priority
