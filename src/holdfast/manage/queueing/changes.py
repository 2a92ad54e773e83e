"""What people change about a queue: its limit, whether it admits, and the order of its line."""

from __future__ import annotations

import time

from holdfast.errors import LockBusy, NotFound, Refused, Unavailable
from holdfast.manage.operations import Wait
from holdfast.manage.queueing.values import read_queue
from holdfast.manage.queueing.view import BATON_SECONDS
from holdfast.manage.shim_client import ask_shim_of
from holdfast.manage.state import read_facts
from holdfast.run.directory import RunDirectory
from holdfast.run.locks import wait_for_lock
from holdfast.run.queueing.disk import Queue, queue_names
from holdfast.run.queueing.waking import wake_first

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.operations import Steps
    from holdfast.run.home import Home
    from holdfast.run.queueing.disk import QueueSettings

_AGAIN_SECONDS = 0.02


def change_queue(home: Home, name: str, **changes: Any) -> QueueSettings:
    """Change settings, and wake the runs that may start now. A queue that is not there is made.

    After this returns nothing is admitted by the old settings: they are read under the baton.
    """
    queue = Queue(home.prepare(), read_queue(name, "queue"))
    queue.make()
    try:
        baton = wait_for_lock(queue.baton_path, BATON_SECONDS)
    except LockBusy:
        raise _held_too_long(queue) from None
    with baton:
        settings = queue.read_settings().replace(**changes)
        queue.write_settings(settings)
    wake_first(queue, settings.limit + 1)
    return settings


def _held_too_long(queue: Queue) -> Unavailable:
    return Unavailable(
        f"queue {queue.name}: process {queue.baton_pid() or '?'} has held its baton for"
        f" {BATON_SECONDS:g} s",
        hint="it may be stopped (ctrl-z, SIGSTOP): continue or end it, then try again",
    )


def find_queue(home: Home, name: str) -> Queue:
    """NotFound when nothing was ever put into it."""
    queue = Queue(home, read_queue(name, "queue"))
    if not queue.exists():
        names = ", ".join(queue_names(home)) or "none"
        hint = f"queues that exist: {names}; holdfast queue set {name} --limit N makes it"
        raise NotFound(f"there is no queue {name}", hint=hint)
    return queue


def move_in_line(
    directory: RunDirectory, *, first: bool = False, priority: int | None = None
) -> Steps[None]:
    """Another place in the line; its own shim records and does it."""
    spec = directory.read_spec()
    if (spec.waits or {}).get("queue") is None or not read_facts(directory).waits_to_begin:
        raise Refused(
            f"{spec.name} ({spec.id}) waits in no queue",
            hint="holdfast queue lists what waits",
            run=spec.id,
        )
    request = {"do": "requeue", "first": first, "priority": priority}
    deadline = time.monotonic() + BATON_SECONDS
    answer = yield from ask_shim_of(directory, request)
    while answer is not None and answer.get("code") == "busy":
        if time.monotonic() > deadline:
            raise _held_too_long(Queue(directory.home, str((spec.waits or {})["queue"])))
        yield Wait(seconds=_AGAIN_SECONDS)
        answer = yield from ask_shim_of(directory, request)
    if answer is None:
        raise Unavailable(
            f"the shim of {spec.name} ({spec.id}) does not answer",
            hint="holdfast recover; then try again",
            run=spec.id,
        )
    if not answer.get("ok"):
        raise Refused(str(answer.get("error")), hint=f"holdfast status {spec.name}", run=spec.id)
