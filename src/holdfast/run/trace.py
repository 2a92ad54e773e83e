"""trace.jsonl: samples as they are taken, bounded, with their peaks kept.

While nothing changes there is one more row alone, which is written over: it has the time of the
last look, since when nothing has changed, and for how many looks it stands (decision 0068).

A trace that can't be written is said once and the run goes on. When it grows too large, the
older half keeps every second row: of each eight those with the most memory, CPU, OOM score and
descriptors, and all eight where an anomaly fired. So no peak is lost, whatever its age.
"""

from __future__ import annotations

import os

from holdfast.process.sampling.figures import KEPT, USAGE
from holdfast.process.sampling.samples import tree_figures
from holdfast.run.atomic_files import encode, tail_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO

    from holdfast.process.sampling.samples import Sample

    Row = dict[str, Any]

PEAKS = "peaks"  # of a row: the usage so far where it is above the row's own figures
_LATE_INTERVALS = 3
_LATE_SECONDS = 1.0  # a loaded machine
MOST_BYTES = 4 << 20  # half a day of rows; thinning so much takes tens of milliseconds
_GROUP = 8
_FIGURES = tuple(f'"{name}":'.encode() for name in KEPT)
_ANOMALY = b'"anomalies":'
_COPIED_BYTES = 1 << 18
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
# How a row begins that is written over: of one length, whatever the figures.
TIMES = ("at", "boottime", "quiet_seconds")
_REPEATED = '{"at":"%s","boottime":%16.3f,"quiet_seconds":%14.1f,"looks":%10d,'


def late_after(interval_seconds: float) -> float:
    """How long after a sample the next one counts as missing: nothing was measured in between."""
    return max(_LATE_SECONDS, _LATE_INTERVALS * interval_seconds)


class TraceWriter:
    """Appends rows. Only the lock's holder writes a run's trace."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._size = 0
        self._repeated_at = -1  # where the row is that is written over
        self._is_torn = False  # the last line may lack its end
        self._said = False

    def append(self, row: Row) -> str | None:
        """Write a row. What went wrong, the first time that something does; else None."""
        self._repeated_at = -1
        return self._try(lambda: self._append(encode(row) + b"\n"))

    def repeat(
        self, times: tuple[str, float, float, int], figures: Callable[[], Row]
    ) -> str | None:
        """The last row again, at other times: written over the one that was so before.

        `times`: `TIMES`, and for how many looks it stands.
        """
        return self._try(lambda: self._repeat((_REPEATED % times).encode("ascii"), figures))

    def _repeat(self, head: bytes, figures: Callable[[], Row]) -> None:
        if self._repeated_at >= 0 and self._is_as_left():
            os.pwrite(self._fd, head, self._repeated_at)
            return
        line = head + encode(figures())[1:] + b"\n"
        self._append(line)
        # Not where it was cut, or the whole file was written anew.
        is_whole = self._fd >= 0 and not self._is_torn
        self._repeated_at = self._size - len(line) if is_whole else -1

    def _try(self, write: Callable[[], None]) -> str | None:
        try:
            write()
        except OSError as error:
            self._let_go()
            if self._said:
                return None
            self._said = True
            return f"the trace can't be written: {error.strerror or error}"
        return None

    def _is_as_left(self) -> bool:
        """Whether no other process has cut it, or added to it."""
        return self._fd >= 0 and os.fstat(self._fd).st_size == self._size

    def close(self) -> None:
        """Give the descriptor back."""
        self._let_go()

    def _append(self, line: bytes) -> None:
        if not self._is_as_left():
            self._let_go()
            self._open()
        if self._is_torn:
            line = b"\n" + line
        written = os.pwrite(self._fd, line, self._size)
        self._size += written
        self._is_torn = written < len(line)
        if self._size > MOST_BYTES:
            self._thin()

    def _open(self) -> None:
        self._fd = os.open(self._path, _FLAGS, 0o600)
        self._size = os.fstat(self._fd).st_size
        tail = tail_of(self._path, self._size, 1)
        self._is_torn = bool(tail) and not tail.endswith(b"\n")

    def _thin(self) -> None:
        """Rewrite the file as a whole; a death in between leaves the old or the new."""
        temporary = f"{self._path}.{os.urandom(6).hex()}.new"
        try:
            with open(self._path, "rb") as old, open(temporary, "xb") as new:
                os.fchmod(new.fileno(), 0o600)
                thin(old, new, self._size // 2)
            os.rename(temporary, self._path)
        except OSError:
            _remove(temporary)
            raise
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = self._repeated_at = -1


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # what can't be written can't be removed either, or was never made


def thin(old: BinaryIO, new: BinaryIO, older_bytes: int) -> None:
    """Copy a trace, its older bytes at half their resolution; row by row, to need no memory."""
    group: list[bytes] = []
    while old.tell() < older_bytes and (line := old.readline()):
        group.append(line)
        if len(group) == _GROUP:
            new.writelines(_kept(group))
            group = []
    new.writelines(group)
    while part := old.read(_COPIED_BYTES):
        new.write(part)


def _kept(group: list[bytes]) -> list[bytes]:
    """Half of the group: the highest of each figure, and what spreads them over time."""
    if any(_ANOMALY in line for line in group):
        return group
    highest: dict[bytes, tuple[float, int]] = {}
    for at, line in enumerate(group):
        for name in _FIGURES:
            value = max(map(_figure, line.split(name)[1:]), default=-1.0)
            if value > highest.get(name, (-1.0, 0))[0]:
                highest[name] = (value, at)
    chosen = {at for _, at in highest.values()}
    for at in range(0, _GROUP, 2):
        if len(chosen) >= _GROUP // 2:
            break
        chosen.add(at)
    return [group[at] for at in sorted(chosen)]


def _figure(text: bytes) -> float:
    """The number that a part of a row begins with; below all where it is null."""
    digits = text.replace(b"}", b",").partition(b",")[0]
    return float(digits) if digits[:1].isdigit() else -1.0


class UsagePeaks:
    """The contract's usage figures of a run, kept up with each sample. Unknown is None."""

    def __init__(self) -> None:
        self._figures: dict[str, float | None] = dict.fromkeys(USAGE)
        self._last: dict[str, Any] = {}
        self._beyond: dict[str, Any] | None = {}  # for `_last`; None: to be worked out

    def add(self, sample: Sample | Row) -> None:
        """Take a sample in, live or read back."""
        row = sample if isinstance(sample, dict) else sample.to_json()
        if row.get("resolution") == "unresolved":
            return  # nothing was measured: it counts wrappers alone
        figures, highest = tree_figures(row), self._figures
        if figures == self._last:
            return  # most samples of most runs
        self._last, self._beyond = figures, None
        if not figures.get("processes") and highest["peak_processes"] is None:
            return  # it ended before the first sample of it: what it used is unknown
        for name, of_these in USAGE.items():
            before = highest[name]
            for figure in of_these:
                value = figures.get(figure)
                if value is not None and (before is None or value > before):
                    highest[name] = before = value

    def usage(self) -> dict[str, Any]:
        """The numbers, by the contract's names."""
        return dict(self._figures)

    def beyond(self, row: Row) -> dict[str, Any]:
        """What a row that was just added does not show by itself: the peaks above its figures."""
        if row.get("resolution") == "unresolved":
            return {name: value for name, value in self._figures.items() if value is not None}
        if self._beyond is None:
            own = usage_in(self._last)
            self._beyond = {
                name: value for name, value in self._figures.items() if value != own[name]
            }
        return self._beyond


def usage_in(figures: dict[str, Any]) -> dict[str, Any]:
    """The usage that the tree's figures of one row show by themselves."""
    found: dict[str, Any] = {}
    for name, of_these in USAGE.items():
        values = [figures[one] for one in of_these if figures.get(one) is not None]
        found[name] = max(values, default=None)
    return found
