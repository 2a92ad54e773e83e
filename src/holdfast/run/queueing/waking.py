"""Wakes the first in line of a queue after a slot is freed, a setting changed, a run admitted."""

from __future__ import annotations

from holdfast.run.control_socket import tell
from holdfast.run.directory import RunDirectory
from holdfast.run.queueing.disk import Queue

VERB = "turn"  # of the request
_FIRST = 2  # one of them may be stopped, or about to end
_MOST_TRIED = 256  # whose shims a reboot or an OOM killer has ended: a dial is cheap


def wake_first(queue: Queue, count: int = _FIRST) -> None:
    """Tell the first `count` in line to look; never blocks."""
    for _, run_id in queue.waiting()[: max(count, _MOST_TRIED)]:
        count -= tell(RunDirectory(queue.home, run_id).path, VERB)
        if count <= 0:
            return


def leave(directory: RunDirectory, name: str) -> None:
    """A run has ended, or will never start: its slot or place is another's."""
    queue = Queue(directory.home, name)
    if queue.exists():
        queue.leave(directory.id)
        wake_first(queue)
