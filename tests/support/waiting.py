"""Waiting on a condition. Tests never sleep and hope."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.01


def eventually(
    condition: Callable[[], T | None],
    timeout: float = 20,
    why: str = "",
    *,
    ignoring: tuple[type[Exception], ...] = (),
) -> T:
    """The first truthy value of `condition`; fails with `why` when there is none in time.

    Exceptions named in `ignoring` count as "not yet"; all others pass through.
    """
    deadline = time.monotonic() + timeout
    while True:
        seen: object
        try:
            value = condition()
        except ignoring as error:
            seen = error
        else:
            if value:
                return value
            seen = value
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout} s: {why or condition}; last saw {seen!r}")
        time.sleep(POLL_SECONDS)
