"""What people read of queues."""

from __future__ import annotations

from holdfast.cli.text import streams
from holdfast.manage.plaintext import printable

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
            streams.say(printable(f"  active   {_name(one)}"))
        for one in queue.waiting:
            streams.say(printable(f"  {one['position'] or '-':>6}   {_name(one)}{_why(one)}"))
        for one in queue.unknown:
            streams.say(printable(f"  unknown  {_name(one)}: it holds no slot; holdfast recover"))


def _head(queue: QueueInfo) -> str:
    if queue.error is not None:
        return f"{queue.name}: nothing is admitted: {queue.error}"
    paused = ", paused" if queue.paused else ""
    baton = f", process {queue.baton_held_by} has the baton" if queue.baton_held_by else ""
    used = f"{len(queue.active)} of {queue.limit} active, {len(queue.waiting)} waiting"
    return f"{queue.name}: {used}{paused}{baton}"


def _name(one: Json) -> str:
    return str(one["name"] or one["id"])


def _why(one: Json) -> str:
    priority = f", priority {one['priority']}" if one["priority"] else ""
    reason = one["waits_for"]
    return f"{priority}: {reason['detail']}" if reason else priority
