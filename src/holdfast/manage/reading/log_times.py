"""When output was written, as far as that is known.

The log is the workload's own file and has no times in it. But samples and events say how long it
was at their time: so a byte was written at or before the first of them that counts it.
"""

from __future__ import annotations

import bisect
import os

from holdfast.process.clock import seconds_of
from holdfast.run.events import Kind
from holdfast.run.trace_rows import read_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.run.directory import RunDirectory


class LogTimes:
    """The lengths of one output file of a run over time."""

    def __init__(self, directory: RunDirectory, path: str) -> None:
        known = list(_latest(path))
        if path == directory.output_path:  # samples don't count stderr.log
            known = sorted([*known, *_sampled(directory), *_recorded(directory)])
        self._times: list[float] = []
        self._sizes: list[int] = []
        for at, size in known:
            if self._sizes and size < self._sizes[-1]:
                # The log was cut: what was known before is about bytes that are gone.
                self._times.clear()
                self._sizes.clear()
            self._times.append(at)
            self._sizes.append(size)

    def written_by(self, end_byte: int) -> float | None:
        """A time at which all bytes before this one were written; None: not known."""
        place = bisect.bisect_left(self._sizes, end_byte)
        return self._times[place] if place < len(self._times) else None

    def byte_at(self, at: float) -> tuple[int, float | None]:
        """A byte that was not written after that time, the latest known; and when it was seen."""
        place = bisect.bisect_right(self._times, at)
        return (0, None) if place == 0 else (self._sizes[place - 1], self._times[place - 1])


def _sampled(directory: RunDirectory) -> Iterator[tuple[float, int]]:
    for row in read_rows(directory.trace_path):
        size = row.get("log_bytes")
        if isinstance(size, int):
            yield seconds_of(row["at"]), size


def _recorded(directory: RunDirectory) -> Iterator[tuple[float, int]]:
    for event in directory.read_events().events:
        size = event.facts.get("log_bytes")
        if event.kind is Kind.RUNNING and isinstance(size, int):
            yield seconds_of(event.at), size


def _latest(path: str) -> Iterator[tuple[float, int]]:
    """The file's own time of its last change."""
    try:
        status = os.stat(path)
    except OSError:
        return
    yield status.st_mtime, status.st_size
