"""Keeps what a dead shim leaves as zombies, as a PID 1 that never reaps does."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

from tests.support.running import events_of

_PR_SET_CHILD_SUBREAPER = 36


@contextlib.contextmanager
def zombies_kept(name: str) -> Iterator[None]:
    """Orphans of the run come to this process, which reaps them when the block is left."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        events = events_of(name)
        named = [event.get("shim") or event.get("root") or {} for event in events]
        for pid in {one["pid"] for one in named if "pid" in one}:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
