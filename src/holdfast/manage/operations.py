"""Operations that have to wait, written once for both kinds of caller.

An operation is a generator that yields what it waits for. `run_steps` waits by poll; the
asynchronous library waits in its event loop. Neither needs a thread or a signal handler.
"""

from __future__ import annotations

import os
import select

from holdfast.errors import is_shortage, out_of_room
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
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


def room_for(descriptors: int, most: int = _MOST_AT_ONCE) -> int:
    """How many operations may be under way at once, if each holds this many descriptors.

    Some are left for what else is open, and for what each opens for a moment. A limit that is
    raised would be inherited by the runs.
    """
    soft = os.sysconf("SC_OPEN_MAX")  # the soft limit of now, without loading `resource`
    if soft < 0:  # there is none
        return most
    return max(1, min((soft - _SPARE_DESCRIPTORS) // descriptors, most))


def _poll(wait: Wait) -> set[int]:
    poll = select.poll()
    for fd in wait.fds:
        poll.register(fd, select.POLLIN)
    timeout = None if wait.seconds is None else max(0.0, wait.seconds) * 1000
    return {fd for fd, _ in poll.poll(timeout)}
