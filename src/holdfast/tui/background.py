"""Work that reads the disk or waits for runs, each piece in a thread that nobody waits for.

A disk that hangs holds such a thread, never the screen, and not its end either.
"""

from __future__ import annotations

import threading
from contextvars import copy_context

from holdfast.errors import as_our_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any

    Work = Callable[[], Any]
    Then = Callable[[Any], None]


class Background:
    """Hands results back to the thread of the screen. One piece of work per key at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._context = copy_context()  # which Textual finds its application by
        self._busy: set[str] = set()
        self._next: dict[str, tuple[Work, Then]] = {}

    def do(self, key: str, work: Work, then: Then) -> None:
        """`then` gets the result, or a HoldfastError. While one is under way under that key, the
        last one that was asked for waits: those before it are dropped."""
        if key in self._busy:
            self._next[key] = (work, then)
            return
        self._busy.add(key)
        start(lambda: self._work(key, work, then))

    def hand_over(self, call: Callable[..., None], *given: Any) -> None:
        """Have the thread of the screen call it."""
        try:
            self._loop.call_soon_threadsafe(call, *given, context=self._context)
        except RuntimeError:  # the screen is gone
            pass

    def _work(self, key: str, work: Work, then: Then) -> None:
        self.hand_over(self._finish, key, then, attempted(work))

    def _finish(self, key: str, then: Then, result: Any) -> None:
        self._busy.discard(key)
        waiting = self._next.pop(key, None)
        try:
            then(result)  # first: the next piece of work may go on from it
        finally:
            if waiting is not None:
                self.do(key, *waiting)


def start(work: Callable[[], None]) -> None:
    """In a thread that ends with the program."""
    threading.Thread(target=work, daemon=True).start()


def attempted(work: Work) -> Any:
    """The result, or why there is none."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - it is shown on the screen, which goes on
        return as_our_error(error)
