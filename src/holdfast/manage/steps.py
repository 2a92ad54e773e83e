"""Operations that have to wait, written once for both kinds of caller.

An operation is a generator that yields what it waits for. `run_steps` waits by poll; the
asynchronous library waits in its event loop. Neither needs a thread or a signal handler.
"""

from __future__ import annotations

import select

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any, TypeAlias, TypeVar

    Result = TypeVar("Result")


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
    finally:
        steps.close()


def _poll(wait: Wait) -> set[int]:
    poll = select.poll()
    for fd in wait.fds:
        poll.register(fd, select.POLLIN)
    timeout = None if wait.seconds is None else max(0.0, wait.seconds) * 1000
    return {fd for fd, _ in poll.poll(timeout)}
