"""trace.jsonl: samples as they are taken, bounded, with their peaks kept.

A trace that can't be written is said once and the run goes on. When it grows too large, the
older half keeps every second row: of each eight those with the most memory, CPU, OOM score and
descriptors, and all eight where an anomaly fired. So no peak is lost, whatever its age.
"""

from __future__ import annotations

import os

from holdfast.process.samples import tree_figures
from holdfast.run.durable import encode
from holdfast.run.trace_rows import tail_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

    from holdfast.process.samples import Sample

    Row = dict[str, Any]

PEAKS = "peaks"  # of a row: the usage so far where it is above the row's own figures
MOST_BYTES = 4 << 20  # half a day of rows; thinning so much takes tens of milliseconds
_GROUP = 8
_FIGURES = (b'"rss_bytes":', b'"cpu_percent":', b'"oom_score":', b'"fd_ratio":')
_ANOMALY = b'"anomalies":'
_COPIED_BYTES = 1 << 18
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class TraceWriter:
    """Appends rows. Only the lock's holder writes a run's trace."""

    def __init__(self, path: str, most_bytes: int = MOST_BYTES) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._fd = -1
        self._size = 0
        self._is_torn = False  # the last line may lack its end
        self._said = False

    def append(self, row: Row) -> str | None:
        """Write a row. What went wrong, the first time that something does; else None."""
        try:
            self._append(encode(row) + b"\n")
        except OSError as error:
            self._let_go()
            if self._said:
                return None
            self._said = True
            return f"the trace can't be written: {error.strerror or error}"
        return None

    def close(self) -> None:
        """Give the descriptor back."""
        self._let_go()

    def _append(self, line: bytes) -> None:
        if self._fd < 0:
            self._open()
        if self._is_torn:
            line = b"\n" + line
        written = os.write(self._fd, line)
        self._size += written
        self._is_torn = written < len(line)
        if self._size > self._most_bytes:
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
            self._fd = -1


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
        self._figures: dict[str, float | None] = dict.fromkeys(_USAGE)
        self._last: dict[str, Any] = {}
        self._beyond: dict[str, Any] | None = {}  # for `_last`; None: to be worked out

    def add(self, sample: Sample | Row) -> None:
        """Take a sample in, live or read back."""
        row = sample if isinstance(sample, dict) else sample.to_json()
        if row.get("resolution") == "unresolved":
            return  # nothing was measured: a count of wrappers is nobody's
        figures, highest = tree_figures(row), self._figures
        if figures == self._last:
            return  # most samples of most runs
        self._last, self._beyond = figures, None
        if not figures.get("processes") and highest["peak_processes"] is None:
            return  # it ended before the first sample of it: it used something, but who knows
        for name, of_these in _USAGE.items():
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
            own = highest(self._last)
            self._beyond = {
                name: value for name, value in self._figures.items() if value != own[name]
            }
        return self._beyond


def highest(figures: dict[str, Any]) -> dict[str, Any]:
    """The usage that the tree's figures of one row show by themselves."""
    found: dict[str, Any] = {}
    for name, of_these in _USAGE.items():
        values = [figures[one] for one in of_these if figures.get(one) is not None]
        found[name] = max(values, default=None)
    return found


# The contract's name, and the tree's figures whose highest value it is.
_USAGE = {
    "peak_rss_bytes": ("rss_bytes", "peak_rss_bytes"),
    "peak_swap_bytes": ("swap_bytes",),
    "cpu_seconds": ("cpu_seconds",),
    "peak_cpu_percent": ("cpu_percent",),
    "peak_oom_score": ("oom_score",),
    "peak_fd_ratio": ("fd_ratio",),
    "read_bytes": ("read_bytes",),
    "write_bytes": ("write_bytes",),
    "peak_processes": ("processes",),
}
