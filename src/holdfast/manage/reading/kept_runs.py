"""Ended runs as they were last seen, kept in memory: for a program that lists them again and again.

It holds no truth, as the index: what is kept counts while the run's directory has the same stamp.
As long as nothing about a run changes it is given as the same object; then what was made from that
object still holds.
"""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.manage.info import RunInfo

MOST_RUNS = 1200  # more than the largest page has; about 15 KB each


class _Kept:
    def __init__(self, stamp: str, info: RunInfo) -> None:
        self.stamp = stamp
        self.info = info
        self.text: bytes | None = None


class KeptRuns:
    """The runs that were asked for last, at most `most` of them. From any thread."""

    def __init__(self, most: int = MOST_RUNS) -> None:
        self._most = most
        self._runs: dict[str, _Kept] = {}  # those asked for lately come last
        self._lock = threading.Lock()

    def get(self, run_id: str, stamp: str) -> RunInfo | None:
        """As it was when its directory had that stamp; None: not known."""
        with self._lock:
            found = self._runs.pop(run_id, None)
            if found is None or found.stamp != stamp:
                return None
            self._runs[run_id] = found
            return found.info

    def keep(self, info: RunInfo, stamp: str) -> None:
        """From now on."""
        with self._lock:
            before = self._runs.pop(info.id, None)
            is_same = before is not None and before.info is info and before.stamp == stamp
            self._runs[info.id] = before if before is not None and is_same else _Kept(stamp, info)
            if len(self._runs) > self._most:
                del self._runs[next(iter(self._runs))]

    def text_of(self, info: RunInfo, make: Callable[[RunInfo], bytes]) -> bytes:
        """What `make` makes of it; of a run that is kept it is made once."""
        with self._lock:
            found = self._runs.get(info.id)
        if found is None or found.info is not info:
            return make(info)
        text = found.text
        if text is None:
            text = found.text = make(info)
        return text
