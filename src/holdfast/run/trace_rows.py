"""Reads a stored trace, and believes only what can be true. Pure but for reading the file.

A row that is torn or holds a text for a number is left out and counted. A row of a process that
the run never had as its workload is left out too, and counted by its token. An adopter and a
report read a trace the same way.
"""

from __future__ import annotations

import os

from holdfast.lean import read_json
from holdfast.process.clock import seconds_of
from holdfast.process.sampling.figures import NUMBERS, TEXTS
from holdfast.record import Record
from holdfast.run.anomalies.rule import UNCHANGED_SINCE, Anomaly, Severity, time_of
from holdfast.run.atomic_files import tail_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    Row = dict[str, Any]

_TEXTS = frozenset(("at", "token", "comm", "state", "resolution", *TEXTS))
_NUMBERS = frozenset(("boottime", "quiet_seconds", "log_bytes", "looks", UNCHANGED_SINCE, *NUMBERS))
_OBJECTS = frozenset(("tree", "peaks", "group", "most_threads", "fewest_fds"))
_OF_NUMBERS = (int, float)
_ENDLESS = float("inf")
_LONGEST_TAIL = 65536
_USUAL_TAIL = 4096  # a row has some hundred bytes


class StrangerRows(Record):
    """Rows of a process that is not the run's workload."""

    first: Row
    is_wrapper: bool
    count: int

    def anomaly(self) -> Anomaly:
        """What a live look would have fired at the first of them."""
        what = "a wrapper of the workload" if self.is_wrapper else "never the workload of this run"
        rows = "1 row" if self.count == 1 else f"{self.count} rows"
        return Anomaly(
            "wrapper_traced" if self.is_wrapper else "identity_drift",
            Severity.CRITICAL,
            f"{rows} of the stored trace are of {self.first['token']}, {what}; left out",
            self.first["at"],
            time_of(self.first),
            self.first["token"],
            self.first.get("comm"),
        )


class StoredTrace:
    """The rows of a run's own workload, oldest first; after that, what was left out.

    `workloads` are the tokens that the run resolved to; None: not known, and any row counts.
    """

    def __init__(
        self,
        path: str,
        workloads: Collection[str] | None = None,
        wrappers: Collection[str] = (),
    ) -> None:
        self.damaged = 0
        self._path = path
        self._workloads = workloads
        self._wrappers = wrappers
        self._strangers: dict[str, StrangerRows] = {}

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows():
            token = row.get("token")
            if token is None or self._workloads is None or token in self._workloads:
                yield row
                continue
            known = self._strangers.get(token) or StrangerRows(row, token in self._wrappers, 0)
            self._strangers[token] = known.replace(count=known.count + 1)

    @property
    def anomalies(self) -> list[Anomaly]:
        """What the rows of others come to."""
        return [rows.anomaly() for rows in self._strangers.values()]

    def _rows(self) -> Iterator[Row]:
        try:
            file = open(self._path, "rb")
        except OSError:
            return
        with file:
            for line in file:
                row = _row(line)
                if row is not None:
                    yield row
                elif line.endswith(b"\n") and line.strip():
                    self.damaged += 1  # a last line without its end is being written


def read_rows(path: str) -> Iterator[Row]:
    """The sound rows of a trace, oldest first, of every shim and process."""
    return iter(StoredTrace(path))


def last_row(path: str) -> Row | None:
    """The newest sound row."""
    try:
        size = os.path.getsize(path)
        for most in (_USUAL_TAIL, _LONGEST_TAIL):
            # The first line of a tail may have lost its head: then it is no row.
            for line in reversed(tail_of(path, size, most).split(b"\n")):
                row = _row(line) if line else None
                if row is not None:
                    return row
    except OSError:  # no trace, or none that can be read
        pass
    return None


def _row(line: bytes) -> Row | None:
    try:
        row = read_json(str(line, "utf-8"))
        if not isinstance(row, dict):
            return None
        for name, value in row.items():
            # A list of runs reads a row of each: what is usual takes no call.
            if name in _NUMBERS and type(value) in _OF_NUMBERS and 0 <= value < _ENDLESS:
                continue
            if name in _TEXTS and type(value) is str:
                continue
            if not _is_sound(name, value):
                return None
        seconds_of(row["at"])
    except (ValueError, KeyError, RecursionError):
        return None
    return row


def _is_sound(name: str, value: object) -> bool:
    if value is None:
        return name != "at"
    if name in _TEXTS:
        return isinstance(value, str)
    if name in _NUMBERS:
        return _is_number(value)
    if name in _OBJECTS:
        return isinstance(value, dict) and all(map(_is_plain, value, value.values()))
    if name == "stuck":
        return isinstance(value, list) and all(map(_is_stuck, value))
    return True  # of a later version


def _is_plain(name: str, value: object) -> bool:
    return isinstance(value, str) if name in _TEXTS else value is None or _is_number(value)


def _is_stuck(entry: object) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("token"), str):
        return False
    switches = entry.get("switches")
    return "switches" in entry and (switches is None or _is_number(switches))


def _is_number(value: object) -> bool:
    # Not a flag, not negative, not infinite, and a number at all (NaN is below nothing).
    return type(value) in _OF_NUMBERS and 0 <= value < _ENDLESS  # type: ignore[operator]
